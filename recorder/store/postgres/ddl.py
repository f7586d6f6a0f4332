"""The schema on PostgreSQL besides tables: a namespace, partitions, functions, full-text search.

Rules of this file:

* All of recorder is in a separate schema, so that its views (`messages`, `usage`, …) take no name
  from others.
* The log is partitioned by month, by the time in `session_id` (UUIDv7), or by day if its owner
  wants that, for a fleet that fills a disk in a month: old ones are dropped as a whole. What fits
  none is in the default partition; nothing depends on a partition for each month.
* What makes partitions is a function (`ADD_PARTITIONS`), which a writer may call and may not
  change. Days are another text of it, and its comment says which one is there.
* Rows are never moved. A month that has rows remains a month, and its days begin after it; and the
  other way round.
* A partition has the name of its table and of its time: `events_2026_08` or `events_2026_08_15`.
* Nothing here is needed for the log to be right: no trigger, no sequence, no function is in the way
  of a row. Rows of the log are not changed because the roles that programs use have no right to
  (`recorder.store.postgres.rights`).

`migrations/` has its own copy of all but the views; a test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recorder.projections.rows import TABLES
from recorder.projections.views.contract import VIEWS
from recorder.store.search import (
    INDEX_NAMES,
    INDEXES,
    OF_EXCHANGE,
    OF_SESSION,
    Indexed,
    SearchIndex,
    SearchStatements,
)

SCHEMA = "recorder"
BY_SESSION = "RANGE (session_id)"

PARTITIONED = ("sessions", "exchanges", "events")
APPENDED = (*PARTITIONED, "tombstones")  # the writer adds to these and never changes them
MONTHS_AHEAD = 3  # a recorder that runs makes the next one long before it is needed

DEFAULT_PARTITIONS = tuple(
    f"CREATE TABLE {name}_other PARTITION OF {name} DEFAULT" for name in PARTITIONED
)

# Runs with the rights of the schema's owner, because a writer may not create tables. A month of
# which there is a row in the default partition already stays there; a lock that is not to be had at
# once is tried for again later.
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
# Bytes that are not text of PostgreSQL (no UTF-8, or with a NUL) are shown escaped, as
# `encode(data, 'escape')` does. What catches an error begins a subtransaction, which no process of
# a parallel plan may: no plan with it is parallel.
RECORDER_TEXT = """
CREATE FUNCTION recorder_text(data bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL UNSAFE AS $$
BEGIN
    RETURN convert_from(data, 'UTF8');
EXCEPTION WHEN others THEN
    RETURN encode(data, 'escape');
END $$
"""
# How many days there are is not known from times: without it a server takes each row for a group,
# and sorts them all.
DAYS = f"CREATE STATISTICS {TABLES['usage']}_days ON (started_ns / 86400000000000) FROM {TABLES['usage']}"
# of columns of keys; the others are text
_TYPES = {"session_id": "UUID", "exchange_id": "UUID", "item": "BIGINT"}


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
SEARCH_INDEXES = tuple(
    f"CREATE INDEX {name}_words ON {name} USING gin (words)" for name in INDEX_NAMES
)
# A tsvector holds 1 MB of words and places. A hyphenated word is in it whole and in parts: 8 bytes
# for each letter of four bytes. Most of what is longer is output of tools, not words to be looked
# for.
WORDS = "to_tsvector('simple', left(concat_ws(' ', {0}), 130000))".format


def _sessions(words: str) -> tuple[str, dict[str, str]]:
    queries, values = ["true"], dict[str, str]()
    for number, word in enumerate(words.replace("\0", " ").split()):
        function = "phraseto_tsquery"
        if len(word) > 1 and word.endswith("*"):
            quoted = word.removesuffix("*").replace("\\", "\\\\").replace("'", "''")
            function, word = "to_tsquery", f"'{quoted}':*"
        # as they are written, in any language
        queries.append(f"words @@ {function}('simple', :word_{number})")
        values[f"word_{number}"] = word
    matching = " AND ".join(queries) if values else "false"
    return " UNION ALL ".join(
        f"SELECT session_id FROM {name} WHERE {matching}" for name in INDEX_NAMES
    ), values


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

MAY_DELETE = " UNION ALL ".join(
    f"SELECT has_table_privilege('{SCHEMA}.{name}', 'DELETE')" for name in PARTITIONED
)
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
RECREATION = tuple(
    view.statement("postgresql").replace("CREATE VIEW", "CREATE OR REPLACE VIEW", 1)
    for view in VIEWS
)

MONTH, DAY = "month", "day"
# a recorder makes them once an hour: one that is off for days makes them late
AHEAD = {MONTH: MONTHS_AHEAD, DAY: 7}

# of a partition, as in its name
TIME = "substring({} FROM '_[0-9]{{4}}_[0-9]{{2}}(?:_[0-9]{{2}})?$')".format
NAME = {MONTH: "_YYYY_MM", DAY: "_YYYY_MM_DD"}
UNIT = f"SELECT coalesce(obj_description(to_regprocedure('{SCHEMA}.add_partitions(integer)')), '{MONTH}')"
"""Select what the partitions that are made are of: a month or a day."""

OVER = f"""SELECT time FROM (SELECT {TIME("c.relname")} AS time FROM pg_inherits AS i
    JOIN pg_class AS c ON c.oid = i.inhrelid WHERE i.inhparent = CAST('{SCHEMA}.sessions' AS regclass)) AS named
WHERE time < left(to_char(now() AT TIME ZONE 'UTC', '{NAME[DAY]}'), length(time)) ORDER BY time"""
"""Select the times of partitions that are over, as they stand in names."""

_NAMES = ", ".join(f"'{name}'" for name in PARTITIONED)


def missing(unit: str, ahead: int) -> str:
    """Return the count of tables without a partition for the time that is so many months or days
    ahead.
    """
    at = f"now() AT TIME ZONE 'UTC' + make_interval({unit}s => {ahead})"
    exists = " OR ".join(
        f"to_regclass(name || to_char({at}, '{name}')) IS NOT NULL" for name in NAME.values()
    )
    return f"SELECT count(*) FROM unnest(ARRAY[{_NAMES}]) AS t (name) WHERE NOT ({exists})"


def _made_of(unit: str) -> str:
    """Return the function that makes partitions.

    What overlaps one that is there, or is locked just now, is left out, and so is a time of which
    there are rows in the default partition.
    """
    return f"""
CREATE OR REPLACE FUNCTION {SCHEMA}.add_partitions(ahead integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = {SCHEMA}, pg_temp SET lock_timeout = '50ms' AS $$
DECLARE
    time timestamp; parent text; child text;
BEGIN
    FOR n IN 0..least(greatest(ahead, {AHEAD[unit]}), 400) LOOP
        time := date_trunc('{unit}', now() AT TIME ZONE 'UTC') + make_interval({unit}s => n);
        FOREACH parent IN ARRAY ARRAY[{_NAMES}] LOOP
            child := parent || to_char(time, '{NAME[unit]}');
            CONTINUE WHEN to_regclass('{SCHEMA}.' || child) IS NOT NULL;
            BEGIN
                EXECUTE 'CREATE TABLE ' || child || ' PARTITION OF ' || parent || ' FOR VALUES FROM ('
                    || quote_literal(first_id(time)) || ') TO ('
                    || quote_literal(first_id(time + interval '1 {unit}')) || ')';
            EXCEPTION WHEN check_violation OR lock_not_available OR duplicate_table OR unique_violation
                OR invalid_object_definition THEN
                CONTINUE;
            END;
        END LOOP;
    END LOOP;
END $$
"""


_LOCK = (
    f"LOCK TABLE {', '.join(f'{SCHEMA}.{name}' for name in PARTITIONED)} IN ACCESS EXCLUSIVE MODE"
)
_THIS_MONTH = f"to_char(now() AT TIME ZONE 'UTC', '{NAME[MONTH]}')"
_DROPPED = {
    MONTH: f"length(time) = length('{NAME[DAY]}') AND left(time, length('{NAME[MONTH]}')) > {_THIS_MONTH}",
    DAY: f"length(time) = length('{NAME[MONTH]}') AND time >= {_THIS_MONTH}",
}
"""The partitions of the other unit that are in the way, if they are empty. Of this month the days
remain.
"""


def _drop_empty(unit: str) -> str:
    rows = " OR ".join(f"EXISTS (SELECT FROM {SCHEMA}.{name}_TIME)" for name in PARTITIONED)
    drops = "; ".join(
        f"ALTER TABLE {SCHEMA}.{name} DETACH PARTITION {SCHEMA}.{name}_TIME; DROP TABLE {SCHEMA}.{name}_TIME"
        for name in reversed(PARTITIONED)  # rows refer to those of the tables before
    )
    return f"""
DO $$ DECLARE
    slice text; has_rows boolean;
BEGIN
    FOR slice IN SELECT time FROM (SELECT {TIME("c.relname")} AS time FROM pg_inherits AS i
        JOIN pg_class AS c ON c.oid = i.inhrelid WHERE i.inhparent = CAST('{SCHEMA}.sessions' AS regclass)) AS named
        WHERE {_DROPPED[unit]}
    LOOP
        EXECUTE replace('SELECT {rows}', '_TIME', slice) INTO has_rows;
        IF NOT has_rows THEN
            EXECUTE replace('{drops}', '_TIME', slice);
        END IF;
    END LOOP;
END $$
"""


# This month keeps its days, and gets the rest of them.
_REST_OF_MONTH = f"""
DO $$ BEGIN
    IF ({UNIT}) = '{DAY}' THEN
        PERFORM {SCHEMA}.add_partitions(31);
    END IF;
END $$
"""


def _of_unit(unit: str) -> Sequence[str]:
    """Return the statements that have partitions made of a unit from now on, in one transaction.

    To repeat them changes nothing.
    """
    return (
        _LOCK,
        *([_REST_OF_MONTH] if unit == MONTH else []),
        _drop_empty(unit),
        _made_of(unit),
        f"COMMENT ON FUNCTION {SCHEMA}.add_partitions(integer) IS '{unit}'",
        f"SELECT {SCHEMA}.add_partitions({AHEAD[unit]})",
    )


PARTITIONS: Mapping[str, Sequence[str]] = {unit: _of_unit(unit) for unit in (MONTH, DAY)}
"""The statements of `recorder db upgrade --partitions`."""
