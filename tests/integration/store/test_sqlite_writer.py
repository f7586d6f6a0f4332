"""What only a store in a file has: locks, the WAL, a disk that is full, a file that goes away."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from recorder.errors import StoreBusyError, StoreConflictError, StoreError, StoreLostError
from recorder.model.events import Event, Exchange
from recorder.store.sqlite.connection import WRITER, write_lock
from recorder.store.sqlite.writer import WAL_BYTES
from recorder.store.write.projector import attempt
from recorder.store.write.writer import Store
from tests.support.empty_log import empty
from tests.support.rows import add, begin, make_events, make_session, of_type


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(empty(tmp_path / "log.db"), busy_timeout_s=0.05) as store:
        yield store


def stored(store: Store, exchange: Exchange | None = None) -> list[Event]:
    with closing(sqlite3.connect(store.path)) as connection:
        rows = connection.execute(
            "SELECT * FROM events ORDER BY session_id, exchange_id, pos"
        ).fetchall()
    events = [Event(*row) for row in rows]
    return [
        event for event in events if exchange is None or event.exchange_id == exchange.exchange_id
    ]


def count(store: Store, table: str) -> int:
    with closing(sqlite3.connect(store.path)) as connection:
        found: int = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        return found


def wal_bytes(store: Store) -> int:
    return Path(f"{store.path}-wal").stat().st_size


def driver(store: Store) -> sqlite3.Connection:
    connection = store._connection.connection.driver_connection
    assert isinstance(connection, sqlite3.Connection)
    return connection


def megabytes(exchange: Exchange, number: int) -> list[Event]:
    return make_events(exchange, [bytes(250_000)] * 4 * number)


def test_the_store_writes_by_its_recipe(store: Store) -> None:
    for pragma, value in WRITER.items():
        assert driver(store).execute(f"PRAGMA {pragma}").fetchone() == (value,)


def test_who_only_looks_waits_for_no_other_writer(store: Store) -> None:
    exchange = begin(store)
    with (
        write_lock(store.path, 0),
        closing(sqlite3.connect(store.path, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with store.looking():
            assert store.session_of_exchange(exchange.exchange_id) == exchange.session_id
            assert store.session_of_response("resp_1") is None


def test_a_look_leaves_no_transaction_open(store: Store) -> None:
    with store.looking():
        assert store.session_of_links(["call_1"], "history") is None
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")


def test_a_database_locked_by_another_program_is_busy_and_then_works(store: Store) -> None:
    events = make_events(begin(store), [b"a"])
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        start = time.monotonic()
        with pytest.raises(StoreBusyError, match="is locked by another program; try again later"):
            add(store, events)
        assert time.monotonic() - start >= 0.05
    add(store, events)
    assert stored(store) == events


def test_only_one_store_writes_at_a_time_and_both_may(store: Store) -> None:
    exchange = begin(store)
    events = make_events(exchange, [b"%d" % number for number in range(20)])
    with Store(store.path, busy_timeout_s=0.05) as other:
        with (
            store.transaction(),
            pytest.raises(StoreBusyError, match="Another recorder is writing"),
        ):
            add(other, events)
        for number, event in enumerate(events):
            add((store, other)[number % 2], [event])
    assert stored(store) == events


def test_a_log_is_opened_while_another_program_writes_to_it(store: Store) -> None:
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        Store(store.path, busy_timeout_s=0).close()


def fill(store: Store, spare_pages: int = 20) -> None:
    """The disk is full, but for a few pages."""
    pages = driver(store).execute("PRAGMA page_count").fetchone()[0]
    driver(store).execute(f"PRAGMA max_page_count = {pages + spare_pages}")


def free(store: Store) -> None:
    driver(store).execute("PRAGMA max_page_count = 1000000")


def test_a_full_disk_is_busy_leaves_no_hole_and_is_survived(store: Store) -> None:
    events = megabytes(begin(store), 2)
    add(store, events[:1])
    fill(store)
    for _ in range(2):
        with pytest.raises(
            StoreBusyError, match=r"There is no room for the database .*: free some disk space"
        ):
            add(store, events)
    assert stored(store) == events[:1]
    free(store)
    add(store, events)
    assert stored(store) == events


def test_a_transaction_with_a_failure_in_it_is_not_committed_even_if_the_caller_goes_on(
    store: Store,
) -> None:
    events = megabytes(begin(store), 2)
    fill(store)

    def go_on() -> None:
        with store.transaction():
            store.set_offset("recorder-1", 1, 100)
            with suppress(StoreBusyError):
                store.append(events)
            store.set_offset("recorder-1", 1, 200)

    with pytest.raises(StoreBusyError, match="There is no room"):
        go_on()
    with store.transaction():
        assert store.offset("recorder-1") is None
    assert stored(store) == []


def test_a_small_row_on_a_full_disk_is_not_stored_without_those_before_it(store: Store) -> None:
    exchange = begin(store)
    raws = [b"{}", bytes(2_000_000), b"small"]
    events = make_events(exchange, raws)
    add(store, events[:1])
    fill(store)
    with pytest.raises(StoreBusyError):
        add(store, events[1:2])
    with pytest.raises(StoreConflictError, match="a position would be skipped"):
        add(store, events[2:])


def test_the_wal_is_moved_into_the_database_as_it_grows(store: Store) -> None:
    exchange = begin(store)
    events = megabytes(exchange, 60)
    largest = 0
    for start in range(0, len(events), 8):
        add(store, events[start : start + 8])
        largest = max(largest, wal_bytes(store))
    assert largest < WAL_BYTES + 4 * 2**20
    assert store.path.stat().st_size > 2 * WAL_BYTES


def test_a_reader_in_a_transaction_stops_neither_the_writer_nor_for_good_the_checkpoint(
    store: Store,
) -> None:
    events = megabytes(begin(store), 50)
    add(store, events[:1])
    with closing(sqlite3.connect(store.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM events").fetchone() == (1,)
        for start in range(1, len(events), 8):
            add(store, events[start : start + 8])
        assert reader.execute("SELECT count(*) FROM events").fetchone() == (1,)
        store.checkpoint()
        assert wal_bytes(store) > 2 * WAL_BYTES
        reader.execute("COMMIT")
        store.checkpoint()
        assert wal_bytes(store) == 0


def test_a_checkpoint_that_a_reader_was_in_the_way_of_is_made_within_a_minute(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if nothing more is written: an idle ingester calls `tidy` all the time.

    The clock does the waiting here.
    """
    events, began_s, passed_s = megabytes(begin(store), 20), time.monotonic(), 0.0
    monkeypatch.setattr(time, "monotonic", lambda: began_s + passed_s)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchone()
        for start in range(0, len(events), 8):
            add(store, events[start : start + 8])
        passed_s += 86400
        store.tidy()
        assert wal_bytes(store) > WAL_BYTES
    while wal_bytes(store) > 0 and passed_s < 86400 + 60:
        passed_s += 1
        store.tidy()
    assert wal_bytes(store) == 0


def test_what_is_deleted_is_overwritten_where_it_stood(store: Store) -> None:
    """Without being swept: what a rebuild or a purge deletes is no longer in the file."""
    canary = b"canary" * 20
    with store.transaction():
        driver(store).execute("CREATE TABLE small (secret BLOB)")
        driver(store).executemany(
            "INSERT INTO small VALUES (?)", [(canary + b"%d" % n,) for n in range(100)]
        )
    store.checkpoint()
    assert canary in store.path.read_bytes()
    with store.transaction():
        driver(store).execute("DELETE FROM small")
    store.checkpoint()
    assert canary not in store.path.read_bytes()


def test_closing_empties_the_wal_and_lets_go_of_everything(store: Store) -> None:
    begin(store)
    store.close()
    store.close()
    assert sorted(path.name for path in store.path.parent.iterdir()) == ["log.db", "log.db.lock"]
    with write_lock(store.path, 0):
        pass


def test_a_checkpoint_is_never_made_beside_another_writer(store: Store) -> None:
    begin(store)
    with write_lock(store.path, 0), pytest.raises(StoreBusyError):
        store.checkpoint()


def test_a_store_closes_even_while_another_writes(store: Store) -> None:
    begin(store)
    with write_lock(store.path, 0):
        store.close()
    assert store._connection.closed


def test_a_commit_counts_even_if_the_checkpoint_after_it_fails(store: Store) -> None:
    events = megabytes(begin(store), 20)
    add(store, events[:2])
    unfinished = driver(store).execute("SELECT pos FROM events")
    assert unfinished.fetchone() == (0,)
    add(store, events)
    with pytest.raises(StoreBusyError):
        store.checkpoint()
    unfinished.close()
    store.checkpoint()
    assert wal_bytes(store) == 0
    assert stored(store) == events


def test_a_path_whose_directory_is_missing_is_made(tmp_path: Path) -> None:
    with Store(f"sqlite:///{tmp_path / 'a' / 'b' / 'log.db'}") as store:
        begin(store)
    assert (tmp_path / "a" / "b" / "log.db").stat().st_size > 0


def test_a_database_that_turns_read_only_is_one_sentence(store: Store) -> None:
    exchange = begin(store)
    driver(store).execute("PRAGMA query_only = 1")
    with pytest.raises(StoreError, match="cannot be written: check its permissions"):
        add(store, make_events(exchange, [b"a"]))


def test_a_damaged_database_is_one_sentence(store: Store) -> None:
    add(store, megabytes(begin(store), 1))
    store.close()
    with open(store.path, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 400_000)
    with pytest.raises(StoreError, match=r"is damaged .*: restore a backup\.|is not a database"):
        with Store(store.path) as again:
            begin(again, 2)


def delete(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def replace(path: Path) -> None:
    for file in list(path.parent.glob(f"{path.name}*")):
        file.rename(file.with_name(f"old-{file.name}"))
    with Store(path):
        pass


@pytest.mark.parametrize("lose", [delete, replace])
def test_a_database_that_is_gone_is_lost_and_the_same_transaction_goes_into_a_new_store(
    store: Store, lose: Callable[[Path], None]
) -> None:
    begin(store, 1)
    lose(store.path)
    with pytest.raises(StoreLostError, match="deleted or replaced"):
        begin(store, 2)
    store.close()
    with Store(store.path) as reopened:
        begin(reopened, 2)
        assert count(reopened, "exchanges") == 1


@pytest.mark.parametrize("lose", [delete, replace])
def test_no_commit_counts_that_went_into_a_deleted_file(
    store: Store, lose: Callable[[Path], None]
) -> None:
    def lose_in_mid_transaction() -> None:
        with store.transaction():
            store.add_session(make_session())
            lose(store.path)

    with pytest.raises(StoreLostError):
        lose_in_mid_transaction()


def test_closing_a_lost_store_does_nothing_to_what_is_at_its_path_now(store: Store) -> None:
    begin(store, 1)
    delete(store.path)
    with Store(store.path) as new:
        exchange = begin(new, 2)
        wal = wal_bytes(new)
        store.close()
        assert wal_bytes(new) == wal > 0
        begin(new, 3)
    with Store(store.path) as reopened:
        assert count(reopened, "exchanges") == 2
        assert stored(reopened, exchange) == []


# -- numbers of types and items


def test_the_numbers_of_an_attempt_that_was_undone_are_nobody_s(store: Store) -> None:
    undone, kept = begin(store, 1), begin(store, 2)
    with store.transaction():
        with suppress(ZeroDivisionError), attempt(store):
            store.append(of_type(undone, "a"))
            raise ZeroDivisionError
        store.append(of_type(kept, "b", "a"))
    assert [(event.type, event.item_id) for event in stored(store)] == [
        ("b", "b-item"),
        ("a", "a-item"),
    ]
