"""The note in the log that a budget was spent: once a month, after the last exchange of whoever it is
for.
"""

from __future__ import annotations

import msgspec

from recorder.ingest.capture import Capture
from recorder.model.facts import BudgetSpent
from recorder.model.ids import first_id
from recorder.projections.rows import TABLES
from recorder.store.sql import Statement
from recorder.store.write.writer import Store

_NOTED = Statement(
    f"SELECT 1 FROM {TABLES['anomalies']} WHERE kind = 'budget_spent' AND detail = :detail"
)
_LAST = {
    kind: Statement(
        f"SELECT session_id, exchange_id FROM {TABLES['exchanges']} WHERE {kind} = :name AND exchange_id >= :since_id "
        "ORDER BY exchange_id DESC LIMIT 1"
    )
    for kind in ("owner", "team")
}


def note_spent(store: Store, spent: BudgetSpent, since_ns: int) -> None:
    """Add the note to the last exchange that began since a time, unless the log has it.

    Requests that were refused for a budget are in no log, so it does not wait for the next one.
    """
    with store.transaction():
        if list(store.ask(_NOTED, {"detail": spent.about})):
            return
        of_name = {"name": spent.name, "since_id": first_id(since_ns)}
        for session_id, exchange_id in store.ask(_LAST[spent.budget], of_name):
            last = store.last_event(session_id, exchange_id)
            if last is not None and last.kind in ("end", "note"):
                store.append([Capture.after(last).note(last.t_ns, msgspec.json.encode(spent))])
                store.projector.project(session_id, exchange_id)
