"""The contract of a store: one log in a file and the same on a server are one log to whoever asks.

Each statement that reads, projects, rebuilds, verifies or purges runs here on both engines, over a
log with all that a statement may meet. What each writes is in `test_writer.py`. The rules of
projections and views are tested in a file.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import URL

from recorder.projections.views.contract import VIEWS
from recorder.store.engine import querying_of
from recorder.store.location import database_url
from recorder.store.maintain.purge.delete import purge
from recorder.store.maintain.rebuild import rebuild
from recorder.store.search import INDEX_NAMES
from recorder.store.write.writer import Store
from tests.integration.store.test_cache_links import agent
from tests.integration.store.test_parameters import filled
from tests.integration.store.test_request_links import chain, conversation, retrieved
from tests.support import superuser
from tests.support.conversations import Conversations
from tests.support.empty_log import empty
from tests.support.postgres import Server
from tests.support.questions import answers
from tests.support.rows import (
    PROJECTED,
    START_NS,
    a_conversation,
    forget_projections,
    make_id,
    price_rows,
    put,
    put_prices,
    reindex,
    written,
)
from tests.support.server import run

WORDS = ("dice", "roll", "hm", "yes", "question", "why", "7", "gone", "nowhere")


class Engines(NamedTuple):
    """The same log on each engine."""

    file: URL
    server: URL


def fill(url: URL) -> None:
    """All that a question may show: rows put in by hand, and sessions that the projector made its
    rows of.
    """
    with written(url) as connection:
        a_conversation(connection)
        reindex(connection)
        put(
            connection,
            *price_rows("gpt-5%", "openai", 5, input="1.25", cache_read="0.125", output="10"),
        )
    made = Conversations(url)
    chain(made.session("linked", 100))
    conversation(made.session("conversing", 200), 4)
    retrieved(made.session("retrieving", 300))
    agent(made.session("cached", 400))
    filled(made.session("asking", 100_000))
    put_prices(url, "m", input="1", output="2")


@pytest.fixture(scope="module")
def engines(
    postgres_server: Server, postgres_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engines]:
    file = database_url(empty(tmp_path_factory.mktemp("contract") / "log.db"))
    server = database_url(postgres_server.create(postgres_template))
    for url in (file, server):
        fill(url)
    yield Engines(file, server)
    postgres_server.drop(server)


def rows(url: URL, table: str) -> list[Any]:
    """All rows of a table, in an order of their own."""
    return sorted(map(repr, superuser.asked(url, f"SELECT * FROM {table}")))


def projected(url: URL) -> dict[str, list[Any]]:
    """The rows of all projections but of the indexes of words, which each engine keeps in its own
    way.
    """
    return {table: rows(url, table) for table in PROJECTED if table not in INDEX_NAMES}


def differences(both: Engines, of: Callable[[URL], dict[str, Any]]) -> dict[str, tuple[Any, Any]]:
    """What of the same log is not the same on both engines."""
    here, there = (of(url) for url in both)
    assert here.keys() == there.keys()
    assert here
    return {name: (here[name], there[name]) for name in here if here[name] != there[name]}


def test_both_keep_the_same_rows(engines: Engines) -> None:
    log = superuser.tables(engines.file)
    assert (
        differences(
            engines,
            lambda url: {table: rows(url, table) for table in log if table not in INDEX_NAMES},
        )
        == {}
    )


def test_each_question_of_the_reader_has_the_same_answer(engines: Engines) -> None:
    assert differences(engines, answers) == {}


def of_views(url: URL) -> dict[str, Any]:
    found = {}
    with querying_of(url).query(url) as query:
        for view in VIEWS:
            result = query.ask(f"SELECT * FROM {view.name}")
            found[view.name] = result.columns, sorted(result.rows, key=repr)
    return found


def test_each_view_has_the_same_rows(engines: Engines) -> None:
    assert differences(engines, of_views) == {}
    assert [name for name, (_, rows) in of_views(engines.file).items() if not rows] == []


def test_each_word_is_found_in_the_same_texts(engines: Engines) -> None:
    found = {word: [superuser.matching(url, word) for url in engines] for word in WORDS}
    assert [word for word, (here, there) in found.items() if here != there] == []
    assert [word for word, (here, _) in found.items() if not here] == ["nowhere"]
    for url in engines:
        superuser.check_search(url)


# -- what changes a log


@pytest.fixture(params=Engines._fields)
def log(
    engines: Engines, postgres_server: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[URL]:
    """A copy of the log, without the session whose rows were put in by hand."""
    if request.param == "file":
        url = database_url(shutil.copy(engines.file.database or "", tmp_path / "log.db"))
    else:
        url = database_url(postgres_server.create(engines.server.database))
    with Store(url) as store:
        assert purge(store, make_id(1), "made by hand", START_NS)
    yield url
    if request.param == "server":
        postgres_server.drop(url)


def session_named(url: URL, name: str) -> str:
    [(session_id,)] = superuser.asked(
        url, "SELECT CAST(session_id AS text) FROM sessions WHERE name = ?", name
    )
    return str(session_id)


def test_a_rebuild_gives_the_same_rows(log: URL) -> None:
    before = projected(log)
    forget_projections(log)
    with Store(log) as store:
        assert rebuild(store, lambda done, total: None).put_aside == []
    assert projected(log) == before
    superuser.check_search(log)


@pytest.mark.parametrize("together", [True, False])
def test_projected_from_the_last_to_the_first_the_rows_are_the_same(
    log: URL, together: bool
) -> None:
    with Store(log) as store:
        purge(
            store,
            session_named(log, "conversing"),
            "its first prompt is known to the provider alone",
            START_NS,
        )
    before = projected(log)
    forget_projections(log)
    ended = (
        "SELECT session_id, exchange_id FROM events WHERE kind = 'end' ORDER BY exchange_id DESC"
    )
    keys = [
        (str(session_id), str(exchange_id))
        for session_id, exchange_id in superuser.asked(log, ended)
    ]
    with Store(log) as store, store.transaction():
        for some in [keys] if together else [[key] for key in keys]:
            store.projector.project_all(some)
    assert projected(log) == before
    superuser.check_search(log)


def test_a_row_that_no_fold_makes_is_found(log: URL) -> None:
    changes = {
        "p_requests_v1": "depth = 9",
        "p_prompts_v1": "path = 'x'",
        "p_parameters_v1": "temperature = 0.25",
    }
    assert b"p_" not in run(log, "verify").out
    for table, change in changes.items():
        superuser.asked(log, f"UPDATE {table} SET {change}")
    ran = run(log, "verify")
    assert ran.code == 4
    assert [table for table in changes if table.encode() not in ran.out] == []


def test_a_purged_session_leaves_a_tombstone_and_all_others(log: URL) -> None:
    gone = session_named(log, "linked")
    before = superuser.dumped(log)
    with Store(log) as store:
        assert purge(store, gone, "a secret", START_NS)
    after = superuser.dumped(log)
    of_it = {name for name, rows in after.items() if [row for row in rows if gone in row]}
    assert of_it == {"tombstones"}
    changed = {
        name: rows for name, rows in before.items() if name not in (*INDEX_NAMES, "tombstones")
    }
    others = {name: [row for row in rows if gone not in row] for name, rows in changed.items()}
    assert {name: after[name] for name in others} == others
    superuser.check_search(log)
