"""The times of a response since the exchange began: how long a client waited, and how evenly it was
served.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from operator import sub

from recorder.model.events import Event, Exchange
from recorder.model.facts import Field
from recorder.projections.rows import TimingRow

STALL_NS = 2_000_000_000  # a silence in which a person wonders whether it still runs


class RunningGaps:
    """The gaps between the events of an exchange, in ascending order at any time."""

    def __init__(self) -> None:
        self._seen = 1
        self._ascending: list[int] = []

    def of(self, times: Sequence[int]) -> list[int]:
        """Return the gaps of these times, of which further ones may be there since the last call."""
        for index in range(self._seen, len(times)):
            insort(self._ascending, times[index] - times[index - 1])
        self._seen = max(1, len(times))
        return self._ascending


class Timing:
    """The times, as they are told; the fold of items reports to `began`."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.head_ns: int | None = None
        self.first_byte_ns: int | None = None
        self.duration_ns: int | None = None
        self._first: dict[Field, int] = {}
        # of all events so far: eight bytes each, while their texts are held too
        self.times = array("q")
        # of a document: when its first and its last piece came
        self._body_began_ns: int | None = None
        self._body_ended_ns: int | None = None
        self.size_bytes = 0
        self.is_derived = False  # its times are those of lines of a transcript, not of bytes

    def event(self, event: Event) -> None:
        """Note a piece of the body.

        A long event in parts counts with its last part; a document is not an event.
        """
        if event.kind == "frame" or (event.type is not None and event.kind != "body"):
            self.times.append(event.t_ns)
        elif event.kind == "body":
            if self._body_began_ns is None:
                self._body_began_ns = event.t_ns
            self._body_ended_ns = event.t_ns
        self.size_bytes += len(event.raw)

    def frames(self, events: Iterable[Event]) -> None:
        """Note frames, as `event` does each."""
        self.times.fromlist([event.t_ns for event in events])
        self.size_bytes += sum([len(event.raw) for event in events])

    def began(self, field: Field, event: Event) -> None:
        """Note that a text began."""
        if field not in self._first and event.kind in _STREAMED:
            self._first[field] = event.t_ns

    def rows(self) -> Iterable[TimingRow]:
        yield self.row(sorted(map(sub, self.times[1:], self.times)))

    def row(self, gaps: list[int]) -> TimingRow:
        """Return the row. `gaps` are those between the events so far, in ascending order."""
        if self.is_derived:
            return Timing(self._exchange).row([])
        reasoning = self._earliest("reasoning", "summary")
        text = self._earliest("text", "refusal")
        arguments = self._earliest("arguments")
        times = self.times
        first = times[0] if times else self._body_began_ns
        last = times[-1] if times else self._body_ended_ns
        span_ns = 0 if first is None or last is None else last - first
        return TimingRow(
            self._exchange.session_id,
            self._exchange.exchange_id,
            head_ns=self.head_ns,
            first_byte_ns=first if self.first_byte_ns is None else self.first_byte_ns,
            first_event_ns=first,
            first_reasoning_ns=reasoning,
            first_text_ns=text,
            first_arguments_ns=arguments,
            ttft_ns=min(
                (t_ns for t_ns in (reasoning, text, arguments) if t_ns is not None), default=None
            ),
            last_event_ns=last,
            duration_ns=self.duration_ns,
            longest_silence_ns=gaps[-1] if gaps else None,
            stalls=len(gaps) - bisect_right(gaps, STALL_NS),
            events=len(times) if times else int(first is not None),
            bytes=self.size_bytes,
            events_per_s=_per_second(len(times) - 1, span_ns) if times else None,
            bytes_per_s=_per_second(self.size_bytes, span_ns),
            gap_p50_ns=_percentile(gaps, 50),
            gap_p95_ns=_percentile(gaps, 95),
            gap_p99_ns=_percentile(gaps, 99),
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
