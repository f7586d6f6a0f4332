"""A stream can be looked at while it lasts, and played when it is over."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.event_loop import eventually
from tests.support.server import PROGRAM, environment, everywhere, run, serving
from tests.support.sockets import (
    LAST_CHUNK,
    STREAM_HEAD,
    Script,
    ScriptedUpstream,
    Send,
    Wait,
    chunked,
)

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")

DELTA = 'event: response.output_text.delta\ndata: {{"type":"response.output_text.delta","sequence_number":{}}}\n\n'
FRAMES = [DELTA.format(number).encode() for number in range(5)]


@asynccontextmanager
async def process(*command: object, cwd: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process whose output can be read while it runs; killed at the end if it still does."""
    pipe = asyncio.subprocess.PIPE
    started = await asyncio.create_subprocess_exec(
        *map(str, command), stdout=pipe, stderr=pipe, cwd=cwd, env=environment(cwd)
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


async def lines(stream: asyncio.StreamReader | None, count: int) -> list[dict[str, Any]]:
    assert stream is not None
    async with asyncio.timeout(10):
        return [json.loads(await stream.readline()) for _ in range(count)]


async def test_a_stream_is_listed_shown_and_played(tmp_path: Path) -> None:
    db, more = tmp_path / "recorder.db", asyncio.Event()
    script: Script = [
        Send(STREAM_HEAD),
        Send(chunked(*FRAMES[:3])),
        Wait(more),
        Send(chunked(*FRAMES[3:]) + LAST_CHUNK),
    ]
    async with ScriptedUpstream(script) as upstream:
        with serving(db, *everywhere(upstream.base)) as serve:
            curl = ("curl", "-sN", f"{serve.base}/s/demo/v1/responses", "-d", '{"stream":true}')
            async with process(*curl, cwd=tmp_path) as client:
                assert client.stdout is not None
                assert await client.stdout.readexactly(len(b"".join(FRAMES[:3]))) == b"".join(
                    FRAMES[:3]
                )
                await _assert_listed_as(db, "open", frames=3)
                follow = (*PROGRAM, "events", "latest", "--follow", "--jsonl", "--db", db)
                async with process(*follow, cwd=tmp_path) as following:
                    rows = await lines(following.stdout, 6)
                    assert [row["kind"] for row in rows] == [
                        "request",
                        "request",
                        "response",
                        *["frame"] * 3,
                    ]
                    assert client.returncode is None
                    more.set()
                    rows = await lines(following.stdout, 4)
                    assert [row["kind"] for row in rows] == ["frame", "frame", "reads", "end"]
                    assert [row["raw"].encode() for row in rows[:2]] == FRAMES[3:]
                    following.send_signal(signal.SIGINT)
                    rest, complaint = await following.communicate()
                    assert (following.returncode, rest, complaint.strip()) == (130, b"", b"")
                body, _ = await client.communicate()
            assert body == b"".join(FRAMES[3:])
            # clean, but without a terminal event
            await _assert_listed_as(db, "incomplete", frames=5)
            played = await asyncio.to_thread(
                run, db, "replay", "latest", "--speed", "max", "--format", "sse"
            )
    assert played == (0, b"".join(FRAMES), "")


async def _assert_listed_as(db: Path, status: str, *, frames: int) -> None:
    size = len(b"".join(FRAMES[:frames]))

    def listed() -> bool:
        ran = run(db, "sessions", "--json")
        rows = json.loads(ran.out) if ran.code == 0 else []
        assert len(rows) <= 1
        return [(row["name"], row["status"], row["bytes"]) for row in rows] == [
            ("demo", status, size)
        ]

    await eventually(listed)
