"""The exchanges that a request continues by its links."""

from __future__ import annotations

from sqlalchemy import bindparam, select

from recorder.model.facts import Links
from recorder.model.text import storable
from recorder.store.queries.reader import LogReader
from recorder.store.schema import tables_of
from recorder.store.sql import of_session

_requests = tables_of["requests"]
_of_session = select(_requests.c.exchange_id).where(of_session(_requests))
# The exchanges that links may lead to, by `Links`; those that only retrieved a response included.
_CONTINUED = _of_session.where(_requests.c.response_id == bindparam("response_id")).union(
    _of_session.where(_requests.c.conversation_id == bindparam("conversation_id"))
)


async def continued(log: LogReader, session_id: str, links: Links) -> list[str]:
    """Return the exchanges of a session that have the response or the conversation that a request continues."""
    ids = {name: storable(id) for name, id in links._asdict().items()}  # as the rows have them
    rows = await log.rows(_CONTINUED, session_id=session_id, **ids)
    return [row.exchange_id for row in rows]
