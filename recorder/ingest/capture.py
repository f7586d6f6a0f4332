"""An exchange as events: the one place where bytes become rows of the log.

A pure function of its input in order: the request, the response head, each chunk with its time, the
end. The same input gives the same events with the same hashes; recovery after a crash is just that.
It knows no clock, no file and no database.

The invariant: the `raw` of an exchange's body events (`recorder.model.events.BODY_KINDS`), in order
of `pos`, is the decoded response body, byte for byte. If it cannot be decoded, `end` reports it:
`lossless` is false.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from hashlib import sha256

import msgspec

from recorder.model.chain import link, root
from recorder.model.events import (
    BODY_KINDS,
    LEFT_OUT,
    WHOLE,
    CloseRecord,
    EndRecord,
    Event,
    ExchangeEnd,
    GapRecord,
    Kind,
    Outcome,
    RequestHead,
    RequestRecord,
    ResponseHead,
    Status,
    WebSocketTurn,
)
from recorder.wire.conclusion import Conclusion
from recorder.wire.content_coding import Decoder, UndecodableError
from recorder.wire.dialects import Dialect, Keys, answered_in, by_name
from recorder.wire.dialects.json_values import request_object
from recorder.wire.framing import JSON_ARRAY, SSE, Framing, Splitter
from recorder.wire.framing.json_array import begins_array
from recorder.wire.framing.sse import BOM, FRAME_LIMIT, Piece, begins_stream
from recorder.wire.spoken import SpokenDialect

# the largest block whose keys are read: above any image that a provider sends in one event
KEYS_LIMIT = 16 * 2**20
# reads a `reads` event: about 150 KB of JSON, and a bound on what is held in memory
READS_PART = 8192

_READS = 2 * READS_PART  # numbers
_NO_KEYS = Keys()
_encode = msgspec.json.Encoder().encode


class _Asked(msgspec.Struct):
    """The fields of a `RequestRecord` that are read here."""

    method: str
    target: str


class Capture:
    """The events of one exchange, from its first byte to its end."""

    def __init__(
        self,
        session_id: str,
        exchange_id: str,
        dialect: Dialect,
        started_ns: int,
        first: bytes | None = None,
    ) -> None:
        """`started_ns` is the monotonic time that all times of the exchange are relative to;
        `first` is the hash that its first event is chained to: that of its row, if it is known.
        """
        self._ids = (session_id, exchange_id)
        self._dialect = dialect
        self._started_ns = started_ns
        self._pos = 0
        self._hash = first or root(session_id, exchange_id)
        self._t_ns = 0  # of the last chunk
        self._http_status: int | None = None
        self._decoder = Decoder(None)
        self._framing: Framing = SSE  # of a response that has a splitter
        self._splitter: Splitter | None = None
        self._opening: bytes | None = (
            None  # of a body that may be a stream by another type: SDKs read it
        )
        self._may_be_array = False
        self._undecoded: str | None = None
        self._is_plain = False  # from now on the body is what was on the wire
        self._conclusion = Conclusion(dialect)
        self._spoken = SpokenDialect(dialect)
        self._request_complete = True
        self._request_end = (0, self._hash, True)  # where the request ends
        self._parts: list[bytes] = []
        self._reads = array("q")
        self._wire, self._body = sha256(), sha256()
        self._wire_bytes = self._body_bytes = self._frames = self._gap_chunks = self._gap_bytes = 0

    @property
    def dialect(self) -> Dialect:
        return self._dialect

    @property
    def exchange_id(self) -> str:
        return self._ids[1]

    @classmethod
    def after(cls, last: Event) -> Capture:
        """Return a capture that continues after the last event in the log, and knows nothing of
        what came before.
        """
        capture = cls(last.session_id, last.exchange_id, by_name("other"), 0)
        capture._pos, capture._hash = last.pos + 1, last.hash
        return capture

    def request(
        self,
        head: RequestHead,
        body: bytes,
        *,
        wire: bytes,
        complete: bool = True,
        undecoded: str | None = None,
        redactions: Mapping[str, int] | None = None,
        websocket: WebSocketTurn | msgspec.UnsetType = msgspec.UNSET,
    ) -> list[Event]:
        """Return the events of a request: its head, and its decoded body.

        `wire` is the body as it was sent, or as it is recorded if `redactions` counts what was
        removed from it.
        """
        record = RequestRecord(
            method=head.method,
            target=head.target,
            upstream=head.upstream,
            headers=head.headers,
            wire_bytes=len(wire),
            wire_sha256=sha256(wire).hexdigest(),
            body_bytes=len(body),
            complete=complete,
            undecoded=undecoded,
            redactions=dict(redactions) if redactions else msgspec.UNSET,
            websocket=websocket,
            derived=head.derived,
            base_url=head.base_url,
            attribution=head.attribution,
        )
        parts = (body[i : i + FRAME_LIMIT] for i in range(0, len(body), FRAME_LIMIT))
        return self.request_again([_encode(record), *parts], complete=complete)

    def request_again(self, raws: Sequence[bytes], *, complete: bool) -> list[Event]:
        """Return the events of a request that the log has, from their `raw`."""
        self._request_complete = complete
        head, *parts = raws
        asked = msgspec.json.decode(head, type=_Asked)
        self._conclusion.ask(asked.method, asked.target)
        events = [
            self._event("request", 0, head),
            *(self._event("request", 0, part, Keys(type="body")) for part in parts),
        ]
        self._request_end = (self._pos, self._hash, complete)
        return events

    def after_request(self) -> Capture:
        """Return a capture of the same exchange as it was after its request."""
        capture = Capture(*self._ids, self._dialect, self._started_ns)
        capture._pos, capture._hash, capture._request_complete = capture._request_end = (
            self._request_end
        )
        capture._conclusion.ask(*self._conclusion.asked)
        return capture

    def response(self, t_ns: int, head: ResponseHead) -> list[Event]:
        """Return the event of a response head.

        It decides how the body is decoded and framed; of a known API, its first bytes too.
        """
        headers = {name.lower(): value for name, value in head.headers}
        content_type = headers.get("content-type")
        self._conclusion.head(head)
        framing = self._dialect.framing_of(self._conclusion.asked[1], head.status, head.headers)
        is_text = framing is SSE or "json" in (content_type or "")
        self._http_status = head.status
        self._decoder = Decoder(headers.get("content-encoding"), sniff=is_text)
        is_array = framing is JSON_ARRAY  # if it begins as one
        self._frame_by(None if is_array else framing)
        if (
            framing is not None
            and (spoken := answered_in(self._dialect, framing.name)) is not self._dialect
        ):
            self._dialect, self._spoken = spoken, SpokenDialect(spoken)
            self._conclusion.read_as(spoken)
        is_known = self._dialect is not by_name("other")
        self._opening = b"" if (framing is None and is_known) or is_array else None
        self._may_be_array = is_array
        return [self._event("response", self._since(t_ns), _encode(head))]

    def chunk(self, t_ns: int, data: bytes) -> list[Event]:
        """Return the events of one read from the upstream, as it was on the wire."""
        self._t_ns = self._since(t_ns)
        events = self._read(len(data))
        self._wire.update(data)
        if self._is_plain and self._splitter is not None:
            for frame in self._splitter.feed(data):
                events.append(self._framed(frame))
            return events
        if self._undecoded is None:
            try:
                for piece in self._decoder.feed(data):
                    self._take(piece, events)
                self._leave_out(events)
                self._is_plain = self._decoder.is_plain and not self._spoken.is_open
                return events
            except UndecodableError as error:
                self._give_up(error, events)
                return events
        self._keep(data, events)
        return events

    def common(self, t_ns: int, data: bytes) -> Event | None:
        """Return the event of a read that is one frame as most are: what `chunk` does, with fewer
        calls. Return None for any other read, which is left to `chunk`.
        """
        splitter, reads = self._splitter, self._reads
        fields = (
            splitter.common(data)
            if self._is_plain and splitter is not None and len(reads) < _READS
            else None
        )
        if fields is None:
            return None
        keys = self._dialect.keys(data, fields)
        type, number, item_id = keys.type, keys.sequence_number, keys.item_id
        index, start, length = keys.output_index, keys.data_start, keys.data_length
        t_ns -= self._started_ns
        if t_ns < 0:
            t_ns = 0
        size_bytes = len(data)
        reads.append(t_ns)
        reads.append(size_bytes)
        self._t_ns = t_ns
        self._wire_bytes += size_bytes
        self._body_bytes += size_bytes
        self._frames += 1
        self._wire.update(data)
        self._conclusion.add("frame", type, index, data)
        pos = self._pos
        self._pos = pos + 1
        hash = link(
            self._hash, pos, "frame", t_ns, type, number, item_id, index, data, start, length
        )
        self._hash = hash
        ids = self._ids
        return Event(
            ids[0],
            ids[1],
            pos,
            "frame",
            t_ns,
            type,
            number,
            item_id,
            index,
            data,
            start,
            length,
            hash,
        )

    def gap(self, gap: GapRecord) -> list[Event]:
        """Return the events of a gap: bytes that were received and not kept.

        What follows is framed from its beginning, and not decoded if it was coded.
        """
        events: list[Event] = []
        if gap.of == "response":
            self._gap_chunks += gap.chunks
            self._gap_bytes += gap.size_bytes
            self._wire_bytes += gap.size_bytes
            self._flush(events, "truncated")
            if self._splitter is not None:
                self._splitter = self._framing.splitter()
            if self._decoder.coding is not None:
                self._undecoded = self._undecoded or "bytes before this point were not kept"
        else:
            self._request_complete = False
        start = self._started_ns
        gap = msgspec.structs.replace(gap, from_ns=gap.from_ns - start, to_ns=gap.to_ns - start)
        return [*events, self._event("gap", gap.to_ns, _encode(gap))]

    def end(
        self, t_ns: int, end: ExchangeEnd, close: CloseRecord | msgspec.UnsetType = msgspec.UNSET
    ) -> list[Event]:
        """Return the last events of the exchange, however it ended."""
        events: list[Event] = []
        self._flush(events, end.outcome)
        self._report_reads(events)
        outcome = self._conclusion.outcome(end.outcome, self._wire_bytes)
        record = EndRecord(
            status=self._status(outcome),
            outcome=outcome,
            error=end.error if outcome == end.outcome else None,
            http_status=self._http_status,
            wire_bytes=self._wire_bytes,
            wire_sha256=self._wire.hexdigest(),
            body_bytes=self._body_bytes,
            body_sha256=(self._wire if self._decoder.coding is None else self._body).hexdigest(),
            events=self._pos,
            frames=self._frames,
            gap_chunks=self._gap_chunks,
            gap_bytes=self._gap_bytes,
            coding=self._decoder.coding,
            undecoded=self._undecoded,
            lossless=self._is_lossless(outcome),
            close=close,
        )
        return [*events, self._event("end", self._since(t_ns), _encode(record))]

    def break_off(self, t_ns: int, gap: GapRecord, end: ExchangeEnd) -> list[Event]:
        """End with a gap.

        Bytes that are still buffered come before it as they are: to read them may be what fails.
        """
        held, self._splitter = self._splitter.rest if self._splitter else b"", None
        events = [self._event("tail", self._t_ns, held)] if held else []
        return [*events, *self.gap(gap), *self.end(t_ns, end)]

    def note(self, t_ns: int, raw: bytes) -> Event:
        """Return an event about the exchange that is added after its end."""
        return self._event("note", t_ns, raw)

    def _is_lossless(self, outcome: Outcome) -> bool:
        """Return whether all that came is recorded.

        A recorder that was killed may have owed a gap.
        """
        known = outcome != "recorder_crash" and self._request_complete
        return known and not self._gap_chunks and self._undecoded is None

    def _status(self, outcome: Outcome) -> Status:
        """Return the status: the provider's own word comes before how the connection ended."""
        if outcome in WHOLE and self._http_status is not None and self._http_status >= 400:
            return "error_status"
        if self._conclusion.verdict is not None:
            return self._conclusion.verdict
        # as `WHOLE` has it, in the words of a type checker
        if outcome != "eof" and outcome != "client_done":
            return outcome
        is_cut = (
            self._splitter is not None
            and self._dialect.needs_terminal
            and not self._conclusion.is_endless
        )
        return "incomplete" if is_cut else "completed"

    def _take(self, data: bytes, events: list[Event]) -> None:
        """Add decoded bytes of the body."""
        if self._opening is not None:
            data = self._opening + data
            is_stream, is_array = begins_stream(data), self._may_be_array and begins_array(data)
            self._opening = data if is_stream is None or is_array is None else None
            if self._opening is not None:
                return
            framing = JSON_ARRAY if is_array else None
            self._frame_by(SSE if is_stream else framing)
        if self._splitter is None:
            self._keep(data, events)
            return
        for piece in self._splitter.feed(data):
            events.append(self._framed(piece))

    def _frame_by(self, framing: Framing | None) -> None:
        self._framing = framing or SSE
        self._splitter = None if framing is None else framing.splitter()

    def _keep(self, data: bytes, events: list[Event], keys: Keys = _NO_KEYS) -> None:
        """Add bytes without frames: a JSON body, a file, what could not be decoded."""
        for start in range(0, len(data), FRAME_LIMIT):
            events.append(self._event("body", self._t_ns, data[start : start + FRAME_LIMIT], keys))

    def _flush(self, events: list[Event], outcome: Outcome) -> None:
        """Add what decoder and splitter still buffer, when nothing more comes that would complete
        it.
        """
        if self._undecoded is not None:
            return
        try:
            self._take(self._decoder.close(), events)
            self._leave_out(events)
        except UndecodableError as error:
            if error.rest or outcome == "eof":
                self._give_up(error, events)
                return
        self._close_splitter(events)

    def _give_up(self, error: UndecodableError, events: list[Event]) -> None:
        self._close_splitter(events)
        self._undecoded = str(error)
        self._keep(error.rest, events)

    def _leave_out(self, events: list[Event]) -> None:
        """Keep what comes after the coding of the body: bytes that were received, and that no
        client hands on.
        """
        left_out = bytes(self._decoder.left_out)
        if left_out:
            self._decoder.left_out.clear()
            self._close_splitter(events)
            self._keep(left_out, events, Keys(type=LEFT_OUT))

    def _close_splitter(self, events: list[Event]) -> None:
        opening, self._opening = self._opening, None
        self._keep(opening or b"", events)
        if self._splitter is not None:
            events += [self._framed(piece) for piece in self._splitter.close()]
        self._parts.clear()

    def _framed(self, piece: Piece) -> Event:
        keys = self._keys(piece)
        if piece.complete and piece.kind != "comment":
            self._frames += 1
        self._conclusion.add(piece.kind, keys.type, keys.output_index, piece.raw)
        return self._event(piece.kind, self._t_ns, piece.raw, keys)

    def _keys(self, piece: Piece) -> Keys:
        if piece.kind == "comment":
            return _NO_KEYS
        if self._spoken.is_open and piece.kind == "frame":
            self._hear(piece)
        if piece.kind == "part":
            return self._keys_of_parts(piece)
        if self._framing is not SSE:
            return self._dialect.keys.of_fields(piece.raw, self._framing.fields(piece.raw))
        if self._body_bytes == 0 and piece.raw.startswith(BOM):
            keys = self._dialect.keys(piece.raw[len(BOM) :])
            if keys.data_start is None:
                return keys
            return msgspec.structs.replace(keys, data_start=keys.data_start + len(BOM))
        return self._dialect.keys(piece.raw)

    def _hear(self, piece: Piece) -> None:
        """Read the stream as what its first payloads are."""
        data = self._framing.fields(piece.raw.removeprefix(BOM)).data
        if data is not None and self._spoken.hear(request_object(data)):
            self._dialect = self._spoken.dialect
            self._conclusion.read_as(self._dialect)

    def _keys_of_parts(self, piece: Piece) -> Keys:
        """Return the keys of a block in parts with its last part, where it is complete."""
        self._parts.append(piece.raw)
        if not piece.complete:
            if len(self._parts) * FRAME_LIMIT > KEYS_LIMIT:
                del self._parts[1:]  # too long to be read: its `event:` line must do
            return _NO_KEYS
        block = b"".join(self._parts)
        # the first of the stream
        if self._framing is SSE and self._body_bytes + len(piece.raw) == len(block):
            block = block.removeprefix(BOM)
        self._parts.clear()
        keys = self._dialect.keys.of_fields(block, self._framing.fields(block))
        return msgspec.structs.replace(keys, data_start=None, data_length=None)

    def _read(self, size_bytes: int) -> list[Event]:
        self._wire_bytes += size_bytes
        events: list[Event] = []
        reads = self._reads
        if len(reads) >= _READS:
            self._report_reads(events)
            reads = self._reads
        reads.append(self._t_ns)
        reads.append(size_bytes)
        return events

    def _report_reads(self, events: list[Event]) -> None:
        if self._reads:
            reads = list(zip(self._reads[::2], self._reads[1::2], strict=True))
            self._reads = array("q")
            events.append(self._event("reads", reads[-1][0], _encode(reads)))

    def _since(self, t_ns: int) -> int:
        since_ns = t_ns - self._started_ns
        return since_ns if since_ns > 0 else 0

    def _event(self, kind: Kind, t_ns: int, raw: bytes, keys: Keys = _NO_KEYS) -> Event:
        if kind in BODY_KINDS and keys.type != LEFT_OUT:
            self._body_bytes += len(raw)
            if self._decoder.coding is not None:  # else it is what was on the wire
                self._body.update(raw)
        pos = self._pos
        self._pos = pos + 1
        type, number, item_id = keys.type, keys.sequence_number, keys.item_id
        index, start, length = keys.output_index, keys.data_start, keys.data_length
        hash = link(self._hash, pos, kind, t_ns, type, number, item_id, index, raw, start, length)
        self._hash = hash
        session_id, exchange_id = self._ids
        return Event(
            session_id,
            exchange_id,
            pos,
            kind,
            t_ns,
            type,
            number,
            item_id,
            index,
            raw,
            start,
            length,
            hash,
        )
