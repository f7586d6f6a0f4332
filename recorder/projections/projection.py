"""The definition of a projection: a fold of the facts of one exchange into the rows of one table.

Rules of this folder:

* Pure: no clock, no database, no other exchange. The same events give the same rows, in whatever batches they come, and
  every prefix of them is legal.
* Nothing stops a fold: what is missing, repeated, reordered or garbled is an anomaly and a value that is `NULL`.
* A projection is one file, one struct that is its table's columns in order, and one version number. Whoever changes
  what it computes has a migration say that a rebuild is due, and adds columns at the end; whoever changes what a column
  is raises the version: another table, built beside the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from recorder.model.events import Event, Exchange
from recorder.model.facts import Fact, Field

Anomaly = Literal[
    "sequence_gap",  # numbers are missing
    "sequence_repeat",  # a number that was there already, or smaller than one that was
    "delta_mismatch",  # a text's deltas are not what its end says it is
    "item_mismatch",  # an item at its end says something else than its own deltas and events
    "final_mismatch",  # the response at its end says something else of an item than the item's own events
    "item_undeclared",  # an event of an item that did not begin
    "item_repeated",  # an item that begins twice
    "item_unfinished",  # an item that did not end although its response did
    "id_rotation",  # another id for the same item or response
    "unknown_type",
    "unread",  # text in a place where none is known
    "malformed",  # no JSON, or not of the shape that its type has
    "unreadable",  # a response without an answer in it: empty, in an unknown coding, not in the file
    "unterminated",  # the stream ended within an event
    "missing_terminal",  # it ended, and nothing in it said so
    "duplicate_terminal",
    "after_terminal",  # something came after the end
    "not_recorded",  # a gap: what came there was not kept
    "too_large",  # a payload over the limit of what is read
    "cut",  # more than a projection keeps; the log has it whole
]


class Note(Protocol):
    """Report an anomaly: its kind, what it is about in a few words, and the event at which it shows.

    `characters`: the size of the content that no view has because of it. Who drops content reports it here, so that
    each text that a delta brings is in a view, or in the sum of an anomaly.
    """

    def __call__(self, kind: Anomaly, detail: str, event: Event, characters: int = 0) -> None: ...


Began = Callable[[Field, Event], None]
"""Report that a text began: of which field, with the event of its first delta."""


class Witness(NamedTuple):
    """The callbacks by which a fold reports to other folds, or reads from them."""

    note: Note
    began: Began
    last_number: Callable[[], int | None]  # the highest sequence number so far
    items: Callable[[], Iterable[Any]]  # the rows of the items so far


Handler = Callable[[Any, Event], None]


class Fold(Protocol):
    """The state of one projection of one exchange."""

    def handlers(self) -> Mapping[type[Fact], Handler]:
        """Return the handlers by the class of a fact; each gets the fact and its event."""

    def rows(self) -> Iterable[msgspec.Struct]:
        """Return the rows so far. May be called at any point, any number of times."""


class Projection(msgspec.Struct, frozen=True):
    """One table, and its fold."""

    name: str
    version: int
    row: type[msgspec.Struct]
    key: tuple[str, ...]
    fold: Callable[[Exchange, Witness], Fold] | None = None  # None: made by `Folding`, for the others report to it

    @property
    def table(self) -> str:
        return f"p_{self.name}_v{self.version}"
