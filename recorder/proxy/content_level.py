"""Levels of content: what of bodies is written into the journal at all.

Rules of this file:

* `full` is the journal itself: nothing here is in the way of a chunk.
* At `shape` and `none` no byte of a body reaches the journal but as filler
  (`recorder.wire.content`): an event is held until it is whole, a document until its end. The
  client has its bytes before that.
* Reads keep their times, and their sizes after their content coding is undone.
* What cannot be read is counted, not kept: a coding that cannot be undone, what is no JSON, a
  WebSocket connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from recorder.journal.format import Gap, Mark
from recorder.model.events import SWITCHED, RequestHead, ResponseHead
from recorder.proxy.http.messages import Request, Sink
from recorder.proxy.recording import ExchangeJournal, RecordWriter
from recorder.proxy.routing import Origin
from recorder.wire.content import LEVELS, Level
from recorder.wire.content.filler import BlankKey, FillerKey
from recorder.wire.content.shape import Shaper, unkept
from recorder.wire.content_coding import Decoder, UndecodableError
from recorder.wire.dialects import by_name, by_request
from recorder.wire.framing import JSON_ARRAY, NDJSON, SSE, Framing, Splitter
from recorder.wire.framing.sse import Piece, begins_stream
from recorder.wire.request_body import REQUEST_LIMIT, decoded_body

# of what is held: of a document, or of one event; a longer one is not kept
BODY_LIMIT = REQUEST_LIMIT

_CODED = "content-encoding"


class ContentLevels(NamedTuple):
    """The levels at which a recorder keeps bodies: of some upstreams, of all others, and of some
    tokens less.
    """

    otherwise: Level = "full"
    of_upstreams: Mapping[str, Level] = {}
    has_tokens: bool = False

    @property
    def are_full(self) -> bool:
        return not self.has_tokens and {self.otherwise, *self.of_upstreams.values()} == {"full"}


FULL = ContentLevels()


def journal_by_level(
    levels: ContentLevels, journal: ExchangeJournal, secret: bytes
) -> Callable[[Request], ExchangeJournal]:
    """Return what chooses the journal of an exchange, once, by its request."""
    journals: Mapping[Level, ExchangeJournal] = {
        "full": journal,
        "shape": ShapedJournal(journal, FillerKey(secret)),
        "none": ShapedJournal(journal, BlankKey()),
    }

    def choose(request: Request) -> ExchangeJournal:
        origin = request.extensions.get("recorder")
        if not isinstance(origin, Origin):
            return journals[levels.otherwise]
        of_upstream = levels.of_upstreams.get(origin.upstream, levels.otherwise)
        return journals[max(of_upstream, origin.content, key=LEVELS.index)]

    return choose


class ShapedJournal:
    """A journal into which no text gets but as filler."""

    def __init__(self, inner: ExchangeJournal, key: FillerKey) -> None:
        self._inner, self._key = inner, key

    def exchange(self) -> RecordWriter:
        return _ShapedWriter(self._inner.exchange(), self._key, self._inner.flush)

    def flush(self) -> None:
        self._inner.flush()


class _ShapedWriter:
    """The records of one exchange on their way into a journal.

    What is not shaped yet is held here.
    """

    def __init__(self, inner: RecordWriter, key: FillerKey, flush: Callable[[], None]) -> None:
        self._inner, self._key, self._flush = inner, key, flush
        self._shaper = Shaper(key, by_name("other"))
        # of a request whose body is still to come
        self._head: tuple[int, RequestHead] | None = None
        self._target = ""
        self._body = bytearray()
        self._body_bytes = 0
        self._response = _HeldResponse(self._shaper, key, inner)
        self._client = _NotKept(Mark.CLIENT_CHUNK)

    def write(self, mark: Mark, t_ns: int, payload: bytes) -> None:
        if mark == Mark.CHUNK:
            self._response.chunk(t_ns, payload)
        elif mark == Mark.REQUEST:
            self._head = t_ns, msgspec.json.decode(payload, type=RequestHead)
        elif mark == Mark.REQUEST_BODY:
            self._body_bytes += len(payload)
            if len(self._body) <= BODY_LIMIT:
                self._body += payload
        elif mark == Mark.CLIENT_CHUNK:
            self._client.add(t_ns, payload)
        elif mark == Mark.RESPONSE:
            head = msgspec.json.decode(payload, type=ResponseHead)
            self._inner.write(
                mark, t_ns, msgspec.json.encode(self._response.begin(self._target, head))
            )
        else:
            if mark == Mark.REQUEST_END:
                self._write_request(t_ns)
            self._inner.write(mark, t_ns, payload)

    def write_all(self, t_ns: int, records: list[tuple[Mark, bytes]]) -> None:
        for mark, payload in records:
            self.write(mark, t_ns, payload)

    def later(self, t_ns: int, data: bytes, then: Sink) -> bool:
        shape = self._response.whole(data)
        if shape is not None:
            return self._inner.later(t_ns, shape, lambda _: then(data))
        self._response.chunk(t_ns, data)
        self._flush()  # what waits is of earlier chunks: the client has them first
        then(data)
        return False

    def end(self, t_ns: int, payload: bytes, last: bytes = b"") -> None:
        if last:
            self._response.chunk(t_ns, last)
        self._response.close(t_ns)
        self._client.write(self._inner, t_ns)
        self._inner.end(t_ns, payload)

    def _write_request(self, t_ns: int) -> None:
        """Write a request whose body has come."""
        if self._head is None:
            return
        (began_ns, head), self._head = self._head, None
        body, undecoded = decoded_body(head.headers, bytes(self._body))
        dialect = by_request(head.method, head.target, head.headers, body)
        self._shaper = Shaper(self._key, dialect)
        self._response = _HeldResponse(self._shaper, self._key, self._inner)
        self._target = head.target
        headers = [each for each in head.headers if each[0].lower() != _CODED]
        self._inner.write(
            Mark.REQUEST,
            began_ns,
            msgspec.json.encode(msgspec.structs.replace(head, headers=headers)),
        )
        if self._body_bytes > len(self._body):
            body = unkept(bytes(self._body), self._key)
        elif undecoded is None:
            body = self._shaper.body(body)
        if body:
            self._inner.write(Mark.REQUEST_BODY, t_ns, body)
        self._body = bytearray()


class _HeldResponse:
    """The body of a response: bytes of the wire in, their shape into the journal as soon as it is
    known.
    """

    def __init__(self, shaper: Shaper, key: FillerKey, inner: RecordWriter) -> None:
        self._shaper, self._key, self._inner = shaper, key, inner
        self._decoder = Decoder(None)
        self._framing: Framing | None = None
        self._splitter: Splitter | None = None
        self._held = bytearray()  # of a document, or of a body of which it is not known what it is
        self._parts: list[bytes] = []  # of a long event
        # that are not written yet: their times and sizes
        self._reads: deque[tuple[int, int]] = deque()
        self._ready = bytearray()  # shapes that are not written yet
        self._lost = _NotKept(Mark.CHUNK)
        self._is_lost = self._is_coded = False
        self._is_between = False  # the next read begins an event, and nothing is held

    def begin(self, target: str, head: ResponseHead) -> ResponseHead:
        """Return the head as it is true for what is written."""
        headers = {name.lower(): value for name, value in head.headers}
        self._framing = self._shaper.dialect.framing_of(target, head.status, head.headers)
        self._decoder = Decoder(headers.get(_CODED))
        self._is_coded = _CODED in headers
        self._is_lost = head.status == SWITCHED
        if self._framing not in (None, JSON_ARRAY) and not self._is_lost:
            self._splitter = self._framing.splitter() if self._framing else None
        kept = [each for each in head.headers if each[0].lower() != _CODED]
        return msgspec.structs.replace(head, headers=kept)

    def whole(self, data: bytes) -> bytes | None:
        """Return the shape of a read that is one event like an earlier one; None of any other.

        Then `chunk` need not see it.
        """
        return self._shaper.known(data) if self._is_between else None

    def chunk(self, t_ns: int, data: bytes) -> None:
        """Take a read of the wire, and write all whose shape is known."""
        self._chunk(t_ns, data)
        self._is_between = (
            self._framing in (SSE, NDJSON)
            and self._splitter is not None
            and not self._is_coded
            and not (self._is_lost or self._reads or self._ready or self._splitter.rest)
        )

    def _chunk(self, t_ns: int, data: bytes) -> None:
        if self._is_lost:
            self._lost.add(t_ns, data)
            return
        try:
            decoded = b"".join(self._decoder.feed(data))
        except UndecodableError:
            self._is_lost = True
            self._lost.add(t_ns, data)
            return
        self._reads.append((t_ns, len(decoded)))
        self._take(decoded)
        self._write()

    def close(self, t_ns: int) -> None:
        """Write what is held, at the end of the body, and how much was not kept."""
        if self._splitter is not None:
            for piece in self._splitter.close():
                self._shape(piece)
            self._ready += (
                self._shaper.frame(b"".join(self._parts), self._framing or SSE)
                if self._parts
                else b""
            )
        elif self._held:
            too_long = len(self._held) > BODY_LIMIT
            self._ready += (
                unkept(bytes(self._held), self._key)
                if too_long
                else self._shaper.body(bytes(self._held))
            )
        self._write()
        if self._ready:
            last_ns = self._reads[-1][0] if self._reads else t_ns
            self._inner.write(Mark.CHUNK, last_ns, bytes(self._ready))
        self._lost.write(self._inner, t_ns)

    def _take(self, data: bytes) -> None:
        """Add decoded bytes of the body."""
        if self._splitter is None:
            if len(self._held) <= BODY_LIMIT:
                self._held += data
            framing = self._framing_of(bytes(self._held[:16]))
            if framing is None:
                return
            data, self._held = bytes(self._held), bytearray()
            self._framing, self._splitter = framing, framing.splitter()
        for piece in self._splitter.feed(data):
            self._shape(piece)

    def _framing_of(self, opening: bytes) -> Framing | None:
        """Return the framing of a body that its head does not name, or that may be a document all
        the same.
        """
        if self._framing is JSON_ARRAY:
            return JSON_ARRAY if opening.lstrip().startswith(b"[") else None
        return SSE if begins_stream(opening) else None

    def _shape(self, piece: Piece) -> None:
        if piece.kind == "part":
            self._parts.append(piece.raw)
            if not piece.complete:
                return
            raw, self._parts = b"".join(self._parts), []
        else:
            raw = piece.raw
        framing = self._framing or SSE
        self._ready += (
            self._shaper.comment(raw)
            if piece.kind == "comment"
            else self._shaper.frame(raw, framing)
        )

    def _write(self) -> None:
        """Write the reads whose shape is known."""
        while self._reads and len(self._ready) >= self._reads[0][1]:
            t_ns, size_bytes = self._reads.popleft()
            if size_bytes:  # of a coding, a read may give nothing yet
                self._inner.write(Mark.CHUNK, t_ns, bytes(self._ready[:size_bytes]))
                del self._ready[:size_bytes]


class _NotKept:
    """Bytes that are not kept: how many there were, and when."""

    def __init__(self, mark: Mark) -> None:
        self._mark = mark
        self._chunks = self._size_bytes = self._from_ns = self._to_ns = 0

    def add(self, t_ns: int, data: bytes) -> None:
        if not self._chunks:
            self._from_ns = t_ns
        self._chunks += 1
        self._size_bytes += len(data)
        self._to_ns = t_ns

    def write(self, inner: RecordWriter, t_ns: int) -> None:
        if self._chunks:
            reason = "the level of content keeps nothing of it"
            gap = Gap(
                self._mark, self._chunks, self._size_bytes, "", self._from_ns, self._to_ns, reason
            )
            inner.write(Mark.GAP, t_ns, msgspec.json.encode(gap))
