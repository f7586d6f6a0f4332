"""The marks of a session: findings of the linter and anomalies, at the events that show them.

All of the session is decoded and judged for them. The viewer has that done by a process which gives
way to all others, so that nobody who seeks meanwhile waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import sys
from threading import Thread
from typing import Any, Literal

import msgspec
from sqlalchemy import URL, select

from recorder.errors import RecorderError, StoreError
from recorder.lint.linter import lint, profile_of
from recorder.model.events import Exchange, MemoryBudget, Session
from recorder.program import command_of, load
from recorder.projections.rows import AnomalyRow
from recorder.recordings.loader import load_exchanges
from recorder.recordings.selection import select_exchanges
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_state import folded_exchange
from recorder.store.schema import tables_of
from recorder.store.sql import of_exchange, of_session

MARKS_LIMIT = 10_000  # of one session: more than a person looks through
NICENESS = 10  # of the process: it gets what the viewer and a proxy beside it leave

_anomalies, _projected = tables_of["anomalies"], tables_of["exchanges"]
_ANOMALIES = select(_anomalies).where(of_exchange(_anomalies)).order_by(_anomalies.c.anomaly)
_PROJECTED = select(_projected.c.exchange_id).where(of_session(_projected))


class Mark(msgspec.Struct, frozen=True):
    """A finding or an anomaly, at the event that shows it."""

    exchange: int  # its number
    pos: int | None
    kind: Literal["lint", "anomaly"]
    severity: str
    rule: str
    text: str
    why: str | None = None


async def marks(log: LogReader, session_ref: str) -> dict[str, Any]:
    """Return the marks of a session, exchange by exchange; `notes` say which are missing, and why.

    An exchange is in memory alone, so that a session of any size has marks, but for its exchanges
    that are too large.
    """
    session, numbered = await select_exchanges(log, session_ref, None)
    projected = {
        row.exchange_id for row in await log.rows(_PROJECTED, session_id=session.session_id)
    }
    found: list[Mark] = []
    notes: list[str] = []
    for number, exchange in numbered:
        for read in (_findings, _anomalies_of):
            try:
                found += await read(
                    log, session, number, exchange, exchange.exchange_id in projected
                )
            except StoreError:
                raise
            except RecorderError as error:
                notes.append(f"Exchange {number}: {error}")
        if len(found) > MARKS_LIMIT:
            notes.append(
                f"These are the first {MARKS_LIMIT:,} marks: exchanges after {number} were not looked at."
            )
            break
    return {"marks": found[:MARKS_LIMIT], "notes": notes}


async def marks_aside(url: URL, session_ref: str) -> msgspec.Raw:
    """Return what `marks` returns, as JSON, from a process of its own. It ends with who waits for
    it, however that one ends.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command_of(__name__), stdin=pipe, stdout=pipe, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(pickle.dumps((url, session_ref)))  # not closed: that ends it
        written = await process.stdout.read()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if not written:
        raise RecorderError("The process that looks for findings ended: is there memory for it?")
    answer = pickle.loads(written)
    if isinstance(answer, RecorderError):
        raise answer
    return msgspec.Raw(answer)


def main() -> None:
    """Write the marks that stdin asks for, or why there are none, to stdout."""
    os.nice(NICENESS)
    url, session_ref = pickle.load(sys.stdin.buffer)
    Thread(target=_end_with_stdin, daemon=True).start()
    try:
        answer: Any = asyncio.run(_marks_as_json(url, session_ref))
    except RecorderError as error:
        answer = error
    sys.stdout.buffer.write(pickle.dumps(answer))
    sys.stdout.flush()
    os._exit(0)  # the thread holds stdin


async def _marks_as_json(url: URL, session_ref: str) -> bytes:
    async with await load("recorder.archive.opening:open_log")(url) as log:
        return msgspec.json.encode(await marks(log, session_ref))


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


async def _findings(
    log: LogReader, session: Session, number: int, exchange: Exchange, _: bool
) -> list[Mark]:
    """Return what the rules of the exchange's own API find in it."""
    if profile_of(exchange.api) is None:
        return []
    budget = MemoryBudget("it takes", "so it was not judged here")
    [recording] = await load_exchanges(log, session, [(number, exchange)], budget)
    found: list[Mark] = []
    for finding in await asyncio.to_thread(lint, recording, places_limit=MARKS_LIMIT):
        for place in finding.places:
            text = f"{finding.meaning} ({place.said})" if place.said else finding.meaning
            found.append(
                Mark(number, place.pos, "lint", finding.severity, finding.rule, text, finding.why)
            )
    return found


async def _anomalies_of(
    log: LogReader, session: Session, number: int, exchange: Exchange, is_projected: bool
) -> list[Mark]:
    """Return the anomalies of an exchange: of one without projections those of a fold."""
    if is_projected:
        values = {"session_id": session.session_id, "exchange_id": exchange.exchange_id}
        rows = [AnomalyRow(*row) for row in await log.rows(_ANOMALIES, **values)]
    else:
        rows = (await folded_exchange(log, exchange))["anomalies"]
    found: list[Mark] = []
    for row in rows:
        times = f"{row.count} times" if row.count > 1 else ""
        text = ", ".join(filter(None, (row.detail, times))) or row.kind
        found.append(Mark(number, row.pos, "anomaly", "warning", row.kind, text))
    return found
