"""A turn over WebSocket with a fault: recorded again, as the connection would have brought it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from recorder.model.events import CloseRecord, Recording
from recorder.replay.matching import Match, Matcher, request_of
from recorder.replay.transport import ReplayTransport
from recorder.torture.faulty import recorded_again
from recorder.torture.plan import plan
from recorder.torture.requests import AskedRequest, NotingTransport
from tests.support.proxy import request_for
from tests.support.websocket import answer, turn

MESSAGES = answer("resp_1", ["Hel", "lo"])
TURN = turn({"model": "m", "input": "hi"}, *MESSAGES)
URL = "https://api.openai.com/v1/responses"


async def again(form: str) -> tuple[Recording, Recording]:
    connection, made = await recorded_again(TURN, (form,), None)
    return connection, made


def types(recorded: Recording) -> list[str]:
    return [json.loads(each.raw)["type"] for each in recorded.pieces]


async def test_a_plan_over_websocket_closes_the_connection_where_a_body_would_end() -> None:
    forms = {fault.form for fault in await plan([TURN])}
    assert {
        "close@0:1000",
        "cut@3",
        "cut@3:reset",
        "stall@5",
        "close@6:1000",
        "status:429",
        "error@3:500",
    } <= forms
    assert [form for form in forms if form.startswith(("end", "slice"))] == []


@pytest.mark.parametrize(
    ("form", "outcome", "close"),
    [
        (
            "close@3:1000",
            "truncated",
            CloseRecord("server", 1000, "recorder: a fault closes the connection"),
        ),
        ("cut@3", "truncated", CloseRecord("server")),
        ("cut@3:reset", "upstream_reset", CloseRecord(None)),
    ],
)
async def test_a_connection_that_ends_inside_a_turn_is_recorded_as_it_ended(
    form: str, outcome: str, close: CloseRecord
) -> None:
    connection, made = await again(form)
    assert connection.end is not None
    assert made.end is not None
    assert (types(made), made.end.outcome) == (types(TURN)[:3], outcome)
    assert connection.end.close == close


async def test_an_answer_whose_connection_is_closed_is_answered_with_that_close() -> None:
    found = Matcher(await again("close@3:1000")).match(request_of(TURN))
    assert isinstance(found, Match)
    assert found.hang_up is not None
    assert found.hang_up.code == 1000


async def test_an_error_of_http_is_a_message() -> None:
    _, made = await again("status:429")
    [error] = [json.loads(each.raw) for each in made.pieces]
    assert (error["type"], error["status"]) == ("error", 429)


async def test_an_error_inside_an_answer_has_its_status_as_servers_say_it_over_websocket() -> None:
    _, made = await again("error@3:429")
    assert types(made) == [*types(TURN)[:3], "error"]
    assert json.loads(made.pieces[-1].raw)["status"] == 429


async def test_a_stall_comes_where_it_was_put_and_the_turn_is_whole() -> None:
    connection, made = await again("stall@3")
    assert types(made) == types(TURN)
    assert made.pieces[3].t_ns - made.pieces[2].t_ns > 10**12
    assert connection.end is not None
    assert connection.end.close == CloseRecord("client"), "who has its answer leaves"


async def test_who_asks_again_over_websocket_with_the_whole_conversation_is_answered() -> None:
    call: dict[str, Any] = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "42"}
    asked = {"role": "user", "content": "hi"}
    struck = turn(
        {"model": "m", "input": [result], "previous_response_id": "resp_1"},
        *answer("resp_2"),
        number=2,
    )
    held = [turn({"model": "m", "input": [asked]}, *answer("resp_1")), struck]
    transport = NotingTransport(ReplayTransport(Matcher([]), speed=None), struck, held)
    body = {
        "model": "m",
        "input": [asked, call, result, {"type": "reasoning", "summary": []}],
        "stream": True,
    }
    response = await transport.handle_async_request(request_for("POST", URL, json=body))
    assert response.status_code == 200
    assert transport.requests == [AskedRequest(results=1, is_again=True)]
