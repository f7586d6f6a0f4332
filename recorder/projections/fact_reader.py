"""Events of the log → facts: the payload taken out of its frame, and what the exchange's dialect makes of it.

Pure, and told in order. What the log keeps in pieces is put together here: parts of a long frame, a body that is no
stream, a request body. The pieces of one payload are held up to a limit; the log has them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, TypeVar

import msgspec

from recorder.model.events import Event, Exchange
from recorder.model.facts import (
    Ended,
    Fact,
    Failed,
    FirstByte,
    Lost,
    Malformed,
    Requested,
    Responded,
    TooLarge,
    Unterminated,
)
from recorder.model.payloads import Header
from recorder.wire.dialects import by_name
from recorder.wire.dialects.keys import Whole
from recorder.wire.grouping.purpose import placed
from recorder.wire.grouping.rules import Claims
from recorder.wire.sse import BOM, ends_block, parse

PAYLOAD_LIMIT = 16 * 2**20  # of one event, as `recorder.ingest.capture` reads its keys
DOCUMENT_LIMIT = 16 * 2**20  # of a body that is no stream, and of a request: decoded JSON takes many times its bytes

_NOTHING: Sequence[Fact] = ()


class _Request(msgspec.Struct, frozen=True):
    """What is read here of the first `request` event."""

    headers: list[Header] = []


class _Head(msgspec.Struct, frozen=True):
    """What is read here of a `response` event."""

    status: Annotated[int, msgspec.Meta(ge=0, le=999)]


class _Gap(msgspec.Struct, frozen=True):
    """What is read here of a `gap` event."""

    of: str = "response"
    size_bytes: Whole = 0


_request_of = msgspec.json.Decoder(_Request).decode
_head_of = msgspec.json.Decoder(_Head).decode
_gap_of = msgspec.json.Decoder(_Gap).decode
_end_of = msgspec.json.Decoder(Ended).decode
_reads_of = msgspec.json.Decoder(list[tuple[Whole, Whole]]).decode


class Pieces:
    """Bytes that belong together and came one after another, up to a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self.size_bytes = 0

    def add(self, piece: bytes) -> None:
        self.size_bytes += len(piece)
        if self.size_bytes <= self._limit:
            self._pieces.append(piece)
        else:
            self._pieces.clear()

    def take(self) -> bytes | None:
        """All of them, or `None` if they passed the limit; then there are none."""
        whole = None if self.size_bytes > self._limit else b"".join(self._pieces)
        self._pieces, self.size_bytes = [], 0
        return whole


class Reading:
    """The facts of one exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self._dialect = by_name(exchange.api)
        self._method, self._path = exchange.method, exchange.target.partition("?")[0]
        self._head = b""
        decoder = self._dialect.decoder()
        self._tell, self._document = decoder.event, decoder.document
        self._request = Pieces(DOCUMENT_LIMIT)
        self._body = Pieces(DOCUMENT_LIMIT)
        self._parts = Pieces(PAYLOAD_LIMIT)
        self._is_asking = True  # the request is not over yet

    def facts(self, event: Event) -> Sequence[Fact]:
        """What an event means."""
        start, length = event.data_start, event.data_length
        if start is not None and length is not None and event.kind == "frame":
            return self._tell(event.type, event.raw[start : start + length])
        read = _READERS.get(event.kind)
        return read(self, event) if read else _NOTHING

    def close(self) -> Sequence[Fact]:
        """What an exchange that has no `end` yet says besides: for a look at it as it stands."""
        document = (fact for fact in self._read_document() if not isinstance(fact, Malformed))  # half of it is no fault
        return [*self._asked(), *document]

    def _on_request(self, event: Event) -> Sequence[Fact]:
        if event.pos and event.type == "body":
            self._request.add(event.raw)
        elif not event.pos:
            self._head = event.raw
        return _NOTHING

    def _on_response(self, event: Event) -> Sequence[Fact]:
        head = _decoded(_head_of, event.raw)
        return [*self._asked(), *([] if head is None else [Responded(head.status)])]

    def _asked(self) -> Sequence[Fact]:
        """The request, once it is over."""
        if not self._is_asking:
            return _NOTHING
        self._is_asking = False
        size_bytes, body = self._request.size_bytes, self._request.take()
        asked = self._dialect.request_facts(self._path, body or b"")
        claims = Claims((_decoded(_request_of, self._head) or _Request()).headers)
        place = placed(self._dialect.name, self._method, self._path, claims, asked)
        if body is None:
            return (TooLarge(size_bytes), place)
        return (asked, Requested(self._path, body), place)

    def _on_frame(self, event: Event) -> Sequence[Fact]:
        return self._block(event, event.raw)

    def _on_part(self, event: Event) -> Sequence[Fact]:
        self._parts.add(event.raw)
        return self._parts_block(event) if ends_block(event.raw) else _NOTHING

    def _on_tail(self, event: Event) -> Sequence[Fact]:
        """What is whole but for its blank line is told: several providers end so. What is cut off says nothing."""
        self._parts.add(event.raw)
        facts = [fact for fact in self._parts_block(event) if not isinstance(fact, Malformed)]
        is_document = event.raw.lstrip().startswith((b"{", b"["))  # an error, in a body that says it is a stream
        return facts if facts and is_document else [*facts, Unterminated()]

    def _parts_block(self, event: Event) -> Sequence[Fact]:
        size_bytes, block = self._parts.size_bytes, self._parts.take()
        return (TooLarge(size_bytes),) if block is None else self._block(event, block)

    def _block(self, event: Event, block: bytes) -> Sequence[Fact]:
        """A block that is more than one line of data, or none to the standard."""
        block = block.removeprefix(BOM)
        data = parse(block).data
        if data is None:
            return self._without_data(event, block)
        return self._tell(event.type, data) if data.strip() else _NOTHING

    def _without_data(self, event: Event, block: bytes) -> Sequence[Fact]:
        """No event to the standard, and most clients pass over it. But errors come so: as bare JSON (Gemini), or as a
        field `error:` (llama.cpp).
        """
        bare = block.removeprefix(b"error:").strip()
        if not bare.startswith((b"{", b"[")):
            return _NOTHING
        if self._dialect.reads_bare_json:
            return self._tell(event.type, bare)
        failures = [fact for fact in self._dialect.decoder().event(event.type, bare) if isinstance(fact, Failed)]
        return failures or (Malformed("JSON without `data:`, which clients pass over"),)

    def _on_body(self, event: Event) -> Sequence[Fact]:
        self._body.add(event.raw)
        return _NOTHING

    def _read_document(self) -> Sequence[Fact]:
        size_bytes, body = self._body.size_bytes, self._body.take()
        if body is None:
            return (TooLarge(size_bytes),)
        return self._document(body) if body else _NOTHING

    def _on_reads(self, event: Event) -> Sequence[Fact]:
        reads = _decoded(_reads_of, event.raw)
        return (FirstByte(reads[0][0]),) if reads else _NOTHING

    def _on_gap(self, event: Event) -> Sequence[Fact]:
        self._parts.take()
        gap = _decoded(_gap_of, event.raw) or _Gap()
        return (Lost("request" if gap.of == "request" else "response", gap.size_bytes),)

    def _on_end(self, event: Event) -> Sequence[Fact]:
        end = _decoded(_end_of, event.raw) or Ended("unknown", "unknown")
        return [*self._asked(), *self._read_document(), end]


Reader = Callable[[Reading, Event], Sequence[Fact]]

_READERS: Mapping[str, Reader] = {
    "request": Reading._on_request,
    "response": Reading._on_response,
    "frame": Reading._on_frame,
    "part": Reading._on_part,
    "tail": Reading._on_tail,
    "body": Reading._on_body,
    "reads": Reading._on_reads,
    "gap": Reading._on_gap,
    "end": Reading._on_end,
}
"""By the kind of event; comments and notes mean nothing."""

Decoded = TypeVar("Decoded")


def _decoded(decode: Callable[[bytes], Decoded], raw: bytes) -> Decoded | None:
    """The JSON of an event of our own; `None` if another version wrote it otherwise."""
    try:
        return decode(raw)
    except msgspec.DecodeError:
        return None
