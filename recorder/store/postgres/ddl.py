"""The schema on PostgreSQL besides tables: a namespace, partitions, functions, full-text search, rights.

Rules of this file:

* All of recorder is in a separate schema, so that its views (`messages`, `usage`, …) take no name from others.
* The log is partitioned by month, by the time in `session_id` (UUIDv7): old months are dropped as a whole. What fits no
  month is in the default partition; nothing depends on a partition for each month.
* Nothing here is needed for the log to be right: no trigger, no sequence, no function is in the way of a row. Rows of
  the log are not changed because the roles that programs use have no right to.

`migrations/` has its own copy of all but the views; a test holds the two against each other.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import CompoundSelect, Select, column, false, func, literal_column, select, table, union_all

from recorder.projections.rows import TABLES
from recorder.projections.views.contract import VIEWS
from recorder.store.engine import READER_ROLE, WRITER_ROLE
from recorder.store.search import INDEX_NAMES, INDEXES, OF_EXCHANGE, OF_SESSION, Indexed, SearchIndex, SearchStatements

SCHEMA = "recorder"
WRITER, READER = WRITER_ROLE, READER_ROLE
BY_SESSION = "RANGE (session_id)"

PARTITIONED = ("sessions", "exchanges", "events")
APPENDED = (*PARTITIONED, "tombstones")  # the writer adds to these and never changes them
MONTHS_AHEAD = 3  # a recorder that runs makes the next one long before it is needed

DEFAULT_PARTITIONS = tuple(f"CREATE TABLE {name}_other PARTITION OF {name} DEFAULT" for name in PARTITIONED)

# Runs with the rights of the schema's owner, because a writer may not create tables. A month of which there is a row in
# the default partition already stays there; a lock that is not to be had at once is tried for again later.
ADD_PARTITIONS = """
CREATE FUNCTION add_partitions(ahead integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = recorder, pg_temp SET lock_timeout = '50ms' AS $$
DECLARE
    month timestamp; parent text; child text;
BEGIN
    FOR n IN 0..least(ahead, 24) LOOP
        month := date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => n);
        FOREACH parent IN ARRAY ARRAY['sessions', 'exchanges', 'events'] LOOP
            child := parent || to_char(month, '_YYYY_MM');
            CONTINUE WHEN to_regclass('recorder.' || child) IS NOT NULL;
            EXECUTE 'CREATE TABLE ' || child || ' PARTITION OF ' || parent || ' FOR VALUES FROM ('
                || quote_literal(first_id(month)) || ') TO ('
                || quote_literal(first_id(month + interval '1 month')) || ')';
        END LOOP;
    END LOOP;
EXCEPTION WHEN check_violation OR lock_not_available OR duplicate_table OR unique_violation THEN
    NULL;
END $$
"""
FIRST_ID = """
CREATE FUNCTION first_id(month timestamp) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT CAST(rpad(lpad(to_hex(CAST(extract(epoch FROM month) * 1000 AS bigint)), 12, '0'), 32, '0') AS uuid)
$$
"""
# Bytes that are not text of PostgreSQL (no UTF-8, or with a NUL) are shown escaped, as `encode(data, 'escape')` does.
# What catches an error begins a subtransaction, which no process of a parallel plan may: no plan with it is parallel.
RECORDER_TEXT = """
CREATE FUNCTION recorder_text(data bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL UNSAFE AS $$
BEGIN
    RETURN convert_from(data, 'UTF8');
EXCEPTION WHEN others THEN
    RETURN encode(data, 'escape');
END $$
"""
# How many days there are is not known from times: without it a server takes each row for a group, and sorts them all.
DAYS = f"CREATE STATISTICS {TABLES['usage']}_days ON (started_ns / 86400000000000) FROM {TABLES['usage']}"
_TYPES = {"session_id": "UUID", "exchange_id": "UUID", "item": "BIGINT"}  # of columns of keys; the others are text


def _search_table(index: Indexed) -> str:
    """Return the statement for the table of an index: the key of each row, and its words."""
    key = index.projection.key
    columns = ",\n    ".join(f"{name} {_TYPES.get(name, 'TEXT')} NOT NULL" for name in key)
    return f"""
CREATE TABLE {index.name} (
    {columns},
    words TSVECTOR NOT NULL,
    PRIMARY KEY ({", ".join(key)})
)
"""


SEARCH_TABLES = tuple(map(_search_table, INDEXES))
SEARCH_INDEXES = tuple(f"CREATE INDEX {name}_words ON {name} USING gin (words)" for name in INDEX_NAMES)
# A tsvector holds 1 MB of words and places. A hyphenated word is in it whole and in parts: 8 bytes for each letter of
# four bytes. Most of what is longer is output of tools, not words to be looked for.
WORDS = "to_tsvector('simple', left(concat_ws(' ', {0}), 130000))".format

_PLAIN: Any = literal_column("'simple'::regconfig")  # words as they are written, in any language


def _sessions(words: str) -> CompoundSelect[*tuple[Any, ...]]:
    return union_all(*(_sessions_of(name, words) for name in INDEX_NAMES))


def _sessions_of(name: str, words: str) -> Select[*tuple[Any, ...]]:
    found = table(name, column("session_id"), column("words"))
    matching: list[Any] = [found.c.words.op("@@")(_query(word)) for word in words.replace("\0", " ").split()]
    return select(found.c.session_id).where(*matching or [false()])


def _query(word: str) -> Any:
    if len(word) > 1 and word.endswith("*"):
        quoted = word.removesuffix("*").replace("\\", "\\\\").replace("'", "''")
        return func.to_tsquery(_PLAIN, f"'{quoted}':*")
    return func.phraseto_tsquery(_PLAIN, word)


def _statements(index: Indexed) -> SearchStatements:
    name, key = index.name, index.projection.key
    add = f"INSERT INTO {name} SELECT {', '.join(key)}, {WORDS(index.columns)} FROM {index.projection.table} AS t"
    is_same = " AND ".join(f"s.{column} = t.{column}" for column in key)
    return SearchStatements(
        add=f"{add} WHERE {OF_EXCHANGE} AND NOT EXISTS (SELECT 1 FROM {name} AS s WHERE {is_same})",
        remove=f"DELETE FROM {name} AS s USING {index.projection.table} AS t WHERE {OF_EXCHANGE} AND {is_same}",
        remove_session=f"DELETE FROM {name} AS t WHERE {OF_SESSION}",
        rebuild=[f"DELETE FROM {name}", add],
    )


INDEX = SearchIndex([_statements(index) for index in INDEXES], _sessions)

MAY_DELETE = " UNION ALL ".join(f"SELECT has_table_privilege('{SCHEMA}.{name}', 'DELETE')" for name in PARTITIONED)
MAY_ADD = f"SELECT has_table_privilege('{SCHEMA}.events', 'INSERT')"
READ_TABLES = f"SELECT tablename FROM pg_tables WHERE schemaname = '{SCHEMA}'"

STATEMENTS = (
    *DEFAULT_PARTITIONS,
    FIRST_ID,
    ADD_PARTITIONS,
    RECORDER_TEXT,
    *SEARCH_TABLES,
    *SEARCH_INDEXES,
    DAYS,
    *(view.statement("postgresql") for view in VIEWS),
    "REVOKE ALL ON FUNCTION add_partitions(integer) FROM public",
)

# A view is replaced where it stands: rights to it, and views on it, stay.
RECREATION = tuple(view.statement("postgresql").replace("CREATE VIEW", "CREATE OR REPLACE VIEW", 1) for view in VIEWS)

_CHANGED = f"""
    SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = '{SCHEMA}' AND c.relkind IN ('r', 'p')
    AND (left(c.relname, 2) = 'p_' OR c.relname IN ('dead_letters', 'rebuilds', 'ingest_offsets', 'prices',
        'export_cursors'))
"""

GRANTS = (
    f"DO $$ BEGIN CREATE ROLE {WRITER} NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
    f"DO $$ BEGIN CREATE ROLE {READER} NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
    f"GRANT USAGE ON SCHEMA {SCHEMA} TO {WRITER}, {READER}",
    f"GRANT SELECT ON ALL TABLES IN SCHEMA {SCHEMA} TO {WRITER}, {READER}",
    *(f"GRANT INSERT ON {SCHEMA}.{name} TO {WRITER}" for name in APPENDED),
    f"""DO $$ DECLARE name text; BEGIN FOR name IN {_CHANGED} LOOP
        EXECUTE 'GRANT INSERT, UPDATE, DELETE ON {SCHEMA}.' || quote_ident(name) || ' TO {WRITER}';
    END LOOP; END $$""",
    f"GRANT EXECUTE ON FUNCTION {SCHEMA}.add_partitions(integer) TO {WRITER}",
    f"ALTER DEFAULT PRIVILEGES IN SCHEMA {SCHEMA} GRANT SELECT ON TABLES TO {WRITER}, {READER}",
)
"""The statements of `recorder db upgrade --roles`: a role that appends, one that reads. Neither can log in."""
