"""A session held in memory, with the recordings of its exchanges and the rows of their projections.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain

from recorder.errors import RecorderError
from recorder.model.events import Event, Exchange, MemoryBudget, Recording, Session
from recorder.model.facts import Usage
from recorder.model.text import counted
from recorder.projections.fold import Folding, Rows
from recorder.projections.rows import ItemRow
from recorder.wire.recording import require_answerable

TEXT_SHOWN = 60  # characters of the text, where a session is shown


class RecordedSession:
    """A session, or what a file holds. Texts and counts are those of the projections."""

    def __init__(
        self,
        session: Session,
        recordings: Sequence[Recording] = (),
        *,
        name: str | None = None,
        continued: Sequence[Recording] = (),
    ) -> None:
        """Hold a session; `name` is the path of its file, if it has one.

        `continued` are further recordings, which requests of it may continue.
        """
        self.session = session
        self.recordings = list(recordings)
        self.name = session.name if name is None else name
        self.continued = list(continued)

    def __repr__(self) -> str:
        counts = (
            f"{counted(len(self.recordings), 'exchange')}, {counted(len(self.events), 'event')}"
        )
        return (
            f"<session {self.session.name!r}: {counts}, text {shortened(self.text, TEXT_SHOWN)!r}>"
        )

    @property
    def events(self) -> list[Event]:
        """Return the rows of the log, exchange by exchange."""
        return list(chain.from_iterable(each.events for each in self.recordings))

    @property
    def text(self) -> str:
        """Return the messages of the model, one a line."""
        return "\n".join(item.text for item in self.items if item.kind == "message" and item.text)

    @property
    def tool_calls(self) -> list[ItemRow]:
        """Return the calls of the model: `name`, `arguments`, `call_id` and the other columns of
        `items`.
        """
        return [item for item in self.items if item.kind == "tool_call"]

    @property
    def usage(self) -> Usage:
        """Return the tokens of all exchanges together; `None` is reported by none."""
        totals: dict[str, int | None] = dict.fromkeys(Usage.__struct_fields__)
        for row in chain.from_iterable(projection["usage"] for projection in self._projections):
            for name, total in totals.items():
                count = getattr(row, name)
                if count is not None:
                    totals[name] = (total or 0) + count
        return Usage(**totals)

    @property
    def items(self) -> list[ItemRow]:
        """Return all that the model put out, as in the view `items`."""
        return list(chain.from_iterable(projection["items"] for projection in self._projections))

    @cached_property
    def _projections(self) -> list[Rows]:
        return [projected(each.exchange, each.events) for each in self.recordings]


def require_whole(
    recordings: Sequence[Recording], remedy: str = "record it again", *, allow_gaps: bool = False
) -> list[Recording]:
    """Return the recordings.

    Raises `RecorderError` if one cannot be an answer, or, with `remedy`, if one has a gap.
    """
    for number, each in enumerate(recordings, 1):
        name = each.name or f"exchange {number}"
        subject = name[:1].upper() + name[1:]
        try:
            require_answerable(each)
        except ValueError as error:
            raise RecorderError(f"{subject} cannot be an answer: {error}.") from error
        if each.has_gap and not allow_gaps:
            raise RecorderError(f"{subject} has a gap, bytes that were not kept: {remedy}.")
    return list(recordings)


def budget_of(name: str) -> MemoryBudget:
    """Return the budget of one session or file."""
    return MemoryBudget(f"{name} takes", f"name one exchange of it, as {name}:1")


def shortened(text: str, limit: int) -> str:
    """Return a text, cut to `limit` characters with an ellipsis at its end."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def projected(exchange: Exchange, events: Iterable[Event]) -> Rows:
    """Return the rows of all projections of one exchange."""
    folding = Folding(exchange)
    folding.apply_all(events)
    return folding.rows()
