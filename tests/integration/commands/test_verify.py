"""A database that was changed behind the recorder's back is found out."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import psycopg
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import URL

from recorder.commands.ops.journals import state
from recorder.commands.ops.last_verify import last_verify, verified_path
from recorder.commands.ops.writers import writer_of
from recorder.commands.verify import command
from recorder.errors import RecorderError
from recorder.ingest.ingester import Ingester
from recorder.journal.format import Gap, Mark
from recorder.journal.locks import claimed
from recorder.journal.writer import Journal
from recorder.store.location import database_path, database_url
from recorder.store.maintain.purge.delete import purge
from recorder.store.maintain.verify.chain import ChainVerifier
from recorder.store.maintain.verify.log import LogVerifier, SessionReport, Writer
from recorder.store.postgres.rights import GRANTS
from recorder.store.schema import LOG, dead_letters, tables_of
from recorder.store.sqlite.schema import INDEX
from recorder.store.write.writer import Store
from tests.integration.ingest.test_ingester import COMPLETED, Exchange, never
from tests.support import superuser
from tests.support.logbook import assert_chained, entries
from tests.support.postgres import Server

REQUEST = b'{"model":"gpt-5","input":[{"role":"user","content":"Roll the dice"}]}'
FRAMES = [
    b'data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","model":"gpt-5"}}\n\n',
    b'data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,'
    b'"item":{"type":"message","id":"msg_1"}}\n\n',
    b'data: {"type":"response.output_text.delta","sequence_number":2,"item_id":"msg_1","output_index":0,'
    b'"delta":"W\xc3\xb6rld"}\n\n',
    b": ping\n\n",
    COMPLETED,
]


class Stored(NamedTuple):
    """A database that the ingester filled, of which changes are made to copies."""

    url: URL
    ended: str
    open: str


def filled(url: URL, directory: Path) -> tuple[Stored, Journal]:
    """One session with an exchange that has ended and one that is still recorded."""
    journal = Journal(directory, "recorder-1")
    head: dict[str, Any] = {"session": "run", "session_source": "header"}
    with Store(url) as store:
        ended, live = (Exchange(journal, REQUEST, **head) for _ in range(2))
        for frame in FRAMES:
            ended.chunk(frame)
            live.chunk(frame)
        ended.end()
        Ingester(store, journal.directory, never).drain()
    return Stored(url, ended.id, live.id), journal


@pytest.fixture(scope="module")
def in_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    """In a file: of which there are quick copies, for tests that make hundreds."""
    directory = tmp_path_factory.mktemp("verify")
    stored, journal = filled(database_url(directory / "recorder.db"), directory / "journals")
    yield stored
    journal.close()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def stored(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stored]:
    """The same on each engine."""
    if request.param == "sqlite":
        yield request.getfixturevalue("in_file")
        return
    server: Server = request.getfixturevalue("postgres_server")
    url = database_url(server.create(request.getfixturevalue("postgres_template")))
    stored, journal = filled(url, tmp_path_factory.mktemp("journals"))
    for table in superuser.tables(url):
        superuser.asked(url, f"CREATE TABLE public.{table} AS SELECT * FROM {table}")
    yield stored
    journal.close()
    server.drop(url)


class Changed:
    """A copy without a single guard, and a connection to it; `verify` reads what was committed."""

    def __init__(self, url: URL, connection: Any) -> None:
        self.url, self.connection = url, connection
        # what tells rows apart
        self.row = {"sqlite": "rowid", "postgresql": "ctid"}[superuser.engine(url)]

    def execute(self, sql: str, values: Sequence[object] = ()) -> Any:
        return self.connection.execute(
            sql if self.row == "rowid" else sql.replace("?", "%s"), values
        )


@contextmanager
def changed(stored: Stored) -> Iterator[Changed]:
    if superuser.engine(stored.url) == "postgresql":
        with superuser.connected(stored.url) as connection:
            connection.execute("SET session_replication_role = replica")  # no foreign keys
            connection.commit()
            try:
                yield Changed(stored.url, connection)
            finally:
                connection.rollback()
                for table in superuser.tables(stored.url):
                    connection.execute(
                        f"DELETE FROM {table}; INSERT INTO {table} SELECT * FROM public.{table}"
                    )
        return
    path = database_path(stored.url).with_name("changed.db")
    shutil.copy(database_path(stored.url), path)
    for side in ("-wal", "-shm"):
        Path(f"{path}{side}").unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("PRAGMA synchronous = OFF")
        superuser.unguard(connection)
        superuser.with_rowids(connection)
        superuser.writable(connection)
        yield Changed(database_url(path), connection)


def verified(what: Changed | Stored | Path, writer: Writer = "alive") -> list[SessionReport]:
    """All sessions of a database; what is changed in a connection is committed."""
    if isinstance(what, Changed):
        what.connection.commit()
    with LogVerifier.open(
        database_url(what) if isinstance(what, Path) else what.url, lambda _: writer
    ) as checkup:
        assert checkup.damage() == []
        return [
            checkup.verify(session_id, lambda count: None) for session_id in checkup.session_ids()
        ]


def findings(what: Changed | Stored | Path, writer: Writer = "alive") -> list[str]:
    return [place.check for each in verified(what, writer) for place in each.findings]


def test_what_the_ingester_wrote_is_in_order(stored: Stored) -> None:
    [session] = verified(stored)
    assert (session.findings, session.exchanges, session.open) == ([], 2, [stored.open])
    with changed(stored) as connection:
        assert findings(connection) == []


# -- B12: what was changed in an exchange that has ended

_EVENTS = [column.name for column in LOG[2].c]
_PROJECTED = [
    (table.name, column.name)
    for table in (*tables_of.values(), dead_letters)
    for column in table.c
    if table.name not in ("p_results_v1", "dead_letters")
]
CELLS = [
    *(("events", name) for name in _EVENTS),
    *(("exchanges", column.name) for column in LOG[1].c),
    ("sessions", "session_id"),
    *_PROJECTED,
]


def flipped(value: Any, bit: int) -> Any:
    """A value with another bit; `NULL` has none, and becomes something."""
    if value is None:
        return 0
    if isinstance(value, int):
        other = value ^ (1 << bit % 64)
        return other - 2**64 if other >= 2**63 else other
    if isinstance(value, float):
        return value * 2 + 1
    data = bytearray(value.encode() if isinstance(value, str) else value) or bytearray(1)
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    return bytes(data)


def flip(changed: Changed, table: str, column: str, row: object, bit: int) -> bool:
    """Returns whether that could be: of two rows at one place, no table takes the second."""
    [(value,)] = changed.execute(
        f"SELECT {column} FROM {table} WHERE {changed.row} = ?", (row,)
    ).fetchall()
    if changed.row == "ctid":
        [(kind,)] = changed.execute(
            "SELECT data_type FROM information_schema.columns WHERE table_schema = 'recorder' AND table_name = ? "
            "AND column_name = ?", (table, column)
        ).fetchall()  # fmt: skip
        value = str(UUID(int=0)) if kind == "uuid" and value is None else value
        other = (
            value[:-1] + f"{15 - int(value[-1], 16):x}" if kind == "uuid" else flipped(value, bit)
        )
        other = (
            other.decode("latin-1").replace("\0", " ")
            if kind == "text" and isinstance(other, bytes)
            else other
        )
        sql = f"UPDATE {table} SET {column} = CAST(? AS {kind}) WHERE {changed.row} = ?"
        try:
            changed.execute(sql, (other if isinstance(other, bytes) else str(other), row))
        except psycopg.errors.UniqueViolation:
            changed.connection.rollback()
            return False
        return True
    [(kind,)] = changed.execute(
        f"SELECT type FROM pragma_table_info('{table}') WHERE name = '{column}'"
    ).fetchall()
    cast = "CAST(? AS TEXT)" if kind == "TEXT" else "CAST(? AS BLOB)" if kind == "BLOB" else "?"
    changed.execute(
        f"UPDATE OR IGNORE {table} SET {column} = {cast} WHERE rowid = {row}",
        (flipped(value, bit),),
    )
    is_as_before = changed.execute(
        f"SELECT {column} IS ? FROM {table} WHERE rowid = {row}", (value,)
    ).fetchall()
    return bool(is_as_before != [(1,)])


def of_ended(changed: Changed, table: str, exchange_id: str) -> list[Any]:
    """The rows of an exchange; all of a table that has no exchanges."""
    where = "" if table == "sessions" else f" WHERE exchange_id = '{exchange_id}'"
    return [
        row[0]
        for row in changed.execute(
            f"SELECT {changed.row} FROM {table}{where} ORDER BY {changed.row}"
        )
    ]


@pytest.mark.long
@given(cell=st.sampled_from(CELLS), number=st.integers(0, 20), bit=st.integers(0, 4000))
def test_any_flipped_bit_is_found(
    in_file: Stored, cell: tuple[str, str], number: int, bit: int
) -> None:
    with changed(in_file) as connection:
        rows = of_ended(connection, cell[0], in_file.ended)
        if rows and flip(connection, *cell, rows[number % len(rows)], bit):
            assert findings(connection)


def test_without_the_chain_a_flipped_bit_would_not_be_found(
    in_file: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken on purpose: it is the chain that finds it, and not luck."""
    monkeypatch.setattr(ChainVerifier, "_check_link", lambda verifier, event: None)
    with changed(in_file) as connection:
        for column in ("hash", "item_id", "data_start"):
            assert flip(
                connection, "events", column, of_ended(connection, "events", in_file.ended)[0], 5
            )
        assert findings(connection) == []


def test_the_hashes_are_those_that_are_documented(stored: Stored) -> None:
    """So whoever reads the documentation can check the log without this program."""
    found = [entry for entry in entries(stored.url) if entry.exchange.exchange_id == stored.ended]
    assert len(found) == 1
    assert_chained(found)


@pytest.mark.parametrize(
    ("kind", "was", "becomes"),
    [
        ("request", b"OpenAI/Python", b"OpenAI/Pyth0n"),
        ("response", b"event-stream", b"event-strean"),
        ("reads", b"[[", b"[ ["),
        ("end", b'"eof"', b'"eog"'),
    ],
)
def test_the_chain_holds_what_no_sum_does(
    in_file: Stored, kind: str, was: bytes, becomes: bytes
) -> None:
    """A header, a time, a word: the record still makes sense, and adds up."""
    with changed(in_file) as connection:
        events = f"FROM events WHERE exchange_id = '{in_file.ended}' AND kind = '{kind}'"
        (row, raw) = connection.execute(
            f"SELECT {connection.row}, raw {events} ORDER BY pos LIMIT 1"
        ).fetchone()
        assert was in raw
        connection.execute(
            f"UPDATE events SET raw = ? WHERE {connection.row} = ?",
            (raw.replace(was, becomes, 1), row),
        )
        assert "hash" in findings(connection)


@pytest.mark.long
def test_every_column_of_every_event_is_held(in_file: Stored) -> None:
    missed = []
    with changed(in_file) as connection:
        for number, row in enumerate(of_ended(connection, "events", in_file.ended)):
            for column in _EVENTS:
                [(value,)] = connection.execute(
                    f"SELECT {column} FROM events WHERE rowid = ?", (row,)
                ).fetchall()
                if flip(connection, "events", column, row, 5) and not findings(connection):
                    missed.append((number, column))
                connection.execute(f"UPDATE events SET {column} = ? WHERE rowid = ?", (value, row))
        assert findings(connection) == []
    assert missed == []


_FIRST = {table: column for table, column in reversed(_PROJECTED)}
_QUICK = [cell for cell in CELLS if _FIRST.get(cell[0], cell[1]) == cell[1]]


@pytest.mark.long
@pytest.mark.parametrize(
    "cells", [_QUICK, pytest.param(CELLS, marks=pytest.mark.slow)], ids=["quick", "all"]
)
def test_every_column_is_held_on_every_engine(
    stored: Stored, cells: Sequence[tuple[str, str]]
) -> None:
    missed = []
    for cell in cells:
        with changed(stored) as connection:
            rows = of_ended(connection, cell[0], stored.ended)
            if rows and flip(connection, *cell, rows[0], 5) and not findings(connection):
                missed.append(cell)
    assert missed == []


@pytest.mark.long
def test_any_row_that_is_removed_is_found(stored: Stored) -> None:
    missed = []
    for table in ("events", "exchanges", "sessions", *(each.name for each in tables_of.values())):
        with changed(stored) as connection:
            count = len(of_ended(connection, table, stored.ended))
        for number in range(count):
            with changed(stored) as connection:
                row = of_ended(connection, table, stored.ended)[number]
                connection.execute(f"DELETE FROM {table} WHERE {connection.row} = ?", (row,))
                if not findings(connection):
                    missed.append((table, number))
    assert missed == []


def test_events_of_an_exchange_that_was_removed_are_named(in_file: Stored) -> None:
    """No view shows them, and of an exchange that is open nothing was computed."""
    with changed(in_file) as connection:
        connection.execute("DELETE FROM stored_exchanges WHERE exchange_id = ?", (in_file.open,))
        assert findings(connection) == []
        with LogVerifier.open(connection.url, lambda _: "alive") as verifier:
            assert (
                "1 exchange removed: the events are still there, and no view shows them"
                in verifier.whole_damage()
            )


def place_of(changed: Changed, row: object) -> int:
    [(pos,)] = changed.execute("SELECT pos FROM events WHERE rowid = ?", (row,))
    return int(pos)


@pytest.mark.long
@given(one=st.integers(0, 20), other=st.integers(0, 20))
def test_events_that_changed_places_are_found(in_file: Stored, one: int, other: int) -> None:
    with changed(in_file) as connection:
        rows = of_ended(connection, "events", in_file.ended)
        first, second = rows[one % len(rows)], rows[other % len(rows)]
        places = [place_of(connection, row) for row in (first, second)]
        for pos, row in ((1000000, first), (places[0], second), (places[1], first)):
            connection.execute("UPDATE events SET pos = ? WHERE rowid = ?", (pos, row))
        assert bool(findings(connection)) == (first != second)


@pytest.mark.long
@given(
    pos=st.one_of(st.integers(0, 15), st.sampled_from([-1, -(2**63), 2**63 - 1])),
    copied=st.integers(0, 20),
)
def test_an_event_that_was_put_in_is_found(in_file: Stored, pos: int, copied: int) -> None:
    """Between others, which move up, or where no event can be."""
    with changed(in_file) as connection:
        rows = of_ended(connection, "events", in_file.ended)
        names = ", ".join(name for name in _EVENTS if name != "pos")
        behind = [row for row in rows if place_of(connection, row) >= pos >= 0]
        for row in reversed(behind):
            connection.execute("UPDATE events SET pos = pos + 1 WHERE rowid = ?", (row,))
        source = rows[copied % len(rows)]
        connection.execute(
            f"INSERT INTO events (pos, {names}) SELECT ?, {names} FROM events WHERE rowid = {source}",
            (pos,),
        )
        assert findings(connection)


@pytest.mark.long
@given(left=st.integers(0, 20), writer=st.sampled_from(["alive", "left", "gone"]))
def test_a_tail_that_was_cut_off_is_found(in_file: Stored, left: int, writer: Writer) -> None:
    with changed(in_file) as connection:
        rows = of_ended(connection, "events", in_file.ended)
        for row in rows[left % len(rows) :]:
            connection.execute("DELETE FROM events WHERE rowid = ?", (row,))
        assert "end" in findings(connection, writer)


def test_a_tail_is_missed_even_if_nothing_was_computed_from_it(stored: Stored) -> None:
    with changed(stored) as connection:
        connection.execute("DELETE FROM events WHERE kind = 'end'")
        for table in tables_of.values():
            connection.execute(f"DELETE FROM {table.name}")
        assert findings(connection, "alive") == []
        assert findings(connection, "gone") == ["end", "end"]


# -- what else there is


def test_an_open_exchange_is_a_finding_unless_somebody_records_it(in_file: Stored) -> None:
    assert (findings(in_file, "alive"), findings(in_file, "gone")) == ([], ["end"])
    [session] = verified(in_file, "left")
    [finding] = session.findings
    assert (finding.check, finding.exchange_id) == ("end", in_file.open)
    assert "recorder db recover" in finding.message


def test_a_recorder_is_alive_as_long_as_it_holds_its_journal(tmp_path: Path) -> None:
    writer = partial(state, tmp_path / "recorder-3")
    assert writer() == "gone"
    journal = Journal(tmp_path, "recorder-3")
    assert writer() == "alive"  # just made: nobody may be in the way of its lock
    os.utime(journal.directory / "lock", (0, 0))
    assert writer() == "alive"
    journal.close()
    assert writer() == "left"
    with claimed(journal.directory):
        os.utime(journal.directory / "ingester.lock", (0, 0))
        assert writer() == "alive"
    assert writer() == "left"


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "/", "a\0b"])
def test_a_recorder_of_no_possible_name_is_gone(tmp_path: Path, name: str) -> None:
    assert writer_of(tmp_path / "journals")(name) == "gone"


def test_a_purged_session_is_no_finding(stored: Stored) -> None:
    with changed(stored) as connection:
        [(session_id,)] = connection.execute("SELECT session_id FROM sessions")
        for table in (*LOG[:3], *tables_of.values()):
            connection.execute(f"DELETE FROM {table.name}")
        connection.execute(
            "INSERT INTO tombstones VALUES (?, 1, 'asked for', '{}', NULL)", (session_id,)
        )
        [session] = verified(connection)
        assert (session.purged, session.findings) == (True, [])


def test_a_reader_may_prove_it_if_temporary_tables_may_be_made(
    postgres_database: URL, tmp_path: Path
) -> None:
    _, journal = filled(postgres_database, tmp_path / "journals")
    journal.close()
    with Store(postgres_database) as store:
        store.grant(GRANTS)
    url = superuser.login(postgres_database, "proving", "recorder_reader")
    with LogVerifier.open(url, lambda _: "alive") as checkup:
        [session_id] = checkup.session_ids()
        assert checkup.verify(session_id, lambda count: None).findings == []
    superuser.asked(postgres_database, f'REVOKE TEMPORARY ON DATABASE "{url.database}" FROM public')
    with (
        LogVerifier.open(url, lambda _: "alive") as checkup,
        pytest.raises(RecorderError, match="GRANT TEMPORARY"),
    ):
        checkup.verify(session_id, lambda count: None)


def test_of_a_server_the_last_verify_is_kept_in_the_folder_of_the_user(
    postgres_database: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    _, journal = filled(postgres_database, tmp_path / "journals")
    given = postgres_database.render_as_string(hide_password=False)
    # its recorder was heard of just now: what it has open is not a finding
    done = ran("--db", given, "--json")
    [row] = json.loads(done.stdout)
    assert (done.exit_code, row["state"], len(row["open"])) == (0, "open", 1)
    kept = last_verify(postgres_database)
    assert kept is not None
    assert (kept.sessions, kept.findings) == (1, 0)
    assert verified_path(postgres_database).is_relative_to(tmp_path)
    journal.close()


def purged(path: Path) -> str:
    """The id of the only session of a file, which is purged now."""
    [(session_id,)] = superuser.asked(path, "SELECT session_id FROM sessions")
    with Store(path) as store:
        purge(store, session_id, "asked for", 1)
    return str(session_id)


def test_what_recorder_itself_purges_is_no_finding(demo_db: Path) -> None:
    session_id = purged(demo_db)
    done = ran("--db", demo_db)
    assert (done.exit_code, done.stdout) == (0, f"purged  {session_id}\n")
    assert ran("--db", demo_db, session_id).exit_code == 0


def test_a_rest_of_a_purged_session_is_found(stored: Stored) -> None:
    with changed(stored) as connection:
        connection.execute(
            "INSERT INTO tombstones SELECT session_id, 1, 'asked for', '{}', NULL FROM sessions"
        )
        assert "purge" in findings(connection)


def test_a_table_that_says_something_else_is_found(stored: Stored) -> None:
    with changed(stored) as connection:
        connection.execute("UPDATE p_items_v1 SET text = 'other words'")
        [session] = verified(connection)
        assert [(each.check, "p_items_v1" in each.message) for each in session.findings] == [
            ("projection", True)
        ]


# -- the command


def ran(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(each) for each in arguments])


@pytest.fixture
def noted(demo_db: Path, tmp_path: Path) -> Path:
    """A manifest of the demo."""
    path = tmp_path / "manifest"
    path.write_text(ran("--db", demo_db, "--manifest").stdout)
    return path


def execute(path: Path, *statements: str) -> None:
    """Change what the guards of a log forbid: they are as before afterwards."""
    with closing(sqlite3.connect(path)) as connection, connection:
        guards = connection.execute(
            "SELECT sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        superuser.unguard(connection)
        superuser.writable(connection)
        for statement in statements:
            connection.execute(statement)
        for (sql,) in guards:
            connection.execute(sql)


def test_all_as_recorded(demo_db: Path) -> None:
    done = ran("--db", demo_db)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.endswith("in 1 session: all as recorded.\n")


def test_a_finding_is_a_line_and_an_exit_code(demo_db: Path) -> None:
    execute(demo_db, f"UPDATE events SET t_ns = t_ns + 1 WHERE pos = 4 AND exchange_id < {LAST}")
    done = ran("--db", demo_db, "latest")
    assert done.exit_code == 4
    assert done.stdout.startswith("bad     ")
    assert " @4: it was changed or moved" in done.stdout


def test_what_was_put_in_cannot_take_over_a_terminal(demo_db: Path) -> None:
    execute(
        demo_db,
        "UPDATE exchanges SET exchange_id = exchange_id || char(27) || '[2J', target = char(27) || ']0;x'",
    )
    done = ran("--db", demo_db)
    assert (done.exit_code, "\x1b" in done.stdout, "\\x1b[2J" in done.stdout) == (4, False, True)


def test_gaps_are_listed_and_no_failure(demo_db: Path) -> None:
    with Store(demo_db.with_name("gap.db")) as store:
        journal = Journal(demo_db.parent / "elsewhere", "recorder-4")
        exchange = Exchange(journal).chunk(COMPLETED)
        gap = Gap(Mark.CHUNK, 2, 7, "", 0, 0, "the journal is at its bound")
        exchange._write(Mark.GAP, msgspec.json.encode(gap))
        exchange.end()
        Ingester(store, journal.directory, never).drain()
        journal.close()
    done = ran("--db", demo_db.with_name("gap.db"))
    assert (done.exit_code, done.stdout.startswith("gap     ")) == (0, True)
    assert (
        "2 chunks, 7 bytes of the response were not kept: the journal is at its bound"
        in done.stdout
    )
    assert "this is not a failure" in done.stderr


def test_json_has_a_row_for_each_session(demo_db: Path) -> None:
    [row] = json.loads(ran("--db", demo_db, "--json").stdout)
    assert (row["state"], row["findings"], row["open"]) == ("ok", [], [])
    assert {"session_id", "name", "exchanges", "events", "gaps", "root"} <= row.keys()


def test_when_all_was_verified_is_kept_beside_the_database(demo_db: Path) -> None:
    ran("--db", demo_db, "latest")
    assert last_verify(demo_db) is None
    began_ns = time.time_ns()
    ran("--db", demo_db)
    kept = last_verify(demo_db)
    assert kept is not None
    assert (kept.sessions, kept.findings, began_ns <= kept.ended_ns <= time.time_ns()) == (
        1,
        0,
        True,
    )
    assert stat.S_IMODE(os.stat(verified_path(demo_db)).st_mode) == 0o600


def test_a_manifest_still_holds_when_nothing_was_changed(demo_db: Path, noted: Path) -> None:
    assert len(noted.read_text().splitlines()) == 2
    assert ran("--db", demo_db, "--against", noted).exit_code == 0


EVERYTHING = [f"DELETE FROM {table.name}" for table in (*reversed(LOG[:3]), *tables_of.values())]
LAST = "(SELECT max(exchange_id) FROM exchanges)"


@pytest.mark.parametrize(
    "statements",
    [
        EVERYTHING,
        [
            f"DELETE FROM {table} WHERE exchange_id = {LAST}"
            for table in ("events", *(t.name for t in tables_of.values()))
        ]
        + [f"DELETE FROM exchanges WHERE exchange_id = {LAST}"],
        ["UPDATE sessions SET name = 'another'"],
    ],
    ids=["session", "exchange", "row of a session"],
)
def test_a_manifest_shows_what_no_chain_can(
    demo_db: Path, noted: Path, statements: Sequence[str]
) -> None:
    execute(demo_db, *statements)
    done = ran("--db", demo_db, "--against", noted)
    assert (done.exit_code, "bad " in done.stdout) == (4, True)


def buried(path: Path, **changes: object) -> None:
    """Delete the only session as a forger does: with the tombstone that a purge would leave, or
    another one.
    """
    [(session_id, exchanges)] = superuser.asked(
        path, "SELECT session_id, count(*) FROM exchanges GROUP BY session_id"
    )
    [(count, size)] = superuser.asked(path, "SELECT count(*), sum(length(raw)) FROM events")
    [(last,)] = superuser.asked(
        path, "SELECT hash FROM events ORDER BY exchange_id DESC, pos DESC LIMIT 1"
    )
    counts = {"exchanges": exchanges, "events": count, "bytes": size, **changes}
    last = counts.pop("last_hash", last)
    reindexed = [statement for index in INDEX.statements for statement in index.rebuild]
    execute(path, *EVERYTHING, *reindexed)
    superuser.asked(
        path,
        "INSERT INTO tombstones VALUES (?, 1, 'old', ?, ?)",
        session_id,
        json.dumps(counts),
        last,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"exchanges": 0, "events": 0},
            "its tombstone is of 0 exchanges of 0 events: recorder did not purge it",
        ),
        (
            {"events": 356},
            "with 9 exchanges of 357 events, and its tombstone is of 9 exchanges of 356 events",
        ),
        ({"last_hash": b"x"}, "its tombstone has another last hash than the manifest"),
        ({"last_hash": None}, "its tombstone has another last hash than the manifest"),
    ],
)
def test_a_tombstone_that_no_purge_left_is_found(
    demo_db: Path, noted: Path, changes: dict[str, object], words: str
) -> None:
    buried(demo_db, **changes)
    assert ran("--db", demo_db).exit_code == 0, "the log by itself says that it was purged"
    done = ran("--db", demo_db, "--against", noted)
    assert (done.exit_code, words in done.stdout) == (4, True)


def test_a_session_that_was_purged_after_the_manifest_is_said(demo_db: Path, noted: Path) -> None:
    later = noted.with_name("later")
    session_id = purged(demo_db)
    done = ran("--db", demo_db, "--against", noted)
    assert (done.exit_code, done.stdout) == (0, f"purged  {session_id}\n")
    assert (
        "Purged after the manifest: 1 session. The tombstones fit it; compare them with"
        in done.stderr
    )
    assert f"  Session {session_id} was purged on 1970-01-01" in done.stderr
    # The next manifest has the tombstone: it cannot be removed, or become another one.
    later.write_text(ran("--db", demo_db, "--manifest").stdout)
    assert later.read_text().splitlines()[1].startswith(f"{session_id} purged ")
    done = ran("--db", demo_db, "--against", later)
    assert (done.exit_code, "after the manifest" in done.stderr) == (0, False)
    execute(demo_db, "UPDATE tombstones SET reason = 'another'")
    assert (
        "its tombstone is not the one that the manifest has"
        in ran("--db", demo_db, "--against", later).stdout
    )
    execute(demo_db, "DELETE FROM tombstones")
    done = ran("--db", demo_db, "--against", later)
    assert (done.exit_code, "the tombstone was removed since" in done.stdout) == (4, True)


def test_a_manifest_of_the_first_version_is_read(demo_db: Path, noted: Path) -> None:
    [_, line] = noted.read_text().splitlines()
    older = line.rpartition(" ")[0]
    noted.write_text(f"# recorder manifest 1: session_id exchanges events root\n{older}\n")
    assert ran("--db", demo_db, "--against", noted).exit_code == 0
    buried(demo_db, exchanges=0)
    assert ran("--db", demo_db, "--against", noted).exit_code == 4


def test_a_session_that_has_grown_still_has_its_digest(in_file: Stored, tmp_path: Path) -> None:
    path = tmp_path / "grown.db"
    shutil.copy(database_path(in_file.url), path)
    noted = tmp_path / "manifest"
    noted.write_text(ran("--db", path, "--manifest").stdout)
    journal = Journal(Path(f"{path}.journal"), "recorder-2")
    with Store(path) as store:
        Exchange(journal, REQUEST, session="run", session_source="header").chunk(COMPLETED).end()
        Ingester(store, journal.directory, never).drain()
    journal.close()
    done = ran("--db", path, "--against", noted)
    assert "manifest" not in done.stdout.replace(str(tmp_path), "")


@pytest.mark.parametrize(
    "text", ["", "session 1 2 3\n", "# recorder manifest 1: session_id exchanges events root\nx\n"]
)
def test_what_is_no_manifest_is_refused(demo_db: Path, tmp_path: Path, text: str) -> None:
    noted = tmp_path / "manifest"
    noted.write_text(text + "\0" * (not text))
    assert ran("--db", demo_db, "--against", noted).exception is not None


def test_nothing_there_is_exit_code_3(tmp_path: Path) -> None:
    Store(tmp_path / "empty.db").close()
    for path in ("none.db", "empty.db"):
        assert getattr(ran("--db", tmp_path / path).exception, "exit_code", None) == 3


def test_a_rebuild_that_is_due_is_said_and_nothing_compared(demo_db: Path) -> None:
    execute(
        demo_db, "INSERT INTO rebuilds VALUES ('projections', '', '')", "DELETE FROM p_items_v1"
    )
    done = ran("--db", demo_db)
    assert (done.exit_code, done.stdout) == (
        4,
        "bad     The projections must be rebuilt and were not compared: run `recorder db rebuild`.\n",
    )


def test_a_damaged_page_is_a_finding_and_no_traceback(demo_db: Path) -> None:
    data = bytearray(demo_db.read_bytes())
    data[20 * 4096 : 24 * 4096] = os.urandom(4 * 4096)
    demo_db.write_bytes(data)
    done = ran("--db", demo_db)
    assert (done.exit_code, done.stdout.startswith("bad     ")) == (4, True)


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("none", 3, "There is no file {}."),
        (
            "",
            2,
            "{} has no manifest.json: give a manifest, or the folder of `recorder export --format parquet`.",
        ),
    ],
)
def test_a_manifest_that_is_no_file_is_said_as_everywhere(
    demo_db: Path, tmp_path: Path, name: str, code: int, words: str
) -> None:
    refusal = ran("--db", demo_db, "--against", tmp_path / name).exception
    assert isinstance(refusal, RecorderError)
    assert (refusal.exit_code, str(refusal)) == (code, words.format(tmp_path / name))
