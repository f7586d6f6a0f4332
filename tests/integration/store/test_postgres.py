"""What only a log on PostgreSQL has: its schema, its roles, connections that break, questions from
outside.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import psycopg
import pytest
from sqlalchemy import URL, Engine

from recorder.commands.serving.health_snapshot import process
from recorder.errors import NotFoundError, RecorderError, StoreBusyError, StoreError
from recorder.model.events import Kind
from recorder.store.engine import schema_named, schema_of
from recorder.store.location import database_name, database_url, journal_root
from recorder.store.maintain import migrate
from recorder.store.maintain.declared import schema_differences
from recorder.store.postgres.connection import writer_engine
from recorder.store.postgres.ddl import SCHEMA
from recorder.store.postgres.query import PostgresQuery
from recorder.store.postgres.rights import GRANTS
from recorder.store.postgres.writer import FEW, WRITING, sweep
from recorder.store.queries.reader import LogReader
from recorder.store.sql import Statement
from recorder.store.write.projector import Whole
from recorder.store.write.retry import Retry
from recorder.store.write.writer import Store
from tests.integration.ingest.test_ingester import never
from tests.support.facts import captured
from tests.support.postgres import Server, conninfo
from tests.support.rows import (
    add,
    begin,
    make_end,
    make_events,
    make_exchange,
    make_id,
    make_session,
)
from tests.support.server import halt, run
from tests.support.superuser import login
from tests.unit.projections.test_fold import BODY

WORDS = b"data: {}\n\n"


@pytest.fixture
def store(postgres_database: URL) -> Iterator[Store]:
    with Store(postgres_database, busy_timeout_s=0.5) as store:
        yield store


def asked(url: URL, sql: str, *settings: str) -> list[tuple[Any, ...]]:
    """What a connection of any program gets, committed."""
    with psycopg.connect(conninfo(url), options=f"-c search_path={SCHEMA}") as connection:
        for setting in settings:
            connection.execute(setting.encode())
        cursor = connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []


_CATALOG = f"""
SELECT 'column', table_name || '.' || column_name, data_type || ' ' || is_nullable FROM information_schema.columns
    WHERE table_schema = '{SCHEMA}'
UNION ALL SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = '{SCHEMA}'
UNION ALL SELECT 'view', viewname, definition FROM pg_views WHERE schemaname = '{SCHEMA}'
UNION ALL SELECT 'constraint', conrelid::regclass || '.' || conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = '{SCHEMA}'::regnamespace
UNION ALL SELECT 'function', proname, pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = '{SCHEMA}'::regnamespace
UNION ALL SELECT 'statistics', stxname, pg_get_statisticsobjdef(oid) FROM pg_statistic_ext
    WHERE stxnamespace = '{SCHEMA}'::regnamespace
UNION ALL SELECT 'partition', inhrelid::regclass::text, inhparent::regclass::text FROM pg_inherits
"""


def declared(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {SCHEMA}")
        for statement in schema_named("postgresql").schema_statements():
            connection.exec_driver_sql(statement)


def test_the_migrated_schema_is_the_declared_one(
    postgres_server: Server, postgres_database: URL
) -> None:
    other = database_url(postgres_server.create())
    declared(writer_engine(other, 1))
    migrated = set(asked(postgres_database, _CATALOG))
    made_later = {row for row in migrated if "_20" in row[1] or "recorder_version" in row[1]}
    assert migrated - made_later == set(asked(other, _CATALOG))
    kinds = {"column", "index", "view", "constraint", "function", "statistics", "partition"}
    assert {row[0] for row in migrated} == kinds
    postgres_server.drop(other)


def test_a_schema_of_another_program_is_refused_and_untouched(postgres_server: Server) -> None:
    url = database_url(postgres_server.create())
    asked(url, f"CREATE SCHEMA {SCHEMA}")
    asked(url, "CREATE TABLE theirs (a int)")
    with pytest.raises(StoreError, match="belongs to another program"):
        Store(url)
    assert asked(url, f"SELECT tablename FROM pg_tables WHERE schemaname = '{SCHEMA}'") == [
        ("theirs",)
    ]
    postgres_server.drop(url)


@pytest.fixture(scope="module")
def ascii_database(postgres_server: Server) -> Iterator[URL]:
    """What `createdb` makes on a server that was made by `LANG=C initdb`."""
    url = postgres_server.create("template0", " ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'")
    yield database_url(url)
    postgres_server.drop(url)


def test_a_database_that_does_not_keep_every_text_is_refused(ascii_database: URL) -> None:
    sentence = (
        f"The database {ascii_database.database} has the encoding SQL_ASCII, which does not keep every text: "
        "create one with ENCODING 'UTF8' TEMPLATE template0."
    )
    commands = ("db upgrade", "db upgrade --roles", "sessions", "verify", "tail", "serve --port 0")
    for command in (*(each.split() for each in commands), ["query", "SELECT 1"]):
        ran = run(ascii_database, *command)
        assert (command, ran.code, ran.err) == (command, 1, f"Error: {sentence}\n")
    ran = run(ascii_database, "doctor")
    assert (ran.code, sentence in ran.out.decode()) == (4, True)


def test_a_newer_schema_is_refused(postgres_database: URL) -> None:
    asked(postgres_database, "UPDATE recorder_version SET version_num = '9999'")
    with pytest.raises(StoreError, match="made by a newer recorder"):
        Store(postgres_database)


def test_a_session_is_in_the_partition_of_its_month_or_in_the_default_one(store: Store) -> None:
    begin(store)
    long_ago = make_session(2, session_id=make_id(2, 0))
    with store.transaction():
        store.add_session(long_ago)
    found = dict(
        asked(store.url, "SELECT session_id::text, tableoid::regclass::text FROM sessions")
    )
    assert found[long_ago.session_id] == "sessions_other"
    assert (
        len(
            asked(
                store.url, "SELECT inhrelid FROM pg_inherits WHERE inhparent = 'events'::regclass"
            )
        )
        == 5
    )


def test_who_finds_the_newest_schema_waits_for_nobody(postgres_database: URL) -> None:
    """All recorders start again at once when their server is back."""
    with schema_of(postgres_database).migration(postgres_database):
        Store(postgres_database, busy_timeout_s=0.05).close()


def test_views_are_made_again_under_a_view_of_somebody_else(postgres_database: URL) -> None:
    for statement in GRANTS:
        asked(postgres_database, statement)
    asked(
        postgres_database,
        "CREATE VIEW theirs AS SELECT model, sum(input_tokens) FROM usage GROUP BY model",
    )
    with schema_of(postgres_database).migration(postgres_database) as connection:
        migrate.recreate(connection)
    assert asked(postgres_database, "SELECT * FROM theirs") == []
    assert asked(
        postgres_database, "SELECT has_table_privilege('recorder_reader', 'usage', 'SELECT')"
    ) == [(True,)]


# -- what is long


def test_a_log_that_was_dumped_and_restored_has_the_declared_schema(
    postgres_server: Server, postgres_database: URL, tmp_path: Path
) -> None:
    """A dump has other names in views: those that the server writes."""
    dumped, restored = tmp_path / "log.dump", postgres_server.create()
    options = ["--schema", SCHEMA, "--format", "custom", "--file", str(dumped)]
    subprocess.run(["pg_dump", *options, conninfo(postgres_database)], check=True)
    subprocess.run(
        ["pg_restore", "--exit-on-error", "--dbname", conninfo(restored), str(dumped)], check=True
    )
    assert schema_differences(database_url(restored)) == []
    postgres_server.drop(restored)


def test_of_a_long_exchange_only_a_few_rows_are_in_memory(store: Store) -> None:
    exchange, size_bytes = begin(store), 64 * 2**20
    rows = f"""INSERT INTO events (session_id, exchange_id, pos, kind, t_ns, raw, hash)
        SELECT '{exchange.session_id}', '{exchange.exchange_id}', n, 'frame', n, decode(repeat('00', 4096), 'hex'), ''
        FROM generate_series(0, {size_bytes // 4096 - 1}) AS n"""
    asked(store.url, rows)
    of_exchange = "session_id = :session_id AND exchange_id = :exchange_id"
    long = Statement(f"SELECT * FROM events WHERE {of_exchange} ORDER BY pos", is_long=True)
    grown, read, before = 0, 0, resident_bytes()
    with store.transaction():
        ids = {"session_id": exchange.session_id, "exchange_id": exchange.exchange_id}
        for row in store.ask(long, ids):
            read += len(row[9])
            if row[2] % 1000 == 0:
                grown = max(grown, resident_bytes() - before)
                # in between, others may be asked for
                assert list(store.ask(Statement("SELECT 1"), {})) == [(1,)]
    assert read == size_bytes
    assert grown < size_bytes / 4


def resident_bytes() -> int:
    found = process(os.getpid())
    if found is None:
        pytest.skip("how much memory is used is not told here")
    return found.resident_bytes


# -- rights

REFUSED = [
    *(
        "UPDATE events SET kind = 'x'",
        "DELETE FROM events",
        "TRUNCATE events",
        "TRUNCATE events_other",
    ),
    *(
        "DELETE FROM sessions",
        "UPDATE exchanges SET target = ''",
        "TRUNCATE sessions CASCADE",
        "DROP TABLE events",
    ),
    "INSERT INTO sessions SELECT * FROM sessions ON CONFLICT (session_id) DO UPDATE SET name = 'x'",
    *(
        "ALTER TABLE events DISABLE TRIGGER ALL",
        "COPY events TO PROGRAM 'cat'",
        "COPY events TO '/tmp/events'",
    ),
    *(
        "CREATE TABLE mine (a int)",
        "DROP VIEW messages",
        "DELETE FROM tombstones",
        "DELETE FROM events_other",
    ),
]


@pytest.mark.parametrize("role", ["recorder_writer", "recorder_reader"])
def test_no_role_changes_the_log(granted: URL, role: str) -> None:
    allowed = []
    with psycopg.connect(
        conninfo(granted), options=f"-c search_path={SCHEMA}", autocommit=True
    ) as connection:
        connection.execute(f"SET ROLE {role}".encode())
        for sql in REFUSED:
            try:
                connection.execute(sql.encode())
                allowed.append(sql)
            except psycopg.errors.InsufficientPrivilege:
                pass
    assert allowed == []


@pytest.fixture(scope="module")
def granted(postgres_server: Server, postgres_template: str) -> Iterator[URL]:
    """A log with one exchange in it, and the roles."""
    url = database_url(postgres_server.create(postgres_template))
    with Store(url) as store:
        add(store, make_events(begin(store), [WORDS]))
        store.grant(GRANTS)
    yield url
    postgres_server.drop(url)


def test_a_reader_reads_and_adds_nothing(granted: URL) -> None:
    assert asked(granted, "SELECT count(*) FROM events", "SET ROLE recorder_reader") == [(1,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        asked(granted, "INSERT INTO sessions SELECT * FROM sessions", "SET ROLE recorder_reader")


def test_a_login_with_the_role_of_a_writer_records(granted: URL) -> None:
    with Store(login(granted, "recording", "recorder_writer")) as store:
        exchange = begin(store, 2)
        frames: list[Kind] = ["frame"] * 20
        kinds: list[Kind] = ["request", *frames, "end"]
        add(store, make_events(exchange, [b"{}", *[WORDS] * 20, make_end("completed")], kinds))
        with store.transaction():
            store.projector.project(exchange.session_id, exchange.exchange_id)
            assert store.projector.dead_letters() == []


def test_a_login_with_the_role_of_a_writer_archives_nothing(granted: URL, tmp_path: Path) -> None:
    with Store(granted) as store:
        exchange = begin(store, 3)
        add(store, make_events(exchange, [b"{}", make_end("completed")], ["request", "end"]))
    archive = ("--older-than", "0s", "--to", f"ducklake:{tmp_path / 'lake.db'}")
    ran = run(login(granted, "recording", "recorder_writer"), "db", "archive", *archive)
    assert ran.code == 1
    assert "may not archive: give the URL of the owner of its schema." in ran.err
    assert not list(tmp_path.iterdir())


# -- connections that break


def end_connections(url: URL) -> None:
    asked(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
               "AND pid <> pg_backend_pid()")  # fmt: skip


def test_a_commit_that_nobody_heard_of_may_be_repeated(store: Store) -> None:
    events = make_events(begin(store), [WORDS] * 30)
    for upto in range(1, 31):
        add(store, events[:upto])
        end_connections(store.url)
        with pytest.raises(StoreBusyError, match="cannot be reached"):
            add(store, events[:upto])
        add(store, events[:upto])
    assert asked(store.url, "SELECT count(*), max(pos) FROM events") == [(30, 29)]


@contextmanager
def halted(pid: int) -> Iterator[None]:
    halt(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def backend(store: Store) -> int:
    with store.looking():
        [[pid]] = store.ask(Statement("SELECT pg_backend_pid()"), {})
    return int(pid)


@pytest.mark.parametrize("count", [40, FEW + 40])
@pytest.mark.parametrize("before", ["all", "events", "commit"])
def test_what_a_server_did_not_answer_is_there_once_when_it_goes_on(
    postgres_database: URL, count: int, before: str
) -> None:
    """It stops before the transaction, before the events, or before the commit, which it does
    later.
    """
    with Store(postgres_database, answer_timeout_s=2) as store, ExitStack() as stack:
        events, pid = make_events(begin(store), [WORDS] * count), backend(store)

        def write(stops: str = "") -> None:
            store.append(events)
            store.run_all([])  # the server has them now
            if stops == "commit":
                stack.enter_context(halted(pid))
            store.set_offset("recorder-1", 1, 100)

        def unanswered() -> None:
            if before == "all":
                stack.enter_context(halted(pid))
            with store.transaction():
                store.run(Statement("SELECT 1"), {})
                store.run_all([])
                if before == "events":
                    stack.enter_context(halted(pid))
                write(before)

        with pytest.raises(StoreBusyError, match="no answer for 2 s"):
            unanswered()
        stack.close()
        Retry(store, never)(write)
    assert asked(postgres_database, "SELECT count(*), max(pos) FROM events") == [(count, count - 1)]


def test_a_limit_doubles_until_something_is_committed(postgres_database: URL) -> None:
    """What honestly takes longer is done at last."""
    with Store(postgres_database, answer_timeout_s=1) as store:
        attempts = 0

        def slow() -> None:
            nonlocal attempts
            attempts += 1
            list(store.ask(Statement("SELECT pg_sleep(1.5)"), {}))
            store.set_offset("recorder-1", 1, attempts)

        for _ in range(2):
            attempts = 0
            Retry(store, never)(slow)
            assert attempts > 1


@pytest.mark.slow
def test_a_schema_that_cannot_be_read_now_keeps_no_start_waiting(postgres_database: URL) -> None:
    with psycopg.connect(conninfo(postgres_database)) as upgrading:
        upgrading.execute(b"LOCK TABLE recorder.sessions IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreBusyError, match="no answer for 10 s"):
            schema_differences(postgres_database)
    assert schema_differences(postgres_database) == []


def test_a_transaction_whose_connection_ends_leaves_nothing(store: Store) -> None:
    events = make_events(begin(store), [WORDS] * 30)

    def broken() -> None:
        with store.transaction():
            store.append(events[:20])
            end_connections(store.url)
            store.append(events[20:])

    with pytest.raises(StoreBusyError):
        broken()
    assert asked(store.url, "SELECT count(*) FROM events") == [(0,)]
    add(store, events)


@pytest.mark.parametrize("count", [40, FEW + 40])
def test_two_who_write_the_same_at_once_write_it_once(store: Store, count: int) -> None:
    events = make_events(begin(store), [WORDS] * count)
    with Store(store.url, busy_timeout_s=0.5) as other, other.transaction():
        other.append(events)
        other.run_all([])  # the server has them now
        with pytest.raises(StoreBusyError):
            add(store, events)  # waits for the other, and not for long
    add(store, events)
    assert asked(store.url, "SELECT count(*) FROM events") == [(count,)]


def test_who_sends_what_somebody_else_just_wrote_looks_again(store: Store) -> None:
    events = make_events(begin(store), [WORDS] * 40)

    def write(between: Callable[[], None]) -> None:
        with store.transaction():
            store.append(events)
            between()
            store.set_offset("recorder-1", 1, 100)

    with Store(store.url) as other, pytest.raises(StoreBusyError, match="wrote the same"):
        write(lambda: add(other, events))
    assert asked(store.url, "SELECT count(*) FROM ingest_offsets") == [(0,)]
    write(lambda: None)
    assert asked(store.url, "SELECT count(*) FROM events") == [(40,)]


# -- questions

NOT_READING = [
    *(
        "DELETE FROM events",
        "UPDATE sessions SET name = ''",
        "TRUNCATE events",
        "DROP SCHEMA recorder CASCADE",
        "VACUUM",
    ),
    *(
        "COMMIT; DROP SCHEMA recorder CASCADE",
        "SELECT 1; DELETE FROM events",
        "SELECT 1; COMMIT; DELETE FROM events",
    ),
    *(
        "WITH gone AS (DELETE FROM events RETURNING 1) SELECT * FROM gone",
        "SELECT * INTO mine FROM events",
    ),
    *(
        "EXPLAIN ANALYZE DELETE FROM events",
        "SELECT nextval('x')",
        "COPY events TO '/tmp/x'",
        "SET ROLE postgres",
    ),
    *(
        "SELECT * FROM events FOR UPDATE",
        "SELECT pg_read_file('/etc/passwd')",
        "DO $$ BEGIN END $$",
        "RESET ROLE",
    ),
    *(
        "SELECT set_config('role', 'none', false), pg_read_file('/etc/passwd')",
        "CALL x()",
        "LISTEN x",
        "VACUUM",
    ),
]


def test_a_question_changes_nothing_and_reads_no_file(granted: URL) -> None:
    before = asked(granted, "SELECT count(*), max(pos) FROM events")
    with PostgresQuery.open(granted) as query:
        for sql in NOT_READING:
            with pytest.raises(RecorderError) as raised:
                list(query.ask(sql).rows)
            assert "Traceback" not in str(raised.value), sql
            assert asked(granted, "SELECT count(*), max(pos) FROM events") == before, sql


def test_what_a_question_makes_is_undone(granted: URL) -> None:
    """PostgreSQL 15 makes a large object in a transaction that only reads; newer ones refuse it."""
    with PostgresQuery.open(granted) as query, suppress(RecorderError):
        assert len(list(query.ask("SELECT lo_create(0)").rows)) == 1
    assert asked(granted, "SELECT count(*) FROM pg_largeobject_metadata") == [(0,)]


def test_a_question_has_names_numbers_and_values(granted: URL) -> None:
    count = len(asked(granted, "SELECT 1 FROM sessions"))
    with PostgresQuery.open(granted) as query:
        columns, rows = query.ask(
            "SELECT :n::bigint + 1 AS a, sum(1.5) AS a, '%:x' AS b FROM sessions", {"n": 41}
        )
        assert (columns, list(rows)) == (["a", "a_2", "b"], [(42, 1.5 * count, "%:x")])
        assert query.ask("SELECT name FROM sessions WHERE false").columns == ["name"]


def test_what_never_ends_is_stopped_at_the_server(granted: URL) -> None:
    with PostgresQuery.open(granted) as query:
        for sql in (
            "SELECT pg_sleep(60)",
            "WITH RECURSIVE x AS (SELECT 1 UNION ALL SELECT 1 FROM x) SELECT count(*) FROM x",
        ):
            with pytest.raises(RecorderError, match=r"no row for 0\.2 s: --timeout"):
                query.ask(sql, timeout_s=0.2)
    running = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'recorder query' AND state = 'active'"
    assert asked(granted, running) == [(0,)]


# -- as a user sees it


async def test_where_nothing_was_recorded_is_said(postgres_server: Server) -> None:
    url = database_url(postgres_server.create())
    with pytest.raises(NotFoundError, match="nothing has been recorded there"):
        await LogReader.open(url)
    with (
        pytest.raises(NotFoundError, match="nothing has been recorded there"),
        PostgresQuery.open(url),
    ):
        pass
    await asyncio.to_thread(postgres_server.drop, url)


def test_no_password_is_in_a_name() -> None:
    url = database_url("postgresql://me:s3cret@db.example:5433/log?sslmode=require")
    assert database_name(url) == "postgresql://db.example:5433/log"
    assert journal_root(url).name == "db.example-5433-log"


# -- the first use


def test_postgres_is_the_same_engine(postgres_database: URL) -> None:
    text = postgres_database.render_as_string(hide_password=False)
    assert database_url("postgres" + text.removeprefix("postgresql+psycopg")) == postgres_database


def test_a_database_that_is_not_there_is_to_be_created(postgres_database: URL) -> None:
    ran = run(postgres_database.set(database="nowhere"), "db", "upgrade")
    assert (ran.code, "create it with createdb" in ran.err) == (1, True)


def test_a_server_without_tls_is_not_to_be_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(8)  # asks for TLS
                connection.sendall(b"N")
                connection.recv(1)

        refusing = Thread(target=refuse, daemon=True)
        refusing.start()
        port = server.getsockname()[1]
        ran = run(
            database_url(f"postgresql://postgres@127.0.0.1:{port}/log?sslmode=require"),
            "db",
            "upgrade",
        )
        refusing.join(10)
    assert (ran.code, "does not let recorder in" in ran.err, "try again" in ran.err) == (
        1,
        True,
        False,
    )


def test_a_user_who_may_not_make_roles_reads_who_may(granted: URL) -> None:
    owning = login(granted, "owning", "recorder_writer")
    with Store(owning) as store, pytest.raises(StoreError, match="CREATEROLE"):
        store.grant(["CREATE ROLE another"])


def test_who_may_only_read_can_neither_serve_nor_import_nor_recover(
    granted: URL, tmp_path: Path
) -> None:
    watching = login(granted, "watching", "recorder_reader")
    body = tmp_path / "body.sse"
    body.write_bytes(b'data: {"type": "response.created"}\n\n')
    for words in (["serve", "--port", "0"], ["import", str(body)], ["db", "recover"]):
        ran = run(watching, *words)
        assert (ran.code, "may only read it" in ran.err) == (1, True), words


# -- what the server remembers


def test_the_state_of_exchanges_is_planned_anew_each_time(store: Store) -> None:
    """A plan that is cached while next month's partition is empty scans it for each exchange when
    it is not.
    """
    exchange = begin(store)
    events = make_events(exchange, [WORDS] * 20)
    for upto in range(1, 21):
        add(store, events[:upto])
    with store.transaction():
        prepared = [
            sql
            for (sql,) in store.ask(Statement("SELECT statement FROM pg_prepared_statements"), {})
        ]
    assert prepared
    assert not [sql for sql in prepared if "tombstones AS t" in sql]


def test_a_purge_need_not_wait_for_who_only_looks(store: Store) -> None:
    alone = f"SELECT pg_try_advisory_xact_lock({WRITING})".encode()
    with psycopg.connect(conninfo(store.url), autocommit=True) as other:
        with store.looking():
            assert store.sessions_of(make_exchange(make_session()).exchange_id) == [None]
            assert other.execute(alone).fetchall() == [(True,)]
        with store.transaction():
            assert store.sessions_of(make_exchange(make_session()).exchange_id) == [None]
            assert other.execute(alone).fetchall() == [(False,)]


def test_a_long_answer_has_the_same_name_each_time(store: Store) -> None:
    add(store, make_events(begin(store), [WORDS] * 3))
    every = Statement("SELECT pos FROM events ORDER BY pos", is_long=True)
    names = Statement("SELECT name FROM pg_cursors")
    with store.transaction():
        for _ in range(3):
            answer = store.ask(every, {})
            next(answer)
            other = store.ask(every, {})
            next(other)
            assert [name for (name,) in store.ask(names, {}) if name.startswith("ask")] == [
                "ask_1",
                "ask_2",
            ]
            answer.close()
            other.close()


def test_a_commit_with_exchanges_that_end_asks_the_server_a_few_times(
    store: Store, tmp_path: Path
) -> None:
    """However many they are: each waits for the server as long as the way there and back takes."""
    session = make_session(1)
    exchanges = [make_exchange(session, number) for number in range(1, 9)]
    told = [captured(BODY, exchange=each)[1] for each in exchanges]
    with store.transaction():
        pass  # the first one makes partitions
    with (tmp_path / "trace").open("w+") as trace:
        driver: Any = store._connection.connection.driver_connection
        driver.pgconn.trace(trace.fileno())
        with store.transaction():
            store.add_sessions([session])
            store.add_exchanges(exchanges)
            is_new = store.append([event for events in told for event in events])
            keys = [(each.session_id, each.exchange_id) for each in exchanges]
            whole = {
                key: Whole(*each)
                for key, each in zip(keys, zip(exchanges, told, strict=True), strict=True)
            }
            store.projector.project_all(keys, whole, is_new=is_new)
            store.set_offset("recorder-1", 1, 100)
        driver.pgconn.untrace()
        trace.seek(0)
        answers = [line for line in trace if "ReadyForQuery" in line or "CopyInResponse" in line]
    assert len(answers) <= 6  # two of them because the session is new


def test_events_that_the_server_refuses_are_no_fault_of_a_fold(store: Store) -> None:
    """They are sent with the first question of the projector."""
    exchange = begin(store)
    events = [
        msgspec.structs.replace(each, type="\0") for each in captured(BODY, exchange=exchange)[1]
    ]
    key = exchange.session_id, exchange.exchange_id

    def write() -> None:
        with store.transaction():
            store.append(events)
            store.projector.project_all([key], {key: Whole(exchange, events)})

    with pytest.raises(ValueError, match="0x00"):
        write()
    assert asked(
        store.url, "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM dead_letters)"
    ) == [(0, 0)]


# -- partitions by day

_PARTITIONS = (
    "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'events'::regclass"
)


def partitions_of(url: URL, unit: str) -> set[str]:
    """The times of which there are partitions, after an upgrade that wants them by month or day."""
    assert run(url, "db", "upgrade", "--partitions", unit).code == 0
    return {name.removeprefix("events_") for (name,) in asked(url, _PARTITIONS)} - {"other"}


def at(url: URL, ahead: str, format: str) -> str:
    [(found,)] = asked(
        url, f"SELECT to_char(now() AT TIME ZONE 'UTC' + interval '{ahead}', '{format}')"
    )
    return str(found)


def begin_today(store: Store) -> None:
    session = make_session(1, session_id=make_id(1, time.time_ns()))
    with store.transaction():
        store.add_session(session)


def days(url: URL, count: int) -> set[str]:
    return {at(url, f"{number} days", "YYYY_MM_DD") for number in range(count)}


def test_a_log_gets_partitions_by_day_a_week_ahead(postgres_database: URL) -> None:
    url = postgres_database
    assert partitions_of(url, "day") == days(url, 8) == partitions_of(url, "day")
    with Store(url) as store:
        begin_today(store)
    [(found,)] = asked(url, "SELECT tableoid::regclass::text FROM sessions")
    assert found == f"sessions_{at(url, '0', 'YYYY_MM_DD')}"


def test_a_writer_makes_the_days_that_come(postgres_database: URL) -> None:
    url = postgres_database
    with Store(url) as store:
        store.grant(GRANTS)
    recording = login(url, "recording", "recorder_writer")
    partitions_of(url, "day")
    asked(url, f"DROP TABLE events_{max(days(url, 8))}")
    with Store(recording) as store, store.transaction():
        pass
    assert {name for (name,) in asked(url, _PARTITIONS)} == {
        "events_other",
        *(f"events_{day}" for day in days(url, 8)),
    }


def test_a_month_that_has_rows_remains_one_and_days_follow(store: Store) -> None:
    begin_today(store)
    month = at(store.url, "0", "YYYY_MM")
    found = partitions_of(store.url, "day")
    assert found == {month, *(day for day in days(store.url, 8) if not day.startswith(month))}
    assert asked(store.url, "SELECT tableoid::regclass::text FROM sessions") == [
        (f"sessions_{month}",)
    ]


def test_days_become_months_again_without_a_gap(postgres_database: URL) -> None:
    url = postgres_database
    partitions_of(url, "day")
    months = {at(url, f"{number} months", "YYYY_MM") for number in range(1, 4)}
    rest = {day for day in days(url, 32) if day.startswith(at(url, "0", "YYYY_MM"))}
    assert partitions_of(url, "month") == months | rest == partitions_of(url, "month")


def test_a_day_that_is_over_and_has_no_rows_is_dropped_by_a_purge(postgres_database: URL) -> None:
    url = postgres_database
    partitions_of(url, "day")
    session = make_session(2, session_id="019a0000-0000-7000-8000-000000000000")  # 20 October 2025
    for table in ("sessions", "exchanges", "events"):
        bounds = "FROM (first_id('2025-10-{0}')) TO (first_id('2025-10-{1}'))"
        for day in (19, 20):
            bound = bounds.format(day, day + 1)
            asked(
                url, f"CREATE TABLE {table}_2025_10_{day} PARTITION OF {table} FOR VALUES {bound}"
            )
    with Store(url) as store, store.transaction():
        store.add_session(session)
    assert asked(url, "SELECT tableoid::regclass::text FROM sessions") == [("sessions_2025_10_20",)]
    assert sweep(url, busy_timeout_s=1)
    assert {name for (name,) in asked(url, _PARTITIONS)} == {
        f"events_{day}" for day in days(url, 8)
    } | {*("events_2025_10_20", "events_other")}


def test_a_file_has_no_partitions(tmp_path: Path) -> None:
    ran = run(tmp_path / "new.db", "db", "upgrade", "--partitions", "day")
    assert (ran.code, "Partitions are for PostgreSQL" in ran.err) == (2, True)
    assert not (tmp_path / "new.db").exists()
