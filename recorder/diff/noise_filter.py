"""A payload as `events` compares it: without noise, and with a blank for each value that another
level owns.

Ownership of the fields of a response by levels, so that one change is reported once.

`answer` and `tools` own the final texts, names and arguments of the items of a response, wherever
the stream repeats them: in deltas, at their end, in the item, in the whole response. `usage` owns
the counts. `events` sees all the rest: these fields are blank at `events`, but only if they have
the value that the other level shows. A `.done` that contradicts its item is an event that differs.

Noise are fields that differ between two answers which are the same otherwise: each dialect lists
its own, with reasons. A path is where the API itself puts the field: a field of the same name in
the arguments of a call, in the text of a user or in a list of models is not noise. The noise of
requests is in `recorder.replay.matching.noise`; what a response echoes of it is noise here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any, Literal, NamedTuple, get_args

from recorder.diff.compared import json_of
from recorder.replay.matching.fingerprint import NO_JSON
from recorder.replay.matching.noise import Rules
from recorder.wire.dialects import DIALECTS, by_name
from recorder.wire.dialects.canonical import canonical
from recorder.wire.dialects.dialect import Noise

Owner = Literal["said", "argument", "usage", "echo"]
"""Texts and calls; members of what a tool of the provider is called with; counts; what repeats a
request's noise.
"""

Tree = Mapping[str, Any]
"""Steps of paths, `*` for any, to an `Owner`, a kind of noise or a further tree."""

KINDS: frozenset[str] = frozenset(get_args(Noise))

SECRETS: frozenset[str] = frozenset().union(*(dialect.fields.ciphertexts for dialect in DIALECTS))
"""Ciphertext, wherever a field has such a name: only its length counts, whatever is asked for."""

REDACTED_BLOCKS = tuple(filter(None, (dialect.fields.ciphertext_block for dialect in DIALECTS)))
"""The types of blocks whose `data` is ciphertext. A type that was sent may be a list, which no set
takes.
"""


def noise(api: str, *, is_stream: bool = True) -> Iterator[tuple[str, Noise]]:
    """Yield the paths of an API's noise.

    Documents of an unknown API have none: a list of models is one.
    """
    if is_stream or api != "other":
        for field in by_name(api).fields.noise:
            for path in field.paths:
                yield path, field.kind


def in_usage(api: str) -> dict[str, Noise]:
    """Return the names that are noise in a report of tokens."""
    return {
        path.removeprefix("usage."): kind for path, kind in noise(api) if path.startswith("usage.")
    }


def owned(api: str, rules: Rules, *, is_stream: bool = True) -> Tree:
    """Return the fields of an API's payloads that `events` does not own, and those that are noise."""
    tree: dict[str, Any] = {}
    fields = by_name(api).fields
    for path, kind in noise(api, is_stream=is_stream):
        _plant(tree, (path,), kind)
    _plant(tree, fields.texts, "said")
    _plant(tree, fields.arguments, "argument")
    _plant(tree, fields.usage, "usage")
    # of requests of any shape
    asked = [rule for rule in rules.rules if rule.kind == "fields" and not rule.hint]
    _plant(tree, (f"response.{rule.what}" for rule in asked), "echo")
    return tree


def _plant(tree: dict[str, Any], paths: Iterable[str], owner: Owner | Noise) -> None:
    for path in paths:
        *steps, last = path.split(".")
        branch: Any = tree
        for step in steps:
            below = branch.setdefault(step, {})
            if not isinstance(below, dict):  # a text, or a list of parts that have texts
                below = branch[step] = {"": below}
            branch = below
        if isinstance(branch.get(last), dict):
            branch[last][""] = owner
        else:
            branch[last] = owner


BLANK = "…"
ID = "(an id)"

_FOUND = "sources"  # in the action of a search: what it found, not what it was called with


_HIDING = [name.encode() for name in (*SECRETS, *REDACTED_BLOCKS, "\\u")]
"""What stands in the JSON of every payload that has ciphertext; a name may be written with escapes.
"""


class FilteredPayload(NamedTuple):
    """A payload without noise; the ids that it had, and the texts where there are blanks, in order
    of their names.
    """

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
        self,
        payload: Any,
        known: Sequence[AbstractSet[str]],
        reports: Sequence[str],
        data: bytes | None = None,
    ) -> FilteredPayload:
        """Return the payload without noise.

        `known` are texts that other levels show, `reports` the usage that the event reports, `data`
        is the payload as it was sent: most of it can be taken as it is if there is no secret in it.
        """
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
        if owner == "id" and value.__class__ is str and value:  # in a list of ids
            self._ids.append(value)
            return ID
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
        """Return whether all of a value is in a report: one of Anthropic's repeats what earlier
        events reported.
        """
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
        each is None or (name in report and _same(report[name], each))
        for name, each in value.items()
    )
