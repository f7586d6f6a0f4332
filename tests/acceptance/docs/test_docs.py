"""What README and docs/ show is run: commands, settings, queries."""

from __future__ import annotations

import asyncio
import re
import shlex
import socket
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import get_args

import click
import pytest

from recorder.commands import recorder
from recorder.commands.terminal.settings import defaults
from recorder.commands.verbs import VERBS
from recorder.model.events import Kind, Status
from recorder.store import schema
from recorder.store.location import database_url
from recorder.store.write.writer import Store
from tests.support.commands import parse
from tests.support.console import PAGES, blocks
from tests.support.corpus import ROOT
from tests.support.provider.server import DemoServer, start
from tests.support.rows import add, begin, make_end, make_events, make_exchange, make_session

README = (ROOT / "README.md").read_text()
LOG = (ROOT / "docs" / "log.md").read_text()


def command_lines() -> list[str]:
    """Every `recorder …` in the shell blocks, those in `$(…)` included."""
    text = "\n".join(blocks(README, "sh"))
    return re.findall(r"(?:^|\$\()(recorder [^\n)#&>]*)", text, re.MULTILINE)


def test_every_command_shown_is_one() -> None:
    for line in command_lines():
        parse(shlex.split(line)[1:])


@pytest.fixture
async def upstream() -> AsyncIterator[DemoServer]:
    async with await start(pace=0) as server:
        yield server


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


# on a machine that is busy
WAITING = "".join(f"[{verb}]\nwait = 60\n" for verb in ("sessions", "show", "replay"))


async def test_the_quick_start_records_and_replays(upstream: DemoServer, tmp_path: Path) -> None:
    """The lines of "Record, look, replay" as they stand, on a free port, against the built-in
    upstream.
    """
    install, *lines = next(
        block for block in blocks(README, "sh") if "recorder serve &" in block
    ).splitlines()
    assert shlex.split(install, comments=True) == ["pip", "install", "."]
    assert len(lines) <= 15
    port = str(free_port())
    own = tmp_path / "recorder" / "recorder.toml"
    own.parent.mkdir()
    own.write_text(
        f'db = "{tmp_path}/recorder.db"\n[serve]\nport = {port}\nupstream = ["openai={upstream.base_url}"]\n{WAITING}'
    )
    script = (
        "\n".join(lines)
        .replace("8787", port)
        .replace("curl -N", "curl -sN --retry 20 --retry-connrefused")
    )
    script = script.replace("recorder serve &", "recorder serve 2> serve.log &")
    script = script.replace("\nrecorder sessions", " > received.sse\nrecorder sessions", 1)
    script += "\nkill $!; wait $!; cmp body.sse received.sse && echo the same"
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", script),
        cwd=tmp_path,
        env={
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "OPENAI_API_KEY": "sk-none",
            "XDG_CONFIG_HOME": str(tmp_path),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert out.decode().rstrip().endswith("the same"), err.decode()
    assert re.search(r"gpt-5\S* +\d+ +completed\n", out.decode()), "`recorder sessions` lists it"
    assert (tmp_path / "body.sse").stat().st_size > 1000


async def test_the_quick_start_needs_no_key(tmp_path: Path) -> None:
    """With the two lines for it in place of `recorder serve`, and the others as they stand."""
    started = next(
        block for block in blocks(README, "sh") if "recorder demo --serve &" in block
    ).splitlines()
    shown = next(block for block in blocks(README, "sh") if "recorder serve &" in block)
    asked = shown[shown.index("curl") : shown.index("\nrecorder sessions")]
    here, upstream = free_port(), free_port()
    lines = "\n".join([*started, asked]).replace("8787", str(here)).replace("8900", str(upstream))
    lines = lines.replace("--serve &", f"--serve --port {upstream} 2>&1 & demo=$!")
    lines = lines.replace(f"{upstream} &", f"{upstream} --port {here} 2> serve.log & serve=$!")
    script = f"""
trap 'kill $demo $serve; wait' EXIT
{lines.replace("curl -N", "curl -sN --retry 60 --retry-connrefused --retry-delay 1")} > received.sse
until recorder show latest 2> /dev/null | grep -q completed; do sleep 0.2; done
recorder show latest
"""
    process = await asyncio.create_subprocess_exec(
        *("timeout", "120", "bash", "-c", script),
        cwd=tmp_path,
        env={
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "RECORDER_DB": str(tmp_path / "recorder.db"),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out = (await process.communicate())[0].decode()
    assert process.returncode == 0, out
    assert out.startswith(f"http://127.0.0.1:{upstream}\n")
    assert f"recorder serve --upstream openai=http://127.0.0.1:{upstream} " in out
    assert "Hello!" in out
    assert b"response.completed" in (tmp_path / "received.sse").read_bytes()


async def test_ten_lines_lead_from_a_live_call_to_a_green_test_without_network(
    tmp_path: Path,
) -> None:
    """The lines of "Test" as they stand; the built-in upstream is the provider, and then it is
    gone.
    """
    [test] = blocks(README, "python")
    shown = next(block for block in blocks(README, "sh") if "pytest --recorder-mode" in block)
    live, add, again, verify = shown.splitlines()
    cassette = tmp_path / shlex.split(add)[2]
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_app.py").write_text(test)

    async def typed(line: str, upstream: str, **key: str) -> str:
        (tmp_path / "pytest.ini").write_text(
            f"[pytest]\naddopts = -p no:asyncio\nrecorder_upstream = openai={upstream}\n"
        )
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", line),
            cwd=tmp_path,
            env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", **key},
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        return out.decode()

    async with await start(pace=0) as provider:
        assert "1 passed" in await typed(live, provider.base_url, OPENAI_API_KEY="sk-of-the-user")
        [asked] = provider.requests
        assert asked.header("authorization") == "Bearer sk-of-the-user"
        assert "1 passed" in await typed(verify, provider.base_url, OPENAI_API_KEY="sk-of-the-user")
        assert len(provider.requests) == 2
    assert cassette.exists()
    assert "1 passed" in await typed(again, provider.base_url)
    cassette.unlink()
    assert "There is no cassette" in await typed(again, provider.base_url)


def test_the_settings_shown_are_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every verb takes the file as it stands, those that have none of its options included."""
    [shown] = blocks((ROOT / "docs" / "settings.md").read_text(), "toml")
    own = tmp_path / "recorder" / "recorder.toml"
    own.parent.mkdir()
    own.write_text(shown)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with click.Context(recorder) as context:
        taken = {
            verb: defaults(verb, command)
            for verb in VERBS
            if (command := recorder.get_command(context, verb))
        }
    in_file = {
        name.replace("-", "_"): str(value) for name, value in tomllib.loads(shown)["serve"].items()
    }
    assert taken["serve"] == {**in_file, "db": f"{own.parent}/recordings.db"}
    assert taken["env"] == {}


def test_the_newest_session_of_the_queries_is_the_latest(tmp_path: Path) -> None:
    """A session that is used again is the newest, as it is for `latest`."""
    with Store(database_url(tmp_path / "log.db")) as store:
        resumed, other = begin(store, 1), begin(store, 2)
        again = make_exchange(make_session(1), 3)
        with store.transaction():
            store.add_exchange(again)
        for exchange in (resumed, other, again):
            add(store, make_events(exchange, [make_end("completed")], ["end"]))
    [sql] = [block for block in blocks(LOG, "sql") if "$.status" in block]
    with closing(sqlite3.connect(tmp_path / "log.db")) as connection:
        assert {row[0] for row in connection.execute(sql)} == {
            resumed.exchange_id,
            again.exchange_id,
        }


def test_every_query_shown_answers(tmp_path: Path) -> None:
    Store(database_url(tmp_path / "log.db")).close()
    with closing(sqlite3.connect(tmp_path / "log.db")) as connection:
        for sql in (*blocks(LOG, "sql"), re.findall(r'"(select .*?)"', README)[0]):
            assert connection.execute(sql).fetchall() == []


def test_every_table_and_kind_is_documented() -> None:
    statuses = [name for part in get_args(Status) for name in get_args(part)]
    more = (schema.ingest_offsets, schema.export_cursors, schema.prices, schema.archives)
    tables = [table.name for table in (*schema.LOG, *more)]
    for name in [*tables, *get_args(Kind), *statuses]:
        assert f"`{name}`" in LOG or name == "note", f"docs/log.md does not mention {name}"
    disposable = [
        table.name for table in (schema.rebuilds, schema.dead_letters, *schema.tables_of.values())
    ]
    # docs/sql.md is about what these mean
    assert set(schema.metadata.tables) == {*tables, *disposable}


def test_make_has_the_targets_that_the_readme_names() -> None:
    named = set(re.findall(r"make ([a-z-]+)", README))
    shown = subprocess.run(
        ["make", "-C", ROOT, "help"], capture_output=True, text=True, check=True
    ).stdout
    assert named == set(re.findall(r"^([a-z-]+)", shown, re.MULTILINE)) & named


def test_the_glossary_is_short_and_each_of_its_words_is_used() -> None:
    glossary = ROOT / "docs" / "glossary.md"
    words = re.findall(r"^\| (\w+) \| .+ \|$", glossary.read_text(), re.MULTILINE)[1:]
    used = "\n".join(page.read_text() for page in PAGES if page != glossary).lower()
    assert 0 < len(words) <= 25
    assert words == sorted(set(words))
    for word in words:
        assert re.search(rf"\b{word.removesuffix('y')}", used), f"no page uses {word!r}"


def test_the_readme_leads_to_the_pages() -> None:
    assert [page for page in ("api.md", "glossary.md") if f"(docs/{page})" not in README] == []
