"""Ollama's own API: a line of JSON for each piece, the last one with `done` and the counts of
tokens.

`/api/chat` has a `message`, `/api/generate` a `response` and `thinking` beside it; a document is
one such line, with all of it. Written after the types of the package `ollama` and Ollama's page
"API". Must not know: other wire formats.
"""

from __future__ import annotations

import re
from typing import Any

from recorder.wire.dialects.dialect import (
    Dialect,
    RequestNoise,
    RequestPlaces,
    ResponseFields,
    noise_fields,
    paths,
)
from recorder.wire.dialects.json_values import Object
from recorder.wire.dialects.keys import ERROR, KeyExtractor, Named, Payload
from recorder.wire.dialects.ollama.conversation import OllamaConversation
from recorder.wire.dialects.ollama.decoder import LAST, OllamaDecoder


class _Line(Payload):
    done: Any = None
    message: Any = None
    response: Any = None


def _name(line: _Line) -> Named:
    if line.error:
        return ERROR, None, None, None
    if line.done is True:
        return LAST, None, None, None
    if line.message is not None:
        return "message", None, None, None
    return "response" if line.response is not None else line.type, None, None, None


def error_body(status: int, message: str, code: str | None) -> dict[str, Any]:
    """Return an error in the shape of Ollama's: a text."""
    return {"error": message}


def speaks(payload: Object) -> bool:
    """Return whether a payload is an answer of Ollama's, or a line of one."""
    has_answer = isinstance(payload.get("message"), dict) or isinstance(
        payload.get("response"), str
    )
    return has_answer and isinstance(payload.get("done"), bool) and "created_at" in payload


def is_event(payload: Object) -> bool:
    """Return whether a payload is a line that others follow."""
    return speaks(payload) and payload["done"] is False


_DURATIONS = "total_duration load_duration prompt_eval_duration eval_duration"

DIALECT = Dialect(
    name="ollama",
    routes=re.compile(r"^POST /(?:.*/)?api/(?:chat|generate)$"),
    keys=KeyExtractor(_Line, _name),
    decoder=OllamaDecoder,
    framing="ndjson",  # apps of the AI SDK answer on `/api/chat`, too, with server-sent events
    terminal={LAST: "completed", ERROR: "failed"},
    needs_terminal=True,
    whole_reasons=frozenset({"stop", "load", "unload"}),
    places_calls=True,
    error_body=error_body,
    error_statuses=(400, 404, 429, 500, 502),  # of Ollama's page "Errors"
    conversation=OllamaConversation,
    fields=ResponseFields(
        pieces=paths("message.content message.thinking response thinking"),
        texts=paths(
            """
            message.content message.thinking response thinking
            message.tool_calls.*.function.name message.tool_calls.*.function.arguments
            """
        ),
        usage=("prompt_eval_count", "eval_count"),
        noise=noise_fields(
            f"""
id | message.tool_calls.*.id | made anew for each call
time | created_at {_DURATIONS} | when a piece was made, and how long the answer took
"""
        ),
    ),
    request_noise=(
        RequestNoise(
            "references",
            "ollama-call",
            "messages.*.tool_calls.*.id",
            "joins a call and its result: older servers and clients have none",
            found_by="name",
        ),
    ),
    places=RequestPlaces(
        of_model=paths("messages prompt system"),
    ),
    profiles=("ollama",),
    speaks=speaks,
    is_event=is_event,
    target=lambda is_document, payloads: _target(payloads),
)


def _target(payloads: Any) -> str:
    is_generated = any(isinstance(each, dict) and "response" in each for each in payloads)
    return "/api/generate" if is_generated else "/api/chat"
