"""The list of sessions: a filter, an order that a page can go on from, and a summary of each
session in one row.

Open exchanges are in it, because they come from the log. The content of a session comes from the
projections, of the exchanges that have ended.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from sqlalchemy import text

from recorder.errors import UsageError
from recorder.model.events import PROBE, Session
from recorder.model.ids import BEFORE_ALL, ID_LENGTH, ids_beginning
from recorder.program import load
from recorder.projections.rows import TABLES
from recorder.store.engine import AnyRow, ReadConnection
from recorder.store.queries.outlines import LAST_POS, of_last_event
from recorder.store.queries.reader import LogReader
from recorder.store.schema import sessions
from recorder.store.sql import (
    HAS_PRICES,
    IS_OF_BODY,
    columns_of,
    has_ended,
    of_named,
    size_of,
    struct_of,
)

if TYPE_CHECKING:
    from recorder.store.search import SearchIndex

OPEN = "open"
UNKNOWN = "unknown"  # the status of an end that cannot be read

# The newest is the one with the newest exchange: ids of both are UUIDv7, and one seek in the key
# finds the last.
_SESSION = columns_of(sessions, "s")
NEWEST = f"""SELECT {_SESSION}, coalesce((SELECT x.exchange_id FROM exchanges AS x
    WHERE x.session_id = s.session_id ORDER BY x.exchange_id DESC LIMIT 1), s.session_id) AS last_id
FROM sessions AS s WHERE {{}} ORDER BY last_id DESC, s.session_id DESC LIMIT {{}}"""


class SessionFilter(msgspec.Struct, frozen=True):
    """Conditions on sessions, all of which must hold.

    Texts match anywhere in a name, regardless of case.
    """

    model: str | None = None  # of an exchange that has ended, as asked for or as answered
    client: str | None = None
    status: str | None = None  # of any of its exchanges
    since_ns: int | None = None  # an exchange began then or later
    until_ns: int | None = None  # … and before this
    words: str | None = None  # all in one row of a full-text index; `wea*` begins one
    probes: bool = False  # those of probes, and no others
    session_id: str | None = None  # this one, of probes or not
    owner: str | None = None  # of an exchange that has ended, regardless of case


class ListPlace(NamedTuple):
    """The place of a session in the list, newest first: its last exchange (the session itself if
    there is none), and its id. It stays what it was while the session goes on.
    """

    last_id: str
    session_id: str

    def cursor(self) -> str:
        return f"{self.last_id}.{self.session_id}"

    @classmethod
    def parse(cls, cursor: str) -> ListPlace:
        """Return the place of a cursor. Raise `UsageError` for other texts."""
        ids = [ids_beginning(part) for part in cursor.split(".")]
        if [len(part) for part in cursor.split(".")] != [ID_LENGTH, ID_LENGTH] or None in ids:
            raise UsageError(
                "That is not a place in the list of sessions: give `next` of an earlier answer."
            )
        return cls(*cursor.split("."))


_USED = f"""SELECT {_SESSION}, used.exchange_id AS last_id
FROM exchanges AS used JOIN sessions AS s ON s.session_id = used.session_id
WHERE NOT EXISTS (SELECT 1 FROM exchanges AS later
    WHERE later.session_id = used.session_id AND later.exchange_id > used.exchange_id)"""
_UNUSED = f"""SELECT {_SESSION}, s.session_id AS last_id FROM sessions AS s
WHERE NOT EXISTS (SELECT 1 FROM exchanges AS x WHERE x.session_id = s.session_id)"""


class Listing:
    """The newest sessions that match a filter.

    The first statement goes down the index of exchanges and stops when it has enough, so a page
    costs the same in a log of any size. Sessions without an exchange are few, and only those of the
    same time are looked for.
    """

    def __init__(
        self,
        wanted: SessionFilter,
        limit: int | None,
        search: Callable[[], SearchIndex],
        before: ListPlace | None = None,
    ) -> None:
        self._conditions, self._values = _conditions(wanted, search)
        self._limit, self._before = limit, before
        if before is not None:
            self._values |= {"before": before.last_id, "before_id": before.session_id}
        self.is_all = limit is None and wanted == SessionFilter() and before is None

    async def read(self, connection: ReadConnection) -> list[AnyRow]:
        """Return the rows of the sessions, newest first."""
        used = await self._rows(connection, _USED, "used.exchange_id")
        # Sessions without an exchange, among those that were found.
        unused = _UNUSED
        if self._limit is not None and len(used) == self._limit:
            self._values["oldest"] = used[-1].last_id
            unused += " AND s.session_id >= :oldest"
        rows = [*used, *await self._rows(connection, unused, "s.session_id")]
        return sorted(rows, key=place_of, reverse=True)[: self._limit]

    async def _rows(self, connection: ReadConnection, sql: str, last_id: str) -> Sequence[AnyRow]:
        # SQLite 3.53 sorts all exchanges for a small limit, unless a condition on the key sends it
        # to the index.
        until = f"{last_id} > '{BEFORE_ALL}'"
        if self._before is not None:
            until = f"{last_id} <= :before AND ({last_id} < :before OR s.session_id < :before_id)"
        limit = "" if self._limit is None else f"LIMIT {self._limit}"
        conditions = " AND ".join([until, *self._conditions])
        statement = f"{sql} AND {conditions} ORDER BY {last_id} DESC, s.session_id DESC {limit}"
        return (await connection.execute(text(statement), self._values)).all()


def place_of(row: Any) -> ListPlace:
    """Return the place of a row that has a `last_id`."""
    return ListPlace(row.last_id, row.session_id)


def _conditions(
    wanted: SessionFilter, search: Callable[[], SearchIndex]
) -> tuple[list[str], dict[str, Any]]:
    """Return the conditions of a filter, and their values by name."""
    values = {
        name: value for name, value in msgspec.structs.asdict(wanted).items() if value is not None
    }
    conditions = [sql for name, sql in _CONDITIONS.items() if name in values]
    for name in ("model", "client"):
        if name in values:
            values[name] = like(values[name])
    if wanted.session_id is None:
        conditions.append(f"s.source {'=' if wanted.probes else '<>'} '{PROBE}'")
    began = [sql for name, sql in _BEGAN.items() if name in values]
    if began:
        conditions.append(_SOME_EXCHANGE.format(" AND ".join(began)))
    if wanted.words is not None:
        sql, of_words = search().sessions(wanted.words)
        conditions.append(f"s.session_id IN ({sql})")
        values |= of_words
    return conditions, values


def like(part: str) -> str:
    """Return a text as a part of the pattern of a LIKE with `/` as escape."""
    return re.sub("([/%_])", r"/\1", part)


_CONTAINS = "lower(x.{}) LIKE '%' || lower(:{}) || '%' ESCAPE '/'".format
_SOME_EXCHANGE = "EXISTS (SELECT 1 FROM exchanges AS x WHERE x.session_id = s.session_id AND {})"
_STATUS = f"""CASE WHEN {has_ended("x")} THEN coalesce((SELECT p.status FROM {TABLES["exchanges"]} AS p
    WHERE p.session_id = x.session_id AND p.exchange_id = x.exchange_id), '{UNKNOWN}') ELSE '{OPEN}' END"""
_CONDITIONS: Mapping[str, str] = {
    "session_id": "s.session_id = :session_id",
    "model": f"""EXISTS (SELECT 1 FROM {TABLES["exchanges"]} AS x WHERE x.session_id = s.session_id
        AND ({_CONTAINS("request_model", "model")} OR {_CONTAINS("response_model", "model")}))""",
    "owner": f"""EXISTS (SELECT 1 FROM {TABLES["exchanges"]} AS x WHERE x.session_id = s.session_id
        AND lower(x.owner) = lower(:owner))""",
    "client": _SOME_EXCHANGE.format(_CONTAINS("client", "client")),
    "status": _SOME_EXCHANGE.format(f"{_STATUS} = :status"),
}
_BEGAN = {"since_ns": "x.started_ns >= :since_ns", "until_ns": "x.started_ns < :until_ns"}


# sessions at most that a question names: each is a value, of which SQLite takes 32,766
NAMED = 1_000


class SessionRow(Session, frozen=True):
    """A session."""

    # From the log. Of a session without a request, the times of requests are that of the session
    # itself.
    started_ns: int = 0
    "Wall time of the first request, in nanoseconds since 1970."
    ended_ns: int = 0
    "Wall time of the last event, in nanoseconds since 1970."
    duration_ns: int = 0
    "Nanoseconds from the first request to the last event."
    used_ns: int = 0
    "Wall time of the newest request, by which the list is ordered."
    exchanges: int = 0
    "Number of exchanges."
    events: int = 0
    "Number of events."
    bytes: int = 0
    "Bytes of the decoded response bodies."
    open: int = 0
    "Number of exchanges that have not ended."
    gaps: int = 0
    "Number of exchanges of whose response something was not kept."
    status: str = OPEN  # see `last_status`
    "How the last exchange ended; `open` if it has not."
    apis: tuple[str, ...] = ()
    "The wire formats, each once."
    clients: tuple[str, ...] = ()
    "The programs that sent requests, each once."
    # From the projections, as in the view `session_summary`.
    title: str | None = None
    "The first text of a person, else of a model, cut to a title."
    turns: int = 0
    threads: int = 0
    models: tuple[str, ...] = ()
    "The models, each once."
    tools: tuple[str, ...] = ()
    "The names of the tools that were called, each once."
    tool_calls: int = 0
    errors: int = 0
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_output_tokens: int | None = None
    total_tokens: int | None = None
    "Tokens in total, as reported."
    answers: int = 0
    # By the prices, if there are any (`recorder.store.queries.costs`).
    cost_usd: str | None = None
    "Sum of the known costs in USD, as exact decimal text; null without prices."
    cost_partial: bool | None = None
    "True if there may be more: the cost of an exchange is not known, or its stream broke off."


_FIELDS = SessionRow.__struct_fields__
_PROJECTED = _FIELDS[_FIELDS.index("title") : _FIELDS.index("cost_usd")]
_LISTS = ("models", "tools")  # of which the view makes one text

_SEPARATOR = ", "
_SUMMARY = f"SELECT session_id, {', '.join(_PROJECTED)} FROM session_summary"


class _End(msgspec.Struct, frozen=True):
    """The fields of an `end` event that are read here."""

    status: str = UNKNOWN
    body_bytes: int = 0
    gap_chunks: int = 0


_end_of = msgspec.json.Decoder(_End).decode


def _lines_sql(engine: str, which: str) -> str:
    """Return the select of the exchanges that a condition is true of."""
    of_event = (
        "FROM events AS e WHERE e.session_id = x.session_id AND e.exchange_id = x.exchange_id AND"
    )
    ending = f"(SELECT e.raw {of_event} e.kind = 'end')"
    open_bytes = f"(SELECT coalesce(sum({size_of('e.raw', engine)}), 0) {of_event} e.{IS_OF_BODY})"
    return f"""SELECT x.session_id, x.started_ns, x.api, x.client, {LAST_POS} + 1 AS events,
    x.started_ns + coalesce({of_last_event("t_ns")}, 0) AS ended_ns, {ending} AS ending,
    CASE WHEN {ending} IS NULL THEN {open_bytes} ELSE 0 END AS open_bytes, p.purpose
FROM exchanges AS x
LEFT JOIN {TABLES["exchanges"]} AS p ON p.session_id = x.session_id AND p.exchange_id = x.exchange_id
{which} ORDER BY x.session_id, x.started_ns, x.exchange_id"""


class SessionPage(NamedTuple):
    """A part of the list of sessions, and the place after which it goes on; None at its end."""

    rows: list[SessionRow]
    next: ListPlace | None
    places: list[ListPlace]  # of the rows


class _Line(NamedTuple):
    place: ListPlace
    row: SessionRow


async def list_sessions(
    log: LogReader, limit: int | None = None, wanted: SessionFilter | None = None
) -> list[SessionRow]:
    """Return the sessions of the newest exchanges, newest first, each with the sums of its
    exchanges.
    """
    return (await session_page(log, limit, wanted)).rows


async def session_page(
    log: LogReader,
    limit: int | None,
    wanted: SessionFilter | None = None,
    before: ListPlace | None = None,
) -> SessionPage:
    """Return the sessions that follow a place in the list, and the place where it goes on."""
    lines: list[_Line] = []
    while True:
        rest = None if limit is None else limit - len(lines)
        more, before = await _lines(log, rest, wanted or SessionFilter(), before)
        lines += more
        if before is None or len(lines) == limit:
            return SessionPage([line.row for line in lines], before, [line.place for line in lines])


async def _lines(
    log: LogReader, limit: int | None, wanted: SessionFilter, before: ListPlace | None
) -> tuple[list[_Line], ListPlace | None]:
    """Return the next lines of the list of a log and its archives, and where it goes on.

    They are fewer than there may be if a session is in the log and in an archive.
    """
    own, *others = await log.of_each(lambda part: _lines_of(part, limit, wanted, before))
    if not others:
        return own
    archived = [line.row.session_id for line in chain.from_iterable(lines for lines, _ in others)]
    known = await _those_in(log, archived)
    found = {line.row.session_id: line for line in own[0]}
    for lines, _ in others:
        for line in lines:
            if line.row.session_id not in known:
                found.setdefault(line.row.session_id, line)
    # after it, a page has more
    until = max((after for _, after in (own, *others) if after is not None), default=None)
    newest = sorted(found.values(), key=operator.attrgetter("place"), reverse=True)
    newest = [line for line in newest if until is None or line.place >= until]
    if limit is None or len(newest) <= limit:
        return newest, until
    return newest[:limit], newest[limit - 1].place


_THOSE = of_named("SELECT session_id FROM sessions WHERE session_id IN :session_ids")


async def _those_in(log: LogReader, session_ids: Sequence[str]) -> set[str]:
    """Return the ids of the sessions that the log itself has."""
    found: set[str] = set()
    for part in _parts(session_ids):
        rows = await log.rows(_THOSE, session_ids=part)
        found.update(row.session_id for row in rows)
    return found


async def _lines_of(
    log: LogReader, limit: int | None, wanted: SessionFilter, before: ListPlace | None
) -> tuple[list[_Line], ListPlace | None]:
    """Return the next lines of the list of one log or archive, and where it goes on."""
    listing = Listing(wanted, limit, log.search, before)
    async with log.transaction() as connection:
        found = await listing.read(connection)
        ids = [row.session_id for row in found]
        sums, projected = await _sums(connection, ids, log.engine, is_all=listing.is_all)
        await _add_costs(connection, ids, projected, log.engine)
    lines = []
    for row in found:
        session = msgspec.structs.asdict(struct_of(Session, row))
        # of one without exchanges
        times = dict.fromkeys(("started_ns", "ended_ns", "used_ns"), row.created_ns)
        columns = session | times | sums.get(row.session_id, {}) | projected.get(row.session_id, {})
        if columns.get("open") and not (columns.get("title") and columns.get("models")):
            asked = await load("recorder.store.queries.open_session").asked_in(log, row.session_id)
            columns |= {
                "title": columns.get("title") or asked.title,
                "models": columns.get("models") or asked.models,
            }
        lines.append(_Line(place_of(row), SessionRow(**columns)))
    return lines, lines[-1].place if lines and len(lines) == limit else None


_Columns = dict[str, dict[str, Any]]
"""The columns of sessions, by their ids."""


async def _sums(
    connection: ReadConnection, ids: Sequence[str], engine: str, *, is_all: bool
) -> tuple[_Columns, _Columns]:
    """Return the sums over the exchanges of sessions, and what the projections have of these.

    A view is summed up for all sessions, unless the statement itself names those that it is about.
    """
    of_exchanges, of_projections = text(_lines_sql(engine, "")), text(_SUMMARY)
    parts: list[Sequence[str]] = [()]
    if not is_all or len(ids) <= NAMED:
        of_exchanges = of_named(_lines_sql(engine, "WHERE x.session_id IN :session_ids"))
        of_projections = of_named(f"{_SUMMARY} WHERE session_id IN :session_ids")
        parts = _parts(ids)
    sums: _Columns = {}
    projected: _Columns = {}
    for part in parts:
        named = {"session_ids": part} if part else {}
        lines = (await connection.execute(of_exchanges, named)).all()
        for session_id, group in groupby(lines, operator.attrgetter("session_id")):
            sums[session_id] = _sum(list(group))
        for row in (await connection.execute(of_projections, named)).all():
            projected[row.session_id] = _read(row._mapping)
    return sums, projected


async def _add_costs(
    connection: ReadConnection, ids: Sequence[str], projected: _Columns, engine: str
) -> None:
    if not ids or not (await connection.execute(HAS_PRICES)).scalar_one():
        return
    costs = load("recorder.store.queries.costs")
    for part in _parts(ids):
        rows = (await connection.execute(costs.session_costs(engine), {"session_ids": part})).all()
        for session_id, cost in costs.by_session(rows).items():
            projected.setdefault(session_id, {}).update(
                cost_usd=cost.usd, cost_partial=cost.partial
            )


def _parts(ids: Sequence[str]) -> list[Sequence[str]]:
    """Return ids in parts of as many as a question may name."""
    return [ids[first : first + NAMED] for first in range(0, len(ids), NAMED)]


def _read(summary: Mapping[Any, Any]) -> dict[str, Any]:
    lists = {name: tuple(filter(None, (summary[name] or "").split(_SEPARATOR))) for name in _LISTS}
    return {**{name: summary[name] for name in _PROJECTED}, **lists}


def _sum(lines: Sequence[Any]) -> dict[str, Any]:
    """Return the sums over the exchanges of one session, in order of their start."""
    started_ns, ended_ns = lines[0].started_ns, max(line.ended_ns for line in lines)
    body_bytes = open_exchanges = gaps = 0
    statuses: list[tuple[str | None, str]] = []
    for line in lines:
        if line.ending is None:
            open_exchanges += 1
            body_bytes += line.open_bytes
            statuses.append((line.purpose, OPEN))
            continue
        end = _read_end(line.ending)
        body_bytes += end.body_bytes
        statuses.append((line.purpose, end.status))
        if end.gap_chunks > 0:
            gaps += 1
    return {
        "started_ns": started_ns,
        "ended_ns": ended_ns,
        "duration_ns": ended_ns - started_ns,
        "used_ns": lines[-1].started_ns,
        "exchanges": len(lines),
        "events": sum(line.events for line in lines),
        "bytes": body_bytes,
        "open": open_exchanges,
        "gaps": gaps,
        "status": last_status(statuses),
        "apis": tuple(dict.fromkeys(line.api for line in lines)),
        "clients": tuple(dict.fromkeys(line.client for line in lines if line.client)),
    }


def last_status(exchanges: Iterable[tuple[str | None, str]]) -> str:
    """Return how the last of some exchanges ended, from the purpose and the status of each.

    A client also breaks off its own background requests, when it is done: such an end is not a
    fault of the session.
    """
    status = None
    for purpose, each in exchanges:
        if status is None or each != "client_disconnect" or purpose in (None, "turn"):
            status = each
    return status or OPEN


def _read_end(raw: bytes) -> _End:
    try:
        return _end_of(raw)
    except msgspec.DecodeError:
        return _End()
