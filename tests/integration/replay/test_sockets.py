"""Replay over real sockets, as `recorder mock` serves it: raw client, server, proxy, replay."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from recorder.model.events import Recording
from recorder.proxy.app import Proxy
from recorder.proxy.routing import Routes
from recorder.replay.faults.forms import parse_fault
from recorder.replay.faults.transport import FaultTransport
from recorder.replay.matching import Matcher
from recorder.replay.transport import ReplayTransport
from tests.support.event_loop import eventually, on_uvloop
from tests.support.proxy import get, served
from tests.support.recordings import ask as asks
from tests.support.recordings import record
from tests.support.sdks import asked, of
from tests.support.sockets import RawClient, RawResponse
from tests.unit.replay.matching.test_client_ids import END
from tests.unit.replay.test_transport import EVENT

CREATED = b'data: {"type":"response.created","response":{"id":"resp_1"},"sequence_number":0}\n\n'
FRAMES = [CREATED, *(EVENT % (number, number) for number in range(1, 40))]
BODY = b"".join(FRAMES)
POST = get(
    "/v1/responses",
    b"Content-Type: application/json",
    method="POST",
    body=asked("openai-responses"),
)


@asynccontextmanager
async def mocked(
    *recordings: Recording, faults: tuple[str, ...] = (), strict: bool = True, **how: Any
) -> AsyncIterator[tuple[int, Proxy]]:
    transport: Any = ReplayTransport(Matcher(recordings, strict=strict), **how)
    if faults:
        transport = FaultTransport(transport, [parse_fault(fault) for fault in faults])
    proxy = Proxy(transport, Routes())
    async with served(proxy, proxy.shutdown) as server:
        yield server.port, proxy


async def ask(port: int, request: bytes = POST) -> RawResponse:
    async with await RawClient.connect(port) as client:
        await client.send(request)
        return await client.response()


@on_uvloop
async def test_a_client_gets_the_recorded_bytes() -> None:
    async with mocked(of("openai-responses", BODY), speed=None) as (port, _):
        response = await ask(port)
    assert (response.status, response.body, response.ending) == (b"200 OK", BODY, "complete")
    assert response.header(b"content-type") == b"text/event-stream"


@on_uvloop
async def test_what_broke_off_is_not_ended() -> None:
    for recording, faults in (
        (of("openai-responses", BODY[:-9], outcome="truncated"), ()),
        (of("openai-responses", BODY), ("cut@7",)),
    ):
        async with mocked(recording, speed=None, faults=faults) as (port, _):
            response = await ask(port)
        assert response.body == (b"".join(FRAMES[:7]) if faults else BODY[:-9])
        assert response.ending in ("closed", "reset")


@on_uvloop
async def test_a_clean_end_is_complete_for_http() -> None:
    async with mocked(of("openai-responses", BODY), speed=None, faults=("end@7",)) as (port, _):
        response = await ask(port)
    assert (response.body, response.ending) == (b"".join(FRAMES[:7]), "complete")


@on_uvloop
async def test_after_a_cut_at_every_event_starting_after_gives_the_rest() -> None:
    recording = of("openai-responses", BODY, cuts=list(itertools.accumulate(map(len, FRAMES))))
    async with mocked(recording, speed=None, strict=False) as (port, _):
        for number, frame in enumerate(FRAMES):
            async with await RawClient.connect(port) as client:
                await client.send(POST)
                await client.read_until(frame)
            rest = await ask(port, get(f"/v1/responses/resp_1?stream=true&starting_after={number}"))
            assert (rest.status, rest.ending) == (b"200 OK", "complete")
            assert b"".join(FRAMES[: number + 1]) + rest.body == BODY


@on_uvloop
@pytest.mark.parametrize("after", [39, 40, 10**9])
async def test_after_the_last_event_there_is_an_empty_stream(after: int) -> None:
    async with mocked(of("openai-responses", BODY), speed=None) as (port, _):
        rest = await ask(port, get(f"/v1/responses/resp_1?stream=true&starting_after={after}"))
    assert (rest.status, rest.body, rest.ending) == (b"200 OK", b"", "complete")
    assert rest.header(b"content-type") == b"text/event-stream"


@on_uvloop
async def test_after_the_last_event_of_what_broke_off_nothing_is_known() -> None:
    async with mocked(of("openai-responses", BODY, outcome="truncated"), speed=None) as (port, _):
        rest = await ask(port, get("/v1/responses/resp_1?stream=true&starting_after=39"))
    assert rest.status == b"400 Bad Request"


@on_uvloop
@pytest.mark.parametrize("mine", ["91667", "1234", "123456789"])
async def test_a_client_gets_the_number_of_its_own_process_whatever_its_length(mine: str) -> None:
    """In reads that are cut within the number, and with the length that the body has then."""

    def turn(id: str) -> bytes:
        result = {
            "type": "function_call_output",
            "output": f"Process running with session ID {id}\nOutput:\n",
        }
        return json.dumps(
            {"model": "m", "input": [{"role": "user", "content": "go"}, result]}
        ).encode()

    said = b'data: {"delta":"{\\"session_id\\": %b}"}\n\n'
    made = record(asks(turn("86068")), said % b"86068", said % b"86068")
    half = len(said % b"86068") - 8
    cut = tuple((0, size) for size in (half, 2, 6, len(said % b"86068")))
    async with mocked(msgspec.structs.replace(made, reads=cut, end=END), speed=None) as (port, _):
        given = await ask(port, get("/v1/responses", method="POST", body=turn(mine)))
    assert (given.body, given.ending) == (said % mine.encode() * 2, "complete")


@on_uvloop
async def test_a_miss_says_so() -> None:
    async with mocked(of("openai-responses", BODY)) as (port, _):
        missed = await ask(port, get("/v1/messages", method="POST", body=b"{}"))
    assert (missed.status[:3], missed.header(b"x-recorder-miss")) == (b"400", b"1")
    assert json.loads(missed.body)["error"]["type"] == "invalid_request_error"


@on_uvloop
async def test_a_client_that_leaves_ends_its_replay() -> None:
    async with mocked(of("openai-responses", BODY), speed=1e-6) as (port, proxy):
        async with await RawClient.connect(port) as client:
            await client.send(POST)
            await eventually(lambda: bool(proxy._open))
        await eventually(lambda: not proxy._open)
