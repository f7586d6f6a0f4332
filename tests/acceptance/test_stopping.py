"""Ctrl-C and SIGTERM in mid-stream: soon over, everything committed, and said what became of the
streams.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.logbook import assert_chained, entries
from tests.support.provider.server import start
from tests.support.server import Serving, everywhere, serving
from tests.support.sockets import RawClient, RawResponse

pytestmark = pytest.mark.timed

STREAMS = 20
BUSY, IDLE = 100, 1  # events a second

STOPPED_S = 8.0
STOPPED_AT_ONCE_S = 1.5


Signal = Callable[[Serving], None]


def load(rate: int) -> bytes:
    """A request for a stream that outlives its recorder."""
    metadata = {"events": "1000000", "rate": str(rate), "size": "300"}
    body = json.dumps(
        {"model": "demo-load", "stream": True, "metadata": metadata, "input": "go"}
    ).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


async def stream(port: int, session: str, rate: int) -> RawResponse:
    async with await RawClient.connect(port) as client:
        await client.send(
            f"POST /s/{session}/v1/responses HTTP/1.1\r\nHost: localhost\r\n".encode() + load(rate)
        )
        try:
            return await client.response()
        except ConnectionError:  # before there was a response
            return RawResponse(b"", [], b"", "closed")


def ctrl_c(serve: Serving) -> None:
    serve.interrupt()


def sigterm(serve: Serving) -> None:
    os.kill(serve.process.pid, signal.SIGTERM)


async def stopped(
    serve: Serving, send: Signal, signals: int
) -> tuple[float, dict[str, RawResponse]]:
    """How long a recorder took to end with 20 live streams, and what their clients got."""
    async with asyncio.TaskGroup() as tasks:
        streams = {
            f"s{number}": tasks.create_task(
                stream(serve.port, f"s{number}", IDLE if number % 2 else BUSY)
            )
            for number in range(STREAMS)
        }
        await asyncio.sleep(0.5)
        for number in range(signals):
            began = time.monotonic()
            send(serve)
            await asyncio.sleep(0.2 if number + 1 < signals else 0)
        code = await asyncio.to_thread(serve.process.wait, 15)
        took_s = time.monotonic() - began
    assert code == 0
    assert f"open streams ({STREAMS})" in serve.said
    assert "Traceback" not in serve.said
    return took_s, {name: task.result() for name, task in streams.items()}


SIGNALS = (ctrl_c, sigterm)


def assert_committed(db: Path, responses: dict[str, RawResponse]) -> None:
    found = {entry.session: entry for entry in entries(db)}
    assert set(found) == set(responses)
    for name, response in responses.items():
        assert response.ending != "complete", "an end that was none"
        assert found[name].body.startswith(response.body)
        assert found[name].end["status"] == "recorder_shutdown"
    assert_chained(found.values())
    assert list(Path(f"{db}.journal").iterdir()) == []


async def test_a_signal_ends_streams_after_their_grace(tmp_path: Path) -> None:
    with contextlib.ExitStack() as recorders:
        async with await start() as demo:
            serves = [
                recorders.enter_context(
                    serving(tmp_path / f"{send.__name__}.db", *everywhere(demo.base_url))
                )
                for send in SIGNALS
            ]
            runs = await asyncio.gather(
                *(stopped(serve, send, 1) for serve, send in zip(serves, SIGNALS, strict=True))
            )
    for serve, (took_s, responses) in zip(serves, runs, strict=True):
        assert took_s <= STOPPED_S
        assert_committed(serve.db, responses)


@pytest.mark.parametrize("send", SIGNALS)
async def test_a_second_signal_ends_them_at_once(tmp_path: Path, send: Signal) -> None:
    async with await start() as demo:
        with serving(tmp_path / "recorder.db", *everywhere(demo.base_url)) as serve:
            took_s, responses = await stopped(serve, send, 2)
    assert took_s <= STOPPED_AT_ONCE_S
    assert_committed(serve.db, responses)
