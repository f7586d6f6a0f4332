"""What is noted of a request, and what answers one that asks again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from recorder.replay.matching import Matcher
from recorder.replay.matching.noise import Rules
from recorder.replay.matching.rules import DEFAULT
from recorder.replay.transport import ReplayTransport
from recorder.torture.requests import AskedRequest, GoesOn, NotingTransport
from tests.support.proxy import request_for
from tests.support.recordings import ask, record
from tests.unit.replay.matching.test_client_ids import END

Json = dict[str, Any]

URL = "https://api.openai.com/v1/responses"
USER: Json = {"role": "user", "content": "How many bottles?"}
THOUGHT: Json = {"type": "reasoning", "id": "rs_1", "summary": []}
CALL: Json = {"type": "function_call", "call_id": "call_1", "name": "shell", "arguments": "{}"}
RESULT: Json = {"type": "function_call_output", "call_id": "call_1", "output": "42"}
STRUCK = msgspec.structs.replace(
    record(ask({"model": "m", "input": [USER]}), b"data: {}\n\n"), end=END
)


@pytest.mark.parametrize(
    ("items", "noted", "is_answered"),
    [
        ([USER], AskedRequest(), True),
        ([USER, THOUGHT], AskedRequest(is_again=True), True),
        ([USER, CALL, RESULT], AskedRequest(results=1, is_missed=True, goes_on="otherwise"), False),
        ([USER, THOUGHT, USER], AskedRequest(is_missed=True), False),
    ],
)
async def test_who_asks_again_with_what_had_come_is_answered(
    items: list[Json], noted: AskedRequest, is_answered: bool
) -> None:
    inner = ReplayTransport(Matcher([STRUCK], Rules(DEFAULT, "noise")), speed=None)
    transport = NotingTransport(inner, STRUCK)
    response = await transport.handle_async_request(
        request_for("POST", URL, json={"model": "m", "input": items})
    )
    body = b"".join([chunk async for chunk in response.stream])
    assert (transport.requests, body == STRUCK.body) == ([noted], is_answered)


async def test_who_asks_again_for_a_document_gets_no_stream() -> None:
    inner = ReplayTransport(Matcher([STRUCK], Rules(DEFAULT, "noise")), speed=None)
    transport = NotingTransport(inner, STRUCK)
    question = {"model": "m", "input": [USER, THOUGHT], "stream": True}
    await transport.handle_async_request(request_for("POST", URL, json=question))
    assert transport.requests == [AskedRequest(is_missed=True, is_again=True)], (
        "and the other way round"
    )


@pytest.mark.parametrize("is_error", [False, True])
async def test_who_tells_the_model_that_a_call_failed_has_not_gone_on(is_error: bool) -> None:
    question: Json = {"role": "user", "content": "Which?"}
    call: Json = {"type": "tool_use", "id": "toolu_1", "name": "shell", "input": {}}
    result: Json = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": "No JSON.",
        "is_error": is_error,
    }
    struck = record(
        ask({"model": "m", "messages": [question]}, "/v1/messages", upstream="anthropic"),
        b"data: {}\n\n",
    )
    transport = NotingTransport(
        ReplayTransport(Matcher([struck], Rules(DEFAULT, "noise")), speed=None), struck
    )
    messages = [
        question,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    url = "https://api.anthropic.com/v1/messages"
    await transport.handle_async_request(
        request_for("POST", url, json={"model": "m", "messages": messages})
    )
    goes_on: GoesOn | None = None if is_error else "otherwise"
    assert transport.requests == [AskedRequest(results=1, is_missed=True, goes_on=goes_on)]


@pytest.mark.parametrize(("arguments", "goes_on"), [("{}", "as recorded"), ('{"half', "otherwise")])
async def test_who_goes_on_does_so_with_the_recorded_calls_or_with_others(
    arguments: str, goes_on: GoesOn
) -> None:
    next_one = record(ask({"model": "m", "input": [USER, CALL, RESULT]}), b"data: {}\n\n")
    inner = ReplayTransport(Matcher([STRUCK, next_one], Rules(DEFAULT, "noise")), speed=None)
    transport = NotingTransport(inner, STRUCK, [STRUCK, next_one])
    items = [USER, THOUGHT, {**CALL, "arguments": arguments}, RESULT]
    await transport.handle_async_request(
        request_for("POST", URL, json={"model": "m", "input": items})
    )
    assert transport.requests == [AskedRequest(results=1, is_missed=True, goes_on=goes_on)]


async def test_nothing_is_concluded_from_a_request_of_an_unknown_format() -> None:
    struck = record(ask(b"{}", "/run", upstream="agent"), b"data: {}\n\n")
    transport = NotingTransport(ReplayTransport(Matcher([struck]), speed=None), struck)
    await transport.handle_async_request(
        request_for("POST", "https://agent.invalid/run", json={"id": 1})
    )
    assert transport.requests == [AskedRequest(is_missed=True)]
