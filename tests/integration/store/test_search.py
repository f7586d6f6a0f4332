"""The full-text index through plain SQL, as whoever writes and whoever asks uses it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from recorder.projections.rows import ItemRow
from recorder.store.schema import tables_of
from tests.support.rows import an_exchange, put, reindex, row, written
from tests.support.superuser import SEARCH, matching

ITEMS = tables_of["items"].name
COLUMNS = "text, refusal, summary_text, arguments"
ADD = f"INSERT INTO {SEARCH} (rowid, {COLUMNS}) SELECT rowid, {COLUMNS} FROM {ITEMS} WHERE item = ?"
REMOVE = (
    f"INSERT INTO {SEARCH} ({SEARCH}, rowid, {COLUMNS}) SELECT 'delete', rowid, {COLUMNS} "
    f"FROM {ITEMS} WHERE item = ?"
)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with written(tmp_path / "log.db") as connection:
        connection.execute("PRAGMA trusted_schema = 0")
        yield connection


def say(db: sqlite3.Connection, *items: dict[str, Any]) -> None:
    exchange = an_exchange(db)
    for number, fields in enumerate(items):
        put(db, row(ItemRow, exchange, item=number, kind="message", **fields))
        db.execute(ADD, [number])


def found(db: sqlite3.Connection, words: str) -> list[int]:
    sql = (
        f"SELECT item FROM {SEARCH} JOIN {ITEMS} AS i ON i.rowid = {SEARCH}.rowid WHERE "
        f"{SEARCH} MATCH ? ORDER BY item"
    )
    return [item for (item,) in db.execute(sql, [words])]


def test_words_are_found_in_every_text(database: URL) -> None:
    said: tuple[dict[str, str], ...] = (
        {"text": "a word"},
        {"refusal": "No word."},
        {"summary_text": "WORD"},
        {"arguments": '{"a":"word"}'},
        {},
    )
    with written(database) as connection:
        exchange = an_exchange(connection)
        put(
            connection,
            *(
                row(ItemRow, exchange, item=n, kind=f"{n}", **fields)
                for n, fields in enumerate(said)
            ),
        )
        reindex(connection)
    assert matching(database, "word") == ["0", "1", "2", "3"]


# -- in a file: FTS5, which a server does not have


def test_a_word_may_be_asked_for_in_one_text(db: sqlite3.Connection) -> None:
    say(db, {"text": "a word"}, {"arguments": '{"a":"word"}'})
    assert found(db, "arguments : word") == [1]


def test_accents_and_case_make_no_difference(db: sqlite3.Connection) -> None:
    say(db, {"text": "Un été à Zürich"}, {"text": "Überall"})
    assert found(db, "ETE zurich") == [0]
    assert found(db, "uber*") == [1]


def test_what_is_taken_out_is_found_no_more(db: sqlite3.Connection) -> None:
    say(db, {"text": "one word"}, {"text": "another word"})
    db.execute(REMOVE, [0])
    db.execute(f"DELETE FROM {ITEMS} WHERE item = 0")
    assert found(db, "word") == [1]
    db.execute(f"INSERT INTO {SEARCH} ({SEARCH}, rank) VALUES ('integrity-check', 1)")


def test_the_index_and_its_rows_can_be_told_apart_when_they_differ(db: sqlite3.Connection) -> None:
    say(db, {"text": "one word"})
    db.execute(f"DELETE FROM {ITEMS}")
    with pytest.raises(sqlite3.DatabaseError, match="malformed"):
        db.execute(f"INSERT INTO {SEARCH} ({SEARCH}, rank) VALUES ('integrity-check', 1)")
    db.execute(f"INSERT INTO {SEARCH} ({SEARCH}) VALUES ('rebuild')")
    db.execute(f"INSERT INTO {SEARCH} ({SEARCH}, rank) VALUES ('integrity-check', 1)")


def test_a_vacuum_leaves_every_word_with_its_row(db: sqlite3.Connection) -> None:
    """SQLite may number rows anew in a vacuum where a table has no integer key: it does not where
    it has an index.
    """
    say(db, *({"text": f"word{number}"} for number in range(20)))
    db.execute(REMOVE, [3])
    db.execute(f"DELETE FROM {ITEMS} WHERE item = 3")
    db.commit()
    db.execute("VACUUM")
    assert [found(db, f"word{number}") for number in range(20)] == [
        [n] if n != 3 else [] for n in range(20)
    ]
