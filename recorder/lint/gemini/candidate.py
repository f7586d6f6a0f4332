"""What is wrong with one candidate of Gemini: the shape of its content, its function calls, how it ends."""

from __future__ import annotations

from collections.abc import Iterable

from recorder.lint.rule import Hit
from recorder.lint.walk import Fault, shown
from recorder.wire.dialects.json_values import Object, array, object_, objects, text

_SAYING = ("text", "functionCall", "executableCode", "inlineData", "fileData")


class Candidate:
    """Follows one candidate. `signs` says whether its model signs function calls."""

    def __init__(self, index: int, *, signs: bool) -> None:
        self._index = index
        self._signs = signs
        self._pos: int | None = None  # of the last that was said of it
        self._has_call = False
        self._is_calling = False  # a call whose arguments come in pieces is not over
        self.is_finished = False

    def hear(self, pos: int, candidate: Object) -> Iterable[Fault]:
        self._pos = pos
        parts, reason = object_(candidate.get("content")).get("parts"), candidate.get("finishReason")
        if self.is_finished and any(part.get(name) for part in objects(parts) for name in _SAYING):
            yield "GE021", Hit(pos)
        for part in array(parts):
            yield from self._part(pos, part)
        self.is_finished = self.is_finished or bool(reason or candidate.get("finish_reason"))

    def end(self) -> Iterable[Fault]:
        if not self.is_finished:
            yield "GE008", Hit(self._pos, f"candidate {self._index} has none")

    def _part(self, pos: int, part: object) -> Iterable[Fault]:
        said = object_(part)
        call = said.get("functionCall")
        if isinstance(call, dict):
            yield from self._call(pos, call, bool(said.get("thoughtSignature") or said.get("thought_signature")))

    def _call(self, pos: int, call: Object, is_signed: bool) -> Iterable[Fault]:
        if not text(call.get("name")) and not self._is_calling:
            yield "GE013", Hit(pos, shown(call))
        if self._signs and not self._has_call and not is_signed:
            yield "GE015", Hit(pos, shown(call.get("name")))
        self._has_call = True
        self._is_calling = call.get("willContinue") is True
