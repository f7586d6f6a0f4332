"""`recorder export --to`: a collector gets each span once, however often it is called."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import URL

from recorder.exports.otlp import push
from recorder.exports.otlp.collector import Collector, Sleep, endpoint_of
from recorder.exports.otlp.cursor import ExportCursor
from recorder.exports.otlp.telemetry import convention_of, span_id
from recorder.ingest.capture import Capture
from recorder.model.events import Exchange, ExchangeEnd
from recorder.store.location import database_path
from recorder.store.maintain.purge.delete import purge
from recorder.store.queries.reader import LogReader
from recorder.store.sqlite.connection import write_lock
from recorder.store.write.writer import Store
from tests.support.conversations import (
    MS,
    Conversation,
    Conversations,
    answering,
    asking,
    call,
    message,
    response,
)
from tests.support.empty_log import empty
from tests.support.otlp import BATCH, Answer, Log, Receiver, once, receiving
from tests.support.server import run, run_apart
from tests.support.superuser import connected


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "BATCH_SPANS", BATCH)


@pytest.fixture
def log(database: URL) -> Log:
    return Log(database)


@pytest.fixture
def file(tmp_path: Path) -> Log:
    """A log in a file, where the engine makes no difference."""
    return Log(Conversations(empty(tmp_path / "log.db")).database)


def tools_of(receiver: Receiver) -> Counter[str]:
    return Counter(span.name for span in receiver.spans if span.name.startswith("execute_tool"))


def measured(receiver: Receiver) -> Counter[str]:
    """How many measurements the collector has of each metric."""
    counts = Counter[str]()
    for metric in receiver.metrics:
        counts[metric.name] += sum(point.count for point in metric.histogram.data_points)
    return counts


# -- each once


@pytest.mark.long
def test_three_pushes_send_each_span_and_measurement_once(log: Log, receiver: Receiver) -> None:
    for number in range(3):
        log.talk(f"talk-{number}", turns=3)
        row = log.push(receiver)
        assert (row["exchanges"], row["sessions"], row["spans"]) == (3, 1, 5)
    assert once(receiver, log, tools=6)
    assert log.push(receiver)["exchanges"] == 0
    assert measured(receiver)["gen_ai.client.operation.duration"] == len(log.made)
    assert log.rows() == len(log.made)


@pytest.mark.long
def test_a_batch_is_bounded_and_nothing_is_lost_between_two(
    file: Log, receiver: Receiver, small_batches: None
) -> None:
    for number in range(4):
        file.talk(f"talk-{number}", turns=4)
    file.push(receiver)
    sizes = [
        len(request.message.resource_spans[0].scope_spans[0].spans)
        for request in receiver.requests[::2]
    ]
    assert max(sizes) <= BATCH
    assert once(receiver, file, tools=12)


def test_an_older_exchange_that_ends_later_is_sent_then(file: Log, receiver: Receiver) -> None:
    talk = file.conversations.session("talk")
    late = talk.exchange([], asking("Slow"), ended=False)
    file.add(talk, 1, asking("Quick"))
    assert file.push(receiver)["exchanges"] == 1
    end(file, late)
    file.made.add(span_id(late.exchange_id))
    assert file.push(receiver)["exchanges"] == 1
    assert once(receiver, file, tools=0)


def end(log: Log, exchange: Exchange) -> None:
    with Store(log.database) as store, store.transaction():
        last = store.last_event(exchange.session_id, exchange.exchange_id)
        assert last is not None
        store.append(Capture.after(last).end(900 * MS, ExchangeEnd("eof")))
        store.projector.project(exchange.session_id, exchange.exchange_id)


def test_a_session_of_long_ago_that_comes_later_is_sent_then(file: Log, receiver: Receiver) -> None:
    file.talk("new")
    file.push(receiver)
    file.talk("old", at_s=-90 * 86_400)
    assert file.push(receiver)["sessions"] == 1
    assert once(receiver, file, tools=2)


def test_only_what_began_since_a_time_is_sent_and_the_rest_when_it_is_wanted(
    log: Log, receiver: Receiver
) -> None:
    log.talk("old", at_s=-90 * 86_400)
    log.talk("new")
    assert log.push(receiver, "--since", "2026-09-01")["sessions"] == 1
    assert log.push(receiver)["sessions"] == 1
    assert once(receiver, log, tools=2)


# -- tools


def test_a_tool_is_sent_once_where_its_result_came_before_its_call_was_in_the_log(
    log: Log, receiver: Receiver
) -> None:
    talk = log.conversations.session("talk")
    frames = response(*call("roll", "{}"))
    first = talk.exchange(frames[:-1], asking("Go"), ended=False)
    log.made.add(span_id(first.exchange_id))
    log.add(talk, 3, [*asking("Go"), *answering("6")])
    log.push(receiver)
    assert tools_of(receiver) == {}
    end(log, first)
    log.push(receiver)
    assert tools_of(receiver) == {"execute_tool roll": 1}
    assert once(receiver, log, tools=1)


def test_a_tool_is_sent_once_where_an_earlier_request_turns_out_to_have_brought_its_result(
    log: Log, receiver: Receiver
) -> None:
    talk = log.talk("talk", turns=1)
    asked = [*asking("Go"), *answering("6", "call_0")]
    slow = talk.exchange(response(*message("One")), asked, at_s=20, ended=False)
    log.add(talk, 3, asked)
    log.push(receiver)
    assert tools_of(receiver) == {"execute_tool roll": 1}
    end(log, slow)
    log.made.add(span_id(slow.exchange_id))
    assert log.push(receiver)["spans"] == 1
    assert once(receiver, log, tools=1)


# -- the collector


def test_a_refusal_ends_the_push_and_what_was_taken_stays_so(
    file: Log, receiver: Receiver, small_batches: None
) -> None:
    file.talk("talk", turns=4)
    receiver.plan(Answer(), Answer(), Answer(400, b'{"code":3,"message":"no room"}'))
    ran = run(file.database, "export", "--to", receiver.url)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert ran.err.startswith(f"Error: {receiver.url} refused it with status 400: no room.")
    assert file.rows() == 1
    file.push(receiver)
    assert once(receiver, file, tools=3)


def test_a_batch_that_is_too_large_is_sent_in_halves(file: Log, receiver: Receiver) -> None:
    file.talk("talk", turns=4)
    receiver.plan(Answer(413), Answer(413))
    file.push(receiver)
    assert once(receiver, file, tools=3)
    sent = [
        len(each.message.resource_spans[0].scope_spans[0].spans)
        for each in receiver.requests
        if "tra" in each.path
    ]
    assert sent == [7, 4, 2, 2, 3]


def test_a_collector_without_metrics_is_told_how_to_do_without(
    file: Log, receiver: Receiver
) -> None:
    file.talk("talk")
    receiver.plan(Answer(), Answer(404, b"404 page not found"))
    ran = run(file.database, "export", "--to", receiver.url)
    assert (ran.code, "`--no-metrics` sends the spans alone." in ran.err) == (1, True)
    assert file.push(receiver, "--no-metrics")["exchanges"] == 0
    assert once(receiver, file, tools=1)
    row = file.push(receiver)
    assert (row["spans"], row["exchanges"]) == (0, 2)
    assert measured(receiver)["gen_ai.client.operation.duration"] == 2


def test_what_a_collector_rejects_is_said_and_not_sent_again(file: Log, receiver: Receiver) -> None:
    file.talk("talk")
    receiver.plan(Answer(200, b'{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too old"}}'))
    ran = run(file.database, "export", "--to", receiver.url)
    assert "The collector rejected 2 spans: too old.\n" in ran.err
    assert file.push(receiver)["exchanges"] == 0
    assert once(receiver, file, tools=1)


def test_another_form_of_the_spans_is_sent_for_itself_and_the_metrics_are_not(
    file: Log, receiver: Receiver
) -> None:
    file.talk("talk")
    file.push(receiver)
    before = measured(receiver)
    for options in (["--content"], ["--convention", "1.37.0"], ["--content"]):
        file.push(receiver, *options)
    assert set(receiver.span_ids.values()) == {3}
    assert measured(receiver) == before
    texts = [span for span in receiver.spans if b"result 0" in span.SerializeToString()]
    assert len(texts) == 2  # the tool, and the request that brought its result


def test_a_fragment_tells_collectors_of_one_url_apart(file: Log, receiver: Receiver) -> None:
    file.talk("talk")
    for url in (receiver.url, f"{receiver.url}#b", f"{receiver.url}/v1/traces#b"):
        assert run(file.database, "export", "--to", url, "--no-metrics").code == 0
    assert set(receiver.span_ids.values()) == {2}
    assert {request.path for request in receiver.requests} == {"/v1/traces"}


# -- what is kept of an answer


def test_what_is_taken_is_recorded_before_anything_else_is_sent(
    file: Log, receiver: Receiver, small_batches: None
) -> None:
    file.talk("talk", turns=4)
    found: list[int] = []
    receiver.plan(*(Answer(before=lambda: found.append(file.rows())) for _ in range(6)))
    file.push(receiver)
    assert found == [0, 1, 1, 2, 2, 4]  # spans and metrics of three batches


@asynccontextmanager
async def pushing(log: Log, receiver: Receiver, sleep: Sleep) -> AsyncIterator[push.Pusher]:
    """A push of spans, with pauses of the test's own, that does not wait for a lock by itself."""
    endpoint = endpoint_of(receiver.url)
    ways: dict[str, Any] = {
        "attempts": 1,
        "chance": time.time,
        "now_s": time.time,
        "say": print,
        "sleep": sleep,
    }
    more: dict[str, Any] = {"has_content": False, "busy_s": 60, "say": print, "sleep": sleep}
    async with await LogReader.open(log.database) as reader, httpx.AsyncClient() as client:
        with Store(log.database, busy_timeout_s=0.01) as store:
            collector = Collector(client, endpoint, {}, **ways)
            due = ExportCursor(reader, store, endpoint.name, "form", ["traces"])
            yield push.Pusher(reader, due, collector, convention_of(), **more)


async def test_a_push_that_goes_on_finds_old_sessions_in_its_sweeps(
    file: Log, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    async def pause(_: float) -> None:
        looks.append(len(receiver.spans))
        if len(looks) == 2:
            raise KeyboardInterrupt
        file.talk("old", at_s=-90 * 86_400)

    monkeypatch.setattr(push, "SWEEP_S", 0)
    file.talk("new")
    async with pushing(file, receiver, pause) as pusher:
        with pytest.raises(KeyboardInterrupt):
            await pusher.follow()
    assert looks == [3, 6]
    assert once(receiver, file, tools=2)


# -- the database


async def test_a_database_that_is_locked_is_waited_for(file: Log, receiver: Receiver) -> None:
    """With the answer of the collector in hand: what it took is not sent again."""
    file.talk("talk")
    held = contextlib.ExitStack()
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            held.close()

    receiver.plan(
        Answer(before=lambda: held.enter_context(write_lock(database_path(file.database), 5)))
    )
    async with pushing(file, receiver, pause) as pusher:
        await pusher.push()
        await pusher.push()
    assert pauses == [push.BUSY_PAUSE_S] * 3
    assert once(receiver, file, tools=1)


@pytest.mark.long
def test_a_purge_takes_the_rows_of_its_session_and_no_row_comes_after_it(
    log: Log, receiver: Receiver
) -> None:
    talk = log.talk("talk")
    log.talk("other")
    log.push(receiver)
    gone(log, talk)
    meanwhile = log.talk("meanwhile")
    receiver.plan(Answer(before=lambda: gone(log, meanwhile)))
    log.push(receiver)
    with connected(log.database) as connection:
        left = {str(row[0]) for row in connection.execute("SELECT session_id FROM export_cursors")}
        kept = {str(row[0]) for row in connection.execute("SELECT session_id FROM sessions")}
    assert left == kept


def gone(log: Log, talk: Conversation) -> None:
    with Store(log.database) as store:
        assert purge(store, talk.session.session_id, "asked for", 1)


@pytest.mark.long
def test_one_push_to_a_collector_at_a_time(log: Log, receiver: Receiver) -> None:
    """The other is in a process of its own: it waits for the first while that waits for the
    collector.
    """
    log.talk("talk")
    others = []
    second = ("export", "--to", receiver.url, "--content")
    receiver.plan(Answer(before=lambda: others.append(run_apart(log.database, *second))))
    log.push(receiver)
    [other] = others
    assert (other.code, other.out) == (1, b"")
    assert "Another `recorder export --to` sends" in other.err
    assert once(receiver, log, tools=1)
