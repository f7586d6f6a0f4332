"""JSON in one form, whatever clients change when they repeat it: what digests are made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from recorder.wire.dialects.json_values import Object, objects, text, without, word

_NOT_SAID = frozenset({"cache_control", "tool_use_id"})
"""Fields of a part of a message that are not what it says."""


def canonical(value: Any) -> bytes:
    """Encode JSON that is the same whatever the order of its fields."""
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (ValueError, TypeError, msgspec.MsgspecError):
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def canonical_message(role: Any, content: Any) -> bytes:
    """Encode a message. One text may be written as it is, or as the only part of a list."""
    if not isinstance(content, list):
        return canonical([role, content])
    parts = [without(part, _NOT_SAID) for part in objects(content)]
    if len(parts) == len(content) == 1 and parts[0].keys() <= {"type", "text"}:
        return canonical([role, text(parts[0], "text")])
    return canonical([role, parts])


def texts_of(content: Any) -> list[str]:
    """Return the texts of an answer's content; of a part without one, its refusal."""
    if isinstance(content, str):
        return [content]
    texts = []
    for part in objects(content):
        said = part.get("text")
        texts.append(part.get("refusal") if said is None else said)
    return [said for said in texts if isinstance(said, str)]


def decoded_arguments(arguments: Any) -> Any:
    """Return the arguments of a call, given as JSON or as text of it, in whatever order its fields
    are.
    """
    if not isinstance(arguments, str):
        return arguments
    try:
        return msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return arguments


def call_place(name: str | None, arguments: Any) -> str:
    """Return what a call has in a response and where a request repeats it, whatever became of its
    id: its name, and a digest of its arguments, given as JSON or as text of it. Clients write 1 for
    1.0.
    """
    arguments = decoded_arguments(arguments)
    try:
        arguments = _with_integers(arguments)
    except RecursionError:
        pass
    return f"{name or ''} {sha256(canonical(arguments)).hexdigest()[:16]}"


def _with_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_integers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_integers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


# -- the parts of requests: sizes, digests, cache marks

DIGEST_DIGITS = 16  # hex: 64 bits tell the requests of a log apart


class Sized(NamedTuple):
    """The size of a part of a request and its digest, which is None if the request has no such
    part.
    """

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
    """Return the size of some tools as JSON without spaces, and their digest, which is without
    cache marks.
    """
    if not tools:
        return Sized(0, None)
    unmarked = [without(each, marks) for each in tools]
    encoded = canonical(unmarked)
    size_bytes = len(encoded) if unmarked == tools else len(canonical(tools))
    return Sized(size_bytes, _digest([encoded]))


def request_digest(kind: str, model: str | None, system: Sized, tools: Sized, rest: Object) -> str:
    """Return the digest of a request by its parts.

    `kind` tells requests with the same body apart: one for an answer, and one for the number of its
    tokens. `rest` are the members that are in no other part.
    """
    return _digest([canonical([kind, model, system.digest, tools.digest]), canonical(rest)])


def _digest(pieces: Iterable[bytes]) -> str:
    """Return the digest of some bytes; where one piece ends and the next begins counts."""
    digest = sha256()
    for piece in pieces:
        digest.update(len(piece).to_bytes(8, "big"))
        digest.update(piece)
    return digest.hexdigest()[:DIGEST_DIGITS]


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
    found = (word(each) or word(each, "ttl") for each in values)
    return next(filter(None, found), None)
