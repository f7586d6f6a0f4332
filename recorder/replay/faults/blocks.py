"""The blocks of an event stream, whole, whatever chunks it came in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from typing import NamedTuple

from recorder.wire.sse import Piece, Splitter

Chunks = AsyncGenerator[bytes, None]


class Block(NamedTuple):
    """What stands between two blank lines of an event stream; `event` counts the events from 1, comments none."""

    raw: bytes
    event: int | None


async def blocks(chunks: Chunks) -> AsyncIterator[Block]:
    """The blocks of an event stream, whole, with all that came when it breaks off."""
    splitter, number = Splitter(), 0
    parts: list[bytes] = []

    def told(pieces: Iterable[Piece]) -> Iterator[Block]:
        nonlocal number
        for piece in pieces:
            parts.append(piece.raw)
            if piece.kind == "part" and not piece.complete:
                continue
            number += piece.kind in ("frame", "part")
            yield Block(b"".join(parts), number if piece.kind in ("frame", "part") else None)
            parts.clear()

    failure: Exception | None = None
    try:
        async for chunk in chunks:
            for block in told(splitter.feed(chunk)):
                yield block
    except Exception as error:  # of whatever is wrapped
        failure = error
    for block in told(splitter.close()):
        yield block
    if parts:
        yield Block(b"".join(parts), None)
    if failure is not None:
        raise failure
