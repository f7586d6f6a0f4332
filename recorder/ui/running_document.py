"""The document of one exchange while its events come, and the operations by which each event
changes it.

At every event it is the document of `recorder show --at-event`. Only those parts are made again
that the facts of an event can change. A delta of a text, which most events are, is appended without
a look at the text before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import msgspec

from recorder.errors import RecorderError
from recorder.model.events import Event, Exchange
from recorder.model.facts import (
    AnnotationAdded,
    ErrorReported,
    ExchangeEnded,
    Fact,
    Handler,
    HeadReceived,
    ItemFinished,
    ItemStarted,
    LogprobsAdded,
    RequestFacts,
    RequestPurpose,
    ResponseFinished,
    ResponseItems,
    ResponseStarted,
    TextAdded,
    TextFinished,
    ToolResult,
    UsageReported,
)
from recorder.model.text import STORABLE_LIMIT
from recorder.projections.fold import Folding, Rows
from recorder.projections.item import Text
from recorder.projections.rows import ExchangeRow, ItemRow, TimingRow
from recorder.projections.timing import RunningGaps
from recorder.store.queries.session_document import (
    anomaly_documents,
    exchange_document,
    heading,
    item_document,
    timing_document,
    usage_document,
)
from recorder.store.queries.session_state import (
    UnfoldableExchange,
    answer_of,
    counter_of,
    unfoldable,
)
from recorder.ui.ops import Op, compare, join
from recorder.ui.surroundings import OutsideView

SUMMARY_LIMIT = STORABLE_LIMIT // 8  # characters of which no JSON is longer than a row has

_PARTS = ("usage", "timing", "items", "anomalies")
_PLACES: Mapping[tuple[str, str], str] = {
    ("message", "text"): "text",
    ("message", "refusal"): "refusal",
    ("reasoning", "reasoning"): "text",
    ("tool_call", "arguments"): "arguments",
    ("other", "text"): "text",
    ("other", "arguments"): "arguments",
}
"""The member of an item's document that has the parts of a field as one text, by the kind of the
item.
"""

_OF_PARTS: Mapping[str, tuple[type[Fact], ...]] = {
    "text": (TextAdded,),
    "item": (TextFinished, ItemStarted, ItemFinished, AnnotationAdded, LogprobsAdded),
    "items": (ResponseItems, ToolResult),
    "usage": (UsageReported,),
    "heading": (
        RequestFacts,
        RequestPurpose,
        HeadReceived,
        ResponseStarted,
        ResponseFinished,
        ErrorReported,
        ExchangeEnded,
    ),
}
"""The facts that may change a part of the document: a text, one item, all items, the usage, or the
heading.
"""


class _Touched:
    """The facts since the last look by the part that they may have changed: an observer of a fold."""

    def __init__(self) -> None:
        self.facts: dict[str, list[Any]] = {}

    def handlers(self) -> Mapping[type[Fact], Handler]:
        found: dict[type[Fact], Handler] = {}
        for part, facts in _OF_PARTS.items():
            found |= dict.fromkeys(facts, partial(self._note, part))
        return found

    def _note(self, part: str, fact: Fact, _event: Event) -> None:
        self.facts.setdefault(part, []).append(fact)


class _Growing(msgspec.Struct):
    """A text of the document that deltas are appended to: one of each item, that of its last delta."""

    of: tuple[str, int]  # the field and the part of it
    text: Text
    path: list[str | int]
    length: int
    limit: int
    pieces: list[str] = []  # that the document does not have yet


class RunningDocument:
    """The document, and the fold that it is made of."""

    def __init__(
        self, number: int, exchange: Exchange, earlier: Iterable[Event], view: OutsideView
    ) -> None:
        """`earlier` are the events of the response that the exchange resumes, from before it was
        resumed.
        """
        self._number, self._exchange, self._view = number, exchange, view
        self._touched = _Touched()
        self._folding = Folding(exchange, observer=self._touched.handlers())
        self._items = self._folding.items
        self._anomalies = self._folding.anomalies
        self._timing = self._folding.timing
        self._counter = counter_of(exchange)
        self._gaps = RunningGaps()
        self._document: dict[str, Any] = {}
        self._growing: dict[int, _Growing] = {}  # by number of the item
        self._calls: dict[int, ItemRow] = {}
        self._row: ExchangeRow | None = None
        self._noted = -1
        # of the row of times, if the document has just these
        self._times: tuple[Any, ...] | None = None
        self._is_held_back = True
        self._fault: RecorderError | None = None
        self.is_finished = False
        self._attempt(lambda _: self._recall(earlier))

    @property
    def calls(self) -> list[ItemRow]:
        """Return the calls so far whose results come from the client."""
        return [call for call in self._calls.values() if call.output is None]

    @property
    def response_id(self) -> str | None:
        return None if self._row is None else self._row.response_id

    def apply(self, event: Event) -> list[Op]:
        """Apply the next event. Returns the operations that it makes of the document."""
        return self._attempt(lambda ops: self._tell(event, ops))

    def see(self, view: OutsideView) -> list[Op]:
        """Take what others know of this exchange from now on. Returns the operations."""
        self._view = view
        return self._attempt(self._see)

    def state(self) -> dict[str, Any]:
        """Return the document as it is now. It changes with the next event."""
        for number in list(self._growing):
            self._settle(number)
        return self._document

    def finish(self) -> int:
        """Drop the fold: no event will follow. Returns the bytes of the document that stays."""
        if not self.is_finished:
            self.is_finished = True
            self.state()
            if self._fault is None:
                self._calls = {number: self._items.row(number) for number in self._calls}
            self._drop_fold()
        return len(msgspec.json.encode(self._document))

    def take(self, rows: Rows) -> None:
        """Take the rows that the log has of the exchange, which has ended, in place of its events."""
        self._render(rows, [])
        self.is_finished = True
        self._drop_fold()

    def _drop_fold(self) -> None:
        del self._folding, self._items, self._anomalies, self._timing, self._gaps

    def _attempt(self, step: Callable[[list[Op]], None]) -> list[Op]:
        """Take a step of the fold, and return its operations.

        One that fails is a fault of this program: the exchange is not folded further.
        """
        ops: list[Op] = []
        if self._fault is None:
            try:
                step(ops)
                return ops
            except RecorderError:
                raise
            except Exception as error:
                self._fault = unfoldable(self._exchange, error)
        return self._faulted()

    def _faulted(self) -> list[Op]:
        ops: list[Op] = []
        before = self.state()
        self._document = exchange_document(
            UnfoldableExchange(self._number, self._exchange, str(self._fault))
        )
        compare(before, self._document, (), ops)
        return ops

    def _recall(self, earlier: Iterable[Event]) -> None:
        for event in earlier:
            self._folding.recall(event)

    def _tell(self, event: Event, ops: list[Op]) -> None:
        folding, touched = self._folding, self._touched
        folding.apply(event)
        if self._counter is not None:
            self._counter.add(event)
            touched.facts["heading"] = []
        if folding.holds_back or self._is_held_back:
            self._is_held_back = folding.holds_back
            self._render(folding.copy().rows(), ops)  # of a document more parts may follow
        else:
            self._update(event, ops)
        touched.facts.clear()

    def _render(self, rows: Rows, ops: list[Op]) -> None:
        """Make the whole document again."""
        [self._row], [usage], [timing] = rows["exchanges"], rows["usage"], rows["timing"]
        self._calls = {item.item: item for item in rows["items"] if item.kind == "tool_call"}
        after = {
            **self._heading(self._row),
            "usage": usage_document(usage),
            "timing": timing_document(timing),
            "items": [self._item_document(item) for item in rows["items"]],
            "anomalies": anomaly_documents(rows["anomalies"]),
        }
        compare(self.state(), after, (), ops)
        self._document, self._noted, self._times = after, -1, None

    def _update(self, event: Event, ops: list[Op]) -> None:
        """Make those parts again that the event may have changed."""
        parts = self._touched.facts.keys()
        if "heading" in parts or self._view.copies:
            self._update_heading(ops)
        if "usage" in parts:
            [usage] = self._folding.rows_of("usage")
            self._put("usage", usage_document(usage), ops)
        self._update_timing(ops)
        self._update_items(event, ops)
        if self._anomalies.noted != self._noted:
            self._noted = self._anomalies.noted
            self._put("anomalies", anomaly_documents(self._anomalies.rows()), ops)

    def _update_timing(self, ops: list[Op]) -> None:
        """Set the times that have changed: some do at each event, so they are compared without a
        document of them.
        """
        row = self._timing.row(self._gaps.of(self._timing.times))
        before, self._times = self._times, msgspec.structs.astuple(row)
        if before is None:
            self._put("timing", timing_document(row), ops)
            return
        document = self._document["timing"]
        for name, old, new in zip(TimingRow.__struct_fields__, before, self._times, strict=True):
            if old == new:
                continue
            if new is None:
                ops.append(["cut", ["timing", name]])
                del document[name]
            else:
                ops.append(["set", ["timing", name], new])
                document[name] = new

    def _put(self, name: str, after: Any, ops: list[Op]) -> None:
        compare(self._document[name], after, (name,), ops)
        self._document[name] = after

    def _update_heading(self, ops: list[Op]) -> None:
        if not self.is_finished:
            [self._row] = self._folding.rows_of("exchanges")
        if self._row is None:
            return
        after = {**self._heading(self._row), **{name: self._document[name] for name in _PARTS}}
        compare(self._document, after, (), ops)  # which skips the parts: they are the same objects
        self._document = after

    def _heading(self, row: ExchangeRow) -> dict[str, Any]:
        connection = None if self._counter is None else self._counter.summary()
        return heading(self._exchange, row, self._view.superseded_by(row), connection)

    def _update_items(self, event: Event, ops: list[Op]) -> None:
        touched = self._touched.facts
        if "items" in touched:
            self._render_items(range(len(self._document["items"])), ops)
            self._render_new_items(ops)
            return
        numbers = {self._items.number(each) for each in touched.get("item", ())}
        for fact in touched.get("text", ()):
            number = self._items.number(fact)
            if number not in numbers and not self._append(number, fact, event, ops):
                numbers.add(number)
        if numbers:
            self._render_items(
                self._with_nameless(sorted(each for each in numbers if each is not None)), ops
            )
            self._render_new_items(ops)

    def _with_nameless(self, numbers: list[int]) -> list[int]:
        """Return the numbers with those of all calls without an id if one is a call: they are
        counted by name.
        """
        nameless = [number for number, call in self._calls.items() if call.call_id is None]
        if nameless and any(self._items.item(number).kind == "tool_call" for number in numbers):
            return sorted({*numbers, *nameless})
        return numbers

    def _render_items(self, numbers: Iterable[int], ops: list[Op]) -> None:
        documents = self._document["items"]
        for number in numbers:
            if number >= len(documents):
                return
            self._settle(number)
            row = self._calls[number] if self.is_finished else self._items.row(number)
            after = self._item_document(row)
            compare(documents[number], after, ("items", number), ops)
            documents[number] = after

    def _render_new_items(self, ops: list[Op]) -> None:
        documents = self._document["items"]
        for number in range(len(documents), self._items.count):
            documents.append(self._item_document(self._items.row(number)))
            ops.append(["push", ["items"], documents[-1]])

    def _item_document(self, row: ItemRow) -> dict[str, Any]:
        answer = None
        if row.kind == "tool_call":
            self._calls[row.item] = row
            result = None if self._row is None else self._view.result_of(row, self._row)
            answer = answer_of(self._exchange, row, result)
        else:
            self._calls.pop(row.item, None)
        return item_document(row, answer)

    def _see(self, ops: list[Op]) -> None:
        if not self._document:
            return
        if not self.is_finished and self._folding.holds_back:
            self._render(self._folding.copy().rows(), ops)
            return
        self._update_heading(ops)
        self._render_items(sorted(self._calls), ops)

    # -- deltas

    def _append(self, number: int | None, fact: TextAdded, event: Event, ops: list[Op]) -> bool:
        """Append a delta to its text in the document.

        Returns False if it may have changed more than that.
        """
        if number is None:
            return True
        growing = self._growing.get(number)
        if growing is None or growing.of != (fact.field, fact.part):
            growing = self._growing_of(number, fact)
        if growing is None or not self._is_at_end(number, fact, event, growing.text):
            return False
        piece = fact.text
        if growing.length + len(piece) > growing.limit:
            if growing.limit < STORABLE_LIMIT:
                return False
            piece = piece[: growing.limit - growing.length]
        if piece:
            growing.pieces.append(piece)
            growing.length += len(piece)
            ops.append(["add", growing.path, piece])
        return True

    def _growing_of(self, number: int, fact: TextAdded) -> _Growing | None:
        """Return the place in the document that the deltas of a text are appended to; None if it is
        not there yet.
        """
        if number >= len(self._document["items"]):
            return None
        path: list[str | int]
        item, document, field = (
            self._items.item(number),
            self._document["items"][number],
            fact.field,
        )
        text = item.texts.get((field, fact.part))
        parts = sorted(part for each, part in item.texts if each == field)
        if text is None or len(text.pieces) < 2:
            return None
        self._settle(number)
        if (item.kind, field) == ("reasoning", "summary"):
            summary = document["summary"]
            if len(summary) != len(parts):
                return None
            path = ["items", number, "summary", parts.index(fact.part)]
            length, limit = sum(map(len, summary)), SUMMARY_LIMIT
        else:
            name = _PLACES.get((item.kind, field), "")
            if name not in document or fact.part != parts[-1]:
                return None
            path = ["items", number, name]
            length, limit = len(document[name]), STORABLE_LIMIT
        growing = self._growing[number] = _Growing((field, fact.part), text, path, length, limit)
        return growing

    def _is_at_end(self, number: int, fact: TextAdded, event: Event, text: Text) -> bool:
        """Return whether a delta is the last of its text, and text that is in the document as it
        came.
        """
        item, piece = self._items.item(number), fact.text
        is_last = event.sequence_number is None or text.numbers[-1] == event.sequence_number
        is_named = item.item_id == self._document["items"][number].get("item_id")
        return is_last and is_named and (piece.isascii() or _is_whole(piece)) and "\0" not in piece

    def _settle(self, number: int) -> None:
        """Put the deltas of an item's text into the document."""
        growing = self._growing.pop(number, None)
        if growing is not None:
            join(self._document, growing.path, growing.pieces)


def _is_whole(text: str) -> bool:
    """Return whether a text has no half of a character, which the next delta may complete."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
