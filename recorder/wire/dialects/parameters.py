"""The parts of requests that the `parameters` of all dialects read in the same way: sizes, digests, cache marks. Pure.

A digest is made of canonical JSON: the order of members, spaces and escapes do not change it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from recorder.wire.dialects.canonical import canonical
from recorder.wire.dialects.json_values import Object, object_

DIGEST_DIGITS = 16  # hex: 64 bits tell the requests of a log apart


class Sized(NamedTuple):
    """The size of a part of a request and its digest, which is None if the request has no such part."""

    size_bytes: int
    digest: str | None


def sized_texts(texts: Iterable[str], changes: Callable[[str], bool]) -> Sized:
    """Return the size of some texts in UTF-8, and a digest of them in this order.

    A text that a client changes with every request is not in the digest.
    """
    size_bytes, stable = 0, []
    for each in texts:
        text = each.encode("utf-8", "surrogatepass")
        size_bytes += len(text)
        if not changes(each):
            stable.append(text)
    return Sized(size_bytes, _digest(stable) if stable else None)


def sized_tools(tools: Sequence[Any], marks: Collection[str] = ()) -> Sized:
    """Return the size of some tools as JSON without spaces, and their digest, which is without cache marks."""
    if not tools:
        return Sized(0, None)
    unmarked = [without(each, marks) for each in tools]
    encoded = canonical(unmarked)
    size_bytes = len(encoded) if unmarked == tools else len(canonical(tools))
    return Sized(size_bytes, _digest([encoded]))


def request_digest(kind: str, model: str | None, system: Sized, tools: Sized, rest: Mapping[str, Any]) -> str:
    """Return the digest of a request by its parts.

    `kind` tells requests with the same body apart: one for an answer, and one for the number of its tokens. `rest` are
    the members that are in no other part.
    """
    return _digest([canonical([kind, model, system.digest, tools.digest]), canonical(rest)])


def _digest(pieces: Iterable[bytes]) -> str:
    """Return the digest of some bytes; where one piece ends and the next begins counts."""
    digest = sha256()
    for piece in pieces:
        digest.update(len(piece).to_bytes(8, "big"))
        digest.update(piece)
    return digest.hexdigest()[:DIGEST_DIGITS]


def without(value: Any, names: Collection[str]) -> Any:
    """Return an object without some of its members, and any other value as it is."""
    if not isinstance(value, dict) or not any(name in value for name in names):
        return value
    return {name: each for name, each in value.items() if name not in names}


def cache_marks(places: Iterable[Object], names: Collection[str]) -> list[Object]:
    """Return the cache marks, under any of their names, of the objects that may have one."""
    marks: list[Object] = []
    for place in places:
        for name in names:
            mark = place.get(name)
            if isinstance(mark, dict):
                marks.append(mark)
    return marks


def lifetime(values: Iterable[Any]) -> str | None:
    """Return the first life time of a cache: a text, or the `ttl` of a mark."""
    found = (each if isinstance(each, str) else object_(each).get("ttl") for each in values)
    return first_text(found)


def first_text(values: Iterable[Any]) -> str | None:
    """Return the first of some values that is a string and not empty."""
    return next((value for value in values if isinstance(value, str) and value), None)
