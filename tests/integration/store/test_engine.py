"""`recorder.store.engine`: the one table of what depends on the engine, and what each says of its
errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import get_args

import psycopg
import pytest
from sqlalchemy import URL

import recorder.store.postgres.address
import recorder.store.postgres.query
import recorder.store.postgres.reading
import recorder.store.postgres.schema
import recorder.store.postgres.upkeep
import recorder.store.postgres.verify
import recorder.store.postgres.writer
import recorder.store.sqlite.address
import recorder.store.sqlite.query
import recorder.store.sqlite.reading
import recorder.store.sqlite.schema
import recorder.store.sqlite.upkeep
import recorder.store.sqlite.verify
import recorder.store.sqlite.writer
from recorder.errors import (
    NotFoundError,
    StoreBusyError,
    StoreConflictError,
    StoreError,
    UsageError,
)
from recorder.store.engine import (
    Address,
    Part,
    Querying,
    Reading,
    Schema,
    Writing,
    address_of,
    part,
    writing_of,
)
from recorder.store.location import database_url, is_same_database
from recorder.store.maintain.upkeep import Upkeep, Verifying
from recorder.store.sql import Statement
from recorder.store.write.retry import Retry, Stopped, is_final
from recorder.store.write.writer import Store
from tests.support import superuser


@pytest.fixture
def store(database: URL) -> Iterator[Store]:
    with Store(database, busy_timeout_s=0.2) as store:
        yield store


ADDRESSES: tuple[Address, ...] = (recorder.store.sqlite.address, recorder.store.postgres.address)
SCHEMAS: tuple[Schema, ...] = (recorder.store.sqlite.schema, recorder.store.postgres.schema)
READINGS: tuple[Reading, ...] = (recorder.store.sqlite.reading, recorder.store.postgres.reading)
QUERYINGS: tuple[Querying, ...] = (recorder.store.sqlite.query, recorder.store.postgres.query)
WRITINGS: tuple[Writing, ...] = (recorder.store.sqlite.writer, recorder.store.postgres.writer)
VERIFYINGS: tuple[Verifying, ...] = (recorder.store.sqlite.verify, recorder.store.postgres.verify)
UPKEEPS: tuple[Upkeep, ...] = (recorder.store.sqlite.upkeep, recorder.store.postgres.upkeep)
PARTS = (ADDRESSES, SCHEMAS, READINGS, QUERYINGS, WRITINGS, VERIFYINGS, UPKEEPS)


def test_each_engine_has_every_part() -> None:
    """mypy compares each module with its protocol, above."""
    parts = [[part(engine, name) for engine in ("sqlite", "postgresql")] for name in get_args(Part)]
    assert parts == [list(modules) for modules in PARTS]


def test_an_engine_that_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(UsageError, match="recorder cannot record into mysql"):
        address_of(URL.create("mysql"))


def test_whether_two_urls_of_files_are_of_one_file_is_known_by_their_paths(tmp_path: Path) -> None:
    url, other = (database_url(tmp_path / name) for name in ("log.db", "other.db"))
    assert (is_same_database(url, url), is_same_database(url, other)) == (True, False)
    with pytest.raises(NotFoundError, match="nothing has been recorded there"):
        address_of(url).require(url)
    (tmp_path / "log.db").touch()
    (tmp_path / "other.db").symlink_to(tmp_path / "log.db")
    assert is_same_database(url, other)


# -- errors


def refusal(store: Store, sql: str) -> StoreError:
    """The error of a transaction in which the driver was given a statement."""
    with pytest.raises(StoreError) as raised, store.transaction():
        store.run(Statement(sql), {})
    return raised.value


WRONG = [
    *(
        "SELEC 1",
        "SELECT 1 FROM nowhere",
        "SELECT nothing FROM events",
        "INSERT INTO sessions (nothing) VALUES (1)",
    ),
    *("SELECT nothing(1)", "INSERT INTO sessions (session_id, created_ns) VALUES (NULL, NULL)"),
]


def test_a_wrong_statement_is_final_on_every_engine(store: Store) -> None:
    assert [sql for sql in WRONG if not is_final(store.url, refusal(store, sql))] == []


def raised(store: Store, code: str) -> StoreError:
    """The error of a statement that a server refused with that SQLSTATE."""
    return refusal(
        store, f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}', MESSAGE = 'no'; END $$"
    )


PASSING = [
    *(
        "08006",
        "28000",
        "3D000",
        "40001",
        "40P01",
        "53100",
        "53200",
        "53300",
        "55006",
        "55P03",
        "57014",
        "57P01",
    ),
    *("57P02", "57P03", "58030", "XX001", "25006", "25P03", "25P04", "42501"),
]
FINAL = [
    "0A000",
    "21000",
    "23502",
    "23514",
    "26000",
    "25P02",
    "42601",
    "42703",
    "42P01",
    "42883",
    "54000",
    "P0001",
]


def test_a_server_says_by_its_code_whether_to_try_again(postgres_database: URL) -> None:
    with Store(postgres_database) as store:
        assert [
            code for code in (*PASSING, *FINAL) if is_final(store.url, raised(store, code))
        ] == FINAL


def test_a_connection_that_ends_is_worth_another_try(postgres_database: URL) -> None:
    with Store(postgres_database) as store:
        error = refusal(store, "SELECT pg_terminate_backend(pg_backend_pid())")
        assert isinstance(error, StoreBusyError)
        assert not is_final(store.url, error)


def test_an_error_without_a_code_is_worth_another_try_unless_the_driver_refused_what_it_was_given() -> (
    None
):
    """A result that libpq makes when a connection breaks has no code, and psycopg no class of its
    own for it.
    """
    url = URL.create("postgresql")
    broken = (
        psycopg.DatabaseError("no message from the libpq"),
        psycopg.InterfaceError("the cursor is closed"),
    )
    wrong = (
        psycopg.ProgrammingError("a placeholder"),
        psycopg.DataError("NUL"),
        psycopg.NotSupportedError("a type"),
    )
    for error in (*broken, *wrong):
        store_error = StoreError("failed")
        store_error.__cause__ = error
        assert is_final(url, store_error) is (error in wrong), error


def test_a_server_that_is_not_there_is_worth_another_try(tmp_path: Path) -> None:
    url = database_url(
        URL.create("postgresql", "me", database="log", query={"host": str(tmp_path)})
    )
    with pytest.raises(StoreBusyError, match="cannot be reached") as raised:
        Store(url)
    assert not is_final(url, raised.value)


def test_a_lock_is_worth_another_try_and_a_conflict_is_not(store: Store) -> None:
    assert not is_final(store.url, StoreBusyError("locked"))
    assert is_final(store.url, StoreConflictError("other content"))


def test_a_transaction_that_the_database_will_never_take_is_not_repeated(store: Store) -> None:
    """It was for ever on PostgreSQL, whose errors nobody had sorted."""
    tries: list[int] = []
    retry = Retry(store, pause=lambda _seconds: len(tries) > 3)

    def work() -> None:
        tries.append(1)
        store.set_offset("recorder-1", 1, 1)

    with superuser.connected(store.url) as connection:
        connection.execute("ALTER TABLE ingest_offsets RENAME TO elsewhere")
    with pytest.raises(StoreError, match="ingest_offsets"):
        retry(work)
    assert len(tries) == 1
    with superuser.connected(store.url) as connection:
        connection.execute("ALTER TABLE elsewhere RENAME TO ingest_offsets")
    retry(work)


def test_a_transaction_that_fails_for_a_while_is_repeated_until_it_is_asked_to_stop(
    postgres_database: URL,
) -> None:
    tries: list[int] = []
    with Store(postgres_database) as store:
        retry = Retry(store, pause=lambda _seconds: len(tries) == 3)

        def work() -> None:
            tries.append(1)
            store.run(Statement("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '53100'; END $$"), {})

        with pytest.raises(Stopped):
            retry(work)
    assert len(tries) == 3


def test_the_files_beside_a_database_are_named_after_it(tmp_path: Path) -> None:
    url = database_url(tmp_path / "a b.db")
    assert address_of(url).journal_root(url) == tmp_path / "a b.db.journal"
    assert address_of(url).verified_path(url) == tmp_path / "a b.db.verified"


def test_a_task_is_done_by_one_at_a_time_and_others_beside_it(database: URL) -> None:
    def task_lock(task: str) -> AbstractContextManager[None]:
        return writing_of(database).task_lock(database, task, 0, "another one pushes")

    for _ in range(2):
        with task_lock("push-a"), task_lock("push-b"):
            with pytest.raises(StoreBusyError, match="another one pushes"):
                task_lock("push-a").__enter__()


def test_no_two_processes_hold_a_lock_whose_file_goes_at_the_end(tmp_path: Path) -> None:
    url = database_url(tmp_path / "log.db")
    count = tmp_path / "count"
    count.write_text("0")

    def add() -> None:
        added = 0
        while added < 200:
            with (
                suppress(StoreBusyError),
                writing_of(url).task_lock(url, "count", 0, "another one counts"),
            ):
                count.write_text(str(int(count.read_text()) + 1))
                added += 1

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(add) for _ in range(4)]:
            done.result()
    assert count.read_text() == "800"
    assert [path.name for path in tmp_path.iterdir()] == ["count"]
