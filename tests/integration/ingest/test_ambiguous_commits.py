"""B8, commits that nobody knows of: undone, not acknowledged, cut off. What is told again is in the
log once.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from recorder.errors import StoreBusyError
from recorder.ingest.ingester import Ingester
from recorder.journal.writer import Journal
from recorder.store.write.writer import Store
from tests.integration.ingest.test_ingester import Exchange, never, stream
from tests.support.logbook import assert_chained, entries


class Cut(BaseException):
    """The ingester is gone in the middle of it, as if it was killed."""


class Doubtful(Store):
    """Half of its commits end in doubt."""

    dice: random.Random
    doubts = 0

    @contextmanager
    def transaction(self, alone: bool = False) -> Iterator[None]:
        fate = self.dice.choice(
            ("good", "good", "good", "undone", "unheard", "cut before", "cut after")
        )
        self.doubts += fate != "good"
        with super().transaction(alone):
            yield
            if fate == "undone":
                raise StoreBusyError("refused")
            if fate == "cut before":
                raise Cut
        if fate == "unheard":
            raise StoreBusyError("nobody heard of it")
        if fate == "cut after":
            raise Cut


def tell(folder: Path, doubts: int, seed: int) -> list[Exchange]:
    """Interleaved exchanges, and ingesters one after another, until so many commits were in doubt."""
    dice, told, open_ = random.Random(seed), list[Exchange](), dict[Exchange, list[bytes]]()
    journal = Journal(folder / "journal", "recorder-1", segment_bytes=20_000)
    with Doubtful(folder / "recorder.db") as store:
        store.dice, ingester = dice, None
        while store.doubts < doubts or open_:
            while len(open_) < 3 and store.doubts < doubts:
                told.append(Exchange(journal))
                open_[told[-1]] = stream(len(told), 12)
            for _ in range(dice.randrange(1, 6) if open_ else 0):
                step(dice.choice(list(open_)), open_)
                if not open_:
                    break
            try:
                ingester = ingester or Ingester(store, journal.directory, never)
                ingester.step()
            except Cut:
                ingester = None
    journal.close()
    with Store(folder / "recorder.db") as calm:
        Ingester(calm, journal.directory, never).drain()
    return told


def step(exchange: Exchange, open_: dict[Exchange, list[bytes]]) -> None:
    if open_[exchange]:
        exchange.chunk(open_[exchange].pop(0))
    else:
        exchange.end()
        del open_[exchange]


def assert_told_once(folder: Path, told: list[Exchange]) -> None:
    found = {entry.exchange.exchange_id: entry for entry in entries(folder / "recorder.db")}
    assert_chained(found.values())
    assert {id: entry.body for id, entry in found.items()} == {
        each.id: each.received for each in told
    }
    assert all(entry.end["lossless"] for entry in found.values())


def test_what_is_told_again_is_in_the_log_once(tmp_path: Path, seed: int) -> None:
    """B8, a sample."""
    assert_told_once(tmp_path, tell(tmp_path, 100, seed))


@pytest.mark.slow
def test_after_1000_commits_in_doubt_there_is_neither_a_hole_nor_a_copy(
    tmp_path: Path, seed: int
) -> None:
    """B8."""
    assert_told_once(tmp_path, tell(tmp_path, 1_000, seed))
