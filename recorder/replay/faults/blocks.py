"""The blocks of an event stream, whole, whatever chunks it came in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import NamedTuple

from recorder.wire.sse import Piece, Splitter

Chunks = AsyncGenerator[bytes, None]


class EventBlock(NamedTuple):
    """The bytes between two blank lines of an event stream; `event` counts the events from 1, comments none."""

    raw: bytes
    event: int | None


async def blocks(chunks: AsyncIterable[bytes]) -> AsyncIterator[EventBlock]:
    """Yield the blocks of an event stream, whole, with all that arrived when it breaks off."""
    splitter, number = Splitter(), 0
    parts: list[bytes] = []

    def completed(pieces: Iterable[Piece]) -> Iterator[EventBlock]:
        nonlocal number
        for piece in pieces:
            parts.append(piece.raw)
            if piece.kind == "part" and not piece.complete:
                continue
            number += piece.kind in ("frame", "part")
            yield EventBlock(b"".join(parts), number if piece.kind in ("frame", "part") else None)
            parts.clear()

    failure: Exception | None = None
    try:
        async for chunk in chunks:
            for block in completed(splitter.feed(chunk)):
                yield block
    except Exception as error:  # of whatever is wrapped
        failure = error
    for block in completed(splitter.close()):
        yield block
    if parts:
        yield EventBlock(b"".join(parts), None)
    if failure is not None:
        raise failure
