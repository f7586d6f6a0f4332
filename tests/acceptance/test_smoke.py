"""The main job once, by the processes that users start: record, SIGKILL, recover, replay, look; and
the wheel.

This much of `tests/acceptance` is in `make test`. Each claim has tests of its own beside this file.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.conversations import message, response
from tests.support.server import PROGRAM, environment, serving
from tests.support.sockets import STREAM_HEAD, RawClient, ScriptedUpstream, Send, Wait, chunked
from tests.support.wheel import built

FRAMES = response(*message("What a client has received ", "survives the recorder."))
BODY = b'{"model": "m", "input": "Hi", "stream": true}'
REQUEST = (
    b"POST /s/smoke/v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%b"
    % (len(BODY), BODY)
)
SEEN = 5  # frames that the client has when the recorder is killed


def recorder(db: Path, *arguments: str) -> bytes:
    """Run a command on that database; return what it printed."""
    command = [*PROGRAM, *arguments, "--db", str(db)]
    done = subprocess.run(
        command, capture_output=True, cwd=db.parent, env=environment(db.parent), timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


async def record_and_kill(db: Path) -> bytes:
    """Record a stream and kill the recorder in the middle of it; return what the client has got of
    the body.
    """
    never = asyncio.Event()
    async with ScriptedUpstream(
        [Send(STREAM_HEAD), Send(chunked(*FRAMES[:SEEN])), Wait(never)]
    ) as upstream:
        with serving(db, "--upstream", f"openai={upstream.base}", program=PROGRAM) as serve:
            async with await RawClient.connect(serve.port) as client:
                await client.send(REQUEST)
                received = await client.read_until(FRAMES[SEEN - 1])
                serve.kill()
    return received


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that was recovered after SIGKILL in mid-stream."""
    db = tmp_path_factory.mktemp("smoke") / "recorder.db"
    received = asyncio.run(record_and_kill(db))
    assert all(frame in received for frame in FRAMES[:SEEN])
    recorder(db, "db", "recover")
    return db


def test_what_a_client_had_is_in_the_log_after_kill_9(killed: Path) -> None:
    assert recorder(killed, "events", "smoke", "--raw") == b"".join(FRAMES[:SEEN])
    recorder(killed, "verify")


def test_what_was_recorded_is_replayed(killed: Path) -> None:
    assert b"What a client has received" in recorder(killed, "replay", "smoke", "--speed", "max")


async def test_the_viewer_shows_it(killed: Path) -> None:
    pytest.importorskip("playwright", reason="no playwright: pip install '.[browser]'")
    from tests.support.browser import MISSING, launched, opened, program
    from tests.support.viewer import viewing

    if program() is None:
        pytest.skip(MISSING)
    async with launched() as browser:
        with viewing(killed) as viewer:
            async with opened(browser, viewer.url) as tab:
                await tab.open("#/s/smoke")
                await tab.page.get_by_text("What a client has received").first.wait_for()


def test_the_wheel_has_the_program(tmp_path: Path) -> None:
    with zipfile.ZipFile(built(tmp_path)) as wheel:
        wheel.extractall(tmp_path / "site")
    env = {**environment(tmp_path), "PYTHONPATH": str(tmp_path / "site")}
    code = "import recorder, recorder.store.maintain.migrate as it; print(recorder.__file__, it.migrations())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, timeout=60
    )
    package = tmp_path / "site" / "recorder"
    assert done.stdout.decode().split() == [
        str(package / "__init__.py"),
        str(package / "migrations"),
    ], done.stderr
