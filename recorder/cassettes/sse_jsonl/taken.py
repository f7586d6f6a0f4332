"""Exchanges without parts of their responses: what is private to a project, and credentials that a response repeats.

The log has responses as they came. A cassette is for a repository: a server that repeats the parameters of a request,
an MCP server's `authorization` among them, would bring into it what was taken out of the request. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import msgspec

from recorder.cassettes.sse_jsonl.steps import Sums, restore, shorten
from recorder.model.events import BODY_KINDS, Event
from recorder.wire.dialects import Keys
from recorder.wire.redaction.bodies import placed_secrets

Reads = list[tuple[int, int]]


class TakenSpan(NamedTuple):
    """A part of a response body, and what stands in its place."""

    start: int
    stop: int
    instead: bytes


def repeated_credentials(events: Iterable[Event]) -> list[TakenSpan]:
    """Return where a response has credentials, by their places among the parameters that it repeats."""
    spans: list[TakenSpan] = []
    size = 0
    for text in _texts(events):
        for start, stop, instead in placed_secrets(text):
            spans.append(TakenSpan(size + start, size + stop, instead))
        size += len(text)
    return spans


def _texts(events: Iterable[Event]) -> Iterator[bytes]:
    """Yield frames, and what was cut at any place as one."""
    cut: list[bytes] = []
    for event in events:
        if event.kind == "frame":
            yield b"".join(cut)
            yield event.raw
            cut = []
        elif event.kind in BODY_KINDS:
            cut.append(event.raw)
    yield b"".join(cut)


def without_spans(
    events: Sequence[Event], spans: Sequence[TakenSpan], keys_of: Callable[[str, bytes], Keys]
) -> list[Event]:
    """Return the events without those spans of the body; sums and sizes of reads are those of the bytes left."""
    pieces = [event.raw for event in events if event.kind in BODY_KINDS]
    left = iter(replaced(pieces, spans))
    sizes = iter(_sizes(events, b"".join(pieces), spans))
    before, after = Sums(), Sums()
    made: list[Event] = []
    for event in events:
        changed = event
        if event.kind in BODY_KINDS:
            raw = next(left)
            if raw != event.raw:
                keys = msgspec.structs.asdict(keys_of(event.kind, raw))
                changed = msgspec.structs.replace(event, raw=raw, **keys)
        elif event.kind == "reads":
            reads = [(t_ns, next(sizes)) for t_ns, _ in msgspec.json.decode(event.raw, type=Reads)]
            changed = msgspec.structs.replace(event, raw=msgspec.json.encode(reads))
        elif event.kind == "end":
            raw = restore("end", shorten("end", event.raw, before.usual_end()), after.usual_end())
            changed = msgspec.structs.replace(event, raw=raw)
        before.add(event)
        after.add(changed)
        made.append(changed)
    return made


def _sizes(events: Sequence[Event], body: bytes, spans: Sequence[TakenSpan]) -> list[int]:
    """Return the size of each read without the spans. Reads of a body that came coded are not changed."""
    sizes: list[int] = []
    for event in events:
        if event.kind == "reads":
            sizes += [size for _, size in msgspec.json.decode(event.raw, type=Reads)]
    if sum(sizes) != len(body):
        return sizes
    ends = accumulate(sizes, initial=0)
    return [len(piece) for piece in replaced([body[start:stop] for start, stop in pairwise(ends)], spans)]


def replaced(pieces: Sequence[bytes], spans: Sequence[TakenSpan]) -> list[bytes]:
    """Return the pieces of a body with other bytes in place of the spans, each in the piece in which its span ends."""
    ends: list[int] = []
    for piece in pieces:
        ends.append((ends[-1] if ends else 0) + len(piece))
    whole, made, at = b"".join(pieces), [], 0
    waiting = iter([*spans, TakenSpan(len(whole) + 1, len(whole) + 1, b"")])
    start, stop, instead = next(waiting)
    for end in ends:
        piece = b""
        while stop <= end:
            piece, at = piece + whole[at:start] + instead, stop
            start, stop, instead = next(waiting)
        upto = max(at, min(end, start))
        made.append(piece + whole[at:upto])
        at = upto
    return made
