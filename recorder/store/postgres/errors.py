"""The meaning of PostgreSQL's errors: `recorder.store.engine.Errors`."""

from __future__ import annotations

from recorder.store.postgres.connection import translated as translated

_TEMPORARY = ("08", "28", "3D", "40", "53", "55", "57", "58", "XX", "25006", "25P03", "25P04", "42501")
"""SQLSTATE classes and codes of the server's condition, which passes or is mended without us: no connection, no login,
no database, a rollback, no resources, a lock, an operator, the system, damage; a standby, a transaction that was idle
or open for too long, a missing right."""


def is_of_statement(error: BaseException) -> bool:
    import psycopg

    code = getattr(error, "sqlstate", None)
    if code is None:  # libpq has none for a connection that breaks, psycopg none for what it refuses itself
        return isinstance(error, psycopg.ProgrammingError | psycopg.DataError | psycopg.NotSupportedError)
    return not str(code).startswith(_TEMPORARY)
