"""What is kept of one exchange: its records, in the order in which it has them.

Whatever goes wrong in here stays in here: no exception of ours reaches the request or the response that passes. The
journal itself counts what it has no room for; should it ever raise, the rest of the response is counted here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from recorder.journal.format import Gap, Mark
from recorder.model.events import Outcome
from recorder.model.payloads import ExchangeEnd, RequestEnd, RequestHead, ResponseHead
from recorder.wire.redaction.headers import redact_record

log = logging.getLogger(__name__)


class Tape(Protocol):
    """Where the records of one exchange go: `recorder.journal.writer.JournalExchange`.

    That has more: `later`, `write_all`, and an `end` that takes the last chunk with it.
    """

    def write(self, mark: Mark, t_ns: int, payload: bytes) -> None: ...

    def end(self, t_ns: int, payload: bytes) -> None: ...


class Journal(Protocol):
    """Maker of a tape for each exchange: `recorder.journal.writer.Journal`, which has a `flush` for what may wait."""

    def exchange(self) -> Tape: ...


Sink = Callable[[bytes], None]
"""Takes a chunk, and does not raise."""

_COMPLETE = (Mark.REQUEST_END, msgspec.json.encode(RequestEnd(complete=True)))


class Kept:
    """What is kept of one exchange. None of its methods raises."""

    def __init__(self, journal: Journal, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._tape: Tape | None = None
        self._lost_chunks = self._lost_bytes = 0
        self._failure: str | None = None
        self._request_ended = self._ended = False
        self._write_all: Callable[[int, list[tuple[Mark, bytes]]], None] | None = None
        self._later: Callable[[int, bytes, Sink], bool] | None = None
        self._flush: Callable[[], None] | None = None
        try:
            self._tape = journal.exchange()
            self._write_all = getattr(self._tape, "write_all", None)
            self._later = getattr(self._tape, "later", None)
            self._flush = getattr(journal, "flush", None)
        except Exception as error:
            self._fail(error)

    def request(self, build: Callable[[], RequestHead], body: bytes) -> None:
        """Keep a request that has come whole."""
        if self._write_all is None:
            self.head(Mark.REQUEST, build)
            if body:
                self.keep_request(body)
            self.request_end(complete=True)
            return
        self._request_ended = True
        try:
            bodies = [(Mark.REQUEST_BODY, body)] if body else []
            self._write_all(self._clock_ns(), [(Mark.REQUEST, redact_record(build())), *bodies, _COMPLETE])
        except Exception as error:
            self._fail(error)

    def response(self, build: Callable[[], ResponseHead], begun: bytes) -> None:
        """Keep the head of a response, and what of its body came with it."""
        if self._write_all is None or not begun:
            self.head(Mark.RESPONSE, build)
            if begun:
                self.keep_response(begun)
            return
        try:
            self._write_all(self._clock_ns(), [(Mark.RESPONSE, redact_record(build())), (Mark.CHUNK, begun)])
        except Exception as error:
            self._fail(error)
            self._lose(begun)

    def head(self, mark: Mark, build: Callable[[], msgspec.Struct]) -> None:
        """Keep a record of which there is one."""
        self._write(mark, lambda: redact_record(build()))

    def keep_request(self, data: bytes) -> None:
        """Keep a chunk of the request body. If that fails, the body counts as incomplete."""
        if not self._request_ended:
            self._write(Mark.REQUEST_BODY, lambda: data)

    def keep_response(self, data: bytes) -> None:
        """Keep a chunk of the response body. After the first that was lost, the others are counted only."""
        if self._lost_chunks or not self._write(Mark.CHUNK, lambda: data):
            self._lose(data)

    def passing(self, sink: Sink) -> Sink:
        """What keeps a chunk of the response body, and hands it to `sink` then. Once that failed it counts them."""
        flush, clock_ns = self._flush, self._clock_ns
        if self._later is None or flush is None or self._lost_chunks:
            return partial(self._pass_on, sink)
        later, call_soon = self._later, asyncio.get_running_loop().call_soon

        def pass_on(data: bytes) -> None:
            nonlocal later
            try:
                is_due = later(clock_ns(), data, sink)
            except Exception as error:  # a fault of ours; `sink` does not have the chunk yet
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

    def _pass_on(self, sink: Sink, data: bytes) -> None:
        self.keep_response(data)
        sink(data)

    def request_end(self, *, complete: bool) -> None:
        """The request body is over; whatever comes of it later, after the response began, is not part of the record."""
        if not self._request_ended:
            self._request_ended = True
            self.head(Mark.REQUEST_END, lambda: RequestEnd(complete and self._failure is None))

    def end(self, outcome: Outcome, error: str | None = None, last: bytes = b"") -> None:
        """The exchange is over, with `last` of the response body. Only the first call counts."""
        if self._ended:
            return
        self._ended = True
        self.request_end(complete=False)
        if last and (self._write_all is None or self._lost_chunks):
            self.keep_response(last)
            last = b""
        try:
            assert self._tape is not None
            now_ns = self._clock_ns()
            if self._lost_chunks:
                gap = Gap(Mark.CHUNK, self._lost_chunks, self._lost_bytes, "", now_ns, now_ns, self._failure or "")
                self._tape.write(Mark.GAP, now_ns, msgspec.json.encode(gap))
            said = redact_record(ExchangeEnd(outcome, error or self._failure))
            self._tape.end(now_ns, said, *([last] if last else []))
        except Exception as error_here:
            self._fail(error_here)

    def _lose(self, data: bytes) -> None:
        self._lost_chunks += 1
        self._lost_bytes += len(data)

    def _write(self, mark: Mark, payload: Callable[[], bytes]) -> bool:
        try:
            assert self._tape is not None
            self._tape.write(mark, self._clock_ns(), payload())
        except Exception as error:
            self._fail(error)
            return False
        return True

    def _fail(self, error: Exception) -> None:
        if self._failure is None:
            log.error("recording of an exchange failed: %s", type(error).__name__, exc_info=error)
            self._failure = f"The recording of this exchange failed: {type(error).__name__}."
