"""Faults of a stream: contradictions, missing parts, unknown content.

Other folds report here what they see (`Note`); numbers, types and ends are checked here. Anomalies of one kind about
one thing are one row, with the event where the first one shows and their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from recorder.model.events import ENDED_HERE, SWITCHED, WEBSOCKET, Event, Exchange
from recorder.model.facts import (
    ExchangeEnded,
    Fact,
    Handler,
    HeadReceived,
    LostBytes,
    MalformedPayload,
    OversizedPayload,
    ResponseFinished,
    ResponseStarted,
    UnknownType,
    UnreadableResponse,
    UnreadText,
    UnterminatedEvent,
)
from recorder.model.text import counted, storable
from recorder.projections.rows import Anomaly, AnomalyRow
from recorder.wire.dialects import by_name
from recorder.wire.dialects.keys import DONE

ANOMALIES_LIMIT = 1_000  # rows of one exchange: the last of them counts all further ones
DETAIL_LIMIT = 500  # characters
ANY = -1  # no number that is sent: the next one may be any

_FURTHER: tuple[Anomaly, str] = ("cut", f"anomalies after the first {ANOMALIES_LIMIT - 1:,}")


class _Seen(msgspec.Struct):
    """The events that show an anomaly so far."""

    pos: int  # of the first
    count: int = 0
    characters: int = 0  # of content that is in no view because of it

    def told(self, about: str) -> str:
        """Return what it is about, with the size of what is missing."""
        if not self.characters:
            return about
        size = counted(self.characters, "character")
        return f"{about} ({size})" if about else size


class Anomalies:
    """The fold; the others report to `note`."""

    def __init__(self, exchange: Exchange) -> None:
        dialect = by_name(exchange.api)
        self._ids = (exchange.session_id, exchange.exchange_id)
        self._terminal, self._needs_terminal = dialect.terminal, dialect.needs_terminal
        self._says_its_end = dialect is not by_name("other")
        self._seen: dict[tuple[Anomaly, str], _Seen] = {}
        self.noted = 0  # times that something was reported: as long as it is the same, so are the rows
        self._is_turn = exchange.method == WEBSOCKET
        resumes_after = exchange.resumes_after
        self.next_number = 0 if resumes_after is None else resumes_after + 1
        self._before_gap = -1  # the highest number before a gap of the recorder
        self._response_id: str | None = None
        self.endings: list[str] = []
        self._is_finished = False
        self._is_connection = False  # over WebSocket: what it has belongs to no one response

    def note(self, kind: Anomaly, detail: str, event: Event, characters: int = 0) -> None:
        """Count an anomaly: its kind, what it is about in a few words, and the event at which it shows.

        `characters`: the size of the content that no view has because of it. Who drops content reports it here, so that
        each text that a delta brings is in a view, or in the sum of an anomaly.
        """
        self.noted += 1
        key = (kind, detail[:DETAIL_LIMIT])
        if key not in self._seen and len(self._seen) >= ANOMALIES_LIMIT - 1:
            key = _FURTHER
        seen = self._seen.setdefault(key, _Seen(event.pos))
        seen.count += 1
        seen.characters += characters

    def last_number(self) -> int | None:
        """Return the highest sequence number so far."""
        highest = max(self.next_number - 1, self._before_gap)
        return highest if highest >= 0 else None

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {
            HeadReceived: self._on_responded,
            ResponseStarted: self._on_started,
            ResponseFinished: self._on_finished,
            UnknownType: lambda fact, event: self.note("unknown_type", fact.type, event),
            MalformedPayload: lambda fact, event: self.note("malformed", fact.reason, event, fact.characters),
            UnreadText: lambda fact, event: self.note("unread", fact.place, event, fact.characters),
            UnreadableResponse: lambda fact, event: self.note("unreadable", fact.reason, event),
            UnterminatedEvent: lambda fact, event: self.note("unterminated", "", event, fact.characters),
            OversizedPayload: lambda fact, event: self.note("too_large", f"{fact.size_bytes} bytes", event),
            LostBytes: self._on_lost,
            ExchangeEnded: self._on_ended,
        }

    def event(self, event: Event) -> None:
        """Check the number and the type of an event."""
        number = event.sequence_number
        if number == self.next_number:
            self.next_number = number + 1
        elif number is not None:
            self.out_of_sequence(number, event)
        if (event.type in self._terminal or self.endings) and event.kind != "body":
            self._at_the_end(event)

    def are_next(self, events: Sequence[Event]) -> bool:
        """Return whether there is nothing to note of events that are not an end, and if so, count their numbers."""
        numbers = [event.sequence_number for event in events]
        if self.endings:
            return False
        if numbers[0] is None:
            return numbers.count(None) == len(numbers)
        if numbers != [*range(self.next_number, self.next_number + len(numbers))]:
            return False
        self.next_number += len(numbers)
        return True

    def _on_responded(self, fact: HeadReceived, event: Event) -> None:
        self._is_connection = fact.http_status == SWITCHED and not self._is_turn

    def out_of_sequence(self, number: int, event: Event) -> None:
        if self._is_connection:
            return
        expected = number if self.next_number == ANY else self.next_number
        if number > expected:
            missing = str(expected) if number == expected + 1 else f"{expected} to {number - 1}"
            self.note("sequence_gap", missing, event)
        elif number < expected:
            self.note("sequence_repeat", "", event)
        self.next_number = max(number + 1, expected)

    def _at_the_end(self, event: Event) -> None:
        """Check an event at the end: an error may be followed by the end that it caused, and comments may follow
        anything.
        """
        type = event.type
        if type is None or self._is_connection:
            return
        if type not in self._terminal:
            if type != DONE:  # several gateways send it after any stream
                self.note("after_terminal", type, event)
            return
        if self.endings and self.endings != ["error"]:
            self.note("duplicate_terminal", type, event)
        self.endings.append(type)

    def _on_started(self, fact: ResponseStarted, event: Event) -> None:
        if fact.response_id is None:
            return
        if self._response_id is not None and fact.response_id != self._response_id:
            self.note("id_rotation", "response", event)
        self._response_id = fact.response_id

    def _on_finished(self, fact: ResponseFinished, event: Event) -> None:
        self._is_finished = True

    def _on_lost(self, fact: LostBytes, event: Event) -> None:
        self.note("not_recorded", f"{fact.size_bytes} bytes of the {fact.of}", event)
        if fact.of == "response":
            self._before_gap, self.next_number = max(self._before_gap, self.next_number - 1), ANY

    def _on_ended(self, fact: ExchangeEnded, event: Event) -> None:
        """Report a missing end; what a client or this recorder broke off need not have one."""
        is_ours = fact.outcome in ENDED_HERE
        is_finished = self._is_finished and not self._needs_terminal and fact.outcome == "eof"
        is_ended = not self._says_its_end or bool(self.endings) or is_finished
        if fact.frames and not is_ended and not is_ours:
            self.note("missing_terminal", "", event)

    def rows(self) -> Iterable[AnomalyRow]:
        for number, ((kind, about), seen) in enumerate(self._seen.items()):
            yield AnomalyRow(*self._ids, number, kind, seen.pos, seen.count, storable(seen.told(about)))
