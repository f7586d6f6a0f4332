"""SIGKILL to the whole tree in mid-stream: what a client has received is in the log, in order, once."""

from __future__ import annotations

import asyncio
import json
import random
import re
from pathlib import Path

import pytest

from recorder.demo.server import start
from tests.acceptance.logbook import Entry, assert_chained, entries
from tests.log_rows import projections
from tests.loops import eventually
from tests.serving import everywhere, run, serving
from tests.sockets import RawClient, RawResponse

STREAMS = 20
LIVE_S = (0.05, 1.0)  # how long streams have lived when the kill comes

_NUMBER = re.compile(rb'"sequence_number":(\d+)\}\n\n')


def load(rate: int) -> bytes:
    """A request for a stream that outlives its recorder."""
    metadata = {"events": "1000000", "rate": str(rate), "size": "300"}
    body = json.dumps({"model": "demo-load", "stream": True, "metadata": metadata, "input": "go"}).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


async def stream(port: int, session: str, rate: int) -> RawResponse:
    async with await RawClient.connect(port) as client:
        await client.send(f"POST /s/{session}/v1/responses HTTP/1.1\r\nHost: localhost\r\n".encode() + load(rate))
        try:
            return await client.response()
        except ConnectionError:  # before there was a response
            return RawResponse(b"", [], b"", "closed")


async def killed_in_mid_stream(db: Path, base: str, names: list[str], dice: random.Random) -> list[bytes]:
    """What each client has received when recorder and ingester are killed. Some are slow, some as fast as can be."""
    with serving(db, *everywhere(base)) as serve:
        async with asyncio.TaskGroup() as tasks:
            rates = [dice.choice((5, 100, 100, 1000)) for _ in names]
            streams = [tasks.create_task(stream(serve.port, *each)) for each in zip(names, rates, strict=True)]
            await asyncio.sleep(dice.uniform(*LIVE_S))
            serve.kill()
        responses = [task.result() for task in streams]
    assert all(response.ending != "complete" for response in responses)
    return [response.body for response in responses]


def assert_whole(entry: Entry, received: bytes) -> None:
    assert entry.body.startswith(received), f"{entry.session}: the client had what the log has not"
    numbers = [int(number) for number in _NUMBER.findall(entry.body)]
    assert numbers == list(range(len(numbers)))
    assert (entry.end["status"], entry.end["gap_chunks"]) == ("recorder_crash", 0)


async def rounds(db: Path, count: int, seed: int) -> None:
    dice, had = random.Random(seed), dict[str, bytes]()
    async with await start() as demo:
        for number in range(count):
            names = [f"{number}-{client}" for client in range(STREAMS)]
            had |= dict(zip(names, await killed_in_mid_stream(db, demo.base_url, names, dice), strict=True))
            if number % 2:
                assert (await asyncio.to_thread(run, db, "db", "recover")).code == 0
            else:
                with serving(db):  # which recovers by itself
                    await eventually(lambda: len(list(Path(f"{db}.journal").iterdir())) == 1, 20)  # its own
    found = {entry.session: entry for entry in entries(db)}
    assert any(had.values())
    assert {name for name, body in had.items() if body} <= set(found)
    for name, entry in found.items():
        assert_whole(entry, had[name])
    assert_chained(found.values())
    as_it_came = projections(db)
    assert len(as_it_came["p_timing_v1"]) == len(found)
    assert (await asyncio.to_thread(run, db, "db", "rebuild")).code == 0
    assert projections(db) == as_it_came
    assert list(Path(f"{db}.journal").iterdir()) == []


async def test_what_a_client_had_survives_a_kill(tmp_path: Path) -> None:
    await rounds(tmp_path / "recorder.db", 3, seed=random.randrange(2**32))


@pytest.mark.slow
async def test_what_a_client_had_survives_many_kills(tmp_path: Path) -> None:
    await rounds(tmp_path / "recorder.db", 20, seed=random.randrange(2**32))
