"""The definition of a projection: a fold of the facts of one exchange into the rows of one table. Most are functions of
facts that are gathered once (`recorder.projections.exchange_facts`); each other one is a class, with a handler by the
class of a fact.

Rules of this folder:

* Pure: no clock, no database, no other exchange. The same events give the same rows, in whatever batches they come, and
  every prefix of them is legal.
* Nothing stops a fold: what is missing, repeated, reordered or garbled is an anomaly and a value that is `NULL`.
* A projection is one file, and one row in `recorder.projections.rows`. Whoever changes what it computes has a migration
  say that a rebuild is due.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recorder.model.events import Event

Handler = Callable[[Any, Event], None]
"""Takes a fact and its event."""
