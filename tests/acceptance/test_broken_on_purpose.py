"""Guarantees against loss, each broken on purpose: the check that holds it must see that, or it proves nothing.

What is broken is broken here, by putting something else in the place of a part: the product has no switch for it. A
check is the one that its test makes, called with the broken part in place. Some stand beside theirs (`ELSEWHERE`).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from recorder.errors import UpstreamError
from recorder.incoming import Incoming
from recorder.journal import JournalExchange
from recorder.transports.recording import RecordingTransport
from tests import proxied, serving, test_proxy_endings, test_schema, test_verify
from tests.acceptance import (
    test_ambiguous_commits,
    test_crash,
    test_io_faults,
    test_many_clients,
    test_overflow,
    test_power_cut,
    test_store_trouble,
)
from tests.loops import on_uvloop
from tests.sockets import STREAM_HEAD, Close, Send, chunked

Patch = pytest.MonkeyPatch
Check = Callable[[Path], Awaitable[None] | None]

PROGRAM = """
import sys
{broken}
from recorder.commands import main
main(sys.argv[1:])
"""

LAZY_JOURNAL = """
from recorder import journal
held, writev = {}, journal.os.writev
def lazily(fd, buffers):
    data = b"".join(buffers)
    held[fd] = held.get(fd, b"") + data
    if len(held[fd]) > 65536:
        writev(fd, [held.pop(fd)])
    return len(data)
journal.Journal.__init__.__kwdefaults__["writev"] = lazily
"""

INTO_THE_DATABASE = """
import sqlite3
from recorder import journal
path, write = sys.argv[sys.argv.index("--db") + 1], journal.JournalExchange.write
def at_once(self, mark, t_ns, payload):
    connection = sqlite3.connect(path, isolation_level=None, timeout=60)
    connection.execute("BEGIN IMMEDIATE")
    write(self, mark, t_ns, payload)
    connection.execute("COMMIT")
    connection.close()
journal.JournalExchange.write = at_once
"""

NEVER_LETS_GO = """
from recorder.transports import upstream
kept = []
async def keep(self):
    kept.append(self)
upstream._Body.aclose = keep
"""


def program(broken: str) -> Callable[[Patch], None]:
    """In the place of `recorder`."""
    return lambda patch: patch.setattr(serving, "PROGRAM", (sys.executable, "-c", PROGRAM.format(broken=broken)))


def drop_on_full(patch: Patch) -> None:
    """What does not fit is not counted."""
    patch.setattr(JournalExchange, "_owe", test_io_faults.Silent._owe)


def deaf(patch: Patch) -> None:
    """Nobody notices that a client has left."""
    patch.setattr(Incoming, "lost", lambda _: None)


class _Polite:
    """A body that ends well, whatever happens to it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with suppress(UpstreamError):
            async for chunk in self._inner:
                yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class Polite(RecordingTransport):
    async def handle_async_request(self, request: Any) -> Any:
        response = await super().handle_async_request(request)
        response.stream = _Polite(response.stream)
        return response


def clean_end(patch: Patch) -> None:
    patch.setattr(proxied, "RecordingTransport", Polite)


def nothing(patch: Patch) -> None:
    """What is broken is an argument of the check."""


async def kill(folder: Path) -> None:
    report = await test_crash.kill(folder / "recorder.db", 3, seed=1)
    assert report.findings == []


async def lock(folder: Path) -> None:
    await test_store_trouble.test_no_chunk_is_late_because_the_database_is_locked(
        folder, test_store_trouble.transaction, 2
    )


@on_uvloop
async def overflow(folder: Path) -> None:
    test_overflow.assert_counted(*await test_overflow.overflow(folder))


def offset_first(folder: Path) -> None:
    told = test_ambiguous_commits.tell(folder, 300, test_power_cut.OffsetFirst, seed=4)
    test_ambiguous_commits.assert_told_once(folder, told)


def in_doubt(folder: Path) -> None:
    test_ambiguous_commits.assert_told_once(folder, test_ambiguous_commits.tell(folder, 60, seed=1))


def client_leaves(folder: Path) -> None:
    try:
        test_proxy_endings.test_client_leaves(folder, upstream_is="idle", how="closes")
    except TimeoutError:
        pytest.fail("the upstream is still open after a second")


def upstream_breaks(folder: Path) -> None:
    script = [Send(STREAM_HEAD + chunked(test_proxy_endings.EVENT)), Close()]
    test_proxy_endings.test_upstream_breaks(folder, script=script, outcome="truncated")


@on_uvloop
async def many_leave(folder: Path) -> None:
    found = await test_many_clients.leave(folder / "recorder.db", 200, 10)
    test_many_clients.assert_nothing_is_left(*found)


class Broken(NamedTuple):
    guarantee: str
    how: str
    break_it: Callable[[Patch], None]
    check: Check
    is_slow: bool = False


BROKEN = [
    Broken("B1", "the journal is written late", program(LAZY_JOURNAL), kill, True),
    Broken("B5", "the proxy waits for the database", program(INTO_THE_DATABASE), lock, True),
    Broken("B7", "what does not fit is dropped", drop_on_full, overflow),
    Broken("B8", "the place in the journal is committed by itself", nothing, offset_first),
    Broken("D1", "a client that leaves is not noticed", deaf, client_leaves),
    Broken("D2", "a broken stream ends well", clean_end, upstream_breaks),
    Broken("D7", "connections are never let go of", program(NEVER_LETS_GO), many_leave, True),
]

ELSEWHERE: dict[str, list[Callable[..., Any]]] = {
    "B3": [
        test_power_cut.test_commits_that_are_not_synced_are_seen_to_be_lost,
        test_power_cut.test_a_file_that_is_never_synced_is_seen_to_be_corrupt,
        test_power_cut.test_a_place_in_the_journal_that_runs_ahead_of_the_log_is_seen_to_make_holes,
        test_power_cut.test_a_journal_that_is_not_synced_is_seen_to_lose_what_clients_saw,
    ],
    "B6": [
        test_io_faults.test_a_journal_that_drops_without_a_gap_is_seen_to_make_holes,
        test_io_faults.test_an_ingester_that_drops_what_is_refused_is_seen_to_make_holes,
    ],
    "B12": [test_verify.test_without_the_chain_a_flipped_bit_would_not_be_found],
    "C1": [test_schema.test_the_corpus_is_refused_for_what_it_does_not_for_its_grammar],
}

AGAINST_LOSS = {"B1", "B3", "B5", "B6", "B7", "B8", "B12", "C1", "D1", "D2", "D7"}


def test_every_guarantee_against_loss_is_broken_somewhere() -> None:
    assert {each.guarantee for each in BROKEN} | ELSEWHERE.keys() == AGAINST_LOSS


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(each, id=f"{each.guarantee}: {each.how}", marks=[pytest.mark.slow] if each.is_slow else [])
        for each in BROKEN
    ],
)
def test_a_broken_guarantee_is_seen(tmp_path: Path, monkeypatch: Patch, broken: Broken) -> None:
    broken.break_it(monkeypatch)

    def check() -> None:
        found = broken.check(tmp_path)
        if found is not None:
            asyncio.run(_await(found))

    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check()


async def _await(check: Awaitable[None]) -> None:
    await check


@pytest.mark.parametrize("check", [overflow, in_doubt, client_leaves, upstream_breaks])
def test_what_is_not_broken_passes_the_same_check(tmp_path: Path, check: Callable[[Path], None]) -> None:
    check(tmp_path)
