"""`recorder run`: a command recorded, and answered from the recording."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from recorder.cassettes.sse_jsonl import read_cassette
from recorder.commands import run as module
from recorder.commands.clients.gemini import SETTING, refuse_undecided
from recorder.commands.clients.presets import BASES, assigned, codex_place, program
from recorder.commands.clients.presets import environment as pointed
from recorder.demo.server import start
from recorder.errors import UsageError
from recorder.proxy.routing import Routes
from recorder.store.location import database_url
from recorder.store.writer import Store
from tests.support import processes
from tests.support.logbook import entries
from tests.support.server import PROGRAM, Ran, environment

URL = "http://127.0.0.1:1"
UUID = "0199f3c2-1111-7000-8000-00000000000a"

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


def client(body: str = HELLO, code: int = 0) -> list[str]:
    return [sys.executable, "-c", CLIENT, body, str(code)]


def run(db: Path, *words: object, **variables: str) -> Ran:
    """`recorder run` with these words, without a terminal."""
    variables = {**environment(db.parent), "RECORDER_DB": str(db), **variables}
    code, out, err = processes.command(["run", *words], variables, db.parent)
    return Ran(code, out, err.decode())


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "recorder.db"


async def in_thread(db: Path, *words: object, **variables: str) -> Ran:
    return await asyncio.to_thread(run, db, *words, **variables)


async def test_a_command_is_recorded_and_answered_from_its_recording(db: Path, tmp_path: Path) -> None:
    cassette = tmp_path / "cassettes" / "hello.sse.jsonl"
    async with await start(pace=0) as demo:
        recorded = ("--session", "hello", "--cassette", cassette, "--upstream", f"openai={demo.base_url}")
        live = await in_thread(db, *recorded, "--", *client(code=3))
    assert live.code == 3
    assert re.search(r"Recorded session hello \(\S{36}\): 1 exchange, [\d,]+ input tokens.* output tokens", live.err)
    (entry,) = entries(db)
    assert (entry.session, entry.end["status"]) == ("hello", "completed")
    assert len(read_cassette(cassette)) == 1
    for source in ("hello", cassette):
        again = run(db, "--replay", source, "--speed", "max", "--", *client())
        assert (again.code, again.out) == (0, live.out)
    assert len(entries(db)) == 1, "a replay records nothing"


async def test_the_address_a_client_had_is_where_it_is_recorded_from(db: Path) -> None:
    async with await start(pace=0) as demo:
        live = await in_thread(db, "--", *client(), OPENAI_BASE_URL=f"{demo.base_url}/v1")
    assert b"response.completed" in live.out
    assert re.search(r"Recorded session python\S*-\d{8}-\d{6}-[0-9a-f]{4} ", live.err)


async def test_what_was_not_recorded_fails_a_command_that_succeeds(db: Path) -> None:
    async with await start(pace=0) as demo:
        await in_thread(db, "--session", "hello", "--upstream", f"openai={demo.base_url}", "--", *client())
    other = HELLO.replace("hello", "what else?")
    missed = run(db, "--replay", "hello", "--", *client(other))
    assert missed.code == 5
    assert 'input: recorded "hello", asked "what else?"' in missed.err
    assert "Requests: 1, not recorded: 1. Recordings not used: 1.\n" in missed.err
    assert "Not asked for: exchange 1 of session hello, POST /openai/v1/responses (openai).\n" in missed.err
    assert run(db, "--replay", "hello", "--", *client(other, code=9)).code == 9, "the command's own code says more"


async def test_a_strict_replay_fails_if_something_recorded_was_not_asked_for(db: Path) -> None:
    other = HELLO.replace("hello", "what else?")
    async with await start(pace=0) as demo:
        for body in (HELLO, other):
            await in_thread(db, "--session", "two", "--upstream", f"openai={demo.base_url}", "--", *client(body))
    replay = ("--replay", "two", "--speed", "max")
    assert run(db, *replay, "--", *client()).code == 0
    strict = run(db, *replay, "--strict", "--", *client())
    assert strict.code == 5
    assert "Recordings not used: 1.\nNot asked for: exchange 2 of session two, POST" in strict.err
    assert run(db, *replay, "--strict", "--", *client(code=9)).code == 9


async def test_a_miss_is_said_once_and_counted(db: Path) -> None:
    async with await start(pace=0) as demo:
        await in_thread(db, "--session", "hello", "--upstream", f"openai={demo.base_url}", "--", *client())
    other = HELLO.replace("hello", "what else?").replace("gpt-demo", "gpt-else")
    thrice = ["sh", "-c", 'for i in 1 2 3; do "$@"; done', "sh", *client(other)]
    ran = run(db, "--replay", "hello", "--", *thrice)
    said = (
        "Nothing recorded answers POST /responses (openai): of 1 there, none is equal. The nearest is exchange 1 of "
        'session hello. It differs in 2 places: model: recorded "gpt-demo", asked "gpt-else"; input: recorded "hello", '
        'asked "what else?"'
    )
    assert ran.err.count(f"recorder: {said}\n") == 1
    assert f"not recorded: 3. Recordings not used: 1.\n3 times: {said}\n" in ran.err


async def test_a_good_cassette_is_not_replaced_by_a_failed_run(db: Path, tmp_path: Path) -> None:
    cassette = tmp_path / "hello.sse.jsonl"
    async with await start(pace=0) as demo:
        options = ("--cassette", cassette, "--upstream", f"openai={demo.base_url}", "--")
        assert "Written to" in (await in_thread(db, *options, *client())).err
        good = cassette.read_bytes()
        failed = await in_thread(db, *options, *client(code=1))
    unreachable = await in_thread(db, *options, *client())
    assert "stays as it was: the command failed (1)" in failed.err
    assert "stays as it was: 1 of 1 exchanges broke off" in unreachable.err
    assert cassette.read_bytes() == good


async def test_a_client_that_ends_a_moment_after_the_command_has_left_by_itself(db: Path) -> None:
    """As when Ctrl-C reaches a program and the client that it has started."""
    begun = db.with_name("begun")
    shout = "sys.stdout.buffer.write(response.read"
    reads = CLIENT.replace(shout, f"response.read(1); open({str(begun)!r}, 'w'); {shout}")
    waits = 'while [ ! -e "$0" ]; do sleep 0.05; done; (sleep 0.1; kill $!) & exit 0'
    words = ("sh", "-c", f'"$@" & {waits}', begun, sys.executable, "-c", reads, SLOW, "0")
    async with await start() as demo:
        await in_thread(db, "--session", "slow", "--upstream", f"openai={demo.base_url}", "--", *words)
    (entry,) = entries(db)
    assert (entry.end["status"], entry.end["outcome"]) == ("client_disconnect", "client_disconnect")


async def test_a_locked_database_is_waited_for(db: Path, tmp_path: Path) -> None:
    cassette = tmp_path / "hello.sse.jsonl"
    Store(database_url(db)).close()
    holder = sqlite3.connect(db, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    async with await start(pace=0) as demo, asyncio.TaskGroup() as tasks:
        ran = tasks.create_task(
            in_thread(db, "--cassette", cassette, "--upstream", f"openai={demo.base_url}", "--", *client())
        )
        await asyncio.sleep(5)  # longer than a recorder that is stopped waits
        holder.close()
    assert ran.result().code == 0
    assert "1 exchange," in ran.result().err
    assert len(read_cassette(cassette)) == 1


def test_a_command_that_asks_nothing_is_told_so(db: Path) -> None:
    ran = run(db, "--", "sh", "-c", "exit 7")
    assert ran.code == 7
    assert "\nNothing was recorded: the command sent no request here." in f"\n{ran.err}"


async def test_copilot_is_recorded_from_the_provider_of_its_own_variable(db: Path) -> None:
    """Not from that of another variable: it may be another provider, and gets another key."""
    program = CLIENT.replace("OPENAI_BASE_URL", "COPILOT_PROVIDER_BASE_URL")
    copilot = [sys.executable, "-c", program, HELLO, "0"]
    async with await start(pace=0) as demo:
        bases = {"COPILOT_PROVIDER_BASE_URL": f"{demo.base_url}/v1", "OPENAI_BASE_URL": URL}
        live = await in_thread(db, "--session", "copilot", "--", *copilot, **bases)
    assert live.code == 0, live.err
    assert f"Upstream copilot is {demo.base_url}/v1\n" in live.err
    (entry,) = entries(db)
    assert (entry.session, entry.end["status"]) == ("copilot", "completed")
    for variables in ({}, {"COPILOT_PROVIDER_BASE_URL": "http://elsewhere.invalid/v1"}):
        replayed = await in_thread(db, "--replay", "copilot", "--speed", "max", "--", *copilot, **variables)
        assert (replayed.code, replayed.out) == (0, live.out), replayed.err


def test_copilot_without_a_provider_of_its_own_stays_with_its_service() -> None:
    assert "COPILOT_PROVIDER_BASE_URL" not in pointed({}, URL)


def test_a_client_with_a_file_of_its_own_is_told_how_to_point_it(db: Path) -> None:
    client = db.parent / "pi"
    client.write_text("#!/bin/sh\n")
    client.chmod(0o755)
    assert "`recorder env pi` shows how to point one." in run(db, "--", client).err


@pytest.mark.parametrize(
    ("words", "variables", "said"),
    [
        ((), {}, []),
        ((), {"OPENAI_BASE_URL": "https://api.openai.com/v1"}, []),
        ((), {"OPENAI_BASE_URL": f"{URL}/v1"}, [f"Upstream openai is {URL}/v1"]),
        (("--upstream", f"mine={URL}"), {}, [f"Upstream mine is {URL}"]),
        (
            ("--upstream", "openai=https://api.openai.com.a.test"),
            {},
            ["Upstream openai is https://api.openai.com.a.test"],
        ),
        (("--upstream", "gemini=http://generativelanguage.googleapis.com"), {}, ["Upstream gemini is http://gen"]),
        (("--upstream-proxy", URL), {}, ["Upstreams are reached by the proxy 127.0.0.1:1"]),
    ],
)
def test_who_gets_the_keys_is_said_before_the_command_begins(
    db: Path, words: Sequence[str], variables: dict[str, str], said: Sequence[str]
) -> None:
    ran = run(db, *words, "--", "sh", "-c", "echo begun >&2", **variables)
    before, _, _ = ran.err.partition("begun\n")
    assert len(before.splitlines()) == len(said)
    assert all(line.startswith(start) for line, start in zip(before.splitlines(), said, strict=True))


@pytest.mark.parametrize(("name", "code", "said"), [("nosuch", 127, "not on the PATH"), ("./file", 126, "executed")])
def test_a_command_that_cannot_run_is_named(db: Path, name: str, code: int, said: str) -> None:
    (db.parent / "file").write_text("no program")
    ran = run(db, "--", name)
    assert ran.code == code
    assert f"Error: {name} " in ran.err
    assert said in ran.err
    assert not db.exists(), "nothing was begun"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--replay", "a", "--session", "b", "--", "true"), "--replay records nothing"),
        (("--session", "\a", "--", "true"), "--session needs a visible name"),
        (("--session", "..", "--", "true"), "--session needs a visible name"),
        (("--session", "latest", "--", "true"), "--session latest would never be found by that name"),
        (("--session", UUID, "--", "true"), f"--session {UUID} would never be found by that name, which means an id"),
        (("--speed", "max", "--", "true"), "--speed is for a replay: name a recording with --replay"),
        (("--strict", "--", "true"), "--strict is for a replay"),
        (("--allow-network", "--", "true"), "--allow-network is for a replay"),
        (("--replay", "a", "--durability", "strict", "--", "true"), "leave --durability out"),
        (
            ("--replay", "a", "--upstream", "openai=http://x", "--session", "s", "--", "true"),
            "leave --session and --upstream out",
        ),
        (("--cassette", "run.txt", "--", "true"), "give one that ends in .sse.jsonl"),
        (("--session", "a"), "Missing argument"),
        (("--replay", "./", "--", "true"), "Error: . is a directory: name the files in it."),
        (("--replay", "nosuch", "--", "true"), "There is no database"),
        (("--replay", "no.sse.jsonl", "--", "true"), "There is no file no.sse.jsonl."),
    ],
)
def test_wrong_use_is_one_sentence(db: Path, words: Sequence[str], said: str) -> None:
    ran = run(db, *words)
    assert ran.code == (3 if said.startswith("There is no") else 2)
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert not db.exists(), "nothing was begun"


def test_options_of_a_replay_may_stand_in_a_file_for_every_run(db: Path) -> None:
    (db.parent / "recorder.toml").write_text('[run]\nspeed = "max"\nstrict = true\n')
    assert run(db, "--", "true").code == 0


def test_signals_are_the_commands(db: Path) -> None:
    script = "import signal, sys; print('up', flush=True); signal.sigtimedwait({15}, 60) or sys.exit(1); sys.exit(42)"
    blocked = f"import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); {script}"
    process = subprocess.Popen(
        [*PROGRAM, "run", "--", sys.executable, "-c", blocked],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**environment(db.parent), "RECORDER_DB": str(db)},
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 42


def test_what_nohup_has_it_ignore_a_command_ignores(db: Path) -> None:
    script = "import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
    command = ["nohup", *PROGRAM, "run", "--", sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, env={**environment(db.parent), "RECORDER_DB": str(db)})
    assert done.stdout == b"True\n"


def test_a_killed_command_gives_the_code_of_a_shell(db: Path) -> None:
    assert run(db, "--", "sh", "-c", "kill -9 $$").code == 128 + signal.SIGKILL


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
    deadline = time.monotonic() + 30
    while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.close(terminal)
    assert b"hits 1\r\n" in shown
    assert os.waitstatus_to_exitcode(ended[1]) == 5


# Asks an API as a client does that was given its address in code, and goes on without it.
PAST = """
import contextlib, sys, urllib.request as web
for url in sys.argv[1:]:
    with contextlib.suppress(OSError):
        web.urlopen(url)
"""


def past(*urls: str) -> list[str]:
    return [sys.executable, "-c", PAST, *urls]


def test_an_api_that_is_asked_past_a_replay_is_refused_and_fails_it(db: Path, demo_recording: Path) -> None:
    ran = run(demo_recording, "--replay", "latest", "--", *past("https://api.anthropic.com/v1/canary?key=canary"))
    assert ran.code == 5
    assert (
        "Requests that bypassed the replay were refused: api.anthropic.com. A client has its address from " in ran.err
    )
    assert "canary" not in ran.err


def test_what_else_clients_ask_does_not_fail_a_replay(db: Path, demo_recording: Path) -> None:
    ran = run(demo_recording, "--replay", "latest", "--", *past("http://plain.test/", "https://registry.test/"))
    assert ran.code == 0
    assert ran.err.endswith("Also refused in this replay: plain.test, registry.test.\n")


async def test_what_a_client_sends_its_provider_besides_does_not_fail_a_replay(db: Path) -> None:
    """Claude Code sends statistics to the host of its API, whatever its base URL."""
    both = ["sh", "-c", '"$1" -c "$2" "$3" 0; "$1" -c "$4" https://api.openai.com/', "sh"]
    both += [sys.executable, CLIENT, HELLO, PAST]
    async with await start(pace=0) as demo:
        await in_thread(db, "--session", "hello", "--upstream", f"openai={demo.base_url}", "--", *client())
    ran = run(db, "--replay", "hello", "--speed", "max", "--", *both)
    assert (ran.code, "Also refused in this replay: api.openai.com." in ran.err) == (0, True)


def test_the_address_that_a_client_had_is_that_of_an_api(db: Path, demo_recording: Path) -> None:
    base = "https://gateway.internal.test/v1"
    ran = run(demo_recording, "--replay", "latest", "--", *past(base), OPENAI_API_BASE=base)
    assert (ran.code, "refused: gateway.internal.test." in ran.err) == (5, True)


def test_a_replay_needs_no_address(demo_recording: Path) -> None:
    assert run(demo_recording, "--replay", "latest", "--", "true", OPENAI_BASE_URL="http://[nowhere").code == 0


def test_a_replay_can_be_let_out(db: Path, demo_recording: Path) -> None:
    script = [sys.executable, "-c", "import os; print(os.environ.get('HTTPS_PROXY'))"]
    assert b"http://127.0.0.1:" in run(demo_recording, "--replay", "latest", "--", *script).out
    assert run(demo_recording, "--replay", "latest", "--allow-network", "--", *script).out == b"None\n"


WEBSOCKET = """
import os, socket, sys
host, port = os.environ["OPENAI_BASE_URL"].split("/")[2].split(":")
lines = ("GET /v1/responses HTTP/1.1", f"Host: {host}", "Connection: Upgrade", "Upgrade: websocket", "", "")
with socket.create_connection((host, int(port))) as connection:
    connection.sendall("\\r\\n".join(lines).encode())
    print(connection.recv(1024).splitlines()[0].decode())
"""


def test_a_websocket_that_was_declined_is_told_of_and_the_code_is_the_commands(db: Path, demo_recording: Path) -> None:
    said = "Refused, and not recorded: 1 request. WebSocket is not recorded here: use the same URL with HTTP and SSE"
    for path, *replay in ((demo_recording, "--replay", "latest"), (db,)):
        ran = run(path, *replay, "--no-websocket", "--", sys.executable, "-c", WEBSOCKET)
        assert (ran.code, ran.out) == (0, b"HTTP/1.1 426 Upgrade Required\n")
        assert said in ran.err
        assert "recover" not in ran.err


def test_a_probe_that_is_not_recorded_does_not_fail_a_replay(db: Path, demo_recording: Path) -> None:
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


@pytest.mark.parametrize("command", [("gemini", "-p", "hi"), ("npx", "-y", "@google/gemini-cli@0.61.0", "-p", "hi")])
def test_gemini_is_not_started_to_fail_for_want_of_a_setting(tmp_path: Path, command: Sequence[str]) -> None:
    home = {"GEMINI_CLI_HOME": str(tmp_path), "GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(tmp_path / "none")}
    with pytest.raises(UsageError, match=r'put \{"security": .* into \S+/\.gemini/settings\.json, and its key into'):
        refuse_undecided(command, home)
    refuse_undecided(command, {**home, "GOOGLE_GENAI_USE_GCA": "true"})
    refuse_undecided(("env", "GOOGLE_GENAI_USE_GCA=true", *command), home)
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / "settings.json").write_text(f"// mine\n{SETTING}")
    refuse_undecided(command, home)


def test_other_commands_need_no_setting_of_gemini(tmp_path: Path) -> None:
    home = {"GEMINI_CLI_HOME": str(tmp_path), "GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(tmp_path / "none")}
    for command in (("python", "gemini"), ("gemini", "--version"), ("env", "python", "gemini.py")):
        refuse_undecided(command, home)


@pytest.mark.parametrize(
    "command",
    [
        ("codex", "exec", "hi"),
        ("/usr/local/bin/codex", "exec", "hi"),
        ("npx", "@openai/codex", "exec", "hi"),
        ("npm", "exec", "--", "@openai/codex@0.169.0", "exec", "hi"),
        ("env", "-u", "RUST_LOG", "RUST_LOG=debug", "timeout", "-s", "INT", "5m", "codex", "exec", "hi"),
        ("yarn", "codex", "exec", "hi"),
        ("npx", "-y", "-p", "@openai/codex@latest", "codex", "exec", "hi"),
        ("npm", "exec", "--package=@openai/codex", "--", "codex", "exec", "hi"),
    ],
)
def test_codex_is_found_in_a_command(command: Sequence[str]) -> None:
    assert codex_place(command) == len(command) - 2


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/usr/bin/python3", "app.py"], "python3"),
        (["timeout", "-k", "5", "90", "opencode", "run", "hi"], "opencode"),
        (["env", "A=b", "nice", "-n", "5", "/opt/claude", "-p", "hi"], "claude"),
        (["npx", "-y", "@openai/codex@0.169.0", "exec"], "codex"),
        (["timeout", "90"], "timeout"),
        (["npm", "run", "build"], "npm"),
        (["env", "EDITOR=/usr/bin/vi", "git", "commit"], "git"),
    ],
)
def test_a_session_is_named_after_the_program_and_not_after_its_launcher(command: Sequence[str], name: str) -> None:
    assert program(command) == name


def test_other_commands_are_not_codex() -> None:
    assert codex_place(("python", "app.py", "codex.txt", "x", "codex")) is None
    assert codex_place(("env", "CODEX_PATH=/usr/bin/codex", "python", "app.py")) is None
    assert codex_place(("npx", "-p", "@openai/codex", "-c", "codex exec hi")) is None


def test_what_a_launcher_sets_counts() -> None:
    given = {"HOME": "/home/me", "CODEX_HOME": "/other"}
    assert assigned(("env", "-i", "CODEX_HOME=/mine", "codex"), given) == {"HOME": "/home/me", "CODEX_HOME": "/mine"}


def test_a_command_goes_past_the_proxy_of_its_environment() -> None:
    assert "NO_PROXY" not in pointed({}, URL)
    given = {"HTTP_PROXY": "http://proxy:3128", "no_proxy": "internal"}
    assert pointed(given, URL)["NO_PROXY"] == "127.0.0.1"
    assert pointed(given, URL)["no_proxy"] == "internal,127.0.0.1"


def test_a_variable_that_is_no_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://user:canary@nowhere/v1")
    with pytest.raises(UsageError, match="The address in OPENAI_BASE_URL cannot be recorded from") as caught:
        module._inherited([])
    assert "canary" not in str(caught.value)
    assert module._inherited(["openai"]) == []


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
@pytest.mark.parametrize("base", ["http://h/gw", "http://h", "http://h/v1beta/openai/", "http://h/v1"])
def test_a_client_keeps_its_own_paths(variable: str, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in BASES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, base)
    asked = pointed(os.environ, "")[variable] + "/chat/completions"
    route = Routes(module._inherited([])).route(asked, [])
    assert (route.upstream.name, route.url) == ("openai", base.rstrip("/") + "/chat/completions")


def test_a_client_without_an_address_is_given_one_with_its_version() -> None:
    assert pointed({}, URL)["OPENAI_BASE_URL"] == f"{URL}/openai/v1"
    assert pointed({}, URL)["ANTHROPIC_BASE_URL"] == f"{URL}/anthropic"


def test_litellm_has_variables_of_its_own() -> None:
    assert pointed({}, URL)["ANTHROPIC_API_BASE"] == f"{URL}/anthropic"
    assert pointed({}, URL)["GEMINI_API_BASE"] == f"{URL}/gemini/v1beta"
    assert pointed({"GEMINI_API_BASE": "http://h/v1beta"}, URL)["GEMINI_API_BASE"] == f"{URL}/gemini"
    assert pointed({"GOOGLE_GEMINI_BASE_URL": "http://h"}, URL)["GEMINI_API_BASE"] == f"{URL}/gemini/v1beta"


def test_keys_go_nowhere_but_where_their_client_goes() -> None:
    """Paths that look like those of another API."""
    routes, child = Routes(), pointed({}, "")
    assert routes.route(child["ANTHROPIC_BASE_URL"] + "/v1/complete", []).upstream.name == "anthropic"
    assert routes.route(child["OPENAI_BASE_URL"] + "/messages", []).upstream.name == "openai"


def test_a_replay_needs_no_keys(db: Path, demo_recording: Path) -> None:
    names = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")
    script = f"import os; print(*(os.environ[name] for name in {names}))"
    ran = run(demo_recording, "--replay", "latest", "--", sys.executable, "-c", script, OPENAI_API_KEY="mine")
    assert ran.out.split() == [b"mine", b"none", b"none", b"none"]
