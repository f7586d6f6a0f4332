"""WebSocket connections as other tools store them, as messages of both sides: their records of a journal. Pure.

The messages become frames, so that the ingester finds the turns in them as in a connection that it records. The frames
are made up: one for each message, uncompressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from recorder.cassettes import Entry, Names
from recorder.cassettes.calls import in_blocks
from recorder.journal.format import Mark
from recorder.model.events import SWITCHED, Session
from recorder.model.ids import turn_id
from recorder.model.payloads import ExchangeEnd, Header, Imported, RequestEnd, RequestHead, ResponseHead, Side
from recorder.wire.dialects import by_path
from recorder.wire.redaction.headers import redact_record, redact_target
from recorder.wire.turns import PROTOCOL
from recorder.wire.websocket import MESSAGE_LIMIT, Opcode, encode_frame

NO_MASK = bytes(4)  # the frame of a client must be masked; this key leaves the payload as it is

_EXTENSIONS = "sec-websocket-extensions"  # the messages are stored without their compression
_KEY, _ACCEPT = "sec-websocket-key", "sec-websocket-accept"


class TimedMessage(NamedTuple):
    """A message, and when it came, in nanoseconds since its connection began."""

    t_ns: int
    mark: Mark
    frame: bytes


def message_of(side: Side, t_ns: int, payload: bytes, opcode: Opcode = "text") -> TimedMessage:
    """Return a message. Raises `ValueError` if it is longer than a recorder takes."""
    if len(payload) > MESSAGE_LIMIT:
        raise ValueError(f"a message over WebSocket has over {MESSAGE_LIMIT >> 20} MiB")
    if side == "client":
        return TimedMessage(t_ns, Mark.CLIENT_CHUNK, encode_frame(opcode, payload, mask=NO_MASK))
    return TimedMessage(t_ns, Mark.CHUNK, encode_frame(opcode, payload))


SWITCHING = ResponseHead(SWITCHED, "Switching Protocols", [])


class ImportedConnection(NamedTuple):
    """A connection as a recorder would have recorded it."""

    target: str
    headers: list[Header]
    pieces: Sequence[TimedMessage]
    response: ResponseHead = SWITCHING
    end: ExchangeEnd = ExchangeEnd("eof")
    started_ns: int = 0
    head_ns: int = 0
    end_ns: int = 0  # it does not end before its last message

    @property
    def size_bytes(self) -> int:
        return sum(len(each.frame) for each in self.pieces)

    @property
    def events(self) -> int:
        return len(self.pieces)

    def entries(self, session: Session, names: Names) -> Iterator[Entry]:
        """Yield its records."""
        # A key without its answer is left out: nothing can be checked with it.
        is_answered = any(name.lower() == _ACCEPT for name, _ in self.response.headers)
        untrue = {_EXTENSIONS} if is_answered else {_EXTENSIONS, _KEY}
        head = self._head(session, names, _upgraded(self.headers, untrue))
        response = replace(self.response, headers=_upgraded(self.response.headers, untrue))
        yield Entry(Mark.REQUEST, 0, redact_record(head))
        yield Entry(Mark.REQUEST_END, 0, msgspec.json.encode(RequestEnd(complete=True)))
        yield Entry(Mark.RESPONSE, self.head_ns, redact_record(response))
        end_ns = self.end_ns
        for t_ns, mark, frame in self.pieces:
            end_ns = max(end_ns, t_ns)
            for block in in_blocks(frame):
                yield Entry(mark, t_ns, block)
        yield Entry(Mark.END, end_ns, redact_record(self.end))

    def _head(self, session: Session, names: Names, headers: list[Header]) -> RequestHead:
        """Return the request. Its turns have their ids from its own, and are to sort right behind it."""
        return RequestHead(
            exchange_id=turn_id(names.new_id(), 0),
            session_id=session.session_id,
            started_ns=self.started_ns,
            method="GET",
            target=redact_target(self.target),
            upstream=by_path("POST", self.target.partition("?")[0]).upstream,
            headers=headers,
            imported=Imported(session),
        )


def _upgraded(given: Sequence[Header], untrue: set[str]) -> list[Header]:
    """Return the headers of a handshake that are true for messages without compression; both sides offer and accept it,
    also where the browser did not save them.
    """
    kept = [(name, value) for name, value in given if name.lower() not in untrue]
    names = {name.lower() for name, _ in kept}
    needed = [each for each in (("connection", "Upgrade"), ("upgrade", PROTOCOL)) if each[0] not in names]
    return [*needed, *kept]
