from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from sqlalchemy import Table

from recorder.model.events import Event, Exchange, Session
from recorder.model.prices import KEY as PRICE_KEY
from recorder.model.prices import PriceRow
from recorder.projections.rows import PROJECTIONS
from recorder.store import schema
from recorder.store.engine import schema_named
from recorder.store.schema import VERSION_TABLE
from recorder.store.sqlite.tables import TABLES, stored_events
from recorder.store.write.writer import Store
from tests.support.rows import add, begin, make_end, make_events, make_exchange, make_session

LOG = ("sessions", "stored_exchanges", "stored_events", "event_types", "event_items", "tombstones")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with one ended exchange in it. It is not to be written."""
    path = tmp_path_factory.mktemp("recorded") / "log.db"
    with Store(path) as store:
        exchange = begin(store)
        add(
            store,
            make_events(
                exchange,
                [b"{}", b"a", b"b", make_end("completed")],
                ["request", "frame", "frame", "end"],
            ),
        )
        add_open_exchange(store)
    return path


@pytest.fixture
def db(recorded: Path, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """An unguarded connection, as any program would open it, to a copy of that log."""
    with closing(
        sqlite3.connect(shutil.copy(recorded, tmp_path / "log.db"), isolation_level=None)
    ) as connection:
        connection.execute("INSERT INTO tombstones VALUES ('gone', 1, 'asked for', '{}', x'00')")
        yield connection


def add_open_exchange(store: Store) -> None:
    exchange = make_exchange(make_session(), 2)
    with store.transaction():
        store.add_exchange(exchange)
        store.append(make_events(exchange, [b"{}", b"a", b"b"], ["request"]))


def contents(db: sqlite3.Connection) -> list[str]:
    return list(db.iterdump())


@pytest.mark.parametrize(
    ("table", "struct"),
    [
        (schema.sessions, Session),
        (schema.exchanges, Exchange),
        (schema.events, Event),
        (schema.prices, PriceRow),
    ],
    ids=["sessions", "exchanges", "events", "prices"],
)
def test_the_columns_are_the_fields_of_the_struct(
    table: Table, struct: type[msgspec.Struct]
) -> None:
    assert tuple(column.name for column in table.columns) == struct.__struct_fields__
    if struct is PriceRow:
        assert {column.name for column in table.primary_key} == set(PRICE_KEY)


def test_a_projections_table_is_its_row() -> None:
    for projection in PROJECTIONS:
        table = schema.tables_of[projection.name]
        assert table.name == projection.table
        assert tuple(column.name for column in table.columns) == projection.row.__struct_fields__
        assert tuple(column.name for column in table.primary_key) == projection.key
        for column, field in zip(
            table.columns, msgspec.structs.fields(projection.row), strict=True
        ):
            types = set(get_args(field.type)) or {field.type}
            assert column.nullable == (type(None) in types), (table.name, column.name)
            python = {bool: int}.get(field.type, field.type)
            assert column.type.python_type in types | {python, int if bool in types else str}, (
                table.name,
                column.name,
            )


BY_CONTENT = {
    # which session it is is what is asked: no key, and it may have a thing twice
    "p_history_v1_digest",
    "p_history_v1_request",
    "p_usage_v1_sums",  # sums of a file by day, over all sessions; a server has none
}


def test_every_key_of_a_projection_begins_with_the_session() -> None:
    for table in (*schema.tables_of.values(), schema.dead_letters):
        indexes = (index.columns for index in table.indexes if index.name not in BY_CONTENT)
        for columns in (table.primary_key.columns, *indexes):
            assert next(iter(columns)).name == "session_id"


def test_what_is_disposable_can_be_changed_and_deleted(db: sqlite3.Connection) -> None:
    for name in [*(table.name for table in schema.tables_of.values()), "rebuilds", "dead_letters"]:
        assert db.execute(
            "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?", [name]
        ).fetchone() == (0,)
        db.execute(f"DELETE FROM {name}")


def objects(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name <> ?",
            [VERSION_TABLE],
        )
        return {
            name: re.sub(r"\s*([(),;])\s*", r"\1", re.sub(r"\s+", " ", sql).strip())
            for name, sql in rows
        }


def test_the_migrated_schema_is_the_declared_one(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "declared.db")) as connection:
        for statement in schema_named("sqlite").schema_statements():
            connection.execute(statement)
    Store(tmp_path / "migrated.db").close()
    declared, migrated = objects(tmp_path / "declared.db"), objects(tmp_path / "migrated.db")
    assert migrated == declared
    assert sum(sql.startswith("CREATE TRIGGER") for sql in migrated.values()) == 3 * len(LOG)


def test_every_table_is_strict_and_has_a_rowid(db: sqlite3.Connection) -> None:
    rows = db.execute(
        "SELECT name, strict, wr FROM pragma_table_list WHERE type = 'table' AND schema = 'main'"
    ).fetchall()
    tables = {
        name: (strict, without_rowid)
        for name, strict, without_rowid in rows
        if not name.startswith("sqlite_")
    }
    assert tables.pop(VERSION_TABLE) == (0, 0)
    assert tables == {table.name: (1, 0) for table in TABLES}


KEY, OPEN = 1, 2  # the numbers of an exchange that has ended, and of one that has not
EVENT = "'frame', 1, 1, 1, 1, 0, x'58', NULL, NULL, x'00'"
COLUMNS = ", ".join(stored_events.columns.keys())
OF_EXCHANGE = ", ".join(schema.exchanges.columns.keys())
BY_ANOTHER = OF_EXCHANGE.replace("recorder_id", "'another'")
WITH_ANOTHER_ID = OF_EXCHANGE.replace(" exchange_id", " 'new'")

REFUSED = [
    *(f"UPDATE OR REPLACE {table} SET rowid = rowid + 1" for table in LOG),
    *(f"DELETE FROM {table}" for table in LOG),
    "UPDATE OR IGNORE stored_events SET raw = x'00' WHERE pos = 1",
    "DELETE FROM stored_events WHERE pos = 2",
    "WITH gone AS (SELECT 1) DELETE FROM stored_events WHERE pos IN gone",
    *(
        f"{verb} INTO stored_events VALUES ({KEY}, 1, {EVENT})"
        for verb in (
            "INSERT",
            "INSERT OR REPLACE",
            "REPLACE",
            "INSERT OR IGNORE",
            "INSERT OR ABORT",
            "INSERT OR FAIL",
        )
    ),
    f"INSERT INTO stored_events VALUES ({KEY}, 1, {EVENT}) ON CONFLICT DO NOTHING",
    f"INSERT INTO stored_events VALUES ({KEY}, 1, {EVENT}) "
    "ON CONFLICT (exchange, pos) DO UPDATE SET raw = excluded.raw",
    # A row whose own key is free may still replace another by its rowid.
    *(
        f"INSERT OR REPLACE INTO stored_events (rowid, {COLUMNS}) VALUES ({rowid}, {OPEN}, 3, {EVENT})"
        for rowid in (1, 2)
    ),
    "INSERT OR REPLACE INTO sessions (rowid, session_id, created_ns, name, source, labels, origin) "
    "VALUES (1, 'new', 1, 'n', 's', '{}', 'live')",
    "INSERT OR REPLACE INTO tombstones (rowid, session_id, purged_ns, reason, counts) VALUES (1, 'new', 1, 'r', '{}')",
    "REPLACE INTO sessions SELECT session_id, created_ns, 'another', source, labels, origin FROM sessions",
    f"REPLACE INTO stored_exchanges ({OF_EXCHANGE}) SELECT {BY_ANOTHER} FROM exchanges",
    f"REPLACE INTO stored_exchanges (number, {OF_EXCHANGE}) SELECT 1, {WITH_ANOTHER_ID} FROM exchanges",
    "REPLACE INTO event_types VALUES (1, 'another')",
    "REPLACE INTO event_items VALUES (1, 2, 'another')",
    "REPLACE INTO tombstones VALUES ('gone', 2, 'another', '{}', x'00')",
    # What is purged stays so.
    "INSERT INTO sessions VALUES ('gone', 1, 'n', 's', '{}', 'live')",
    "REPLACE INTO sessions VALUES ('gone', 1, 'n', 's', '{}', 'live')",
    "INSERT INTO stored_exchanges VALUES (NULL, 'gone', 'e', 1, 'r', 'p', 'a', 'm', 't', "
    + ", ".join(["NULL"] * 7)
    + ")",
    *(f"INSERT INTO stored_events VALUES ({OPEN}, {pos}, {EVENT})" for pos in (4, 5, -1, 2**62)),
    f"INSERT INTO stored_events VALUES (7, 1, {EVENT})",
    f"INSERT INTO stored_events VALUES (NULL, 0, {EVENT})",
    f"INSERT INTO stored_events VALUES ({KEY}, 4, {EVENT})",  # after the end
    *(
        f"INSERT INTO stored_events VALUES ({OPEN}, 3, {bad})"  # STRICT
        for bad in (
            EVENT.replace("x'58'", "'text'"),
            EVENT.replace("x'58'", "1"),
            EVENT.replace("x'58'", "NULL"),
            EVENT.replace("'frame', 1", "'frame', 'soon'"),
        )
    ),
]


def taken(db: sqlite3.Connection) -> list[str]:
    """The statements of these that the database takes; each is undone."""
    passed = []
    for statement in REFUSED:
        db.execute("BEGIN")
        try:
            db.execute(statement)
            passed.append(statement)
        except sqlite3.IntegrityError:
            pass
        db.execute("ROLLBACK")
    return passed


def test_the_log_is_append_only_for_anyone(db: sqlite3.Connection) -> None:
    before = contents(db)
    assert taken(db) == []
    for statement in REFUSED:
        with pytest.raises(sqlite3.IntegrityError):
            db.execute(statement)
    assert contents(db) == before


def test_the_corpus_is_refused_for_what_it_does_not_for_its_grammar(db: sqlite3.Connection) -> None:
    for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        db.execute(f"DROP TRIGGER {name}")
    assert len(taken(db)) > 25


COLUMNS_OF = "SELECT name FROM pragma_table_info(?)"
TYPES_OF = "SELECT name, type FROM pragma_table_info(?)"


def test_an_identical_row_is_skipped(db: sqlite3.Connection) -> None:
    before = contents(db)
    for table in LOG:
        columns = ", ".join(name for (name,) in db.execute(COLUMNS_OF, [table]) if name != "number")
        for verb in ("INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE"):
            statement = f"{verb} INTO {table} ({columns}) SELECT {columns} FROM {table}"
            assert db.execute(statement).rowcount == 0, statement
    assert contents(db) == before


KEYS = {
    "sessions": {"session_id"},
    "stored_exchanges": {"session_id", "exchange_id"},
    "stored_events": {"exchange", "pos"},
    "tombstones": {"session_id"},
}


def test_a_row_that_differs_in_one_column_is_refused(db: sqlite3.Connection) -> None:
    others = {"BLOB": "x'ff'", "TEXT": "'other'", "INTEGER": "77"}
    for table, key in KEYS.items():
        columns = {name: type for name, type in db.execute(TYPES_OF, [table]) if name != "number"}
        for column, type in columns.items():
            if column in key:
                continue
            changed = [others[type] if name == column else name for name in columns]
            row = f"SELECT {', '.join(changed)} FROM {table} ORDER BY rowid DESC LIMIT 1"
            with pytest.raises(sqlite3.IntegrityError, match="other content stands at that key"):
                db.execute(f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) {row}")


@pytest.mark.parametrize("view", ["exchanges", "events"])
def test_a_view_of_the_log_takes_nothing(db: sqlite3.Connection, view: str) -> None:
    for statement in (f"INSERT INTO {view} SELECT * FROM {view}", f"DELETE FROM {view}"):
        with pytest.raises(
            sqlite3.OperationalError, match=f"cannot modify {view} because it is a view"
        ):
            db.execute(statement)


def test_a_note_may_follow_the_end_and_nothing_else(db: sqlite3.Connection) -> None:
    note = EVENT.replace("'frame'", "'note'")
    db.execute(f"INSERT INTO stored_events VALUES ({KEY}, 4, {note})")
    for kind in ("frame", "end", "gap", "reads"):
        with pytest.raises(sqlite3.IntegrityError, match="the exchange has ended"):
            db.execute(f"INSERT INTO stored_events VALUES ({KEY}, 5, {note.replace('note', kind)})")
    db.execute(f"INSERT INTO stored_events VALUES ({KEY}, 5, {note})")


def test_a_note_ends_nothing(db: sqlite3.Connection) -> None:
    frame = EVENT
    db.execute(f"INSERT INTO stored_events VALUES ({OPEN}, 3, {frame.replace('frame', 'note')})")
    db.execute(f"INSERT INTO stored_events VALUES ({OPEN}, 4, {frame})")


def test_the_guard_of_events_only_seeks(db: sqlite3.Connection) -> None:
    rows = "FROM stored_events WHERE exchange = 1"
    for query in (f"SELECT max(pos) {rows}", f"SELECT 1 {rows} AND kind = 'end'"):
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {query}")]
        assert all("SEARCH" in step and "(exchange=?)" in step for step in plan), plan


def test_payloads_are_text_whatever_the_bytes(tmp_path: Path) -> None:
    payloads = [
        b'{"a":1}',
        b'"\\u0000"',
        b'"\x00"',
        b'"\\ud800"',
        b"\xff\xfe",
        b"",
        "ü€😀".encode(),
    ]
    with Store(tmp_path / "log.db") as store:
        exchange = begin(store)
        frames = make_events(exchange, [b"data: " + payload + b"\n\n" for payload in payloads])
        framed = [
            msgspec.structs.replace(frame, data_start=6, data_length=len(payload))
            for frame, payload in zip(frames, payloads, strict=True)
        ]
        add(store, [*framed, msgspec.structs.replace(frames[0], pos=len(payloads))])
    with closing(sqlite3.connect(tmp_path / "log.db")) as connection:
        connection.text_factory = bytes
        assert [
            row[0] for row in connection.execute("SELECT payload FROM event_payloads ORDER BY pos")
        ] == payloads
