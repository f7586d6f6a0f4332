"""Codex under `recorder run`, as people have it: logged in, with providers of their own, called by scripts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import codex as scripted_codex
from tests.support import processes
from tests.support.logbook import entries
from tests.support.server import PROGRAM, Ran, environment

BODY = b"""\
event: response.completed
data: {"type":"response.completed","response":{"id":"resp_1","status":"completed"}}

"""


class Asked(NamedTuple):
    """A request, as the upstream saw it."""

    target: str
    headers: Mapping[str, str]


class Upstream:
    """Answers everything with one event, and keeps who asked."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        await reader.readexactly(int(headers.get("content-length", 0)))
        self.asked.append(Asked(head[0].split()[1], headers))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY))
        await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def upstream() -> AsyncIterator[Upstream]:
    found = Upstream()
    server = await asyncio.start_server(found.answer, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a `codex` on the PATH."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "codex"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {scripted_codex.__file__} "$@"\n')
    program.chmod(0o755)
    (tmp_path / ".codex").mkdir()
    (tmp_path / "tmp").mkdir()
    return tmp_path


async def run(home: Path, *words: str, **variables: str) -> Ran:
    own = environment(home)
    own |= {
        "PATH": f"{home / 'bin'}:{own['PATH']}",
        "TMPDIR": str(home / "tmp"),
        "RECORDER_DB": str(home / "recorder.db"),
    }
    code, out, err = await asyncio.to_thread(processes.command, ["run", *words], {**own, **variables}, home)
    assert not any((home / "tmp").glob("recorder-*")), "the program of ours is gone with the command"
    return Ran(code, out, err.decode())


def log_in(home: Path, mode: str) -> None:
    key, tokens = {"OPENAI_API_KEY": "of-login"}, {"tokens": {"access_token": "of-chatgpt"}}
    held = {"auth_mode": mode, **(key if mode == "apikey" else tokens)}
    (home / ".codex" / "auth.json").write_text(json.dumps(held))


def configure(home: Path, text: str, profile: str = "") -> None:
    (home / ".codex" / (f"{profile}.config.toml" if profile else "config.toml")).write_text(text)


def own_provider(url: str) -> str:
    return (
        f'model_provider = "mine"\n[model_providers.mine]\nname = "Mine"\nbase_url = "{url}/gateway"\n'
        'env_key = "MY_KEY"\nquery_params = {api-version = "2"}\nhttp_headers = {X-Mine = "yes"}\n'
        f'[model_providers.other]\nname = "Other"\nbase_url = "{url}/other"\n'
    )


@pytest.mark.parametrize(
    ("mode", "name", "credentials"), [("apikey", "openai", "of-login"), ("chatgpt", "chatgpt", "of-chatgpt")]
)
async def test_a_login_is_used_and_a_replay_needs_none(home: Path, mode: str, name: str, credentials: str) -> None:
    log_in(home, mode)
    async with upstream() as there:
        to = f"{name}={there.url}/backend"
        live = await run(home, "--session", "a", "--upstream", to, "--", "codex", "exec", "hi", OPENAI_API_KEY="other")
    assert (live.code, [each.target for each in there.asked]) == (
        0,
        ["/backend/v1/responses" if name == "openai" else "/backend/responses"],
    )
    assert there.asked[0].headers["authorization"] == f"Bearer {credentials}"
    assert ("chatgpt-account-id" in there.asked[0].headers) == (mode == "chatgpt")
    (home / ".codex" / "auth.json").unlink()
    again = await run(home, "--replay", "a", "--strict", "--", "codex", "exec", "hi")
    assert (again.code, again.out) == (0, live.out)


async def test_a_login_with_chatgpt_is_recorded_from_chatgpt(home: Path) -> None:
    log_in(home, "chatgpt")
    unreachable = "import sys; sys.exit(9)"
    (home / "bin" / "codex").write_text(f'#!/bin/sh\necho "$@"\nexec {sys.executable} -c "{unreachable}"\n')
    ran = await run(home, "--", "codex", "exec", "hi")
    assert ran.code == 9
    assert "Codex is recorded from https://chatgpt.com/backend-api/codex, the server that it uses by " in ran.err
    assert b"/chatgpt" in ran.out
    assert b"requires_openai_auth=true" in ran.out


async def test_an_upstream_that_is_said_is_where_a_login_with_chatgpt_goes_too(home: Path) -> None:
    log_in(home, "chatgpt")
    async with upstream() as there:
        ran = await run(home, "--upstream", f"openai={there.url}", "--", "codex", "exec", "hi")
    assert (ran.code, there.asked[0].target) == (0, "/v1/responses")


async def test_a_key_is_used_where_there_is_no_login(home: Path) -> None:
    async with upstream() as there:
        to = ("--upstream", f"openai={there.url}")
        await run(home, *to, "--", "codex", "exec", "hi", OPENAI_API_KEY="of-variable")
        await run(home, *to, "--", "codex", "exec", "hi", CODEX_API_KEY="of-codex")
        await run(home, *to, "--", "codex", "exec", "hi")
    assert [each.headers.get("authorization") for each in there.asked] == [
        "Bearer of-variable",
        "Bearer of-codex",
        None,
    ]


async def test_a_provider_of_the_users_own_is_asked_as_it_is_set_up(home: Path) -> None:
    async with upstream() as there, upstream() as openai:
        configure(home, own_provider(there.url))
        words = ("--session", "a", "--upstream", f"openai={openai.url}")
        live = await run(home, *words, "--", "codex", "exec", "hi", MY_KEY="mine", OPENAI_API_KEY="no")
    assert (live.code, openai.asked) == (0, []), "the prompt goes to nobody else"
    (asked,) = there.asked
    assert asked.target == "/gateway/responses?api-version=2"
    assert (asked.headers["authorization"], asked.headers["x-mine"]) == ("Bearer mine", "yes")
    again = await run(home, "--replay", "a", "--strict", "--", "codex", "exec", "hi")
    assert (again.code, again.out) == (0, live.out), "without the key"
    assert [each.exchange.provider for each in entries(home / "recorder.db")] == ["codex-mine"]


async def test_a_cassette_says_nothing_to_codex_but_the_name_of_an_upstream(home: Path) -> None:
    """The settings of a provider may name a program that Codex runs for its key."""
    cassette = home / "other.sse.jsonl"
    async with upstream() as there:
        to = f"openai={there.url}"
        await run(home, "--cassette", str(cassette), "--upstream", to, "--", "codex", "exec", "hi")
    hostile = json.dumps('openai", auth={command="touch"}} #')
    cassette.write_text(cassette.read_text().replace('"upstream":"openai"', f'"upstream":{hostile}'))
    (home / "bin" / "codex").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    ran = await run(home, "--replay", str(cassette), "--", "codex", "exec", "hi")
    assert b"/openai/v1" in ran.out
    assert b"auth" not in ran.out.replace(b"requires_openai_auth", b"")


async def test_profiles_and_settings_of_the_command_line_count(home: Path) -> None:
    async with upstream() as there:
        configure(home, own_provider(there.url))
        configure(home, 'model_provider = "other"\n', "fast")
        last = f'model_providers.other.base_url="{there.url}/last"'
        await run(home, "--", "codex", "--profile", "fast", "exec", "hi")
        await run(home, "--", "codex", "-p", "fast", "exec", "-c", last, "hi")
        await run(
            home, "--", "codex", "exec", "-c", f'openai_base_url="{there.url}/own"', "-c", "model_provider=openai", "x"
        )
    assert [each.target for each in there.asked] == ["/other/responses", "/last/responses", "/own/responses"]


async def test_scripts_call_a_codex_that_is_recorded(home: Path) -> None:
    script = 'codex exec hi && sh -c "codex -p fast exec there"'
    async with upstream() as there:
        configure(home, own_provider(there.url))
        configure(home, 'model_provider = "other"\n', "fast")
        live = await run(home, "--session", "a", "--", "bash", "-c", script, MY_KEY="mine")
    assert live.code == 0
    assert [each.target for each in there.asked] == ["/gateway/responses?api-version=2", "/other/responses"]
    again = await run(home, "--replay", "a", "--strict", "--", "bash", "-c", script)
    assert (again.code, again.out) == (0, live.out)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("model_provider=nosuch", "'nosuch' is not in its settings"),
        ("model_provider=amazon-bedrock", "signs its requests for the host that they go to"),
        (
            'model_providers.mine.base_url="http://127.0.0.1:1/other"',
            "was not known when the recorder started",
        ),
    ],
)
async def test_a_script_whose_codex_would_ask_who_knows_whom_is_refused(home: Path, setting: str, said: str) -> None:
    async with upstream() as there:
        configure(home, own_provider(there.url))
        ran = await run(home, "--", "bash", "-c", f"codex exec -c '{setting}' hi", MY_KEY="mine")
    assert (ran.code, there.asked) == (2, [])
    assert said in ran.err


async def test_a_refusal_comes_before_anything_starts(home: Path) -> None:
    configure(home, "model_provider = [")
    ran = await run(home, "--", "codex", "exec", "hi")
    assert ran.code == 2
    assert f"Error: Codex's settings in {home}/.codex/config.toml cannot be read: " in ran.err
    assert not (home / "recorder.db").exists()
    assert (await run(home, "--", "codex", "login")).code != 2, "which asks no model"


async def test_a_login_in_the_keyring_is_asked_for(home: Path) -> None:
    configure(home, 'cli_auth_credentials_store = "keyring"\n')
    ran = await run(home, "--", "codex", "exec", "hi")
    assert ran.code == 2
    assert "server with --upstream openai=https://chatgpt.com/backend-api/codex or" in ran.err


async def test_npm_scripts_call_a_codex_that_is_recorded(home: Path) -> None:
    """npm puts the programs of a project first on the PATH, and has a shell run the script."""
    (home / "bin").rename(home / "project")
    npm = f'PATH={home / "project"}:$PATH exec "${{npm_config_script_shell:-sh}}" -c "codex exec hi"'
    async with upstream() as there:
        ran = await run(home, "--upstream", f"openai={there.url}", "--", "sh", "-c", npm)
    assert (ran.code, len(there.asked)) == (0, 1)


async def test_what_npm_cannot_read_is_not_the_affair_of_a_command(home: Path) -> None:
    (home / ".npmrc").mkdir()
    assert (await run(home, "--", "true")).code == 0


async def test_the_program_of_ours_works_in_any_folder(home: Path) -> None:
    odd = home / "tmp" / os.fsdecode("a 'b\" ü \\ $x\n".encode() + b"\xff")
    odd.mkdir()
    async with upstream() as there:
        words = ("--upstream", f"openai={there.url}", "--", "sh", "-c", "codex exec hi")
        ran = await run(home, *words, TMPDIR=str(odd))
    assert (ran.code, len(there.asked), list(odd.iterdir())) == (0, 1, [])


@pytest.mark.skipif(shutil.which("codex") is None, reason="Codex CLI is not on the PATH")
async def test_the_real_one_is_recorded_by_its_login_and_replayed_without(home: Path) -> None:
    (home / "bin" / "codex").unlink()
    log_in(home, "apikey")
    exec = ("exec", "--skip-git-repo-check", "hi")
    async with upstream() as there:
        to = f"openai={there.url}"
        live = await run(
            home, "--session", "a", "--upstream", to, "--", "bash", "-c", f"codex {' '.join(exec)} </dev/null"
        )
    assert live.code == 0
    assert there.asked[-1].headers["authorization"] == "Bearer of-login"
    (home / ".codex" / "auth.json").unlink()
    assert (await run(home, "--replay", "a", "--", "bash", "-c", f"codex {' '.join(exec)} </dev/null")).code == 0


async def test_env_says_what_serve_has_to_be_told(home: Path) -> None:
    configure(home, own_provider("https://gateway.example"))
    printed = await asyncio.to_thread(processes.command, ["env", "codex"], environment(home), home)
    assert b'model_providers.mine.base_url="http://127.0.0.1:8787/codex-mine"' in printed.out
    assert b"recorder serve` with --upstream codex-mine=https://gateway.example/gateway\n" in printed.err
    log_in(home, "chatgpt")
    configure(home, "")
    printed = await asyncio.to_thread(processes.command, ["env", "codex"], environment(home), home)
    assert b'base_url="http://127.0.0.1:8787/chatgpt"' in printed.out
    assert (printed.err, printed.code) == (b"", 0)


def test_the_program_of_ours_starts_from_any_folder(home: Path) -> None:
    """It imports what is installed, and nothing that lies around where it is called."""
    (home / "recorder.py").write_text("raise SystemExit('not this one')")
    words = [*PROGRAM, "run", "--", "bash", "-c", "codex --version; true"]
    own = {**os.environ, **environment(home), "PATH": f"{home / 'bin'}:{os.environ['PATH']}"}
    (home / "bin" / "codex").write_text('#!/bin/sh\necho real "$@"\n')
    done = subprocess.run(words, capture_output=True, text=True, env=own, cwd="/", check=True)
    assert done.stdout == "real --version\n"
