"""One output item while it grows, its match among the items of the end, and its row."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Mapping, Sequence
from typing import Generic, TypeVar, get_args

import msgspec

from recorder.model.facts import (
    AnnotationAdded,
    Field,
    ItemFinished,
    ItemKey,
    ItemKind,
    ItemStarted,
    ItemState,
    LogprobsAdded,
    TextAdded,
    TextFinished,
)
from recorder.model.text import STORABLE_LIMIT, storable, storable_json
from recorder.projections.rows import ItemRow
from recorder.wire.dialects.json_values import as_json, decoded

Slot = tuple[ItemKey, ItemKind]
"""The identity of an item: what a dialect calls it, and its kind. A view has one kind of items, and
the columns for their texts: reasoning that a stream adds to a message is another item, beside it.
"""

KINDS: tuple[ItemKind, ...] = get_args(ItemKind)

KIND_OF: Mapping[Field, ItemKind] = {
    "text": "message",
    "refusal": "message",
    "reasoning": "reasoning",
    "summary": "reasoning",
    "arguments": "tool_call",
    "output": "tool_call",
}

_OF_OTHERS: frozenset[Field] = frozenset({"text", "arguments", "output"})

ItemFact = TextAdded | TextFinished | ItemStarted | ItemFinished | AnnotationAdded | LogprobsAdded


def has_place(kind: ItemKind, field: Field) -> bool:
    """Return whether the view of a kind of items has a column for a text."""
    return field in _OF_OTHERS if kind == "other" else KIND_OF[field] == kind


def slot_of(fact: ItemFact, known: Container[Slot]) -> Slot:
    """Return the item that a fact is about; `known` are those that facts before it were about."""
    if isinstance(fact, ItemStarted | ItemFinished):
        return fact.item, fact.stated.kind
    if isinstance(fact, TextAdded | TextFinished):
        slot: Slot = (fact.item, KIND_OF[fact.field])
        other: Slot = (fact.item, "other")
        is_others = slot not in known and other in known and has_place("other", fact.field)
        return other if is_others else slot
    thought: Slot = (fact.item, "reasoning")
    is_thought = (
        isinstance(fact, LogprobsAdded) and thought in known and (fact.item, "message") not in known
    )
    return thought if is_thought else (fact.item, "message")


class Text(msgspec.Struct, eq=False):
    """One text of an item: its deltas, or the one statement that replaces them.

    Numbered deltas are in order of their numbers, in whatever order they arrived; deltas with equal
    numbers, or without numbers, in order of arrival. A statement replaces all deltas with a smaller
    number.
    """

    pieces: list[str] = []
    numbers: list[int] = []
    last: int = 0  # the highest number so far
    is_stated: bool = False

    def state(self, text: str, number: int | None) -> None:
        """Replace the text by a statement of all of it."""
        self.last = max(self.last, number or 0)
        self.pieces, self.numbers, self.is_stated = [text], [self.last], True

    def insert(self, piece: str, number: int) -> bool:
        """Add a delta that comes after later ones.

        The fold adds the others itself: they are most of every stream.

        Returns whether the text has it now: one before a statement of the whole only repeats a
        piece of that.
        """
        place = bisect_right(self.numbers, number)
        if self.is_stated and not place:
            return piece in self.pieces[0]
        self.pieces.insert(place, piece)
        self.numbers.insert(place, number)
        return True

    def __str__(self) -> str:
        return "".join(self.pieces)

    def __len__(self) -> int:
        return sum(map(len, self.pieces))


class Item(msgspec.Struct, eq=False):
    """The known content of an item.

    `opening` has texts from its beginning of which nothing came later.
    """

    kind: ItemKind
    type: str
    began_ns: int
    ended_ns: int | None = None
    output_index: int | None = None
    item_id: str | None = None
    role: str | None = None
    phase: str | None = None
    status: str | None = "in_progress"
    name: str | None = None
    call_id: str | None = None
    texts: dict[tuple[Field, int], Text] = {}
    opening: tuple[tuple[Field, int, str], ...] = ()
    annotations: list[str] = []
    logprobs: list[str] = []
    encrypted: bool = False
    output: str | None = None
    failed: bool | None = None
    thread_id: str | None = None

    def about(self) -> str:
        """Return a name for it that another run of the same conversation shares."""
        return self.type if self.output_index is None else f"{self.type} {self.output_index}"

    def take(self, stated: ItemState) -> None:
        """Take all that is stated but its id and texts."""
        self.type = stated.type
        self.role = stated.role or self.role
        self.phase = stated.phase or self.phase
        self.status = stated.status or self.status
        self.name = stated.name or self.name
        self.call_id = stated.call_id or self.call_id
        self.thread_id = stated.thread_id or self.thread_id
        self.encrypted = stated.encrypted or self.encrypted
        self.output = self.output if stated.output is None else stated.output
        self.failed = self.failed if stated.failed is None else stated.failed
        if stated.annotations:
            self.annotations = list(stated.annotations)
        if stated.logprobs is not None:
            self.logprobs = [stated.logprobs]

    def known(self, field: Field, part: int) -> str | None:
        """Return one of its texts as far as it is known."""
        text = self.texts.get((field, part))
        return None if text is None else str(text)

    def text_of(self, field: Field, part: int) -> Text:
        """Return one of its texts, to be added to; an empty one at first."""
        text = self.texts.get((field, part))
        if text is None:
            text = self.texts[field, part] = Text()
        return text

    def replace(self, field: Field, texts: Mapping[int, str], number: int | None) -> None:
        """Replace the texts of a field, by part."""
        last = max((text.last for key, text in self.texts.items() if key[0] == field), default=0)
        self.texts = {key: text for key, text in self.texts.items() if key[0] != field}
        for part, text in texts.items():
            self.text_of(field, part).state(text, last if number is None else max(last, number))

    def streamed(self, field: Field) -> list[str]:
        """Return the texts of a field from the stream, in order of their parts."""
        return [str(self.texts[key]) for key in sorted(self.texts) if key[0] == field]

    def parts(self, field: Field) -> list[str]:
        """Return the texts of a field from the stream, or those from its beginning."""
        return self.streamed(field) or [text for each, _, text in self.opening if each == field]

    def text(self, field: Field) -> str | None:
        """Return the parts of a field as one; None if there is none."""
        parts = self.parts(field)
        return "".join(parts) if parts else None

    def cut(self) -> int:
        """Return the number of characters that are more than a projection keeps: of JSON, half is
        nothing.
        """
        fields = {field for field, _ in self.texts} | {field for field, _, _ in self.opening}
        sizes = [len(self.output or ""), *(len(self.text(field) or "") for field in fields)]
        jsons = [sum(map(len, self.annotations)), sum(map(len, self.logprobs))]
        cut = sum(max(0, size - STORABLE_LIMIT) for size in sizes)
        return cut + sum(size for size in jsons if size > STORABLE_LIMIT)

    def annotations_json(self) -> str | None:
        return f"[{','.join(self.annotations)}]" if self.annotations else None

    def logprobs_json(self) -> str | None:
        """Return the arrays of all deltas as one array."""
        entries = [array.strip()[1:-1] for array in self.logprobs]
        return (
            f"[{','.join(entry for entry in entries if entry.strip())}]" if self.logprobs else None
        )


AnyItem = TypeVar("AnyItem", Item, ItemRow)


class Unmatched(Generic[AnyItem]):
    """The items of the stream, or their rows, each to be matched once with one of the end."""

    def __init__(self, items: Sequence[AnyItem]) -> None:
        self._left: dict[int, AnyItem] = {id(item): item for item in items}
        self._by_id: dict[str, AnyItem] = {
            item.item_id: item for item in items if item.item_id is not None
        }
        self._by_place: dict[tuple[int | None, str], AnyItem] = {}
        self._by_type: dict[tuple[ItemKind, str], list[AnyItem]] = {}
        for item in items:
            self._by_place[item.output_index, item.type] = item
            self._by_type.setdefault((item.kind, item.type), []).append(item)

    def take(self, index: int, stated: ItemState) -> AnyItem | None:
        """Return the streamed item that a final one is: by its id, by its place and type, else the
        next of its type.
        """
        for item in (
            self._by_id.get(stated.item_id or ""),
            self._by_place.get((index, stated.type)),
        ):
            if item is None or item.kind != stated.kind:
                continue
            if self._left.pop(id(item), None) is not None:
                return item
        others = self._by_type.get((stated.kind, stated.type), [])
        while others:
            if self._left.pop(id(item := others.pop(0)), None) is not None:
                return item
        return None


def row_of(ids: tuple[str, str], number: int, item: Item, key: str | None) -> ItemRow:
    """Return the row of an item; `key` is its `call_key`."""
    summary = item.parts("summary")
    arguments = storable(item.text("arguments"))
    content = item.text("reasoning") if item.kind == "reasoning" else item.text("text")
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
        text=storable(content),
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
        thread_id=storable(item.thread_id),
    )


def _is_json(text: str) -> bool:
    try:
        decoded(text.encode())
    except ValueError:
        return False
    return True
