"""A walk over the items of a response: the content of each, the order, and the faults.

An item is known by its `output_index`; an event without one is of the item that is open. A fault is
reported once, where it begins; its consequences are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from recorder.lint.rule import Fault
from recorder.wire.dialects.json_values import object_, text
from recorder.wire.dialects.openai_responses.lint.events import (
    FAMILIES,
    NAMELESS,
    OF_ITEMS,
    Family,
    Json,
    StreamEvent,
)

Place = tuple[str, int]
"""The name of a list in an item (content, summary) or of a text in it, and the number in that list.
"""


_UNFINISHED = frozenset({"in_progress", "queued", "searching", "interpreting"})
"""Not `generating`: OpenAI leaves it in images that are done."""

_PARTS = {"response.content_part": "content", "response.reasoning_summary_part": "summary"}
_INDEX = {"content": "content_index", "summary": "summary_index"}


def _joined(pieces: Iterable[str]) -> str:
    """Join pieces of text: two halves of a character, each an escape in another event, become that
    character.
    """
    text = "".join(pieces)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


class ItemText(msgspec.Struct):
    """One text: its pieces, and its form in each later event."""

    pos: int
    family: Family
    number: int
    pieces: list[str] = []
    done: str | None = None
    done_pos: int | None = None
    in_part: str | None = None
    part_pos: int | None = None

    @property
    def sum(self) -> str | None:
        """The text of the pieces; `None` if it arrived whole."""
        return _joined(self.pieces) if self.pieces else None

    @property
    def versions(self) -> set[str]:
        """The texts that it may have: pieces and whole, if they differ."""
        return {each for each in (self.sum, self.done) if each is not None}

    def of(self, item: Json) -> str | None:
        """Return the text in an item; `None` if the item has none."""
        if not self.family.of:
            return text(item, self.family.field)
        parts = item.get(self.family.of)
        if not isinstance(parts, list):
            return None
        part = parts[self.number] if 0 <= self.number < len(parts) else {}
        return text(part, self.family.field) or "" if isinstance(part, dict) else None


class ItemPart(msgspec.Struct):
    """One element of the content or the summary of an item."""

    pos: int
    type: str | None = None
    is_announced: bool = True
    is_closed: bool = False


class OutputItem:
    """One item of the output."""

    def __init__(self, index: int, pos: int, json: Json, *, is_announced: bool) -> None:
        self.index, self.pos, self.is_announced = index, pos, is_announced
        self.type = text(json, "type") or "item"
        self.id = text(json, "id")
        self.added = json
        self.done: Json | None = None
        self.done_pos: int | None = None
        self.has_places = True  # whether its parts are numbered so that one can tell which is which
        self.parts: dict[Place, ItemPart] = {}
        self.texts: dict[Place, ItemText] = {}


class ItemWalk:
    """The items of one response, and what is wrong with them."""

    def __init__(self) -> None:
        self.items: dict[int, OutputItem] = {}
        self.faults: list[Fault] = []
        self._open = 0
        self._last_done = -1  # the highest output_index that is done

    def add(self, event: StreamEvent) -> None:
        """Add the next event."""
        step = _STEPS.get(event.type)
        if step is not None:
            step(self, event)

    def _hit(self, rule: str, pos: int, text: str) -> None:
        self.faults.append((rule, pos, text))

    def on_added(self, each: StreamEvent) -> None:
        index = self._index(each)
        if index in self.items:
            if self.items[index].is_announced:
                self._hit("RS031", each.pos, f"output_index {index}")
            return
        self._next(index, each.pos)
        self.items[index] = OutputItem(
            index, each.pos, object_(each.payload, "item"), is_announced=True
        )

    def on_done(self, each: StreamEvent) -> None:
        item, json = self._item(each), object_(each.payload, "item")
        if item.done is not None:
            self._hit("RS033", each.pos, f"{each.type} again, output_index {item.index}")
            return
        item.done, item.done_pos = json, each.pos
        if item.index < self._last_done:
            self._hit("RS056", each.pos, f"output_index {item.index} after {self._last_done}")
        self._last_done = max(self._last_done, item.index)
        if item.is_announced:
            self._identity(each.pos, item, json)
        if text(json, "status") in _UNFINISHED:
            self._hit("RS048", each.pos, f"{item.type} {item.index}: {json['status']}")

    def _identity(self, pos: int, item: OutputItem, done: Json) -> None:
        """Check that an item is done as it was added: by its id (if it had none, that of its
        events), type and call.
        """
        added_id, now, is_nameless = text(item.added, "id"), text(done, "id"), item.type in NAMELESS
        if (now != item.id or now != added_id) and not (
            added_id is None and is_nameless and item.id in (None, now)
        ):
            self._hit("RS025", pos, f"{item.type} {item.index}: {now}, first {added_id}")
        elif now is None and not is_nameless:
            self._hit("RS028", pos, f"{item.type} {item.index}")
        was, now_called = item.added.get("call_id"), done.get("call_id")
        if not is_nameless and (was is None) != (now_called is None):
            self._hit(
                "RS029", pos, f"call_id of {item.type} {item.index}: {now_called}, first {was}"
            )
        for field, before, after in changes(item.added, done):
            self._hit("RS029", pos, f"{field} of {item.type} {item.index}: {after}, first {before}")

    def on_part_added(self, each: StreamEvent) -> None:
        of = _PARTS[each.type.removesuffix(".added")]
        item, number = self.of_item(each), _number(each.payload, _INDEX[of])
        count = sum(name == of for name, _ in item.parts)
        if (of, number) in item.parts or number != count:
            item.has_places = False
            self._hit(
                "RS039",
                each.pos,
                f"{_INDEX[of]} {number} of {item.type} {item.index}, where {count} is next",
            )
        item.parts.setdefault((of, number), ItemPart(each.pos, text(each.payload, "part", "type")))

    def on_part_done(self, each: StreamEvent) -> None:
        of = _PARTS[each.type.removesuffix(".done")]
        item, number = self.of_item(each), _number(each.payload, _INDEX[of])
        part = item.parts.setdefault((of, number), ItemPart(each.pos, is_announced=False))
        part.is_closed = True
        json = object_(each.payload, "part")
        for item_text in item.texts.values():
            if (
                item_text.family.of == of
                and item_text.number == number
                and item_text.family.field in json
            ):
                item_text.in_part, item_text.part_pos = text(json[item_text.family.field]), each.pos

    def on_delta(self, each: StreamEvent) -> None:
        item, item_text = self._item_text(each, ".delta")
        if item_text.done is not None and item.done is None:
            self._hit("RS038", each.pos, f"{each.type} after its .done")
        item_text.pieces.append(text(each.payload, "delta") or "")

    def on_text_done(self, each: StreamEvent) -> None:
        _, item_text = self._item_text(each, ".done")
        item_text.done, item_text.done_pos = (
            text(each.payload, item_text.family.field) or "",
            each.pos,
        )

    def _item_text(self, each: StreamEvent, step: str) -> tuple[OutputItem, ItemText]:
        name = each.type.removesuffix(step)
        family, item = FAMILIES[name], self.of_item(each)
        self._fit(each, item, family)
        number = _number(each.payload, family.number) if family.number else 0
        if family.needs_part:
            self._in_part(each, item, family, number)
        item_text = item.texts.get((name, number))
        if item_text is None:
            item_text = item.texts[name, number] = ItemText(each.pos, family, number)
        return item, item_text

    def _fit(self, each: StreamEvent, item: OutputItem, family: Family) -> None:
        """Check that a text fits the type of its item, and of its part."""
        part = item.parts.get(
            (family.of, _number(each.payload, family.number) if family.number else 0)
        )
        if item.type not in ("item", family.item):
            self._hit("RS049", each.pos, f"{each.type} of {item.type} {item.index}")
        elif part is not None and part.type not in (None, family.part) and not part.is_closed:
            self._hit("RS049", each.pos, f"{each.type} in a part of type {part.type}")

    def _in_part(self, each: StreamEvent, item: OutputItem, family: Family, number: int) -> None:
        part = item.parts.get((family.of, number))
        if part is None:
            item.parts[family.of, number] = ItemPart(each.pos, is_announced=False)
            if (
                item.is_announced
                and item.done is None
                and not _states_part(item.added, family.of, number)
            ):
                rule = "RS035" if family.part == "output_text" else "RS054"
                self._hit(
                    rule,
                    each.pos,
                    f"{each.type}, {family.number} {number} of {item.type} {item.index}",
                )
        elif part.is_closed and item.done is None:
            self._hit("RS038", each.pos, f"{each.type} after its part was done")

    def of_item(self, each: StreamEvent) -> OutputItem:
        """Return the item of an event, which must be open."""
        item = self._item(each)
        named = text(each.payload, "item_id")
        if item.done is not None:
            self._hit("RS033", each.pos, f"{each.type}, output_index {item.index}")
        elif named is not None:
            item.id = item.id or named
            if named != item.id:
                self._hit("RS024", each.pos, f"{named}, of {item.type} {item.index}: {item.id}")
        return item

    def _item(self, each: StreamEvent) -> OutputItem:
        index = self._index(each)
        item = self.items.get(index)
        if item is None:
            self._hit("RS030", each.pos, f"{each.type}, output_index {index}")
            self._next(index, each.pos)
            item = self.items[index] = OutputItem(
                index, each.pos, object_(each.payload, "item"), is_announced=False
            )
        return item

    def _index(self, each: StreamEvent) -> int:
        index = each.payload.get("output_index")
        self._open = index if type(index) is int else self._open
        return self._open

    def _next(self, index: int, pos: int) -> None:
        if index != len(self.items):
            self._hit("RS034", pos, f"{index} instead of {len(self.items)}")


_STEPS: Mapping[str, Callable[[ItemWalk, StreamEvent], object]] = {
    **dict.fromkeys(OF_ITEMS, ItemWalk.of_item),
    "response.output_item.added": ItemWalk.on_added,
    "response.output_item.done": ItemWalk.on_done,
    **{f"{name}.added": ItemWalk.on_part_added for name in _PARTS},
    **{f"{name}.done": ItemWalk.on_part_done for name in _PARTS},
    **{f"{name}.delta": ItemWalk.on_delta for name in FAMILIES},
    **{f"{name}.done": ItemWalk.on_text_done for name in FAMILIES},
}


def changes(before: Json, after: Json) -> Iterable[tuple[str, str, str]]:
    """Yield the names of an item in which two events differ."""
    for field in ("type", "call_id", "name"):
        was, now = text(before, field), text(after, field)
        if was is not None and now is not None and was != now:
            yield field, was, now


def _states_part(added: Json, of: str, number: int) -> bool:
    """Return whether an item had a part already when it was added: clients keep it, and find it by
    its number.
    """
    parts = added.get(of)
    return isinstance(parts, list) and 0 <= number < len(parts)


def _number(payload: Json, field: str) -> int:
    number = payload.get(field)
    return number if type(number) is int else 0
