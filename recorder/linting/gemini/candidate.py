"""What is wrong with one candidate of Gemini: the shape of its content, its function calls, how it ends."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterable

from recorder.dialects.telling import Object, array, object_, objects, text
from recorder.linting.rule import Hit
from recorder.linting.walk import Fault, shown

_OBJECTS = ("functionCall", "functionResponse", "executableCode", "codeExecutionResult", "inlineData", "fileData")
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
        content, reason = candidate.get("content"), candidate.get("finishReason")
        parts = object_(content).get("parts")
        for value, type, name in ((content, dict, "content"), (parts, list, "parts"), (reason, str, "finishReason")):
            if value is not None and not isinstance(value, type):
                yield "GE011", Hit(pos, f"{name} is {shown(value)}")
        if self.is_finished and any(part.get(name) for part in objects(parts) for name in _SAYING):
            yield "GE021", Hit(pos)
        for part in array(parts):
            yield from self._part(pos, part)
        self.is_finished = self.is_finished or bool(reason or candidate.get("finish_reason"))

    def end(self) -> Iterable[Fault]:
        if not self.is_finished:
            yield "GE008", Hit(self._pos, f"candidate {self._index} has none")

    def _part(self, pos: int, part: object) -> Iterable[Fault]:
        wrong = _misshapen(part)
        if wrong:
            yield "GE011", Hit(pos, wrong)
            return
        said = object_(part)
        if not _is_base64(said.get("thoughtSignature")):
            yield "GE016", Hit(pos, shown(said["thoughtSignature"]))
        call = said.get("functionCall")
        if isinstance(call, dict):
            yield from self._call(pos, call, bool(said.get("thoughtSignature") or said.get("thought_signature")))

    def _call(self, pos: int, call: Object, is_signed: bool) -> Iterable[Fault]:
        args = call.get("args")
        if args is not None and not isinstance(args, dict):
            yield "GE014", Hit(pos, f"args is {shown(args)}")
        if not text(call.get("name")) and not self._is_calling:
            yield "GE013", Hit(pos, shown(call))
        if self._signs and not self._has_call and not is_signed:
            yield "GE015", Hit(pos, shown(call.get("name")))
        self._has_call = True
        self._is_calling = call.get("willContinue") is True


def _misshapen(part: object) -> str:
    """What is wrong with a part to a client that declares types, if anything is."""
    if not isinstance(part, dict):
        return f"a part is {shown(part)}"
    said = part.get("text")
    if said is not None and not isinstance(said, str):
        return f"text is {shown(said)}"
    wrong = (name for name in _OBJECTS if not isinstance(part.get(name, {}), dict | None))
    return next((f"{name} is {shown(part[name])}" for name in wrong), "")


def _is_base64(signature: object) -> bool:
    """As pydantic reads it, in either alphabet."""
    if signature is None:
        return True
    try:
        said = str(signature).replace("-", "+").replace("_", "/")
        b64decode(said + "=" * (-len(said) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return isinstance(signature, str)
