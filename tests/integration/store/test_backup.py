"""`recorder.store.sqlite.upkeep`, `recorder db backup`: a whole copy or none, while recorders go
on.
"""

from __future__ import annotations

import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from recorder.commands.db import command
from recorder.errors import NotFoundError, RecorderError, StoreError
from recorder.ingest.ingester import Ingester
from recorder.journal.writer import Journal
from recorder.store.location import database_url
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_list import list_sessions
from recorder.store.sqlite.upkeep import back_up, check, contents_of
from recorder.store.write.writer import Store
from tests.acceptance.store.test_purge import record
from tests.integration.ingest.test_ingester import Exchange, never
from tests.support.empty_log import empty
from tests.support.rows import add, begin, make_end, make_events
from tests.support.superuser import SEARCH


def quiet(done: int, total: int) -> None:
    """Nobody watches."""


def make_log(path: Path) -> Path:
    with Store(empty(path)) as store:
        add(
            store,
            make_events(
                begin(store),
                [b"{}", b"a" * 10_000, make_end("completed")],
                ["request", "frame", "end"],
            ),
        )
        add(store, make_events(begin(store, 2), [b"{}", b"open"], ["request"]))
    return path


def dumped(path: Path) -> list[str]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return list(connection.iterdump())


def others(directory: Path) -> list[str]:
    """The files there that do not belong to the database."""
    return sorted(each.name for each in directory.iterdir() if not each.name.startswith("log.db"))


def ended(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {
            row[0]
            for row in connection.execute("SELECT exchange_id FROM events WHERE kind = 'end'")
        }


def run(db: Path, *arguments: object) -> Result:
    return CliRunner().invoke(command, ["backup", *map(str, arguments), "--db", str(db)])


async def test_a_backup_is_a_log_like_any_other(tmp_path: Path) -> None:
    path = make_log(tmp_path / "log.db")
    assert back_up(database_url(path), tmp_path / "copy.db", quiet).exchanges == 1
    assert others(tmp_path) == ["copy.db"]
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    assert dumped(tmp_path / "copy.db") == dumped(path)
    async with await LogReader.open(tmp_path / "copy.db") as log:
        assert len(await list_sessions(log)) == 2
    with Store(tmp_path / "copy.db") as copy:
        begin(copy, 3)


@pytest.mark.long
def test_backups_while_it_records_have_all_that_had_ended(tmp_path: Path) -> None:
    """What is in the WAL only, too: nobody checkpoints for it."""
    path, stop = tmp_path / "log.db", threading.Event()
    Store(path).close()

    def record_on() -> None:
        journal = Journal(tmp_path / "log.db.journal", "recorder-1")
        with Store(path, busy_timeout_s=30.0) as store:
            ingester = Ingester(store, journal.directory, never)
            while not stop.is_set():
                record(journal, "a", "b")
                ingester.drain()
        journal.close()

    thread = threading.Thread(target=record_on)
    thread.start()
    try:
        counts: list[int] = []
        while len(counts) < 8 or counts[-1] - counts[0] < 20:
            before, copy = ended(path), tmp_path / "copy.db"
            counts.append(back_up(database_url(path), copy, quiet, force=True).exchanges)
            assert before <= ended(copy)
            assert counts[-1] == len(ended(copy))
            with closing(sqlite3.connect(copy)) as connection:
                connection.execute(
                    f"INSERT INTO {SEARCH} ({SEARCH}, rank) VALUES ('integrity-check', 1)"
                )
                assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    finally:
        stop.set()
        thread.join()


def test_a_backup_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    path = make_log(tmp_path / "log.db")

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    (tmp_path / "copy.db").write_bytes(b"an older one")
    with pytest.raises(KeyboardInterrupt):
        back_up(database_url(path), tmp_path / "copy.db", interrupt, force=True)
    assert others(tmp_path) == ["copy.db"]
    assert (tmp_path / "copy.db").read_bytes() == b"an older one"


def test_nothing_is_replaced_unasked(tmp_path: Path) -> None:
    path, copy = make_log(tmp_path / "log.db"), tmp_path / "copy.db"
    copy.write_bytes(b"mine")
    with pytest.raises(
        RecorderError, match=r"is there already: give another path, or --force to replace it\."
    ):
        back_up(database_url(path), copy, quiet)
    assert copy.read_bytes() == b"mine"
    back_up(database_url(path), copy, quiet, force=True)
    assert dumped(copy) == dumped(path)


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_a_database_in_use_is_not_replaced_even_if_asked(tmp_path: Path, suffix: str) -> None:
    path = make_log(tmp_path / "log.db")
    (tmp_path / f"copy.db{suffix}").touch()
    with pytest.raises(RecorderError, match="is a database that is in use"):
        back_up(database_url(path), tmp_path / "copy.db", quiet, force=True)


def test_the_database_is_not_its_own_backup(tmp_path: Path) -> None:
    path = make_log(tmp_path / "log.db")
    before = dumped(path)
    (tmp_path / "link.db").symlink_to(path)
    for target in (path, tmp_path / "link.db"):
        with pytest.raises(RecorderError, match="is the database itself"):
            back_up(database_url(path), target, quiet, force=True)
    with pytest.raises(RecorderError, match="is a directory"):
        back_up(database_url(path), tmp_path, quiet, force=True)
    with pytest.raises(RecorderError, match="cannot be written: No such file or directory"):
        back_up(database_url(path), tmp_path / "none" / "copy.db", quiet)
    assert dumped(path) == before


def test_an_empty_database_and_one_of_another_program_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    with pytest.raises(NotFoundError, match="There is nothing in the database"):
        back_up(database_url(tmp_path / "empty.db"), tmp_path / "copy.db", quiet)
    (tmp_path / "words.db").write_bytes(b"words\n" * 1000)
    with pytest.raises(StoreError):
        back_up(database_url(tmp_path / "words.db"), tmp_path / "copy.db", quiet)
    assert not (tmp_path / "copy.db").exists()


@pytest.mark.parametrize("damage", ["a page", "a row", "the end"])
def test_a_copy_that_is_not_what_was_copied_is_found_out(tmp_path: Path, damage: str) -> None:
    path = make_log(tmp_path / "log.db")
    with closing(sqlite3.connect(path)) as connection:
        contents = contents_of(connection)
    check(path, contents)
    if damage == "a page":
        data = bytearray(path.read_bytes())
        data[4096 * 3 : 4096 * 4] = b"\xff" * 4096
        path.write_bytes(data)
    elif damage == "the end":
        path.write_bytes(path.read_bytes()[:-4096])
    else:
        contents = contents._replace(rows=(0, *contents.rows[1:]))
    with pytest.raises(StoreError):
        check(path, contents)


def test_the_command_says_what_is_not_in_it(tmp_path: Path) -> None:
    path = make_log(tmp_path / "log.db")
    ran = run(path, tmp_path / "copy.db")
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert ran.stderr.startswith(f"{tmp_path / 'copy.db'} has 1 exchange that has ended (")
    assert "journals" not in ran.stderr
    journal = Journal(tmp_path / "log.db.journal", "recorder-1")
    Exchange(journal).chunk(b"data: 1\n\n").end()
    journal.close()
    waiting = sum(each.stat().st_size for each in journal.directory.glob("*.seg")) - 8
    ran = run(path, tmp_path / "copy.db", "--force")
    assert f"Up to {waiting:,} bytes are still in journals and not in it" in ran.stderr
    assert "recorder db recover" in ran.stderr


def test_there_must_be_a_database(tmp_path: Path) -> None:
    ran = run(tmp_path / "none.db", tmp_path / "copy.db")
    assert isinstance(ran.exception, NotFoundError)
    assert list(tmp_path.iterdir()) == []
