"""`recorder run`: a command recorded, and answered from the recording.

The recorder is called in this process; its ingester and the command are processes. Where the
recorder's own signals are what is looked at, it is a process too.
"""

from __future__ import annotations

import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from recorder.cassettes.sse_jsonl import read_cassette
from tests.support.empty_log import empty
from tests.support.event_loop import beside
from tests.support.logbook import entries
from tests.support.provider.server import DemoServer, start
from tests.support.server import PROGRAM, Ran, environment, run_parent

URL = "http://127.0.0.1:1"

# A client that needs no library: what it reads, what it asks, and what came.
CLIENT = """
import os, sys, urllib.request as web
url = os.environ["OPENAI_BASE_URL"] + "/responses"
request = web.Request(url, sys.argv[1].encode(), {"Content-Type": "application/json"})
try:
    with web.urlopen(request) as response:
        sys.stdout.buffer.write(response.read())
except web.HTTPError as error:
    sys.stdout.buffer.write(error.read())
sys.exit(int(sys.argv[2]))
"""
SLOW = '{"model": "gpt-demo", "input": "tell me a slow story", "stream": true}'
HELLO = '{"model": "gpt-demo", "input": "hello", "stream": true}'
OTHER = HELLO.replace("hello", "what else?")


def client(body: str = HELLO, code: int = 0) -> list[str]:
    return [sys.executable, "-c", CLIENT, body, str(code)]


def run(db: Path, *words: object, **variables: str) -> Ran:
    """`recorder run` with these words, without a terminal."""
    return run_parent(db, "run", *words, **variables)


@asynccontextmanager
async def demo_upstream(pace: float = 0) -> AsyncIterator[DemoServer]:
    async with await start(pace=pace) as server:
        yield server


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    """The words that put OpenAI at the demo."""
    with beside(demo_upstream) as demo:
        yield f"openai={demo.base_url}"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return empty(tmp_path / "recorder.db")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, upstream: str) -> Path:
    """A log with the session `hello` of one exchange, and the session `two` of one more; only to be
    replayed.
    """
    db = empty(tmp_path_factory.mktemp("recorded") / "recorder.db")
    for session, bodies in (("hello", [HELLO]), ("two", [HELLO, OTHER])):
        asks = " && ".join(f'"$1" -c "$2" \'{body}\' 0' for body in bodies)
        words = (
            "--session",
            session,
            "--upstream",
            upstream,
            "--",
            "sh",
            "-c",
            asks,
            "sh",
            sys.executable,
            CLIENT,
        )
        assert run(db, *words).code == 0
    return db


# -- recorded


def test_a_command_is_recorded_and_answered_from_its_recording(
    tmp_path: Path, upstream: str
) -> None:
    db, cassette = tmp_path / "recorder.db", tmp_path / "cassettes" / "hello.sse.jsonl"
    words = ("--session", "hello", "--cassette", cassette, "--upstream", upstream)
    live = run(db, *words, "--", *client(code=3))
    assert live.code == 3
    assert live.err.startswith(f"Upstream openai is {upstream.removeprefix('openai=')}\n"), (
        "before the command begins"
    )
    assert re.search(
        r"Recorded session hello \(\S{36}\): 1 exchange, [\d,]+ input tokens.* output tokens",
        live.err,
    )
    (entry,) = entries(db)
    assert (entry.session, entry.end["status"]) == ("hello", "completed")
    assert len(read_cassette(cassette)) == 1
    for source in ("hello", cassette):
        again = run(db, "--replay", source, "--speed", "max", "--", *client())
        assert (again.code, again.out) == (0, live.out)
    assert len(entries(db)) == 1, "a replay records nothing"


def test_the_address_a_client_had_is_where_it_is_recorded_from(db: Path, upstream: str) -> None:
    live = run(db, "--", *client(), OPENAI_BASE_URL=f"{upstream.removeprefix('openai=')}/v1")
    assert b"response.completed" in live.out
    assert re.search(r"Recorded session python\S*-\d{8}-\d{6}-[0-9a-f]{4} ", live.err)


def test_a_good_cassette_is_not_replaced_by_a_failed_run(
    db: Path, tmp_path: Path, upstream: str
) -> None:
    cassette = tmp_path / "hello.sse.jsonl"
    assert (
        "Written to" in run(db, "--cassette", cassette, "--upstream", upstream, "--", *client()).err
    )
    good = cassette.read_bytes()
    failed = run(db, "--cassette", cassette, "--upstream", upstream, "--", *client(code=1))
    unreachable = run(db, "--cassette", cassette, "--upstream", f"openai={URL}", "--", *client())
    assert "stays as it was: the command failed (1)" in failed.err
    assert "stays as it was: 1 of 1 exchanges broke off" in unreachable.err
    assert cassette.read_bytes() == good


def test_a_client_that_ends_a_moment_after_the_command_has_left_by_itself(db: Path) -> None:
    """As when Ctrl-C reaches a program and the client that it has started."""
    begun = db.with_name("begun")
    shout = "sys.stdout.buffer.write(response.read"
    reads = CLIENT.replace(shout, f"response.read(1); open({str(begun)!r}, 'w'); {shout}")
    waits = 'while [ ! -e "$0" ]; do sleep 0.05; done; (sleep 0.1; kill $!) & exit 0'
    words = ("sh", "-c", f'"$@" & {waits}', begun, sys.executable, "-c", reads, SLOW, "0")
    with beside(lambda: demo_upstream(pace=1)) as demo:
        run(db, "--session", "slow", "--upstream", f"openai={demo.base_url}", "--", *words)
    (entry,) = entries(db)
    assert (entry.end["status"], entry.end["outcome"]) == ("client_disconnect", "client_disconnect")


def test_a_locked_database_is_waited_for(db: Path, tmp_path: Path, upstream: str) -> None:
    cassette = tmp_path / "hello.sse.jsonl"
    with closing(sqlite3.connect(db, isolation_level=None, check_same_thread=False)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        released = threading.Timer(
            5, lambda: holder.execute("ROLLBACK")
        )  # longer than a recorder that is stopped waits
        released.start()
        ran = run(db, "--cassette", cassette, "--upstream", upstream, "--", *client())
        released.join()
    assert ran.code == 0
    assert "1 exchange," in ran.err
    assert len(read_cassette(cassette)) == 1


def test_a_command_that_asks_nothing_is_told_so(db: Path) -> None:
    ran = run(db, "--", "sh", "-c", "echo begun >&2; kill -9 $$")
    assert ran.code == 128 + signal.SIGKILL, "as a shell gives it"
    said = "Nothing was recorded: the command sent no request here. `recorder env CLIENT` shows how to point one.\n"
    assert ran.err == f"begun\n{said}", "nothing of the public upstreams"


def test_copilot_is_recorded_from_the_provider_of_its_own_variable(db: Path, upstream: str) -> None:
    """Not from that of another variable: it may be another provider, and gets another key."""
    base = upstream.removeprefix("openai=")
    program = CLIENT.replace("OPENAI_BASE_URL", "COPILOT_PROVIDER_BASE_URL")
    copilot = [sys.executable, "-c", program, HELLO, "0"]
    bases = {"COPILOT_PROVIDER_BASE_URL": f"{base}/v1", "OPENAI_BASE_URL": URL}
    live = run(db, "--session", "copilot", "--", *copilot, **bases)
    assert live.code == 0, live.err
    assert f"Upstream copilot is {base}/v1\n" in live.err
    (entry,) = entries(db)
    assert (entry.session, entry.end["status"]) == ("copilot", "completed")
    for variables in ({}, {"COPILOT_PROVIDER_BASE_URL": "http://elsewhere.invalid/v1"}):
        replayed = run(db, "--replay", "copilot", "--speed", "max", "--", *copilot, **variables)
        assert (replayed.code, replayed.out) == (0, live.out), replayed.err


def test_a_client_with_a_file_of_its_own_is_told_how_to_point_it_and_a_proxy_is_said(
    db: Path,
) -> None:
    client = db.parent / "pi"
    client.write_text("#!/bin/sh\n")
    client.chmod(0o755)
    ran = run(db, "--", client, RECORDER_RUN_UPSTREAM_PROXY=URL)
    assert ran.err.startswith("Upstreams are reached by the proxy 127.0.0.1:1\n")
    assert "`recorder env pi` shows how to point one." in ran.err


# -- signals


def test_signals_are_the_commands(db: Path) -> None:
    """Also those that nohup has it ignore."""
    script = (
        "import signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); "
        "print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, flush=True); "
        "signal.sigtimedwait([signal.SIGTERM], 60) or sys.exit(1); sys.exit(42)"
    )
    process = subprocess.Popen(
        ["nohup", *PROGRAM, "run", "--", sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**environment(db.parent), "RECORDER_DB": str(db)},
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"True\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 42


@pytest.mark.parametrize("redirected", [False, True])
def test_ctrl_c_reaches_a_command_once(db: Path, redirected: bool) -> None:
    script = (
        "import signal, sys, time; hits = []\n"
        "signal.signal(signal.SIGINT, lambda *_: hits.append(1))\n"
        "print('up', flush=True)\n"
        "for _ in range(6000): hits or time.sleep(0.01)\n"
        "time.sleep(0.5); print('hits', len(hits), flush=True); sys.exit(5)"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update({**environment(db.parent), "RECORDER_DB": str(db)})
        if redirected:
            os.dup2(os.open(db.parent / "err", os.O_WRONLY | os.O_CREAT, 0o600), 2)
        os.execv(sys.executable, [*PROGRAM, "run", "--", sys.executable, "-c", script])
    shown = b""
    while b"up\r\n" not in shown:
        shown += os.read(terminal, 1024)
    os.write(terminal, b"\x03")
    while b"hits" not in shown or not shown.endswith(b"\n"):
        shown += os.read(terminal, 1024)
    ended = os.waitpid(pid, 0)
    os.close(terminal)
    assert b"hits 1\r\n" in shown
    assert os.waitstatus_to_exitcode(ended[1]) == 5


# -- replayed


def test_what_was_not_recorded_fails_a_command_that_succeeds(recorded: Path) -> None:
    missed = run(recorded, "--replay", "hello", "--", *client(OTHER))
    assert missed.code == 5
    assert 'input: recorded "hello", asked "what else?"' in missed.err
    assert "Requests: 1, not recorded: 1. Recordings not used: 1.\n" in missed.err
    assert (
        "Not asked for: exchange 1 of session hello, POST /openai/v1/responses (openai).\n"
        in missed.err
    )
    assert run(recorded, "--replay", "hello", "--", *client(OTHER, code=9)).code == 9, (
        "its own code says more"
    )


def test_a_replay_says_what_it_answered_by_position(recorded: Path) -> None:
    changed = HELLO.replace("{", '{"instructions": "Be brief.", ')
    answered = run(recorded, "--replay", "hello", "--speed", "max", "--", *client(changed))
    assert answered.code == 0
    said = "1 request was answered by its position, although this differs from the recording: instructions.\n"
    assert said in answered.err


def test_a_strict_replay_fails_if_something_recorded_was_not_asked_for(recorded: Path) -> None:
    replay = ("--replay", "two", "--speed", "max")
    assert run(recorded, *replay, "--", *client()).code == 0
    strict = run(recorded, *replay, "--strict", "--", *client())
    assert strict.code == 5
    assert "Recordings not used: 1.\nNot asked for: exchange 2 of session two, POST" in strict.err
    assert run(recorded, *replay, "--strict", "--", *client(code=9)).code == 9


def test_a_miss_is_said_once_and_counted(recorded: Path) -> None:
    other = OTHER.replace("gpt-demo", "gpt-else")
    thrice = ["sh", "-c", 'for i in 1 2 3; do "$@"; done', "sh", *client(other)]
    ran = run(recorded, "--replay", "hello", "--", *thrice)
    said = (
        "Nothing recorded answers POST /responses (openai): of 1 there, none is equal. The nearest is exchange 1 of "
        'session hello. It differs in 2 places: model: recorded "gpt-demo", asked "gpt-else"; input: recorded "hello", '
        'asked "what else?"'
    )
    assert ran.err.count(f"recorder: {said}\n") == 1
    assert f"not recorded: 3. Recordings not used: 1.\n3 times: {said}\n" in ran.err


def test_options_of_a_replay_may_stand_in_a_file_for_every_run(db: Path) -> None:
    (db.parent / "recorder.toml").write_text('[run]\nspeed = "max"\nstrict = true\n')
    assert run(db, "--", "true").code == 0


# Asks an API as a client does that was given its address in code, and goes on without it.
PAST = """
import contextlib, sys, urllib.request as web
for url in sys.argv[1:]:
    with contextlib.suppress(OSError):
        web.urlopen(url)
"""


def past(*urls: str) -> list[str]:
    return [sys.executable, "-c", PAST, *urls]


def test_an_api_that_is_asked_past_a_replay_is_refused_and_fails_it(demo_recording: Path) -> None:
    ran = run(
        demo_recording,
        "--replay",
        "latest",
        "--",
        *past("https://api.anthropic.com/v1/canary?key=canary"),
    )
    assert ran.code == 5
    assert (
        "Requests that bypassed the replay were refused: api.anthropic.com. A client has its address from "
        in ran.err
    )
    assert "canary" not in ran.err


def test_what_else_clients_ask_does_not_fail_a_replay(demo_recording: Path) -> None:
    ran = run(
        demo_recording,
        "--replay",
        "latest",
        "--",
        *past("http://plain.test/", "https://registry.test/"),
    )
    assert ran.code == 0
    assert ran.err.endswith("Also refused in this replay: plain.test, registry.test.\n")


def test_what_a_client_sends_its_provider_besides_does_not_fail_a_replay(recorded: Path) -> None:
    """Claude Code sends statistics to the host of its API, whatever its base URL."""
    both = ["sh", "-c", '"$1" -c "$2" "$3" 0; "$1" -c "$4" https://api.openai.com/', "sh"]
    both += [sys.executable, CLIENT, HELLO, PAST]
    ran = run(recorded, "--replay", "hello", "--speed", "max", "--", *both)
    assert (ran.code, "Also refused in this replay: api.openai.com." in ran.err) == (0, True)


def test_the_address_that_a_client_had_is_that_of_an_api(demo_recording: Path) -> None:
    base = "https://gateway.internal.test/v1"
    ran = run(demo_recording, "--replay", "latest", "--", *past(base), OPENAI_API_BASE=base)
    assert (ran.code, "refused: gateway.internal.test." in ran.err) == (5, True)


def test_a_replay_needs_no_address(demo_recording: Path) -> None:
    assert (
        run(
            demo_recording, "--replay", "latest", "--", "true", OPENAI_BASE_URL="http://[nowhere"
        ).code
        == 0
    )


def test_a_replay_can_be_let_out(demo_recording: Path) -> None:
    script = [sys.executable, "-c", "import os; print(os.environ.get('HTTPS_PROXY'))"]
    assert b"http://127.0.0.1:" in run(demo_recording, "--replay", "latest", "--", *script).out
    assert (
        run(demo_recording, "--replay", "latest", "--allow-network", "--", *script).out == b"None\n"
    )


WEBSOCKET = """
import os, socket, sys
host, port = os.environ["OPENAI_BASE_URL"].split("/")[2].split(":")
lines = ("GET /v1/responses HTTP/1.1", f"Host: {host}", "Connection: Upgrade", "Upgrade: websocket", "", "")
with socket.create_connection((host, int(port))) as connection:
    connection.sendall("\\r\\n".join(lines).encode())
    print(connection.recv(1024).splitlines()[0].decode())
"""


def test_a_websocket_that_was_declined_is_told_of_and_the_code_is_the_commands(
    db: Path, demo_recording: Path
) -> None:
    said = "Refused, and not recorded: 1 request. WebSocket is not recorded here: use the same URL with HTTP and SSE"
    for path, *replay in ((demo_recording, "--replay", "latest"), (db,)):
        ran = run(path, *replay, "--no-websocket", "--", sys.executable, "-c", WEBSOCKET)
        assert (ran.code, ran.out) == (0, b"HTTP/1.1 426 Upgrade Required\n")
        assert said in ran.err
        assert "recover" not in ran.err


def test_a_probe_that_is_not_recorded_does_not_fail_a_replay(demo_recording: Path) -> None:
    script = (
        "import os, urllib.request as web, urllib.error as e\n"
        "try: web.urlopen(web.Request(os.environ['ANTHROPIC_BASE_URL'] + '/api/hello', method='HEAD'))\n"
        "except e.HTTPError as error: print(error.code)"
    )
    ran = run(demo_recording, "--replay", "latest", "--", sys.executable, "-c", script)
    assert ran.code == 0
    assert ran.out != b""
    assert "Requests: 1, probes: 1, not recorded: 0." in ran.err
    assert "Nothing recorded answers" not in ran.err


def test_a_replay_needs_no_keys(demo_recording: Path) -> None:
    names = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")
    script = f"import os; print(*(os.environ[name] for name in {names}))"
    ran = run(
        demo_recording,
        "--replay",
        "latest",
        "--",
        sys.executable,
        "-c",
        script,
        OPENAI_API_KEY="mine",
    )
    assert ran.out.split() == [b"mine", b"none", b"none", b"none"]
