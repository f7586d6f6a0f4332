"""What gateways of OpenAI Chat Completions do wrong."""

from __future__ import annotations

import json
import re
from itertools import count

from tests.support.probe.gateway import Planted
from tests.support.probe.planting import (
    Json,
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
    faults,
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
from tests.support.provider.reply import Step


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


FAULTS = faults(
    """\
chat-no-done | text | CH001 | `data: [DONE]` is missing.
chat-no-finish | text | CH011 | The chunk with the `finish_reason` is lost.
chat-content-type | text | HT001 | Streams have the content type `text/plain`.
chat-usage-not-sent | text | CH012 | `stream_options` is ignored: no usage where it was asked for.
chat-usage-zero | text | PR031 | All counts of tokens are 0.
chat-usage-unasked | no-usage | PR034 | Usage is sent where it was not asked for.
chat-ids | text | CH004 | Each chunk has another id.
chat-no-role | text | CH010 | No delta has a role.
chat-one-delta | text | PR021 | The text comes in one delta, at the end.
chat-thinks-aloud | text | PR122 | Reasoning stands in the answer, between `<think>` and `</think>`.
chat-list-delta | text | PR150 | Deltas have a list whose elements have no `index`: the `thinking_blocks` of LiteLLM.
chat-arguments-cut | parallel-tools | PR042 | The arguments of tools lack their end.
chat-arguments-encoded | parallel-tools | PR043 | The arguments of tools are JSON in a JSON string.
chat-arguments-object | parallel-tools | PR014 | The arguments of tools are an object in place of a text.
chat-call-indexes | parallel-tools | CH020 | All tool calls of a stream have the index 0.
chat-one-call | parallel-tools | PR041 | Of parallel calls only the first one is passed on.
chat-calls-stop | parallel-tools | PR015 | The `finish_reason` of tool calls is `stop`.
chat-cut-stop | max-tokens | PR015 | The `finish_reason` of an answer that was cut off is `stop`.
chat-no-limit | max-tokens | PR070 | The limit of tokens is ignored.
chat-n-ignored | choices | PR110 | `n` is ignored.
chat-no-choice | forced-tool | PR050 | `tool_choice` is ignored.
chat-no-schema | structured | PR060 | `response_format` is ignored.
chat-any-key | wrong-key | PR090 | A wrong key is accepted.
chat-error-500 | bad-request | PR081 | A bad request is answered with 500.
chat-error-page | bad-request | PR082 | Errors are HTML pages.
chat-error-text | bad-request | PR080 | An error is a text in a stream with status 200: `data: Error: …`.
chat-error-answer | bad-request | PR080 | An error is the text of an answer.
chat-error-detail | bad-request | PR082 | Errors have a `detail`, as FastAPI makes them, and no `error`.
""",
    {
        "chat-no-done": streamed(as_is(lambda frame: b"" if b"[DONE]" in frame else frame)),
        "chat-no-finish": in_stream(
            dropped(lambda event: any(each["finish_reason"] for each in event.get("choices", ())))
        ),
        "chat-content-type": answered(headed("content-type", "text/plain; charset=utf-8")),
        "chat-usage-not-sent": forgets("stream_options"),
        "chat-usage-zero": everywhere(zeroed),
        "chat-usage-unasked": asked(lambda body: body.update(stream_options={"include_usage": True})),
        "chat-ids": streamed(_chat_ids),
        "chat-no-role": in_stream(removed("role")),
        "chat-one-delta": streamed(together(_chat_delta)),
        "chat-thinks-aloud": everywhere(_thinks_aloud),
        "chat-list-delta": in_stream(
            each("delta", lambda delta: {**delta, "thinking_blocks": [{"type": "thinking", "thinking": "Hm."}]})
        ),
        "chat-arguments-cut": everywhere(each("arguments", ended, of=_is_function)),
        "chat-arguments-encoded": everywhere(each("arguments", encoded, of=_is_function)),
        "chat-arguments-object": in_document(each("arguments", json.loads, of=_is_function)),
        "chat-call-indexes": in_stream(each("index", lambda _: 0, of=lambda found: "function" in found)),
        "chat-one-call": everywhere(_first_call_of),
        "chat-calls-stop": _stopped("stop"),
        "chat-cut-stop": _stopped("stop"),
        "chat-no-limit": both(forgets("max_tokens"), forgets("max_completion_tokens")),
        "chat-n-ignored": forgets("n"),
        "chat-no-choice": forgets("tool_choice"),
        "chat-no-schema": forgets("response_format"),
        "chat-any-key": any_key,
        "chat-error-500": on_error(400, change=with_status(500)),
        "chat-error-page": on_error(400, 401, change=as_html),
        "chat-error-text": on_error(400, change=as_frames(b"data: Error: 400 Bad Request\n\n", b"data: [DONE]\n\n")),
        "chat-error-answer": on_error(400, change=as_frames(_CHAT_ERROR, b"data: [DONE]\n\n")),
        "chat-error-detail": on_error(400, 401, change=with_body({"detail": "Bad Request"})),
    },
)
