"""The checks and the probe of a log on a server: a `recorder.store.maintain.upkeep.Upkeep`.

It loads no driver: `recorder doctor` says that there is none, and a recorder has its probe load it
in another thread.

Checks have one connection that only reads, each question over in `LIMIT_S`. Durability of commits
is the task of the server; only two of its settings are checked. `synchronous_commit` is not,
because recorders set it for their own connections.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn

from sqlalchemy import URL

from recorder.errors import RecorderError, StoreError, UsageError
from recorder.model.text import span_text
from recorder.program import load
from recorder.store.engine import WRITER_ROLE, Progress
from recorder.store.location import database_name
from recorder.store.maintain.upkeep import (
    CHECKS,
    LIMIT_S,
    NOTHING,
    PROBE_S,
    Ask,
    Check,
    CheckResult,
    LogProbe,
    ProbeResult,
    of_schema,
    run_checks,
)
from recorder.store.postgres import address
from recorder.store.postgres.ddl import APPENDED, DAY, MAY_ADD, MONTH, READ_TABLES, UNIT, missing
from recorder.store.postgres.rights import OWNERS, SEES_ALL
from recorder.store.schema import READ_REVISION, VERSION_TABLE

FEW = 5  # connections: a recorder takes one, with an admin port two, a command up to four
CANCELED = "57014"

_CHANGES = "UPDATE, DELETE, TRUNCATE"
_TABLES = ", ".join(f"('{name}')" for name in APPENDED)
_MAY_CHANGE = (
    f"SELECT bool_or(has_table_privilege(name, '{_CHANGES}')) FROM (VALUES {_TABLES}) AS t (name)"
)
_FREE = """SELECT CAST(current_setting('max_connections') AS int)
    - CAST(current_setting('superuser_reserved_connections') AS int) - count(*)
    FROM pg_stat_activity WHERE backend_type = 'client backend'"""
_ASTRAY = """SELECT count(*) FROM (SELECT FROM sessions_other
    WHERE session_id >= first_id(date_trunc('{unit}', now() AT TIME ZONE 'UTC')) LIMIT 1000) AS s"""
_TIMES = {MONTH: ("this month", "the next month"), DAY: ("today", "tomorrow")}
CONNECT_S = 2  # the least that libpq takes
_SIZE = "SELECT pg_database_size(current_database())"


class PostgresLogProbe(LogProbe):
    """A probe whose connection is kept from one look to the next: to make one holds up the event
    loop for longer.
    """

    reads = "CAST(convert_from(r.raw, 'UTF8') AS json)"
    is_asked_for = "= ANY (CAST(%s AS uuid[]))"

    def __init__(self, url: URL) -> None:
        self._url = url
        self._connection: Any = None
        self._closing = Lock()

    def look(self, begun: Sequence[str], ended: Sequence[str]) -> ProbeResult:
        was_kept = self._connection is not None
        try:
            return self._look(begun, ended)
        except StoreError as error:
            self.close()
            # One that was kept may have ended long ago, with a server that is back.
            return self.look(begun, ended) if was_kept else NOTHING._replace(error=str(error))

    def _look(self, begun: Sequence[str], ended: Sequence[str]) -> ProbeResult:
        connections = load("recorder.store.postgres.connection")  # in the thread of the probe
        with connections.translated(self._url):
            if self._connection is None:
                limit = {"statement_timeout": str(round(PROBE_S * 1000))}
                self._connection = connections.connect_reader(
                    self._url, limit, connect_timeout=CONNECT_S
                )

            def ask(sql: str, ids: Sequence[str]) -> list[Any]:
                return list(self._connection.execute(sql, (list(ids),), binary=True).fetchall())

            [(size,)] = self._connection.execute(_SIZE).fetchall()
            result = self.found(ask, begun, ended)
        return result._replace(database_bytes=size)

    def interrupt(self) -> None:
        """End the connection: a server that hangs keeps its statement limit no more than anything
        else.
        """
        with self._closing:  # the descriptor is of this connection, and not of what comes after it
            if self._connection is not None and not self._connection.closed:
                load("recorder.store.postgres.patience:hang_up")(self._connection)

    def close(self) -> None:
        with self._closing:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()


log_probe = PostgresLogProbe


def library_checks() -> Iterator[CheckResult]:
    return iter(())


def file_checks(_url: URL) -> Iterator[CheckResult]:
    return iter(())


def back_up(url: URL, target: Path, progress: Progress, *, force: bool) -> NoReturn:
    raise UsageError(
        f"{address.display_name(url)} is on a server: copy it with `pg_dump --schema recorder`."
    )


def checks(url: URL, more: Mapping[str, Check]) -> Iterator[CheckResult]:
    try:
        # without the driver it is refused, which is a result
        connections = load("recorder.store.postgres.connection")
        limit = {"statement_timeout": str(round(LIMIT_S * 1000))}
        with connections.translated(url), connections.open_reader(url, limit) as connection:

            def rows(sql: str) -> list[Any]:
                return list(connection.execute(sql.encode()).fetchall())

            yield from _checks(url, Ask(rows), more)
    except RecorderError as error:
        yield CheckResult("bad", "database", str(error))


def _checks(url: URL, ask: Ask, more: Mapping[str, Check]) -> Iterator[CheckResult]:
    name, version = database_name(url), str(ask("SHOW server_version")).split()[0]
    if VERSION_TABLE not in {row[0] for row in ask.rows(READ_TABLES)}:
        message = (
            f"There is no log in {name} (PostgreSQL {version}) yet: the first recording makes it."
        )
        yield CheckResult("ok", "database", message)
        return
    revision = ask(READ_REVISION)
    if wrong := of_schema(name, revision):
        yield wrong
        return
    size = ask("SELECT pg_database_size(current_database())")
    yield CheckResult(
        "ok",
        "database",
        f"{name} has {size / 2**20:.1f} MiB and schema {revision}, on PostgreSQL {version}.",
    )
    named: dict[str, Check] = {
        "rights": _rights,
        "partitions": _partitions,
        **CHECKS,
        **more,
        "server": _settings,
        "connections": _connections,
    }
    if not ask(SEES_ALL):
        named = {
            "rights": _own_rights,
            **{check: named[check] for check in ("gaps", "server", "connections")},
        }
    yield from run_checks(named, ask, lambda error: getattr(error, "sqlstate", None) == CANCELED)


def _rights(ask: Ask) -> Iterator[CheckResult]:
    user = ask("SELECT current_user")
    remedy = (
        f"run `recorder db upgrade --roles`, and record as a login that was granted {WRITER_ROLE}"
    )
    if ask("SELECT rolsuper FROM pg_roles WHERE rolname = current_user"):
        yield CheckResult(
            "warn", "rights", f"{user} is a superuser, who may change what was recorded: {remedy}."
        )
    elif ask(_MAY_CHANGE):
        yield CheckResult("warn", "rights", f"{user} may change what was recorded: {remedy}.")
    elif ask(MAY_ADD):
        yield CheckResult("ok", "rights", f"{user} may add to the log, and not change it.")
    else:
        yield CheckResult(
            "ok",
            "rights",
            f"{user} may read the log; who records here needs the role {WRITER_ROLE}.",
        )


def _own_rights(ask: Ask) -> Iterator[CheckResult]:
    user, owners = ask("SELECT session_user"), ask(OWNERS)
    if owners:
        yield CheckResult("ok", "rights", f"{user} sees the exchanges of {owners}, and no others.")
    else:
        remedy = "the owner of the schema gives it one in the table recorder.readers"
        yield CheckResult(
            "warn", "rights", f"{user} is of no owner and no team, and sees nothing: {remedy}."
        )


def _partitions(ask: Ask) -> Iterator[CheckResult]:
    unit = str(ask(UNIT))
    astray = ask(_ASTRAY.format(unit=unit))
    late = [name for ahead, name in enumerate(_TIMES[unit]) if ask(missing(unit, ahead))]
    if astray:
        message = f"{astray:,} sessions from {_TIMES[unit][0]} on are in the default partition: no {unit} gets its own"
        yield CheckResult(
            "warn",
            "partitions",
            f"{message} before they are moved out of it, and all works without.",
        )
    elif late:
        message = (
            f"There are no partitions for {' and '.join(late)}: a recorder that runs makes them."
        )
        yield CheckResult("warn", "partitions", message)
    else:
        rows = (
            f"has sessions of other {unit}s"
            if ask("SELECT EXISTS (SELECT FROM sessions_other)")
            else "is empty"
        )
        times = " and ".join(_TIMES[unit]).capitalize()
        yield CheckResult(
            "ok", "partitions", f"{times} have their partitions; the default one {rows}."
        )


def _settings(ask: Ask) -> Iterator[CheckResult]:
    off = [name for name in ("fsync", "full_page_writes") if ask(f"SHOW {name}") == "off"]
    if ask("SELECT pg_is_in_recovery()"):
        yield CheckResult(
            "bad",
            "server",
            "This server is a standby: it can be read, and nothing can be recorded there.",
        )
    elif off:
        message = f"{' and '.join(off)} off: a power cut may destroy the database. Set it to on in postgresql.conf."
        yield CheckResult("warn", "server", f"The server has {message}")
    else:
        since = span_text(
            int(ask("SELECT extract(epoch FROM now() - pg_postmaster_start_time())") * 10**9)
        )
        yield CheckResult(
            "ok", "server", f"The server has been up for {since}, and keeps what it has committed."
        )


def _connections(ask: Ask) -> Iterator[CheckResult]:
    free = ask(_FREE)
    if free < FEW:
        yield CheckResult(
            "warn",
            "connections",
            f"{max(0, free)} connections are free: raise max_connections on the server.",
        )
    else:
        yield CheckResult("ok", "connections", f"{free:,} connections are free.")
