"""The view `requests`: what each request continues, in whatever order exchanges are projected."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from recorder.model.events import Exchange
from recorder.projections.exchanges import linked
from recorder.projections.rows import RequestRow
from recorder.recordings.loader import load_continued, load_exchanges, load_session
from recorder.recordings.selection import select_exchanges
from recorder.store.location import database_url
from recorder.store.maintain.rebuild import rebuild
from recorder.store.queries.reader import LogReader
from recorder.store.sql import Statement
from recorder.store.write import links
from recorder.store.write.writer import Store
from recorder.wire.logical_request import LogicalRequests
from tests.support.conversations import (
    Conversation,
    Conversations,
    call,
    message,
    response,
    sse,
    thought,
)
from tests.support.empty_log import empty
from tests.support.superuser import asked, connected

COLUMNS = "previous_exchange_id, depth, is_complete, input_items, logical_items"


@pytest.fixture
def database(tmp_path: Path) -> URL:
    """A log in a file: `test_contract.py` has the same on a server."""
    return database_url(empty(tmp_path / "log.db"))


def asks(*items: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "gpt-5", "stream": True, "input": list(items), **fields}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def rows(url: URL, session: str = "run") -> list[tuple[Any, ...]]:
    sql = f"SELECT {COLUMNS} FROM requests WHERE session_name = '{session}' ORDER BY exchange_id"
    return [(None if row[0] is None else str(row[0]), *row[1:]) for row in asked(url, sql)]


def chain(session: Conversation) -> list[Exchange]:
    """A prewarm, a question whose answer calls a tool, the result, and another question."""
    result = {"type": "function_call_output", "call_id": "call_1", "output": "7"}
    return [
        session.exchange(response(id="resp_w"), body=asks(user("rules"), generate=False)),
        session.exchange(
            response(*thought("Hm."), *call("roll", "{}", index=1), id="resp_1"),
            body=asks(user("Roll."), previous_response_id="resp_w"),
            at_s=1,
        ),
        session.exchange(
            response(*message("7"), id="resp_2"),
            body=asks(result, previous_response_id="resp_1"),
            at_s=2,
        ),
        session.exchange(
            response(*message("No"), id="resp_3"),
            body=asks(user("?"), user("!"), previous_response_id="resp_2"),
            at_s=3,
        ),
    ]


def expected(exchanges: list[Exchange]) -> list[tuple[Any, ...]]:
    ids = [None, *(each.exchange_id for each in exchanges)]
    counts = [(0, 1, 1, 1), (1, 1, 1, 2), (2, 1, 1, 5), (3, 1, 2, 8)]
    return [(id, *count) for id, count in zip(ids, counts, strict=False)]


@pytest.mark.long
def test_a_request_stands_behind_the_one_that_it_continues_in_any_order(database: URL) -> None:
    exchanges = chain(Conversations(database).session("run"))
    assert rows(database) == expected(exchanges)
    for order in permutations(exchanges):
        asked(database, "DELETE FROM p_requests_v1")
        with Store(database) as store, store.transaction():
            for each in order:
                store.projector.project(each.session_id, each.exchange_id)
        assert rows(database) == expected(exchanges)


@pytest.mark.parametrize("together", [(0, 1, 2, 3), (3, 1), (2, 0), (1, 2)])
def test_requests_that_are_projected_together_stand_where_they_do_alone(
    database: URL, together: tuple[int, ...]
) -> None:
    exchanges = chain(Conversations(database).session("run"))
    asked(database, "DELETE FROM p_requests_v1")
    keys = [(each.session_id, each.exchange_id) for each in exchanges]
    with Store(database) as store, store.transaction():
        store.projector.project_all([keys[number] for number in together])
        store.projector.project_all(
            [key for number, key in enumerate(keys) if number not in together]
        )
    assert rows(database) == expected(exchanges)


async def test_the_counts_are_those_of_the_request_put_together(database: URL) -> None:
    chain(Conversations(database).session("run"))
    async with await LogReader.open(database) as log:
        recordings = (await load_session(log, "run")).recordings
    found = [LogicalRequests(recordings).of(each) for each in recordings]
    assert [(each.depth, sum(len(part.items) for part in each.parts)) for each in found] == [
        (row[1], row[4]) for row in rows(database)
    ]


def test_what_the_session_does_not_have_is_said(database: URL) -> None:
    made = Conversations(database)
    made.session("other").exchange(response(id="resp_x"), body=asks(user("Hi")))
    session = made.session("run")
    session.exchange(response(id="resp_1"), body=asks(user("So?"), previous_response_id="resp_x"))
    second = session.exchange(
        response(id="resp_2"), body=asks(user("Oh?"), previous_response_id="resp_1"), at_s=1
    )
    assert [row[1:] for row in rows(database)] == [(0, 0, 1, 1), (1, 0, 1, 2)]
    [(prewarms, turns)] = asked(database, "SELECT sum(is_prewarm), sum(is_turn) FROM requests")
    assert (int(prewarms), int(turns)) == (0, 3)
    assert second.exchange_id not in [row[0] for row in rows(database)]


def test_a_conversation_is_put_together_as_far_as_it_is_known(database: URL) -> None:
    session = Conversations(database).session("run")
    first = session.exchange(response(*message("Hi")), body=asks(user("Hi"), conversation="conv_1"))
    session.exchange(
        response(id="resp_2"), body=asks(user("So?"), conversation={"id": "conv_1"}), at_s=1
    )
    assert rows(database) == [(None, 0, 0, 1, 1), (first.exchange_id, 1, 0, 1, 3)]


def conversation(session: Conversation, length: int) -> list[Exchange]:
    """Requests of one conversation, of which every other one got a response."""
    ids = [{"id": f"resp_{number}"} if number % 2 == 0 else {} for number in range(length)]
    return [
        session.exchange(
            response(**id) if id else [b": nothing"],
            body=asks(user("?"), conversation="c"),
            at_s=number,
        )
        for number, id in enumerate(ids)
    ]


@pytest.mark.long
def test_a_conversation_is_the_same_in_any_order(database: URL) -> None:
    exchanges = conversation(Conversations(database).session("run"), 4)
    wanted = rows(database)
    assert [row[1] for row in wanted] == [0, 1, 1, 2]
    for order in permutations(exchanges):
        asked(database, "DELETE FROM p_requests_v1")
        with Store(database) as store, store.transaction():
            for each in order:
                store.projector.project(each.session_id, each.exchange_id)
        assert rows(database) == wanted
        asked(database, "DELETE FROM p_requests_v1")
        with Store(database) as store, store.transaction():
            store.projector.project_all([(each.session_id, each.exchange_id) for each in order])
        assert rows(database) == wanted


@pytest.mark.long
def test_a_long_conversation_is_rebuilt_in_linear_time(
    database: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []
    exchanges = conversation(Conversations(database).session("run"), 60)

    def counted(row: RequestRow, *rest: Any) -> RequestRow:
        looked_up.append(row.exchange_id)
        return linked(row, *rest)

    monkeypatch.setattr(links, "linked", counted)
    with Store(database) as store:
        rebuild(store, lambda done, total: None)
    assert len(looked_up) < 6 * len(exchanges)


def test_a_response_that_is_retrieved_later_counts_with_all_its_items(database: URL) -> None:
    session = Conversations(database).session("run")
    queued = {"object": "response", "id": "resp_1", "status": "queued", "output": []}
    frames, kind = [json.dumps(queued).encode()], "application/json"
    session.exchange(frames, body=asks(user("Hi"), background=True), content_type=kind)
    session.exchange(
        response(id="resp_2"), body=asks(user("So?"), previous_response_id="resp_1"), at_s=2
    )
    assert [row[4] for row in rows(database)] == [1, 2]
    whole = {
        "object": "response",
        "id": "resp_1",
        "status": "completed",
        "output": [{"type": "message"}],
    }
    session.exchange(
        *([json.dumps(whole).encode()], None),
        content_type=kind,
        at_s=1,
        method="GET",
        target="/v1/responses/resp_1",
        resumes_response_id="resp_1",
    )
    assert len(rows(database)) == 2
    assert [row[4] for row in rows(database)] == [1, 3]


def retrieved(session: Conversation) -> list[Exchange]:
    """A response that is retrieved between two requests that continue it."""
    whole = {
        "object": "response",
        "id": "resp_1",
        "output": [{"type": "message"}, {"type": "message"}],
    }
    made = [session.exchange(response(id="resp_1"), body=asks(user("Hi")))]
    made.append(
        session.exchange(
            response(id="resp_2"), body=asks(user("A"), previous_response_id="resp_1"), at_s=1
        )
    )
    retrieval: dict[str, Any] = {
        "method": "GET",
        "target": "/v1/responses/resp_1",
        "resumes_response_id": "resp_1",
    }
    frames = [json.dumps(whole).encode()]
    made.append(
        session.exchange(frames, None, content_type="application/json", at_s=2, **retrieval)
    )
    made.append(
        session.exchange(
            response(id="resp_3"), body=asks(user("B"), previous_response_id="resp_1"), at_s=3
        )
    )
    return made


@pytest.mark.parametrize("together", [True, False])
def test_a_response_that_is_retrieved_counts_for_requests_after_it_only(
    database: URL, together: bool
) -> None:
    made = retrieved(Conversations(database).session("run"))
    keys = [(each.session_id, each.exchange_id) for each in made]
    with Store(database) as store, store.transaction():
        for some in [keys] if together else [[key] for key in reversed(keys)]:
            store.projector.project_all(some)
    assert [row[4] for row in rows(database)] == [1, 2, 4]


def test_a_prewarm_is_no_turn(database: URL) -> None:
    chain(Conversations(database).session("run"))
    found = asked(database, "SELECT purpose FROM exchange_summary ORDER BY exchange_id")
    assert found == [("prewarm",), ("turn",), ("turn",), ("turn",)]
    assert asked(database, "SELECT title, turns FROM session_summary") == [("Roll.", 2)]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 2, 0, 3)], ids=str)
@pytest.mark.parametrize("together", [True, False])
def test_any_id_of_a_response_whose_id_rotates_leads_to_it(
    database: URL, order: tuple[int, ...], together: bool
) -> None:
    """GitHub Copilot has another id in each event."""
    session = Conversations(database).session("run")
    types = ["response.created", "response.in_progress", "response.completed"]
    ids = [f"resp_{number}" for number in range(3)]
    frames = [
        sse(type, response={"id": id, "model": "m", "output": []})
        for type, id in zip(types, ids, strict=True)
    ]
    exchanges = [session.exchange(frames, body=asks(user("hi")))]
    for number, id in enumerate(ids, 1):
        body = asks(user("more"), previous_response_id=id)
        exchanges.append(session.exchange(response(id=f"last_{number}"), body=body, at_s=number))
    keys = [(exchanges[at].session_id, exchanges[at].exchange_id) for at in order]
    with Store(session.database) as store, store.transaction():
        for some in [keys] if together else [[key] for key in keys]:
            store.projector.project_all(some)
    assert [row[:2] for row in rows(session.database)] == [
        (None, 0),
        *[(exchanges[0].exchange_id, 1)] * 3,
    ]


async def test_those_that_an_exchange_continues_are_found(database: URL) -> None:
    chain(Conversations(database).session("run"))
    async with await LogReader.open(database) as log:
        session, chosen = await select_exchanges(log, "run", "4")
        recordings = await load_exchanges(log, session, chosen)
        assert [each.number for each in await load_continued(log, session, recordings)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("_RESPONSE", "response (session_id=? AND response_id=? AND exchange_id<?)"),
        ("_CONVERSATION", "conversation (session_id=? AND conversation_id=? AND exchange_id<?)"),
        (
            "_OUTPUTS",
            "response (session_id=? AND response_id=? AND exchange_id>? AND exchange_id<?)",
        ),
        (
            "_CONTINUING",
            "previous_response (session_id=? AND previous_response_id=? AND exchange_id>?)",
        ),
        (
            "_CONVERSING",
            "conversation (session_id=? AND conversation_id=? AND exchange_id>? AND exchange_id<?)",
        ),
    ],
)
def test_a_link_is_sought_by_its_index(database: URL, name: str, index: str) -> None:
    statement: Statement = getattr(links, name)
    values = dict.fromkeys((*RequestRow.__struct_fields__, "of_response", "after"))
    with connected(database) as connection:
        steps = [
            step[3]
            for step in connection.execute(f"EXPLAIN QUERY PLAN {statement.text('sqlite')}", values)
        ]
    assert steps[0] == f"SEARCH r USING INDEX p_requests_v1_{index}"
