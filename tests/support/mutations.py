"""Streams with one field changed: taken away, made null, of another kind, or with another name."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from recorder.wire.sse import Splitter, parse

Path = tuple[str | int, ...]
How = Literal["gone", "null", "another kind", "another name"]


NAMING = ("id", "item_id", "call_id", "name", "type", "object", "role")


class Change(NamedTuple):
    """A change to one field of one event."""

    event: int
    path: Path
    how: How

    def __str__(self) -> str:
        return f"event {self.event}, {'.'.join(map(str, self.path))} {self.how}"


def blocks_of(raw: bytes) -> list[bytes]:
    """Return the blocks of a stream, with their terminators."""
    splitter = Splitter()
    return [piece.raw for piece in (*splitter.feed(raw), *splitter.close())]


def changes(blocks: Sequence[bytes]) -> Iterator[Change]:
    """Yield every change to every field of every event."""
    for number, block in enumerate(blocks):
        payload = payload_of(block)
        for path, value in _fields(payload):
            if isinstance(path[-1], str):
                yield Change(number, path, "gone")
            if value is not None:
                yield Change(number, path, "null")
                yield Change(number, path, "another kind")
            if isinstance(value, str) and path[-1] in NAMING:
                yield Change(number, path, "another name")


def changed(blocks: Sequence[bytes], change: Change) -> bytes:
    """Return the stream with a change made to it."""
    payload = copy.deepcopy(payload_of(blocks[change.event]))
    _change(payload, change)
    data = parse(blocks[change.event]).data
    assert data is not None
    block = blocks[change.event].replace(data, json.dumps(payload).encode())
    return b"".join((*blocks[: change.event], block, *blocks[change.event + 1 :]))


def payload_of(block: bytes) -> Any:
    """Return the JSON of a block whose data stands on one line, else None."""
    data = parse(block).data
    if data is None or data not in block:
        return None
    try:
        return json.loads(data)
    except ValueError:
        return None


def _fields(value: Any, path: Path = ()) -> Iterable[tuple[Path, Any]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in children:
        yield (*path, name), child
        yield from _fields(child, (*path, name))


def _change(payload: Any, change: Change) -> None:
    *way, last = change.path
    for step in way:
        payload = payload[step]
    if change.how == "gone":
        del payload[last]
    elif change.how == "another name":
        payload[last] += "x"
    else:
        payload[last] = None if change.how == "null" else (7 if isinstance(payload[last], str) else "x")
