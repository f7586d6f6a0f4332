"""The sessions and exchanges that a person names: by an id, the beginning of one, a name, a number,
or `latest`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlalchemy import select, text

from recorder.errors import NotFoundError, UsageError
from recorder.model.attribution import owner_of
from recorder.model.events import LATEST, PROBE, Exchange, Session
from recorder.model.ids import ID_LENGTH, ids_beginning
from recorder.store.engine import AnyRow
from recorder.store.maintain.purge.tombstone import ARCHIVED, Tombstone
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_list import NEWEST, Listing, SessionFilter, like, place_of
from recorder.store.schema import exchanges, sessions, tombstones
from recorder.store.sql import columns_of, of_session, struct_of

CANDIDATES = 5

_SESSION = select(sessions).where(of_session(sessions))
_NAMED = text("SELECT session_id FROM sessions WHERE name = :name")

_NUMBER = re.compile("[1-9][0-9]{0,8}")  # of an exchange in its session
_NUMBERED = f"""SELECT {columns_of(exchanges, "x")}, n.number FROM exchanges AS x
JOIN (SELECT exchange_id, row_number() OVER (ORDER BY started_ns, exchange_id) AS number
    FROM exchanges WHERE session_id = :session_id) AS n ON n.exchange_id = x.exchange_id
WHERE x.session_id = :session_id"""
_OF_NUMBER = text(f"{_NUMBERED} AND n.number = :number")
_OF_IDS = text(f"{_NUMBERED} AND x.exchange_id BETWEEN :first AND :last ORDER BY n.number")


async def session_named(log: LogReader, ref: str) -> Session:
    """Return the session of `ref`: `latest`, an id, a name (the newest of that name), or the
    beginning of an id.

    Raise `NotFoundError` if there is none, `UsageError` if it is the beginning of several ids, or a
    name that several owners have given.
    """
    ref = ref.encode("utf-8", "replace").decode()  # an argument of a command line may be any bytes
    if ref == LATEST:
        found = await _last_used(log)
    else:
        found = await _with_id(log, ref.lower())
        found = found or await _of_name(log, ref)
        found = found or await _beginning_with(log, ref.lower())
    if found:
        return found[0]
    purged = await tombstone_of(log, ref)
    remedy = (
        "nothing is recorded there" if ref == LATEST else "`recorder sessions` lists what there is"
    )
    sentence = str(purged or f"There is no session {ref!r} in {log.name}: {remedy}.")
    if log.left_out:
        sentence += f" It may be in {' and '.join(log.left_out)}: `recorder doctor` says why that is not read."
    raise NotFoundError(sentence)


async def tombstone_of(log: LogReader, ref: str) -> Tombstone | None:
    """Return the tombstone of the purged session with this id, or of the only one whose id begins
    so: that of an archive, if it was purged from there.
    """
    meant = ids_beginning(ref.lower())
    if meant is None:
        return None
    ids = tombstones.c.session_id
    statement = select(tombstones).where(ids.between(*meant)).order_by(ids).limit(2)

    async def tombstone_in(part: LogReader) -> Tombstone | None:
        rows = await part.rows(statement)
        return struct_of(Tombstone, rows[0]) if len(rows) == 1 else None

    own = await tombstone_in(log)
    if own is not None and own.reason != ARCHIVED:
        return own
    _, *of_archives = await log.of_each(tombstone_in)
    return next(filter(None, of_archives), own)


async def count_named(log: LogReader, name: str) -> int:
    """Return the number of sessions of a name."""
    ids: set[str] = set()
    for rows in await log.of_each(lambda part: part.rows(_NAMED, name=name)):
        ids.update(row.session_id for row in rows)
    return len(ids)


async def names_beginning(log: LogReader, beginning: str, limit: int) -> list[str]:
    """Return the names of the newest sessions whose names begin so."""
    begins = f"s.name LIKE :begins || '%' ESCAPE '/' AND s.source <> '{PROBE}'"
    found = await _newest(log, begins, limit, begins=like(beginning))
    return [session.name for session in found]


async def exchanges_named(log: LogReader, session_id: str, ref: str) -> list[tuple[int, Exchange]]:
    """Return the exchange of a session with this number, else those whose ids begin so; each with
    its number.
    """
    rows: Sequence[AnyRow] = ()
    if _NUMBER.fullmatch(ref):
        rows = await log.rows(_OF_NUMBER, session_id=session_id, number=int(ref))
    if not rows and (meant := ids_beginning(ref)) is not None:
        rows = await log.rows(_OF_IDS, session_id=session_id, first=meant.first, last=meant.last)
    return [(row.number, struct_of(Exchange, row)) for row in rows]


async def _last_used(log: LogReader) -> list[Session]:
    async def last_used_in(part: LogReader) -> Sequence[AnyRow]:
        async with part.transaction() as connection:
            return await Listing(SessionFilter(), 1, part.search).read(connection)

    return _merged(await log.of_each(last_used_in), 1)


async def _with_id(log: LogReader, ref: str) -> list[Session]:
    meant = ids_beginning(ref)
    if meant is None or len(ref) != ID_LENGTH:
        return []
    return [struct_of(Session, row) for row in await log.rows(_SESSION, session_id=meant.first)]


async def _of_name(log: LogReader, name: str) -> list[Session]:
    """Return the newest session of a name, which is of one owner, or of none."""
    newest = await _newest(log, "s.name = :name", 1, name=name)
    if not newest:
        return []
    [mine] = newest
    others = await _newest(
        log, "s.name = :name AND s.labels <> :labels", CANDIDATES, name=name, labels=mine.labels
    )
    of_owners = {owner_of(session.labels): session for session in reversed([mine, *others])}
    if len(of_owners) > 1:
        listed = "".join(
            f"\n  {session.session_id} of {owner or 'no owner'}"
            for owner, session in of_owners.items()
        )
        raise UsageError(
            f"{name!r} is a session of several owners; give the id of one. The newest are:{listed}"
        )
    return newest


async def _beginning_with(log: LogReader, prefix: str) -> list[Session]:
    meant = ids_beginning(prefix)
    if meant is None:
        return []
    found = await _newest(
        log, "s.session_id BETWEEN :first AND :last", CANDIDATES + 1, **meant._asdict()
    )
    if len(found) > 1:
        named = "".join(
            f"\n  {session.session_id} {session.name}" for session in found[:CANDIDATES]
        )
        more = "\n  …" if len(found) > CANDIDATES else ""
        raise UsageError(
            f"{prefix!r} is the beginning of several session ids; give more of it. The newest are:{named}{more}"
        )
    return found


async def _newest(log: LogReader, where: str, limit: int, **values: str) -> list[Session]:
    statement = text(NEWEST.format(where, limit))
    return _merged(await log.of_each(lambda part: part.rows(statement, **values)), limit)


def _merged(parts: Sequence[Sequence[AnyRow]], limit: int) -> list[Session]:
    """Return the newest sessions of a log and its archives, each once: as the first has it that has
    it at all.
    """
    found: dict[str, AnyRow] = {}
    for rows in parts:
        for row in rows:
            found.setdefault(row.session_id, row)
    newest = sorted(found.values(), key=place_of, reverse=True)
    return [struct_of(Session, row) for row in newest[:limit]]
