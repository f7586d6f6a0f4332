"""Codex under `recorder run`, as people have it: logged in, with providers of their own, called by
scripts.

What Codex would ask is decided in `recorder.commands.clients.codex`, see
tests/unit/commands/test_codex.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import codex as scripted_codex
from tests.support.empty_log import empty
from tests.support.event_loop import beside
from tests.support.logbook import entries
from tests.support.server import Ran, run, run_parent

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
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
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
    empty(tmp_path / "recorder.db")
    return tmp_path


def under_recorder(home: Path, *words: str, **variables: str) -> Ran:
    path, folder = (
        f"{home / 'bin'}:{os.environ['PATH']}",
        variables.pop("TMPDIR", str(home / "tmp")),
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tempfile, "tempdir", folder)
        ran = run_parent(home / "recorder.db", "run", *words, PATH=path, TMPDIR=folder, **variables)
    assert not any(Path(folder).glob("recorder-*")), "the program of ours is gone with the command"
    return ran


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
    ("mode", "name", "credentials"),
    [("apikey", "openai", "of-login"), ("chatgpt", "chatgpt", "of-chatgpt")],
)
def test_a_login_is_used_and_a_replay_needs_none(
    home: Path, mode: str, name: str, credentials: str
) -> None:
    log_in(home, mode)
    with beside(upstream) as there:
        to = f"{name}={there.url}/backend"
        live = under_recorder(
            home,
            "--session",
            "a",
            "--upstream",
            to,
            "--",
            "codex",
            "exec",
            "hi",
            OPENAI_API_KEY="other",
        )
    expected = (0, ["/backend/v1/responses" if name == "openai" else "/backend/responses"])
    assert (live.code, [each.target for each in there.asked]) == expected
    assert there.asked[0].headers["authorization"] == f"Bearer {credentials}"
    assert ("chatgpt-account-id" in there.asked[0].headers) == (mode == "chatgpt")
    (home / ".codex" / "auth.json").unlink()
    again = under_recorder(home, "--replay", "a", "--strict", "--", "codex", "exec", "hi")
    assert (again.code, again.out) == (0, live.out)


def test_a_login_with_chatgpt_is_recorded_from_chatgpt(home: Path) -> None:
    log_in(home, "chatgpt")
    unreachable = "import sys; sys.exit(9)"
    (home / "bin" / "codex").write_text(
        f'#!/bin/sh\necho "$@"\nexec {sys.executable} -c "{unreachable}"\n'
    )
    ran = under_recorder(home, "--", "codex", "exec", "hi")
    assert ran.code == 9
    assert (
        "Codex is recorded from https://chatgpt.com/backend-api/codex, the server that it uses by "
        in ran.err
    )
    assert b"/chatgpt" in ran.out
    assert b"requires_openai_auth=true" in ran.out


def test_a_provider_of_the_users_own_is_asked_as_it_is_set_up(home: Path) -> None:
    with beside(upstream) as there, beside(upstream) as openai:
        configure(home, own_provider(there.url))
        words = ("--session", "a", "--upstream", f"openai={openai.url}")
        live = under_recorder(
            home, *words, "--", "codex", "exec", "hi", MY_KEY="mine", OPENAI_API_KEY="no"
        )
    assert (live.code, openai.asked) == (0, []), "the prompt goes to nobody else"
    (asked,) = there.asked
    assert asked.target == "/gateway/responses?api-version=2"
    assert (asked.headers["authorization"], asked.headers["x-mine"]) == ("Bearer mine", "yes")
    again = under_recorder(home, "--replay", "a", "--strict", "--", "codex", "exec", "hi")
    assert (again.code, again.out) == (0, live.out), "without the key"
    assert [each.exchange.provider for each in entries(home / "recorder.db")] == ["codex-mine"]


def test_a_cassette_says_nothing_to_codex_but_the_name_of_an_upstream(home: Path) -> None:
    """The settings of a provider may name a program that Codex runs for its key."""
    cassette = home / "other.sse.jsonl"
    with beside(upstream) as there:
        to = f"openai={there.url}"
        under_recorder(
            home, "--cassette", str(cassette), "--upstream", to, "--", "codex", "exec", "hi"
        )
    hostile = json.dumps('openai", auth={command="touch"}} #')
    cassette.write_text(
        cassette.read_text().replace('"upstream":"openai"', f'"upstream":{hostile}')
    )
    (home / "bin" / "codex").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    ran = under_recorder(home, "--replay", str(cassette), "--", "codex", "exec", "hi")
    assert b"/openai/v1" in ran.out
    assert b"auth" not in ran.out.replace(b"requires_openai_auth", b"")


def test_profiles_and_settings_of_the_command_line_count(home: Path) -> None:
    with beside(upstream) as there:
        configure(home, own_provider(there.url))
        configure(home, 'model_provider = "other"\n', "fast")
        last = f'model_providers.other.base_url="{there.url}/last"'
        under_recorder(home, "--", "codex", "-p", "fast", "exec", "-c", last, "hi")
    assert [each.target for each in there.asked] == ["/last/responses"]


def test_scripts_call_a_codex_that_is_recorded(home: Path) -> None:
    script = 'codex exec hi && sh -c "codex -p fast exec there"'
    with beside(upstream) as there:
        configure(home, own_provider(there.url))
        configure(home, 'model_provider = "other"\n', "fast")
        live = under_recorder(home, "--session", "a", "--", "bash", "-c", script, MY_KEY="mine")
    assert live.code == 0
    assert [each.target for each in there.asked] == [
        "/gateway/responses?api-version=2",
        "/other/responses",
    ]
    again = under_recorder(home, "--replay", "a", "--strict", "--", "bash", "-c", script)
    assert (again.code, again.out) == (0, live.out)


def test_a_script_whose_codex_would_ask_who_knows_whom_is_refused(home: Path) -> None:
    refused = {
        "model_provider=nosuch": "'nosuch' is not in its settings",
        "model_provider=amazon-bedrock": "signs its requests for the host that they go to",
        'model_providers.mine.base_url="http://127.0.0.1:1/other"': "was not known when the recorder started",
    }
    each = 'for setting in "$@"; do codex exec -c "$setting" hi; echo $?; done'
    with beside(upstream) as there:
        configure(home, own_provider(there.url))
        ran = under_recorder(home, "--", "bash", "-c", each, "bash", *refused, MY_KEY="mine")
    assert (ran.out, there.asked) == (b"2\n2\n2\n", [])
    assert [said for said in refused.values() if said not in ran.err] == []


def test_what_cannot_be_known_is_refused_before_anything_starts(home: Path) -> None:
    (home / "recorder.db").unlink()
    configure(home, "model_provider = [")
    ran = under_recorder(home, "--", "codex", "exec", "hi")
    assert ran.code == 2
    assert f"Error: Codex's settings in {home}/.codex/config.toml cannot be read: " in ran.err
    configure(home, 'cli_auth_credentials_store = "keyring"\n')
    ran = under_recorder(home, "--", "codex", "exec", "hi")
    assert ran.code == 2
    assert "server with --upstream openai=https://chatgpt.com/backend-api/codex or" in ran.err
    assert not (home / "recorder.db").exists()


def test_npm_scripts_call_a_codex_that_is_recorded(home: Path) -> None:
    """npm puts the programs of a project first on the PATH, and has a shell run the script."""
    (home / "bin").rename(home / "project")
    npm = (
        f'PATH={home / "project"}:$PATH exec "${{npm_config_script_shell:-sh}}" -c "codex exec hi"'
    )
    with beside(upstream) as there:
        ran = under_recorder(home, "--upstream", f"openai={there.url}", "--", "sh", "-c", npm)
    assert (ran.code, len(there.asked)) == (0, 1)


def test_the_program_of_ours_works_in_any_folder_whatever_npm_cannot_read(home: Path) -> None:
    (home / ".npmrc").mkdir()
    odd = home / "tmp" / os.fsdecode("a 'b\" ü \\ $x\n".encode() + b"\xff")
    odd.mkdir()
    with beside(upstream) as there:
        words = ("--upstream", f"openai={there.url}", "--", "sh", "-c", "codex exec hi")
        ran = under_recorder(home, *words, TMPDIR=str(odd))
    assert (ran.code, len(there.asked), list(odd.iterdir())) == (0, 1, [])


def test_env_says_what_serve_has_to_be_told(home: Path) -> None:
    db = home / "recorder.db"
    configure(home, own_provider("https://gateway.example"))
    printed = run(db, "env", "codex")
    assert 'model_providers.mine.base_url="http://127.0.0.1:8787/codex-mine"' in printed.text
    assert (
        "recorder serve` with --upstream codex-mine=https://gateway.example/gateway\n"
        in printed.err
    )
    log_in(home, "chatgpt")
    configure(home, "")
    printed = run(db, "env", "codex")
    assert 'base_url="http://127.0.0.1:8787/chatgpt"' in printed.text
    assert (printed.err, printed.code) == ("", 0)


def test_the_program_of_ours_imports_nothing_that_lies_around(home: Path) -> None:
    (home / "recorder.py").write_text("raise SystemExit('not this one')")
    (home / "bin" / "codex").write_text('#!/bin/sh\necho real "$@"\n')
    assert (
        under_recorder(home, "--", "bash", "-c", "codex --version; true").text == "real --version\n"
    )
