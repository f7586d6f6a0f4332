"""The limit of open files: raised at the start, and near it new clients are told, while streams go
on.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from recorder.proxy.http.server_capacity import capacity
from tests.support.event_loop import on_uvloop
from tests.support.proxy import get
from tests.support.server import PROGRAM, environment, everywhere, serving
from tests.support.sockets import (
    LAST_CHUNK,
    STREAM_HEAD,
    Action,
    RawClient,
    RawResponse,
    ScriptedUpstream,
    Send,
    Wait,
    chunked,
)

LIMIT = 160
ASKED = 3 * LIMIT  # clients at once: more than there are descriptors
BODY = b"x" * 200_000  # more than a socket takes: it is read before it is refused

linux = pytest.mark.skipif(sys.platform != "linux", reason="there is /proc")


def _limits(pid: int) -> tuple[str, str]:
    found = re.search(
        r"^Max open files\s+(\w+)\s+(\w+)", Path(f"/proc/{pid}/limits").read_text(), re.MULTILINE
    )
    assert found
    return found[1], found[2]


@linux
def test_the_soft_limit_is_raised_to_the_hard_one(tmp_path: Path) -> None:
    with serving(tmp_path / "recorder.db", ulimit="-Sn 100") as serve:
        soft, hard = _limits(serve.process.pid)
        assert soft == hard != "100"


HAS_ITS_LIMIT = """
import resource, sys, time
for _ in range(6000):
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 100:
        sys.exit(7)
    time.sleep(0.01)
"""


@linux
def test_a_command_that_is_run_keeps_the_limit_that_it_had(tmp_path: Path) -> None:
    limited = ["sh", "-c", 'ulimit -Sn 100; exec "$@"', "sh", *PROGRAM]
    words = [
        "run",
        "--db",
        str(tmp_path / "recorder.db"),
        "--",
        sys.executable,
        "-c",
        HAS_ITS_LIMIT,
    ]
    done = subprocess.run(
        [*limited, *words], env=environment(tmp_path), capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 7, done


@linux
@on_uvloop
async def test_who_comes_when_there_is_no_room_is_told_and_streams_go_on(tmp_path: Path) -> None:
    """D14: nobody is reset, and nobody waits for ever."""
    served, go_on = capacity(LIMIT).served, asyncio.Event()
    script: list[Action] = [
        Send(STREAM_HEAD + chunked(b"data: 1\n\n")),
        Wait(go_on),
        Send(chunked(b"data: 2\n\n") + LAST_CHUNK),
    ]
    async with ScriptedUpstream(script) as upstream:
        with serving(
            tmp_path / "recorder.db", *everywhere(upstream.base), ulimit=f"-n {LIMIT}"
        ) as serve:
            streams = [await RawClient.connect(serve.port) for _ in range(served)]
            for stream in streams:
                await stream.send(get("/v1/responses", method="POST", body=b"{}"))
                await stream.read_until(b"data: 1\n\n\r\n")
            refused = await asyncio.gather(*(_asked(serve.port) for _ in range(ASKED)))
            assert {(each.status, each.ending) for each in refused} == {
                (b"503 Service Unavailable", "complete")
            }
            assert b"ulimit -n" in refused[0].body
            assert refused[0].header(b"retry-after") == b"1"
            go_on.set()
            for stream in streams:
                await stream.read_until(b"data: 2\n\n\r\n" + LAST_CHUNK)
                stream.socket.close()
            async with asyncio.timeout(60):  # the server must have seen that they left
                while (await _asked(serve.port)).status != b"200 OK":
                    pass
            assert serve.said.count("no more than 60 clients at once") == 1
    assert upstream.connections <= served + 1


async def _asked(port: int) -> RawResponse:
    try:
        async with await RawClient.connect(port) as client:
            await client.send(get("/v1/responses", method="POST", body=BODY))
            return await client.response()
    except (TimeoutError, OSError) as error:
        pytest.fail(f"a client was reset, or waits: {error!r}")
