"""MCP: which requests are of it, its messages as items and results, and the ids of who asks again."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.ingest.capture import Capture
from recorder.model.events import ExchangeEnd, Header, RequestHead, ResponseHead
from recorder.projections.fold import Rows
from recorder.replay.matching import Match, Matcher, request_of
from recorder.replay.matching.client_ids import renumbered
from recorder.replay.transport import answer
from recorder.wire.dialects import by_name, by_request
from recorder.wire.recording import recording_of
from tests.support.facts import EXCHANGE, MS, captured, folded
from tests.support.tables import table

MCP = by_name("mcp")
BOTH: Header = ("Accept", "application/json, text/event-stream")


def call(id: Any, tool: str = "add", **arguments: Any) -> bytes:
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": id}}
    return json.dumps(
        {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
    ).encode()


def message(**members: Any) -> bytes:
    return (
        b"event: message\r\ndata: "
        + json.dumps({"jsonrpc": "2.0", **members}).encode()
        + b"\r\n\r\n"
    )


def progress(token: Any) -> bytes:
    params = {"progressToken": token, "progress": 1, "total": 2, "message": "half"}
    return message(method="notifications/progress", params=params)


def result(id: Any, *texts: str, **more: Any) -> bytes:
    content = [{"type": "text", "text": text} for text in texts]
    return message(id=id, result={"content": content, **more})


def rows(body: bytes, request: bytes, content_type: str = "text/event-stream") -> Rows:
    return folded(*captured(body, "mcp", request=request, content_type=content_type))


# -- which requests are of it


@table(
    ("headers", "body", "name"),
    [
        ([BOTH], call(1), "mcp"),
        ([("MCP-Protocol-Version", "2026-07-28")], b"", "mcp"),
        ([("mcp-session-id", "s")], b"", "mcp"),
        ([BOTH], b'{"query":"x"}', "other"),
        ([("accept", "text/event-stream")], call(1), "other"),  # A2A
        ([("accept", "application/json")], call(1), "other"),
    ],
)
def test_headers_and_body_tell_mcp_at_any_path(
    headers: list[Header], body: bytes, name: str
) -> None:
    assert by_request("POST", "/tools", headers, body).name == name


def test_the_route_of_another_format_is_stronger() -> None:
    assert by_request("POST", "/v1/messages", [BOTH], call(1)).name == "anthropic"


@table(
    ("target", "name"),
    [
        ("/messages/?session_id=1f", "mcp"),
        ("/shop/messages?sessionId=1f", "mcp"),
        ("/v1/messages?beta=true", "anthropic"),
    ],
)
def test_the_target_of_the_transport_of_2024_is_of_mcp_by_its_query(target: str, name: str) -> None:
    assert by_request("POST", target, [], call(1)).name == name


# -- items


def test_a_call_begins_with_its_request_and_has_the_result_of_the_stream() -> None:
    made = rows(progress(7) + result(7, "3"), call(7, a=1, b=2))
    [item] = made["items"]
    assert (item.kind, item.name, item.call_id, item.arguments) == (
        "tool_call",
        "add",
        "7",
        '{"a":1,"b":2}',
    )
    assert (item.output, item.failed, item.status) == ("3", False, "completed")
    assert (item.began_ns, item.ended_ns) == (0, 2 * MS)
    [phase] = made["phases"]
    assert (phase.phase, phase.detail) == ("half", '{"progress":1,"total":2}')
    assert not made["anomalies"]


def test_a_response_to_a_request_of_another_exchange_is_a_result_of_its_time() -> None:
    made = rows(result(7, "no", isError=True), b"")
    [row] = made["results"]
    assert (row.call_key, row.output, row.failed) == ("7", "no", True)
    assert row.started_ns == EXCHANGE.started_ns + 2 * MS
    assert not made["anomalies"]
    # of no tool
    assert rows(message(id=1, result={"protocolVersion": "2024-11-05"}), b"")["results"] == []


@given(st.sets(st.integers(0, 500)))
def test_a_call_is_the_same_in_every_chunking(cuts: set[int]) -> None:
    body = (
        progress("t")
        + result("t", "é", "two")
        + message(id=None, error={"code": -32700, "message": "no"})
    )
    exchange, events = captured(body, "mcp", cuts=cuts, request=call("t"))
    [item] = folded(exchange, events)["items"]
    assert (item.output, item.failed) == ("é\ntwo", False)


@table(
    ("reply", "failed", "output", "status"),
    [
        (
            {"result": {"content": [{"type": "text", "text": "no"}], "isError": True}},
            True,
            "no",
            "completed",
        ),
        (
            {"error": {"code": -32602, "message": "no"}},
            True,
            '{"code":-32602,"message":"no"}',
            "failed",
        ),
        ({"result": {"content": [], "structuredContent": {"n": 1}}}, False, '{"n":1}', "completed"),
        (
            {"result": {"content": [], "resultType": "input_required"}},
            False,
            None,
            "input_required",
        ),
    ],
)
def test_results_and_errors_of_a_call(
    reply: dict[str, Any], failed: bool, output: str | None, status: str
) -> None:
    document = json.dumps({"jsonrpc": "2.0", "id": 1, **reply}).encode()
    [item] = rows(document, call(1), "application/json")["items"]
    assert (item.failed, item.status) == (failed, status)
    assert output is None or item.output == output


@table(
    ("body", "content_type"),
    [
        (b"Accepted", "text/plain"),
        (b"", "application/json"),
        (b"id: 1\ndata: \n\n" + result(1), "text/event-stream"),
    ],
)
def test_what_only_says_that_an_answer_comes_is_no_anomaly(body: bytes, content_type: str) -> None:
    assert not rows(body, call(1), content_type)["anomalies"]


@pytest.mark.parametrize("body", [b"Accepted", b""])
def test_a_call_that_was_accepted_is_made_and_waits_for_its_result(body: bytes) -> None:
    made = folded(*captured(body, "mcp", request=call(1), content_type="text/plain", status=202))
    [item] = made["items"]
    assert (item.status, item.output, item.ended_ns) == ("completed", None, 0)


def test_an_error_of_json_rpc_is_one_of_the_exchange_and_a_failed_tool_is_not() -> None:
    [refused] = rows(message(id=1, error={"code": -32601, "message": "Method not found"}), call(1))[
        "exchanges"
    ]
    assert (refused.status, refused.error_code, refused.error) == (
        "failed",
        "-32601",
        "Method not found",
    )
    [broken] = rows(result(1, "no", isError=True), call(1))["exchanges"]
    assert (broken.status, broken.error) == ("completed", None)


def test_a_request_of_the_server_is_no_answer_to_a_request_of_the_client_with_its_id() -> None:
    sampling = message(id=1, method="sampling/createMessage", params={"messages": []})
    asked, called = sorted(
        rows(sampling + result(1, "3"), call(1))["items"], key=lambda item: item.kind
    )
    assert (asked.type, asked.output) == ("sampling/createMessage", None)
    assert (called.name, called.output) == ("add", "3")


# -- how a stream ends


@pytest.mark.parametrize(
    ("method", "body", "status"),
    [
        ("GET", b"", "completed"),
        ("GET", progress(1), "completed"),
        ("POST", progress(1), "client_disconnect"),
    ],
)
def test_only_its_reader_ends_the_stream_of_a_get(method: str, body: bytes, status: str) -> None:
    exchange = msgspec.structs.replace(EXCHANGE, api="mcp", method=method, target="/mcp")
    assert recording(exchange, body, "client_disconnect").end.status == status


def recording(exchange: Any, body: bytes, outcome: Any = "eof", request: bytes = b"") -> Any:
    head = RequestHead(
        exchange.exchange_id, exchange.session_id, 0, exchange.method, exchange.target, "shop", []
    )
    capture = Capture(exchange.session_id, exchange.exchange_id, MCP, 0)
    events = capture.request(head, request, wire=request)
    events += capture.response(MS, ResponseHead(200, "OK", [("content-type", "text/event-stream")]))
    events += capture.chunk(2 * MS, body) if body else []
    events += capture.end(3 * MS, ExchangeEnd(outcome))
    return recording_of(exchange, events)


# -- who asks again


def replayed(body: bytes, request: bytes, asked: bytes) -> bytes:
    exchange = msgspec.structs.replace(EXCHANGE, api="mcp", target="/mcp")
    recorded = recording(exchange, body, request=request)
    found = Matcher([recorded]).match(msgspec.structs.replace(request_of(recorded), body=asked))
    assert isinstance(found, Match)
    assert found.renumbered is not None
    return b"".join(
        chunk.data for chunk in answer(renumbered(found.recorded, found.renumbered)).chunks
    )


def test_an_answer_has_the_ids_of_the_client_that_asks_and_every_other_byte_as_it_was() -> None:
    odd = b'data: {"id" : 7,"result":{"n": 1.0,"id":7,"x":"\\u00e9"},"jsonrpc":"2.0"}\n\n'
    ping = message(id=7, method="ping")
    given = replayed(progress(7) + ping + odd, call(7, a=1), call("new", a=1))
    tight = (progress("new") + ping).replace(b'": ', b'":').replace(b", ", b",")
    assert (
        given
        == tight
        + b'data: {"id":"new","result":{"n": 1.0,"id":7,"x":"\\u00e9"},"jsonrpc":"2.0"}\n\n'
    )


def beginning(version: str) -> bytes:
    client = {"name": "agent", "version": version}
    meta = {"io.modelcontextprotocol/clientInfo": client}
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": client,
        "_meta": meta,
    }
    return json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    ).encode()


def test_a_newer_version_of_the_client_gets_the_recorded_answer() -> None:
    exchange = msgspec.structs.replace(EXCHANGE, api="mcp", target="/mcp")
    recorded = recording(exchange, message(id=1, result={}), request=beginning("1.0"))
    asked = msgspec.structs.replace(request_of(recorded), body=beginning("2.0"))
    assert isinstance(Matcher([recorded]).match(asked), Match)


def test_a_long_result_in_parts_has_the_id_of_the_client_too() -> None:
    text = "x" * 200_000
    given = replayed(result(7, text), call(7), call(8))
    assert json.loads(given.partition(b"data: ")[2]) == {
        "jsonrpc": "2.0",
        "id": 8,
        "result": {"content": [{"type": "text", "text": text}]},
    }
