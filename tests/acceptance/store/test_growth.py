"""The rules by which a log may be spread over many machines by configuration alone: R1 to R9.

R1 `session_id` comes first in every key. R2 Ids come from the program. R3 Nothing in the database
is needed for the log to be right but its keys. R4 Rows and batches are small. R5 The log is added
to and read. R6 Types are uuid, text, bigint and bytea. R7 Foreign keys have the session in them,
and may be left out. R8 A question is about one session, or sums projections
(`store/test_plans.py`). R9 Nothing is unique across sessions.

Each is held by what the schema declares and by what the database of each engine has. Where a rule
has exceptions they are named, with the reason; a rule without a schema that breaks it would prove
nothing, so each has one.
"""

from __future__ import annotations

import ast
import datetime
import importlib
import pkgutil
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from sqlalchemy import (
    URL,
    Column,
    Delete,
    Double,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    Update,
)

import recorder
from benchmarks.growth import load
from recorder.errors import StoreBusyError, StoreConflictError
from recorder.ingest.capture import Capture
from recorder.model.events import Event, ExchangeEnd, RequestHead, ResponseHead
from recorder.store import schema
from recorder.store.maintain.purge.tombstone import Counts
from recorder.store.postgres import writer as postgres_writer
from recorder.store.postgres.ddl import SCHEMA
from recorder.store.schema import DOUBLE, ID, TEXT, VERSION_TABLE
from recorder.store.sql import Statement, dialect
from recorder.store.sqlite.tables import compact
from recorder.store.write.writer import Store
from recorder.wire.dialects import by_name
from tests.integration.store import test_writer
from tests.support import superuser
from tests.support.console import blocks
from tests.support.corpus import ROOT
from tests.support.rows import add, begin, make_events, make_exchange, make_id, make_session
from tests.support.server import Ran, run

LOG = tuple(table.name for table in schema.LOG)
STORED = (*LOG, *(table.name for table in compact.sorted_tables))

BOOKKEEPING: Mapping[str, str] = {
    "ingest_offsets": "one row for each journal: it belongs to a recorder, which writes to many sessions",
    "archives": "one row for each archive, which has many sessions",
    "prices": "some thousand rows, the prices of tokens: they are of models, not of sessions",
    "rebuilds": "one row while a rebuild is under way",
    VERSION_TABLE: "one row: the revision of the schema, as Alembic keeps it",
}
"""Tables without a session: small enough to stand on one machine, or on each (`docs/scale.md`)."""
IN_A_FILE = {table.name for table in compact.sorted_tables}
"""The compact tables of a file: a file is never in parts."""

Keys = dict[str, list[tuple[str, ...]]]
"""The columns of each key and unique index, by table."""


def keys_of(metadata: MetaData) -> Keys:
    return {name: [*_keys(table), *_foreign(table)] for name, table in metadata.tables.items()}


def _keys(table: Table) -> Iterator[tuple[str, ...]]:
    yield tuple(column.name for column in table.primary_key.columns)
    for constraint in table.constraints:
        if isinstance(constraint, UniqueConstraint):
            yield tuple(column.name for column in constraint.columns)
    for index in table.indexes:
        if index.unique:
            yield tuple(column.name for column in index.columns)


def _foreign(table: Table) -> Iterator[tuple[str, ...]]:
    for key in table.foreign_key_constraints:
        yield tuple(column.name for column in key.columns)
        yield tuple(element.column.name for element in key.elements)


def keys_in(database: URL) -> Keys:
    """The same, of a database."""
    found: Keys = {}
    if superuser.engine(database) == "sqlite":
        for (table,) in superuser.asked(
            database, "SELECT name FROM pragma_table_list WHERE type = 'table'"
        ):
            for name, unique in superuser.asked(
                database, 'SELECT name, "unique" FROM pragma_index_list(?)', table
            ):
                columns = superuser.asked(database, "SELECT name FROM pragma_index_info(?)", name)
                found.setdefault(table, []).extend(
                    [tuple(column for (column,) in columns)] * unique
                )
        return found
    sql = f"""SELECT c.relname, array_agg(a.attname ORDER BY k.place) FROM pg_index AS i
        JOIN pg_class AS c ON c.oid = i.indrelid AND c.relnamespace = '{SCHEMA}'::regnamespace
        CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k (number, place)
        JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.number
        WHERE i.indisunique GROUP BY c.relname, i.indexrelid
        UNION ALL SELECT c.relname, array_agg(a.attname ORDER BY k.place) FROM pg_constraint AS f
        JOIN pg_class AS c ON c.oid = f.conrelid AND f.connamespace = '{SCHEMA}'::regnamespace
        CROSS JOIN unnest(f.conkey) WITH ORDINALITY AS k (number, place)
        JOIN pg_attribute AS a ON a.attrelid = f.conrelid AND a.attnum = k.number
        WHERE f.contype IN ('u', 'f') GROUP BY c.relname, f.oid"""
    for table, columns in superuser.asked(database, sql):
        found.setdefault(table, []).append(tuple(columns))
    return found


def without_session(keys: Keys) -> list[str]:
    """The tables with a key that does not begin with the session."""
    others = [
        table for table, columns in keys.items() if any(each[0] != "session_id" for each in columns)
    ]
    return sorted(set(others) - set(BOOKKEEPING))


def altered(*parts: Any) -> MetaData:
    """A schema with one table of ours that has something more."""
    metadata = MetaData()
    Table("sessions", metadata, Column("session_id", ID, primary_key=True), *parts)
    return metadata


# -- R1, R9


def test_the_session_comes_first_in_every_key(database: URL) -> None:
    Store(database).close()
    found = {table: keys for table, keys in keys_in(database).items() if table not in IN_A_FILE}
    assert "sessions" in found
    assert without_session(found) == without_session(keys_of(schema.metadata)) == []
    assert set(BOOKKEEPING) == {
        table for table, columns in found.items() if columns[0][0] != "session_id"
    }


def test_a_key_without_the_session_is_seen() -> None:
    for unique in (UniqueConstraint("name"), Index("n", "name", unique=True)):
        assert without_session(keys_of(altered(Column("name", TEXT), unique))) == ["sessions"]
    turned_around = MetaData()
    Table(
        "events",
        turned_around,
        Column("pos", Integer, primary_key=True),
        Column("session_id", ID, primary_key=True),
    )
    assert without_session(keys_of(turned_around)) == ["events"]


def test_nothing_is_unique_across_sessions(database: URL) -> None:
    """Not a name, and not even the id of an exchange."""
    sessions = [make_session(number, name="same") for number in (1, 2)]
    exchanges = [make_exchange(session, 7) for session in sessions]
    with Store(database) as store:
        with store.transaction():
            for session, exchange in zip(sessions, exchanges, strict=True):
                store.add_session(session)
                store.add_exchange(exchange)
                store.append(make_events(exchange, [b"{}"], ["request"]))
        assert exchanges[0].exchange_id == exchanges[1].exchange_id
        assert [
            test_writer.count(store, table) for table in ("sessions", "exchanges", "events")
        ] == [2, 2, 2]


# -- R2


def numbered(metadata: MetaData) -> list[str]:
    """Columns whose value the database would choose."""
    return [
        str(column)
        for table in metadata.tables.values()
        for column in table.columns
        if any((column.default, column.server_default, column.identity, column.computed))
        or column is column.table.autoincrement_column  # of which SQLAlchemy would make a serial
    ]


def test_the_database_chooses_no_value(database: URL) -> None:
    Store(database).close()
    assert numbered(schema.metadata) == []
    sql = {
        "sqlite": "SELECT m.name || '.' || c.name FROM sqlite_master AS m, pragma_table_xinfo(m.name) AS c "
        "WHERE m.type = 'table' AND m.sql NOT LIKE 'CREATE VIRTUAL%' AND m.name NOT LIKE 'p\\_search%' ESCAPE '\\' "
        "AND (c.dflt_value IS NOT NULL OR c.hidden > 0 OR m.sql LIKE '%AUTOINCREMENT%')",
        "postgresql": f"""SELECT table_name || '.' || column_name FROM information_schema.columns
            WHERE table_schema = '{SCHEMA}'
            AND (column_default IS NOT NULL OR is_identity <> 'NO' OR is_generated <> 'NEVER')
            UNION ALL SELECT sequencename FROM pg_sequences WHERE schemaname = '{SCHEMA}'""",
    }[superuser.engine(database)]
    assert superuser.asked(database, sql) == []


def test_a_column_that_the_database_numbers_is_seen() -> None:
    by_server = Column("n", Integer, server_default="1")
    for column in (Column("n", Integer, Identity()), by_server, Column("n", Integer, default=1)):
        assert numbered(altered(column)) == ["sessions.n"]
    serial = MetaData()
    Table("events", serial, Column("n", Integer, primary_key=True))
    assert numbered(serial) == ["events.n"]


# -- R3

FUNCTIONS: Mapping[str, str] = {
    "add_partitions": "a month without partitions has its rows in the default ones",
    "first_id": "where a month begins, for the one above",
    "recorder_text": "a view shows payloads as text by it",
}
"""All there is on a server that runs there, and why the log does without it."""

LOCKS: Mapping[str, str] = {
    "recorder.store.postgres.writer": "a purge waits for who writes. Without it, what was written at the very moment "
    "of a purge stays behind its tombstone, as rows that belong to nothing: `recorder verify` names them",
    "recorder.store.postgres.connection": "two who push the same to one collector. Without it, a span goes out twice "
    "under one id",
    "recorder.store.postgres.schema": "two who upgrade at once. Without it, the second fails at the name of a table, "
    "and is undone",
}
"""Who takes an advisory lock, and what holds without it."""


def test_all_that_runs_in_a_server_is_named_with_what_holds_without_it(
    postgres_database: URL,
) -> None:
    functions = f"SELECT proname FROM pg_proc WHERE pronamespace = '{SCHEMA}'::regnamespace"
    assert {name for (name,) in superuser.asked(postgres_database, functions)} == set(FUNCTIONS)
    triggers = "SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal"
    rules = f"SELECT count(*) FROM pg_rules WHERE schemaname = '{SCHEMA}'"
    assert superuser.asked(postgres_database, f"SELECT ({triggers}), ({rules})") == [(0, 0)]
    locking = {
        module.__name__ for module in modules() if re.search(r"pg_(try_)?advisory", source(module))
    }
    assert locking == set(LOCKS)
    special = re.compile(r"\b(LISTEN|NOTIFY|nextval|LOCK TABLE)\b")
    # locks what it replaces, once: `db upgrade --partitions`
    owners = {"recorder.store.postgres.ddl"}
    assert {module.__name__ for module in modules() if special.search(source(module))} == owners


@pytest.fixture
def bare(database: URL) -> Iterator[Store]:
    """A log whose database does nothing for it but hold its primary keys."""
    with Store(database, busy_timeout_s=0.5) as store:
        pass
    superuser.free(database)
    if superuser.engine(database) == "postgresql":
        superuser.asked(database, "ALTER TABLE exchanges DROP CONSTRAINT exchanges_session_id_fkey")
        superuser.asked(database, "DROP FUNCTION add_partitions(integer)")
    with Store(database, busy_timeout_s=0.5) as store:
        if store.engine == "sqlite":
            store._connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
            store._connection.commit()
        yield store


@pytest.mark.parametrize(
    "claim",
    [
        test_writer.test_what_went_in_comes_out,
        test_writer.test_interleaved_exchanges_are_sorted_by_the_store,
        test_writer.test_a_repeated_transaction_changes_nothing,
        test_writer.test_a_transaction_that_raises_leaves_nothing,
        test_writer.test_offsets_are_set_replaced_and_forgotten,
        test_writer.test_the_newest_session_of_a_name_and_a_source_is_found,
        test_writer.test_the_session_of_an_exchange_is_found,
        test_writer.test_the_session_of_a_response_is_found,
    ],
    ids=lambda claim: claim.__name__,
)
def test_the_store_keeps_its_contract_without_triggers_functions_and_foreign_keys(
    bare: Store, claim: Callable[[Store], None]
) -> None:
    claim(bare)


def test_without_its_lock_two_who_write_the_same_still_write_it_once(
    postgres_database: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_writer, "_AMONG_OTHERS", Statement("SELECT 1"))
    with Store(postgres_database) as store:
        told = make_events(begin(store), [b"data: {}\n\n"] * 200)

    def write() -> None:
        with Store(postgres_database) as store:
            while True:
                try:
                    return add(store, told)
                except StoreBusyError:
                    continue

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    with Store(postgres_database) as store:
        assert test_writer.stored(store) == told


# -- R4

ROW_BYTES, BATCH_BYTES = 2**20, 4 * 2**20

ROWS = (
    "wire.framing.sse.FRAME_LIMIT",
    "store.bodies.dedup.MOST_BYTES",
    "model.shared_body.BODY_LIMIT",
)
BATCHES = (
    "ingest.ingester.BATCH_BYTES",
    "ingest.ingester.COMMIT_BYTES",
    "store.maintain.copy.COMMIT_BYTES",
)
OVER: Mapping[str, str] = {
    "ingest.ingester.COMMIT_BYTES": "4 MiB of journal are a commit; only where its records are compressed may "
    "they be more, up to this (docs/scale.md)",
}
"""What is larger than the rule, and why."""


def constant(name: str) -> int:
    module, _, attribute = name.rpartition(".")
    value: int = getattr(importlib.import_module(f"recorder.{module}"), attribute)
    return value


def test_rows_and_batches_are_small() -> None:
    assert {name for name in ROWS if constant(name) > ROW_BYTES} == set()
    assert {name for name in BATCHES if constant(name) > BATCH_BYTES} == set(OVER)


@pytest.mark.parametrize(
    "content_type", ["text/event-stream", "application/json", "application/octet-stream"]
)
def test_whatever_passes_no_row_of_an_event_is_large(content_type: str) -> None:
    capture = Capture(make_id(1), make_id(2), by_name("openai-responses"), 0)
    head = RequestHead(
        make_id(2), make_id(1), 0, "POST", "/v1/responses", "openai", [("A", "b" * 8_000)] * 30
    )
    events = capture.request(head, b"x" * 3_000_000, wire=b"")
    events += capture.response(1, ResponseHead(200, "OK", [("Content-Type", content_type)]))
    for number in range(20_000):
        events += capture.chunk(number, b"y" * 200)
    events += capture.end(20_000, ExchangeEnd("eof"))
    assert sum(len(event.raw) for event in events) > 7_000_000
    assert max(len(event.raw) for event in events) <= ROW_BYTES


# -- R5

WRITES = re.compile(
    r"\b(?:INSERT(?: OR \w+)? INTO|UPDATE(?: OR \w+)?|DELETE FROM|TRUNCATE(?: TABLE)?|MERGE INTO|COPY|REPLACE INTO) "
    r"(?:recorder\.)?(\w+)",
    re.IGNORECASE,
)
ADDS = re.compile(
    r"\s*(INSERT INTO (\w+) .* ON CONFLICT(?: \([\w, ]+\))? DO NOTHING(?: RETURNING [\w, ]+)?"
    r"|COPY (\w+) \(.*\) FROM STDIN .*)\s*",
    re.S,
)

PURGING = "a purge, by the owner of the schema, of a session that has its tombstone"


def modules() -> list[ModuleType]:
    names = [
        each.name
        for each in pkgutil.walk_packages(recorder.__path__, "recorder.")
        if "__main__" not in each.name
    ]
    return [importlib.import_module(name) for name in names]


def source(module: ModuleType) -> str:
    return Path(str(module.__file__)).read_text()


def statements(value: Any) -> Iterator[str]:
    """The SQL that a global of a module has in it, as PostgreSQL gets it."""
    if isinstance(value, Statement):
        yield value.text("postgresql")
    elif isinstance(value, Update | Delete):
        yield str(value.compile(dialect=dialect("postgresql")))
    elif isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (each for part in value.values() for each in statements(part))
    elif isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        yield from (each for part in value for each in statements(part))


def not_adding(found: Mapping[str, Any]) -> list[str]:
    """Of these globals, the statements that do something else to the log than to add to it."""
    every = (sql for value in found.values() for sql in statements(value))
    return [
        sql
        for sql in every
        if any(table in STORED for table in WRITES.findall(sql)) and not ADDS.fullmatch(sql)
    ]


OF_ROWS = re.compile(r"\s*(INSERT|UPDATE|DELETE|TRUNCATE|MERGE|COPY|REPLACE|WITH)\b", re.IGNORECASE)


def test_the_log_is_only_added_to_and_read() -> None:
    """Others are of the schema, as triggers and rights, or said to people: they change no row."""
    found = {
        module.__name__: [*filter(OF_ROWS.match, not_adding(vars(module)))] for module in modules()
    }
    changing = {
        name: {table for sql in sqls for table in WRITES.findall(sql)}
        for name, sqls in found.items()
        if sqls
    }
    assert changing == {
        "recorder.store.maintain.purge.delete": {"tombstones"},
        "recorder.store.postgres.writer": {"sessions", "exchanges", "events"},
        "recorder.store.sqlite.writer": {"sessions", *IN_A_FILE},
        # a file of before the first release, while nobody else has it
        "recorder.store.sqlite.schema": IN_A_FILE,
    }, PURGING
    events = postgres_writer._INSERT_EVENTS.decode(), postgres_writer._COPY_EVENTS
    assert all(ADDS.fullmatch(sql) for sql in (*postgres_writer._INSERTS.values(), *events))


def test_no_function_makes_a_statement_that_changes_the_log() -> None:
    """Those that are made when they are needed, by SQLAlchemy's `update` and `delete`, or as a
    text.
    """
    for module in modules():
        for node in ast.walk(ast.parse(source(module))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("update", "delete")
            ):
                named = node.args[0]
                assert isinstance(named, ast.Name), (module.__name__, node.lineno)
                assert named.id not in LOG, (module.__name__, node.lineno)


def test_a_statement_that_changes_the_log_is_seen() -> None:
    bad = ["UPDATE events SET raw = ''", "DELETE FROM recorder.sessions", "TRUNCATE exchanges"]
    insert = "INSERT INTO events VALUES (1)"
    bad += [f"{insert} ON CONFLICT (session_id) DO UPDATE SET pos = 1", insert]
    assert not_adding({"A": bad, "B": Statement(schema.events.delete())}) == [
        *bad,
        "DELETE FROM events",
    ]
    assert (
        not_adding({"A": "UPDATE ingest_offsets SET segment = 1", "B": "SELECT * FROM events"})
        == []
    )


# -- R6

TYPES = {"UUID", "TEXT", "BIGINT", "BYTEA"}
OF_PROJECTIONS = {"DOUBLE PRECISION"}


def other_types(metadata: MetaData) -> list[str]:
    found = []
    for table in metadata.tables.values():
        is_projection = table.name.startswith("p_")
        for column in table.columns:
            type = column.type.compile(dialect=dialect("postgresql"))
            if type not in TYPES | (OF_PROJECTIONS if is_projection else set()):
                found.append(f"{column} {type}")
    return found


def test_types_are_those_that_every_engine_has(postgres_database: URL) -> None:
    assert other_types(schema.metadata) == []
    types = f"""SELECT DISTINCT upper(c.data_type) FROM information_schema.columns AS c
        JOIN information_schema.tables AS t USING (table_schema, table_name)
        WHERE table_schema = '{SCHEMA}' AND t.table_type = 'BASE TABLE' AND """
    log = "table_name ~ '^(sessions|exchanges|events|tombstones|ingest_offsets|rebuilds)'"
    assert {type for (type,) in superuser.asked(postgres_database, types + log)} == TYPES
    rest = f"NOT {log} AND table_name <> '{VERSION_TABLE}' AND table_name NOT LIKE 'p\\_search%'"
    assert {
        type for (type,) in superuser.asked(postgres_database, types + rest)
    } <= TYPES | OF_PROJECTIONS
    # The words of full-text search are the server's own; they are made anew from the projections.
    search = "table_name LIKE 'p\\_search%'"
    expected = {"UUID", "BIGINT", "TEXT", "TSVECTOR"}
    assert {type for (type,) in superuser.asked(postgres_database, types + search)} == expected


def test_another_type_is_seen() -> None:
    assert other_types(altered(Column("share", DOUBLE))) == ["sessions.share DOUBLE PRECISION"]
    assert other_types(altered(Column("n", Integer))) == ["sessions.n INTEGER"]
    metadata = MetaData()
    Table("p_x_v1", metadata, Column("session_id", ID, primary_key=True), Column("share", Double))
    assert other_types(metadata) == []


# -- R7


def fixed(metadata: MetaData) -> list[str]:
    """Foreign keys in which the session is not, at both ends."""
    return [
        str(key.name or table.name)
        for table in metadata.tables.values()
        for key in table.foreign_key_constraints
        if "session_id" not in {column.name for column in key.columns}
        or "session_id" not in {element.column.name for element in key.elements}
    ]


def test_foreign_keys_have_the_session_in_them_and_events_have_none_on_a_server(
    postgres_database: URL,
) -> None:
    assert fixed(schema.metadata) == []
    keys = f"""SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE contype = 'f' AND connamespace = '{SCHEMA}'::regnamespace AND conparentid = 0"""
    [(table, definition)] = superuser.asked(postgres_database, keys)
    assert (table, definition) == (
        "exchanges",
        "FOREIGN KEY (session_id) REFERENCES sessions(session_id)",
    )


def test_a_foreign_key_without_the_session_is_seen() -> None:
    metadata = altered(Column("name", TEXT, unique=True))
    Table(
        "named",
        metadata,
        Column("name", Text),
        ForeignKeyConstraint(["name"], ["sessions.name"], name="by_name"),
    )
    assert fixed(metadata) == ["by_name"]


# -- retention and hypertables, as docs/scale.md has them

SCALE = (ROOT / "docs" / "scale.md").read_text()
USED_LATER, DROPPING, *_ = blocks(SCALE, "sql")
HOUR_NS = 3_600_000_000_000
FILLED = {
    *(
        "p_anomalies_v1",
        "p_exchanges_v1",
        "p_items_v1",
        "p_parameters_v1",
        "p_prompts_v1",
        "p_requests_v1",
    ),
    *("p_timing_v1", "p_usage_v1", "p_user_texts_v1", "p_search_v1", "p_search_user_texts_v1"),
}


def of_this_month(sql: str) -> str:
    """What the page says of August 2026."""
    this = sql.replace("2026_08", f"{THIS:%Y_%m}").replace("2026-08", f"{THIS:%Y-%m}")
    return this.replace("2026-09", f"{NEXT:%Y-%m}")


THIS = datetime.datetime.now(datetime.UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
NEXT = (THIS + datetime.timedelta(days=32)).replace(day=1)


@pytest.fixture
def two_months(postgres_database: URL) -> URL:
    """A session of this month, and one of the next."""
    this_ns, next_ns = (int(month.timestamp()) * 10**9 for month in (THIS, NEXT))
    with Store(postgres_database) as store:
        load(store, range(1), this_ns)
        load(store, range(1, 2), next_ns)
    return postgres_database


def verified(database: URL, folder: Path) -> Ran:
    return run(folder / "none.db", "verify", "--db", database.render_as_string(hide_password=False))


def sessions_in(database: URL) -> dict[str, set[str]]:
    """Whose rows each table has."""
    return {
        table: {
            str(row[0])
            for row in superuser.asked(database, f"SELECT DISTINCT session_id FROM {table}")
        }
        for table in superuser.tables(database)
    }


def test_a_month_is_dropped_with_all_that_was_made_of_it(two_months: URL, tmp_path: Path) -> None:
    assert verified(two_months, tmp_path).code == 0
    before = superuser.dumped(two_months)
    gone, stays = sorted(sessions_in(two_months)["sessions"])
    told = {name: [row for row in rows if str(row[0]) == stays] for name, rows in before.items()}
    assert {name for name in told if told[name]} == {*FILLED, "sessions", "exchanges", "events"}
    superuser.asked(two_months, of_this_month(DROPPING))
    after = superuser.dumped(two_months)
    [tombstone] = after.pop("tombstones")
    assert after == {name: rows for name, rows in told.items() if name != "tombstones"}
    assert (str(tombstone[0]), tombstone[2]) == (gone, "older than we keep")
    counts = msgspec.json.decode(tombstone[3], type=Counts)
    assert (counts.exchanges, counts.events) == (10, 1000)
    assert verified(two_months, tmp_path).code == 0
    with Store(two_months) as store, pytest.raises(StoreConflictError, match="was purged"):
        with store.transaction():
            store.append([Event(*next(row for row in before["events"] if str(row[0]) == gone))])


def test_the_drops_alone_leave_projections_that_belong_to_nothing(
    two_months: URL, tmp_path: Path
) -> None:
    gone, stays = sorted(sessions_in(two_months)["sessions"])
    drops = re.findall(r"^(?:DROP|ALTER) .*;", of_this_month(DROPPING), re.MULTILINE)
    superuser.asked(two_months, " ".join(drops))
    left = {table for table, ids in sessions_in(two_months).items() if gone in ids}
    assert left == FILLED
    assert all(
        stays in sessions_in(two_months)[table]
        for table in ("sessions", "exchanges", "events", *left)
    )
    found = verified(two_months, tmp_path)
    assert (found.code, gone in found.out.decode() + found.err) == (4, True)


def test_sessions_that_were_used_after_their_month_are_named(two_months: URL) -> None:
    assert superuser.asked(two_months, of_this_month(USED_LATER)) == []
    [(session_id, name)] = superuser.asked(
        two_months, f"SELECT session_id::text, name FROM sessions_{THIS:%Y_%m}"
    )
    later_ns = int(NEXT.timestamp()) * 10**9 + HOUR_NS
    with Store(two_months) as store, store.transaction():
        store.add_exchange(
            make_exchange(make_session(session_id=session_id), 1, started_ns=later_ns)
        )
    [(found, used)] = superuser.asked(two_months, of_this_month(USED_LATER))
    assert (found, used.timestamp()) == (name, later_ns // 10**9)


def test_the_page_takes_the_lock_of_a_purge() -> None:
    assert str(postgres_writer.WRITING) in DROPPING
