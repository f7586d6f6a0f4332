"""B6, a disk that fails: whichever write or sync it is, the client has its stream, and the log has
it or a counted gap.

Every I/O call of a whole recording is refused in turn, once or until there is room again: the
journal's writes through `os`, the database's through the VFS of SQLite
(`tests.support.disk_faults`). What passed is then compared with what the log says, byte by byte and
gap by gap.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import random
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, TypeVar

import httpx
import msgspec
import pytest

from recorder.errors import RecorderError, StoreError
from recorder.ingest.ingester import Ingester, recover
from recorder.journal.format import DATA_MARKS, Mark
from recorder.journal.writer import ExchangeWriter, Journal
from recorder.model.events import BODY_KINDS, GapRecord
from recorder.proxy.http.messages import Request, WholeUpload
from recorder.proxy.recording import RecordingTransport, new_id
from recorder.proxy.upstream import UpstreamTransport
from recorder.store.sqlite import writer as sqlite_writer
from recorder.store.write.retry import Retry
from recorder.store.write.writer import Store
from tests.integration.ingest.test_ingester import COMPLETED
from tests.support.disk_faults import SHORT, Faults, on_disk
from tests.support.logbook import Entry, assert_chained, entries
from tests.support.proxy import request_for
from tests.support.sockets import (
    LAST_CHUNK,
    STREAM_HEAD,
    Action,
    ScriptedUpstream,
    Send,
    Wait,
    chunked,
)
from tests.unit.proxy.test_recording import Echo

pytestmark = pytest.mark.timeout(1200)

CLIENTS, CHUNKS = 3, 12
HEALED_AFTER = 3  # refusals until there is room again, if there is none for good
ERRORS = [errno.ENOSPC, errno.EIO]
GIVEN_UP_AFTER = 20
T = TypeVar("T")


class Kind(NamedTuple):
    """What a recording is made with."""

    ingester: Callable[[Store, Path, Callable[[float], bool]], Ingester] = Ingester
    tape: type[ExchangeWriter] = ExchangeWriter
    # with the real upstream, whose reads go to the client without a task in between
    has_sockets: bool = False


AS_IT_IS = Kind()
OVER_SOCKETS = Kind(has_sockets=True)


@pytest.fixture(autouse=True)
def recording(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A checkpoint now and then."""
    monkeypatch.setattr(sqlite_writer, "WAL_BYTES", 100_000)
    caplog.set_level(logging.CRITICAL)


@pytest.fixture(scope="module")
def ram(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    shared = Path("/dev/shm")
    where = shared if os.access(shared, os.W_OK) else tmp_path_factory.mktemp("faults")
    with tempfile.TemporaryDirectory(dir=where) as directory:
        yield Path(directory)


@pytest.fixture(scope="module")
def empty(ram: Path) -> Path:
    """A database that is there already."""
    path = ram / "empty.db"
    Store(path).close()
    return path


def in_journal(path: str) -> bool:
    """But for its beginning: a recorder that cannot make its journal does not start."""
    return "/journal/" in path and not path.endswith(("lock", "000001.partial"))


def in_database(path: str) -> bool:
    return Path(path).name.startswith("recorder.db") and not path.endswith(".lock")


def streams(seed: int) -> list[list[bytes]]:
    """The second half of the last one is sent when there is room again."""
    dice = random.Random(seed)
    made = []
    for _ in range(CLIENTS):
        data = (
            b"".join(b"data: %b\n\n" % dice.randbytes(150).hex().encode() for _ in range(CHUNKS))
            + COMPLETED
        )
        cuts = sorted(dice.randrange(len(data)) for _ in range(CHUNKS))
        made.append(
            [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        )
    return made


class Recording:
    """A recorder on a disk with faults: transports, journal and ingester in one process, step by
    step.
    """

    def __init__(self, base: Path, faults: Faults, kind: Kind) -> None:
        self._base, self._faults, self._kind = base, faults, kind
        self.had: dict[str, bytes] = {}
        self.refused = self.calls_until_healed = 0

    def run(self) -> None:
        """Record; let the disk be well again; record on; then start anew, as after a restart."""
        store = self._until_it_works(lambda: Store(self._base / "recorder.db", busy_timeout_s=0.01))
        journal = self._until_it_works(
            lambda: Journal(self._base / "journal", new_id(), segment_bytes=1500, writev=os.writev)
        )
        journal.exchange = lambda: self._tape(journal)  # type: ignore[method-assign]  # perhaps broken
        ingester = self._kind.ingester(store, journal.directory, self._pause)
        asyncio.run(self._clients(journal, ingester))
        journal.close()
        ingester.drain()
        self._until_it_works(store.close)
        self._faults.heal()
        self._until_it_works(self._start_anew)

    def _start_anew(self) -> None:
        with Store(self._base / "recorder.db", busy_timeout_s=0.01) as store:
            recover(store, self._base / "journal", self._pause)

    def _tape(self, journal: Journal) -> ExchangeWriter:
        journal._exchanges += 1
        return self._kind.tape(journal, journal._exchanges)

    def _until_it_works(self, work: Callable[[], T]) -> T:
        """As the process around it does: it dies of an error, and is started again."""
        while True:
            try:
                return work()
            except (RecorderError, OSError):
                if self.refused > GIVEN_UP_AFTER:
                    raise
                self._pause(0)

    def _pause(self, _seconds: float) -> bool:
        self.refused += 1
        if self.refused >= HEALED_AFTER:
            self._faults.heal()
        return False

    async def _clients(self, journal: Journal, ingester: Ingester) -> None:
        names = [new_id() for _ in range(CLIENTS)]
        self.had = dict.fromkeys(names, b"")
        bodies = [[chunk for chunk in chunks if chunk] for chunks in streams(1)]
        scripts = [Script(chunks) for chunks in bodies]
        async with ScriptedUpstream(*(script.actions for script in scripts)) as upstream:
            if self._kind.has_sockets:
                running = [
                    self._pumped(journal, upstream.base, *each)
                    for each in zip(names, scripts, bodies, strict=True)
                ]
            else:
                running = [self._client(journal, *each) for each in zip(names, bodies, strict=True)]
            for step in range(CHUNKS + 2):
                for stream in running:
                    await anext(stream, None)
                if step == CHUNKS * 2 // 3:
                    self.calls_until_healed = self._faults.count
                    # a loss that happens now cannot be told before there is room again
                    self._faults.heal()
                if step % 2:
                    ingester.step()

    async def _client(
        self, journal: Journal, name: str, chunks: Sequence[bytes]
    ) -> AsyncIterator[None]:
        transport = RecordingTransport(
            Echo(*chunks), journal, make_id=iter([name, new_id()]).__next__
        )
        response = await transport.handle_async_request(request_for("GET", "http://h/v1/x"))
        async for chunk in response.stream:
            self.had[name] += chunk
            yield
        await response.stream.aclose()

    async def _pumped(
        self, journal: Journal, base: str, name: str, script: Script, chunks: Sequence[bytes]
    ) -> AsyncIterator[None]:
        transport = RecordingTransport(
            UpstreamTransport(), journal, make_id=iter([name, new_id()]).__next__
        )
        request = Request(
            "GET", httpx.URL(base), [(b"host", b"h")], WholeUpload(b""), {"target": b"/v1/x"}
        )
        response = await transport.handle_async_request(request)
        more, wanted = asyncio.Event(), 0

        def sink(data: bytes) -> None:
            self.had[name] += data
            more.set()

        pumping = asyncio.ensure_future(response.stream.pump(sink, Ready()))
        for chunk, step in zip(chunks, script.steps, strict=True):
            wanted += len(chunk)
            step.set()
            while len(self.had[name]) < wanted:
                more.clear()
                async with asyncio.timeout(60):
                    await more.wait()
            yield
        script.end.set()
        self.had[name] += await pumping
        await response.stream.aclose()
        await transport.aclose()


class Script:
    """A stream that is sent step by step, each when its event is set."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self.steps, self.end = [asyncio.Event() for _ in chunks], asyncio.Event()
        sends = [
            each
            for chunk, step in zip(chunks, self.steps, strict=True)
            for each in (Wait(step), chunk)
        ]
        body = [Send(chunked(each)) if isinstance(each, bytes) else each for each in sends]
        self.actions: list[Action] = [Send(STREAM_HEAD), *body, Wait(self.end), Send(LAST_CHUNK)]


class Ready:
    """A client that takes all."""

    write_paused = False

    async def drain(self) -> None:
        """There is nothing to wait for."""


def assert_accounted_for(entry: Entry, sent: bytes) -> None:
    """What the log has and what its gaps count are, in order, all that was sent."""
    at, gaps = 0, 0
    for event in entry.events:
        if event.kind in BODY_KINDS:
            assert sent[at : at + len(event.raw)] == event.raw, f"a hole, or bytes twice, at {at}"
            at += len(event.raw)
        elif event.kind == "gap":
            gap = msgspec.json.decode(event.raw, type=GapRecord)
            lost = sent[at : at + gap.size_bytes]
            assert sha256(lost).hexdigest() == gap.sha256, (
                f"a gap at {at} counts what was not there"
            )
            at, gaps = at + gap.size_bytes, gaps + 1
    assert at == len(sent), f"a hole at {at}"
    assert entry.end["status"] == "completed" or gaps
    assert entry.end["lossless"] == (not gaps)


def recorded(ram: Path, faults: Faults, kind: Kind, database: Path | None) -> tuple[int, int]:
    """Record through these faults and check the log; returns how many gaps it has, and the calls
    until it healed.
    """
    with tempfile.TemporaryDirectory(dir=ram) as base:
        if database is not None:
            shutil.copy(database, f"{base}/recorder.db")
        recording = Recording(Path(base), faults, kind)
        with on_disk(Path(base), faults):
            recording.run()
        sent = [b"".join(chunks) for chunks in streams(1)]
        assert list(recording.had.values()) == sent, "a client noticed"
        found = {entry.exchange.exchange_id: entry for entry in entries(Path(base) / "recorder.db")}
        assert list(Path(base, "journal").iterdir()) == []
    assert_chained(found.values())
    for name, body in recording.had.items():
        assert name in found, "an exchange is not in the log"
        assert_accounted_for(found[name], body)
    gaps = sum(event.kind == "gap" for entry in found.values() for event in entry.events)
    return gaps, recording.calls_until_healed


def refuse_each(
    ram: Path,
    concerns: Callable[[str], bool],
    error: int,
    database: Path | None,
    *,
    for_good: bool,
    kind: Kind = AS_IT_IS,
    every: int = 1,
) -> list[str]:
    """A recording for every k-th call that fails. Returns what was wrong, a sentence for each k."""
    nothing = Faults(concerns, 0, 0)
    gaps, until_healed = recorded(ram, nothing, Kind(has_sockets=kind.has_sockets), database)
    calls = until_healed if for_good and concerns is in_journal else nothing.count
    assert (gaps, calls > 40) == (0, True)
    found = []
    for at in range(1, calls + 1, every):
        faults = Faults(concerns, at, error, for_good=for_good)
        try:
            gaps += recorded(ram, faults, kind, database)[0]
        except Exception as wrong:
            found.append(f"{at} of {calls}: {wrong!r}")
        assert faults.refused
    assert not for_good or concerns is in_database or gaps or found, (
        "a journal without room has gaps"
    )
    return found


def test_a_disk_that_refuses_some_calls_makes_no_hole(ram: Path, empty: Path) -> None:
    """B6, a sample."""
    assert refuse_each(ram, in_journal, errno.ENOSPC, empty, for_good=True, every=40) == []
    assert (
        refuse_each(
            ram, in_journal, errno.ENOSPC, empty, for_good=True, kind=OVER_SOCKETS, every=40
        )
        == []
    )
    assert refuse_each(ram, in_database, errno.EIO, empty, for_good=False, every=40) == []


@pytest.mark.slow
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for-good"])
@pytest.mark.parametrize("error", [*ERRORS, SHORT], ids=["full", "broken", "half-full"])
@pytest.mark.parametrize("kind", [AS_IT_IS, OVER_SOCKETS], ids=["iterated", "pumped"])
def test_whichever_call_of_the_journal_fails_the_log_is_complete_or_has_a_counted_gap(
    ram: Path, empty: Path, kind: Kind, error: int, for_good: bool
) -> None:
    """B6, the journal."""
    assert refuse_each(ram, in_journal, error, empty, for_good=for_good, kind=kind) == []


@pytest.mark.slow
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for-good"])
@pytest.mark.parametrize("error", ERRORS, ids=["full", "broken"])
def test_whichever_call_of_the_database_fails_the_log_is_complete(
    ram: Path, empty: Path, error: int, for_good: bool
) -> None:
    """B6, the database: a journal waits for it, so nothing is lost."""
    assert refuse_each(ram, in_database, error, empty, for_good=for_good) == []


@pytest.mark.slow
@pytest.mark.parametrize("error", ERRORS, ids=["full", "broken"])
def test_whichever_call_fails_while_the_database_is_made_it_is_made_in_the_end(
    ram: Path, error: int
) -> None:
    """B6, the migrations."""
    assert refuse_each(ram, in_database, error, None, for_good=False, every=3) == []


# -- broken on purpose


class Silent(ExchangeWriter):
    """Drops what there is no room for."""

    def _owe(self, mark: Mark, t_ns: int, payload: bytes, reason: str) -> None:
        if mark not in DATA_MARKS:
            super()._owe(mark, t_ns, payload, reason)


class Once(Retry):
    """Drops what the database does not take at once."""

    def __call__(self, work: Callable[[], T], *, only_reads: bool = False) -> T:
        try:
            with self._store.transaction():
                return work()
        except StoreError:
            return None  # type: ignore[return-value]  # that is what is broken


def impatient(store: Store, directory: Path, pause: Callable[[float], bool]) -> Ingester:
    ingester = Ingester(store, directory, pause)
    ingester._retry = Once(store, pause)
    return ingester


@pytest.mark.slow
def test_a_journal_that_drops_without_a_gap_is_seen_to_make_holes(ram: Path, empty: Path) -> None:
    """B6 and B7 broken: drop on full."""
    found = refuse_each(
        ram, in_journal, errno.ENOSPC, empty, for_good=True, kind=Kind(tape=Silent), every=5
    )
    assert any("a hole" in what for what in found), found


@pytest.mark.slow
def test_an_ingester_that_drops_what_is_refused_is_seen_to_make_holes(
    ram: Path, empty: Path
) -> None:
    """B6 broken: a batch that failed is given up."""
    found = refuse_each(
        ram, in_database, errno.ENOSPC, empty, for_good=False, kind=Kind(ingester=impatient)
    )
    assert any("a hole" in what or "not in the log" in what for what in found), found
