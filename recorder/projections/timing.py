"""The times of a response since the exchange began: how long a client waited, and how evenly it was served."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappush, heappushpop
from operator import sub
from typing import NamedTuple

from recorder.model.events import Event, Exchange
from recorder.model.facts import ExchangeEnded, Fact, Field, FirstByte, HeadReceived
from recorder.projections.projection import Handler
from recorder.projections.rows import TimingRow

STALL_NS = 2_000_000_000  # a silence in which a person wonders whether it still runs
PERCENTS = (50, 95, 99)


class Gaps(NamedTuple):
    """The times between events and the next ones, in numbers."""

    longest_ns: int | None = None
    stalls: int = 0
    p50_ns: int | None = None
    p95_ns: int | None = None
    p99_ns: int | None = None


class _Percentile:
    """A percentile, by nearest rank, of numbers that come one by one: those up to it in one heap, others in another."""

    def __init__(self, percent: int) -> None:
        self._percent, self._count = percent, 0
        self._low: list[int] = []  # negative: the greatest first
        self._high: list[int] = []

    def add(self, number: int) -> None:
        self._count += 1
        if -(-self._count * self._percent // 100) > len(self._low):
            heappush(self._low, -heappushpop(self._high, number))
        else:
            heappush(self._high, -heappushpop(self._low, -number))

    @property
    def value(self) -> int | None:
        return -self._low[0] if self._low else None


class RunningGaps:
    """The gaps between the events of an exchange, which all numbers of are known at any time."""

    def __init__(self) -> None:
        self._seen = 0
        self._percentiles = [_Percentile(percent) for percent in PERCENTS]
        self._longest_ns: int | None = None
        self._stalls = 0
        self._gaps = Gaps()

    def of(self, times: Sequence[int]) -> Gaps:
        """Return the gaps of these times, of which further ones may be there since the last call."""
        if len(times) == self._seen:
            return self._gaps
        for index in range(max(self._seen, 1), len(times)):
            gap = times[index] - times[index - 1]
            for percentile in self._percentiles:
                percentile.add(gap)
            if self._longest_ns is None or gap > self._longest_ns:
                self._longest_ns = gap
            self._stalls += gap > STALL_NS
        self._seen = len(times)
        self._gaps = Gaps(self._longest_ns, self._stalls, *[each.value for each in self._percentiles])
        return self._gaps


class Timing:
    """The fold; the fold of items reports to `began`."""

    def __init__(self, exchange: Exchange) -> None:
        self._ids = (exchange.session_id, exchange.exchange_id)
        self._head_ns: int | None = None
        self._first_byte_ns: int | None = None
        self._duration_ns: int | None = None
        self._first: dict[Field, int] = {}
        self._times = array("q")  # of events: eight bytes each, while their texts are held too
        self._document: tuple[int, ...] = ()  # when its first and its last piece came
        self.size_bytes = 0

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {
            HeadReceived: self._on_responded,
            FirstByte: self._on_first_byte,
            ExchangeEnded: self._on_ended,
        }

    def event(self, event: Event) -> None:
        """Note a piece of the body. A long event in parts counts with its last part; a document is not an event."""
        if event.kind == "frame" or (event.type is not None and event.kind != "body"):
            self._times.append(event.t_ns)
        elif event.kind == "body":
            self._document = (self._document or (event.t_ns,))[0], event.t_ns
        self.size_bytes += len(event.raw)

    def frames(self, events: Iterable[Event]) -> None:
        """Note frames, as `event` does each."""
        self._times.fromlist([event.t_ns for event in events])
        self.size_bytes += sum([len(event.raw) for event in events])

    def _on_responded(self, fact: HeadReceived, event: Event) -> None:
        self._head_ns = event.t_ns

    def _on_first_byte(self, fact: FirstByte, event: Event) -> None:
        if self._first_byte_ns is None:
            self._first_byte_ns = fact.t_ns

    def began(self, field: Field, event: Event) -> None:
        """Note that a text began."""
        if field not in self._first and event.kind in _STREAMED:
            self._first[field] = event.t_ns

    def _on_ended(self, fact: ExchangeEnded, event: Event) -> None:
        self._duration_ns = event.t_ns

    @property
    def times(self) -> Sequence[int]:
        """Return the times of all events so far."""
        return self._times

    def rows(self) -> Iterable[TimingRow]:
        gaps = sorted(map(sub, self._times[1:], self._times))
        longest_ns = gaps[-1] if gaps else None
        stalls = len(gaps) - bisect_right(gaps, STALL_NS)
        yield self.row(Gaps(longest_ns, stalls, *(_percentile(gaps, percent) for percent in PERCENTS)))

    def row(self, gaps: Gaps) -> TimingRow:
        """Return the row, with the gaps between the events so far."""
        reasoning = self._earliest("reasoning", "summary")
        text = self._earliest("text", "refusal")
        arguments = self._earliest("arguments")
        times = self._times
        spoken = times or self._document or (None,)
        first, last = spoken[0], spoken[-1]
        span_ns = 0 if first is None or last is None else last - first
        return TimingRow(
            *self._ids,
            head_ns=self._head_ns,
            first_byte_ns=first if self._first_byte_ns is None else self._first_byte_ns,
            first_event_ns=first,
            first_reasoning_ns=reasoning,
            first_text_ns=text,
            first_arguments_ns=arguments,
            ttft_ns=min((t_ns for t_ns in (reasoning, text, arguments) if t_ns is not None), default=None),
            last_event_ns=last,
            duration_ns=self._duration_ns,
            longest_silence_ns=gaps.longest_ns,
            stalls=gaps.stalls,
            events=len(times) if times else int(first is not None),
            bytes=self.size_bytes,
            events_per_s=_per_second(len(times) - 1, span_ns) if times else None,
            bytes_per_s=_per_second(self.size_bytes, span_ns),
            gap_p50_ns=gaps.p50_ns,
            gap_p95_ns=gaps.p95_ns,
            gap_p99_ns=gaps.p99_ns,
        )

    def _earliest(self, *fields: Field) -> int | None:
        times = [self._first[field] for field in fields if field in self._first]
        return min(times) if times else None


_STREAMED = frozenset({"frame", "part", "tail"})  # a body that is not a stream has no first token


def _per_second(count: int, span_ns: int) -> float | None:
    return round(count * 1e9 / span_ns, 3) if span_ns > 0 else None


def _percentile(ascending: list[int], percent: int) -> int | None:
    """Return the smallest value that at least `percent` of them do not pass (nearest rank)."""
    return ascending[-(-len(ascending) * percent // 100) - 1] if ascending else None
