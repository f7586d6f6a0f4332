"""The turns of a conversation as a request repeats them, in the form that digests are made of.

A dialect reads its requests as `Message`s, which the model was sent, `Instruction`s of the system among them, and
`ModelAnswer`s, which it gave. Left out is all that clients change between turns: marks of what is cached, ids of calls
and items, reasoning, which of the two ways to write a text is chosen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from recorder.model.facts import RepeatedCall
from recorder.model.text import storable
from recorder.wire.dialects.json_values import objects, text


class ModelAnswer(msgspec.Struct):
    """An answer of a model, as far as clients repeat it."""

    texts: list[str] = msgspec.field(default_factory=list)
    calls: list[tuple[str, str]] = msgspec.field(default_factory=list)  # name and arguments
    references: list[str] = msgspec.field(default_factory=list)  # ids of items that the provider keeps
    ids: list[Any] = msgspec.field(default_factory=list)  # of its calls and items: no part of what it says

    def __bool__(self) -> bool:
        return bool(self.texts or self.calls or self.references)

    def add(self, other: ModelAnswer) -> None:
        self.texts += other.texts
        self.calls += other.calls
        self.references += other.references
        self.ids += other.ids

    def call(self, name: Any, arguments: Any) -> None:
        """Add a call of a tool. Its arguments are JSON, as text or decoded, in whatever order its fields are."""
        if isinstance(arguments, str):
            try:
                arguments = msgspec.json.decode(arguments or "{}")
            except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
                pass
        self.calls.append((str(name), storable(canonical(arguments).decode())))


class Message(NamedTuple):
    """A message to a model: canonical JSON, the ids of the calls whose results are in it, and its content as it is."""

    canonical: bytes
    answers: Sequence[Any] = ()
    content: Any = None


class Instruction(NamedTuple):
    """A message of the system."""

    content: Any


ConversationTurn = Message | Instruction | ModelAnswer

_NOT_SAID = frozenset({"cache_control", "tool_use_id"})
"""Fields of a part of a message that are not what it says."""


def canonical(value: Any) -> bytes:
    """Encode JSON that is the same whatever the order of its fields."""
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (ValueError, TypeError, msgspec.MsgspecError):
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def canonical_message(role: Any, content: Any) -> bytes:
    """Encode a message. One text may be written as it is, or as the only part of a list."""
    if isinstance(content, list):
        parts = [{k: v for k, v in each.items() if k not in _NOT_SAID} for each in objects(content)]
        texts = [text(each.get("text")) for each in parts]
        content = texts[0] if len(parts) == len(content) == 1 and parts[0].keys() <= {"type", "text"} else parts
    return canonical([role, content])


def call_place(name: str | None, arguments: Any) -> str:
    """Return what a call has in a response and where a request repeats it, whatever became of its id: its name, and a
    digest of its arguments, given as JSON or as text of it. Clients write 1 for 1.0.
    """
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments or "{}")
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            pass
    try:
        arguments = _with_integers(arguments)
    except RecursionError:
        pass
    return f"{name or ''} {sha256(canonical(arguments)).hexdigest()[:16]}"


class Call(NamedTuple):
    """A call as a request repeats it."""

    id: Any
    name: Any
    arguments: Any


def answered_calls(steps: Iterable[Call | None]) -> tuple[RepeatedCall, ...]:
    """Return the calls of the last turn with calls, if they have a result. Of the steps, None is a result."""
    turn: list[Call] = []
    is_answered = False
    for step in steps:
        if step is None:
            is_answered = True
        elif is_answered:
            turn, is_answered = [step], False
        else:
            turn.append(step)
    return tuple(map(_repeated, turn)) if is_answered else ()


def _repeated(call: Call) -> RepeatedCall:
    arguments = {} if call.arguments is None else call.arguments
    return RepeatedCall(text(call.id), call_place(text(call.name), arguments))


def _with_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_integers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_integers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def texts_of(content: Any) -> list[str]:
    """Return the texts of an answer's content; of a part without one, its refusal."""
    if isinstance(content, str):
        return [content]
    found = (each.get("text") if each.get("text") is not None else each.get("refusal") for each in objects(content))
    return [each for each in found if isinstance(each, str)]
