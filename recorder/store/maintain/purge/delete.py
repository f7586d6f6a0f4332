"""Purging: a session is deleted permanently from the log and from everything that was computed from
it.

Rules of this file:

* A session is purged in one transaction. Its tombstone comes first: only a session that has one can
  be deleted from the log, and nothing can be added to it afterwards.
* No other process writes meanwhile. On a server a transaction that looked for the tombstone before
  would add its rows after; so a purge waits for those that have begun, and those that begin later
  see it (`recorder.store.postgres.writer`).
* Deleted is not gone: `sweep` removes what is left. SQLite overwrites deleted rows in place
  (`secure_delete`), but pages that were split or joined before keep copies of the rows that were
  moved. Only a new file has none: a sweep writes one. A server keeps deleted rows for transactions
  that began before, and until a VACUUM; their bytes stay until the room is used again, and in its
  WAL and backups. A client of the server cannot promise more.
* What goes into an archive is deleted in the same way, if it is still what the archive has: its
  tombstone names the archive (`recorder.archive`).
* Journals are not looked into here. The tombstone has the ids of exchanges that a journal may
  repeat; those of other machines are known by their places in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from sqlalchemy import URL, insert

from recorder.errors import RecorderError, StoreBusyError, StoreError, StoreLostError
from recorder.projections.rows import TABLES
from recorder.store.engine import BUSY_TIMEOUT_S, schema_named, writing_of
from recorder.store.location import database_name, database_url
from recorder.store.maintain.extents import extents
from recorder.store.maintain.purge.tombstone import Counts, Tombstone
from recorder.store.schema import tombstones
from recorder.store.search import INDEXES
from recorder.store.sql import Statement, columns_of
from recorder.store.write.projector import attempt, of_each
from recorder.store.write.writer import Store

_OF_SESSION = "WHERE session_id = :session_id"
_EXISTS = Statement(f"SELECT session_id FROM sessions {_OF_SESSION}")
_RECORDERS = Statement("SELECT recorder_id FROM ingest_offsets")
_EVENTS = Statement(f"SELECT count(*), coalesce(sum(length(raw)), 0) FROM events {_OF_SESSION}")
_BURY = Statement(insert(tombstones))
_UNINDEX = of_each("remove_session")
_DELETES = {
    name: Statement(f"DELETE FROM {name} {_OF_SESSION}")
    for name in (*TABLES.values(), "dead_letters", "export_cursors")
}
_GONE = f"SELECT {columns_of(tombstones, 't')} FROM tombstones AS t"
_GONE_SESSION = Statement(f"{_GONE} {_OF_SESSION}")
_NAMING = Statement(f"{_GONE} WHERE counts LIKE '%' || :recorder_id || '%'")


class Archived(NamedTuple):
    """An archive that has a session, by its name, and the hash of the last event of each exchange
    that it has.
    """

    name: str
    last_hashes: Mapping[str, bytes | None]


def purge(
    store: Store,
    session_id: str,
    reason: str,
    now_ns: int,
    journals: Collection[str] = (),
    is_alive: Callable[[str], bool] = lambda _recorder_id: False,
    archived: Archived | None = None,
) -> Counts | None:
    """Delete a session; return its counts, or None if it does not exist, or has grown since it was
    `archived`.

    `journals` are the ids of recorders whose journal exists, `is_alive` returns whether a recorder
    runs. Raises `RecorderError` if one of them is recording the session just now, or the user may
    not delete.
    """
    key = {"session_id": session_id}
    with store.transaction(alone=True):
        if not list(store.ask(_EXISTS, key)):
            return None
        found = extents(store.ask, session_id).values()
        hashes = {each.exchange.exchange_id: each.last_hash for each in found}
        if archived is not None and hashes != archived.last_hashes:
            return None
        require_owner(store, "purge")
        recording = {each.exchange.recorder_id for each in found if not each.has_ended}
        if any(map(is_alive, recording)):
            raise being_recorded(session_id)
        journals = {*journals, *(recorder_id for (recorder_id,) in store.ask(_RECORDERS, {}))}
        late: dict[str, list[str]] = {}
        for each in found:
            if each.exchange.recorder_id in journals:
                late.setdefault(each.exchange.recorder_id, []).append(each.exchange.exchange_id)
        [(count, size_bytes)] = store.ask(_EVENTS, key)
        counts = Counts(len(found), count, size_bytes, late, archived.name if archived else "")
        last_hash = next(filter(None, reversed(hashes.values())), None)
        _bury(
            store,
            Tombstone(session_id, now_ns, reason, msgspec.json.encode(counts).decode(), last_hash),
        )
        _unindex(store, key)
        for statement in _DELETES.values():
            store.run(statement, key)
        store.delete_session(session_id)
    return counts


def sweep(
    database: str | Path | URL, *, vacuum: bool = True, busy_timeout_s: float = BUSY_TIMEOUT_S
) -> bool:
    """Remove the traces of deleted rows, as far as possible from here: from the full-text index, a
    file, its WAL; on a server, from the tables.

    Without `vacuum` a file keeps its size, and copies of rows that were moved in it; a server does
    it at its own time. Return True if no reader prevented it: a transaction that stays open keeps
    what existed when it began.
    """
    url = database_url(database)
    return writing_of(url).sweep(url, vacuum=vacuum, busy_timeout_s=busy_timeout_s)


def require_owner(store: Store, command: str) -> None:
    """Raise `RecorderError` unless the user of a log may delete from it. In a transaction."""
    asked = schema_named(store.engine).may_delete_sql
    if asked is not None and not all(may for (may,) in store.ask(Statement(asked), {})):
        raise RecorderError(
            f"The user of {database_name(store.url)} may not {command}: give the URL of the owner of its schema."
        )


def being_recorded(name: str) -> RecorderError:
    return RecorderError(f"Session {name} is being recorded: purge it when its streams have ended.")


def _bury(store: Store, tombstone: Tombstone) -> None:
    store.run(_BURY, msgspec.structs.asdict(tombstone))


def bury(store: Store, tombstone: Tombstone) -> bool:
    """Insert the tombstone of a purge elsewhere, unless the log has the session: then return False.

    In a transaction that excludes other writers.
    """
    if list(store.ask(_EXISTS, {"session_id": tombstone.session_id})):
        return False
    _bury(store, tombstone)
    return True


def _unindex(store: Store, key: Mapping[str, str]) -> None:
    """Remove the words of a session from the full-text indexes.

    Damaged ones are rebuilt without them.
    """
    try:
        with attempt(store):
            for statement in _UNINDEX:
                store.run(statement, key)
    except (StoreBusyError, StoreLostError):
        raise
    except StoreError:
        for index in INDEXES:
            store.run(_DELETES[index.projection.table], key)
        store.projector.reindex()


def refused_because(store: Store, session_id: str) -> str | None:
    """Return why the log takes nothing more of a session, as "was purged"; None if it does.

    In a transaction.
    """
    return next(
        (_gone(Tombstone(*row)) for row in store.ask(_GONE_SESSION, {"session_id": session_id})),
        None,
    )


def late_exchanges(store: Store, recorder_id: str) -> dict[str, str]:
    """Return the exchanges that a recorder's journal may still hold of sessions that are gone, and
    why they are, as `refused_because` does. In a transaction.
    """
    late: dict[str, str] = {}
    for row in store.ask(_NAMING, {"recorder_id": recorder_id}):
        tombstone = Tombstone(*row)
        late.update(dict.fromkeys(tombstone.late.get(recorder_id, []), _gone(tombstone)))
    return late


def _gone(tombstone: Tombstone) -> str:
    return f"was archived in {tombstone.archive}" if tombstone.archive else "was purged"
