"""Recordings are held in memory up to one limit; past it a command says so in one sentence, and
what to do.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from recorder.cassettes.sse_jsonl import read_cassette
from recorder.cassettes.sse_jsonl.writer import cassette_lines
from recorder.commands import main
from recorder.commands.serving.run_report import RecordedCommand, write_cassette
from recorder.errors import RecorderError
from recorder.files import save
from recorder.journal.format import Mark
from recorder.model import events as model
from recorder.recordings.files import load_cassette, load_file
from recorder.recordings.loader import Loader, load_session
from recorder.recordings.memory import MemoryJournal
from recorder.store.location import database_url
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import session_named
from recorder.store.write.writer import Store
from recorder.testing import recorded_in
from tests.support.empty_log import empty
from tests.support.facts import captured
from tests.support.projects import stream
from tests.support.rows import add, make_exchange, make_session

LIMIT = 4_096
LARGE = stream(*(["word"] * 50))


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A log with a session of one exchange, over the limit."""
    path = empty(tmp_path / "recorder.db")
    session = make_session(name="demo")
    exchange, events = captured(LARGE, exchange=make_exchange(session))
    with Store(database_url(path)) as store:
        with store.transaction():
            store.add_session(session)
            store.add_exchange(exchange)
        add(store, events)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A cassette of the same."""
    path = tmp_path / "demo.sse.jsonl"
    save(path, cassette_lines(make_session(name="demo"), [captured(LARGE)]))
    return path


@pytest.fixture
def low(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "MEMORY_LIMIT", LIMIT)


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["lint", "demo"], "name one exchange of it, as demo:1"),
        (["diff", "demo", "demo"], "name one exchange of it, as demo:1"),
        (["export", "demo", "--format", "cassette"], "--format jsonl writes it row by row"),
        (["export", "demo", "--format", "vcr"], "--format jsonl writes it row by row"),
        (["export", "demo", "--format", "payloads"], "--format jsonl writes it row by row"),
        (["export", "demo", "--format", "har"], "name one exchange with --exchange, or"),
        (["mock", "demo", "--port", "0"], "name fewer of them"),
        (["run", "--replay", "demo", "--", sys.executable, "-c", ""], "name fewer of them"),
    ],
)
def test_a_command_refuses_what_is_too_large(
    arguments: list[str], remedy: str, db: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([arguments[0], "--db", str(db), *arguments[1:]])
    said = capfd.readouterr().err
    assert (ended.value.code, "of memory: " in said, remedy in said) == (1, True, True), said


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize("load", [load_file, load_cassette, read_cassette])
def test_a_file_that_is_too_large_in_memory_is_refused(
    load: Callable[[Path], object], file: Path
) -> None:
    with pytest.raises(
        RecorderError, match=r"demo\.sse\.jsonl cannot be read: .* of memory: .*[^.]\.$"
    ):
        load(file)


def test_a_cassette_without_its_events_takes_less_of_the_limit(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = load_cassette(file).events
    limit = sum(len(each.raw) + model.PIECE_BYTES for each in events)
    monkeypatch.setattr(model, "MEMORY_LIMIT", limit)
    assert [each.body for each in read_cassette(file)] == [LARGE]
    with pytest.raises(RecorderError, match="of memory"):
        load_cassette(file)


@pytest.mark.usefixtures("low")
def test_a_session_that_is_too_large_is_refused_in_a_test(db: Path) -> None:
    with pytest.raises(RecorderError, match=r"^demo takes over 0 MiB of memory"):
        recorded_in(db, "demo")


@pytest.mark.usefixtures("low")
def test_a_test_that_records_too_much_is_told_when_it_ends() -> None:
    journal = MemoryJournal()
    exchange = journal.exchange()
    with pytest.raises(RecorderError):
        exchange.write(Mark.CHUNK, 0, bytes(LIMIT))
    exchange.end(1, b"{}")
    with pytest.raises(
        RecorderError, match=r"^The recording of this test takes .*: let the test ask for less\.$"
    ):
        journal.recordings("s-1")


def test_run_says_why_a_cassette_is_not_written(
    db: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def save_to(path: Path) -> bool:
        async with await LogReader.open(db) as log:
            session = await session_named(log, "demo")
            return await write_cassette(
                log,
                RecordedCommand(session, await log.exchanges(session.session_id), None),
                path,
                0,
            )

    assert asyncio.run(save_to(tmp_path / "whole.sse.jsonl"))
    monkeypatch.setattr(model, "MEMORY_LIMIT", LIMIT)
    assert not asyncio.run(save_to(tmp_path / "cut.sse.jsonl"))
    assert (
        "cut.sse.jsonl is not written: it takes over 0 MiB of memory: `recorder export "
        in capsys.readouterr().err
    )
    assert not (tmp_path / "cut.sse.jsonl").exists()


async def test_the_rows_of_a_large_session_are_shown_as_they_are_read(
    db: Path, low: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """`recorder events` and the export of rows hold none: the limit is not theirs."""
    async with await LogReader.open(db) as log:
        [each] = await log.exchanges((await session_named(log, "demo")).session_id)
        count = len([event async for event in log.events(each.session_id, each.exchange_id)])
    for arguments in (["events", "demo", "--jsonl"], ["events", "demo"], ["export", "demo"]):
        with pytest.raises(SystemExit) as ended:
            await asyncio.to_thread(main, [arguments[0], "--db", str(db), *arguments[1:]])
        assert not ended.value.code
        assert len(capsys.readouterr().out.splitlines()) >= count


async def test_the_log_is_opened_only_for_a_session(db: Path, file: Path) -> None:
    opened: list[str] = []

    async def open_log() -> LogReader:
        opened.append("log")
        return await LogReader.open(db)

    loader = Loader(open_log)
    assert [each.name for each in (await loader.find(str(file))).recordings] == [
        f"exchange 1 of {file}"
    ]
    assert opened == []
    found = await loader.find("demo:1")
    assert ([each.name for each in found.recordings], opened) == (
        ["exchange 1 of session demo"],
        ["log"],
    )
    async with await LogReader.open(db) as log:
        [whole] = (await load_session(log, "demo")).recordings
    assert (whole.body, whole.events) == (LARGE, found.recordings[0].events)
