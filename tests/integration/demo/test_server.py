"""The demo upstream's server on raw sockets: framing, pace, back-pressure, clients that leave."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import time
import zlib
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import brotli
import httpx
import pytest

from recorder.demo.reply import DemoReply, Step
from recorder.demo.server import BURST_BYTES, DemoServer, _Pump, start
from recorder.errors import UsageError
from tests.support.event_loop import eventually
from tests.support.zstandard import zstd

BODY = json.dumps({"model": "gpt-5.5", "stream": True, "input": "hello"}).encode()


@pytest.fixture
async def demo() -> AsyncIterator[DemoServer]:
    async with await start(pace=0) as server:
        yield server


def post(body: bytes = BODY, *headers: str) -> bytes:
    lines = ["POST /v1/responses HTTP/1.1", "Host: demo", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def load(events: int, **metadata: Any) -> bytes:
    texts = {name: str(value) for name, value in {"events": events, **metadata}.items()}
    return json.dumps({"model": "demo-load", "stream": True, "metadata": texts}).encode()


async def exchange(demo: DemoServer, sent: bytes) -> bytes:
    """Everything that comes back for `sent`, to the end of the first chunked body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", demo.port)
    writer.write(sent)
    received = await reader.readuntil(b"\r\n0\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return received


def chunks(received: bytes) -> list[bytes]:
    """The chunks of a chunked body, without the last."""
    rest = received.partition(b"\r\n\r\n")[2]
    found = []
    while (size := int(rest.partition(b"\r\n")[0], 16)) > 0:
        start = rest.index(b"\r\n") + 2
        found.append(rest[start : start + size])
        rest = rest[start + size + 2 :]
    return found


async def test_every_event_is_a_chunk_of_its_own(demo: DemoServer) -> None:
    found = chunks(await exchange(demo, post()))
    assert len(found) > 50
    assert all(chunk.startswith(b"event: ") and chunk.count(b"\n\n") == 1 for chunk in found)


async def test_several_events_come_in_one_chunk_if_asked(demo: DemoServer) -> None:
    found = chunks(await exchange(demo, post(load(32, rate=1_000), "x-demo-batch: 16")))
    assert [chunk.count(b"\n\n") for chunk in found] == [16, 16, 2]
    assert found != chunks(await exchange(demo, post(load(32, rate=1_000, batch=8))))


DECODERS: dict[str, Callable[[], Callable[[bytes], bytes]]] = {
    "gzip": lambda: zlib.decompressobj(wbits=31).decompress,
    "br": lambda: brotli.Decompressor().process,
    "zstd": lambda: zstd.ZstdDecompressor().decompress,
}


@pytest.mark.parametrize("coding", DECODERS)
async def test_a_coded_stream_can_be_read_event_by_event(demo: DemoServer, coding: str) -> None:
    received = await exchange(demo, post(BODY, f"x-demo-encoding: {coding}"))
    decode = DECODERS[coding]()
    decoded = [decode(chunk) for chunk in chunks(received)]
    assert f"content-encoding: {coding}".encode() in received
    assert all(event.startswith(b"event: ") for event in decoded if event)
    assert b"response.completed" in b"".join(decoded)


@pytest.mark.parametrize(("coding", "encode"), [("gzip", gzip.compress), ("zstd", zstd.compress)])
async def test_request_bodies_may_be_compressed(
    demo: DemoServer, coding: str, encode: Callable[[bytes], bytes]
) -> None:
    sent = encode(BODY)  # once: gzip writes the time
    received = await exchange(demo, post(sent, f"Content-Encoding: {coding}"))
    assert b"response.completed" in received
    assert demo.requests[-1].body == sent


async def test_a_websocket_is_refused_with_426(demo: DemoServer) -> None:
    async with httpx.AsyncClient() as client:
        headers = {"connection": "upgrade", "upgrade": "websocket"}
        assert (await client.get(f"{demo.base_url}/v1/responses", headers=headers)).status_code == 426


@pytest.mark.parametrize("abrupt", [True, False])
async def test_a_client_that_leaves_stops_its_stream_at_once(demo: DemoServer, abrupt: bool) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", demo.port)
    writer.write(post(load(1_000, rate=10)))
    await reader.readuntil(b"response.created")
    assert demo.open == 1
    if abrupt:
        writer.transport.abort()
    else:
        writer.close()
    await eventually(lambda: demo.open == 0)


async def test_a_slow_client_is_waited_for_and_loses_nothing(demo: DemoServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", demo.port, limit=2**16)
    writer.write(post(load(20_000, rate=0, size=1_000)))
    await reader.readuntil(b"response.created")
    await asyncio.sleep(0.3)
    resumed_ns = time.monotonic_ns()
    received = await reader.readuntil(b"}\n\n") + b"".join([part async for part in parts(reader)])
    sent = [int(number) for number in re.findall(rb'"sent_ns":(\d+)', received)]
    assert len(sent) == 20_000
    assert sent[-1] > resumed_ns, "everything was written although nobody read"
    writer.close()


async def parts(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    tail = b""
    while not tail.endswith(b"\r\n0\r\n\r\n"):
        part = await reader.read(2**16)
        tail = (tail + part)[-7:]
        yield part


@pytest.mark.timed
async def test_load_keeps_its_rate_by_absolute_deadlines(demo: DemoServer) -> None:
    started_ns = time.monotonic_ns()
    received = await exchange(demo, post(load(50, rate=100, size=400)))
    sent = [int(number) for number in re.findall(rb'"sent_ns":(\d+)', received)]
    late_s = [(t_ns - started_ns) / 1e9 - 0.01 * number for number, t_ns in enumerate(sent, 1)]
    assert min(late_s) >= -0.001
    assert min(late_s[25:]) < 0.05, "lateness adds up"
    digits = len(str(started_ns)) - 13  # of the time in it, of a machine that runs for an hour
    assert {len(chunk) - digits for chunk in chunks(received)[20:30]} <= {399, 400, 401}


async def test_impossible_loads_are_refused(demo: DemoServer) -> None:
    impossible: list[dict[str, Any]] = [{"events": "many"}, {"rate": -1}, {"batch": 0}, {"size": 10**9}]
    async with httpx.AsyncClient(base_url=demo.base_url) as client:
        replies = [await client.post("/v1/responses", content=load(**{"events": 1, **each})) for each in impossible]
    assert [reply.status_code for reply in replies] == [400] * len(impossible)


async def test_it_listens_on_loopback_only() -> None:
    with pytest.raises(UsageError, match="loopback"):
        await start("0.0.0.0")


async def test_closing_drops_clients_in_mid_stream() -> None:
    demo = await start()
    reader, writer = await asyncio.open_connection("127.0.0.1", demo.port)
    writer.write(post(load(1_000, rate=10)))
    await reader.readuntil(b"response.created")
    await demo.close()
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readuntil(b"response.completed")
    writer.close()


async def test_a_client_that_leaves_in_the_turn_of_the_last_step_costs_no_error() -> None:
    errors: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    exchange: Any = SimpleNamespace(write=lambda data: None, flow=SimpleNamespace(write_paused=False))
    reply = DemoReply(200, (), [Step(0.0, bytes(BURST_BYTES)), Step(0.0, b"the last")])
    async with asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(_Pump(exchange, reply, 0.0).send())
        await asyncio.sleep(0)  # the first step is sent, the last is for the next turn
        sending.cancel()
    assert not errors


async def test_a_slow_story_comes_slowly_from_a_fast_server(demo: DemoServer) -> None:
    """Not before its time: a busy machine is only later."""
    body, began = b'{"model":"m","input":"a slow story","stream":true}', time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", demo.port)
    writer.write(post(body))
    await reader.readuntil(b"output_text.delta")
    assert time.monotonic() - began > 1
    writer.close()


async def test_a_body_ends_a_while_behind_its_last_event() -> None:
    async with await start(pace=0, linger_s=0.2) as demo:
        reader, writer = await asyncio.open_connection("127.0.0.1", demo.port)
        began = time.monotonic()
        writer.write(post())
        assert await reader.readuntil(b"event: response.completed")
        assert await reader.readuntil(b"\r\n0\r\n\r\n")
        assert time.monotonic() - began > 0.2
        writer.close()
