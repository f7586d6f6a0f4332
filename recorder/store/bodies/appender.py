"""Events → rows of `events`: a body may be written as a recipe, which refers to rows that are there.

A recipe refers only to rows whose content is certain: those that this writer has inserted itself, in this transaction
or a committed one. A row that was there before may be encoded otherwise, and it is unknown if a failed transaction is
in the log: then everything is forgotten, and the next bodies are stored whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import msgspec

from recorder.errors import StoreConflictError
from recorder.model.events import SHARED, Event
from recorder.store.bodies.dedup import BodyDeduplicator
from recorder.store.engine import Writer
from recorder.store.schema import events
from recorder.store.sql import RELEASE, ROLLBACK_TO, SAVEPOINT


class EventAppender:
    """A writer of events, in the transactions of its owner, all of which pass through `certain`."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._sharing = BodyDeduplicator()

    @contextmanager
    def certain(self, transaction: AbstractContextManager[None]) -> Iterator[None]:
        """Run a transaction in which events are appended, and forget all bodies if it fails after it began."""
        has_begun = False
        try:
            with transaction:
                has_begun = True
                yield
        except BaseException:
            if has_begun:
                self._sharing.forget()
            raise

    def append(self, new: Sequence[Event]) -> bool:
        """Add events, in order of their keys. Return whether none was there already."""
        if not new:
            return True
        rows = list(map(msgspec.structs.astuple, new))
        recipes = {number: self._recipe(event) for number, event in enumerate(new) if event.kind == "request"}
        recipes = {number: recipe for number, recipe in recipes.items() if recipe is not None}
        if not recipes:
            is_new = self._writer.add(events, rows) == len(rows)
            if not is_new:
                self._sharing.forget()
            return is_new
        written = rows.copy()
        for number, recipe in recipes.items():
            written[number] = msgspec.structs.astuple(msgspec.structs.replace(new[number], type=SHARED, raw=recipe))
        self._writer.run(SAVEPOINT, {})
        is_new = self._writer.add(events, written) == len(rows)
        if not is_new:  # others may refer to what they are not
            self._sharing.forget()
            self._writer.run(ROLLBACK_TO, {})
            self._writer.add(events, rows)
        self._writer.run(RELEASE, {})
        return is_new

    def _recipe(self, event: Event) -> bytes | None:
        """Return the recipe that is written in place of a request's body, or None."""
        if event.type == SHARED:
            raise StoreConflictError(f"The database refused a row: no event has the type {SHARED!r}.")
        if event.type != "body":
            return None
        return self._sharing.row(event.session_id, event.exchange_id, event.pos, event.raw)
