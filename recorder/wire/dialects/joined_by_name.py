"""Conversations in which the result of a call need not say which call it is of: ids are left out,
or made anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from recorder.model.facts import RepeatedCall, ToolResult
from recorder.wire.dialects.canonical import call_place
from recorder.wire.dialects.conversation import Conversation, Part
from recorder.wire.dialects.json_values import text


class JoinedByName(Conversation):
    """A request whose results are of the call with their id, else of the next one of their name."""

    def results(self) -> Iterator[ToolResult]:
        """Yield the results, each with the place of its call: the one with its id, else the next
        one of its name.

        Of a result whose call the request does not repeat the turn is unknown, if it has no id
        either, except for those after the last turn of the model.
        """
        calls = _RepeatedCalls()
        turns = [
            number for number, message in enumerate(self.messages) if message.role == "assistant"
        ]
        for number, message in enumerate(self.messages):
            for part in message.parts:
                if part.kind == "call":
                    calls.add(part)
            for result in filter(None, map(self.result, message.parts)):
                call = calls.take(result)
                if call is not None:
                    yield msgspec.structs.replace(
                        result, call_id=result.call_id or call.id, place=call.place
                    )
                elif result.call_id is not None or number > max(turns, default=-1):
                    yield result

    def repeated_calls(self) -> tuple[RepeatedCall, ...]:
        return ()  # a result says the place of its call


class _RepeatedCall(NamedTuple):
    """A call as a request repeats it."""

    id: str | None
    name: str | None
    place: str


class _RepeatedCalls:
    """The calls of the model's last turn that have no result yet."""

    def __init__(self) -> None:
        self._waiting: list[_RepeatedCall] = []
        self._places: Counter[str] = Counter()
        self._is_answered = False

    def add(self, part: Part) -> None:
        if self._is_answered:
            self._waiting, self._places, self._is_answered = [], Counter(), False
        name = text(part.name)
        about = call_place(name, part.value)
        self._waiting.append(_RepeatedCall(text(part.id), name, f"{about}[{self._places[about]}]"))
        self._places[about] += 1

    def take(self, result: ToolResult) -> _RepeatedCall | None:
        """Return the call that a result is of: the one with its id, else the next one of its name."""
        self._is_answered = True
        by_id = [
            call
            for call in self._waiting
            if result.call_id is not None and call.id == result.call_id
        ]
        by_name = [call for call in self._waiting if call.name == result.name]
        call = next(iter(by_id or by_name), None)
        if call is not None:
            self._waiting.remove(call)
        return call
