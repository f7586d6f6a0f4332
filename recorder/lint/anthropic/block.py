"""What is wrong with one content block of a message: how it begins, which deltas it has, what they add up to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from recorder.lint.rule import Hit
from recorder.lint.walk import Fault, shown
from recorder.wire.dialects.json_values import Object, decoded, text

CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")

_TEXTS = {"text": "text", "thinking": "thinking"}
"""The field of a block that deltas are added to."""

_PIECES = {
    "text_delta": "text",
    "input_json_delta": "partial_json",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
}
"""The field of a delta that is a string."""

_OF: Mapping[str, frozenset[str]] = {
    "text_delta": frozenset({"text"}),
    "citations_delta": frozenset({"text"}),
    "thinking_delta": frozenset({"thinking"}),
    "signature_delta": frozenset({"thinking"}),
    "input_json_delta": frozenset(CALLS),
    "compaction_delta": frozenset({"compaction"}),
}
_KNOWN = frozenset({*(kind for kinds in _OF.values() for kind in kinds), "redacted_thinking", "web_search_tool_result"})


class Block:
    """Follows one block. Types that nobody here knows may have any delta."""

    def __init__(self, pos: int, index: int, said: Object) -> None:
        self.pos = pos
        self.index = index
        self.is_interleaved = False  # it went on after another one began
        self._type = text(said.get("type"))
        self._said = said
        self._input: list[str] = []
        self._is_signed = bool(said.get("signature"))

    def begin(self) -> Iterable[Fault]:
        field = _TEXTS.get(self._type or "")
        if self._type is None or (field and not isinstance(self._said.get(field), str)):
            yield "AN015", Hit(self.pos, shown(self._said))
        elif self._type in CALLS and not (text(self._said.get("id")) and text(self._said.get("name"))):
            yield "AN016", Hit(self.pos, shown(self._said))

    def add(self, pos: int, delta: object) -> Iterable[Fault]:
        type = text(delta.get("type")) if isinstance(delta, dict) else None
        if not isinstance(delta, dict) or type is None:
            yield "AN017", Hit(pos, f"delta is {shown(delta)}")
            return
        field = _PIECES.get(type)
        piece = delta.get(field) if field else ""
        if not isinstance(piece, str):
            yield "AN017", Hit(pos, f"{field} is {shown(piece)}")
        elif not self._takes(type):
            yield "AN018", Hit(pos, f"{type} in a block of type {shown(self._type)}")
        elif type == "input_json_delta":
            self._input.append(piece)
        elif type == "signature_delta":
            self._is_signed = self._is_signed or bool(piece)

    def end(self) -> Iterable[Fault]:
        """Of a block that was said to the end."""
        said = "".join(self._input)
        if self._type in CALLS and said and not _is_object(said):
            yield "AN019", Hit(self.pos, shown(said))
        if self._type == "thinking" and not self._is_signed:
            yield "AN020", Hit(self.pos)

    def _takes(self, delta: str) -> bool:
        fitting = _OF.get(delta)
        return fitting is None or self._type not in _KNOWN or self._type in fitting


def _is_object(said: str) -> bool:
    try:
        return isinstance(decoded(said.encode("utf-8", "replace")), dict)
    except ValueError:
        return False
