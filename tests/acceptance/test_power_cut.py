"""B3, a power cut: what was acknowledged is there, the log is a beginning of what it was, and
recovery goes on from it.

The real journal, store and ingester record onto a drive that forgets what was not synced
(`tests.support.disk_faults`). Its images are opened as a user would open them after the lights are
on again. Each rule is broken on purpose, too: then the same look must find it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recorder.ingest.ingester import Ingester, recover
from recorder.ingest.pending import Batch
from recorder.journal import scrub
from recorder.journal.format import Position
from recorder.journal.writer import Journal
from recorder.model.events import BODY_KINDS, RequestRecord
from recorder.proxy.durable import DurableTransport
from recorder.proxy.http.messages import Request, Response
from recorder.proxy.recording import RecordingTransport, new_id
from recorder.store.location import database_path
from recorder.store.sqlite import schema as sqlite_schema
from recorder.store.sqlite import writer as sqlite_writer
from recorder.store.sqlite.connection import MIGRATION, WRITER
from recorder.store.sqlite.writer import SqliteWriter
from recorder.store.write.writer import EventAppender, Store
from tests.integration.ingest.test_ingester import COMPLETED, Exchange, never
from tests.support.disk_faults import Drive, Image, crashes, on_disk
from tests.support.logbook import Entry, assert_chained, entries
from tests.support.proxy import request_for
from tests.unit.proxy.test_recording import Echo

pytestmark = pytest.mark.timeout(1200)

SEGMENT_BYTES = 2000
IMAGES = 2_000
LOST, CORRUPT, TORN = "lost", "corrupt", "torn"

State = tuple[Any, ...]

_STATE = (
    "SELECT exchange_id, max(pos), count(*), hash FROM events GROUP BY exchange_id ORDER BY exchange_id",
    "SELECT session_id, exchange_id FROM exchanges ORDER BY exchange_id",
    "SELECT session_id FROM sessions ORDER BY session_id",
    "SELECT exchange_id FROM p_timing_v1 ORDER BY exchange_id",
    "SELECT * FROM ingest_offsets ORDER BY recorder_id",
)


@pytest.fixture(autouse=True)
def recording(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Several checkpoints in each; what is in the log is overwritten; what recovery says of images
    nobody reads.
    """
    monkeypatch.setattr(sqlite_writer, "WAL_BYTES", 100_000)
    monkeypatch.setattr(scrub, "SCRUB_S", 0)
    caplog.set_level(logging.CRITICAL)


@pytest.fixture
def ram(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is one: an image is written, opened and thrown away."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        dir=shared if os.access(shared, os.W_OK) else tmp_path
    ) as directory:
        yield Path(directory)


@dataclass
class Story:
    """A recording, and what had been promised when."""

    drive: Drive
    # acknowledged: the moment, and what the log was
    states: list[tuple[int, State]] = field(default_factory=list)
    sent: dict[str, bytes] = field(default_factory=dict)  # by the id of the exchange
    # the journal had so many bytes of a response
    written: list[tuple[int, str, int]] = field(default_factory=list)
    # the client had, in durability `strict`
    seen: list[tuple[int, str, int]] = field(default_factory=list)

    def acknowledged(self, moment: int) -> int:
        """How many commits had returned."""
        return sum(at <= moment for at, _ in self.states)


class Watched(Store):
    """Tells the story what was acknowledged, as soon as it is."""

    story: Story

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        checkpoint = vars(SqliteWriter)["_checkpoint"]

        def noted(writer: SqliteWriter) -> None:
            self.note()
            checkpoint(writer)

        self._writer.close()
        self._writer = type("Writer", (SqliteWriter,), {"_checkpoint": noted})(
            database_path(self.url), 5.0
        )
        self._appender = EventAppender(self._writer)

    @contextmanager
    def transaction(self, alone: bool = False) -> Iterator[None]:
        with super().transaction(alone):
            yield
        self.note()

    def note(self) -> None:
        state = read_state(self.path)
        if not self.story.states or self.story.states[-1][1] != state:
            self.story.states.append((self.story.drive.moment(), state))


def read_state(path: Path) -> State:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        return tuple(tuple(connection.execute(sql)) for sql in _STATE)


Follow = Callable[[Story, Path, Store, str, random.Random], None]


def record(base: Path, dice: random.Random, follow: Follow) -> Story:
    """Two recorders after another: interleaved streams, checkpoints, segments finished, dropped and
    carried over.
    """
    story = Story(Drive(base))
    watched = type("Watched", (Watched,), {"story": story})
    with on_disk(base, story.drive):
        for name in ("recorder-1", "recorder-2"):
            with watched(base / "recorder.db") as store:
                recover(store, base / "journal", never)
                follow(story, base / "journal", store, name, dice)
    return story


def in_mode_journal(
    story: Story,
    root: Path,
    store: Store,
    name: str,
    dice: random.Random,
    kind: type[Ingester] = Ingester,
) -> None:
    """Streams that are written to the journal as they come, and an ingester now and then."""
    journal = Journal(root, name, segment_bytes=SEGMENT_BYTES, writev=os.writev)
    ingester = kind(store, journal.directory, never)
    left: list[tuple[Exchange, list[bytes]]] = []
    for number in range(24):
        while len(left) < 3:
            left.append(
                (Exchange(journal, question(dice)), chunks_of(dice, 2 if number % 3 else 40))
            )
            story.sent[left[-1][0].id] = b"".join(left[-1][1])
        for _ in range(dice.randrange(1, 30)):
            exchange, chunks = dice.choice(left)
            if chunks:
                exchange.chunk(chunks.pop(0))
                story.written.append((story.drive.moment(), exchange.id, len(exchange.received)))
            else:
                exchange.end()
                left.remove((exchange, chunks))
                break
        ingester.step()
    ingester.drain()
    journal.close()


class Answering:
    """Answers with the chunks that are set when the request comes."""

    chunks: Sequence[bytes] = ()

    async def handle_async_request(self, request: Request) -> Response:
        return await Echo(*self.chunks).handle_async_request(request)

    async def aclose(self) -> None:
        """Hold nothing."""


def in_mode_strict(
    story: Story,
    root: Path,
    store: Store,
    name: str,
    dice: random.Random,
    kind: type[Journal] = Journal,
) -> None:
    """Clients behind the transports as `recorder serve` wires them."""
    journal = kind(root, name, segment_bytes=SEGMENT_BYTES, writev=os.writev, durable=True)
    ingester = Ingester(store, journal.directory, never)

    answering = Answering()
    ids: list[str] = []  # for the exchange that begins next, and its session
    strict = DurableTransport(
        RecordingTransport(answering, journal, make_id=lambda: ids.pop()), journal
    )

    async def client(count: int) -> None:
        chunks, had, name = chunks_of(dice, count), 0, new_id()
        story.sent[name] = b"".join(chunks)
        ids[:], answering.chunks = [new_id(), name], chunks
        response = await strict.handle_async_request(
            request_for("POST", "http://h/v1/x", content=question(dice))
        )
        async for chunk in response.stream:
            had += len(chunk)
            story.seen.append((story.drive.moment(), name, had))
            if dice.random() < 0.1:
                ingester.step()
        await response.stream.aclose()

    async def clients(count: int) -> None:
        for _ in range(count):
            await client(dice.choice((2, 2, 40)))

    async def all_clients() -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(3):
                tasks.create_task(clients(5))
        await strict.aclose()

    asyncio.run(all_clients())
    ingester.drain()
    journal.close()


def question(dice: random.Random) -> bytes:
    """A request body over several sectors, which goes from the journal when the log has it."""
    return b'{"input":"%b"}' % dice.randbytes(dice.randrange(50, 400)).hex().encode()


def chunks_of(dice: random.Random, count: int) -> list[bytes]:
    """Chunks that cut frames anywhere, and in which no place is like another."""
    frames = [
        b'data: {"pad":"%b"}\n\n' % dice.randbytes(dice.randrange(150)).hex().encode()
        for _ in range(count)
    ]
    data = b"".join(frames) + COMPLETED
    cuts = sorted(dice.randrange(len(data)) for _ in range(count))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@dataclass
class Findings:
    """What was wrong with images, counted."""

    images: int = 0
    counted: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def note(self, what: str, moment: int, why: object) -> None:
        self.counted[what] += 1
        self.examples.setdefault(what, f"at {moment}: {why}")


def examine(story: Story, image: Image, where: Path, findings: Findings) -> None:
    """Look at an image as it is; then start recorder on it, and look again."""
    findings.images += 1
    for copy in ("looked-at", "recovered"):  # whoever opens a database may mend it
        image.write(where / copy)
    acknowledged = story.acknowledged(image.moment)
    try:
        problem = _as_it_is(story, where / "looked-at" / "recorder.db", acknowledged)
    except sqlite3.Error as error:
        problem = (CORRUPT, str(error))
    if problem:
        findings.note(problem[0], image.moment, problem[1])
        return
    try:
        _recovered(story, image, where / "recovered")
    except Exception as error:
        findings.note(
            str(error).partition("\n")[0] or type(error).__name__, image.moment, repr(error)
        )


def _as_it_is(story: Story, path: Path, acknowledged: int) -> tuple[str, object] | None:
    if not path.exists() or path.stat().st_size == 0:
        return (LOST, "no database") if acknowledged else None
    with closing(sqlite3.connect(path)) as connection:
        said = connection.execute("PRAGMA integrity_check").fetchone()[0]
        if said != "ok":
            return CORRUPT, said
        if not connection.execute(
            "SELECT count(*) FROM sqlite_master WHERE name = 'p_timing_v1'"
        ).fetchone()[0]:
            return (LOST, "no schema") if acknowledged else None
    state = read_state(path)
    known = [each for _, each in story.states]
    if state in known[max(0, acknowledged - 1) : acknowledged + 1] or not (
        acknowledged or any(state)
    ):
        return None  # what was acknowledged, and perhaps the commit that was under way
    return (
        (LOST, "acknowledged commits")
        if state in known or not any(state)
        else (TORN, "no beginning of the log")
    )


def _recovered(story: Story, image: Image, where: Path) -> None:
    with Store(where / "recorder.db") as store:
        recover(store, where / "journal", never)
    if (where / "journal").exists():
        assert list((where / "journal").iterdir()) == [], "a journal was left"
    found = {entry.exchange.exchange_id: entry for entry in entries(where / "recorder.db")}
    assert_chained(found.values())
    for exchange_id, entry in found.items():
        assert_told_as_it_was(entry, story.sent[exchange_id])
        assert_asked_as_it_was(entry)
    for what, held in (("seen", story.seen), ("kept", story.written if image.kept_all else [])):
        for exchange_id, size in {
            name: size for at, name, size in held if at <= image.moment
        }.items():
            assert exchange_id in found, f"{what}, and not even its exchange is in the log"
            body = pieces(found[exchange_id])[0]
            assert len(body) >= size, f"{what}, and not in the log"


def assert_asked_as_it_was(entry: Entry) -> None:
    """The request is whole, or says that it is not; and what was overwritten in the journal the log
    has.
    """
    record, *parts = (event.raw for event in entry.events if event.kind == "request")
    asked = msgspec.json.decode(record, type=RequestRecord)
    assert not asked.complete or b"".join(parts).endswith(b'"}'), (
        "half a request, and nothing says so"
    )
    assert not any(b"overwritten" in event.raw for event in entry.events if event.kind == "gap"), (
        "overwritten too early"
    )


def assert_told_as_it_was(entry: Entry, sent: bytes) -> None:
    """A beginning, or pieces in order with a gap between any two; and what is not the whole says
    so.
    """
    assert entry.end, "it has no end"
    at = 0
    for number, piece in enumerate(pieces(entry)):
        found = sent.find(piece, at)
        assert found == at or (number and found > at), "a hole without a gap, or bytes twice"
        at = found + len(piece)
    if at < len(sent):
        assert not entry.end["lossless"] or entry.end["status"] != "completed", (
            "it calls itself whole"
        )


def pieces(entry: Entry) -> list[bytes]:
    """The response as the log has it, between gaps."""
    found = [b""]
    for event in entry.events:
        if event.kind == "gap":
            found.append(b"")
        elif event.kind in BODY_KINDS:
            found[-1] += event.raw
    return found


def cut_power(
    ram: Path, count: int, seed: int, follow: Follow = in_mode_journal, per_story: int = 200
) -> Findings:
    dice, findings = random.Random(seed), Findings()
    while findings.images < count:
        with tempfile.TemporaryDirectory(dir=ram) as base:
            story = record(Path(base), dice, follow)
        moments = sorted(
            dice.sample(range(story.drive.moment()), min(per_story, count - findings.images))
        )
        for image in crashes(story.drive, moments, dice):
            with tempfile.TemporaryDirectory(dir=ram) as where:
                examine(story, image, Path(where), findings)
    return findings


def test_what_was_acknowledged_survives_a_power_cut(ram: Path, seed: int) -> None:
    """B3, a sample."""
    found = cut_power(ram, 50, seed=seed)
    assert (found.images, found.counted[LOST], found.counted[CORRUPT], found.counted[TORN]) == (
        50,
        0,
        0,
        0,
    )


@pytest.mark.slow
def test_a_power_cut_loses_nothing_acknowledged_and_recovery_completes_the_log(
    ram: Path, seed: int
) -> None:
    """B3: no commit lost, no file corrupt; what the journal still has is told, all else is marked,
    all is ended.
    """
    found = cut_power(ram, IMAGES, seed=seed)
    assert (found.images, found.counted) == (IMAGES, {}), found.examples


@pytest.mark.slow
def test_in_mode_strict_a_power_cut_loses_nothing_that_a_client_has_seen(
    ram: Path, seed: int
) -> None:
    """B3, durability `strict`: `DurableTransport` and `Journal.sync`."""
    found = cut_power(ram, IMAGES, seed=seed, follow=in_mode_strict)
    assert (found.images, found.counted) == (IMAGES, {}), found.examples


# -- broken on purpose: what the tests above would not see, they could not prove


@pytest.mark.slow
def test_commits_that_are_not_synced_are_seen_to_be_lost(
    ram: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B3 broken: `synchronous=NORMAL` loses what was acknowledged, and never corrupts."""
    monkeypatch.setattr(sqlite_writer, "WRITER", {**WRITER, "synchronous": 1})
    found = cut_power(ram, 400, seed=1)
    assert found.counted[LOST] > 50
    assert not found.counted[CORRUPT]


@pytest.mark.slow
def test_a_file_that_is_never_synced_is_seen_to_be_corrupt(
    ram: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B3 broken: `synchronous=OFF`."""
    monkeypatch.setattr(sqlite_writer, "WRITER", {**WRITER, "synchronous": 0})
    monkeypatch.setattr(sqlite_schema, "MIGRATION", {**MIGRATION, "synchronous": 0})
    found = cut_power(ram, 400, seed=1)
    assert found.counted[CORRUPT] > 20
    assert found.counted[LOST] > 20


class OffsetFirst(Ingester):
    """Its place in the journal is not in the transaction of the events."""

    def _write(self, batch: Batch, place: Position | None) -> None:
        super()._write(Batch(), place)
        super()._write(batch, None)


class OffsetLast(Ingester):
    def _write(self, batch: Batch, place: Position | None) -> None:
        # where it was: a recorder without any place is none
        super()._write(batch, self._records.place)
        super()._write(Batch(), place)


@pytest.mark.slow
def test_a_place_in_the_journal_that_runs_ahead_of_the_log_is_seen_to_make_holes(ram: Path) -> None:
    """B3 broken: the offset is committed before the events."""
    found = cut_power(ram, 400, seed=1, follow=partial(in_mode_journal, kind=OffsetFirst))
    assert any(what.startswith("kept, ") for what in found.counted), found.counted


@pytest.mark.slow
def test_a_place_in_the_journal_that_lags_behind_the_log_does_no_harm(ram: Path) -> None:
    """B8: what is told twice is in the log once."""
    found = cut_power(ram, 400, seed=1, follow=partial(in_mode_journal, kind=OffsetLast))
    assert found.counted == {}, found.examples


@pytest.mark.slow
def test_bodies_overwritten_before_their_marks_are_synced_are_seen_to_lose_what_clients_saw(
    ram: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B3 broken, durability `strict`: of a record half overwritten, and all behind it, nothing can
    be read.
    """
    monkeypatch.setattr(scrub, "to_disk", lambda fd: None)
    found = cut_power(ram, 400, seed=1, follow=in_mode_strict)
    assert sum(count for what, count in found.counted.items() if what.startswith("seen, ")) > 5


class Forgetful(Journal):
    def sync(self) -> None: ...


@pytest.mark.slow
def test_a_journal_that_is_not_synced_is_seen_to_lose_what_clients_saw(ram: Path) -> None:
    """B3 broken, durability `strict`."""
    found = cut_power(ram, 400, seed=1, follow=partial(in_mode_strict, kind=Forgetful))
    assert sum(count for what, count in found.counted.items() if what.startswith("seen, ")) > 100


@pytest.mark.slow
def test_the_newest_sqlite_reads_the_same_from_every_image(ram: Path) -> None:
    """B3: SQLite of apsw, a copy of its own, recovers each image to the same log."""
    apsw, dice = pytest.importorskip("apsw"), random.Random(1)
    with tempfile.TemporaryDirectory(dir=ram) as base:
        story = record(Path(base), dice, in_mode_journal)
    after_the_first, read = story.states[1][0], 0
    for image in crashes(
        story.drive, dice.sample(range(after_the_first, story.drive.moment()), 200), dice
    ):
        counts = []
        for number, connect in enumerate((sqlite3.connect, apsw.Connection)):
            where = ram / f"{image.moment}-{number}"
            image.write(where)
            with closing(connect(str(where / "recorder.db"))) as connection:
                cursor = connection.cursor()
                assert list(cursor.execute("PRAGMA integrity_check")) == [("ok",)]
                counts.append(list(cursor.execute(_STATE[0])))
            shutil.rmtree(where)
        assert counts[0] == counts[1]
        read += 1
    assert read == 200
