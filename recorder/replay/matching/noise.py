"""Requests with the noise taken out: the rest identifies the request.

Rules of this file:

* Noise is put out of sight, never put right: the same comes out for both sides of a comparison, and
  nothing is sent.
* What is noise is data (`recorder.replay.matching.rules`).
* Pure; never raises on what a client sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, NamedTuple

from recorder.replay.matching.client_ids import any_of, finding, is_client_id
from recorder.replay.matching.references import ReferencePath, number_references
from recorder.replay.matching.rules import DEFAULT, IN_TEXTS, How, Kind, Rule, read
from recorder.wire.redaction.bodies import BY_SHAPE, Redactor
from recorder.wire.redaction.headers import NEVER, REDACTED

TEXT_LIMIT = 2**20
"""Characters of a text that rules are tried on: what is longer is a file or an image, and no
client's own words.
"""

TEXTS_LIMIT = 100_000
"""Texts of one body: an agent's longest history is far below it, and a body of 64 MiB could hold
millions.
"""

ID_LIMIT = 200
"""Characters of an id."""

DIRECTORY_CHARACTERS = range(4, 4097)
"""The length of a directory's path: the longest that Linux takes, and no `/` nor `.`."""

NAMES_LIMIT = 64
"""Directories of one request, and client ids: each is looked for in every text."""


class QuietBody(NamedTuple):
    """A body without noise, and what it names itself, numbered in the order in which it does."""

    value: Any
    directories: Mapping[str, int]
    client_ids: Mapping[str, int]


class Rules:
    """Rules of noise, and how far down from `exact` a request may be matched."""

    def __init__(
        self, rules: Iterable[Rule] = DEFAULT, until: How = "noise", redactor: Redactor = BY_SHAPE
    ) -> None:
        """`redactor` takes the secrets out of both requests, as when they are recorded.

        `until` is not `position` unless somebody asks for that: a test that passes with other
        instructions than the recorded ones tests nothing.
        """
        self.rules = tuple(rules)
        self.redactor = redactor
        self.until: How = until
        self._fields = [
            (rule.what.split("."), frozenset(rule.hint.split())) for rule in self._of("fields")
        ]
        self._references = [
            ReferencePath(rule.what.split("."), frozenset(rule.hint.split()), rule.found_by)
            for rule in self._of("references")
        ]
        self._patterns = [
            (rule, re.compile(rule.what)) for rule in self.rules if rule.kind in IN_TEXTS
        ]

    def headers(self, headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the headers that matter for matching and whose values were kept, names in lower
        case, sorted.

        They are for comparisons that a person reads. They do not decide a match: of most, only the
        name was recorded.
        """
        given = ((name.lower(), value) for name, value in headers)
        return sorted(
            (n, v) for n, v in given if not v.startswith(REDACTED) and not self._is("headers", n)
        )

    def is_field(self, name: str) -> bool:
        """Return whether a member of the body is noise."""
        return ([name], frozenset[str]()) in self._fields

    def is_parameter(self, name: str) -> bool:
        """Return whether a query parameter of that name is noise, or a secret."""
        return self._is("parameters", name) or NEVER.search(name.lower()) is not None

    def quiet(self, body: Any, others: Mapping[str, int] | None = None) -> QuietBody:
        """Return a decoded body without noise; the given one may be changed.

        `others` are directories to look for too.
        """
        members = frozenset(body) if isinstance(body, dict) else frozenset()
        for path, beside in self._fields:
            if beside <= members:
                _remove(body, path)
        number_references(body, self._references)
        texts = list(islice(_texts(body), TEXTS_LIMIT + 1))
        if len(texts) > TEXTS_LIMIT:
            return QuietBody(body, {}, {})
        together = "\n".join(texts)
        at_work = [(rule, pattern) for rule, pattern in self._patterns if rule.hint in together]
        directories = _named(texts, _of_kind("directories", at_work), _directory)
        client_ids = _named(texts, _of_kind("handles", at_work), _client_id)
        hush = _NoiseFilter(at_work, {**(others or {}), **directories}, client_ids)
        return QuietBody(hush.value(body) if hush.has_work else body, directories, client_ids)

    def _of(self, kind: Kind) -> list[Rule]:
        return [rule for rule in self.rules if rule.kind == kind]

    def _is(self, kind: Kind, name: str) -> bool:
        return any(fnmatchcase(name, rule.what) for rule in self._of(kind))


DEFAULT_RULES = Rules()


def rules_from(table: Mapping[str, object]) -> Rules:
    """Parse the rules of a `[match]` table. Raises `ValueError` with one sentence."""
    return Rules(*read(table))


_Patterns = Sequence[tuple[Rule, re.Pattern[str]]]


class _NoiseFilter:
    """One body's texts, without noise."""

    def __init__(
        self, patterns: _Patterns, directories: Mapping[str, int], client_ids: Mapping[str, int]
    ) -> None:
        self._texts = _of_kind("texts", patterns)
        self._made = _of_kind("ids", patterns)
        self._names = [
            (names, label, pattern)
            for names, label, pattern in (
                (directories, "directory", _anywhere(directories)),
                (client_ids, "handle", finding(client_ids)),
            )
            if pattern is not None
        ]
        self._ids: dict[str, int] = {}
        self.has_work = bool(self._texts or self._made or self._names)

    def value(self, value: Any) -> Any:
        """Return a JSON value without noise. Keys are visited in order: so are ids numbered."""
        if value.__class__ is str:
            return self._text(value)
        if value.__class__ is dict:
            return {name: self.value(each) for name, each in sorted(value.items())}
        return [self.value(each) for each in value] if value.__class__ is list else value

    def _text(self, text: str) -> str:
        if len(text) > TEXT_LIMIT:
            return text
        if len(text) <= ID_LIMIT and any(
            rule.hint in text and pattern.fullmatch(text) for rule, pattern in self._made
        ):
            return f"<id {self._ids.setdefault(text, len(self._ids))}>"
        return _without(text, sorted(self._found(text), key=lambda each: (each[0], -each[1])))

    def _found(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield the places of noise: each rule sees the text as it was sent, so that none hides it
        from another.
        """
        for names, label, pattern in self._names:
            if any(name in text for name in names):
                yield from (
                    (*match.span(), f"<{label} {names[match[0]]}>")
                    for match in pattern.finditer(text)
                )
        for rule, pattern in self._texts:
            if rule.hint in text:
                yield from ((*match.span(), f"<{rule.name}>") for match in pattern.finditer(text))


def _without(text: str, found: Iterable[tuple[int, int, str]]) -> str:
    """Return a text with labels in place of what was found, in order; what overlaps is one, under
    the label of the first."""
    pieces: list[str] = []
    end = 0
    for start, stop, label in found:
        if start >= end:
            pieces += text[end:start], label
        end = max(end, stop)
    return "".join([*pieces, text[end:]])


def _of_kind(kind: Kind, patterns: _Patterns) -> _Patterns:
    return [each for each in patterns if each[0].kind == kind]


def _anywhere(directories: Mapping[str, int]) -> re.Pattern[str] | None:
    """Return a pattern of the directories, the longest first, where a path may begin and where a
    step of it ends.
    """
    return re.compile(rf"(?<![\w./\\-])(?:{any_of(directories)})(?![\w-])") if directories else None


def _named(
    texts: Sequence[str], patterns: _Patterns, name_of: Callable[[str], str | None]
) -> dict[str, int]:
    """Return the groups of patterns, numbered."""
    found: dict[str, int] = {}
    for text in texts if patterns else ():
        for rule, pattern in patterns:
            for match in pattern.finditer(text) if rule.hint in text else ():
                name = name_of(match[1] or "")
                if name is not None and len(found) < NAMES_LIMIT:
                    found.setdefault(name, len(found))
    return found


def _directory(text: str) -> str | None:
    """Return the path of a directory, if it differs from other texts: not `/`, nor `.`."""
    name = text.strip().rstrip("/\\")
    return name if len(name) in DIRECTORY_CHARACTERS and ("/" in name or "\\" in name) else None


def _client_id(text: str) -> str | None:
    return text if is_client_id(text) else None


def _texts(value: Any) -> Iterator[str]:
    if value.__class__ is str:
        if len(value) <= TEXT_LIMIT:
            yield value
    elif value.__class__ is dict:
        for _, each in sorted(value.items()):
            yield from _texts(each)
    elif value.__class__ is list:
        for each in value:
            yield from _texts(each)


def _remove(value: Any, path: Sequence[str]) -> None:
    """Remove the value at `path`, and an object that is empty without it."""
    step, *rest = path
    if step == "*":
        members = list(value.values()) if isinstance(value, dict) else value
        for each in members if rest and isinstance(members, list) else ():
            _remove(each, rest)
    elif isinstance(value, dict) and step in value:
        if rest:
            _remove(value[step], rest)
        if not rest or value[step] == {}:
            del value[step]
