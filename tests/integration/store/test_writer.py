"""What every engine's store does, in the words of one test for all."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import URL

from recorder.errors import StoreConflictError
from recorder.model.events import Event, Exchange, Kind
from recorder.store.queries.resumed_response import FIRST_EVENTS, RECENT_EXCHANGES
from recorder.store.sql import Statement
from recorder.store.write.writer import Store
from tests.support.rows import (
    add,
    begin,
    make_end,
    make_events,
    make_exchange,
    make_id,
    make_session,
)


@pytest.fixture
def store(database: URL) -> Iterator[Store]:
    with Store(database, busy_timeout_s=0.5) as store:
        yield store


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    with store.transaction():
        return [tuple(row) for row in store.ask(Statement(sql), {})]


def stored(store: Store, exchange: Exchange | None = None) -> list[Event]:
    events = [
        Event(*row)
        for row in rows(store, "SELECT * FROM events ORDER BY session_id, exchange_id, pos")
    ]
    return [
        event for event in events if exchange is None or event.exchange_id == exchange.exchange_id
    ]


def count(store: Store, table: str) -> int:
    found: int = rows(store, f"SELECT count(*) FROM {table}")[0][0]
    return found


def test_what_went_in_comes_out(store: Store) -> None:
    session = make_session(labels='{"a": "ü"}', origin="import")
    exchange = make_exchange(
        session, client="codex", client_version="1", thread_id="t", turn_id="u", attempt=2
    )
    events = make_events(
        exchange, [b"{}", bytes(range(256)), b"", b"\r\n\x00\xff"], ["request", "frame", "tail"]
    )
    with store.transaction():
        store.add_session(session)
        store.add_exchange(exchange)
        store.append(events)
    assert stored(store) == events
    assert rows(store, "SELECT * FROM sessions") == [msgspec.structs.astuple(session)]
    assert rows(store, "SELECT * FROM exchanges") == [msgspec.structs.astuple(exchange)]


@pytest.mark.long
@given(raws=st.lists(st.binary(max_size=300), min_size=1, max_size=20), data=st.data())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_bytes_in_any_batches_are_kept(
    store: Store, raws: list[bytes], data: st.DataObject
) -> None:
    number = count(store, "exchanges") + 1
    exchange = begin(store, number)
    events = make_events(exchange, raws)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=5)))
    for start, end in pairwise([0, *cuts, len(events)]):
        add(store, data.draw(st.permutations(events[start:end])))
    assert stored(store, exchange) == events


def test_interleaved_exchanges_are_sorted_by_the_store(store: Store) -> None:
    exchanges = [begin(store, number) for number in range(1, 9)]
    events = [event for exchange in exchanges for event in make_events(exchange, [b"x"] * 50)]
    add(store, random.Random(1).sample(events, len(events)))
    assert stored(store) == events


def test_a_repeated_transaction_changes_nothing(store: Store) -> None:
    session = make_session()
    exchange = make_exchange(session)
    events = make_events(
        exchange, [b"{}", b"a", make_end("completed")], ["request", "frame", "end"]
    )
    for _ in range(3):
        with store.transaction():
            store.add_session(session)
            store.add_exchange(exchange)
            store.append(events)
            store.set_offset("recorder-1", 1, 100)
    assert stored(store) == events
    assert [count(store, table) for table in ("sessions", "exchanges", "ingest_offsets")] == [
        1,
        1,
        1,
    ]


@pytest.mark.long
@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.sampled_from(["heard", "unheard", "undone"])), max_size=8
    )
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_commit_that_nobody_heard_of_may_be_repeated(
    store: Store, attempts: list[tuple[int, str]]
) -> None:
    exchange = begin(store, count(store, "exchanges") + 1)
    events = make_events(exchange, [b"%d" % number for number in range(30)])
    heard = 0
    for size, fate in [*attempts, (len(events), "heard")]:
        with suppress(ZeroDivisionError), store.transaction():
            store.append(events[heard : heard + size])
            if fate == "undone":
                raise ZeroDivisionError
        if fate == "heard":
            heard += size
    assert stored(store, exchange) == events


def test_other_content_at_a_position_is_refused(store: Store) -> None:
    exchange = begin(store)
    events = make_events(exchange, [b"a", b"b", b"c"])
    add(store, events)
    for other in (
        make_events(exchange, [b"a", b"B", b"c"]),
        [msgspec.structs.replace(events[1], t_ns=7)],
    ):
        with pytest.raises(
            StoreConflictError, match=r"refused a row: .*other content stands at that key"
        ):
            add(store, other)
    assert stored(store) == events


def test_a_hole_is_refused(store: Store) -> None:
    events = make_events(begin(store), [b"a", b"b", b"c"])
    add(store, events[:1])
    with pytest.raises(StoreConflictError, match="a position would be skipped"):
        add(store, events[2:])
    assert stored(store) == events[:1]


def test_nothing_but_a_note_follows_the_end(store: Store) -> None:
    events = make_events(begin(store), [b"{}", b"{}", b"n", b"x"], ["request", "end", "note"])
    with pytest.raises(StoreConflictError, match="only a note may follow"):
        add(store, events)
    add(store, events[:3])
    assert stored(store) == events[:3]


def test_an_id_with_other_content_is_refused(store: Store) -> None:
    exchange = begin(store)
    session = make_session()
    with pytest.raises(StoreConflictError), store.transaction():
        store.add_session(msgspec.structs.replace(session, name="other"))
    with pytest.raises(StoreConflictError), store.transaction():
        store.add_exchange(msgspec.structs.replace(exchange, target="/other"))


def test_a_row_without_its_parent_is_refused(store: Store) -> None:
    exchange = make_exchange(make_session())
    with pytest.raises(StoreConflictError), store.transaction():
        store.add_exchange(exchange)
    with pytest.raises(StoreConflictError):
        add(store, make_events(exchange, [b"a"]))


def test_a_transaction_that_raises_leaves_nothing(store: Store) -> None:
    def fail() -> None:
        with store.transaction():
            store.add_session(make_session())
            store.set_offset("recorder-1", 1, 2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert count(store, "sessions") == count(store, "ingest_offsets") == 0
    begin(store)


def test_the_store_is_used_in_a_transaction_only(store: Store) -> None:
    with pytest.raises(RuntimeError, match=r"inside `with store\.transaction"):
        store.append([])
    with pytest.raises(RuntimeError, match=r"inside `with store\.transaction"):
        store.offset("recorder-1")
    assert not store._connection.in_transaction()  # nothing was begun unasked


def test_offsets_are_set_replaced_and_forgotten(store: Store) -> None:
    with store.transaction():
        assert store.offset("a") is None
        store.set_offset("a", 1, 100)
        store.set_offset("b", 7, 7)
        store.set_offset("a", 2, 50)
        # a commit that a server did late, after its repetition and the next
        store.set_offset("a", 1, 200)
        assert (store.offset("a"), store.offset("b")) == ((2, 50), (7, 7))
        store.forget_offset("a")
        assert (store.offset("a"), store.offset("b")) == (None, (7, 7))


def test_the_newest_session_of_a_name_and_a_source_is_found(store: Store) -> None:
    with store.transaction():
        for number, created_ns, source in (
            (1, 10, "prefix"),
            (2, 30, "prefix"),
            (3, 20, "prefix"),
            (4, 99, "header"),
        ):
            store.add_session(
                make_session(number, name="run", created_ns=created_ns, source=source)
            )
        newest = [make_session(number).session_id for number in (2, 4)]
        assert store.sessions_of(make_id(9), "run", ["prefix", "header"]) == [None, *newest]
        assert store.sessions_of(make_id(9), "run", ["codex"]) == [None, None]
        assert store.sessions_of(make_id(9), "Run", ["prefix"]) == [None, None]


def test_the_session_of_an_exchange_is_found(store: Store) -> None:
    exchanges = [begin(store, number) for number in (1, 2)]
    with store.transaction():
        assert [store.session_of_exchange(exchange.exchange_id) for exchange in exchanges] == [
            exchange.session_id for exchange in exchanges
        ]
        assert store.session_of_exchange(make_session(3).session_id) is None


def created(response_id: bytes) -> bytes:
    return b'data: {"type":"response.created","response":{"id":"%s"}}\n\n' % response_id


def test_the_session_of_a_response_is_found(store: Store) -> None:
    exchanges = [begin(store, number) for number in (1, 2, 3)]
    for exchange, response_id in zip(exchanges, (b"resp_1", b"resp_2", b"resp_22"), strict=True):
        add(
            store,
            make_events(exchange, [b"{}", b"{}", created(response_id)], ["request", "response"]),
        )
    with store.transaction():
        assert store.session_of_response("resp_2") == exchanges[1].session_id
        assert store.session_of_response("resp_22") == exchanges[2].session_id
        assert store.session_of_response("resp_3") is None
        assert store.session_of_response("%") is store.session_of_response("") is None


def test_a_request_that_names_a_response_did_not_produce_it(store: Store) -> None:
    body = b'{"previous_response_id":"resp_1"}'
    add(
        store,
        make_events(begin(store, 1), [b"{}", b"{}", created(b"resp_1")], ["request", "response"]),
    )
    add(store, make_events(begin(store, 2), [b"{}", body], ["request", "request"]))
    with store.transaction():
        assert store.session_of_response("resp_1") == make_session(1).session_id


def test_a_request_in_many_parts_does_not_hide_the_response(store: Store) -> None:
    parts: list[Kind] = ["request"] * 20
    add(
        store,
        make_events(begin(store, 1), [b"{}"] * 21 + [created(b"resp_1")], [*parts, "response"]),
    )
    with store.transaction():
        assert store.session_of_response("resp_1") == make_session(1).session_id


def test_the_search_for_a_response_is_bounded(store: Store) -> None:
    late = [b"{}", b"{}", *[b"x"] * FIRST_EVENTS, created(b"resp_late")]
    add(store, make_events(begin(store, 1), late, ["request", "response"]))
    add(
        store,
        make_events(begin(store, 2), [b"{}", b"{}", created(b"resp_old")], ["request", "response"]),
    )
    session = make_session(3)
    exchanges = [make_exchange(session, number) for number in range(3, 3 + RECENT_EXCHANGES)]
    with store.transaction():
        assert store.session_of_response("resp_old") is not None
        assert store.session_of_response("resp_late") is None
        store.add_session(session)
        for exchange in exchanges:
            store.add_exchange(exchange)
        kinds: list[Kind] = ["request", "response"]
        store.append(
            [
                event
                for exchange in exchanges
                for event in make_events(exchange, [bytes(300)] * 10, kinds)
            ]
        )
        assert store.session_of_response("resp_old") is None
