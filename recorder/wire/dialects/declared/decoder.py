"""The decoder of a declared dialect: what its declaration says of each type, and no more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from recorder.model.facts import (
    ErrorReported,
    Fact,
    ItemFinished,
    ItemStarted,
    ItemState,
    ResponseFinished,
    TextAdded,
    ToolResult,
    UsageReported,
)
from recorder.model.text import storable
from recorder.wire.dialects import other
from recorder.wire.dialects.decoder import Facts, JsonDecoder, failed, unknown
from recorder.wire.dialects.json_values import (
    Object,
    member,
    object_,
    request_object,
    text,
    text_or_json,
)
from recorder.wire.dialects.keys import DONE, ERROR, TEXT_LIMIT, KeyExtractor, Keys, Named, Payload

Path = tuple[str, ...]

EVENT = "event"
"""The place of a type that is the event line, or without one the member of that name."""

MEANINGS = ("tool", "arguments", "text", "reasoning", "result", "usage", "error", "end")
"""What a type may mean, in the order in which an event with several of them is read."""


class Declaration(msgspec.Struct, frozen=True):
    """A dialect as it is declared."""

    type_places: tuple[str, ...]
    # by type, meanings and the paths of their values
    rules: Mapping[str, tuple[tuple[str, Path], ...]]
    ignored: frozenset[str] = frozenset()
    # of tokens, in a usage object, beside those that everybody uses
    counts: Mapping[str, Path] = {}
    session: Path = ()
    model: Path = ()
    call: Path = ()  # the id of a call

    def type_of(self, event_line: str | None, payload: Object) -> str | None:
        """Return the type of an event: the values at its places, with spaces between."""
        found = []
        for place in self.type_places:
            value = event_line if place == EVENT else None
            value = value or text(payload, *place.split("."))
            if value:
                found.append(value)
        return storable(" ".join(found)[:TEXT_LIMIT]) or None


def _name(event: Payload) -> Named:
    return (ERROR if event.error else None), None, None, None


class DeclaredKeys(KeyExtractor[Payload]):
    """The keys of a declared dialect: the type is where the declaration says."""

    def __init__(self, declaration: Declaration) -> None:
        super().__init__(Payload, _name, event_line_first=True)
        self._declaration = declaration

    def of_message(self, payload: bytes) -> Keys:
        return self._keys(None, payload, 0, len(payload))

    def _keys(
        self, event: bytes | None, data: bytes, start: int | None, length: int | None
    ) -> Keys:
        keys = super()._keys(event, data, start, length)
        if keys.data_start is None or keys.type == DONE:
            return keys
        line = keys.type if event else None
        type = self._declaration.type_of(line, request_object(data))
        return msgspec.structs.replace(keys, type=type or keys.type)


_MESSAGE = ItemState("message", "message", role="assistant")
_REASONING = ItemState("reasoning", "reasoning")


class DeclaredDecoder(JsonDecoder):
    """Follows one stream: a message and reasoning, which a call ends, and calls by their ids."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        # by kind or id of a call, the key of the item
        self._open: dict[str, tuple[str, ItemState]] = {}
        self._last_call: str | None = None
        self._number = 0

    def payload(self, type: str | None, payload: Any) -> Facts:
        """Decode the payload of an event."""
        body = object_(payload)
        rules = self.declaration.rules.get(type or "")
        facts: list[Fact] = [*self._named(body)]
        if rules is None:
            if type == ERROR:
                return (*facts, failed(body))
            return facts if type in self.declaration.ignored else (*facts, unknown(type))
        for meaning, path in rules:
            value = member(body, *path) if path else None
            # an event without a type means what it has
            if type or not (value is None or value is False):
                facts += self._meant(meaning, body, value)
        return facts

    def whole(self, payload: Any) -> Facts:
        """Decode a document: ids, an error, and tokens in a form that many share."""
        return (*self._named(object_(payload)), *other.OtherDecoder().payload(None, payload))

    def _named(self, body: Object) -> Facts:
        where = self.declaration
        id = text(body, *where.session) if where.session else None
        model = text(body, *where.model) if where.model else None
        return () if id is None and model is None else self._begun(id, model)

    def _meant(self, meaning: str, body: Object, value: Any) -> Iterable[Fact]:
        """Yield what a value means.

        One that is not there means nothing; `recorder lint` says so.
        """
        if meaning == "end":
            yield from self._ended(value)
        elif meaning == "error":
            yield self._failure(body, value)
        elif value is None:
            return
        elif meaning == "usage":
            yield from self._used(object_(value))
        elif meaning == "text":
            yield from self._added("message", _MESSAGE, "text", value)
        elif meaning == "reasoning":
            yield from self._added("reasoning", _REASONING, "reasoning", value)
        else:
            yield from self._of_call(meaning, self._call_id(body), value)

    def _added(self, slot: str, opening: ItemState, field: Any, value: Any) -> Iterable[Fact]:
        if slot not in self._open:
            yield self._begin(slot, opening)
        if words := text_or_json(value):
            yield TextAdded(self._open[slot][0], field, 0, words)

    def _begin(self, slot: str, opening: ItemState) -> ItemStarted:
        key = f"{slot}.{self._number}"
        self._number += 1
        self._open[slot] = key, opening
        return ItemStarted(key, None, opening)

    def _call_id(self, body: Object) -> str | None:
        found = member(body, *self.declaration.call) if self.declaration.call else None
        return None if found is None else text_or_json(found)

    def _of_call(self, meaning: str, call_id: str | None, value: Any) -> Iterable[Fact]:
        """Yield what is said of a call: by its id, else of the last one."""
        slot = self._last_call if call_id is None else f"call.{call_id}"
        if meaning == "tool":
            yield from self._finished("message", "reasoning")
            slot = f"call.{self._number}" if call_id is None else f"call.{call_id}"
            self._last_call = slot
            yield self._begin(
                slot, ItemState("tool_call", "tool", name=text_or_json(value), call_id=call_id)
            )
        elif slot not in self._open:
            yield unknown(f"{meaning} of no call")
        elif meaning == "arguments":
            yield TextAdded(self._open[slot][0], "arguments", 0, text_or_json(value))
        else:
            name = self._open[slot][1].name
            yield from self._finished(slot)
            yield ToolResult(call_id, name, text_or_json(value))

    def _used(self, usage: Object) -> Iterable[UsageReported]:
        report = other.report_of(usage, self.declaration.counts)
        if report is not None:
            yield report

    def _failure(self, body: Object, value: Any) -> ErrorReported:
        return failed(body if value is None else {"error": value})

    def _ended(self, value: Any) -> Iterable[Fact]:
        yield from self._finished(*self._open)
        yield ResponseFinished(None if value is None else text_or_json(value))

    def _finished(self, *slots: str) -> Iterable[Fact]:
        for slot in [each for each in slots if each in self._open]:
            key, opening = self._open.pop(slot)
            yield ItemFinished(key, None, msgspec.structs.replace(opening, status="completed"))
