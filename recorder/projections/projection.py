"""The definition of a projection: a fold of the facts of one exchange into the rows of one table.

Rules of this folder:

* Pure: no clock, no database, no other exchange. The same events give the same rows, in whatever batches they come, and
  every prefix of them is legal.
* Nothing stops a fold: what is missing, repeated, reordered or garbled is an anomaly and a value that is `NULL`.
* A projection is one file, and one row in `recorder.projections.rows`. Whoever changes what it computes has a migration
  say that a rebuild is due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from recorder.model.events import Event, Exchange
from recorder.model.facts import Fact, Field
from recorder.projections.rows import Anomaly


class Note(Protocol):
    """Report an anomaly: its kind, what it is about in a few words, and the event at which it shows.

    `characters`: the size of the content that no view has because of it. Who drops content reports it here, so that
    each text that a delta brings is in a view, or in the sum of an anomaly.
    """

    def __call__(self, kind: Anomaly, detail: str, event: Event, characters: int = 0) -> None: ...


Began = Callable[[Field, Event], None]
"""Report that a text began: of which field, with the event of its first delta."""


class FoldContext(NamedTuple):
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


Make = Callable[[Exchange, FoldContext], Fold]
"""Make the fold of an exchange."""
