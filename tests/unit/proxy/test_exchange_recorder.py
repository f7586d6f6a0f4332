"""`recorder.proxy.recording.ExchangeRecorder`: what a fault of ours loses has its gap, and nothing
stands after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import msgspec
import pytest

from recorder.journal.format import Gap, Mark
from recorder.journal.reader import JournalReader
from recorder.journal.writer import ExchangeWriter, Journal
from recorder.model.events import ResponseHead
from recorder.proxy.recording import ExchangeRecorder
from tests.support.event_loop import on_uvloop

HEAD = ResponseHead(200, "OK", [])


class BrokenClock:
    """A clock that fails when it is asked for some of the times."""

    def __init__(self, failing: set[int]) -> None:
        self._failing, self._times = failing, count()

    def __call__(self) -> int:
        now_ns = next(self._times)
        if now_ns in self._failing:
            raise ZeroDivisionError
        return now_ns


class Recorded:
    """A recorder of one exchange, a journal that can be broken, and what its client has."""

    def __init__(self, folder: Path) -> None:
        self.journal = Journal(folder, "r")
        self.recorder = ExchangeRecorder(self.journal, count().__next__)
        self.handed_on = b""

    def hand_on(self, data: bytes) -> None:
        self.handed_on += data

    @contextmanager
    def broken(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        def fails(*_: object) -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patched:
            for owner, name in (
                (ExchangeWriter, "write"),
                (ExchangeWriter, "write_all"),
                (Journal, "wait"),
            ):
                patched.setattr(owner, name, fails)
            yield

    def records(self) -> list[tuple[int, bytes | tuple[int, int, int]]]:
        """The records, and of a gap its mark, chunks and bytes."""
        self.journal.close()
        found: list[tuple[int, bytes | tuple[int, int, int]]] = []
        for record in JournalReader(self.journal.directory).read(2**20, writer_is_dead=True):
            if record.mark == Mark.GAP:
                gap = msgspec.json.decode(record.payload, type=Gap)
                found.append((Mark.GAP, (gap.mark, gap.chunks, gap.size_bytes)))
            elif record.mark in (Mark.CHUNK, Mark.CLIENT_CHUNK):
                found.append((record.mark, record.payload))
        return found


Way = Callable[[Recorded], Callable[[bytes], None]]
WAYS: dict[str, tuple[Mark, Way]] = {
    "response": (Mark.CHUNK, lambda recorded: recorded.recorder.chunk),
    "client": (Mark.CLIENT_CHUNK, lambda recorded: recorded.recorder.client_chunk),
}


@pytest.mark.parametrize(("mark", "way"), WAYS.values(), ids=WAYS)
def test_what_comes_after_a_lost_chunk_is_counted_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: Mark, way: Way
) -> None:
    recorded = Recorded(tmp_path)
    take = way(recorded)
    take(b"one")
    with recorded.broken(monkeypatch):
        take(b"two!")
    take(b"three")
    recorded.recorder.end("eof")
    assert recorded.records() == [(mark, b"one"), (Mark.GAP, (mark, 2, 9))]


@on_uvloop
async def test_what_a_sink_gets_after_a_lost_chunk_is_counted_with_it(tmp_path: Path) -> None:
    """The clock fails once: the journal is as it was, and would take what comes then."""
    recorded = Recorded(tmp_path)
    recorded.recorder = ExchangeRecorder(recorded.journal, BrokenClock({1}))
    take = recorded.recorder.recording_sink(recorded.hand_on)
    for data in (b"one", b"two!", b"three"):
        take(data)
        recorded.journal.flush()
    recorded.recorder.end("eof")
    assert recorded.handed_on == b"onetwo!three"
    assert recorded.records() == [(Mark.CHUNK, b"one"), (Mark.GAP, (Mark.CHUNK, 2, 9))]


@pytest.mark.parametrize("last", [b"", b"last"])
@on_uvloop
async def test_the_last_chunk_is_not_written_after_lost_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: bytes
) -> None:
    """The head's own chunk is lost; what a sink gets then, and what comes with the end, is whole,
    but after a hole.
    """
    recorded = Recorded(tmp_path)
    with recorded.broken(monkeypatch):
        recorded.recorder.response(lambda: HEAD, b"first")
    take = recorded.recorder.recording_sink(recorded.hand_on)
    take(b"second")
    recorded.recorder.end("eof", last=last)
    assert recorded.handed_on == b"second"
    lost = 2 + bool(last)
    assert recorded.records() == [(Mark.GAP, (Mark.CHUNK, lost, len(b"firstsecond" + last)))]
