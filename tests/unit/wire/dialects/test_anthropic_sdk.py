"""What the messages of Anthropic come to is what anthropic-sdk-python accumulates: whole blocks,
other models.
"""

from __future__ import annotations

import json
from typing import Any

from recorder.projections.fold import Rows
from tests.support.facts import captured, folded
from tests.support.sdks import BASE, answering, anthropic_client
from tests.support.tables import table

USAGE = {"input_tokens": 9, "output_tokens": 1}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "roll", "input": {"sides": 6}}
CALLER = {
    **CALL,
    "id": "toolu_2",
    "input": {},
    "caller": {"type": "code_execution_20250825", "tool_id": "srv_1"},
}
SAID = {"type": "text", "text": "Rolling."}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "AAAA"}


def start(*content: Any, **said: Any) -> dict[str, Any]:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "asked",
        "content": list(content),
    }
    return {
        "type": "message_start",
        "message": {**message, "stop_reason": None, "usage": USAGE, **said},
    }


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, said: str) -> list[dict[str, Any]]:
    return block(index, {"type": "text", "text": ""}, {"type": "text_delta", "text": said})


def handed_over(index: int, given: str, taken: str) -> list[dict[str, Any]]:
    models = {"from": {"model": given}, "to": {"model": taken}}
    return block(
        index, {"type": "fallback", **models, "trigger": {"type": "refusal", "category": None}}
    )


def end(reason: str = "end_turn", **usage: Any) -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5, **usage}},
        {"type": "message_stop"},
    ]


def iteration(type: str, model: str) -> dict[str, Any]:
    counts = {
        "input_tokens": 9,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "output_tokens": 5,
    }
    return {"type": type, "model": model, **counts}


STREAMS: dict[str, list[dict[str, Any]]] = {
    "calls in message_start": [start(SAID, CALL, CALLER), *end("tool_use")],
    "reasoning in message_start": [start(THOUGHT, SAID), *end()],
    "more blocks behind those of message_start": [start(CALL), *text(1, "Rolled."), *end()],
    "the end in message_start too": [start(CALL, stop_reason="tool_use"), {"type": "message_stop"}],
    "a block of message_start that grows": [
        start(SAID),
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": " Now."},
        },
        *end(),
    ],
    "another model takes over": [
        start(),
        *text(0, "I "),
        *handed_over(1, "asked", "other"),
        *text(2, "can."),
        *end(),
    ],
    "a third model takes over": [
        start(),
        *handed_over(0, "asked", "other"),
        *handed_over(1, "other", "third"),
        *text(2, "Yes."),
        *end(iterations=[iteration("message", "asked"), iteration("fallback_message", "third")]),
    ],
}


def bytes_of(events: list[dict[str, Any]]) -> bytes:
    return b"".join(
        f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events
    )


def accumulated(body: bytes) -> Any:
    """The message that the SDK gives at the end."""
    asked: Any = {"model": "asked", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
    with anthropic_client(BASE, http_client=answering(body)) as client:
        with client.beta.messages.stream(**asked) as stream:
            return stream.get_final_message()


def rows_of(body: bytes) -> Rows:
    return folded(*captured(body, "anthropic"))


@table("events", STREAMS.values())
def test_a_message_is_what_the_sdk_says(events: list[dict[str, Any]]) -> None:
    rows, message = rows_of(bytes_of(events)), accumulated(bytes_of(events))
    [exchange], items = rows["exchanges"], rows["items"]
    assert (exchange.response_model, exchange.finish_reason) == (message.model, message.stop_reason)
    assert exchange.response_id == message.id
    assert [row.type for row in items] == [each.type for each in message.content]
    for row, said in zip(items, message.content, strict=True):
        assert row.text == getattr(said, "text", None) or row.text == getattr(
            said, "thinking", None
        )
        assert json.loads(row.arguments or "null") == getattr(said, "input", None)
        assert (row.status, row.ended_ns is not None) == ("completed", True)
    assert rows["anomalies"] == []
    [usage] = rows["usage"]
    assert (usage.input_tokens, usage.output_tokens) == (
        message.usage.input_tokens,
        message.usage.output_tokens,
    )


def test_one_message_alone_has_its_calls_and_its_reason() -> None:
    rows = rows_of(bytes_of([start(CALL, stop_reason="tool_use")]))
    [call] = rows["items"]
    assert (call.call_id, call.arguments) == ("toolu_1", '{"sides":6}')
    assert rows["exchanges"][0].finish_reason == "tool_use"


def test_a_result_that_stands_in_the_beginning_is_its_calls() -> None:
    search = {
        "type": "server_tool_use",
        "id": "srv_1",
        "name": "web_search",
        "input": {"query": "x"},
    }
    result = {
        "type": "web_search_tool_result",
        "tool_use_id": "srv_1",
        "content": [{"type": "text", "text": "found"}],
    }
    [call] = rows_of(bytes_of([start(search, result), *end()]))["items"]
    assert (call.call_id, call.output, call.failed) == ("srv_1", "found", False)


def test_usage_alone_says_which_model_served_in_the_place_of_another() -> None:
    ran = [iteration("message", "asked"), iteration("fallback_message", "other")]
    rows = rows_of(bytes_of([start(), *text(0, "Yes."), *end(iterations=ran)]))
    assert rows["exchanges"][0].response_model == "other"
    assert rows["anomalies"] == []
