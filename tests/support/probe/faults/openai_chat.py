"""What gateways of OpenAI Chat Completions do wrong."""

from __future__ import annotations

import json
import re
from itertools import count

from recorder.demo.reply import Step
from tests.support.probe.gateway import Planted
from tests.support.probe.planting import (
    Json,
    PlantedFault,
    Steps,
    answered,
    any_key,
    as_frames,
    as_html,
    as_is,
    asked,
    both,
    dropped,
    each,
    encoded,
    ended,
    everywhere,
    forgets,
    headed,
    in_document,
    in_stream,
    objects,
    on_error,
    removed,
    streamed,
    together,
    with_body,
    with_status,
    zeroed,
)


def _is_function(found: Json) -> bool:
    return "arguments" in found


def _chat_delta(event: Json) -> tuple[Json, str] | None:
    choices = event.get("choices") or [{}]
    delta = choices[0].get("delta") or {}
    return (delta, "content") if delta.get("content") else None


def _chat_ids(steps: Steps) -> Steps:
    numbers = count()
    for step in steps:
        yield Step(step.at_s, re.sub(rb'"id":"chatcmpl-\w+"', b'"id":"chatcmpl-%d"' % next(numbers), step.take()))


def _one_choice(event: Json) -> None:
    """Keep the first choice alone."""
    if "choices" in event:
        event["choices"] = [choice for choice in event["choices"] if choice["index"] == 0]


def _thinks_aloud(event: Json) -> None:
    """Put the text of reasoning into the answer, between tags."""
    for found in list(objects(event)):
        if found.get("role") == "assistant" and isinstance(found.get("content"), str):
            found["content"] = f"<think>The user wants it short.</think>{found['content']}"


def _first_call_of(event: Json) -> object:
    """Keep the first tool call alone."""
    for found in objects(event):
        if "tool_calls" in found:
            found["tool_calls"] = [
                call for number, call in enumerate(found["tool_calls"]) if call.get("index", number) == 0
            ]
    return True


def _stopped(reason: str) -> Planted:
    """A gateway with a `finish_reason` of its own for every end."""
    return everywhere(each("finish_reason", lambda was: was and reason))


_CHAT_ERROR = (
    b'data: {"id":"chatcmpl-0","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,'
)
_CHAT_ERROR += b'"delta":{"role":"assistant","content":"Error: 400 Bad Request"},"finish_reason":"stop"}]}\n\n'


FAULTS = [
    PlantedFault(
        "chat-no-done",
        "`data: [DONE]` is missing.",
        "text",
        "CH001",
        streamed(as_is(lambda frame: b"" if b"[DONE]" in frame else frame)),
    ),
    PlantedFault(
        "chat-no-finish",
        "The chunk with the `finish_reason` is lost.",
        "text",
        "CH011",
        in_stream(dropped(lambda event: any(each["finish_reason"] for each in event.get("choices", ())))),
    ),
    PlantedFault(
        "chat-content-type",
        "Streams have the content type `text/plain`.",
        "text",
        "HT001",
        answered(headed("content-type", "text/plain; charset=utf-8")),
    ),
    PlantedFault(
        "chat-usage-not-sent",
        "`stream_options` is ignored: no usage where it was asked for.",
        "text",
        "CH012",
        forgets("stream_options"),
    ),
    PlantedFault(
        "chat-usage-zero",
        "All counts of tokens are 0.",
        "text",
        "PR031",
        everywhere(zeroed),
    ),
    PlantedFault(
        "chat-usage-unasked",
        "Usage is sent where it was not asked for.",
        "no-usage",
        "PR034",
        asked(lambda body: body.update(stream_options={"include_usage": True})),
    ),
    PlantedFault(
        "chat-ids",
        "Each chunk has another id.",
        "text",
        "CH004",
        streamed(_chat_ids),
    ),
    PlantedFault(
        "chat-no-role",
        "No delta has a role.",
        "text",
        "CH010",
        in_stream(removed("role")),
    ),
    PlantedFault(
        "chat-one-delta",
        "The text comes in one delta, at the end.",
        "text",
        "PR021",
        streamed(together(_chat_delta)),
    ),
    PlantedFault(
        "chat-thinks-aloud",
        "Reasoning stands in the answer, between `<think>` and `</think>`.",
        "text",
        "PR122",
        everywhere(_thinks_aloud),
    ),
    PlantedFault(
        "chat-list-delta",
        "Deltas have a list whose elements have no `index`: the `thinking_blocks` of LiteLLM.",
        "text",
        "PR150",
        in_stream(each("delta", lambda delta: {**delta, "thinking_blocks": [{"type": "thinking", "thinking": "Hm."}]})),
    ),
    PlantedFault(
        "chat-arguments-cut",
        "The arguments of tools lack their end.",
        "parallel-tools",
        "PR042",
        everywhere(each("arguments", ended, of=_is_function)),
    ),
    PlantedFault(
        "chat-arguments-encoded",
        "The arguments of tools are JSON in a JSON string.",
        "parallel-tools",
        "PR043",
        everywhere(each("arguments", encoded, of=_is_function)),
    ),
    PlantedFault(
        "chat-arguments-object",
        "The arguments of tools are an object in place of a text.",
        "parallel-tools",
        "PR014",
        in_document(each("arguments", json.loads, of=_is_function)),
    ),
    PlantedFault(
        "chat-call-indexes",
        "All tool calls of a stream have the index 0.",
        "parallel-tools",
        "CH020",
        in_stream(each("index", lambda _: 0, of=lambda found: "function" in found)),
    ),
    PlantedFault(
        "chat-one-call",
        "Of parallel calls only the first one is passed on.",
        "parallel-tools",
        "PR041",
        everywhere(_first_call_of),
    ),
    PlantedFault(
        "chat-calls-stop",
        "The `finish_reason` of tool calls is `stop`.",
        "parallel-tools",
        "PR015",
        _stopped("stop"),
    ),
    PlantedFault(
        "chat-cut-stop",
        "The `finish_reason` of an answer that was cut off is `stop`.",
        "max-tokens",
        "PR015",
        _stopped("stop"),
    ),
    PlantedFault(
        "chat-no-limit",
        "The limit of tokens is ignored.",
        "max-tokens",
        "PR070",
        both(forgets("max_tokens"), forgets("max_completion_tokens")),
    ),
    PlantedFault(
        "chat-n-ignored",
        "`n` is ignored.",
        "choices",
        "PR110",
        forgets("n"),
    ),
    PlantedFault(
        "chat-no-choice",
        "`tool_choice` is ignored.",
        "forced-tool",
        "PR050",
        forgets("tool_choice"),
    ),
    PlantedFault(
        "chat-no-schema",
        "`response_format` is ignored.",
        "structured",
        "PR060",
        forgets("response_format"),
    ),
    PlantedFault(
        "chat-any-key",
        "A wrong key is accepted.",
        "wrong-key",
        "PR090",
        any_key,
    ),
    PlantedFault(
        "chat-error-500",
        "A bad request is answered with 500.",
        "bad-request",
        "PR081",
        on_error(400, change=with_status(500)),
    ),
    PlantedFault(
        "chat-error-page",
        "Errors are HTML pages.",
        "bad-request",
        "PR082",
        on_error(400, 401, change=as_html),
    ),
    PlantedFault(
        "chat-error-text",
        "An error is a text in a stream with status 200: `data: Error: …`.",
        "bad-request",
        "PR080",
        on_error(400, change=as_frames(b"data: Error: 400 Bad Request\n\n", b"data: [DONE]\n\n")),
    ),
    PlantedFault(
        "chat-error-answer",
        "An error is the text of an answer.",
        "bad-request",
        "PR080",
        on_error(400, change=as_frames(_CHAT_ERROR, b"data: [DONE]\n\n")),
    ),
    PlantedFault(
        "chat-error-detail",
        "Errors have a `detail`, as FastAPI makes them, and no `error`.",
        "bad-request",
        "PR082",
        on_error(400, 401, change=with_body({"detail": "Bad Request"})),
    ),
]
