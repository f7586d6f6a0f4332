"""`recorder ui`, and `recorder serve --ui-port`, as processes of their own."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import URL

from recorder.commands.serving.viewer import viewing
from recorder.store.location import database_url
from tests.conftest import Demo
from tests.support.server import (
    PROGRAM,
    STOPPED_S,
    Ran,
    Serving,
    _state,
    address,
    environment,
    run,
    serving,
    wait_until,
)
from tests.support.viewer_api import fill

URL_LINE = re.compile(r"(http://127\.0\.0\.1:(\d+))/\?token=([\w-]+)(#\S*)?")
TAKEN = "Port {port} on 127.0.0.1 is taken: stop what listens there, or choose another one with"


class Ui:
    """A running viewer, and what it printed."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, err: Path) -> None:
        self.process, self._out, self._err = process, out, err
        wait_until(lambda: process.poll() is not None or "\n" in out.read_text())
        found = URL_LINE.fullmatch(self.line)
        assert found, (self.line, err.read_text())
        self.base, self.port, self.token, self.fragment = (
            found[1],
            int(found[2]),
            found[3],
            found[4],
        )

    @property
    def line(self) -> str:
        """The first line of stdout."""
        return self._out.read_text().partition("\n")[0]

    @property
    def said_more(self) -> str:
        """All that it printed but that line."""
        return self._out.read_text().partition("\n")[2] + self._err.read_text()

    def get(self, path: str) -> Any:
        return ask(self.base, self.token, path)

    def stop(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(STOPPED_S)


def ask(base: str, token: str, path: str) -> Any:
    asked = urllib.request.Request(base + path, headers={"X-Recorder-Token": token})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return msgspec.json.decode(answer.read())


@contextlib.contextmanager
def ui(db: Path | URL, *arguments: str, **more: str) -> Iterator[Ui]:
    command = [*PROGRAM, "ui", "--port", "0", "--db", address(db), *arguments]
    own = {**environment(Path("/")), **more}
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, cwd="/", env=own)
        try:
            yield Ui(process, Path(out.name), Path(err.name))
        finally:
            process.kill()
            process.wait(STOPPED_S)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    fill(tmp_path / "recorder.db")
    return tmp_path / "recorder.db"


def test_it_prints_one_line_with_its_url_and_serves_there(database: URL) -> None:
    fill(database)
    with ui(database) as viewer:
        assert viewer.fragment is None
        assert viewer.get("/api/sessions")["sessions"][0]["name"] == "demo"
        assert viewer.stop(signal.SIGINT) == 0
        assert viewer.said_more == ""


def test_a_session_is_in_the_url_by_its_id_and_nothing_is_written(db: Path) -> None:
    before = {path.name: path.read_bytes() for path in db.parent.iterdir() if path.stat().st_size}
    with ui(db, "demo") as viewer:
        [session] = viewer.get("/api/sessions")["sessions"]
        assert viewer.fragment == f"#/s/{session['session_id']}"
        viewer.get("/api/sessions/demo")
        viewer.stop(signal.SIGTERM)
    after = {path.name: path.read_bytes() for path in db.parent.iterdir() if path.stat().st_size}
    assert after.pop("recorder.db-shm", b"") is not None
    assert after == before


def test_a_session_that_is_not_there_is_refused_at_once(db: Path) -> None:
    ran = run(db, "ui", "--port", "0", "nothing")
    assert (ran.code, ran.out) == (3, b"")
    assert "There is no session 'nothing'" in ran.err


def test_a_taken_port_is_one_sentence(db: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run(db, "ui", "--port", port)
        assert (ran.code, ran.out) == (1, b"")
        assert ran.err == f"Error: {TAKEN.format(port=port)} --port.\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.timed
def test_it_ends_at_once_with_a_stream_that_is_followed(db: Path, number: int) -> None:
    with ui(db) as viewer:
        asked = urllib.request.Request(
            viewer.base + "/api/follow", headers={"X-Recorder-Token": viewer.token}
        )
        with urllib.request.urlopen(asked, timeout=30) as stream:
            assert stream.readline() == b"retry: 2000\n"
            assert viewer.stop(number) == 0


def test_a_browser_is_opened_only_where_somebody_wants_it(db: Path, tmp_path: Path) -> None:
    """A browser of a user is what BROWSER names: here a program that notes the URL."""
    noted = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {noted}.new && mv {noted}.new {noted}\n')
    browser.chmod(0o755)
    with ui(db, BROWSER=f"{browser} %s") as viewer:
        assert viewer.get("/api/about")
        assert not noted.exists(), "stdout is not a terminal"
    with ui(db, "--open", BROWSER=f"{browser} %s") as viewer:
        wait_until(noted.exists)
        assert noted.read_text().strip() == viewer.line


# -- beside a recorder


class Beside:
    """The viewer of a running recorder."""

    def __init__(self, serve: Serving) -> None:
        found = re.search(rf"^Viewer on {URL_LINE.pattern}$", serve.said, re.MULTILINE)
        assert found, serve.said
        self.base, self.token = found[1], found[3]
        [self.pid] = [pid for pid in serve.ingesters() if "serving.viewer" in command_of(pid)]

    def get(self, path: str) -> Any:
        return ask(self.base, self.token, path)

    def is_over(self) -> bool:
        return _state(self.pid) in "ZX"


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


pytestmark = pytest.mark.skipif(
    not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc"
)


def test_a_recorder_has_a_viewer_that_ends_with_it(tmp_path: Path) -> None:
    with serving(tmp_path / "recorder.db", "--ui-port", "0", program=PROGRAM) as serve:
        viewer = Beside(serve)
        wait_until(lambda: can_ask(viewer))
        assert viewer.get("/api/sessions") == {"sessions": [], "next": None}
        assert serve.stop() == 0
        assert viewer.is_over()
        assert "viewer ended" not in serve.said


async def test_a_password_of_the_database_is_in_no_command_line() -> None:
    """All users of a machine see the command lines of its processes."""
    url = database_url("postgresql://me:hidden@127.0.0.1:9/none")
    async with viewing(url, 0):
        lines = [
            command_of(int(pid))
            for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        ]
        assert any("serving.viewer" in line for line in lines)
        assert "hidden" not in " ".join(lines)


def can_ask(viewer: Beside) -> bool:
    """Whether the log is open there: a recorder creates it."""
    try:
        return bool(viewer.get("/api/about"))
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return False


def test_a_viewer_ends_when_its_recorder_is_killed(tmp_path: Path) -> None:
    with serving(tmp_path / "recorder.db", "--ui-port", "0", program=PROGRAM) as serve:
        viewer = Beside(serve)
        os.kill(serve.process.pid, signal.SIGKILL)
        wait_until(viewer.is_over)


def test_a_recorder_goes_on_without_its_viewer_and_says_so_once(tmp_path: Path) -> None:
    with serving(tmp_path / "recorder.db", "--ui-port", "0", program=PROGRAM) as serve:
        os.kill(Beside(serve).pid, signal.SIGKILL)
        wait_until(lambda: "the viewer ended" in serve.said)
        with urllib.request.urlopen(f"{serve.base}/_recorder/healthz", timeout=30) as answer:
            assert answer.status == 200
        assert serve.stop() == 0
        assert serve.said.count("the viewer ended with code -9; recording goes on without it") == 1


def refused(tmp_path: Path, *options: str) -> Ran:
    ran = run(tmp_path / "recorder.db", "serve", "--port", "0", *options)
    assert b"Listening" not in ran.out
    assert "Listening" not in ran.err
    return ran


def test_a_recorder_does_not_start_if_its_viewer_cannot_listen(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = refused(tmp_path, "--ui-port", str(port))
    assert ran.code == 1
    assert (
        f"Error: Port {port} on 127.0.0.1 is taken: stop what listens there, or choose another one with --ui-port."
        in ran.err
    )


def test_an_upstream_that_is_the_viewer_is_refused(tmp_path: Path) -> None:
    for host in ("127.0.0.1", "localhost", "[::1]", "a.localhost"):
        ran = refused(tmp_path, "--ui-port", "8799", "--upstream", f"openai=http://{host}:8799/v1")
        assert ran.code == 2
        assert "would be this recorder itself" in ran.err


def test_the_demo_ends_with_the_line_that_shows_what_it_recorded(demo: Demo) -> None:
    """The line is run as it is printed, but for its port."""
    recorder, verb, name, *options = shlex.split(demo.said.strip().splitlines()[-1])
    assert (recorder, verb, options) == ("recorder", "ui", ["--db", str(demo.path)])
    with ui(demo.path, name) as viewer:
        assert (viewer.fragment or "").startswith("#/s/")
