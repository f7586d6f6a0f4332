"""Exchanges that are open in the log, and whose end no journal has.

A power cut takes what a journal had not brought to the disk, and the log may be ahead of what is
left of it. If the disk of a machine is lost, its journal is lost too. Such an exchange ends after
its last event in the log, with a gap before the end for an unknown number of bytes.

The locks of a journal show whether a recorder on this machine lives. Of other machines a server
knows when it last heard (`Heartbeat`), by its own clock; the time in which it was away itself does
not count.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from sqlalchemy import select

from recorder.errors import StoreBusyError, StoreConflictError, StoreError
from recorder.ingest.capture import Capture
from recorder.ingest.pending import UNREAD, UNREAD_REQUEST, LateRecordCounter
from recorder.model.events import EndRecord, Event, ExchangeEnd, GapRecord
from recorder.store.engine import address_of
from recorder.store.schema import events
from recorder.store.sql import FORMS, IS_END, Statement, has_ended, of_exchange
from recorder.store.write.writer import Store

log = logging.getLogger(__name__)

HEARTBEAT_S = 30.0  # to a server, a small transaction: a recorder that idles takes two a minute
LOST = "what the journal had of it after this point is lost"

_OPEN = Statement(
    f"SELECT session_id, exchange_id FROM exchanges WHERE recorder_id = :recorder_id AND NOT {has_ended('exchanges')}"
)
# Of a recorder whose segments are collected, the host is the URL of the bucket: its journal is
# elsewhere.
_RECORDERS = Statement(
    "SELECT recorder_id FROM ingest_offsets WHERE coalesce(host, '') NOT LIKE '%://%'"
)
_END = Statement(select(events).where(of_exchange(events), IS_END))


# A recorder that was never heard of may be about to commit for the first time: its newest exchange
# says how old it is.
def unfinished_sql(engine: str) -> str:
    """Return the select whose rows are `Unfinished`.

    Only on a server: for a file, locks show who lives.
    """
    silent_ns = FORMS[engine].silence_ns.format(heard="coalesce(max(o.seen_ns), max(x.started_ns))")
    return f"""
SELECT x.recorder_id, max(o.host), count(*), {silent_ns}
FROM exchanges AS x LEFT JOIN ingest_offsets AS o ON o.recorder_id = x.recorder_id
WHERE NOT {has_ended("x")}
GROUP BY x.recorder_id ORDER BY x.recorder_id
"""


_UNFINISHED = Statement(unfinished_sql)
# Whoever commits a place waits for this row: what was heard of it does not change before it is
# over.
_SILENCE = Statement(
    lambda engine: (
        f"SELECT {FORMS[engine].silence_ns.format(heard='coalesce(seen_ns, 0)')} FROM ingest_offsets "
        "WHERE recorder_id = :recorder_id FOR UPDATE"
    )
)


class Unfinished(NamedTuple):
    """The open exchanges of one recorder."""

    recorder_id: str
    host: str | None
    exchanges: int
    silent_ns: int  # since the server last heard of it


def rest_of(store: Store, session_id: str, exchange_id: str, reason: str) -> Sequence[Event]:
    """Return the events that end an exchange where the log has it: a gap and an `end`; none if it
    has ended. In a transaction.
    """
    last = store.last_event(session_id, exchange_id)
    if last is None or last.kind in ("end", "note"):
        return ()
    gap = GapRecord("response", 1, 0, "", last.t_ns, last.t_ns, reason)
    return Capture.after(last).break_off(last.t_ns, gap, ExchangeEnd("recorder_crash", reason))


def end_open(store: Store, recorder_id: str) -> None:
    """End all exchanges that a dead recorder has open. In a transaction."""
    for session_id, exchange_id in list(store.ask(_OPEN, {"recorder_id": recorder_id})):
        events = rest_of(store, session_id, exchange_id, LOST)
        store.append(events)
        if events:
            store.projector.project(session_id, exchange_id)


def end_forsaken(store: Store, root: Path, but: Path | None = None) -> None:
    """End the open exchanges of recorders that have an offset in the log, but no journal in `root`.

    `but` is the journal of a recorder that lives, and puts it back if it was deleted.

    If the database is locked, the next recovery does it. Of a database on a server, other machines
    have journals.
    """
    if not address_of(store.url).is_local:
        return
    with suppress(StoreBusyError), store.transaction():
        journals = [root / name for (name,) in store.ask(_RECORDERS, {})]
        for recorder_id in [each.name for each in journals if each != but and not each.exists()]:
            log.error(
                "the journal of recorder %s is lost: what it had open ends where the log has it",
                recorder_id,
            )
            end_open(store, recorder_id)
            store.forget_offset(recorder_id)


def unfinished(store: Store) -> list[Unfinished]:
    """Return the open exchanges in a log on a server, by recorder."""
    with store.transaction():
        return [Unfinished(*row) for row in store.ask(_UNFINISHED, {})]


def end_silent(store: Store, root: Path, after_ns: int) -> list[Unfinished]:
    """End the open exchanges of recorders that gave the server no sign of life for so long, and
    that have no journal in `root`.

    An exchange that somebody else ends or continues at this moment is left to them. Returns what
    was ended.
    """
    silent = [
        each
        for each in unfinished(store)
        if each.silent_ns > after_ns and not has_journal(root, each)
    ]
    return [each for each in silent if _end_if_silent(store, each.recorder_id, after_ns)]


def has_journal(root: Path, each: Unfinished) -> bool:
    """Return whether the journal of a recorder is here: then it has the rest."""
    return bool(each.recorder_id) and (root / Path(each.recorder_id).name).exists()


def _end_if_silent(store: Store, recorder_id: str, after_ns: int) -> bool:
    with suppress(StoreBusyError, StoreConflictError), store.transaction():
        if any(
            silent_ns <= after_ns
            for (silent_ns,) in store.ask(_SILENCE, {"recorder_id": recorder_id})
        ):
            return False
        log.error("recorder %s is gone: what it had open ends where the log has it", recorder_id)
        end_open(store, recorder_id)
        return True
    return False


def late_counter(store: Store, session_id: str, exchange_id: str) -> LateRecordCounter | None:
    """Return a counter for the rest of an exchange that was ended here without its recorder.

    In a transaction.

    There is none for one that could not be read: that was counted to its end, whatever can be read
    of it now.
    """
    for row in store.ask(_END, {"session_id": session_id, "exchange_id": exchange_id}):
        end = Event(*row)
        record = msgspec.json.decode(end.raw, type=EndRecord)
        if record.outcome == "recorder_crash" and not (record.error or "").startswith(
            (UNREAD, UNREAD_REQUEST)
        ):
            return LateRecordCounter(end)
    return None


class Heartbeat:
    """A sign of life that an ingester leaves on a server in idle moments, for `end_silent`.

    It is not a write into the log, and a file gets none: the locks of a journal show whether a
    recorder on this machine lives.
    """

    def __init__(self, store: Store, recorder_id: str) -> None:
        self._store, self._recorder_id = store, recorder_id
        self._due_s = float("inf") if address_of(store.url).is_local else 0.0

    def committed(self) -> None:
        """Put off the next sign: a place was committed, which is one too."""
        self._due_s = max(self._due_s, time.monotonic() + HEARTBEAT_S)

    def rest(self) -> None:
        """Leave a sign if it is time, when there is nothing to ingest.

        A server that is away gets the next one.
        """
        now_s = time.monotonic()
        if now_s >= self._due_s:
            self._due_s = now_s + HEARTBEAT_S
            with suppress(StoreError), self._store.transaction():
                self._store.renew(self._recorder_id)
