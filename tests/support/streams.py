"""Good streams of each API, changes to them, and what `diff` says: the harness of its tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from recorder.diff import Level, Report, Terms, diff
from recorder.model.events import Event, Exchange
from recorder.wire.recording import recording_of
from tests.support.recordings import Json, Reply, crlf, named, recorded, unnamed

Episode = tuple[Exchange, list[Event]]


def compared(a: Reply | Episode, b: Reply | Episode, *only: Level, **terms: Any) -> Report:
    """Two replies, or exchanges, as each other's only partner."""
    one, other = (recorded(each) if isinstance(each, Reply) else each for each in (a, b))
    return diff([recording_of(*one)], [recording_of(*other)], only, Terms(**terms))


def differing(a: Reply, b: Reply, **terms: Any) -> tuple[Level, ...]:
    """The levels at which two replies differ."""
    return compared(a, b, **terms).differing


def replaced(reply: Reply, old: str, new: str) -> Reply:
    """With another text wherever one stands: a provider that says something else says so everywhere."""
    events = json.loads(json.dumps(reply.events).replace(old, new))
    assert events != list(reply.events), f"nothing says {old}"
    return reply._replace(events=tuple(events))


def _item(step: str, index: int, item: Json) -> Json:
    return {"type": f"response.output_item.{step}", "output_index": index, "item": item}


def _part(step: str, text: str) -> Json:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": f"response.content_part.{step}",
        "item_id": "msg_1",
        "output_index": 0,
        "content_index": 0,
        "part": part,
    }


def _text(step: str, **said: str) -> Json:
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    return {"type": f"response.output_text.{step}", **where, "logprobs": [], **said}


_MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant"}
_SAID = [{"type": "output_text", "text": "It is sunny in Paris.", "annotations": []}]
_CALL = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "look_up"}
_ARGUMENTS = '{"city":"Lyon","days":3}'
_DONE: list[Json] = [
    {**_MESSAGE, "status": "completed", "content": _SAID},
    {**_CALL, "status": "completed", "arguments": _ARGUMENTS},
]
_COUNTS = {"input_tokens": 36, "output_tokens": 87, "total_tokens": 123}


def _arguments(step: str, **said: str) -> Json:
    return {"type": f"response.function_call_arguments.{step}", "item_id": "fc_1", "output_index": 1, **said}


RESPONSES = Reply(
    (
        {
            "type": "response.created",
            "response": {"id": "resp_1", "created_at": 1, "status": "in_progress", "output": []},
        },
        _item("added", 0, {**_MESSAGE, "status": "in_progress", "content": []}),
        _part("added", ""),
        _text("delta", delta="It is", obfuscation="xyz"),
        _text("delta", delta=" sunny", obfuscation="x"),
        _text("delta", delta=" in Paris."),
        _text("done", text="It is sunny in Paris."),
        _part("done", "It is sunny in Paris."),
        _item("done", 0, _DONE[0]),
        _item("added", 1, {**_CALL, "status": "in_progress", "arguments": ""}),
        _arguments("delta", delta='{"city":"'),
        _arguments("delta", delta='Lyon","days":3}'),
        _arguments("done", arguments=_ARGUMENTS),
        _item("done", 1, _DONE[1]),
        {
            "type": "response.completed",
            "response": {"id": "resp_1", "created_at": 1, "status": "completed", "output": _DONE, "usage": _COUNTS},
        },
    ),
    asked={"model": "gpt", "input": "What is the weather?", "stream": True},
).numbered()


def _chunk(delta: Json, reason: str | None = None, **more: Any) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {
        "id": "chat_1",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "gpt",
        "choices": [choice],
        **more,
    }


def _called(**function: str) -> Json:
    return {"tool_calls": [{"index": 0, "function": function}]}


CHAT_REPLY = Reply(
    (
        _chunk({"role": "assistant", "content": ""}),
        _chunk({"content": "It is"}),
        _chunk({"content": " sunny"}),
        _chunk({"content": " in Paris."}),
        _chunk(
            {
                "tool_calls": [
                    {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": ""}}
                ]
            }
        ),
        _chunk(_called(arguments='{"city":"')),
        _chunk(_called(arguments='Lyon","days":3}')),
        _chunk({}, "tool_calls"),
        {**_chunk({}), "choices": [], "usage": {"prompt_tokens": 36, "completion_tokens": 87, "total_tokens": 123}},
    ),
    unnamed,
    "/v1/chat/completions",
)


def _block(step: str, index: int, **more: Any) -> Json:
    return {"type": f"content_block_{step}", "index": index, **more}


def _delta(index: int, type: str, **said: str) -> Json:
    return _block("delta", index, delta={"type": type, **said})


MESSAGES = Reply(
    (
        {
            "type": "message_start",
            "message": {"id": "msg_1", "role": "assistant", "content": [], "usage": {"input_tokens": 36}},
        },
        _block("start", 0, content_block={"type": "text", "text": ""}),
        _delta(0, "text_delta", text="It is"),
        {"type": "ping"},
        _delta(0, "text_delta", text=" sunny"),
        _delta(0, "text_delta", text=" in Paris."),
        _block("stop", 0),
        _block("start", 1, content_block={"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {}}),
        _delta(1, "input_json_delta", partial_json=""),
        _delta(1, "input_json_delta", partial_json='{"city":"'),
        _delta(1, "input_json_delta", partial_json='Lyon","days":3}'),
        _block("stop", 1),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 87}},
        {"type": "message_stop"},
    ),
    named,
    "/v1/messages",
)


def _part_chunk(*parts: Json, reason: str | None = None) -> Json:
    candidate = {"content": {"role": "model", "parts": list(parts)}, **({"finishReason": reason} if reason else {})}
    counts = {
        "promptTokenCount": 36,
        "candidatesTokenCount": 87 if reason else 5,
        "totalTokenCount": 123 if reason else 41,
    }
    return {"candidates": [candidate], "usageMetadata": counts, "responseId": "r_1", "modelVersion": "gemini"}


GEMINI_REPLY = Reply(
    (
        _part_chunk({"text": "It is"}),
        _part_chunk({"text": " sunny"}),
        _part_chunk({"text": " in Paris."}),
        _part_chunk(
            {"functionCall": {"name": "look_up", "args": {"city": "Lyon", "days": 3}}, "thoughtSignature": "abcdef"}
        ),
        _part_chunk({"text": ""}, reason="STOP"),
    ),
    crlf,
    "/v1beta/models/gemini:streamGenerateContent?alt=sse",
)

GOOD: Mapping[str, Reply] = {
    "openai-responses": RESPONSES,
    "openai-chat": CHAT_REPLY,
    "anthropic": MESSAGES,
    "gemini": GEMINI_REPLY,
}
