"""A recorded answer as the checks of a probe look at it. Pure: it is read as `recorder lint` and
the projections do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain

from recorder.lint.stream import StreamView
from recorder.model.events import Recording
from recorder.model.facts import TextAdded
from recorder.projections.fact_reader import FactReader
from recorder.projections.fold import Rows
from recorder.projections.rows import ExchangeRow, ItemRow, UsageRow
from recorder.recordings.session import projected
from recorder.wire.dialects import by_name


class ProbeAnswer(StreamView):
    """The answer to one request of a case, as a client reads it, block by block."""

    def __init__(
        self,
        recording: Recording,
        *,
        is_streamed: bool,
        before: Sequence[ProbeAnswer] = (),
        twin: ProbeAnswer | None = None,
    ) -> None:
        """Hold a recording with its events.

        `before` are the answers to the earlier steps of its case, `twin` is the streamed answer to
        the same request.
        """
        super().__init__(recording)
        self.is_streamed, self.before, self.twin = is_streamed, before, twin

    @cached_property
    def _rows(self) -> Rows:
        return projected(self.exchange, self.events)

    @property
    def deltas(self) -> int:
        """Return in how many pieces the texts of a stream came."""
        facts = chain.from_iterable(map(FactReader(self.exchange).facts, self.events))
        return sum(
            isinstance(fact, TextAdded) and fact.field == "text" and bool(fact.text)
            for fact in facts
        )

    @property
    def is_good(self) -> bool:
        """Return whether it is an answer of the requested form, whose content can be looked at."""
        return 200 <= self.status < 300 and self.is_streamed == self.is_stream

    @property
    def summary(self) -> ExchangeRow:
        """Return what the projection `exchanges` has of it: the reason to finish, the error."""
        row: ExchangeRow = self._rows["exchanges"][0]
        return row

    @property
    def usage(self) -> UsageRow | None:
        """Return the tokens, or None if none are reported."""
        row: UsageRow = self._rows["usage"][0]
        return None if row.usage_raw is None else row

    @property
    def items(self) -> Sequence[ItemRow]:
        """Return what the model put out."""
        found: list[ItemRow] = self._rows["items"]
        return found

    @property
    def first_choice(self) -> Sequence[ItemRow]:
        """Return what the model put out, of alternative answers only the first."""
        has_choices = by_name(self.exchange.api).has_choices
        return [item for item in self.items if not (has_choices and item.output_index)]

    @property
    def text(self) -> str:
        """Return all messages of the model.

        A session of a hosted agent repeats those of its user.
        """
        said = [
            item for item in self.first_choice if item.kind == "message" and item.role != "user"
        ]
        return "".join(item.text or "" for item in said)

    @property
    def calls(self) -> Sequence[ItemRow]:
        """Return the calls of tools."""
        return [item for item in self.items if item.kind == "tool_call"]
