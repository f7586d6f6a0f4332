"""Exchanges without parts of their responses: what is private to a project, and credentials that a response repeats.

The log has responses as they came. A cassette is for a repository: a server that repeats the parameters of a request,
an MCP server's `authorization` among them, would bring into it what was taken out of the request. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

import msgspec

from recorder.cassettes.sse_jsonl.steps import Sums, restore, shorten
from recorder.model.events import BODY_KINDS, Event
from recorder.wire.dialects import Keys
from recorder.wire.redaction.bodies import placed_secrets
from recorder.wire.redaction.unescape import Splice, spliced_pieces

Reads = list[tuple[int, int]]


def repeated_credentials(events: Iterable[Event]) -> list[Splice]:
    """Return where a response has credentials, by their places among the parameters that it repeats."""
    spans: list[Splice] = []
    size = 0
    for text in _texts(events):
        for start, stop, instead in placed_secrets(text):
            spans.append(Splice(size + start, size + stop, instead))
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
    events: Sequence[Event], spans: Sequence[Splice], keys_of: Callable[[str, bytes], Keys]
) -> list[Event]:
    """Return the events without those spans of the body; sums and sizes of reads are those of the bytes left."""
    pieces = [event.raw for event in events if event.kind in BODY_KINDS]
    left = iter(spliced_pieces(pieces, spans, splits=False))
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


def _sizes(events: Sequence[Event], body: bytes, spans: Sequence[Splice]) -> list[int]:
    """Return the size of each read without the spans. Reads of a body that came coded are not changed."""
    sizes: list[int] = []
    for event in events:
        if event.kind == "reads":
            sizes += [size for _, size in msgspec.json.decode(event.raw, type=Reads)]
    if sum(sizes) != len(body):
        return sizes
    reads = [body[start:stop] for start, stop in pairwise(accumulate(sizes, initial=0))]
    return [len(read) for read in spliced_pieces(reads, spans, splits=False)]
