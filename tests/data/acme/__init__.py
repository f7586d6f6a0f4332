"""A wire format that nobody else knows: its folder, as a stranger would write it.

Its API is `POST /v1/chatter`, answered with `start`, `text` and `end`, each a line of JSON.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from recorder.model.facts import (
    Fact,
    ItemFinished,
    ItemStarted,
    ItemState,
    ResponseFinished,
    ResponseStarted,
    TextAdded,
    Usage,
    UsageReported,
)
from recorder.wire.dialects.decoder import JsonDecoder
from recorder.wire.dialects.dialect import Dialect, NoiseField, RequestNoise, ResponseFields
from recorder.wire.dialects.json_values import as_json, object_, text, whole
from recorder.wire.dialects.keys import KeyExtractor, Named, Payload

_MESSAGE = ItemState("message", "chatter", role="assistant")


class _Decoder(JsonDecoder):
    def payload(self, type: str | None, payload: Any) -> Sequence[Fact]:
        event = object_(payload)
        if type == "start":
            return ResponseStarted(text(event.get("id")), text(event.get("model"))), ItemStarted(
                0, None, _MESSAGE
            )
        if type == "text":
            return (TextAdded(0, "text", 0, text(event.get("text")) or ""),)
        usage = object_(event.get("usage"))
        counts = Usage(input_tokens=whole(usage.get("in")), output_tokens=whole(usage.get("out")))
        ended = ItemFinished(0, None, _MESSAGE), ResponseFinished(text(event.get("reason")))
        return (*ended, UsageReported(counts, as_json(usage))) if type == "end" else ()

    def whole(self, payload: Any) -> Sequence[Fact]:
        return ()


def _name(event: Payload) -> Named:
    return event.type, None, None, None


def _error_body(status: int, message: str, code: str | None) -> dict[str, Any]:
    return {"acme_error": message}


DIALECT = Dialect(
    name="acme-chatter",
    routes=re.compile(r"^POST /(?:.*/)?v1/chatter$"),
    keys=KeyExtractor(Payload, _name),
    decoder=_Decoder,
    terminal={"end": "completed"},
    needs_terminal=True,
    whole_reasons=frozenset({"said"}),
    error_body=_error_body,
    fields=ResponseFields(
        texts=("text",),
        usage=("usage",),
        noise=(NoiseField("id", ("id",), "made anew for each answer"),),
    ),
    request_noise=(RequestNoise("fields", "acme-ticket", "ticket", "made anew for each request"),),
    profiles=("acme",),
    speaks=lambda payload: "chatter" in payload,
    target=lambda is_document, payloads: "/v1/chatter",
)
