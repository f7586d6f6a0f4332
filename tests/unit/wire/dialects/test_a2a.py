"""A2A: which requests are of it, and messages, artifacts and states of a task as items, steps and
ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.model.events import Header
from recorder.projections.fold import Rows
from recorder.replay.matching import Match, Matcher
from recorder.wire.dialects import by_name, by_request
from tests.support.facts import captured, folded
from tests.support.recordings import ask, record
from tests.support.tables import table

A2A = by_name("a2a")
METHODS = {"1.0": "SendStreamingMessage", "0.3": "message/stream", "REST": ""}
NAMES = {
    "task": "task",
    "message": "message",
    "status-update": "statusUpdate",
    "artifact-update": "artifactUpdate",
}
BOTH: Header = ("accept", "application/json, text/event-stream")


def request(method: str = "message/stream", id: Any = "1", **message: Any) -> bytes:
    given = {
        "messageId": "m-1",
        "role": "user",
        "parts": [{"kind": "text", "text": "Report!"}],
        **message,
    }
    return json.dumps(
        {"jsonrpc": "2.0", "id": id, "method": method, "params": {"message": given}}
    ).encode()


def asked(of: str, **message: Any) -> bytes:
    """A request over JSON-RPC; over REST; and the latter as the client of 0.3 for Python names its
    message.
    """
    if of == "params.message":
        return request(**message)
    given = json.loads(request(**message))["params"]["message"]
    return json.dumps({of: given}).encode()


def event(version: str, kind: str, **members: Any) -> bytes:
    """An event in either version: in 0.3 its kind is a member, in 1.0 it is in the member of that
    name.
    """
    result = {"kind": kind, **members} if version == "0.3" else {NAMES[kind]: members}
    payload = result if version == "REST" else {"jsonrpc": "2.0", "id": "1", "result": result}
    return f"data: {json.dumps(payload, ensure_ascii=False)}\n\n".encode()


def status(version: str, state: str, *texts: str) -> bytes:
    name = state if version == "0.3" else f"TASK_STATE_{state.upper().replace('-', '_')}"
    message = (
        {"message": {"messageId": f"m-{state}", "parts": [{"text": text} for text in texts]}}
        if texts
        else {}
    )
    return event(
        version, "status-update", taskId="t-1", contextId="c-1", status={"state": name, **message}
    )


def piece(version: str, id: str, *parts: dict[str, Any], **more: Any) -> bytes:
    artifact = {"artifactId": id, "name": "weather", "parts": parts}
    return event(
        version, "artifact-update", taskId="t-1", contextId="c-1", artifact=artifact, **more
    )


def stream(version: str) -> bytes:
    begun = event(version, "task", id="t-1", contextId="c-1", status={"state": "submitted"})
    pieces = piece(version, "r", {"text": "It is"}) + piece(
        version, "r", {"text": " sunny ☀"}, append=True
    )
    data = piece(version, "d", {"data": {"celsius": 21}}, lastChunk=True)
    return (
        begun
        + status(version, "working", "I look.")
        + pieces
        + data
        + status(version, "completed", "Done.")
    )


def rows(body: bytes, asked: bytes = b"", cuts: Iterable[int] = (), **more: Any) -> Rows:
    return folded(*captured(body, "a2a", cuts=cuts, request=asked or request(), **more))


@table(
    ("target", "headers", "body", "name"),
    [
        ("/", [], request(), "a2a"),
        ("/", [BOTH], request("SendStreamingMessage"), "a2a"),
        ("/", [BOTH], request("tools/call"), "mcp"),
        ("/", [("mcp-session-id", "s")], request("tasks/get"), "mcp"),  # which has tasks, too
        ("/", [], request("eth_call"), "other"),
        ("/agent/v1/message:stream", [], b"{}", "a2a"),
        ("/tenant/tasks/t-1:subscribe", [], b"", "a2a"),
        ("/tasks/t-1", [("A2A-Version", "1.0")], b"", "a2a"),
        ("/tasks/t-1", [], b"", "other"),
    ],
)
def test_the_method_or_the_path_or_a_header_tells_a2a(
    target: str, headers: list[Header], body: bytes, name: str
) -> None:
    assert by_request("POST", target, headers, body).name == name


@pytest.mark.parametrize("version", METHODS)
@given(cuts=st.sets(st.integers(0, 1200)))
def test_messages_artifacts_and_states_are_the_same_in_every_chunking(
    version: str, cuts: set[int]
) -> None:
    made = rows(stream(version), request(METHODS[version]), cuts)
    said = [(item.type, item.name, item.phase, item.text) for item in made["items"]]
    assert said == [
        ("message", None, "working", "I look."),
        ("artifact", "weather", "artifact", "It is sunny ☀"),
        ("artifact", "weather", "artifact", '{"celsius":21}'),
        ("message", None, "completed", "Done."),
    ]
    [exchange] = made["exchanges"]
    assert (exchange.status, exchange.response_id, exchange.finish_reason) == (
        "completed",
        "t-1",
        "completed",
    )
    assert [row.phase for row in made["phases"]] == ["submitted", "working"]
    assert not made["anomalies"]


@pytest.mark.parametrize("version", METHODS)
@pytest.mark.parametrize(
    ("state", "ends", "error"),
    [
        ("input-required", "completed", None),
        ("canceled", "incomplete", None),
        ("cancelled", "incomplete", None),  # of 0.3 over REST
        ("failed", "failed", "Why."),
        ("rejected", "failed", "Why."),
        ("working", "incomplete", None),  # cut off
    ],
)
def test_the_state_of_a_task_is_the_end_of_its_stream(
    version: str, state: str, ends: str, error: str | None
) -> None:
    [exchange] = rows(status(version, state, "Why."))["exchanges"]
    assert (exchange.status, exchange.error) == (ends, error)


def test_a_piece_that_is_not_appended_is_the_artifact_anew() -> None:
    body = (
        piece("1.0", "r", {"text": "draft"})
        + piece("1.0", "r", {"text": "whole"})
        + status("1.0", "completed")
    )
    assert [item.text for item in rows(body)["items"]] == ["whole"]


def test_a_stream_that_is_taken_up_again_goes_on_with_the_artifacts_of_its_task() -> None:
    artifact = {"artifactId": "r", "parts": [{"text": "It is"}]}
    task = event(
        "0.3", "task", id="t-1", contextId="c-1", status={"state": "working"}, artifacts=[artifact]
    )
    body = task + piece("0.3", "r", {"text": " sunny"}, append=True) + status("0.3", "completed")
    made = rows(body, request("tasks/resubscribe"))
    assert [item.text for item in made["items"]] == ["It is sunny"]
    assert not made["anomalies"]


def test_an_artifact_of_a_task_that_goes_on_is_whole_in_a_document() -> None:
    task = {
        "id": "t",
        "status": {"state": "working"},
        "artifacts": [{"artifactId": "r", "parts": [{"text": "Hi"}]}],
    }
    body = json.dumps({"jsonrpc": "2.0", "id": "1", "result": task}).encode()
    assert not rows(body, content_type="application/json")["anomalies"]


@table(
    ("result", "text"),
    [
        ({"message": {"messageId": "m", "parts": [{"text": "Hi"}]}}, "Hi"),
        ({"kind": "message", "messageId": "m", "parts": [{"kind": "text", "text": "Hi"}]}, "Hi"),
        (
            {
                "id": "t",
                "status": {"state": "TASK_STATE_COMPLETED"},
                "artifacts": [{"parts": [{"text": "Hi"}]}],
            },
            "Hi",
        ),
        (
            {"message": {"messageId": "m", "parts": [{"url": "https://x", "mediaType": "a/b"}]}},
            '"url":"https://x"',
        ),
        (
            {"kind": "message", "parts": [{"kind": "file", "file": {"bytes": "aGk="}}]},
            '"size_bytes":2',
        ),
        ({"message": {"messageId": "m", "content": [{"text": "Hi"}]}}, "Hi"),  # in 0.3 over REST
    ],
)
def test_a_document_has_a_message_or_a_task(result: Any, text: str) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": "1", "result": result}).encode()
    made = rows(body, content_type="application/json")
    [item] = made["items"]
    assert text in item.text
    assert not made["anomalies"]


@table(
    ("result", "state"),
    [
        ({"taskId": "t", "status": {"state": "completed"}, "final": True}, "completed"),
        ({"messageId": "m", "parts": []}, "completed"),
        ({"kind": "hologram"}, None),
    ],
)
def test_a_result_without_a_kind_is_told_by_its_members(result: Any, state: str | None) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": "1", "result": result}).encode()
    made = rows(b"data: " + body + b"\n\n")
    assert made["exchanges"][0].finish_reason == state
    assert ("unknown_type" in [row.kind for row in made["anomalies"]]) == (state is None)


def test_an_error_of_json_rpc_is_that_of_the_exchange() -> None:
    body = (
        b'data: {"jsonrpc":"2.0","id":"1","error":{"code":-32602,"message":"no such report"}}\n\n'
    )
    [exchange] = rows(body)["exchanges"]
    assert (exchange.status, exchange.error_code, exchange.error) == (
        "failed",
        "-32602",
        "no such report",
    )


@pytest.mark.parametrize(
    ("of", "id"), [("params.message", "Id"), ("message", "Id"), ("request", "_id")]
)
def test_a_client_with_new_ids_gets_the_recorded_answer(of: str, id: str) -> None:
    recorded = record(ask(asked(of, messageId="m-1"), "/agent"), stream("0.3"))
    renewed = asked(of, **{f"message{id}": "m-9", f"context{id}": "c-9", f"task{id}": "t-9"})
    assert isinstance(Matcher([recorded]).match(ask(renewed, "/agent")), Match)
    other = asked(of, parts=[{"kind": "text", "text": "Wait!"}])
    assert not isinstance(Matcher([recorded]).match(ask(other, "/agent")), Match)


@table(
    ("of", "path"),
    [("params.message", "/"), ("message", "/message:stream"), ("request", "/v1/message:stream")],
)
def test_the_words_of_the_request_are_read(of: str, path: str) -> None:
    facts = A2A.request_facts(path, asked(of))
    assert (facts.text, facts.stream) == ("Report!", True)
