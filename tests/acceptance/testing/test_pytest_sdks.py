"""The SDKs of all providers under the pytest plugin: what they got when it was recorded they get
from the cassette.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import httpx2
import pytest

from recorder.proxy.routing import Routes, parse_upstream
from recorder.proxy.upstream import UpstreamTransport
from recorder.recordings.memory import MemoryJournal
from recorder.replay.matching import Matcher
from recorder.replay.transport import ReplayTransport
from recorder.testing.loopback import Loopback
from recorder.testing.replaying import JournalRecording
from tests.integration.testing.test_testing import FAILURES
from tests.support.projects import Project
from tests.support.provider.server import start
from tests.support.sdks import APIS, ASKS, Streamed, streamed
from tests.support.sockets import ScriptedUpstream

pytest_plugins = ["pytester"]

NAMES = ("openai", "anthropic", "gemini")

OVER_A_SOCKET = """
from tests.support.sdks import ASKS

@pytest.mark.parametrize("prompt", ["weather"])
@pytest.mark.parametrize("name", ASKS)
def test_one(recorder_replay, name, prompt, got):
    base = recorder_replay.base_url(name.replace(" ", "-").split("-")[0])
    got(asyncio.run(ASKS[name](base.removesuffix("/v1"), prompt)))
"""
OVER_TRANSPORTS = """
from tests.support.sdks import PAIRS, streamed, streamed_async

@pytest.mark.parametrize(("api", "library"), PAIRS)
def test_sync(recorder_replay, api, library, got):
    with library.Client(transport=recorder_replay.transport(library)) as http:
        got(streamed(api, http, BASE))

@pytest.mark.parametrize(("api", "library"), PAIRS)
def test_async(recorder_replay, api, library, got):
    async def main():
        async with library.AsyncClient(transport=recorder_replay.async_transport(library)) as http:
            return await streamed_async(api, http, BASE)
    got(asyncio.run(main()))
"""
GOT = """
import asyncio
from pathlib import Path
import pytest

@pytest.fixture
def got(request):
    def write(said):
        assert getattr(said, "error", None) is None
        with Path("got.txt").open("a") as file:
            file.write(f"{request.node.name} {said!r}\\n")
    return write
"""


class Demo:
    """The demo upstream in a thread of its own."""

    def __init__(self) -> None:
        self._base: Future[str] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with await start(pace=0) as server:
            self._base.set_result(server.base_url)
            await self._stop.wait()

    def __enter__(self) -> str:
        self._thread.start()
        return self._base.result()

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


def run(project: Project, tests: str, base: str, *options: str, passed: int) -> list[str]:
    """What the tests got, line by line."""
    path: Path = project.pytester.path / "got.txt"
    path.unlink(missing_ok=True)
    project.pytester.makepyfile(test_it=GOT + f"BASE = {base!r}\n" + tests)
    upstreams = "\n  ".join(f"{name}={base}" for name in NAMES)
    project.pytester.makeini(f"[pytest]\nrecorder_upstream =\n  {upstreams}")
    project.said("-Wignore", *options, passed=passed)
    return path.read_text().splitlines()


@pytest.mark.parametrize(("tests", "count"), [(OVER_A_SOCKET, len(ASKS)), (OVER_TRANSPORTS, 14)])
def test_every_sdk_gets_from_its_cassette_what_it_got_when_it_was_recorded(
    pytester: pytest.Pytester, tests: str, count: int
) -> None:
    project = Project(pytester)
    with Demo() as base:
        came = run(project, tests, base, "--recorder-mode=once", passed=count)
    assert len(came) == count
    assert run(project, tests, base, passed=count) == came


@pytest.mark.parametrize("api", APIS)
async def test_a_failure_over_a_socket_is_the_one_that_was_seen_when_it_was_recorded(
    api: str,
) -> None:
    for failure, (script, _) in FAILURES.items():
        journal = MemoryJournal()
        async with ScriptedUpstream(script(api)) as upstream:
            routes = Routes([parse_upstream(f"{name}={upstream.base}") for name in NAMES])
            came = await asyncio.to_thread(
                over_a_socket, api, JournalRecording(UpstreamTransport(), journal), routes
            )
        replay = ReplayTransport(Matcher(journal.recordings("s-1")), speed=None)
        again = await asyncio.to_thread(over_a_socket, api, replay, Routes())
        assert came.error is not None, failure
        assert (again.events, again.failure) == (came.events, came.failure), failure


def over_a_socket(api: str, transport: Any, routes: Routes) -> Streamed:
    loopback = Loopback(transport, routes)
    try:
        with httpx2.Client() as http:
            return streamed(api, http, loopback.url)
    finally:
        loopback.close(1.0)
