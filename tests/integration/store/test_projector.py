"""What ended exchanges come to in the store: in one transaction, once, in any order, and again from
the log.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from recorder.model.events import Event, Exchange
from recorder.projections.fold import Folding
from recorder.store.maintain.rebuild import rebuild
from recorder.store.schema import REBUILD_IS_DUE
from recorder.store.search import INDEX_NAMES
from recorder.store.write import projector
from recorder.store.write.links import key_of
from recorder.store.write.projector import Whole
from recorder.store.write.writer import Store
from recorder.wire.framing.sse import FRAME_LIMIT
from recorder.wire.grouping.session import HISTORY
from tests.support import superuser
from tests.support.empty_log import empty
from tests.support.facts import captured
from tests.support.rows import (
    empty_indexes,
    forget_projections,
    make_exchange,
    make_session,
    projections,
)
from tests.unit.projections.test_fold import BODY


def write(store: Store, exchange: Exchange, events: Sequence[Event]) -> None:
    """What the ingester does with a batch."""
    with store.transaction():
        store.append(events)
        if events and events[-1].kind == "end":
            store.projector.project(exchange.session_id, exchange.exchange_id)


def begun(store: Store, number: int = 1, **fields: Any) -> Exchange:
    session = make_session(1)
    exchange = make_exchange(session, number, **fields)
    with store.transaction():
        store.add_session(session)
        store.add_exchange(exchange)
    return exchange


def recorded(
    store: Store, number: int = 1, request: bytes = b"", body: bytes = BODY, **fields: Any
) -> Exchange:
    exchange = begun(store, number, **fields)
    write(store, *captured(body, exchange=exchange, request=request))
    return exchange


def frames(body: bytes, first: int, upto: int) -> bytes:
    return b"".join(frame + b"\n\n" for frame in body.split(b"\n\n")[:-1][first:upto])


def resuming(store: Store, after: int, body: bytes = BODY, request: bytes = b"") -> Exchange:
    """The second exchange, which has of the response what comes after a number."""
    asked = {"method": "GET", "resumes_response_id": "resp_1", "resumes_after": after}
    return recorded(store, 2, request, frames(body, after + 1, 99), **asked)


def ask(store: Store, sql: str) -> list[Any]:
    return superuser.asked(store.url, sql)


def rebuilt(store: Store) -> dict[str, list[Any]]:
    """The projections after all of them were thrown away and made anew."""
    forget_projections(store.url)
    assert rebuild(store, lambda done, total: None).put_aside == []
    return projections(store.url)


def returned(call_id: str, output: str) -> bytes:
    item = {"type": "function_call_output", "call_id": call_id, "output": output}
    return json.dumps({"model": "gpt-5", "input": [item]}).encode()


def found(store: Store, words: str) -> list[str]:
    return superuser.matching(store.url, words)


def test_rows_are_there_with_the_end_and_not_before(store: Store) -> None:
    exchange = begun(store)
    _, events = captured(BODY, exchange=exchange)
    write(store, exchange, events[:-1])
    assert ask(store, "SELECT count(*) FROM p_items_v1") == [(0,)]
    write(store, exchange, events)
    assert ask(store, "SELECT kind FROM p_items_v1 ORDER BY item") == [
        ("reasoning",),
        ("message",),
        ("tool_call",),
    ]


def test_end_and_rows_are_committed_together_or_not_at_all(either: Store) -> None:
    exchange = begun(either)
    _, events = captured(BODY, exchange=exchange)

    def fail_at_the_end() -> None:
        with either.transaction():
            either.append(events)
            either.projector.project(exchange.session_id, exchange.exchange_id)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_at_the_end()
    assert ask(
        either, "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM p_items_v1)"
    ) == [(0, 0)]


def test_told_twice_is_told_once(either: Store) -> None:
    exchange = recorded(either)
    once = projections(either.url)
    write(either, *captured(BODY, exchange=exchange))
    assert projections(either.url) == once
    assert found(either, "héllo") == ["message"]


def test_words_of_messages_reasoning_and_arguments_are_found(store: Store) -> None:
    recorded(store)
    assert (found(store, "héllo"), found(store, "hard"), found(store, "2")) == (
        ["message"],
        ["reasoning"],
        ["tool_call"],
    )
    superuser.check_search(store.url)


def prompted(text: str, *results: tuple[str, str]) -> bytes:
    """A request of a person's turn, after results of calls."""
    items = [
        {"type": "function_call_output", "call_id": call, "output": output}
        for call, output in results
    ]
    return json.dumps(
        {"model": "gpt-5", "input": [*items, {"role": "user", "content": text}]}
    ).encode()


@pytest.mark.long
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_text_of_a_user_and_a_result_are_indexed_once_in_whatever_order_they_are_told(
    store: Store, order: tuple[int, ...]
) -> None:
    request = prompted("Where is Waldo?", ("call_1", "behind the lighthouse"))
    told = [captured(BODY, exchange=begun(store, number), request=request) for number in (1, 2, 3)]
    for index in order:
        write(store, *told[index])
        assert (found(store, "waldo"), found(store, "lighthouse")) == (["user"], ["result"])
        superuser.check_search(store.url)
    first = told[0][0]
    assert ask(store, "SELECT exchange_id, text FROM p_user_texts_v1") == [
        (first.exchange_id, "Where is Waldo?")
    ]
    for index in order:  # an exchange that is projected again takes nothing from the index
        with store.transaction():
            store.projector.project(told[index][0].session_id, told[index][0].exchange_id)
        superuser.check_search(store.url)
    assert (found(store, "waldo"), found(store, "lighthouse")) == (["user"], ["result"])


def test_words_that_fill_an_index_entry_of_a_server_are_no_obstacle(either: Store) -> None:
    """A tsvector has 1 MB, and a hyphenated word is in it whole and in parts: 8 bytes for each of
    these letters.
    """
    letters, noise = [chr(0x20000 + number) for number in range(40_000)], random.Random(1)
    halves = ("".join(noise.choices(letters, k=8)) for _ in itertools.count())
    text = " ".join(f"{next(halves)}-{next(halves)}" for _ in range(12_000))
    recorded(either, 1, request=prompted(f"Waldo {text}", ("call_1", f"lighthouse {text}")))
    assert ask(either, "SELECT reason FROM dead_letters") == []
    assert (found(either, "waldo"), found(either, "lighthouse")) == (["user"], ["result"])


def test_a_request_that_goes_on_with_a_turn_has_no_text_of_a_user(store: Store) -> None:
    recorded(store, 1, request=prompted("Where is Waldo?"))
    history = [
        {"role": "user", "content": "Look for Waldo"},
        json.loads(returned("call_1", "nowhere"))["input"][0],
    ]
    recorded(store, 2, request=json.dumps({"model": "gpt-5", "input": history}).encode())
    assert ask(store, "SELECT text FROM p_user_texts_v1") == [("Where is Waldo?",)]


def test_an_index_that_a_migration_left_empty_is_filled_by_a_rebuild(either: Store) -> None:
    exchange = recorded(
        either, 1, request=prompted("Where is Waldo?", ("call_1", "behind the lighthouse"))
    )
    empty_indexes(either.url, INDEX_NAMES[1:])
    with either.transaction():
        either.projector.set_place(projector.START)
    rebuild(either, lambda done, total: None)
    superuser.check_search(either.url)
    assert (found(either, "waldo"), found(either, "lighthouse")) == (["user"], ["result"])
    with either.transaction():
        either.projector.project(exchange.session_id, exchange.exchange_id)
    superuser.check_search(either.url)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_result_is_the_first_request_s_in_whatever_order_they_are_told(
    store: Store, order: tuple[int, ...]
) -> None:
    told = [
        captured(BODY, exchange=begun(store, number), request=returned("call_1", "clear"))
        for number in (1, 2, 3)
    ]
    for index in order:
        write(store, *told[index])
    first = told[0][0]
    assert ask(store, "SELECT exchange_id, started_ns, output FROM p_results_v1") == [
        (first.exchange_id, first.started_ns, "clear")
    ]


def test_a_resumed_response_has_the_items_of_the_whole(store: Store) -> None:
    write(
        store, *captured(frames(BODY, 0, 9), exchange=begun(store, 1), outcome="client_disconnect")
    )
    resumed = resuming(store, 6)
    assert parts_of(store, resumed) == parts_of(store, recorded(store, 3))
    assert (
        ask(store, f"SELECT kind FROM p_anomalies_v1 WHERE exchange_id = '{resumed.exchange_id}'")
        == []
    )


STEPS: list[dict[str, Any]] = [
    {
        "event_type": "interaction.created",
        "interaction": {"id": "i", "object": "interaction", "model": "gemini-3"},
    },
    {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
    *(
        {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": f"{n} "}}
        for n in range(5)
    ),
    {"event_type": "step.stop", "index": 0},
    {
        "event_type": "interaction.completed",
        "interaction": {"id": "i", "status": "completed", "usage": {}},
    },
]
INTERACTION = b"".join(
    b"event: %b\ndata: %b\n\n"
    % (step["event_type"].encode(), json.dumps({**step, "event_id": f"e{number}"}).encode())
    for number, step in enumerate(STEPS)
)


def test_an_interaction_that_is_resumed_twice_is_the_whole(store: Store) -> None:
    of = {"api": "gemini-interactions", "target": "/v1beta/interactions"}
    write(
        store,
        *captured(
            frames(INTERACTION, 0, 5), exchange=begun(store, 1, **of), outcome="client_disconnect"
        ),
    )
    for number, (first, end) in enumerate([(4, 7), (6, 9)], 2):
        target = f"/v1beta/interactions/i?stream=true&last_event_id=e{first - 1}"
        resumed = {
            "method": "GET",
            "api": of["api"],
            "target": target,
            "resumes_response_id": "i",
            "resumes_after": 0,
        }
        exchange = begun(store, number, **resumed)
        write(store, *captured(frames(INTERACTION, first, end), exchange=exchange))
    assert [each[6] for each in parts_of(store, exchange)] == ["0 1 2 3 4 "]
    assert parts_of(store, exchange) == parts_of(store, recorded(store, 4, b"", INTERACTION, **of))
    assert rebuilt(store) == projections(store.url)


def parts_of(store: Store, exchange: Exchange) -> list[Any]:
    columns = "item, kind, type, output_index, item_id, status, text, summary, arguments, call_id"
    return ask(
        store,
        f"SELECT {columns} FROM p_items_v1 WHERE exchange_id = '{exchange.exchange_id}' ORDER BY item",
    )


def test_a_resumed_response_is_whole_whichever_part_is_told_first(store: Store) -> None:
    cut, first = captured(frames(BODY, 0, 9), exchange=begun(store, 1), outcome="client_disconnect")
    write(store, cut, first[:-1])
    resumed = resuming(store, 6)
    write(store, cut, first)
    assert parts_of(store, resumed) == parts_of(store, recorded(store, 3))
    as_it_came = projections(store.url)
    assert rebuilt(store) == as_it_came


def test_a_resumed_response_is_whole_after_a_long_request_and_with_long_events(
    store: Store,
) -> None:
    body = BODY.replace(b"Think", b"x" * (FRAME_LIMIT + 10))
    request = json.dumps({"model": "gpt-5", "input": "y" * 12 * FRAME_LIMIT}).encode()
    told = captured(
        frames(body, 0, 9), exchange=begun(store, 1), request=request, outcome="client_disconnect"
    )
    write(store, *told)
    resumed = resuming(store, 6, body=body)
    assert parts_of(store, resumed) == parts_of(store, recorded(store, 3, body=body))


def test_a_row_that_the_database_does_not_take_costs_the_exchange_its_projections_only(
    either: Store,
) -> None:
    exchange = begun(either)
    _, events = captured(BODY, exchange=exchange)
    odd = [
        msgspec.structs.replace(event, t_ns=-(2**63) if event.pos == 3 else 2**63 - 1)
        for event in events
    ]
    write(either, exchange, odd)
    [(_, reason)] = ask(either, "SELECT exchange_id, reason FROM dead_letters")
    assert reason.startswith("OverflowError: ")
    assert ask(either, REBUILD_IS_DUE) == [(0,)], "it is not the tables that failed"
    good = recorded(either, 2)
    assert ask(either, "SELECT exchange_id FROM p_timing_v1") == [(good.exchange_id,)]
    assert ask(either, "SELECT count(*) FROM events") == [(2 * len(events),)]


def test_a_damaged_index_does_not_stop_the_log_and_is_mended_by_a_rebuild(store: Store) -> None:
    recorded(store, 1)
    superuser.asked(store.url, "DELETE FROM p_search_v1_data WHERE id = 10")
    after = recorded(store, 2)
    assert ask(store, "SELECT exchange_id FROM dead_letters") == [(after.exchange_id,)]
    assert ask(
        store, f"SELECT count(*) > 0 FROM events WHERE exchange_id = '{after.exchange_id}'"
    ) == [(1,)]
    assert ask(store, REBUILD_IS_DUE) == [(1,)]
    assert rebuild(store, lambda done, total: None).put_aside == []
    assert found(store, "hello") == ["message", "message"]
    assert ask(store, REBUILD_IS_DUE) == [(0,)]


def test_what_an_older_recorder_wrote_is_seen_to_be_missing(either: Store) -> None:
    recorded(either, 1)
    exchange = begun(either, 2)
    with either.transaction():
        either.append(captured(BODY, exchange=exchange)[1])
    assert ask(either, REBUILD_IS_DUE) == [(1,)]
    rebuild(either, lambda done, total: None)
    assert ask(either, REBUILD_IS_DUE) == [(0,)]


class _Faulty(Folding):
    def apply_all(self, events: Iterable[Event]) -> None:
        for event in events:
            if b"poison" in event.raw:
                raise RuntimeError("a bug")
            super().apply_all([event])


def test_an_exchange_that_cannot_be_folded_is_put_aside_and_the_log_goes_on(
    either: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(projector, "Folding", _Faulty)
        bad = recorded(either, 1, request=b'{"model": "poison"}')
        good = recorded(either, 2)
        assert ask(either, "SELECT exchange_id, reason FROM dead_letters") == [
            (bad.exchange_id, "RuntimeError: a bug")
        ]
        assert ask(either, "SELECT exchange_id FROM p_usage_v1") == [(good.exchange_id,)]
        told = rebuild(either, lambda done, total: None)
        assert told.put_aside == [(bad.session_id, bad.exchange_id, "RuntimeError: a bug")]
    assert rebuild(either, lambda done, total: None).put_aside == []
    assert ask(either, "SELECT count(*) FROM p_usage_v1") == [(2,)]


def test_a_resumption_is_folded_again_when_its_response_comes_later(store: Store) -> None:
    cut, first = captured(BODY, exchange=begun(store, 1), outcome="client_disconnect")
    resumed = resuming(store, 11)
    assert parts_of(store, resumed) != parts_of(store, recorded(store, 3))
    write(store, cut, first)
    assert parts_of(store, resumed) == parts_of(store, recorded(store, 4))


def test_a_resumption_that_was_put_aside_is_folded_again_when_its_response_comes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut, first = captured(BODY, exchange=begun(store, 1), outcome="client_disconnect")
    write(store, cut, first[:-1])
    with monkeypatch.context() as patch:
        patch.setattr(projector, "Folding", _Faulty)
        resumed = resuming(store, 6, request=b'{"model": "poison"}')
    assert ask(store, "SELECT exchange_id FROM dead_letters") == [(resumed.exchange_id,)]
    write(store, cut, first)
    assert ask(store, "SELECT exchange_id FROM dead_letters") == []


def test_of_exchanges_together_one_that_cannot_be_folded_is_put_aside_alone(
    either: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [b'{"model": "gpt-5"}', b'{"model": "poison"}', b'{"model": "gpt-5"}']
    exchanges = [recorded(either, number, request=body) for number, body in enumerate(requests, 1)]
    monkeypatch.setattr(projector, "Folding", _Faulty)
    with either.transaction():
        either.projector.project_all(map(key_of, exchanges))
    assert ask(either, "SELECT exchange_id FROM dead_letters") == [(exchanges[1].exchange_id,)]
    usage = ask(either, "SELECT exchange_id FROM p_usage_v1 ORDER BY 1")
    assert usage == [(exchanges[0].exchange_id,), (exchanges[2].exchange_id,)]


def test_exchanges_that_fill_memory_are_written_one_after_the_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchanges = [
        recorded(store, number, request=returned("call_1", f"{number}")) for number in range(1, 6)
    ]
    as_it_came = projections(store.url)
    for name, value in (("TOGETHER_BYTES", 1), ("TOGETHER", 2)):
        with monkeypatch.context() as patch, store.transaction():
            patch.setattr(projector, name, value)
            store.projector.project_all(map(key_of, exchanges))
        assert projections(store.url) == as_it_came


def test_events_in_memory_are_folded_and_the_log_is_not_read(store: Store) -> None:
    exchange = begun(store)
    _, events = captured(BODY, exchange=exchange)
    write(store, exchange, events)
    as_it_came = projections(store.url)
    found: list[str] = []
    driver: Any = store._connection.connection.driver_connection
    driver.set_trace_callback(found.append)
    with store.transaction():
        store.projector.project_all([key_of(exchange)], {key_of(exchange): Whole(exchange, events)})
    assert [each for each in found if "events.raw" in each] == []
    assert projections(store.url) == as_it_came


def test_the_source_of_a_session_is_known_after_any_number_of_sessions(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projector, "SOURCES", 0)
    session = msgspec.structs.replace(make_session(1), source=HISTORY)
    exchanges = [make_exchange(session, number) for number in (1, 2, 3)]
    with store.transaction():
        store.add_session(session)
        store.add_exchanges(exchanges)
    for exchange in exchanges:
        write(store, *captured(BODY, exchange=exchange, request=prompted("Look for Waldo")))
    assert ask(store, "SELECT count(DISTINCT exchange_id) FROM p_history_v1") == [(3,)]


def test_a_rebuild_gives_the_same_bytes(store: Store) -> None:
    for number in range(1, 6):
        recorded(store, number, request=returned(f"call_{number % 2}", "clear"))
    begun(store, 9)
    as_it_came = projections(store.url)
    assert rebuilt(store) == as_it_came
    assert found(store, "héllo") == ["message"] * 5
    superuser.check_search(store.url)


def test_a_rebuild_that_is_interrupted_goes_on_where_it_was(
    either: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recorder.store.maintain.rebuild.BATCH_EXCHANGES", 2)
    for number in range(1, 8):
        recorded(either, number)
    as_it_came = projections(either.url)
    steps: list[int] = []

    def stop_at_four(done: int, total: int) -> None:
        steps.append(done)
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild(either, stop_at_four)
    assert ask(either, "SELECT count(*) FROM rebuilds") == [(1,)]
    rebuild(either, lambda done, total: steps.append(done))
    assert steps == [2, 4, 2, 3, 3]
    assert projections(either.url) == as_it_came


def test_a_reader_sees_an_exchange_whole_at_every_step_of_a_rebuild(
    either: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recorder.store.maintain.rebuild.BATCH_EXCHANGES", 1)
    for number in range(1, 5):
        recorded(either, number)
    as_it_came = projections(either.url)
    as_it_came.pop("rebuilds")
    seen = 0

    def look(done: int, total: int) -> None:
        nonlocal seen
        seen += 1
        now = projections(either.url)
        now.pop("rebuilds")
        assert now == as_it_came

    rebuild(either, look)
    assert seen >= 4


def test_an_empty_log_is_rebuilt_at_once(store: Store) -> None:
    assert rebuild(store, lambda done, total: None).put_aside == []
    assert ask(store, "SELECT count(*) FROM rebuilds") == [(0,)]


class Histories(RuleBasedStateMachine):
    """Exchanges that end in any order, batches cut anywhere, told again after crashes: always what
    a rebuild gives.
    """

    directories: Path
    numbers = itertools.count()

    @initialize()
    def open(self) -> None:
        self.store = Store(empty(self.directories / f"{next(self.numbers)}.db"))
        self.waiting: list[tuple[Exchange, list[Event], int]] = []
        self.count = 0

    @rule(call=st.integers(0, 2), output=st.sampled_from(["a", "b"]), count=st.integers(0, 17))
    def begin(self, call: int, output: str, count: int) -> None:
        self.count += 1
        exchange = begun(self.store, self.count)
        _, events = captured(
            frames(BODY, 0, count), exchange=exchange, request=returned(f"call_{call}", output)
        )
        self.waiting.append((exchange, events, 0))

    @rule(which=st.integers(0, 9), count=st.integers(1, 30))
    def go_on(self, which: int, count: int) -> None:
        if self.waiting:
            exchange, events, done = self.waiting.pop(which % len(self.waiting))
            write(self.store, exchange, events[: done + count])  # what was told is told again
            if done + count < len(events):
                self.waiting.append((exchange, events, done + count))

    @rule()
    def start_a_rebuild(self) -> None:
        rebuild(self.store, lambda done, total: None)

    @invariant()
    def rebuilt_is_the_same(self) -> None:
        if hasattr(self, "store"):
            as_it_is = projections(self.store.url)
            assert rebuilt(self.store) == as_it_is

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()


@pytest.mark.long
def test_incremental_is_rebuilt_whatever_happened(tmp_path: Path) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    Histories.directories = tmp_path
    run_state_machine_as_test(
        Histories,
        settings=settings(max_examples=12, stateful_step_count=12, deadline=None, derandomize=True),
    )
