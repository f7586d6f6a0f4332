"""The exchanges that a request continues by its links."""

from __future__ import annotations

from sqlalchemy import text

from recorder.model.facts import Links
from recorder.model.text import storable
from recorder.projections.rows import TABLES
from recorder.store.queries.reader import LogReader

# The exchanges that links may lead to, by `Links`; those that only retrieved a response included.
_CONTINUED = text(f"""SELECT exchange_id FROM {TABLES["requests"]}
WHERE session_id = :session_id AND (response_id = :response_id OR conversation_id = :conversation_id)
ORDER BY exchange_id""")


async def continued(log: LogReader, session_id: str, links: Links) -> list[str]:
    """Return the exchanges of a session that have the response or the conversation that a request
    continues.
    """
    ids = {name: storable(id) for name, id in links._asdict().items()}  # as the rows have them
    rows = await log.rows(_CONTINUED, session_id=session_id, **ids)
    return [row.exchange_id for row in rows]
