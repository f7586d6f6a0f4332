"""A log of two people on a server, and what one of them may try to get the rows of the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg
from sqlalchemy import URL

from recorder.model.attribution import Attribution
from recorder.model.events import Exchange
from recorder.projections.rows import PROJECTIONS
from recorder.projections.views.contract import VIEWS
from recorder.store.engine import OWN_READER_ROLE
from recorder.store.location import database_url
from recorder.store.postgres.ddl import SCHEMA
from recorder.store.postgres.rights import GRANTS, OWN_ROWS
from recorder.store.write.writer import Store
from tests.support.conversations import (
    Conversations,
    answering,
    asking,
    call,
    message,
    response,
    thought,
)
from tests.support.postgres import Server, conninfo
from tests.support.rows import put, row
from tests.support.superuser import asked, connected, login

WORD = "zanzibar"  # in all that Bob said, was told, and named
ANN, BOB = Attribution("ann", "search"), Attribution(WORD, "ads")


class Team(NamedTuple):
    """A log of two people, who have a session each and one together; one more session is of nobody."""

    url: URL  # of its owner
    ann: URL
    hers: list[Exchange]
    his: list[Exchange]

    @property
    def foreign(self) -> list[str]:
        """What a text may not have that Ann gets: words and ids that only rows of others have."""
        ids = {exchange.exchange_id for exchange in self.his}
        ids |= {exchange.session_id for exchange in self.his} - {
            exchange.session_id for exchange in self.hers
        }
        return [WORD, WORD.encode().hex(), *ids, *(id.replace("-", "") for id in ids)]

    def foreign_in(self, text: str) -> list[str]:
        return [word for word in self.foreign if word in text.lower()]


@contextmanager
def a_team(server: Server, template: str) -> Iterator[Team]:
    url = database_url(server.create(template))
    log = Conversations(url)
    hers, his = list[Exchange](), list[Exchange]()
    for name, who, said, exchanges in (
        ("weather", ANN, "sunny", hers),
        (f"{WORD} plans", BOB, WORD, his),
    ):
        session = log.session(name)
        items = [*thought(said), *message(said, index=1), *call("look", f'{{"at": "{said}"}}', 2)]
        asks, tells = (
            response(*items, id=f"{said}_1"),
            response(*message(f"It is {said}."), id=f"{said}_2"),
        )
        exchanges.append(session.exchange(asks, asking(f"How is {said}?"), attribution=who))
        exchanges.append(session.exchange(tells, answering(said), at_s=5, attribution=who))
    shared = log.session("shared")
    hers.append(shared.exchange(response(*message("rain")), asking("Shall we?"), attribution=ANN))
    his.append(
        shared.exchange(
            response(*message(WORD)), asking(f"{WORD}, shall we?"), at_s=5, attribution=BOB
        )
    )
    his.append(log.session(f"{WORD} of nobody").exchange(response(*message(WORD)), asking(WORD)))
    with connected(url) as connection:
        _fill(connection, his[0])
    with Store(url) as store:
        store.grant(GRANTS)
    ann = login(url, "rights_ann", OWN_READER_ROLE)
    asked(
        url,
        f"INSERT INTO readers VALUES ('rights_ann', 'ann', NULL), ('rights_bob', '{WORD}', NULL)",
    )
    asked(url, "ANALYZE")
    yield Team(url, ann, hers, his)
    server.drop(url)


def _fill(connection: psycopg.Connection, exchange: Exchange) -> None:
    """Give each table a row of an exchange, where recording it gave none."""
    ids = exchange.session_id, exchange.exchange_id
    for projection in PROJECTIONS:
        is_there = f"SELECT FROM {projection.table} WHERE session_id = %s AND exchange_id = %s"
        if not connection.execute(is_there.encode(), ids).fetchall():
            put(connection, row(projection.row, exchange))
    of_all = {
        "dead_letters": (*ids, WORD),
        "export_cursors": (*ids, WORD, WORD, 1, 1, None),
        "tombstones": ("00000000-0000-7000-8000-000000000000", 1, WORD, "{}", None),
        "ingest_offsets": (WORD, 1, 1, 1, WORD),
        "archives": (f"/{WORD}", 1),
    }
    for table, values in of_all.items():
        connection.execute(
            f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(values))})".encode(), values
        )


def said_to(url: URL, *statements: str) -> str:
    """All that a login gets of statements, some of which may be refused: rows, notices, errors with
    all they say. What it wrote itself is left out.
    """
    said: list[str] = []
    with psycopg.connect(conninfo(url), options=f"-c search_path={SCHEMA}") as connection:
        connection.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
        for statement in statements:
            try:
                said += _rows(connection, statement)
            except psycopg.Error as error:
                about = error.diag
                said += [
                    str(error),
                    *map(str, (about.message_detail, about.message_hint, about.context)),
                ]
                connection.rollback()
    text = "\n".join(said)
    for statement in statements:
        text = text.replace(statement, "")
    return text


def _rows(connection: psycopg.Connection, statement: str) -> list[str]:
    if statement.startswith("COPY"):
        with connection.cursor().copy(statement.encode()) as copy:
            return [bytes(piece).decode("utf-8", "replace") for piece in copy]
    cursor = connection.execute(statement.encode())
    return [str(found) for found in cursor.fetchall()] if cursor.description else []


# Told at once, whatever it costs the server.
_TELL = (
    "RETURNS bool LANGUAGE plpgsql COST 0.0001 AS 'BEGIN RAISE NOTICE ''%'', a; RETURN true; END'"
)
_TELLS = f"CREATE FUNCTION pg_temp.tell(a text) {_TELL}"
_COLUMNS = (
    *(
        "sessions.name",
        "p_items_v1.text",
        "events.raw",
        "messages.text",
        "p_exchanges_v1.owner",
        "readers.owner",
    ),
    *(
        "exchange_summary.session_name",
        "p_search_v1.words",
        "session_summary.title",
        "p_results_v1.output",
    ),
)
_ROLES = ("recorder_reader", "recorder_writer", "postgres", OWN_READER_ROLE)
_NAMES = "SELECT name FROM sessions"
_NAMED = [*OWN_ROWS, *(view.name for view in VIEWS), "rebuilds"]

OF_TABLES = (
    *(f"SELECT * FROM {name}" for name in _NAMED),
    *(f"SELECT * FROM {name}_other" for name in ("sessions", "exchanges", "events")),
    *(
        f"COPY {name} TO STDOUT"
        for name in ("events", "sessions", "p_items_v1", "p_search_user_texts_v1")
    ),
    *(
        "COPY (SELECT * FROM messages) TO STDOUT",
        "TABLE tool_calls",
        "SELECT * FROM ONLY p_items_v1",
    ),
    *("SELECT to_jsonb(s) FROM sessions AS s", "SELECT row_to_json(x) FROM exchange_summary AS x"),
    "SELECT query_to_xml('SELECT * FROM messages', true, false, '')",
    "SELECT table_to_xml('events', true, false, '')",
    "SELECT schema_to_xml('recorder', true, false, '')",
    "SELECT database_to_xml(true, false, '')",
    "SELECT * FROM events TABLESAMPLE SYSTEM (100)",
    "SELECT * FROM p_items_v1 TABLESAMPLE BERNOULLI (100)",
    "SELECT * FROM p_items_v1 WHERE ctid IN (SELECT ('(0,' || n || ')')::tid FROM generate_series(1, 99) AS n)",
    "SELECT * FROM sessions FOR SHARE",
    "WITH RECURSIVE r AS (SELECT exchange_id FROM exchanges UNION SELECT e.exchange_id FROM events AS e, r) TABLE r",
    "SELECT * FROM sessions AS s, LATERAL (SELECT * FROM events AS e WHERE e.session_id = s.session_id) AS e",
)
OF_WORDS = (
    f"SELECT * FROM sessions WHERE name = '{WORD} plans'",
    f"SELECT session_id FROM p_search_user_texts_v1 WHERE words @@ to_tsquery('simple', '{WORD}')",
    f"SELECT * FROM ts_stat('SELECT words FROM {SCHEMA}.p_search_v1')",
    "SELECT string_agg(text, ' ') FROM p_user_texts_v1",
    "SELECT a.* FROM p_history_v1 AS a JOIN p_history_v1 AS b USING (digest)",
    "SELECT call_key, digest, max(output) FROM p_results_v1 GROUP BY call_key, digest",
    "SELECT owner, team FROM p_exchanges_v1 UNION SELECT owner, team FROM readers",
)
OF_ERRORS = (
    "SELECT CAST(text AS int) FROM p_items_v1",
    "SELECT * FROM p_items_v1 WHERE CAST(text AS int) = 1",
    "SELECT * FROM messages WHERE CAST(text AS json) IS NULL",
    "SELECT * FROM sessions WHERE CAST(name AS date) > now()",
    "SELECT * FROM p_exchanges_v1 WHERE CAST(owner AS uuid) IS NOT NULL",
    "SELECT * FROM events WHERE CAST(convert_from(raw, 'UTF8') AS int) = 1",
    "SELECT * FROM p_user_texts_v1 WHERE 1 / (length(text) - length(text)) = 0",
    "SELECT * FROM p_items_v1 ORDER BY CAST(text AS numeric)",
    "SELECT * FROM event_payloads WHERE CAST(payload AS xml) IS NULL",
)
OF_FUNCTIONS = (
    *(
        (_TELLS, "SELECT * FROM {0} WHERE pg_temp.tell({0}.{1}::text)".format(*each.split(".")))
        for each in _COLUMNS
    ),
    (
        f"CREATE FUNCTION pg_temp.same(a text, b text) {_TELL}",
        "CREATE OPERATOR pg_temp.=== (LEFTARG = text, RIGHTARG = text, FUNCTION = pg_temp.same, RESTRICT = eqsel)",
        "SELECT * FROM p_items_v1 WHERE text OPERATOR(pg_temp.===) 'x'",
    ),
    (
        f"CREATE FUNCTION pg_temp.mine() RETURNS SETOF {SCHEMA}.sessions LANGUAGE sql SECURITY DEFINER "
        f"AS 'SELECT * FROM {SCHEMA}.sessions'",
        "SELECT * FROM pg_temp.mine()",
    ),
    (
        f"CREATE FUNCTION pg_temp.tell(a text) {_TELL} LEAKPROOF",
        "SELECT * FROM sessions WHERE pg_temp.tell(name)",
    ),
    (f"CREATE TEMP VIEW mine AS SELECT * FROM {SCHEMA}.messages", "SELECT * FROM mine"),
    (f"CREATE TEMP TABLE copied AS SELECT * FROM {SCHEMA}.p_items_v1", "SELECT * FROM copied"),
    # the sixth has a plan for all values
    ("PREPARE asked AS SELECT * FROM sessions", *["EXECUTE asked"] * 7),
    ("DECLARE c CURSOR WITH HOLD FOR SELECT * FROM messages", "FETCH ALL FROM c"),
    f"DO $$ BEGIN RAISE NOTICE '%', (SELECT string_agg(name, ' ') FROM {SCHEMA}.sessions); END $$",
    "SELECT add_partitions(1)",
)
OF_OTHERS = (
    *((f"SET ROLE {role}", "SELECT * FROM sessions") for role in _ROLES),
    *(
        (f"SET SESSION AUTHORIZATION {role}", "SELECT * FROM sessions")
        for role in (*_ROLES, "rights_bob")
    ),
    ("SET session_authorization = 'rights_bob'", _NAMES),
    ("SET row_security = off", "SELECT * FROM events"),
    (
        "SET search_path = pg_temp, recorder",
        f"CREATE TEMP TABLE readers AS SELECT 'rights_ann', '{WORD}', ''",
        _NAMES,
    ),
    ("CREATE TEMP TABLE p_exchanges_v1 AS SELECT session_id FROM recorder.sessions", _NAMES),
    (
        "CREATE FUNCTION pg_temp.session_user() RETURNS name LANGUAGE sql AS $$SELECT name 'rights_bob'$$",
        _NAMES,
    ),
    (f"INSERT INTO readers VALUES ('rights_ann', '{WORD}', NULL)", _NAMES),
    (f"UPDATE readers SET owner = '{WORD}'", _NAMES),
    ("DELETE FROM readers WHERE owner <> 'ann'", "SELECT * FROM readers"),
    ("ALTER TABLE events DISABLE ROW LEVEL SECURITY", "SELECT * FROM events"),
    ("ALTER VIEW messages SET (security_invoker = false)", "SELECT * FROM messages"),
    ("DROP POLICY own_rows ON events", "SELECT * FROM events"),
    ("CREATE POLICY mine ON events TO rights_ann USING (true)", "SELECT * FROM events"),
    ("ALTER ROLE rights_ann BYPASSRLS", "SELECT * FROM events"),
    ("ALTER ROLE rights_ann RENAME TO rights_bob", _NAMES),
    ("GRANT recorder_reader TO rights_ann", _NAMES),
)
OF_THE_SERVER = (
    *("SELECT * FROM pg_stats WHERE schemaname = 'recorder'", "SELECT * FROM pg_stats_ext"),
    *(
        "SELECT * FROM pg_stats_ext_exprs",
        "SELECT * FROM pg_statistic",
        "SELECT * FROM pg_statistic_ext_data",
    ),
    *(
        "SELECT * FROM pg_stat_activity",
        "SELECT * FROM pg_prepared_statements",
        "SELECT * FROM pg_cursors",
    ),
    *(
        "SELECT * FROM pg_stat_statements",
        "SELECT * FROM pg_stat_user_tables",
        "SELECT * FROM pg_locks",
    ),
    *(
        "SELECT obj_description(oid) FROM pg_class",
        "SELECT pg_get_expr(polqual, polrelid) FROM pg_policy",
    ),
    *(
        f"EXPLAIN (VERBOSE) SELECT * FROM {name}"
        for name in ("events", "messages", "exchange_summary", "readers")
    ),
    *(
        f"EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM {name}"
        for name in ("events", "messages", "session_summary")
    ),
    "EXPLAIN SELECT * FROM sessions WHERE name > 'shared'",
    *("SELECT pg_read_file('postgresql.conf')", "SELECT pg_read_binary_file('base/1/1259')"),
    *(
        "SELECT * FROM pg_ls_dir('.')",
        "SELECT lo_export(1, '/tmp/x')",
        "CREATE EXTENSION dblink",
        "LOAD 'pageinspect'",
    ),
    "SELECT pg_logical_slot_get_changes('s', NULL, NULL)",
)
TRIES = (*OF_TABLES, *OF_WORDS, *OF_ERRORS, *OF_FUNCTIONS, *OF_OTHERS, *OF_THE_SERVER)
"""A statement, or several, one after another."""
