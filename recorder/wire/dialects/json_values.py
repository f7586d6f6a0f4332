"""JSON of any provider, decoded without trust: every accessor takes any value and never raises."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from math import isfinite
from typing import Any, TypeVar

import msgspec

from recorder.model.text import rows

K = TypeVar("K")
V = TypeVar("V")

Object = Mapping[str, Any]

BIGINT = 2**63


def names(words: str) -> frozenset[str]:
    """Return the names of a text, with spaces between."""
    return frozenset(words.split())


NESTING_LIMIT = 256
"""How deep JSON is read. Real payloads have under 30 levels; without a limit, decoders give up by
what is left of the stack, somewhere under 1,000 levels and elsewhere in the program at another one.
"""

SHALLOW = 2 * NESTING_LIMIT
"""Bytes that cannot nest too deep: every level has two brackets. For who asks so often that a call
counts.
"""

_STEPS = {**dict.fromkeys(b"[{", 1), **dict.fromkeys(b"]}", -1)}
_FILLING = bytes(set(range(256)) - set(b'[]{}"'))

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

UNUSUAL = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions of a strict decoder on a payload that only the tolerant one may read."""


def too_deep(data: bytes) -> bool:
    """Return whether JSON nests deeper than `NESTING_LIMIT`; of what is not JSON it may return
    either.
    """
    if len(data) <= SHALLOW or not _has_many_brackets(data):
        return False
    quotes_end_strings = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = b"".join(quotes_end_strings.translate(None, _FILLING).split(b'"')[::2])
    return any(map(NESTING_LIMIT.__lt__, accumulate(map(_STEPS.__getitem__, brackets))))


# bytes from which it is faster to find brackets one by one, and to stop early, than to count all
_LONG = 32 * 1024


def _has_many_brackets(data: bytes) -> bool:
    """Return whether JSON has more opening brackets than it may have levels."""
    if len(data) < _LONG:
        return data.count(b"[") + data.count(b"{") > NESTING_LIMIT
    left = NESTING_LIMIT
    for bracket in (b"[", b"{"):
        at = data.find(bracket)
        while at >= 0:
            left -= 1
            if left < 0:
                return True
            at = data.find(bracket, at + 1)
    return False


def decoded(data: bytes) -> Any:
    """Decode any JSON. Raises `ValueError` for all that cannot be read."""
    if too_deep(data):
        raise ValueError("the JSON nests too deep")
    try:
        return _decode(data)
    except UNUSUAL:
        return _tolerant(data)


def decoded_or_none(data: bytes) -> Any:
    """Decode any JSON; return `None` for all that cannot be read."""
    try:
        return decoded(data)
    except ValueError:
        return None


def _tolerant(data: bytes) -> Any:
    """Decode JSON that only the standard library reads: half an emoji as an escape, NaN, a byte
    order mark.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from error


def member(value: Any, *names: str) -> Any:
    """Return `value`, or its member of that name, and so on; `None` where there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


# The accessors take a value, or an object and the names of the members that lead to the value. Each
# has the loop of `member` by itself: a call of it takes twice as long as the loop (60 ns), and a
# payload is read with ten to thirty.


def object_(value: Any, *names: str) -> Object:
    """Return a value if it is a JSON object, else an empty one."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def array(value: Any, *names: str) -> Sequence[Any]:
    """Return a value if it is a JSON array, else an empty one."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, list) else ()


def objects(value: Any, *names: str) -> list[Object]:
    """Return the objects in a value, if it is an array."""
    return [each for each in array(value, *names) if isinstance(each, dict)]


def objects_in(holders: Iterable[Object], *names: str) -> list[Object]:
    """Return the objects that are in arrays, which are members of several objects."""
    found: list[Object] = []
    for holder in holders:
        for name in names:
            found += objects(holder.get(name))
    return found


def without_nulls(members: Mapping[K, V | None]) -> dict[K, V]:
    """Return the members of an object that have a value."""
    return {name: value for name, value in members.items() if value is not None}


def without(value: Any, names: Collection[str]) -> Any:
    """Return an object without some of its members, and any other value as it is."""
    if not isinstance(value, dict) or not any(name in value for name in names):
        return value
    return {name: each for name, each in value.items() if name not in names}


def text(value: Any, *names: str) -> str | None:
    """Return a value if it is a string."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def word(value: Any, *names: str) -> str | None:
    """Return a value if it is a string, and not an empty one."""
    return text(value, *names) or None


def whole(value: Any, *names: str) -> int | None:
    """Return a value if it is a number without a fraction that fits a bigint; `true` is not a
    number.
    """
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and -BIGINT <= value < BIGINT else None


def fraction(value: Any, *names: str) -> float | None:
    """Return a value if it is a number that fits a double; `true`, NaN and infinity are none."""
    found = member(value, *names)
    if type(found) not in (int, float):
        return None
    try:
        return float(found) if isfinite(found) else None
    except OverflowError:
        return None


def flag(value: Any, *names: str) -> bool | None:
    """Return a value if it is `true` or `false`."""
    found = member(value, *names)
    return found if isinstance(found, bool) else None


Places = Mapping[str, Sequence[Sequence[str]]]
"""By name, where a value may stand: the names of the members that lead there."""


def places(table: str) -> Places:
    """Return the places of a table: in a line a name, and paths, which are names with dots between."""
    found: dict[str, list[list[str]]] = {}
    for name, *paths in map(str.split, rows(table)):
        found.setdefault(name, []).extend(path.split(".") for path in paths)
    return found


def first_at(read: Callable[..., Any], holder: Object, paths: Iterable[Sequence[str]]) -> Any:
    """Return the first value that an accessor reads at one of the paths."""
    for path in paths:
        value = read(holder, *path)
        if value is not None:
            return value
    return None


def as_json(value: Any) -> str:
    """Encode `value`, as it was decoded, as JSON text."""
    try:
        return _encode(value).decode()
    except (ValueError, TypeError, msgspec.MsgspecError, RecursionError):
        return json.dumps(value)


def text_or_json(value: Any) -> str:
    """Return a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else as_json(value)


def request_object(body: bytes) -> Object:
    """Return the JSON object that a request body is, else an empty one."""
    return object_(decoded_or_none(body)) if body else {}
