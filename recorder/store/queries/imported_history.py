"""What the log has already of a history that is imported: its sessions, its exchanges, and what was recorded of it."""

from __future__ import annotations

from collections.abc import Iterable

from recorder.model.events import TRANSCRIPT, Session
from recorder.model.ids import BEFORE_ALL, first_id
from recorder.projections.rows import TABLES
from recorder.projections.views.parts import same_exchange
from recorder.store.sql import Statement
from recorder.store.write.writer import Store

AROUND_NS = 600 * 10**9
"""How far the time of a line may be from that of the exchange that was recorded: an answer may take minutes."""

_SESSION = Statement("""SELECT session_id, created_ns, name, source, labels, origin FROM sessions
WHERE name = :name AND source = :source AND origin = 'import' ORDER BY session_id LIMIT 1""")
_EXCHANGE = Statement("SELECT exchange_id FROM exchanges WHERE exchange_id = :exchange_id")
_RECORDED = Statement(f"""SELECT p.response_id FROM exchanges AS x
JOIN sessions AS s ON s.session_id = x.session_id
JOIN {TABLES["exchanges"]} AS p ON {same_exchange("p", "x")}
WHERE x.exchange_id >= :first AND x.exchange_id <= :last AND s.origin = 'live' AND p.response_id IS NOT NULL""")


def derived_session(store: Store, name: str) -> Session | None:
    """Return the session of a name that an earlier import of transcripts made."""
    for row in store.ask(_SESSION, {"name": name, "source": TRANSCRIPT}):
        return Session(*row)
    return None


def known_exchanges(store: Store, ids: Iterable[str]) -> set[str]:
    """Return those of some ids that exchanges have."""
    answers = store.run_all([(_EXCHANGE, {"exchange_id": id}) for id in ids])
    return {str(row[0]) for rows in answers for row in rows}


def recorded_responses(store: Store, since_ns: int, until_ns: int) -> set[str]:
    """Return the ids of responses that a recorder has recorded itself in that time, a little before and after."""
    first = first_id(since_ns - AROUND_NS) if since_ns > AROUND_NS else BEFORE_ALL
    values = {"first": first, "last": first_id(until_ns + AROUND_NS)}
    return {str(row[0]) for row in store.ask(_RECORDED, values)}
