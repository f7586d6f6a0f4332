"""Secrets whose place in a request says what they are: the credentials among its parameters. Pure.

    {"tools": [{"type": "mcp", "authorization": "…", "headers": {"X-Key": "…"}, "server_url": "https://…?key=…"}]}

Rules of this file:

* The dialects declare the places (`RequestPlaces`): those of credentials, and those that a model
  reads or writes. The places of all dialects count in every body, at any depth: gateways take
  fields of other APIs, clouds, batches and WebSocket messages wrap a request, and responses repeat
  it.
* Everything else is a parameter. There a name says what is a secret (`marks`), headers are those of
  HTTP (`headers`), and of a URL only known parameters are kept, no user and no password.
* What a model reads is not looked at: a user who writes `"authorization": "…"` in a message keeps
  it.
* A body is read as far as it goes: cut off, in lines, after `data: `. Never raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import chain, repeat
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

import msgspec

from recorder.wire.dialects import DIALECTS
from recorder.wire.redaction.headers import is_harmless_parameter, keeps
from recorder.wire.redaction.marks import is_label, is_secret
from recorder.wire.redaction.shapes import Hit

Path = Sequence[str]  # names from the outside in, `*` for any, also for each element of a list

ANY = "*"

_decode = msgspec.json.Decoder().decode
_SCHEME = 40  # characters of a text in which it begins as a URL
_NAMES = 8  # of the containers around a value: no path has more

_STRING = rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)("?)(\s*:)?'
_TOKEN = re.compile(_STRING + rb"|[{}\[\]]", re.DOTALL)
_TOKEN_OR_NUMBER = re.compile(_STRING + rb"|[{}\[\]]|-?[0-9][0-9.eE+-]*+", re.DOTALL)
_TO_BRACKET = re.compile(
    rb'[^"{}\[\]]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"?[^"{}\[\]]*+)*+([{}\[\]])?', re.DOTALL
)

_BEGINS = re.compile(rb"[{\[]")
_REDACTED = re.compile(
    rb"REDACTED(?: \(\d+ bytes\)|-[a-z-]{1,30}-[0-9a-f]{6})?|<REDACTED [^<>]{1,60}>"
)
_HEADERS = re.compile(r"(?:.*[-_])?headers|.*Headers")
_URL = re.compile(rb"\s{0,8}[A-Za-z][A-Za-z0-9+.-]{0,20}:(?:\\?/){2}(?:([^/\\?#\s]*)@)?[^?#]*+")
_CUT_USERINFO = re.compile(rb"[^/\\?#:\s]*:[^/\\?#\s]*\Z")
_ARGUMENT = re.compile(rb"(?=-|[A-Za-z_]\w*=)-{0,2}([A-Za-z_][\w.-]{0,80}+)(?:=(.*)|)\Z", re.DOTALL)
_PARAMETER = re.compile(rb"[?&;]([^=&;#]*)=([^&;#]*)|[?&;#]([^&;#]+)")

_FORM = re.compile(
    rb"[\w.\[\]%+*~-]{1,200}+=[^&\s\"{]*+(?:&[\w.\[\]%+*~-]{1,200}+=[^&\s\"{]*+)*+\s?"
)
_FORM_FIELD = re.compile(rb"([^=&\s]+)=([^&\s]*)")
_PART = re.compile(
    rb'name="([^"\r\n]{1,200})"[^\r\n]{0,200}\r?\n(?:[^\r\n]{1,200}\r?\n){0,8}\r?\n([^\r\n]{1,4096})\r?\n--'
)


class _Reading(Enum):
    """What the texts of a container are."""

    PARAMETERS = auto()
    OF_MODEL = auto()
    SECRET = auto()
    CHOSEN = auto()  # all of it, numbers too
    HEADERS = auto()  # by name, or a list
    HEADER = auto()  # a pair, or an object with a name and a value


class _Level(NamedTuple):
    """An open container."""

    is_object: bool
    rule: _Reading


_Index = Mapping[str, Sequence[Sequence[str]]]


def _by_last_name(paths: Iterable[str]) -> _Index:
    """Index paths by their last name: the names before it, from the inside out."""
    index: dict[str, list[list[str]]] = {}
    for path in paths:
        *before, last = path.split(".")
        index.setdefault(last, []).append(before[::-1])
    return index


_CREDENTIALS = _by_last_name(
    chain.from_iterable(dialect.places.credentials for dialect in DIALECTS)
)
_OF_MODEL = _by_last_name(chain.from_iterable(dialect.places.of_model for dialect in DIALECTS))


def _is_at(index: _Index, names: Sequence[str], name: str) -> bool:
    """Return whether one of the paths ends with that name, and with the names of the containers
    around it.
    """
    return name in index and any(names[: -len(before) - 1 : -1] == before for before in index[name])


def find_placed(text: bytes, chosen: Sequence[Path], body: bytes) -> Iterator[Hit]:
    """Yield the secrets of a text by their places; `chosen` are further ones, from the root.

    The text is a body in which escapes are undone (`Unescaped`), which only the body's own bytes
    show to be JSON.
    """
    if text.startswith(b"--"):
        yield from _in_fields(text, _PART.finditer(text), chosen)
    elif text[:1] not in (b"{", b"[", b"") and _FORM.fullmatch(text):
        yield from _in_fields(text, _FORM_FIELD.finditer(text), chosen)
        return
    if chosen or _is_worth_a_walk(body):
        yield from _Walk(text, chosen).hits()


def _in_fields(
    text: bytes, fields: Iterator[re.Match[bytes]], chosen: Sequence[Path]
) -> Iterator[Hit]:
    names = {".".join(path) for path in chosen}
    for match in fields:
        name = unquote_plus(match[1].decode("utf-8", "replace"))
        if not match[2] or _REDACTED.fullmatch(match[2]):
            continue
        if name in names:
            yield Hit(*match.span(2), "field")
        elif is_secret(name):
            yield Hit(*match.span(2), "credential")


# A decoder in C and a look at the names of the parameters take 0.8 ns a byte of an agent's request,
# a walk 4 ns or more; few requests need one. What is not JSON, or not all of it, is walked.
def _is_worth_a_walk(text: bytes) -> bool:
    """Return whether a name among the parameters of a body, or a URL, may say that something is
    secret.
    """
    begins = _BEGINS.search(text)  # after the `data: ` of an event
    try:
        value = _decode(text[begins.start() :] if begins else text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return b'"' in text
    waiting: list[tuple[Any, list[str]]] = [(value, [""])]  # and the names that lead there
    while waiting:
        inside, names = waiting.pop()
        for name, each in _members(inside):
            if isinstance(each, str):
                if is_secret(name) or _is_at(_CREDENTIALS, names, name) or _may_say_more(each):
                    return True
            elif isinstance(each, dict | list) and not _is_at(_OF_MODEL, names, name):
                if _HEADERS.fullmatch(name) or is_secret(name):
                    return True
                waiting.append((each, [*names[-_NAMES:], name]))
    return False


def _may_say_more(text: str) -> bool:
    """Return whether a text may be a URL or an argument of a command, and so have a secret in it."""
    return text[:1] == "-" or "=" in text or "://" in text[:_SCHEME]


def _members(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        return value.items()
    return zip(repeat(ANY), value, strict=False) if isinstance(value, list) else ()


class _Walk:
    """One way through the tokens of a body."""

    def __init__(self, text: bytes, chosen: Sequence[Path]) -> None:
        self._text, self._chosen = text, chosen
        self._token = _TOKEN_OR_NUMBER if chosen else _TOKEN
        self._levels: list[_Level] = []
        self._names: list[str] = []  # of the open containers, the root's is empty
        self._name = ""  # of the next value, in an object
        self._header = ""  # the name in a pair
        self._is_awaited = False  # the value of an argument, which is the next one

    def hits(self) -> Iterator[Hit]:
        at = 0
        while match := self._token.search(self._text, at):
            at = match.end()
            first = self._text[match.start()]
            if first in b"{[":
                at = self._open(first == ord("{"), at)
            elif first in b"}]":
                self._close()
            elif first != ord('"'):
                yield from self._number(match)
            elif match[3] is not None:
                self._name = match[1].decode("utf-8", "replace")
            elif match[1] and self._levels:
                end = match.end(1) if match[2] else len(self._text)
                yield from self._string(match.start(1), end)

    def _open(self, is_object: bool, at: int) -> int:
        """Open a container; returns where to read on: after what only a model reads."""
        rule = self._rule_inside() if self._levels else _Reading.PARAMETERS
        if rule is _Reading.OF_MODEL and not self._chosen:
            return _end_of(self._text, at)
        # deeper than any API nests; a hostile body stays flat from there
        if len(self._levels) < 2**16:
            self._names.append(self._own_name() if self._levels else "")
            self._levels.append(_Level(is_object, rule))
        self._name = self._header = ""
        self._is_awaited = False
        return at

    def _close(self) -> None:
        if self._levels:
            self._levels.pop()
            self._names.pop()
        self._name = ""

    def _own_name(self) -> str:
        return self._name if self._levels[-1].is_object else ANY

    def _rule_inside(self) -> _Reading:
        """Return the rule of a container that begins here."""
        level, name = self._levels[-1], self._own_name()
        if self._is_chosen(name):
            return _Reading.CHOSEN
        if level.rule is _Reading.HEADERS:
            if not level.is_object:
                return _Reading.HEADER
            return _Reading.PARAMETERS if keeps(name) else _Reading.SECRET
        if level.rule is not _Reading.PARAMETERS:
            return level.rule
        if _is_at(_OF_MODEL, self._names, name):
            return _Reading.OF_MODEL
        if _HEADERS.fullmatch(name):
            return _Reading.HEADERS
        is_credential = _is_at(_CREDENTIALS, self._names, name) or is_secret(name)
        return _Reading.SECRET if is_credential and not _is_holder(name) else _Reading.PARAMETERS

    def _is_chosen(self, name: str) -> bool:
        """Return whether a path of the settings leads to the value of that name."""
        depth = len(self._names)  # the root has no name, and this one is not among them
        long_enough = (path for path in self._chosen if len(path) == depth)
        return any(all(map(_is_step, path, [*self._names[1:], name])) for path in long_enough)

    def _number(self, match: re.Match[bytes]) -> Iterator[Hit]:
        level = self._levels[-1] if self._levels else None
        if level is not None and (
            level.rule is _Reading.CHOSEN or self._is_chosen(self._own_name())
        ):
            yield Hit(*match.span(), "field")

    def _string(self, start: int, end: int) -> Iterator[Hit]:
        """Yield what is secret in a text that is a value."""
        level, name = self._levels[-1], self._own_name()
        if _REDACTED.fullmatch(self._text, start, end):
            return
        if level.rule is _Reading.CHOSEN or self._is_chosen(name):
            yield Hit(start, end, "field")
        elif level.rule is _Reading.SECRET:
            if not is_label(name):
                yield Hit(start, end, "credential")
        elif level.rule is _Reading.HEADERS or level.rule is _Reading.HEADER:
            yield from self._of_header(level, name, start, end)
        elif level.rule is _Reading.PARAMETERS and not _is_at(_OF_MODEL, self._names, name):
            yield from self._parameter(name, start, end)

    def _of_header(self, level: _Level, name: str, start: int, end: int) -> Iterator[Hit]:
        """Yield the value of a header unless its name is one of those that are kept."""
        if level.rule is _Reading.HEADERS and not level.is_object:  # "X-Api-Key: …"
            name, _, _ = (
                self._text[start:end].partition(b":")[0].decode("utf-8", "replace").partition("=")
            )
            start = min(end, start + len(name) + 1)
        elif level.rule is _Reading.HEADER and (
            name in ("name", "key") if level.is_object else not self._header
        ):
            self._header = self._text[start:end].decode("utf-8", "replace")
            return
        elif level.rule is _Reading.HEADER:
            name = self._header
        if start < end and not keeps(name):
            yield Hit(start, end, "header")

    def _parameter(self, name: str, start: int, end: int) -> Iterator[Hit]:
        is_awaited, self._is_awaited = self._is_awaited, False
        if _is_at(_CREDENTIALS, self._names, name) or is_secret(name):
            yield Hit(start, end, "credential")
        elif (url := _URL.match(self._text, start, end)) is not None:
            yield from _in_url(self._text, url, end)
        elif (argument := _ARGUMENT.match(self._text, start, end)) is not None:
            yield from self._argument(argument)
        elif is_awaited:
            yield Hit(start, end, "credential")

    def _argument(self, argument: re.Match[bytes]) -> Iterator[Hit]:
        """Yield the value of an argument of a command, or await it: `--api-key=…`, `--api-key`,
        `ACME_KEY=…`.
        """
        named = is_secret(argument[1].decode())
        if named and argument[2]:
            yield Hit(*argument.span(2), "credential")
        self._is_awaited = named and not argument[2] and not self._levels[-1].is_object


def _is_step(step: str, name: str) -> bool:
    return step in (ANY, name)


def _is_holder(name: str) -> bool:
    """Return whether a value of that name says how to log in: what is secret in it has names of its
    own.
    """
    return name.lower().endswith(("auth", "authentication", "authconfig", "auth_config"))


def _in_url(text: bytes, url: re.Match[bytes], end: int) -> Iterator[Hit]:
    """Yield the user and password of a URL, its fragment, and the values of parameters that are not
    known.
    """
    if url[1] and not _REDACTED.fullmatch(url[1]):
        yield Hit(*url.span(1), "userinfo")
    elif end == len(text) and (half := _CUT_USERINFO.search(text, url.start(), end)):
        yield Hit(*half.span(), "cut")
    for match in _PARAMETER.finditer(text, url.end(), end):
        place = 3 if match[3] is not None else 2
        if not match[place] or _REDACTED.fullmatch(match[place]):
            continue
        if place == 3 or not is_harmless_parameter(
            match[1].decode("latin-1"), match[2].decode("latin-1")
        ):
            yield Hit(*match.span(place), "parameter")


def _end_of(text: bytes, at: int) -> int:
    """Return where the container ends that is open here."""
    depth = 1
    while depth:
        match = _TO_BRACKET.match(text, at)
        if match is None or match[1] is None:
            return len(text)
        depth += 1 if match[1] in b"{[" else -1
        at = match.end()
    return at
