"""Who may do what with a log on a server: roles, their rights, and whose rows a reader sees.

Rules of this file:

* `recorder db upgrade --roles` runs all of it, again and again. A log without roles has none of it.
* Whose an exchange is stands in its projection, and every other row of a session is seen by those
  who see its exchange. What stands in no projection yet, or was put aside, is seen by nobody but
  those who see all.
* Who sees what goes by the name with which a session logged in. A setting of a session may be set
  by whoever has one.
* A view has the rights of who asks, and a server knows such views since version 15: an older one
  gets no rights by row.
* Nothing here runs with the rights of somebody else, and the role that sees its own rows may use
  what is named here and nothing else: no partition, no table or view that is made later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from recorder.projections.rows import TABLES
from recorder.projections.views.contract import VIEWS
from recorder.store.engine import OWN_READER_ROLE, READER_ROLE, WRITER_ROLE
from recorder.store.postgres.ddl import APPENDED, SCHEMA
from recorder.store.schema import VERSION_TABLE, metadata
from recorder.store.search import INDEXES

SINCE = 150_000  # the version of a server whose views may have the rights of who asks
READERS = f"{SCHEMA}.readers"
"""The table that says whose rows a login sees. The owner of the schema writes it."""

_ALL, _OWN = f"{WRITER_ROLE}, {READER_ROLE}", OWN_READER_ROLE
_EXCHANGES = TABLES["exchanges"]
_OPEN = ("prices", VERSION_TABLE)  # of nobody
_PLACE = "rebuilds"  # its name alone is of nobody: how far it is is an exchange


def _of_reader(column: str) -> str:
    """Return the condition that a column has a value of the login.

    It is looked up once for a statement.
    """
    return f"{column} = ANY (ARRAY(SELECT r.{column} FROM {READERS} AS r WHERE r.login = session_user))"


def _exists(table: str, other: str, *key: str) -> str:
    """Return the condition that a row of another table is seen which has the key of this one."""
    is_same = " AND ".join(f"o.{column} = {table}.{column}" for column in key)
    return f"EXISTS (SELECT FROM {SCHEMA}.{other} AS o WHERE {is_same})"


def _own_rows() -> Iterator[tuple[str, str | None]]:
    """Yield each table with the condition on the rows of a login's own; without one there are none."""
    yield "readers", "login = session_user"
    yield "sessions", _exists("sessions", _EXCHANGES, "session_id")
    for index in INDEXES:
        yield index.name, _exists(index.name, index.projection.table, *index.projection.key)
    for name, table in metadata.tables.items():
        if name == _EXCHANGES:
            yield name, f"{_of_reader('owner')} OR {_of_reader('team')}"
        elif "exchange_id" in table.columns and name != _PLACE:
            yield name, _exists(name, _EXCHANGES, "session_id", "exchange_id")
        elif name not in (*_OPEN, _PLACE, "sessions"):
            yield name, None


OWN_ROWS: Mapping[str, str | None] = dict(_own_rows())


def _guarded(table: str, condition: str | None) -> Iterator[str]:
    """Yield the statements that give a table its policies."""
    yield f"GRANT SELECT ON {SCHEMA}.{table} TO {_OWN}"
    yield f"ALTER TABLE {SCHEMA}.{table} ENABLE ROW LEVEL SECURITY"
    policies = {"all_rows": f"TO {_ALL} USING (true)"}
    if condition is not None:
        policies["own_rows"] = f"FOR SELECT TO {_OWN} USING ({condition})"
    for name, text in policies.items():
        yield f"DROP POLICY IF EXISTS {name} ON {SCHEMA}.{table}"
        yield f"CREATE POLICY {name} ON {SCHEMA}.{table} {text}"


def _own() -> Iterator[str]:
    """Yield the statements for the role that sees its own rows."""
    yield f"CREATE TABLE IF NOT EXISTS {READERS} (login NAME NOT NULL, owner TEXT, team TEXT)"
    yield f"GRANT USAGE ON SCHEMA {SCHEMA} TO {_OWN}"
    for table, condition in OWN_ROWS.items():
        yield from _guarded(table, condition)
    yield f"GRANT SELECT (name) ON {SCHEMA}.{_PLACE} TO {_OWN}"
    for name in (*_OPEN, *(view.name for view in VIEWS)):
        yield f"GRANT SELECT ON {SCHEMA}.{name} TO {_OWN}"


def _role(name: str) -> str:
    return (
        f"DO $$ BEGIN CREATE ROLE {name} NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )


_CHANGED = f"""
    SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = '{SCHEMA}' AND c.relkind IN ('r', 'p')
    AND (left(c.relname, 2) = 'p_' OR c.relname IN ('dead_letters', 'rebuilds', 'ingest_offsets', 'prices',
        'export_cursors'))
"""

INVOKER = f"""DO $$ DECLARE name text; BEGIN
    IF (SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass('{SCHEMA}.{_EXCHANGES}')) THEN
        FOREACH name IN ARRAY ARRAY[{", ".join(f"'{view.name}'" for view in VIEWS)}] LOOP
            EXECUTE 'ALTER VIEW {SCHEMA}.' || name || ' SET (security_invoker = true)';
        END LOOP;
    END IF;
END $$"""
"""Gives views the rights of who asks, in a log with rights by row. A view that is replaced has lost
them.
"""

GRANTS = (
    *map(_role, (WRITER_ROLE, READER_ROLE, OWN_READER_ROLE)),
    f"GRANT USAGE ON SCHEMA {SCHEMA} TO {_ALL}",
    f"GRANT SELECT ON ALL TABLES IN SCHEMA {SCHEMA} TO {_ALL}",
    *(f"GRANT INSERT ON {SCHEMA}.{name} TO {WRITER_ROLE}" for name in APPENDED),
    f"""DO $$ DECLARE name text; BEGIN FOR name IN {_CHANGED} LOOP
        EXECUTE 'GRANT INSERT, UPDATE, DELETE ON {SCHEMA}.' || quote_ident(name) || ' TO {WRITER_ROLE}';
    END LOOP; END $$""",
    f"GRANT EXECUTE ON FUNCTION {SCHEMA}.add_partitions(integer) TO {WRITER_ROLE}",
    f"ALTER DEFAULT PRIVILEGES IN SCHEMA {SCHEMA} GRANT SELECT ON TABLES TO {_ALL}",
    f"""DO $$ BEGIN IF CAST(current_setting('server_version_num') AS integer) >= {SINCE} THEN
        {"; ".join(_own())};
    END IF; END $$""",
    INVOKER,
)
"""The statements of `recorder db upgrade --roles`: a role that appends, one that reads, and one
that reads what is its own. None can log in.
"""


SEES_ALL = f"SELECT has_table_privilege('{SCHEMA}.{_PLACE}', 'SELECT')"
"""Selects whether the user sees more than the rows of its own."""

MAY_SEE_ALL = f"""SELECT session_user, NOT row_security_active('{SCHEMA}.{_EXCHANGES}') OR EXISTS (
    SELECT FROM pg_roles AS r WHERE pg_has_role(session_user, r.oid, 'MEMBER')
    AND (r.rolsuper OR r.rolbypassrls OR has_table_privilege(r.oid, '{SCHEMA}.{_PLACE}', 'SELECT'))
)"""
"""Selects the login, and whether it sees more than the rows of its own, or can become one that
does: a role is taken by SQL, too.
"""

OWNERS = f"""SELECT coalesce(string_agg(concat_ws(' and ', 'owner ' || owner, 'team ' || team), ', '), '')
FROM {READERS} WHERE login = session_user"""
"""Selects the owners and teams whose rows the login sees, as text."""


# -- as a server has them

OBJECTS = f"""
SELECT 'policy', c.relname || '.' || p.polname, concat_ws(' ', p.polcmd, p.polpermissive, (
        SELECT string_agg(r.rolname, ', ' ORDER BY r.rolname DESC) FROM pg_roles AS r WHERE r.oid = ANY (p.polroles)),
        pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid))
    FROM pg_policy AS p JOIN pg_class AS c ON c.oid = p.polrelid
    WHERE c.relnamespace = CAST('{SCHEMA}' AS regnamespace)
UNION ALL SELECT 'policy', c.relname || ' (row security)', '' FROM pg_class AS c
    WHERE c.relnamespace = CAST('{SCHEMA}' AS regnamespace) AND c.relrowsecurity
UNION ALL SELECT 'view', c.relname || ' (security_invoker)', '' FROM pg_class AS c
    WHERE c.relnamespace = CAST('{SCHEMA}' AS regnamespace) AND 'security_invoker=true' = ANY (c.reloptions)"""
"""Selects the objects of a schema that say who sees which rows, as `recorder.store.engine.Objects`.
"""

_AS_A_SERVER_WRITES = re.compile(rf"[\s()]|\bAS\b|\b{SCHEMA}\.")


def same_form(text: str) -> str:
    """Return the text of a policy without what a server writes in another way: spaces, brackets,
    names of schemas.
    """
    return _AS_A_SERVER_WRITES.sub("", text).lower()


def declared(found: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    """Return the objects that say who sees which rows, where a log has any."""
    if ("policy", f"{_EXCHANGES} (row security)") not in found:
        return {}
    objects = {("view", f"{view.name} (security_invoker)"): "" for view in VIEWS}
    for table, condition in OWN_ROWS.items():
        objects["policy", f"{table} (row security)"] = ""
        objects["policy", f"{table}.all_rows"] = same_form(f"* t {_ALL} true")
        if condition is not None:
            objects["policy", f"{table}.own_rows"] = same_form(f"r t {_OWN} {condition}")
    return objects
