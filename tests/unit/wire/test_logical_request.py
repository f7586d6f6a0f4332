"""The request as the model saw it, put together from a chain."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.model.events import Recording
from recorder.model.facts import Links
from recorder.wire import logical_request
from recorder.wire.logical_request import LogicalRequest, LogicalRequests, links_in
from tests.support.conversations import (
    CALL,
    RESULT,
    THOUGHT,
    answer,
    asks,
    by_delta,
    items_of,
    made,
    said,
    user,
    whole_history,
)
from tests.support.corpus import TRANSCRIPTS
from tests.support.websocket import needs_transcripts


def logical(recordings: list[Recording], number: int = -1) -> LogicalRequest:
    return LogicalRequests(recordings).of(recordings[number])


@pytest.mark.parametrize("turn", [False, True])
def test_a_delta_is_put_behind_what_it_continues(turn: bool) -> None:
    found = logical(by_delta(turn=turn))
    assert items_of(found.parts) == [
        {"role": "user", "content": "Roll two dice."},
        *(THOUGHT, CALL, RESULT, said("You rolled 7."), user("Again?")),
    ]
    assert [(part.source, part.number, len(part.items)) for part in found.parts] == [
        *(("input", 1, 1), ("output", 1, 2), ("input", 2, 1), ("output", 2, 1), ("input", 3, 1)),
    ]
    assert (found.depth, found.is_complete, found.missing_id, found.reason) == (2, True, None, None)
    assert {name: each for name, each in found.body().items() if name != "input"} == {
        "model": "m",
        "stream": True,
    }


def test_nothing_but_items_is_inherited() -> None:
    first = made(
        1, asks("Hi", instructions="Be brief.", tools=[{"name": "a"}]), answer("resp_1", said("Hi"))
    )
    second = made(2, asks("So?", "resp_1", tools=[{"name": "b"}]), [])
    assert logical([first, second]).fields == {
        "model": "m",
        "stream": True,
        "tools": [{"name": "b"}],
    }


def test_a_message_over_websocket_is_the_request_that_it_stands_for() -> None:
    prewarm = made(
        1,
        {"type": "response.create", "generate": False, **asks([user("x")])},
        answer("resp_w"),
        turn=True,
    )
    turn = made(
        2,
        {"type": "response.create", "stream_id": "a", **asks([user("y")], "resp_w")},
        [],
        turn=True,
    )
    found = logical([prewarm, turn])
    assert found.fields == {"model": "m", "stream": True}
    assert items_of(found.parts) == [user("x"), user("y")]
    assert logical([prewarm]).fields == {"generate": False, "model": "m", "stream": True}


def test_a_link_that_was_not_recorded_stays_and_is_named() -> None:
    found = logical(by_delta()[1:])
    assert (found.depth, found.is_complete, found.missing_id) == (1, False, "resp_1")
    assert found.reason == "response resp_1 was not recorded here"
    assert found.fields["previous_response_id"] == "resp_1"
    assert items_of(found.parts) == [RESULT, said("You rolled 7."), user("Again?")]


def test_a_link_leads_to_the_last_exchange_before() -> None:
    """Servers of tests give every response the same id, and may even name it as its own."""
    every = [
        made(number, asks(str(number), "resp_1"), answer("resp_1", said(f"{number}!")))
        for number in (1, 2, 3)
    ]
    found = logical(every, 1)
    assert (found.depth, found.missing_id) == (1, "resp_1")
    assert [item.get("content") for item in items_of(found.parts)] == [
        "1",
        said("1!")["content"],
        "2",
    ]


def test_a_conversation_has_what_was_recorded_of_it_and_is_never_complete() -> None:
    first = made(1, asks("Hi", conversation="conv_1"), answer("resp_1", said("Hello")))
    other = made(2, asks("Hi", conversation="conv_2"), answer("resp_2", said("Hello")))
    second = made(3, asks("So?", conversation={"id": "conv_1"}), answer("resp_3"))
    found = logical([first, other, second])
    assert [part.number for part in found.parts] == [1, 1, 3]
    assert (found.is_complete, found.missing_id) == (False, "conv_1")
    assert found.reason == "conversation conv_1 may have had items before"


def test_of_a_response_that_was_retrieved_later_the_most_is_taken() -> None:
    queued = {"object": "response", "id": "resp_1", "status": "queued", "output": []}
    whole = {"object": "response", "id": "resp_1", "status": "completed", "output": [said("Done.")]}
    every = [
        made(1, asks("Hi", background=True), document=queued),
        made(2, None, document=whole),
        made(3, asks("So?", "resp_1")),
    ]
    assert items_of(logical(every).parts)[1] == said("Done.")


def test_the_last_id_of_a_response_whose_ids_rotate_is_one_of_it() -> None:
    events = [*answer("resp_a", said("Hi"))[:-1], answer("resp_b", said("Hi"))[-1]]
    assert logical([made(1, asks("Hi"), events), made(2, asks("So?", "resp_b"))]).is_complete


def test_both_ways_to_send_a_conversation_compare_equal() -> None:
    deltas, whole = by_delta(), whole_history()
    one, other = LogicalRequests(deltas, compared=True), LogicalRequests(whole, compared=True)
    for a, b in zip(deltas, whole, strict=True):
        assert json.loads(msgspec.json.encode(one.of(a).body())) == json.loads(
            msgspec.json.encode(other.of(b).body())
        )


def test_a_request_that_is_not_recorded_goes_on_from_what_is() -> None:
    body = json.dumps(asks("More?", "resp_3")).encode()
    found = LogicalRequests(by_delta()).of_body("/v1/responses", body)
    assert (found.depth, len(items_of(found.parts))) == (3, 8)


@pytest.mark.parametrize(
    "target", ["/v1/chat/completions", "/v1beta/models/g:generateContent", "/x"]
)
def test_formats_without_links_are_whole_as_they_were_sent(target: str) -> None:
    body = {"messages": [], "previous_response_id": "resp_1"}
    found = LogicalRequests([]).of_body(target, json.dumps(body).encode())
    assert found == LogicalRequest(body, None)
    assert links_in(target, json.dumps(body).encode()) == Links()


def thread(
    number: int, body: dict[str, Any], *events: dict[str, Any], document: Any = None
) -> Recording:
    """An exchange with Anthropic Messages."""
    made_so = made(number, body, events, document=document)
    ids = {"api": "anthropic", "target": "/v1/messages"}
    return msgspec.structs.replace(
        made_so, exchange=msgspec.structs.replace(made_so.exchange, **ids)
    )


def block(step: str, index: int, **fields: Any) -> dict[str, Any]:
    return {"type": f"content_block_{step}", "index": index, **fields}


USE = {"type": "tool_use", "id": "toolu_1", "name": "roll", "input": {"dice": 2}}
ASKED = {"role": "user", "content": "Roll."}
TOLD = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "7"}],
}


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_thread_is_put_together_message_by_message(is_stream: bool) -> None:
    events = [
        {"type": "message_start", "message": {"id": "msg_1", "content": []}},
        block("start", 0, content_block={"type": "thinking", "thinking": ""}),
        block("delta", 0, delta={"type": "thinking_delta", "thinking": "Hm."}),
        block("delta", 0, delta={"type": "signature_delta", "signature": "abc"}),
        block("start", 1, content_block={**USE, "input": {}}),
        block("delta", 1, delta={"type": "input_json_delta", "partial_json": '{"dice"'}),
        block("delta", 1, delta={"type": "input_json_delta", "partial_json": ":2}"}),
    ]
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "abc"}
    document = {"type": "message", "id": "msg_1", "content": [thought, USE]}
    first = {"model": "m", "thread": {"type": "create"}, "messages": [ASKED]}
    link = {"type": "continue", "previous_message_id": "msg_1"}
    second = thread(2, {"model": "m", "thread": link, "messages": [TOLD]})
    answered = thread(1, first, *events) if is_stream else thread(1, first, document=document)
    found = logical([answered, second])
    assert found.body().keys() == {"model", "messages"}
    assert items_of(found.parts) == [ASKED, {"role": "assistant", "content": [thought, USE]}, TOLD]
    whole = thread(
        1, {"model": "m", "messages": [ASKED, {"role": "assistant", "content": [USE]}, TOLD]}
    )
    bodies = [
        LogicalRequests(every, compared=True).of(every[-1]).encoded()
        for every in ([answered, second], [whole])
    ]
    assert json.loads(bodies[0]) == json.loads(bodies[1])


@given(st.binary())
def test_no_body_makes_it_raise(body: bytes) -> None:
    assert LogicalRequests([]).of_body("/v1/responses", body).is_complete


def test_a_chain_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logical_request, "LINKS_LIMIT", 1)
    found = logical(by_delta())
    assert (found.depth, found.is_complete, found.missing_id) == (1, False, "resp_1")
    assert found.reason == "only 1 link back can be followed"


def test_its_items_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logical_request, "MEMORY_LIMIT", 2**20)
    first = made(1, asks("x" * 2**20), answer("resp_1", said("Hi")))
    found = logical([first, made(2, asks("So?", "resp_1"))])
    assert [part.source for part in found.parts] == ["output", "input"]
    assert (found.is_complete, found.reason) == (False, "the items before take over 1 MiB")


def turns(name: str) -> list[Recording]:
    """The turns of a recorded connection, each a request and the messages that answer it."""
    lines = map(json.loads, (TRANSCRIPTS / f"{name}-frames.jsonl").read_text().splitlines())
    found: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    for message in (line["data"] for line in lines if isinstance(line.get("data"), dict)):
        if message.get("type") == "response.create":
            found.append((message, []))
        elif found:
            found[-1][1].append(message)
    return [made(number, *each, turn=True) for number, each in enumerate(found, 1)]


@needs_transcripts
def test_a_turn_of_codex_is_put_together_from_its_prewarm_on() -> None:
    found = logical(turns("codex-0.169"))
    assert (found.depth, found.is_complete) == (2, True)
    assert [item["type"] for item in items_of(found.parts)] == [
        *(
            "message",
            "message",
            "message",
            "message",
            "reasoning",
            "function_call",
            "function_call_output",
        ),
    ]
    assert "generate" not in found.fields
    assert "tools" in found.fields
