"""The partitions of the log: by month, or by day if its owner wants that, for a fleet that fills a disk in a month.

Rules of this file:

* What makes partitions is a function of the schema (`recorder.store.postgres.ddl.ADD_PARTITIONS`), which a writer may
  call and may not change. Days are another text of it, and its comment says which one is there.
* Rows are never moved. A month that has rows remains a month, and its days begin after it; and the other way round.
* A partition has the name of its table and of its time: `events_2026_08` or `events_2026_08_15`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recorder.store.postgres.ddl import MONTHS_AHEAD, PARTITIONED, SCHEMA

MONTH, DAY = "month", "day"
AHEAD = {MONTH: MONTHS_AHEAD, DAY: 7}  # a recorder makes them once an hour: one that is off for days makes them late

TIME = "substring({} FROM '_[0-9]{{4}}_[0-9]{{2}}(?:_[0-9]{{2}})?$')".format  # of a partition, as in its name
NAME = {MONTH: "_YYYY_MM", DAY: "_YYYY_MM_DD"}
UNIT = f"SELECT coalesce(obj_description(to_regprocedure('{SCHEMA}.add_partitions(integer)')), '{MONTH}')"
"""Select what the partitions that are made are of: a month or a day."""

OVER = f"""SELECT time FROM (SELECT {TIME("c.relname")} AS time FROM pg_inherits AS i
    JOIN pg_class AS c ON c.oid = i.inhrelid WHERE i.inhparent = CAST('{SCHEMA}.sessions' AS regclass)) AS named
WHERE time < left(to_char(now() AT TIME ZONE 'UTC', '{NAME[DAY]}'), length(time)) ORDER BY time"""
"""Select the times of partitions that are over, as they stand in names."""

_NAMES = ", ".join(f"'{name}'" for name in PARTITIONED)


def missing(unit: str, ahead: int) -> str:
    """Return the count of tables without a partition for the time that is so many months or days ahead."""
    at = f"now() AT TIME ZONE 'UTC' + make_interval({unit}s => {ahead})"
    exists = " OR ".join(f"to_regclass(name || to_char({at}, '{name}')) IS NOT NULL" for name in NAME.values())
    return f"SELECT count(*) FROM unnest(ARRAY[{_NAMES}]) AS t (name) WHERE NOT ({exists})"


def _made_of(unit: str) -> str:
    """Return the function that makes partitions. What overlaps one that is there, or is locked just now, is left out,
    and so is a time of which there are rows in the default partition.
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


_LOCK = f"LOCK TABLE {', '.join(f'{SCHEMA}.{name}' for name in PARTITIONED)} IN ACCESS EXCLUSIVE MODE"
_THIS_MONTH = f"to_char(now() AT TIME ZONE 'UTC', '{NAME[MONTH]}')"
_DROPPED = {
    MONTH: f"length(time) = length('{NAME[DAY]}') AND left(time, length('{NAME[MONTH]}')) > {_THIS_MONTH}",
    DAY: f"length(time) = length('{NAME[MONTH]}') AND time >= {_THIS_MONTH}",
}
"""The partitions of the other unit that are in the way, if they are empty. Of this month the days remain."""


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


def _statements(unit: str) -> Sequence[str]:
    """Return the statements that have partitions made of a unit from now on, in one transaction. To repeat them changes
    nothing.
    """
    return (
        _LOCK,
        *([_REST_OF_MONTH] if unit == MONTH else []),
        _drop_empty(unit),
        _made_of(unit),
        f"COMMENT ON FUNCTION {SCHEMA}.add_partitions(integer) IS '{unit}'",
        f"SELECT {SCHEMA}.add_partitions({AHEAD[unit]})",
    )


STATEMENTS: Mapping[str, Sequence[str]] = {unit: _statements(unit) for unit in (MONTH, DAY)}
"""The statements of `recorder db upgrade --partitions`."""
