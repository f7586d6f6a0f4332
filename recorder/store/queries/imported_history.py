"""What the log has already of a history that is imported: its sessions, its exchanges, and what was
recorded of it.
"""

from __future__ import annotations

from recorder.model.events import TRANSCRIPT, Session
from recorder.model.ids import BEFORE_ALL, first_id, without_time
from recorder.projections.rows import TABLES
from recorder.projections.views.parts import same_exchange
from recorder.store.sql import Statement
from recorder.store.write.writer import Store

AROUND_NS = 600 * 10**9
"""How far the time of a line may be from that of the exchange that was recorded: an answer may take
minutes.
"""

_SESSION = Statement("""SELECT session_id, created_ns, name, source, labels, origin FROM sessions
WHERE name = :name AND source = :source AND origin = 'import' ORDER BY session_id LIMIT 1""")
_DERIVED = Statement("""SELECT x.exchange_id FROM exchanges AS x
JOIN sessions AS s ON s.session_id = x.session_id WHERE s.source = :source""")
_RECORDED = Statement(f"""SELECT p.response_id FROM exchanges AS x
JOIN sessions AS s ON s.session_id = x.session_id
JOIN {TABLES["exchanges"]} AS p ON {same_exchange("p", "x")}
WHERE x.exchange_id >= :first AND x.exchange_id <= :last AND s.origin = 'live' AND p.response_id IS NOT NULL""")


def derived_session(store: Store, name: str) -> Session | None:
    """Return the session of a name that an earlier import of transcripts made."""
    for row in store.ask(_SESSION, {"name": name, "source": TRANSCRIPT}):
        return Session(*row)
    return None


def derived_exchanges(store: Store) -> set[str]:
    """Return the ids of all exchanges that were derived from transcripts, without their times: a
    copy of a response may have another one. They are read once for an import: a hundred thousand
    take 10 MB.
    """
    return {without_time(str(row[0])) for row in store.ask(_DERIVED, {"source": TRANSCRIPT})}


def recorded_responses(store: Store, since_ns: int, until_ns: int) -> set[str]:
    """Return the ids of responses that a recorder has recorded itself in that time, a little before
    and after.
    """
    first = first_id(since_ns - AROUND_NS) if since_ns > AROUND_NS else BEFORE_ALL
    values = {"first": first, "last": first_id(until_ns + AROUND_NS)}
    return {str(row[0]) for row in store.ask(_RECORDED, values)}
