"""The view `cache_misses`: what each request is compared with, in whatever order exchanges are
projected.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from recorder.model.events import Exchange
from recorder.store.location import database_url
from recorder.store.sql import Statement
from recorder.store.write import links
from recorder.store.write.writer import Store
from tests.support.conversations import Conversation, Conversations, message, response
from tests.support.empty_log import empty
from tests.support.superuser import asked

RULES = "You are an agent. " * 400
TOOLS = [
    {"type": "function", "name": f"tool_{n}", "description": f"Does {n}. " * 40} for n in range(6)
]
COLUMNS = "cache_class, path, could_tokens, cached_tokens, missed_tokens, is_estimate, since_use_ns"


@pytest.fixture
def database(tmp_path: Path) -> URL:
    """A log in a file: `test_contract.py` has the same on a server."""
    return database_url(empty(tmp_path / "log.db"))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def turn(
    session: Conversation,
    items: list[Any],
    at_s: float,
    input: int,
    cached: int | None,
    **fields: Any,
) -> Exchange:
    """One request with so many input tokens, of which the provider had some in its cache."""
    usage: dict[str, Any] = {"input_tokens": input, "output_tokens": 10, "total_tokens": input + 10}
    if cached is not None:
        usage |= {"input_tokens_details": {"cached_tokens": cached}}
    body = {"model": "gpt-5", "instructions": RULES, "tools": TOOLS, "input": items, **fields}
    id = f"resp_{round(at_s * 10)}"
    return session.exchange(response(*message("Yes."), id=id, usage=usage), body=body, at_s=at_s)


def rows(url: URL) -> list[tuple[Any, ...]]:
    return asked(url, f"SELECT {COLUMNS} FROM p_prompts_v1 ORDER BY exchange_id")


def agent(session: Conversation) -> list[Exchange]:
    """A question and its continuation; with other rules, as before, after a pause, without its
    beginning.
    """
    items = [user(f"Question {n}: " + "why? " * 200) for n in range(8)]
    return [
        turn(session, items[:1], 0, 3000, 0),
        turn(session, items[:2], 10, 3100, 2944),
        turn(session, items[:3], 20, 3200, 1408, instructions=f"On Monday. {RULES}"),
        turn(session, items[:4], 30, 3300, 2944),
        turn(session, items[:5], 90000, 3400, 0),
        turn(session, items[3:6], 90010, 2900, 2048),
    ]


def test_each_turn_has_its_class(database: URL) -> None:
    agent(Conversations(database).session("run"))
    assert [row[:2] for row in rows(database)] == [
        ("first", None),
        ("hit", None),
        ("prefix_changed", "instructions"),
        ("hit", None),
        ("lapsed", None),
        ("history_shortened", "input[0]"),
    ]


@pytest.mark.parametrize("order", [(5, 4, 3, 2, 1, 0), (1, 0, 3, 2, 5, 4), (2, 5, 0, 3, 1, 4)])
def test_the_order_of_projection_changes_nothing(database: URL, order: tuple[int, ...]) -> None:
    exchanges = agent(Conversations(database).session("run"))
    wanted = asked(database, "SELECT * FROM p_prompts_v1 ORDER BY exchange_id")
    asked(database, "DELETE FROM p_prompts_v1")
    with Store(database) as store, store.transaction():
        for number in order:
            store.projector.project(exchanges[number].session_id, exchanges[number].exchange_id)
    assert asked(database, "SELECT * FROM p_prompts_v1 ORDER BY exchange_id") == wanted


@pytest.mark.long
@pytest.mark.parametrize("together", [(0, 1, 2, 3, 4, 5), (1, 3, 5), (4, 5), (0, 2)])
def test_what_is_projected_together_is_compared_as_alone(
    database: URL, together: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [
        (each.session_id, each.exchange_id)
        for each in agent(Conversations(database).session("run"))
    ]
    wanted = asked(database, "SELECT * FROM p_prompts_v1 ORDER BY exchange_id")
    asked(database, "DELETE FROM p_prompts_v1")
    monkeypatch.setattr(links, "NEAR", 1)  # so that a row before them all is asked for alone
    monkeypatch.setattr(links, "_NEAR", Statement(f"{links._EARLIER_ROWS} LIMIT 1"))
    with Store(database) as store, store.transaction():
        store.projector.project_all(
            [key for number, key in enumerate(keys) if number not in together]
        )
        store.projector.project_all([keys[number] for number in together])
    assert asked(database, "SELECT * FROM p_prompts_v1 ORDER BY exchange_id") == wanted


def test_a_stored_request_between_new_ones_is_compared_with(database: URL) -> None:
    """The first one got its response after the second had begun: it has no part in what that is
    compared with.
    """
    session = Conversations(database).session("run")
    body = {"model": "gpt-5", "instructions": RULES, "input": [user("why? " * 200)]}
    frames = response(
        *message("Yes."), usage={"input_tokens": 3000, "output_tokens": 1, "total_tokens": 3001}
    )
    exchanges = [session.exchange(frames, body=body, at_s=at_s) for at_s in (0, 0.01, 5)]
    wanted = asked(database, "SELECT * FROM p_prompts_v1 ORDER BY exchange_id")
    keys = [(each.session_id, each.exchange_id) for each in exchanges]
    with Store(database) as store, store.transaction():
        store.projector.project_all([keys[0], keys[2]])
    assert asked(database, "SELECT * FROM p_prompts_v1 ORDER BY exchange_id") == wanted
    assert (
        str(
            asked(database, "SELECT max(CAST(previous_exchange_id AS text)) FROM p_prompts_v1")[0][
                0
            ]
        )
        == keys[1][1]
    )


def test_stored_requests_before_the_first_of_several_new_ones_are_compared_with(
    database: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "NEAR", 1)
    monkeypatch.setattr(links, "_NEAR", Statement(f"{links._EARLIER_ROWS} LIMIT 1"))
    session = Conversations(database).session("run")
    exchanges = [turn(session, [user("why? " * 200)], at_s, 3000, 2944) for at_s in (0, 5, 10, 15)]
    wanted = asked(database, "SELECT * FROM p_prompts_v1 ORDER BY exchange_id")
    asked(database, "DELETE FROM p_prompts_v1")
    keys = [(each.session_id, each.exchange_id) for each in exchanges]
    with Store(database) as store, store.transaction():
        store.projector.project_all([keys[0], keys[2]])
    with Store(database) as store, store.transaction():
        store.projector.project_all([keys[1], keys[3]])
    assert asked(database, "SELECT * FROM p_prompts_v1 ORDER BY exchange_id") == wanted
