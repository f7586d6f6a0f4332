"""Paces: when the events of the streams are written."""

from __future__ import annotations

import asyncio
import time

from benchmarks.load import BATCH, Stream


class Paced:
    """So many events a second in each stream, at times spread evenly over all streams.

    It waits busily: the timers of an event loop are of whole milliseconds, and events would come in
    bursts.
    """

    batch = 1

    def __init__(self, rate: float, streams: int) -> None:
        self._gap_ns = round(1e9 / (rate * streams))
        self._streams: list[Stream] = []
        self._next = self._due_ns = 0
        self._stopped = False

    def start(self, stream: Stream) -> None:
        self._streams.append(stream)
        if len(self._streams) == 1:
            self._due_ns = time.monotonic_ns()
            asyncio.get_running_loop().call_soon(self._turn)

    def arrived(self, stream: Stream) -> None:
        pass

    def stop(self) -> None:
        self._stopped = True

    def _turn(self) -> None:
        if self._stopped:
            return
        # one a turn: what comes back is looked for in between
        if self._due_ns <= time.monotonic_ns():
            self._due_ns += self._gap_ns
            self._streams[self._next % len(self._streams)].send()
            self._next += 1
        asyncio.get_running_loop().call_soon(self._turn)


class Timed:
    """So many events a second in each stream, by the timers of the event loop: others may use its
    core meanwhile.
    """

    batch = 1

    def __init__(self, rate: float) -> None:
        self._gap_s = 1 / rate
        self._stopped = False

    def start(self, stream: Stream) -> None:
        self._turn(stream, asyncio.get_running_loop().time())

    def arrived(self, stream: Stream) -> None:
        pass

    def stop(self) -> None:
        self._stopped = True

    def _turn(self, stream: Stream, due_s: float) -> None:
        if not self._stopped:
            stream.send()
            due_s += self._gap_s
            asyncio.get_running_loop().call_at(due_s, self._turn, stream, due_s)


class Closed:
    """The next event when the last has arrived; with `events`, the end after so many."""

    batch = 1

    def __init__(self, events: int | None = None) -> None:
        self._events = events
        self._stopped = False

    def start(self, stream: Stream) -> None:
        stream.send()

    def arrived(self, stream: Stream) -> None:
        if stream.sent == self._events:
            stream.finish()
        elif not self._stopped:
            stream.send()

    def stop(self) -> None:
        self._stopped = True


class Flat:
    """Batches as fast as the connection takes them, then the end."""

    batch = BATCH

    def __init__(self, events: int) -> None:
        self._events = events

    def start(self, stream: Stream) -> None:
        assert stream.upstream is not None
        if stream.sent >= self._events:
            stream.finish()
            return
        if stream.upstream.writable:
            stream.send_batch()
        asyncio.get_running_loop().call_soon(self.start, stream)

    def arrived(self, stream: Stream) -> None:
        pass

    def stop(self) -> None:
        pass
