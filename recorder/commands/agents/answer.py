"""The answer to a call of a tool: JSON that fits into the context of a model, and remarks about
what is not in it.

Rules of this file:

* The JSON is that of the `--json` form of the command. Rows are added until it is full; a first row
  always fits, because it is cut until it does.
* Whatever is cut is counted, and the remarks, which are not a recorded text, say how to ask for it.
* Recorded text cannot take over a terminal that shows an answer: what `safe_text` would change is
  escaped in the JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from recorder.model.text import counted, json_value, safe_text

LEAST_CHARS = 10_000  # a row that is cut as far as it can be is shorter


class Answer(NamedTuple):
    """An answer: a JSON text, and a text with the remarks, empty if there are none."""

    json: str
    remarks: str = ""


class _Bounds(NamedTuple):
    """How much of a value is kept: characters of a text, entries of a list or an object, and levels
    of them.
    """

    text: int
    entries: int | None = None
    depth: int = 100  # a parser of JSON refuses more sooner or later


_NARROWER = (
    _Bounds(400, 60, 20),
    _Bounds(120, 30, 12),
    _Bounds(60, 12, 8),
    _Bounds(40, 6, 6),
    _Bounds(20, 2, 3),
)
"""What a row is cut to that does not fit alone: the last leaves a few kilobytes of any."""


class Page:
    """The rows of an answer, as many as fit: an array, or the member of an object that has a name."""

    def __init__(self, limit_chars: int, max_text: int, name: str | None = None) -> None:
        self._limit_chars, self._bounds, self._name = limit_chars, _Bounds(max_text), name
        self._cuts = _Cuts()
        self._header: dict[str, Any] = {}
        self._rows: list[Any] = []
        self._size_chars = len(self._encoded())
        self._remarks: list[str] = []

    def __len__(self) -> int:
        return len(self._rows)

    def head(self, header: Mapping[str, Any]) -> None:
        """Set the other members of the object, before there are rows; they take at most a third of
        the answer.
        """
        self._header = self._fitted(header, self._limit_chars // 3)
        self._size_chars = len(self._encoded())

    def add(self, row: Any) -> bool:
        """Add a row if it fits, else return False. The first one is cut until it does."""
        left_chars = self._limit_chars - self._size_chars - 1  # a comma
        if not self._rows:
            kept = self._fitted(row, left_chars)
        else:
            cuts = _Cuts()
            kept = cuts.cut(msgspec.to_builtins(row), self._bounds)
            if len(_encoded(kept)) > left_chars:
                return False
            self._cuts.add(cuts)
        self._rows.append(kept)
        self._size_chars += len(_encoded(kept)) + 1
        return True

    def remark(self, sentence: str) -> None:
        """Add a sentence about what is not in the answer, or why."""
        self._remarks.append(sentence)

    def answer(self) -> Answer:
        """Return the answer with all that was added."""
        return Answer(
            self._encoded(), "\n".join(map(safe_text, [*self._remarks, *self._cuts.remarks()]))
        )

    def _fitted(self, row: Any, left_chars: int) -> Any:
        """Return a value that is cut until it fits."""
        value = msgspec.to_builtins(row)
        for bounds in (
            self._bounds,
            *(each for each in _NARROWER if each.text < self._bounds.text),
            _NARROWER[-1],
        ):
            cuts = _Cuts()
            kept = cuts.cut(value, bounds)
            if len(_encoded(kept)) <= left_chars:
                break
        self._cuts.add(cuts)
        return kept

    def _encoded(self) -> str:
        return _encoded(
            self._rows if self._name is None else {**self._header, self._name: self._rows}
        )


class _Cuts:
    """What was cut, counted."""

    def __init__(self) -> None:
        self.texts = self.chars = self.entries = 0

    def add(self, other: _Cuts) -> None:
        self.texts += other.texts
        self.chars += other.chars
        self.entries += other.entries

    def remarks(self) -> list[str]:
        found = []
        if self.texts:
            cut = f"{counted(self.texts, 'text')} cut, {counted(self.chars, 'character')} left out"
            found.append(f"{cut}: max_text gives more, and `query` with substr(…) any part.")
        if self.entries:
            entries = f"{counted(self.entries, 'entry').replace('entrys', 'entries')} of lists and objects left out"
            found.append(
                f"{entries}: `query` gives the parts of a value that is too large for an answer."
            )
        return found

    def cut(self, value: Any, bounds: _Bounds) -> Any:
        """Return a value within bounds; an ellipsis stands where something was."""
        if isinstance(value, str):
            return self._text(value, bounds.text)
        if not isinstance(value, dict | list | tuple) or not value:
            return value
        if not bounds.depth:
            self.entries += len(value)
            return "…"
        inner = bounds._replace(depth=bounds.depth - 1)
        kept = len(value) if bounds.entries is None else min(len(value), bounds.entries)
        self.entries += len(value) - kept
        if isinstance(value, dict):
            some = list(value.items())[:kept]
            found = {
                self._text(str(name), bounds.text): self.cut(each, inner) for name, each in some
            }
            return found if kept == len(value) else {**found, "…": f"{len(value) - kept} more"}
        rows = [self.cut(each, inner) for each in value[:kept]]
        return rows if kept == len(value) else [*rows, f"… {len(value) - kept} more"]

    def _text(self, text: str, most: int) -> str:
        if len(text) <= most:
            return text
        self.texts += 1
        self.chars += len(text) - most
        return f"{text[:most]}… ({len(text) - most:,} more characters)"


def plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a table with values as `--json` writes them."""
    return {name: json_value(value) for name, value in row.items()}


_UNSAFE = re.compile(
    "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)


def _encoded(value: Any) -> str:
    """Return JSON in which nothing is raw that a terminal obeys, or that only a model sees (tags of
    Unicode).
    """
    return _UNSAFE.sub(_escaped, msgspec.json.encode(value).decode())


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
