"""The rebuild of all projections from the log: exchange by exchange, while others read and write.

Each batch is a transaction with its last exchange, so an interrupted rebuild continues where it
stopped; what ends meanwhile is projected by its writer. A reader sees an exchange's rows as they
were or as they are, never half.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from recorder.store.schema import REBUILD
from recorder.store.sql import Statement
from recorder.store.write.projector import START
from recorder.store.write.writer import Store

BATCH_EXCHANGES = 200
BATCH_EVENTS = 20_000  # about a tenth of a second under the write lock; one exchange may pass it

_PLACE = Statement("SELECT session_id, exchange_id FROM rebuilds WHERE name = :name")
_ENDED = Statement("SELECT count(*) FROM events WHERE kind = 'end'")
_ENDED_AFTER = Statement("""SELECT session_id, exchange_id, pos FROM events
WHERE kind = 'end' AND (session_id, exchange_id) > (:session_id, :exchange_id)
ORDER BY session_id, exchange_id LIMIT :limit""")

Place = tuple[str, str] | None
"""The last exchange that is done; `None` when all are."""

Progress = Callable[[int, int], None]
"""Takes the number of exchanges that are done, and of all."""


class Rebuilt(NamedTuple):
    """The number of exchanges that a rebuild did, and those that could not be folded (session,
    exchange, reason).
    """

    exchanges: int
    put_aside: list[tuple[str, str, str]]


def rebuild(store: Store, progress: Progress) -> Rebuilt:
    """Fold every exchange that has ended, or those that an interrupted rebuild has left."""
    with store.transaction():
        place: Place = next(
            ((id, exchange_id) for id, exchange_id in store.ask(_PLACE, {"name": REBUILD})), START
        )
        if place == START and store.projector.dead_letters():
            store.projector.reindex()  # it may be what kept them from being projected
        [(total,)] = store.ask(_ENDED, {})
        store.projector.set_place(place)
    done = 0
    while place is not None:
        with store.transaction():
            place, count = _step(store, place)
        done += count
        progress(done, max(total, done))
    with store.transaction():
        return Rebuilt(done, store.projector.dead_letters())


def _step(store: Store, place: tuple[str, str]) -> tuple[Place, int]:
    """Do one batch.

    Return its last exchange, `None` at the end of the log, and its number of exchanges.
    """
    keys: list[tuple[str, str]] = []
    count = 0
    after = {"session_id": place[0], "exchange_id": place[1], "limit": BATCH_EXCHANGES}
    for session_id, exchange_id, pos in list(store.ask(_ENDED_AFTER, after)):
        count += pos + 1
        if keys and count > BATCH_EVENTS:
            break
        keys.append((session_id, exchange_id))
    store.projector.project_all(keys, in_order=True)
    reached = keys[-1] if keys else None
    store.projector.set_place(reached)
    return reached, len(keys)
