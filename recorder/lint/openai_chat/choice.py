"""What is wrong with one choice of a chat completion: its role, its content, its tool calls, how it ends."""

from __future__ import annotations

from collections.abc import Iterable

from recorder.lint.rule import Hit
from recorder.lint.walk import Fault, is_whole_number, shown
from recorder.wire.dialects.json_values import Object, array, decoded, object_

_SAYING = ("content", "refusal", "tool_calls", "function_call", "audio")
_WHOLE = ("stop", "tool_calls", "function_call")
"""The reasons for which a choice ends when all of it was said."""


class Call:
    """Follows one tool call."""

    def __init__(self, pos: int) -> None:
        self._pos = pos
        self._arguments: list[str] = []
        self._id: object = None
        self._type: object = None
        self._name: object = None
        self._is_judged = True  # its arguments: not if they are known to be no JSON for another reason

    def begin(self, said: Object) -> Iterable[Fault]:
        self._id, self._name = said.get("id"), _named(said)
        if not self._id:
            yield "CH017", Hit(self._pos, f"id is {shown(self._id)}")
        if not self._name:
            yield "CH018", Hit(self._pos, shown(said))
        yield from self._hear(self._pos, said)

    def go_on(self, pos: int, said: Object) -> Iterable[Fault]:
        for name, value, before in (("id", said.get("id"), self._id), ("name", _named(said), self._name)):
            if value and before:
                self._is_judged = self._is_judged and value == before
                yield "CH020", Hit(pos, f"{name} {shown(value)} after {shown(before)}")
        if "type" in said and said["type"] is None and self._type:
            yield "CH032", Hit(pos, shown(said))
        if self._type == "function" and said.get("function") is None:
            yield "CH034", Hit(pos, shown(said))
        yield from self._hear(pos, said)

    def end(self) -> Iterable[Fault]:
        if not self._type:
            yield "CH019", Hit(self._pos)
        if self._is_judged and not _is_json(said := "".join(self._arguments)):
            yield "CH022", Hit(self._pos, shown(said))

    def _hear(self, pos: int, said: Object) -> Iterable[Fault]:
        self._type = self._type or said.get("type")
        self._is_judged = self._is_judged and self._type != "custom"  # whose input is any text
        arguments = object_(said.get("function")).get("arguments")
        if isinstance(arguments, str):
            self._arguments.append(arguments)
        elif arguments is not None:
            self._is_judged = False
            yield "CH021", Hit(pos, f"arguments is {shown(arguments)}")


class Choice:
    """Follows one choice."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._pos: int | None = None  # of the last that was said of it
        self._has_role = False
        self._reason: object = None
        self._calls: dict[int, Call] = {}

    def hear(self, pos: int, choice: Object, delta: Object) -> Iterable[Fault]:
        self._pos = pos
        yield from self._role(delta)
        if delta.get("content") is not None and not isinstance(delta["content"], str):
            yield "CH028", Hit(pos, shown(delta["content"]))
        if self._reason and any(delta.get(name) for name in _SAYING):
            yield "CH029", Hit(pos, shown(delta))
        for call in array(delta.get("tool_calls")):
            yield from self._call(pos, object_(call))
        yield from self._finish(choice.get("finish_reason"))

    def unfinished(self) -> Iterable[Fault]:
        if not self._reason:
            yield "CH011", Hit(self._pos, f"choice {self._index} has none")

    def end(self) -> Iterable[Fault]:
        if self._reason and not self._has_role:
            yield "CH010", Hit(None, f"choice {self._index} has none")
        if self._reason in _WHOLE:
            for call in self._calls.values():
                yield from call.end()

    def _role(self, delta: Object) -> Iterable[Fault]:
        if not delta.get("role"):
            return
        if self._has_role and self._pos is not None:
            yield "CH027", Hit(self._pos, f"choice {self._index}")
        self._has_role = True

    def _finish(self, reason: object) -> Iterable[Fault]:
        if reason:
            if self._reason:
                yield "CH030", Hit(self._pos, f"{shown(reason)} after {shown(self._reason)}")
            self._reason = reason

    def _call(self, pos: int, said: Object) -> Iterable[Fault]:
        index = said.get("index")
        if not is_whole_number(index):
            yield "CH016", Hit(pos, shown(said))
        elif index in self._calls:
            yield from self._calls[index].go_on(pos, said)
        else:
            if index != len(self._calls):
                yield "CH031", Hit(pos, f"a call begins as index {index}, where {len(self._calls)} is next")
            call = self._calls[index] = Call(pos)
            yield from call.begin(said)


def _named(call: Object) -> object:
    return object_(call.get("function")).get("name") or object_(call.get("custom")).get("name")


def _is_json(said: str) -> bool:
    try:
        decoded(said.encode("utf-8", "replace"))
    except ValueError:
        return False
    return True
