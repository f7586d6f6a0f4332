"""`recorder.commands.terminal.options`: what is waited for, by a journal and an ingester that works
when told to.
"""

from __future__ import annotations

import importlib
import math
import os
import time
from pathlib import Path

import click
import pytest
from sqlalchemy import URL

from recorder.commands.terminal.behind import behind, wait_for
from recorder.commands.terminal.options import WAIT_S
from recorder.ingest.ingester import Ingester
from recorder.journal.reader import waiting
from recorder.journal.writer import Journal
from recorder.store.location import journal_root
from recorder.store.write.writer import Store
from tests.integration.ingest.test_ingester import COMPLETED, Exchange, never
from tests.support.server import run
from tests.support.superuser import asked

READING = (
    "sessions",
    "show",
    "events",
    "query",
    "replay",
    "mock",
    "diff",
    "lint",
    "usage",
    "export",
    "verify",
)


def test_every_command_that_reads_can_wait() -> None:
    found = {}
    for verb in READING:
        command: click.Command = importlib.import_module(f"recorder.commands.{verb}").command
        found[verb] = [each.default for each in command.params if "--wait" in each.opts]
    assert found == {verb: [WAIT_S] for verb in READING}


def test_where_nothing_waits_nothing_is_waited_for(tmp_path: Path) -> None:
    """Not for an exchange that is open and silent, either; and what comes meanwhile is not waited
    for.
    """
    path = tmp_path / "recorder.db"
    journal = Journal(journal_root(URL.create("sqlite", database=str(path))), "r")
    Exchange(journal).chunk(b"data: 1\n\n")
    with Store(path) as store:
        Ingester(store, journal.directory, never).drain()
    wait_for(journal.directory.parent, math.inf)
    assert behind(journal.directory.parent) == []
    journal.close()


def test_an_ingester_that_begins_anew_does_not_take_its_word_back(tmp_path: Path) -> None:
    """It tells once more what is open; all of that was in the log before."""
    path = tmp_path / "recorder.db"
    journal = Journal(tmp_path / "recorder.db.journal", "r")
    exchange = Exchange(journal)
    for _ in range(50):
        exchange.chunk(b"data: 1\n\n")
    with Store(path) as store:
        Ingester(store, journal.directory, never).drain()
        assert waiting(journal.directory).size_bytes == 0
        again = Ingester(store, journal.directory, never)
        assert waiting(journal.directory).size_bytes == 0
        exchange.chunk(COMPLETED).end()
        assert waiting(journal.directory).size_bytes > 0
        again.drain()
        assert waiting(journal.directory).size_bytes == 0
    journal.close()


def test_what_is_said_to_be_in_the_log_is(tmp_path: Path) -> None:
    """After each step, as another program sees it."""
    path = tmp_path / "recorder.db"
    journal = Journal(tmp_path / "recorder.db.journal", "r", segment_bytes=1_000)
    exchange = Exchange(journal)
    with Store(path) as store:
        ingester = Ingester(store, journal.directory, never)
        for number in range(40):
            exchange.chunk(b"data: %d\n\n" % number)
            ingester.step()
            if waiting(journal.directory).size_bytes == 0:
                [(count,)] = asked(path, "SELECT count(*) FROM events WHERE kind = 'frame'")
                assert count == number + 1
    journal.close()


def test_a_log_that_is_not_made_yet_is_no_reason_to_say_that_nothing_was_recorded(
    tmp_path: Path,
) -> None:
    path = tmp_path / "recorder.db"
    journal = Journal(tmp_path / "recorder.db.journal", "r")
    Exchange(journal).chunk(COMPLETED).end()
    journal.close()
    os.utime(journal.directory / "lock", (1, 1))
    for words in (
        ("sessions",),
        ("query", "select 1"),
        ("show", "latest"),
        ("verify",),
        ("usage",),
    ):
        ran = run(path, *words)
        assert ran.code == 3
        assert "db recover" in ran.err
        assert "The log is empty" in ran.err
        assert not path.exists()


@pytest.mark.timed
def test_a_look_costs_next_to_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "recorder.db.journal", "r")
    with Store(tmp_path / "recorder.db") as store:
        Ingester(store, journal.directory, never).drain()
    best_s = float("inf")
    for _ in range(50):
        started_s = time.perf_counter()
        wait_for(journal.directory.parent, time.monotonic() + 60)
        best_s = min(best_s, time.perf_counter() - started_s)
    journal.close()
    assert best_s < 0.005, "some calls of the system"
