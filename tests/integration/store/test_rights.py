"""Who sees what of a log on a server: what a login that reads its own rows tries, and never gets."""

from __future__ import annotations

import json
from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import URL

from recorder.model.attribution import Attribution
from recorder.model.events import ResponseHead, Session
from recorder.projections.views.contract import VIEWS
from recorder.store.engine import OWN_READER_ROLE, schema_of
from recorder.store.maintain import migrate
from recorder.store.maintain.declared import schema_differences
from recorder.store.postgres.ddl import SCHEMA
from recorder.store.postgres.rights import GRANTS, OWN_ROWS
from recorder.store.postgres.writer import FEW
from recorder.store.search import INDEXES
from recorder.store.write.writer import Store
from tests.support.conversations import recorded_events
from tests.support.foreign_rows import TRIES, Team, a_team, said_to
from tests.support.postgres import Server, conninfo
from tests.support.rows import START_NS, add, begin, make_events, make_exchange, make_id
from tests.support.server import run
from tests.support.superuser import asked, login


@pytest.fixture(scope="module")
def team(postgres_server: Server, postgres_template: str) -> Iterator[Team]:
    with a_team(postgres_server, postgres_template) as made:
        yield made


@pytest.mark.parametrize("attempt", TRIES, ids=str)
def test_a_login_never_gets_a_row_of_another_owner(
    team: Team, attempt: str | tuple[str, ...]
) -> None:
    statements = [attempt] if isinstance(attempt, str) else attempt
    assert team.foreign_in(said_to(team.ann, *statements)) == []


def test_there_are_at_least_a_hundred_tries() -> None:
    assert len(set(TRIES)) >= 100


@pytest.mark.parametrize("table", [name for name, condition in OWN_ROWS.items() if condition])
def test_without_its_policy_a_table_shows_the_rows_of_others(team: Team, table: str) -> None:
    """So the tries above see them, if they are to be seen."""
    with psycopg.connect(conninfo(team.url), options=f"-c search_path={SCHEMA}") as connection:
        connection.execute(f"ALTER POLICY own_rows ON {table} USING (true)".encode())
        connection.execute(b"SET LOCAL SESSION AUTHORIZATION rights_ann")
        found = str(connection.execute(f"SELECT * FROM {table}".encode()).fetchall())
        connection.rollback()
    assert team.foreign_in(found)


def test_without_the_rights_of_who_asks_a_view_shows_the_rows_of_others(team: Team) -> None:
    with psycopg.connect(conninfo(team.url), options=f"-c search_path={SCHEMA}") as connection:
        connection.execute(b"ALTER VIEW messages SET (security_invoker = false)")
        connection.execute(b"SET LOCAL SESSION AUTHORIZATION rights_ann")
        found = str(connection.execute(b"SELECT * FROM messages").fetchall())
        connection.rollback()
    assert team.foreign_in(found)


def test_a_login_gets_all_rows_of_its_own(team: Team) -> None:
    ids = ", ".join(f"'{exchange.exchange_id}'" for exchange in team.hers)
    of_ann = f"exchange_id IN ({ids})"
    hers = {"readers": "login = 'rights_ann'"}
    hers["sessions"] = f"session_id IN (SELECT session_id FROM exchanges WHERE {of_ann})"
    for index in INDEXES:
        key = ", ".join(index.projection.key)
        hers[index.name] = f"({key}) IN (SELECT {key} FROM {index.projection.table} WHERE {of_ann})"
    for name, condition in OWN_ROWS.items():
        if condition is not None:
            expected = rows(team.url, f"{name} WHERE {hers.get(name, of_ann)}")
            assert (name, rows(team.ann, name)) == (name, expected)
    assert rows(team.ann, "events")
    assert rows(team.ann, "p_search_results_v1")


def rows(url: URL, source: str) -> list[str]:
    return sorted(map(str, asked(url, f"SELECT * FROM {source}")))


def test_a_body_is_put_together_from_rows_of_its_own_owner(team: Team) -> None:
    session = Session(make_id(900), START_NS, "bodies", "path", "{}", "live")
    body = json.dumps({"model": "m", "instructions": "".join(map(str, range(999)))}).encode()
    with Store(team.url) as store, store.transaction():
        store.add_session(session)
        for number, owner in enumerate(("dora", "dora", "cid", "cid")):
            exchange = make_exchange(session, 900 + number)
            store.add_exchange(exchange)
            head = ResponseHead(200, "OK", [])
            store.append(recorded_events(exchange, body, [], "eof", head, (), Attribution(owner)))
            store.projector.project(exchange.session_id, exchange.exchange_id)
    asked(team.url, "INSERT INTO readers VALUES ('rights_cid', 'cid', NULL)")
    cid = login(team.url, "rights_cid", OWN_READER_ROLE)
    of_bodies = (
        "SELECT type FROM events WHERE kind = 'request' AND type IS NOT NULL ORDER BY exchange_id"
    )
    assert asked(cid, of_bodies) == [("body",), ("shared",)]
    exported = run(cid, "export", "bodies")
    assert (exported.code, exported.text.count('998\\"')) == (0, 2), exported.err


def test_who_is_of_no_owner_any_more_sees_nothing_with_the_next_statement(team: Team) -> None:
    asked(team.url, "INSERT INTO readers VALUES ('rights_left', 'ann', NULL)")
    with psycopg.connect(
        conninfo(login(team.url, "rights_left", OWN_READER_ROLE)), autocommit=True
    ) as connection:
        count = f"SELECT count(*) FROM {SCHEMA}.exchanges".encode()
        assert connection.execute(count).fetchone() == (len(team.hers),)
        asked(team.url, "DELETE FROM readers WHERE login = 'rights_left'")
        assert connection.execute(count).fetchone() == (0,)


def test_a_login_without_an_owner_sees_nothing(team: Team) -> None:
    nobody = login(team.url, "rights_nobody", OWN_READER_ROLE)
    assert {name for name in OWN_ROWS if rows(nobody, name)} == set()


def test_a_team_sees_the_rows_of_its_owners(team: Team) -> None:
    asked(
        team.url,
        "INSERT INTO readers VALUES ('rights_lead', NULL, 'ads'), ('rights_lead', NULL, 'search')",
    )
    lead = login(team.url, "rights_lead", OWN_READER_ROLE)
    exchanges = asked(lead, "SELECT CAST(exchange_id AS text) FROM exchanges")
    of_nobody = team.his[-1]
    known = {exchange.exchange_id for exchange in (*team.hers, *team.his)}
    assert {exchange_id for (exchange_id,) in exchanges} == known - {of_nobody.exchange_id}


@pytest.mark.parametrize("role", ["recorder_writer", "recorder_reader"])
def test_who_writes_and_who_reads_all_see_the_rows_of_all(team: Team, role: str) -> None:
    other = login(team.url, f"rights_{role}", role)
    assert {name for name in OWN_ROWS if rows(other, name) != rows(team.url, name)} == set()


def test_a_writer_adds_many_events_at_once_where_they_have_policies(team: Team) -> None:
    with Store(login(team.url, "rights_writes", "recorder_writer")) as store:
        add(store, make_events(begin(store, 77), [b"data: {}\n\n"] * 2 * FEW))


CHANGES = {
    "ALTER POLICY own_rows ON events USING (true)": "the policy events.own_rows was changed",
    "ALTER POLICY own_rows ON events TO public": "the policy events.own_rows was changed",
    "DROP POLICY all_rows ON sessions": "the policy sessions.all_rows is missing",
    "ALTER TABLE p_items_v1 DISABLE ROW LEVEL SECURITY": "the policy p_items_v1 (row security) is missing",
    "ALTER VIEW usage SET (security_invoker = false)": "the view usage (security_invoker) is missing",
    "CREATE POLICY more ON events USING (true)": "the policy events.more was added",
}


@pytest.mark.parametrize(("change", "said"), CHANGES.items())
def test_a_policy_that_was_changed_is_found_and_made_again(
    team: Team, change: str, said: str
) -> None:
    asked(team.url, change)
    assert list(map(str, schema_differences(team.url))) == [said]
    asked(team.url, "DROP POLICY IF EXISTS more ON events")
    with Store(team.url) as store:
        store.grant(GRANTS)
    assert schema_differences(team.url) == []


def test_views_that_are_made_again_keep_the_rights_of_who_asks(team: Team) -> None:
    with schema_of(team.url).migration(team.url) as connection:
        migrate.recreate(connection)
    assert schema_differences(team.url) == []
    for view in VIEWS:
        assert team.foreign_in(said_to(team.ann, f"SELECT * FROM {view.name}")) == []
