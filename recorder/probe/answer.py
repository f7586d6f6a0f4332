"""A recorded answer as the checks of a probe look at it. Pure: it is read as `recorder lint` and the projections do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain

from recorder.lint.stream import StreamView
from recorder.model.facts import Fact
from recorder.model.recording import Recording
from recorder.projections.fact_reader import FactReader
from recorder.projections.fold import Rows
from recorder.projections.rows import ExchangeRow, ItemRow, UsageRow
from recorder.recordings.session import projected
from recorder.wire.dialects import by_name


class ProbeAnswer:
    """The answer to one request of a case."""

    def __init__(
        self,
        recording: Recording,
        *,
        is_streamed: bool,
        before: Sequence[ProbeAnswer] = (),
        twin: ProbeAnswer | None = None,
    ) -> None:
        """Hold a recording with its events.

        `before` are the answers to the earlier steps of its case, `twin` is the streamed answer to the same request.
        """
        self.recording, self.is_streamed, self.before, self.twin = recording, is_streamed, before, twin

    @cached_property
    def view(self) -> StreamView:
        """Return the answer as a client reads it, block by block."""
        return StreamView(self.recording)

    @cached_property
    def _rows(self) -> Rows:
        return projected(self.recording.exchange, self.recording.events)

    @cached_property
    def facts(self) -> Sequence[Fact]:
        """Return all that its events say, in order."""
        reader = FactReader(self.recording.exchange)
        return list(chain.from_iterable(map(reader.facts, self.recording.events)))

    @property
    def is_good(self) -> bool:
        """Return whether it is an answer of the requested form, whose content can be looked at."""
        return 200 <= self.status < 300 and self.is_streamed == self.view.is_stream

    @property
    def status(self) -> int:
        """Return the status; 0 without a response."""
        return self.view.status

    @property
    def content_type(self) -> str:
        """Return the content type without its parameters, in lower case."""
        return self.view.content_type

    @property
    def exchange(self) -> ExchangeRow:
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
        has_choices = by_name(self.recording.exchange.api).has_choices
        return [item for item in self.items if not (has_choices and item.output_index)]

    @property
    def text(self) -> str:
        """Return all messages of the model."""
        return "".join(item.text or "" for item in self.first_choice if item.kind == "message")

    @property
    def calls(self) -> Sequence[ItemRow]:
        """Return the calls of tools."""
        return [item for item in self.items if item.kind == "tool_call"]
