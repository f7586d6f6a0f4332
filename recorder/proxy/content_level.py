"""Levels of content: what of bodies is written into the journal at all.

Rules of this file:

* `full` is the journal itself: nothing here is in the way of a chunk.
* At `shape` and `none` no byte of a body reaches the journal but as filler
  (`recorder.wire.content`): an event is held until it is whole, a document until its end. The
  client has its bytes before that.
* Reads keep their times, and their sizes after their content coding is undone. A message of a
  WebSocket connection is one frame that is not compressed, at the time at which it was whole.
* What cannot be read is counted, not kept: a coding that cannot be undone, what is no JSON, bytes
  that are no message.
* The head of a request says at which level it was recorded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple, Protocol

import msgspec

from recorder.journal.format import Gap, Mark
from recorder.model.attribution import Attribution
from recorder.model.events import STDIO, SWITCHED, RequestHead, ResponseHead
from recorder.proxy.http.messages import Request, Sink
from recorder.proxy.recording import ExchangeJournal, RecordWriter
from recorder.proxy.routing import Origin
from recorder.wire.content import LEVELS, Level
from recorder.wire.content.filler import BlankKey, FillerKey
from recorder.wire.content.shape import Shaper, unkept
from recorder.wire.content_coding import Decoder, UndecodableError
from recorder.wire.dialects import by_name, by_request
from recorder.wire.framing import JSON_ARRAY, MESSAGES, NDJSON, SSE, Framing, Splitter
from recorder.wire.framing.sse import Piece, begins_stream
from recorder.wire.framing.websocket import (
    Damage,
    Deflate,
    Message,
    MessageParser,
    Part,
    encode_frame,
    negotiated,
)
from recorder.wire.request_body import REQUEST_LIMIT, decoded_body

# of what is held: of a document, or of one event; a longer one is not kept
BODY_LIMIT = REQUEST_LIMIT

SESSION = "s/"
"""The beginning of a pattern for names of sessions, among names of upstreams."""

_CODED, _COMPRESSED = "content-encoding", "sec-websocket-extensions"


class ContentLevels(NamedTuple):
    """The levels at which a recorder keeps bodies: of some upstreams, of all others, and of some
    sessions and tokens less.
    """

    otherwise: Level = "full"
    of_upstreams: Mapping[str, Level] = {}
    of_sessions: Mapping[str, Level] = {}  # by patterns of their names
    has_tokens: bool = False

    @property
    def are_full(self) -> bool:
        given = {self.otherwise, *self.of_upstreams.values(), *self.of_sessions.values()}
        return not self.has_tokens and given == {"full"}

    def level(self, origin: Origin | None) -> Level:
        """Return the level of a request: the least of those that are for it."""
        if origin is None:
            return self.otherwise
        levels = [self.of_upstreams.get(origin.upstream, self.otherwise), origin.content]
        for pattern, level in self.of_sessions.items():
            if fnmatchcase(origin.session or "", pattern):
                levels.append(level)
        return max(levels, key=LEVELS.index)


FULL = ContentLevels()


def journal_by_level(
    levels: ContentLevels, journal: ExchangeJournal, secret: bytes
) -> Callable[[Request], ExchangeJournal]:
    """Return what chooses the journal of an exchange, once, by its request."""
    journals = {level: journal_at(level, journal, secret) for level in LEVELS}

    def choose(request: Request) -> ExchangeJournal:
        origin = request.extensions.get("recorder")
        return journals[levels.level(origin if isinstance(origin, Origin) else None)]

    return choose


def journal_at(level: Level, journal: ExchangeJournal, secret: bytes) -> ExchangeJournal:
    """Return a journal that keeps of bodies what a level says."""
    if level == "full":
        return journal
    return _ShapedJournal(journal, level, FillerKey(secret) if level == "shape" else BlankKey())


class _ShapedJournal:
    """A journal into which no text gets but as filler."""

    def __init__(self, inner: ExchangeJournal, level: Level, key: FillerKey) -> None:
        self._inner, self._level, self._key = inner, level, key

    def exchange(self) -> RecordWriter:
        return _ShapedWriter(self._inner.exchange(), self._level, self._key, self._inner.flush)

    def flush(self) -> None:
        self._inner.flush()


class _Direction(Protocol):
    """What one side sends: bytes of the wire in, their shape into the journal."""

    def whole(self, data: bytes) -> bytes | None:
        """Return the shape of a read that is one event like an earlier one; None of any other.

        Then `chunk` need not see it.
        """

    def chunk(self, t_ns: int, data: bytes) -> None:
        """Take a read of the wire, and write all whose shape is known."""

    def close(self, t_ns: int) -> None:
        """Write what is held, at the end, and how much was not kept."""


class _ShapedWriter:
    """The records of one exchange on their way into a journal.

    What is not shaped yet is held here.
    """

    def __init__(
        self, inner: RecordWriter, level: Level, key: FillerKey, flush: Callable[[], None]
    ) -> None:
        self._inner, self._level, self._key, self._flush = inner, level, key, flush
        self._shaper = Shaper(key, by_name("other"))
        # of a request whose body is still to come
        self._head: tuple[int, RequestHead] | None = None
        self._method = self._target = ""
        self._body = bytearray()
        self._body_bytes = 0
        self._is_switched = False
        self._server: _Direction = _NotKept(inner, Mark.CHUNK)
        self._client: _Direction = _NotKept(inner, Mark.CLIENT_CHUNK)

    def write(self, mark: Mark, t_ns: int, payload: bytes) -> None:
        if mark == Mark.CHUNK:
            self._take(self._server, mark, t_ns, payload)
        elif mark == Mark.CLIENT_CHUNK:
            self._take(self._client, mark, t_ns, payload)
        elif mark == Mark.REQUEST:
            self._head = t_ns, msgspec.json.decode(payload, type=RequestHead)
        elif mark == Mark.REQUEST_BODY:
            self._body_bytes += len(payload)
            if len(self._body) <= BODY_LIMIT:
                self._body += payload
        elif mark == Mark.RESPONSE:
            head = self._begun(msgspec.json.decode(payload, type=ResponseHead))
            self._inner.write(mark, t_ns, msgspec.json.encode(head))
        else:
            if mark == Mark.REQUEST_END:
                self._write_request(t_ns)
            self._inner.write(mark, t_ns, payload)

    def write_all(self, t_ns: int, records: list[tuple[Mark, bytes]]) -> None:
        for mark, payload in records:
            self.write(mark, t_ns, payload)

    def later(self, t_ns: int, data: bytes, then: Sink) -> bool:
        shape = self._server.whole(data)
        if shape is not None:
            return self._inner.later(t_ns, shape, lambda _: then(data))
        self._take(self._server, Mark.CHUNK, t_ns, data)
        self._flush()  # what waits is of earlier chunks: the client has them first
        then(data)
        return False

    def end(self, t_ns: int, payload: bytes, last: bytes = b"") -> None:
        if last:
            self._take(self._server, Mark.CHUNK, t_ns, last)
        self._server.close(t_ns)
        self._client.close(t_ns)
        self._inner.end(t_ns, payload)

    def _take(self, direction: _Direction, mark: Mark, t_ns: int, data: bytes) -> None:
        if data:
            direction.chunk(t_ns, data)
        elif self._is_switched:  # its end
            direction.close(t_ns)
            self._inner.write(mark, t_ns, data)

    def _write_request(self, t_ns: int) -> None:
        """Write a request whose body has come."""
        if self._head is None:
            return
        (began_ns, head), self._head = self._head, None
        body, undecoded = decoded_body(head.headers, bytes(self._body))
        dialect = by_request(head.method, head.target, head.headers, body)
        self._shaper = Shaper(self._key, dialect)
        self._method, self._target = head.method, head.target
        given = head.attribution if isinstance(head.attribution, Attribution) else Attribution()
        head = msgspec.structs.replace(
            head,
            headers=[each for each in head.headers if each[0].lower() != _CODED],
            attribution=msgspec.structs.replace(given, content=self._level),
        )
        self._inner.write(Mark.REQUEST, began_ns, msgspec.json.encode(head))
        if self._body_bytes > len(self._body):
            body = unkept(bytes(self._body), self._key)
        elif undecoded is None:
            body = self._shaper.body(body)
        if body:
            self._inner.write(Mark.REQUEST_BODY, t_ns, body)
        self._body = bytearray()

    def _begun(self, head: ResponseHead) -> ResponseHead:
        """Return the head as it is true for what is written, and be ready for what follows it."""
        self._is_switched = head.status == SWITCHED
        if not self._is_switched:
            body = _HeldBody(self._shaper, self._key, self._inner, Mark.CHUNK)
            self._server = body
            return body.begin(self._target, head)
        if self._method == STDIO:
            self._server, self._client = (
                _HeldBody(self._shaper, self._key, self._inner, mark, NDJSON)
                for mark in (Mark.CHUNK, Mark.CLIENT_CHUNK)
            )
            return head
        compression = negotiated(head.headers)
        if not isinstance(compression, str):
            of_client, of_server = compression
            self._server = _Messages(self._shaper, self._inner, Mark.CHUNK, of_server)
            self._client = _Messages(self._shaper, self._inner, Mark.CLIENT_CHUNK, of_client)
        return _without(head, _COMPRESSED)


def _without(head: ResponseHead, name: str) -> ResponseHead:
    kept = [each for each in head.headers if each[0].lower() != name]
    return msgspec.structs.replace(head, headers=kept)


class _HeldBody:
    """The body of a response, or lines of one side: shaped as soon as an event of it is whole."""

    def __init__(
        self,
        shaper: Shaper,
        key: FillerKey,
        inner: RecordWriter,
        mark: Mark,
        framing: Framing | None = None,
    ) -> None:
        self._shaper, self._key, self._inner, self._mark = shaper, key, inner, mark
        self._decoder = Decoder(None)
        self._framing = framing
        self._splitter: Splitter | None = None if framing is None else framing.splitter()
        self._held = bytearray()  # of a document, or of a body of which it is not known what it is
        self._parts: list[bytes] = []  # of a long event
        # that are not written yet: their times and sizes
        self._reads: deque[tuple[int, int]] = deque()
        self._ready = bytearray()  # shapes that are not written yet
        self._lost = _NotKept(inner, mark)
        self._is_lost = self._is_coded = False
        self._is_between = False  # the next read begins an event, and nothing is held

    def begin(self, target: str, head: ResponseHead) -> ResponseHead:
        """Return the head as it is true for what is written."""
        headers = {name.lower(): value for name, value in head.headers}
        self._framing = self._shaper.dialect.framing_of(target, head.status, head.headers)
        self._decoder = Decoder(headers.get(_CODED))
        self._is_coded = _CODED in headers
        if self._framing not in (None, JSON_ARRAY):
            self._splitter = self._framing.splitter() if self._framing else None
        return _without(head, _CODED)

    def whole(self, data: bytes) -> bytes | None:
        return self._shaper.known(data) if self._is_between else None

    def chunk(self, t_ns: int, data: bytes) -> None:
        self._chunk(t_ns, data)
        self._is_between = (
            self._framing in (SSE, NDJSON)
            and self._splitter is not None
            and not self._is_coded
            and not (self._is_lost or self._reads or self._ready or self._splitter.rest)
        )

    def _chunk(self, t_ns: int, data: bytes) -> None:
        if self._is_lost:
            self._lost.chunk(t_ns, data)
            return
        try:
            decoded = b"".join(self._decoder.feed(data))
        except UndecodableError:
            self._is_lost = True
            self._lost.chunk(t_ns, data)
            return
        self._reads.append((t_ns, len(decoded)))
        self._take(decoded)
        self._write()

    def close(self, t_ns: int) -> None:
        if self._splitter is not None:
            for piece in self._splitter.close():
                self._shape(piece)
            self._ready += (
                self._shaper.frame(b"".join(self._parts), self._framing or SSE)
                if self._parts
                else b""
            )
            self._parts = []
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
            self._inner.write(self._mark, last_ns, bytes(self._ready))
            self._ready.clear()
        self._lost.close(t_ns)

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
                self._inner.write(self._mark, t_ns, bytes(self._ready[:size_bytes]))
                del self._ready[:size_bytes]


class _Messages:
    """One direction of a WebSocket connection."""

    def __init__(
        self, shaper: Shaper, inner: RecordWriter, mark: Mark, deflate: Deflate | None
    ) -> None:
        self._shaper, self._inner, self._mark = shaper, inner, mark
        self._is_client = mark == Mark.CLIENT_CHUNK
        self._parser = MessageParser(from_client=self._is_client, deflate=deflate)
        self._lost = _NotKept(inner, mark)

    def whole(self, data: bytes) -> None:
        return None

    def chunk(self, t_ns: int, data: bytes) -> None:
        self._write(t_ns, self._parser.feed(data))

    def close(self, t_ns: int) -> None:
        self._write(t_ns, self._parser.close())
        self._lost.close(t_ns)

    def _write(self, t_ns: int, parts: Iterable[Part]) -> None:
        made = b""
        for part in parts:
            if isinstance(part, Message):
                mask = b"\0" * 4 if self._is_client else None
                made += encode_frame(part.opcode, self._filled(part), mask=mask)
            elif isinstance(part, Damage):
                self._lost.chunk(t_ns, part.raw)
        if made:
            self._inner.write(self._mark, t_ns, made)

    def _filled(self, message: Message) -> bytes:
        payload = message.payload
        if message.opcode == "close":
            return payload[:2] + self._shaper.loose(payload[2:])
        if message.opcode in ("ping", "pong") or payload.lstrip()[:1] not in (b"{", b"["):
            return self._shaper.loose(payload)
        if self._is_client:
            return self._shaper.document(payload)
        return self._shaper.frame(payload, MESSAGES)


class _NotKept:
    """Bytes that are not kept: how many there were, and when."""

    def __init__(self, inner: RecordWriter, mark: Mark) -> None:
        self._inner, self._mark = inner, mark
        self._chunks = self._size_bytes = self._from_ns = self._to_ns = 0

    def whole(self, data: bytes) -> None:
        return None

    def chunk(self, t_ns: int, data: bytes) -> None:
        if not self._chunks:
            self._from_ns = t_ns
        self._chunks += 1
        self._size_bytes += len(data)
        self._to_ns = t_ns

    def close(self, t_ns: int) -> None:
        if self._chunks:
            reason = "the level of content keeps nothing of it"
            gap = Gap(
                self._mark, self._chunks, self._size_bytes, "", self._from_ns, self._to_ns, reason
            )
            self._inner.write(Mark.GAP, t_ns, msgspec.json.encode(gap))
            self._chunks = self._size_bytes = 0
