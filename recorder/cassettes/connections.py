"""WebSocket connections as other tools store them, as messages of both sides: their records of a journal. Pure.

The messages become frames, so that the ingester finds the turns in them as in a connection that it records. The frames
are made up: one for each message, uncompressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from recorder.cassettes import Entry, Names
from recorder.journal.format import Mark
from recorder.model.events import Session
from recorder.model.ids import turn_id
from recorder.model.payloads import ExchangeEnd, Header, Imported, RequestEnd, RequestHead, ResponseHead
from recorder.wire.dialects import by_path
from recorder.wire.redaction.headers import redact_record, redact_target
from recorder.wire.turns import PROTOCOL
from recorder.wire.websocket import MESSAGE_LIMIT, Opcode, encode_frame

BLOCK_BYTES = 256 * 1024  # of a message, in one record of a journal
NO_MASK = bytes(4)  # the frame of a client must be masked; this key leaves the payload as it is

_EXTENSIONS = "sec-websocket-extensions"  # the messages are stored without their compression
_KEY, _ACCEPT = "sec-websocket-key", "sec-websocket-accept"


class TimedMessage(NamedTuple):
    """A message, and when it came, in nanoseconds since its connection began."""

    t_ns: int
    mark: Mark
    frame: bytes


def of_client(t_ns: int, payload: bytes, opcode: Opcode = "text") -> TimedMessage:
    """Return a message of the client. Raises `ValueError` if it is longer than a recorder takes."""
    _check_length(payload)
    return TimedMessage(t_ns, Mark.CLIENT_CHUNK, encode_frame(opcode, payload, mask=NO_MASK))


def of_server(t_ns: int, payload: bytes, opcode: Opcode = "text") -> TimedMessage:
    """Return a message of the server. Raises `ValueError` if it is longer than a recorder takes."""
    _check_length(payload)
    return TimedMessage(t_ns, Mark.CHUNK, encode_frame(opcode, payload))


def _check_length(payload: bytes) -> None:
    if len(payload) > MESSAGE_LIMIT:
        raise ValueError(f"a message over WebSocket has over {MESSAGE_LIMIT >> 20} MiB")


def connection_head(session: Session, names: Names, target: str, started_ns: int, headers: list[Header]) -> RequestHead:
    """Return the request of a connection. Its turns have their ids from its own, and are to sort right behind it."""
    return RequestHead(
        exchange_id=turn_id(names.new_id(), 0),
        session_id=session.session_id,
        started_ns=started_ns,
        method="GET",
        target=redact_target(target),
        upstream=by_path("POST", target.partition("?")[0]).upstream,
        headers=headers,
        imported=Imported(session),
    )


def upgrade(request: Sequence[Header], response: Sequence[Header]) -> tuple[list[Header], list[Header]]:
    """Return the headers of a handshake that are true for messages without compression; both offer and accept it, also
    where the browser did not save them. A key without its answer is left out: nothing can be checked with it.
    """
    untrue = {_EXTENSIONS} | (set() if any(name.lower() == _ACCEPT for name, _ in response) else {_KEY})
    return _upgraded(request, untrue), _upgraded(response, untrue)


def _upgraded(given: Sequence[Header], untrue: set[str]) -> list[Header]:
    kept = [(name, value) for name, value in given if name.lower() not in untrue]
    names = {name.lower() for name, _ in kept}
    needed = [("connection", "Upgrade"), ("upgrade", PROTOCOL)]
    return [*(each for each in needed if each[0] not in names), *kept]


def connection_entries(
    head: RequestHead,
    response: ResponseHead,
    head_ns: int,
    messages: Iterable[TimedMessage],
    end_ns: int,
    end: ExchangeEnd,
) -> Iterator[Entry]:
    """Yield the records of one connection. It ends at `end_ns`, but not before its last message."""
    yield Entry(Mark.REQUEST, 0, redact_record(head))
    yield Entry(Mark.REQUEST_END, 0, msgspec.json.encode(RequestEnd(complete=True)))
    yield Entry(Mark.RESPONSE, head_ns, redact_record(response))
    for t_ns, mark, frame in messages:
        end_ns = max(end_ns, t_ns)
        for at in range(0, len(frame), BLOCK_BYTES):
            yield Entry(mark, t_ns, frame[at : at + BLOCK_BYTES])
    yield Entry(Mark.END, end_ns, redact_record(end))
