"""The recorder of one exchange: it writes what passes to the journal, in order.

Whatever goes wrong in here stays in here: no exception of ours reaches the request or the response that passes. The
journal itself counts what it has no room for; should it ever raise, the rest of the response is counted here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

import msgspec

from recorder.journal.format import Gap, Mark
from recorder.model.events import Outcome
from recorder.model.payloads import ExchangeEnd, RequestEnd, RequestHead, ResponseHead
from recorder.proxy.http.messages import Sink
from recorder.wire.redaction.headers import redact_record

log = logging.getLogger(__name__)


class RecordWriter(Protocol):
    """The records of one exchange on their way into a journal: `recorder.journal.writer.ExchangeWriter`, or memory."""

    def write(self, mark: Mark, t_ns: int, payload: bytes, /) -> None:
        """Append a record."""

    def write_all(self, t_ns: int, records: list[tuple[Mark, bytes]]) -> None:
        """Append several records."""

    @property
    def later(self) -> Callable[[int, bytes, Sink], bool]:
        """Append a chunk at `t_ns` at the latest with the next `flush` of the journal, and hand it to the sink then.

        Returns whether that `flush` is to be called. If it raises, the sink does not have the chunk.
        """

    def end(self, t_ns: int, payload: bytes, last: bytes = b"") -> None:
        """Append the last chunk of the response body, if there is one, and the last record."""


class ExchangeJournal(Protocol):
    """A journal that exchanges are recorded into: `recorder.journal.writer.Journal`, or one around it."""

    def exchange(self) -> RecordWriter:
        """Return the writer of a new exchange."""

    def flush(self) -> None:
        """Append the chunks that wait, and hand each on."""


_COMPLETE = (Mark.REQUEST_END, msgspec.json.encode(RequestEnd(complete=True)))


class ExchangeRecorder:
    """Records one exchange. None of its methods raises."""

    def __init__(self, journal: ExchangeJournal, clock_ns: Callable[[], int]) -> None:
        self._journal, self._clock_ns = journal, clock_ns
        self._writer: RecordWriter | None = None
        self._lost_chunks = self._lost_bytes = 0
        self._lost_client_chunks = self._lost_client_bytes = 0
        self._failure: str | None = None
        self._request_ended = self._ended = False
        try:
            self._writer = journal.exchange()
        except Exception as error:
            self._fail(error)

    # -- the request

    def whole_request(self, build_head: Callable[[], RequestHead], body: bytes) -> None:
        """Record a request that has come whole."""
        self._request_ended = True
        bodies = [(Mark.REQUEST_BODY, body)] if body else []
        self._write_all(lambda: [(Mark.REQUEST, redact_record(build_head())), *bodies, _COMPLETE])

    def request_head(self, build: Callable[[], RequestHead]) -> None:
        """Record the head of a request whose body is still to come."""
        self._write(Mark.REQUEST, lambda: redact_record(build()))

    def request_chunk(self, data: bytes) -> None:
        """Record a chunk of the request body. If that fails, the body counts as incomplete."""
        if not self._request_ended:
            self._write(Mark.REQUEST_BODY, lambda: data)

    def request_end(self, *, complete: bool) -> None:
        """Record that the request body has ended; what comes of it after the response began is not recorded."""
        if not self._request_ended:
            self._request_ended = True
            self._write(Mark.REQUEST_END, lambda: redact_record(RequestEnd(complete and self._failure is None)))

    def client_chunk(self, data: bytes) -> None:
        """Record what the client sent after a 101; empty: its FIN. After the first that was lost, they are counted."""
        if self._ended:
            return
        if self._lost_client_chunks or not self._write(Mark.CLIENT_CHUNK, lambda: data):
            self._lost_client_chunks += 1
            self._lost_client_bytes += len(data)

    # -- the response

    def response(self, build_head: Callable[[], ResponseHead], begun: bytes) -> None:
        """Record the head of a response, and what of its body came with it."""
        chunks = [(Mark.CHUNK, begun)] if begun else []
        if not self._write_all(lambda: [(Mark.RESPONSE, redact_record(build_head())), *chunks]) and begun:
            self._lose(begun)

    def chunk(self, data: bytes) -> None:
        """Record a chunk of the response body. After the first that was lost, the others are counted only."""
        if self._lost_chunks or not self._write(Mark.CHUNK, lambda: data):
            self._lose(data)

    def recording_sink(self, sink: Sink) -> Sink:
        """Return a sink that records a chunk of the response body, and hands it to `sink` when it is in the journal.

        This is the hot path: all that a recorder does with a chunk. The chunks of one turn of the event loop, those of
        other exchanges too, are written by one `flush`.
        """
        flush, clock_ns, call_soon = self._journal.flush, self._clock_ns, asyncio.get_running_loop().call_soon
        later = self._count if self._writer is None or self._lost_chunks else self._writer.later

        def pass_on(data: bytes) -> None:
            nonlocal later
            try:
                is_due = later(clock_ns(), data, sink)
            except Exception as error:  # store fails, by a fault of ours; `sink` does not have the chunk yet
                self._fail(error)
                self._lose(data)
                later = self._count  # what comes now would stand in the log before the gap
                sink(data)
                return
            if is_due:
                call_soon(flush)

        return pass_on

    def _count(self, _t_ns: int, data: bytes, sink: Sink) -> bool:
        self._lose(data)
        sink(data)
        return False

    def end(self, outcome: Outcome, error: str | None = None, last: bytes = b"") -> None:
        """Record the end of the exchange, with `last` of the response body. Only the first call counts."""
        if self._ended:
            return
        self._ended = True
        self.request_end(complete=False)
        if last and self._lost_chunks:
            self._lose(last)
            last = b""
        try:
            assert self._writer is not None
            now_ns = self._clock_ns()
            for mark, chunks, size_bytes in (
                (Mark.CHUNK, self._lost_chunks, self._lost_bytes),
                (Mark.CLIENT_CHUNK, self._lost_client_chunks, self._lost_client_bytes),
            ):
                if chunks:
                    gap = Gap(mark, chunks, size_bytes, "", now_ns, now_ns, self._failure or "")
                    self._writer.write(Mark.GAP, now_ns, msgspec.json.encode(gap))
            self._writer.end(now_ns, redact_record(ExchangeEnd(outcome, error or self._failure)), last)
        except Exception as error_here:
            self._fail(error_here)

    # -- the journal

    def _write(self, mark: Mark, build: Callable[[], bytes]) -> bool:
        """Append a record; return whether that worked."""
        try:
            assert self._writer is not None
            self._writer.write(mark, self._clock_ns(), build())
        except Exception as error:
            self._fail(error)
            return False
        return True

    def _write_all(self, build: Callable[[], list[tuple[Mark, bytes]]]) -> bool:
        """Append several records; return whether that worked."""
        try:
            assert self._writer is not None
            self._writer.write_all(self._clock_ns(), build())
        except Exception as error:
            self._fail(error)
            return False
        return True

    def _lose(self, data: bytes) -> None:
        self._lost_chunks += 1
        self._lost_bytes += len(data)

    def _fail(self, error: Exception) -> None:
        if self._failure is None:
            log.error("recording of an exchange failed: %s", type(error).__name__, exc_info=error)
            self._failure = f"The recording of this exchange failed: {type(error).__name__}."
