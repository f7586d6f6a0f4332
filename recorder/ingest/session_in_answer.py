"""The session that a provider makes, and names in its answer: the request that makes it is of that
session, too.

Until the answer says the id, the records behind the request are held. The journal has them all the
while, so that nothing is lost by it; the log gets them a moment later, as they are.
"""

from __future__ import annotations

import msgspec

from recorder.ingest.capture import Capture
from recorder.journal.format import Mark, Record
from recorder.model.events import Event, ExchangeEnd, RequestHead, ResponseHead
from recorder.wire.dialects import by_path
from recorder.wire.dialects.dialect import HostedSession
from recorder.wire.dialects.json_values import request_object
from recorder.wire.grouping.session import Grouping, by_answer

# bytes of an answer: above any description of an agent that a session repeats
HELD_LIMIT = 256 * 1024

_OF_BODY = frozenset({Mark.REQUEST_BODY, Mark.BLANK})


class SessionInAnswer:
    """The records of a request that makes a session, from its end on, and what its answer says of
    that.
    """

    def __init__(self, head: RequestHead, hosted: HostedSession, started_ns: int) -> None:
        self._head, self._hosted = head, hosted
        self._capture = Capture("", "", by_path(head.method, head.target), started_ns)
        self._capture.request(head, b"", wire=b"")
        self._document = b""
        self._size_bytes = 0
        self._name: str | None = None
        self._is_stream = False
        self._held: list[Record] = []
        self._is_settled = False

    def waits_for(self, record: Record) -> bool:
        """Return whether a record is one to hold."""
        return not self._is_settled and record.mark not in _OF_BODY

    def hear(self, record: Record) -> list[Record]:
        """Hold a record.

        Return all that are held with the one that says the id, or after which none can come.
        """
        self._held.append(record)
        try:
            for event in self._events(record):
                self._name = self._name or self._named_in(event)
        except MemoryError:
            raise
        except Exception:  # what is wrong with a record is said where it is fed, a moment later
            return self.release()
        is_open = record.mark in (Mark.REQUEST_END, Mark.RESPONSE, Mark.CHUNK)
        is_settled = self._name is not None or not is_open or self._size_bytes > HELD_LIMIT
        return self.release() if is_settled else []

    def release(self) -> list[Record]:
        """Return the records that are held, and hold no more."""
        held, self._held = self._held, []
        self._is_settled = True
        return held

    def grouping(self, found: Grouping) -> Grouping:
        """Return the grouping of the request, by what its answer said."""
        return by_answer(found, self._head, self._name, is_stream=self._is_stream)

    def _events(self, record: Record) -> list[Event]:
        """Return the events of a part of the answer."""
        if record.mark == Mark.RESPONSE:
            return self._capture.response(
                record.t_ns, msgspec.json.decode(record.payload, type=ResponseHead)
            )
        if record.mark == Mark.CHUNK:
            self._size_bytes += len(record.payload)
            return self._capture.chunk(record.t_ns, record.payload)
        if record.mark == Mark.END:
            return self._capture.end(
                record.t_ns, msgspec.json.decode(record.payload, type=ExchangeEnd)
            )
        return []

    def _named_in(self, event: Event) -> str | None:
        self._is_stream = event.kind == "frame"
        payload = b""
        if self._is_stream and event.data_start is not None and event.data_length is not None:
            payload = event.raw[event.data_start : event.data_start + event.data_length]
        elif event.kind == "body":
            self._document += event.raw
            # perhaps: else it is not worth to be read
            is_whole = self._document.rstrip().endswith(b"}")
            payload = self._document if is_whole else b""
        return self._hosted.id_in(request_object(payload))


def session_in_answer(head: RequestHead, started_ns: int) -> SessionInAnswer | None:
    """Return what hears the answer to a request, if that makes a session; an imported one has its
    session.
    """
    hosted = by_path(head.method, head.target).hosted
    if hosted is None or head.imported is not None:
        return None
    makes = hosted.made.fullmatch(f"{head.method} {head.target.partition('?')[0]}")
    return SessionInAnswer(head, hosted, started_ns) if makes else None
