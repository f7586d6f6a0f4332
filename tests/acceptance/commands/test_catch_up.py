"""`recorder.commands.terminal.options`: who reads a log that is behind waits a moment, and hears
what is missing.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import URL

from recorder.commands.ops import niceness
from recorder.commands.terminal.behind import RECENT_S, behind
from recorder.ingest.ingester import Ingester
from recorder.journal.format import Mark
from recorder.journal.locks import claimed
from recorder.journal.reader import ingester_pid, waiting
from recorder.journal.writer import Journal
from recorder.program import command_of
from recorder.store.location import VARIABLE, database_url, journal_root
from recorder.store.write.writer import Store
from tests.integration.ingest.test_ingester import COMPLETED, Exchange, never
from tests.support.postgres import conninfo
from tests.support.scripts import Action, Chunk, End, ReadAll, Upstream, body_of
from tests.support.scripts import ask as ask_for
from tests.support.server import (
    PROGRAM,
    Serving,
    environment,
    everywhere,
    halt,
    run,
    serving,
    wait_until,
)

SCRIPT: list[Action] = [Chunk(COMPLETED), End()]
LONG = ("--wait", "60")  # a machine may be as busy as it likes
NOTHING = "Nothing is recorded yet"


# -- a recorder whose ingester is stopped


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream(lambda id: SCRIPT) as upstream:
        yield upstream


async def recorded_behind(serve: Serving, id: str) -> int:
    """An exchange passes while the ingester is stopped; returns its process."""
    journals = journal_root(database_url(serve.db))
    wait_until(lambda: any(ingester_pid(each) for each in journals.iterdir()), 60)
    [ingester] = serve.ingesters()
    halt(ingester)
    received = await ask_for(serve.port, id, ReadAll(), prefix=f"/s/{id}")
    assert received.size_bytes == len(body_of(SCRIPT))
    return ingester


def is_worth_a_word(path: Path) -> bool:
    """Whether something waits for that log which is not just on its way."""
    return any(each.since_s > RECENT_S for each in behind(journal_root(database_url(path))))


async def begun(command: Sequence[str], env: Mapping[str, str]) -> asyncio.subprocess.Process:
    """A command that waits."""
    process = await asyncio.create_subprocess_exec(*command, env=env, stdout=PIPE, stderr=PIPE)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(process.wait()), 2)
    return process


async def test_what_was_recorded_before_is_waited_for_and_else_it_is_said(
    tmp_path: Path, upstream: Upstream
) -> None:
    path = tmp_path / "recorder.db"
    with serving(path, *everywhere(upstream.base), program=PROGRAM) as serve:
        ingester = await recorded_behind(serve, "one")
        await asyncio.to_thread(wait_until, lambda: is_worth_a_word(path))
        early = await asyncio.to_thread(run, path, "sessions", "--wait", "0")
        assert early.code == 3
        assert "of a running recorder are not in the log yet" in early.err
        assert "The log is empty" in early.err
        assert NOTHING not in early.err

        command = [*PROGRAM, "sessions", "--jsonl", *LONG, "--db", str(path)]
        waits = await begun(command, environment(tmp_path))
        os.kill(ingester, signal.SIGCONT)
        out, err = await waits.communicate()
        assert b'"one"' in out
        assert err == b""


async def test_what_a_killed_recorder_left_is_said_with_what_to_do(
    tmp_path: Path, upstream: Upstream
) -> None:
    path = tmp_path / "recorder.db"
    with serving(path, *everywhere(upstream.base), program=PROGRAM) as serve:
        await recorded_behind(serve, "one")
        serve.kill()
    left = await asyncio.to_thread(run, path, "sessions", *LONG)
    assert left.code == 3
    assert "A recorder was killed and left" in left.err
    assert "run `recorder db recover`. What it left is not in the log." in left.err
    assert NOTHING not in left.err
    verified = await asyncio.to_thread(run, path, "verify", *LONG)
    assert verified.code == 3
    assert "The log is empty" in verified.err
    assert (await asyncio.to_thread(run, path, "db", "recover")).code == 0
    found = await asyncio.to_thread(run, path, "sessions", "--jsonl")
    assert b'"one"' in found.out
    assert found.err == ""


async def test_who_asks_at_once_gets_what_passed_just_before(
    tmp_path: Path, upstream: Upstream
) -> None:
    """As a script does it, again and again."""
    path = tmp_path / "recorder.db"
    with serving(path, *everywhere(upstream.base), program=PROGRAM) as serve:
        for number in range(3):
            await ask_for(serve.port, f"n{number}", ReadAll(), prefix=f"/s/n{number}")
            found = await asyncio.to_thread(run, path, "show", f"n{number}", *LONG)
            assert found.code == 0, found.err


async def test_an_ingester_that_is_waited_for_goes_before_others(
    tmp_path: Path, upstream: Upstream
) -> None:
    """And is nice again: else every chunk of the recorder would wait for it."""
    path = tmp_path / "recorder.db"
    with serving(path, *everywhere(upstream.base), program=PROGRAM) as serve:
        wait_until(serve.ingesters, 60)
        [ingester] = serve.ingesters()
        if niceness.group(ingester) is None:
            pytest.skip("there are no groups here")
        wait_until(lambda: niceness.group(ingester) == niceness.NICENESS, 60)
        await recorded_behind(serve, "one")
        waits = await begun([*PROGRAM, "sessions", *LONG, "--db", str(path)], environment(tmp_path))
        await asyncio.to_thread(wait_until, lambda: niceness.group(ingester) == 0, 30)
        os.kill(ingester, signal.SIGCONT)
        out, _ = await waits.communicate()
        assert b"one" in out
        wait_until(lambda: niceness.group(ingester) == niceness.NICENESS, 60)


def test_an_ingester_that_is_far_behind_is_less_nice_until_it_has_caught_up(tmp_path: Path) -> None:
    if niceness.group() is None:
        pytest.skip("there are no groups here")
    path = tmp_path / "recorder.db"
    Store(path).close()
    journal = Journal(tmp_path / "recorder.db.journal", "r")
    os.utime(journal.directory / "lock", (1, 1))
    journal.exchange().write(Mark.CHUNK, time.monotonic_ns() - 60 * 10**9, b"of a minute ago")
    command = command_of("recorder.commands.serving.ingester", str(journal.directory))
    environment = {**os.environ, VARIABLE: str(path)}
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, env=environment, start_new_session=True
        ) as ingester:
            try:
                wait_until(lambda: niceness.group(ingester.pid) == niceness.FAR_NICENESS, 50)
                holder.execute("ROLLBACK")
                wait_until(lambda: niceness.group(ingester.pid) == niceness.NICENESS, 50)
                assert waiting(journal.directory).size_bytes == 0
            finally:
                journal.close()
                ingester.terminate()


async def test_a_log_on_a_server_has_its_journals_here(
    tmp_path: Path, postgres_database: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    Store(postgres_database).close()
    journal = Journal(journal_root(postgres_database), "r")
    Exchange(journal, session="mine", session_source="header").chunk(COMPLETED).end()
    env = {**os.environ, **environment(tmp_path)}
    command = [*PROGRAM, "sessions", "--db", conninfo(postgres_database)]

    def ran(*options: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([*command, *options], capture_output=True, env=env, timeout=120)

    journal.close()
    os.utime(journal.directory / "lock", (1, 1))
    left = await asyncio.to_thread(ran)
    assert (left.returncode, b"db recover" in left.stderr, NOTHING.encode() in left.stderr) == (
        3,
        True,
        False,
    )
    with claimed(journal.directory), Store(postgres_database) as store:
        waits = await begun([*command, *LONG], env)
        Ingester(store, journal.directory, never).drain()
        out, err = await waits.communicate()
    assert b"mine" in out
    assert err == b""
