"""Messages, reasoning and tool calls of a response, as far as its events have come.

A text is what its deltas come to, until its end says what it is, and the item's end what that is; where two of them
differ, the later one stands and the difference is an anomaly. An empty statement takes nothing away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from recorder.dialects.telling import as_json, decoded
from recorder.events import Event, Exchange
from recorder.facts import (
    AnnotationAdded,
    Ended,
    Fact,
    Field,
    Finished,
    ItemFinished,
    ItemKey,
    ItemKind,
    ItemStarted,
    LogprobsAdded,
    Restated,
    Returned,
    Stated,
    TextAdded,
    TextSettled,
)
from recorder.projections.item import Item, Streamed
from recorder.projections.projection import Anomaly, Handler, Projection, Witness
from recorder.projections.results import call_key
from recorder.projections.storable import storable, storable_json

ITEMS_LIMIT = 10_000  # of one response: what comes after is counted as anomalies only


class ItemRow(msgspec.Struct, frozen=True):
    """One output item. Columns that make no sense for its kind are `NULL`. Times are since the exchange began."""

    session_id: str
    exchange_id: str
    item: int  # 0, 1, 2 … in order of appearance
    kind: ItemKind
    type: str  # as the provider calls it
    output_index: int | None
    item_id: str | None
    role: str | None
    phase: str | None
    status: str | None  # in_progress until it ends
    text: str | None  # what a message says; raw reasoning
    refusal: str | None
    summary: str | None  # of reasoning, its parts as a JSON array
    summary_text: str | None  # the parts with blank lines between them
    encrypted: bool | None  # whether reasoning came that only the provider can read
    annotations: str | None  # a JSON array
    logprobs: str | None  # a JSON array
    name: str | None  # of a tool
    call_id: str | None
    call_key: str | None  # what a result is found by: `call_id`, or name and number where there is none
    arguments: str | None  # as sent
    arguments_json: str | None  # the same, if it is JSON
    output: str | None  # what a tool of the provider gave
    failed: bool | None  # whether that is an error
    began_ns: int
    ended_ns: int | None


_KIND: Mapping[Field, ItemKind] = {
    "text": "message",
    "refusal": "message",
    "reasoning": "reasoning",
    "summary": "reasoning",
    "arguments": "tool_call",
    "output": "tool_call",
}


class _Items:
    def __init__(self, exchange: Exchange, witness: Witness) -> None:
        self._ids = (exchange.session_id, exchange.exchange_id)
        self._note, self._began = witness.note, witness.began
        self._items: dict[ItemKey, Item] = {}
        self._order: list[Item] = []
        self._calls: dict[str, Item] = {}  # by call id
        self._undeclared: set[ItemKey] = set()
        self._is_finished = False

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {
            TextAdded: self._on_text,
            TextSettled: self._on_settled,
            ItemStarted: self._on_started,
            ItemFinished: self._on_item_finished,
            AnnotationAdded: self._on_annotation,
            LogprobsAdded: self._on_logprobs,
            Returned: self._on_returned,
            Restated: self._on_restated,
            Finished: self._on_finished,
            Ended: self._on_ended,
        }

    # -- an item, piece by piece

    def _on_text(self, fact: TextAdded, event: Event) -> None:
        item = self._items.get(fact.item) or self._undeclared_item(fact.item, _KIND[fact.field], event)
        pieces = item.pieces.get((fact.field, fact.part))
        if pieces is None:
            pieces = item.pieces[fact.field, fact.part] = []
            self._began(fact.field, event)
        pieces.append(fact.text)
        if event.item_id != item.item_id and event.item_id is not None:
            self._rotated(item, event)

    def _on_settled(self, fact: TextSettled, event: Event) -> None:
        item = self._items.get(fact.item) or self._undeclared_item(fact.item, _KIND[fact.field], event)
        self._settle(item, fact.field, fact.part, fact.text, "delta_mismatch", event)
        if event.item_id is not None:
            self._rotated(item, event)

    def _on_annotation(self, fact: AnnotationAdded, event: Event) -> None:
        item = self._items.get(fact.item) or self._undeclared_item(fact.item, "message", event)
        item.annotations.append(fact.annotation)

    def _on_logprobs(self, fact: LogprobsAdded, event: Event) -> None:
        item = self._items.get(fact.item) or self._undeclared_item(fact.item, "message", event)
        item.logprobs.append(fact.logprobs)

    # -- an item as a whole

    def _on_started(self, fact: ItemStarted, event: Event) -> None:
        item = self._items.get(fact.item)
        if item is None:
            item = self._add(fact.item, fact.stated.kind, fact.stated.type, event)
        elif fact.item not in self._undeclared:
            self._note("item_repeated", item.about(), event)
        self._undeclared.discard(fact.item)
        item.output_index = fact.output_index
        self._take(item, fact.stated, None, event)

    def _on_item_finished(self, fact: ItemFinished, event: Event) -> None:
        item = self._items.get(fact.item)
        if item is None:
            item = self._undeclared_item(fact.item, fact.stated.kind, event)
        if fact.output_index is not None:
            item.output_index = fact.output_index
        self._undeclared.discard(fact.item)
        self._take(item, fact.stated, "item_mismatch", event)
        item.status = fact.stated.status or "completed"
        item.ended_ns = event.t_ns

    def _on_returned(self, fact: Returned, event: Event) -> None:
        """A tool of the provider has a result within the stream."""
        waiting = (
            item
            for item in self._order
            if item.kind == "tool_call" and item.output is None and fact.name in (None, item.name)
        )
        call = self._calls.get(fact.call_id) if fact.call_id else next(waiting, None)
        if call is None:
            self._note("item_undeclared", f"a result of {fact.call_id or fact.name}", event)
        else:
            call.output, call.failed, call.ended_ns = fact.output, fact.failed, event.t_ns

    def _on_restated(self, fact: Restated, event: Event) -> None:
        """What the end of a response (or a document) says its items are; items that it leaves out stay."""
        streamed = Streamed(self._order)
        for index, stated in enumerate(fact.items[:ITEMS_LIMIT]):
            item = streamed.take(index, stated)
            if item is not None:
                self._take(item, stated, "final_mismatch", event)
            else:
                item = self._add(f"final.{index}", stated.kind, stated.type, event)
                item.output_index = index if stated.output_index is None else stated.output_index
                self._take(item, stated, None, event)
            item.status = stated.status or item.status or "completed"
            item.ended_ns = event.t_ns if item.ended_ns is None else item.ended_ns

    def _on_finished(self, fact: Finished, event: Event) -> None:
        self._is_finished = True

    def _on_ended(self, fact: Ended, event: Event) -> None:
        for item in self._order if self._is_finished else ():
            if item.ended_ns is None:
                self._note("item_unfinished", item.about(), event)
        for item in self._order:
            if item.is_long():
                self._note("cut", f"texts of {item.about()}", event)

    def _take(self, item: Item, stated: Stated, mismatch: Anomaly | None, event: Event) -> None:
        """What is stated stands above what was known."""
        if mismatch == "item_mismatch" or item.item_id is None:
            self._rename(item, stated.item_id, event)
        item.take(stated)
        if item.call_id is not None and item.kind == "tool_call":
            self._calls[item.call_id] = item
        for field in dict.fromkeys(field for field, _, _ in stated.texts):
            self._state(item, field, stated, mismatch, event)

    def _state(self, item: Item, field: Field, stated: Stated, mismatch: Anomaly | None, event: Event) -> None:
        """All parts of a field at once: an item need not number them as its deltas do."""
        texts = {part: text for each, part, text in stated.texts if each == field}
        text, known = "".join(texts.values()), item.text(field)
        if mismatch is not None and known is not None and known != text:
            self._note(mismatch, f"{field} of {item.about()}", event)
        if text or not known:
            item.replace(field, texts)

    def _settle(self, item: Item, field: Field, part: int, text: str, mismatch: Anomaly, event: Event) -> None:
        known = item.known(field, part)
        if known is not None and known != text:
            self._note(mismatch, f"{field} of {item.about()}", event)
        if text or not known:
            item.pieces[field, part] = [text]

    def _rename(self, item: Item, item_id: str | None, event: Event) -> None:
        if item_id is not None and item.item_id is not None and item.item_id != item_id:
            self._note("id_rotation", item.about(), event)
        item.item_id = item_id or item.item_id

    def _rotated(self, item: Item, event: Event) -> None:
        if item.item_id is None:
            item.item_id = event.item_id
        elif item.item_id != event.item_id:
            self._note("id_rotation", item.about(), event)

    def _undeclared_item(self, key: ItemKey, kind: ItemKind, event: Event) -> Item:
        item = self._add(key, kind, kind, event)
        item.output_index, item.item_id = event.output_index, event.item_id
        self._undeclared.add(key)
        self._note("item_undeclared", item.about(), event)
        return item

    def _add(self, key: ItemKey, kind: ItemKind, type: str, event: Event) -> Item:
        item = self._items[key] = Item(kind, type, event.t_ns)
        if len(self._order) < ITEMS_LIMIT:
            self._order.append(item)
        else:
            self._note("cut", f"items after the first {ITEMS_LIMIT:,}", event)
        return item

    # -- what it comes to

    def rows(self) -> Iterator[ItemRow]:
        numbers: Counter[str | None] = Counter()
        for number, item in enumerate(self._order):
            key = None
            if item.kind == "tool_call":
                key = call_key(item.call_id, item.name, numbers[item.name])
                numbers[item.name] += item.call_id is None
            yield _row(self._ids, number, item, key)


def _row(ids: tuple[str, str], number: int, item: Item, key: str | None) -> ItemRow:
    summary = item.parts("summary")
    arguments = storable(item.text("arguments"))
    said = item.text("reasoning") if item.kind == "reasoning" else item.text("text")
    return ItemRow(
        *ids,
        item=number,
        kind=item.kind,
        type=storable(item.type),
        output_index=item.output_index,
        item_id=storable(item.item_id),
        role=storable(item.role),
        phase=storable(item.phase),
        status=storable(item.status),
        text=storable(said),
        refusal=storable(item.text("refusal")),
        summary=storable_json(as_json(summary)) if summary else None,
        summary_text=storable("\n\n".join(summary)) if summary else None,
        encrypted=item.encrypted if item.kind == "reasoning" else None,
        annotations=storable_json(item.annotations_json()),
        logprobs=storable_json(item.logprobs_json()),
        name=storable(item.name),
        call_id=storable(item.call_id),
        call_key=key,
        arguments=arguments,
        arguments_json=arguments if arguments and _is_json(arguments) else None,
        output=storable(item.output if item.output is not None else item.text("output")),
        failed=item.failed,
        began_ns=item.began_ns,
        ended_ns=item.ended_ns,
    )


def _is_json(text: str) -> bool:
    try:
        decoded(text.encode())
    except ValueError:
        return False
    return True


PROJECTION = Projection("items", 1, ItemRow, ("session_id", "exchange_id", "item"), _Items)
