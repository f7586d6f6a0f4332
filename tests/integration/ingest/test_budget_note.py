"""The note that a budget was spent: where it stands in a log, and that it stands there once."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL

from recorder.ingest.budget_note import note_spent
from recorder.model.attribution import Attribution
from recorder.model.facts import BudgetSpent
from recorder.store.write.writer import Store
from tests.support.conversations import Conversations, asking, message, response
from tests.support.server import run
from tests.support.superuser import asked

SPENT = BudgetSpent("owner", "ann", "2026-11", "1.000", "0.500")


def test_it_is_added_once_to_the_last_exchange_of_the_owner_and_shown(database: Path | URL) -> None:
    log = Conversations(database)
    for name, owner in (("first", "ann"), ("last", "ann"), ("other", "bob")):
        said = response(*message("Sunny."), id=name)
        log.session(name).exchange(said, asking("How is it?"), attribution=Attribution(owner))
    for record in (SPENT, SPENT, BudgetSpent("team", "ads", "2026-11", "1.000", "0.500")):
        with Store(database) as store:
            note_spent(store, record, 0)
    noted = "SELECT s.name, e.pos - x.pos FROM events AS e JOIN events AS x USING (session_id, exchange_id) "
    noted += "JOIN sessions AS s USING (session_id) WHERE e.kind = 'note' AND x.kind = 'end'"
    assert asked(database, noted) == [("last", 1)]
    shown = run(database, "show", "last")
    assert (shown.code, shown.text.count("budget_spent owner ann in 2026-11")) == (0, 1), shown.text
    verified = run(database, "verify", "last")
    assert verified.code == 0, verified.text
