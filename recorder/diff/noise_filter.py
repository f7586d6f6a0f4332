"""A payload as `events` compares it: without noise, and with a blank for each value that another level owns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any, NamedTuple

from recorder.diff.compared import json_of
from recorder.diff.field_owners import KINDS, REDACTED_BLOCKS, SECRETS, Tree
from recorder.replay.matching.fingerprint import NO_JSON
from recorder.wire.dialects.canonical import canonical

BLANK = "…"
ID = "(an id)"

_FOUND = "sources"  # in the action of a search: what it found, not what it was called with


_HIDING = [name.encode() for name in (*SECRETS, *REDACTED_BLOCKS, "\\u")]
"""What stands in the JSON of every payload that has ciphertext; a name may be written with escapes."""


class FilteredPayload(NamedTuple):
    """A payload without noise; the ids that it had, and the texts where there are blanks, in order of their names."""

    value: Any
    ids: Sequence[str]
    texts: list[str]


class NoiseFilter:
    """A filter for the payloads of events, one at a time."""

    def __init__(self, tree: Tree, *, exact: bool) -> None:
        self._tree = None if exact else tree
        self._known: Sequence[AbstractSet[str]] = ()
        self._reports: Sequence[str] = ()
        self._ids: list[str] = []
        self._texts: list[str] = []
        self._may_hide = True  # whether there may be ciphertext in it

    def apply(
        self, payload: Any, known: Sequence[AbstractSet[str]], reports: Sequence[str], data: bytes | None = None
    ) -> FilteredPayload:
        """Return the payload without noise. `known` are texts that other levels show, `reports` the usage that the
        event reports, `data` is the payload as it was sent: most of it can be taken as it is if there is no secret in
        it."""
        self._may_hide = data is None or any(each in data for each in _HIDING)
        self._known, self._reports, self._ids, self._texts = known, reports, [], []
        return FilteredPayload(self._any(payload, self._tree), self._ids, self._texts)

    def _any(self, value: Any, tree: Any) -> Any:
        if tree is None and not self._may_hide:
            return value
        if value.__class__ is dict:
            return self._object(value, tree)
        if value.__class__ is list:
            below = tree.get("*") if tree.__class__ is dict else None
            return [self._at(each, below) for each in value]
        return value

    def _object(self, value: dict[str, Any], tree: Any) -> dict[str, Any]:
        made: dict[str, Any] = {}
        has_tree = tree.__class__ is dict
        for name, each in sorted(value.items()):
            below = tree.get(name) if has_tree else None
            if name in SECRETS and each.__class__ is str:
                made[name] = _length(each)
            elif below is None and each.__class__ is not dict and each.__class__ is not list:
                made[name] = each
            elif below.__class__ is str and below in KINDS:
                self._noise(made, name, each, below)
            elif below != "echo":
                made[name] = self._at(each, below, name)
        if value.get("type") in REDACTED_BLOCKS and value.get("data").__class__ is str:
            made["data"] = _length(value["data"])
        return made

    def _noise(self, made: dict[str, Any], name: str, value: Any, kind: str) -> None:
        if value.__class__ is dict or value.__class__ is list:
            made[name] = self._any(value, None)
        elif kind == "padding" and value.__class__ is str:
            return
        elif kind == "id" and value.__class__ is str and value:
            self._ids.append(value)
            made[name] = ID
        elif kind in ("time", "made") and value:
            made[name] = f"(a {'time' if kind == 'time' else 'name'})"
        else:
            made[name] = value

    def _at(self, value: Any, below: Any, name: str = "") -> Any:
        """Return a value without noise, or a blank where another level owns and shows it."""
        owner = below.get("") if below.__class__ is dict else below
        if owner == "said":
            return self._unless_known(value, below)
        if owner == "argument" and any(_same(given.get(name), value) for given in self._called()):
            return BLANK
        if owner == "usage" and self._is_reported(value):
            return BLANK
        return self._any(value, below)

    def _unless_known(self, value: Any, below: Any) -> Any:
        """Return a text that no other level shows; or the input of a tool, as an object."""
        if value.__class__ is str and any(value in texts for texts in self._known):
            self._texts.append(value)
            return BLANK
        if value.__class__ is dict and value:
            called = list(self._called())
            if any(_same(given, value) for given in called):
                return BLANK
            arguments = {name: each for name, each in value.items() if name != _FOUND}
            if arguments and any(_same(given, arguments) for given in called):
                return {"(called with)": BLANK, **self._object({_FOUND: value.get(_FOUND)}, None)}
        return self._any(value, below)

    def _called(self) -> Iterator[dict[str, Any]]:
        """Yield the arguments of the calls that this event belongs to, where they are objects."""
        for text in chain.from_iterable(self._known):
            given = json_of(text.encode("utf-8", "surrogatepass")) if text.startswith("{") else None
            if isinstance(given, dict):
                yield given

    def _is_reported(self, value: Any) -> bool:
        """Return whether all of a value is in a report: one of Anthropic's repeats what earlier events reported."""
        if value.__class__ is not dict or not value:
            return False
        reports = [json_of(raw.encode("utf-8", "surrogatepass")) for raw in self._reports]
        return any(report is not NO_JSON and _within(value, report) for report in reports)


def _same(one: Any, other: Any) -> bool:
    return canonical(one) == canonical(other)


def _length(secret: str) -> str:
    return f"({len(secret):,} characters)"


def _within(value: Mapping[str, Any], report: Any) -> bool:
    return isinstance(report, dict) and all(
        each is None or (name in report and _same(report[name], each)) for name, each in value.items()
    )
