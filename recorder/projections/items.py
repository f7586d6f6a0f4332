"""Messages, reasoning and tool calls of a response, as far as its events have come; and the steps
of provider's tools.

A text is the sum of its deltas until its end states it, and then until the end of the item does.
Where two of them differ, the later one counts and the difference is an anomaly. An empty statement
removes nothing.

Nothing is dropped in silence: whoever leaves a text out reports its size to `Anomalies.note`, in
the same place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from recorder.model.events import Event
from recorder.model.facts import (
    AnnotationAdded,
    ExchangeEnded,
    Fact,
    Field,
    Handler,
    ItemFinished,
    ItemKey,
    ItemStarted,
    ItemState,
    LogprobsAdded,
    ResponseFinished,
    ResponseItems,
    TextAdded,
    TextFinished,
    ToolProgress,
    ToolResult,
)
from recorder.model.text import storable, storable_json
from recorder.projections.exchange_facts import ExchangeFacts
from recorder.projections.exchanges import call_key
from recorder.projections.item import (
    KINDS,
    Item,
    ItemFact,
    Slot,
    Text,
    Unmatched,
    has_place,
    row_of,
    slot_of,
)
from recorder.projections.rows import Anomaly, ItemRow, PhaseRow
from recorder.wire.dialects import by_name
from recorder.wire.dialects.canonical import call_place

ITEMS_LIMIT = 10_000  # of one response: what comes after is counted as anomalies only
PHASES_LIMIT = 10_000  # of one response: what comes after is counted as an anomaly only
_TOO_MANY = f"items after the first {ITEMS_LIMIT:,}"


class _Growing(msgspec.Struct, frozen=True, eq=False):
    """A text, and whose it is: what the last delta was added to, and the next one mostly is too."""

    key: ItemKey | None
    field: Field
    part: int
    item: Item
    text: Text


NOTHING = _Growing(None, "text", 0, Item("other", "", 0), Text())


class Items:
    """The fold."""

    def __init__(self, facts: ExchangeFacts) -> None:
        self._ids = facts.ids
        self._facts = facts
        self._note, self._began = facts.anomalies.note, facts.timing.began
        self._items: dict[Slot, Item] = {}
        self._order: list[Item] = []
        self.numbers: dict[Slot, int] = {}  # of items in that order
        self._calls: dict[str, Item] = {}  # by call id
        self._undeclared: set[Slot] = set()
        self._is_finished = False
        self.growing = NOTHING

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {
            TextAdded: self._on_text,
            TextFinished: self._on_settled,
            ItemStarted: self._on_started,
            ItemFinished: self._on_item_finished,
            AnnotationAdded: self._on_annotation,
            LogprobsAdded: self._on_logprobs,
            ToolResult: self._on_returned,
            ResponseItems: self._on_restated,
            ResponseFinished: self._on_finished,
            ExchangeEnded: self._on_ended,
        }

    # -- an item, piece by piece

    def _on_text(self, fact: TextAdded, event: Event) -> None:
        self.add_texts((fact,), (event,))

    def add_texts(self, deltas: Sequence[TextAdded], events: Sequence[Event]) -> None:
        """Add deltas, each with its event; of further events nothing."""
        growing = self.growing
        text = growing.text
        for delta, event in zip(deltas, events, strict=False):
            if (
                delta.item != growing.key
                or delta.field != growing.field
                or delta.part != growing.part
            ):
                growing = self.growing = self._grown(delta, event)
                text = growing.text
            number = event.sequence_number
            if number is None:
                text.pieces.append(delta.text)
                text.numbers.append(text.last)
            elif number >= text.last:
                text.last = number
                text.pieces.append(delta.text)
                text.numbers.append(number)
            elif not text.insert(delta.text, number):
                about = f"{delta.field} of {growing.item.about()}"
                self._note("delta_mismatch", about, event, len(delta.text))
            item_id = event.item_id
            if item_id is not None and item_id != growing.item.item_id:
                self._rotated(growing.item, event)

    def _grown(self, fact: TextAdded, event: Event) -> _Growing:
        item = self._item_of(fact, event)
        text = item.texts.get((fact.field, fact.part))
        if text is None:
            text = item.text_of(fact.field, fact.part)
            self._began(fact.field, event)
        return _Growing(fact.item, fact.field, fact.part, item, text)

    def _on_settled(self, fact: TextFinished, event: Event) -> None:
        item = self._item_of(fact, event)
        self._settle(item, fact.field, fact.part, fact.text, "delta_mismatch", event)
        if fact.name is not None:
            self._name(item, fact.name, event)
        if event.item_id is not None:
            self._rotated(item, event)

    def _on_annotation(self, fact: AnnotationAdded, event: Event) -> None:
        self._item_of(fact, event).annotations.append(fact.annotation)

    def _on_logprobs(self, fact: LogprobsAdded, event: Event) -> None:
        self._item_of(fact, event).logprobs.append(fact.logprobs)

    # -- an item as a whole

    def _on_started(self, fact: ItemStarted, event: Event) -> None:
        slot = slot_of(fact, self._items)
        item = self._items.get(slot)
        before = self._declared(fact.item)
        if before is not None:
            self._note("item_repeated", before.about(), event)
        if item is None:
            item = self._add(slot, fact.stated.type, event)
        if fact.with_exchange:
            item.began_ns = 0
        self._undeclared.discard(slot)
        item.output_index, item.opening = fact.output_index, fact.stated.texts
        self._take(item, msgspec.structs.replace(fact.stated, texts=()), None, event)

    def _on_item_finished(self, fact: ItemFinished, event: Event) -> None:
        item = self._item_of(fact, event)
        if fact.output_index is not None:
            item.output_index = fact.output_index
        self._undeclared.discard(slot_of(fact, self._items))
        self._take(item, fact.stated, "item_mismatch", event)
        item.status = fact.stated.status or "completed"
        item.ended_ns = 0 if fact.with_exchange else event.t_ns

    def _on_returned(self, fact: ToolResult, event: Event) -> None:
        """Set the result of a provider's tool, which came within the stream."""
        waiting = (
            item
            for item in self._order
            if item.kind == "tool_call" and item.output is None and fact.name in (None, item.name)
        )
        call = self._calls.get(fact.call_id) if fact.call_id else next(waiting, None)
        if call is None:
            self._note(
                "item_undeclared",
                f"a result of {fact.call_id or fact.name}",
                event,
                len(fact.output),
            )
        else:
            if call.output not in (None, fact.output):
                self._note(
                    "item_mismatch", f"output of {call.about()}", event, len(call.output or "")
                )
            call.output, call.failed, call.ended_ns = fact.output, fact.failed, event.t_ns

    def _on_restated(self, fact: ResponseItems, event: Event) -> None:
        """Take the items that the end of a response (or a document) states; items that it leaves
        out stay.
        """
        streamed = Unmatched(self._order)
        if len(fact.items) > ITEMS_LIMIT:
            self._note("cut", _TOO_MANY, event)
        for index, stated in enumerate(fact.items[:ITEMS_LIMIT]):
            item = streamed.take(index, stated)
            if item is not None:
                self._take(item, stated, "final_mismatch", event)
            else:
                item = self._add((f"final.{index}", stated.kind), stated.type, event)
                item.output_index = index if stated.output_index is None else stated.output_index
                self._take(item, stated, None, event)
            item.status = (
                stated.status or (item.status if item.ended_ns is not None else None) or "completed"
            )
            item.ended_ns = event.t_ns if item.ended_ns is None else item.ended_ns

    def _on_finished(self, fact: ResponseFinished, event: Event) -> None:
        self._is_finished = True

    def _on_ended(self, fact: ExchangeEnded, event: Event) -> None:
        for item in self._order if self._is_finished else ():
            if item.ended_ns is None:
                self._note("item_unfinished", item.about(), event)
        for item in self._order:
            cut = item.cut()
            if cut:
                self._note("cut", f"texts of {item.about()}", event, cut)
        for slot, item in self._items.items():
            if slot not in self.numbers:
                self._note("cut", _TOO_MANY, event, sum(map(len, item.texts.values())))

    def _take(self, item: Item, stated: ItemState, mismatch: Anomaly | None, event: Event) -> None:
        """Replace what was known by what is stated."""
        self.growing = NOTHING
        if mismatch == "item_mismatch" or item.item_id is None:
            self._rename(item, stated.item_id, event)
        item.take(stated)
        if item.call_id is not None and item.kind == "tool_call":
            self._calls[item.call_id] = item
        for field in dict.fromkeys(field for field, _, _ in stated.texts):
            self._state(item, field, stated, mismatch, event)

    def _state(
        self, item: Item, field: Field, stated: ItemState, mismatch: Anomaly | None, event: Event
    ) -> None:
        """Replace all parts of a field at once: an item need not number them as its deltas do."""
        texts = {part: text for each, part, text in stated.texts if each == field}
        text, streamed = "".join(texts.values()), item.streamed(field)
        if not has_place(item.kind, field):
            self._note("item_mismatch", f"{field} of {item.about()}", event, len(text))
            return
        if mismatch is not None and streamed and "".join(streamed) != text:
            self._note(
                mismatch, f"{field} of {item.about()}", event, _lost("".join(streamed), text)
            )
        if text or not any(streamed):
            item.replace(field, texts, event.sequence_number)

    def _settle(
        self, item: Item, field: Field, part: int, text: str, mismatch: Anomaly, event: Event
    ) -> None:
        known = item.known(field, part)
        if known is not None and known != text:
            self._note(mismatch, f"{field} of {item.about()}", event, _lost(known, text))
        if text or not known:
            item.text_of(field, part).state(text, event.sequence_number)

    def _name(self, item: Item, name: str, event: Event) -> None:
        if item.name is not None and item.name != name:
            self._note("item_mismatch", f"name of {item.about()}", event)
        item.name = name

    def _rename(self, item: Item, item_id: str | None, event: Event) -> None:
        if item_id is not None and item.item_id is not None and item.item_id != item_id:
            self._note("id_rotation", item.about(), event)
        item.item_id = item_id or item.item_id

    def _rotated(self, item: Item, event: Event) -> None:
        if item.item_id is None:
            item.item_id = event.item_id
        elif item.item_id != event.item_id:
            self._note("id_rotation", item.about(), event)

    def _declared(self, key: ItemKey) -> Item | None:
        """Return the item of whatever kind that has begun under a key."""
        slots: list[Slot] = [(key, kind) for kind in KINDS]
        return next(
            (
                self._items[slot]
                for slot in slots
                if slot in self._items and slot not in self._undeclared
            ),
            None,
        )

    def _item_of(self, fact: ItemFact, event: Event) -> Item:
        """Return the item that a fact is about.

        Without a beginning, and where it does not fit the item that the stream names, it is an item
        of its own.
        """
        slot = slot_of(fact, self._items)
        item = self._items.get(slot)
        if item is None:
            item = self._add(slot, slot[1], event)
            item.output_index, item.item_id = event.output_index, event.item_id
            self._undeclared.add(slot)
            self._note("item_undeclared", item.about(), event)
        return item

    def _add(self, slot: Slot, type: str, event: Event) -> Item:
        self.growing = NOTHING
        item = self._items[slot] = Item(slot[1], type, event.t_ns)
        if len(self._order) < ITEMS_LIMIT:
            self.numbers[slot] = len(self._order)
            self._order.append(item)
        else:
            self.numbers.pop(slot, None)
            self._note("cut", _TOO_MANY, event)
        return item

    # -- what it comes to

    @property
    def count(self) -> int:
        """Return the number of items that have a row."""
        return len(self._order)

    def number(self, fact: ItemFact) -> int | None:
        """Return the number of the item that a fact is about; None if it has no row."""
        return self.numbers.get(slot_of(fact, self._items))

    def item(self, number: int) -> Item:
        """Return an item by the number of its row."""
        return self._order[number]

    def row(self, number: int) -> ItemRow:
        """Return one row, the same as in `rows`."""
        item, key = self._order[number], None
        if item.kind == "tool_call":
            name = self._keyed(item)
            earlier = self._order[:number] if name is not None else ()
            same = sum(each.kind == "tool_call" and self._keyed(each) == name for each in earlier)
            key = call_key(item.call_id if name is None else None, name, same)
        return row_of(self._ids, number, item, key)

    def _keyed(self, call: Item) -> str | None:
        """Return what a call is known by, with a number; None if it is its id."""
        if by_name(self._facts.api).places_calls:
            return call_place(call.name, call.text("arguments"))
        return (call.name or "") if call.call_id is None else None

    def rows(self) -> Iterator[ItemRow]:
        numbers: Counter[str | None] = Counter()
        for number, item in enumerate(self._order):
            key = None
            if item.kind == "tool_call":
                name = self._keyed(item)
                key = call_key(item.call_id if name is None else None, name, numbers[name])
                numbers[name] += 1
            yield row_of(self._ids, number, item, key)


def _lost(known: str, stated: str) -> int:
    """Return the characters of a text that a statement of it leaves out."""
    return 0 if known in stated else len(known)


class Phases:
    """The fold of the steps of the provider's own tools with their times. They have no content."""

    def __init__(self, facts: ExchangeFacts) -> None:
        self._ids, self._note = facts.ids, facts.anomalies.note
        self._rows: list[PhaseRow] = []
        # the row of each item's last step
        self._last: dict[tuple[int | None, str | None], int] = {}

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {ToolProgress: self._on_progressed}

    def _on_progressed(self, fact: ToolProgress, event: Event) -> None:
        if len(self._rows) == PHASES_LIMIT:
            self._note("cut", f"phases after the first {PHASES_LIMIT:,}", event)
            return
        item = (event.output_index, None if event.output_index is not None else event.item_id)
        before = self._last.get(item)
        if before is not None:
            self._rows[before] = msgspec.structs.replace(self._rows[before], ended_ns=event.t_ns)
        self._last[item] = len(self._rows)
        self._rows.append(
            PhaseRow(
                *self._ids,
                step=len(self._rows),
                output_index=event.output_index,
                item_id=storable(event.item_id),
                type=storable(fact.type),
                phase=storable(fact.phase),
                detail=storable_json(fact.detail),
                began_ns=event.t_ns,
                ended_ns=None,
            )
        )

    def rows(self) -> Iterable[PhaseRow]:
        return self._rows
