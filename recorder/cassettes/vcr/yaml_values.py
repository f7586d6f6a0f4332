"""YAML as plain values: mappings, lists, text and null. Pure; no object is ever created, whatever
tag a value has.

A scalar is its text, also where YAML would guess a number or a date. The bytes of `!!binary` are
text, too: those that are not UTF-8 as surrogates, which no YAML can hold otherwise. `as_bytes`
gives all of them back. With `is_typed` a plain scalar that is a number or a boolean of JSON has its
value: for bodies that are stored as values.

An alias counts as the node that it repeats, so that a short file cannot expand to a long one; an
alias of a node that contains it is an error.

Values are built from the parser's events: libyaml parses, and a document over a bound is refused in
the middle, before more is built of it. PyYAML's `CBaseLoader` builds a node for each value first,
and here the bounds would have to be checked on those. With many small values that takes about four
times as long (1,000 interactions with 30 headers each: 1.4 s for 0.4 s) and more memory; with few
large bodies it is as fast.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

# bytes: half a second with libyaml, half a minute without, and several times that in memory
YAML_LIMIT = 64 * 2**20
# ten thousand interactions with thirty headers; each costs 2 µs, and 100 bytes of memory
VALUES_LIMIT = 10**6
TAGS_LIMIT = 1000  # declared: libyaml compares each with all before it
DEPTH_LIMIT = 100  # a cassette has 8, and what others keep beside it has its own

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STANDARD = "tag:yaml.org,2002:"
_BINARY = frozenset({f"{_STANDARD}binary", "!binary"})  # Ruby writes the second
_NULL = f"{_STANDARD}null"
_PLAIN_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_PLAIN_BOOLEANS = frozenset({"true", "false"})
# A number of JSON, with as many digits as a double can have.
_JSON_NUMBER = re.compile(
    r"-?(?:0|[1-9]\d{0,307})(?:\.\d{1,400})?(?:[eE][+-]?\d{1,3})?", re.ASCII
)  # of a double's range
_TAGS = _BINARY | {
    "!",
    *(
        f"{_STANDARD}{name}"
        for name in ("str", "null", "int", "float", "bool", "timestamp", "map", "seq")
    ),
    # of vcrpy
    *(
        f"{_STANDARD}python/{name}"
        for name in ("str", "unicode", "tuple", "object/new:_io.BytesIO")
    ),
}


def read_yaml(data: bytes, *, is_typed: bool = False) -> Any:
    """Return the value of the one document. Raises `ValueError` with the line."""
    if data.count(b"%TAG ") > TAGS_LIMIT:
        raise ValueError(f"it declares over {TAGS_LIMIT} tags, and a cassette needs none")
    reader = _Reader(is_typed=is_typed)
    for event in _events(data):
        try:
            reader.take(event)
        except ValueError as error:
            raise ValueError(f"{_line(event.start_mark)}{error}") from error
    return reader.value()


def as_bytes(text: str) -> bytes:
    """Encode a text with its surrogates.

    Raises `ValueError` for half an emoji, which is not text.
    """
    return text.encode("utf-8", "surrogateescape")


def as_text(data: bytes) -> str:
    """Decode bytes to a text that `as_bytes` gives back."""
    return data.decode("utf-8", "surrogateescape")


def _events(data: bytes) -> Iterator[yaml.Event]:
    try:
        yield from yaml.parse(data, Loader=_LOADER)
    except (yaml.YAMLError, OverflowError) as error:
        raise ValueError(_message(error, data)) from error


class _Size(NamedTuple):
    """The size of a value: its values, and the characters of its texts."""

    values: int = 0
    characters: int = 0


class _Open:
    """A list or mapping whose end has not come yet."""

    def __init__(
        self, value: list[Any] | dict[str, Any], anchor: str | None, before: _Size
    ) -> None:
        self.value, self.anchor, self.before = value, anchor, before
        self._key: str | None = None

    def put(self, value: Any) -> None:
        if isinstance(self.value, list):
            self.value.append(value)
        elif self._key is not None:
            self.value[self._key], self._key = value, None
        elif isinstance(value, str):
            self._key = value
        else:
            raise ValueError("a key must be a text")


class _Reader:
    """Builds the value as events come, without recursion. Raises `ValueError`."""

    def __init__(self, *, is_typed: bool) -> None:
        self._scalar = _typed_scalar if is_typed else _scalar
        self._root: list[Any] = []
        self._open: list[_Open] = []
        self._anchors: dict[str | None, tuple[Any, _Size]] = {}
        self._size = _Size()

    def value(self) -> Any:
        if not self._root:
            raise ValueError("there is nothing in it")
        return self._root[0]

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            before = self._size
            self._count(_Size(1, len(event.value)))
            self._put(self._scalar(event), event.anchor, before)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._begin(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            ended = self._open.pop()
            self._put(ended.value, ended.anchor, ended.before)
        elif isinstance(event, yaml.AliasEvent):
            self._repeat(event.anchor)
        elif isinstance(event, yaml.DocumentStartEvent) and self._root:
            raise ValueError("a second document begins, and a cassette is one")

    def _begin(self, event: yaml.CollectionStartEvent) -> None:
        _check_tag(event.tag)
        if len(self._open) >= DEPTH_LIMIT:
            raise ValueError(f"it is nested deeper than {DEPTH_LIMIT}")
        value: list[Any] | dict[str, Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._open.append(_Open(value, event.anchor, self._size))
        self._count(_Size(1))

    def _repeat(self, anchor: str | None) -> None:
        if anchor not in self._anchors:
            raise ValueError("an alias stands for nothing that is complete before it")
        value, size = self._anchors[anchor]
        self._count(size)
        if self._size.characters > YAML_LIMIT:
            raise ValueError(f"with its aliases written out it is over {YAML_LIMIT >> 20} MiB")
        self._put(value, None, self._size)

    def _count(self, size: _Size) -> None:
        self._size = _Size(self._size.values + size.values, self._size.characters + size.characters)
        if self._size.values > VALUES_LIMIT:
            raise ValueError(f"it has over {VALUES_LIMIT:,} values, far more than any cassette")

    def _put(self, value: Any, anchor: str | None, before: _Size) -> None:
        if anchor is not None:
            size = _Size(
                self._size.values - before.values, self._size.characters - before.characters
            )
            self._anchors[anchor] = value, size
        if self._open:
            self._open[-1].put(value)
        else:
            self._root.append(value)


def _scalar(event: yaml.ScalarEvent) -> str | None:
    _check_tag(event.tag)
    if event.tag in _BINARY:
        return _text_of_base64(event.value)
    is_null = event.tag == _NULL or (
        event.tag is None and not event.style and event.value in _PLAIN_NULLS
    )
    return None if is_null else event.value


def _typed_scalar(event: yaml.ScalarEvent) -> str | float | bool | None:
    text = _scalar(event)
    if text is None or event.tag is not None or event.style:
        return text
    if text in _PLAIN_BOOLEANS:
        return text == "true"
    if not _JSON_NUMBER.fullmatch(text):
        return text
    try:
        return int(text)
    except ValueError:
        return float(text)


def _check_tag(tag: str | None) -> None:
    if tag is not None and tag not in _TAGS:
        raise ValueError(
            f"the tag {tag[:80]} is not read, because a cassette is data and no program"
        )


def _text_of_base64(written: str) -> str:
    try:
        return as_text(b64decode("".join(written.split()), validate=True))
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"the base64 is none: {error}") from error


def _message(error: Exception, data: bytes) -> str:
    """Return the message of a parser's error, with its line."""
    if isinstance(error, yaml.MarkedYAMLError):
        problem = error.problem or error.context or "it cannot be read"
        return f"{_line(error.problem_mark or error.context_mark)}{problem}"
    if isinstance(error, yaml.reader.ReaderError):
        above = data[: error.position].count(b"\n")
        return f"line {above + 1}: {error.reason}"
    return " ".join(str(error).split())


def _line(mark: Any) -> str:
    return f"line {mark.line + 1}: " if mark else ""
