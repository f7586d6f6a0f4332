"""The end of a stream, by its own events: it distinguishes a client that is done from one that
broke off.

Clients close the connection behind the last event of the protocol, and do not wait for the end of
the body: Codex half a millisecond after `response.completed`, SDKs after `[DONE]`. The response is
complete then, whatever its end in HTTP.

The rule is here alone. `recorder.ingest.capture` writes the result into the log, as the outcome
`client_done`; `concluded` computes the same for recordings from before that outcome existed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

import msgspec

from recorder.model.events import (
    BODY_KINDS,
    EndRecord,
    Event,
    Exchange,
    Kind,
    Outcome,
    ResponseHead,
)
from recorder.wire.dialects import Dialect, Ending, by_name
from recorder.wire.dialects.json_values import Object, request_object
from recorder.wire.framing import SSE, Framing
from recorder.wire.framing.sse import BOM, begins_stream

# what stands behind the events of a stream is what its coding left over
OF_STREAMS = BODY_KINDS - {"body"}

# events that are kept to be looked at: the reason to finish and the usage follow each other closely
LATEST = 4

# of the length of a body: no more bytes fit a column, and `int` refuses thousands of digits
LENGTH_DIGITS = 19


class Conclusion:
    """The end of one response, by its events in order."""

    def __init__(self, dialect: Dialect) -> None:
        self.asked = ("", "")  # method and target
        self.read_as(dialect)
        self._latest = deque[bytes](maxlen=LATEST)
        self._framing: Framing = SSE
        self._is_concluded = self._is_cut = False
        self._length = 0  # of the body, at least
        # what the provider said of its response, in an event that is whole or not
        self.verdict: Ending | None = None

    def ask(self, method: str, target: str) -> None:
        """Read what is asked for: of some streams only their reader is the end."""
        self.asked = (method, target)
        self.read_as(self._dialect)

    def read_as(self, dialect: Dialect) -> None:
        """Take what comes from here on for events of that dialect."""
        self._dialect = dialect
        self.is_endless = dialect.is_endless(*self.asked)
        self._terminal, self._is_last = dialect.ends(*self.asked), dialect.is_last
        self._has_choices = dialect.has_choices
        # Of a stream of no known API, an error need not be the end: others follow it.
        self._ending = {
            *dialect.last_types,
            *(() if dialect is by_name("other") else self._terminal),
        }

    def head(self, head: ResponseHead) -> None:
        """Read the head of the response."""
        self._length = next(
            (int(value) for name, value in head.headers if _is_length(name, value)), 0
        )
        self._framing = self._dialect.framing_of(self.asked[1], head.status, head.headers) or SSE

    def follow(self, event: Event) -> None:
        """Add the next event of the exchange.

        Raises `msgspec.MsgspecError` for a head that is none.
        """
        if event.kind in OF_STREAMS:
            self.add(event.kind, event.type, event.output_index, event.raw)
        elif event.kind == "response":
            self.head(msgspec.json.decode(event.raw, type=ResponseHead))

    def add(self, kind: Kind, type: str | None, output_index: int | None, raw: bytes) -> None:
        """Add the next event of the body, of a kind in `OF_STREAMS`.

        The number of several answers is not known in advance: a server may finish one before it
        begins the next.
        """
        self._is_cut = kind == "tail"
        if type in self._ending and not self._is_cut:
            self._is_concluded = True
        verdict = self._terminal.get(type or "")
        if verdict is not None and self.verdict != "failed":
            self.verdict = verdict
        if self._is_last is not None and output_index and self._has_choices:
            self._is_last = None
        elif self._is_last is not None and kind == "frame":
            self._latest.append(raw)

    def outcome(self, outcome: Outcome, wire_bytes: int) -> Outcome:
        """Return how the exchange ended, if its transport ended so, after that many bytes of the
        body.

        A body that has a length, and is not complete, was cut, whatever its events are.
        """
        is_whole = outcome == "client_disconnect" and self._is_over and wire_bytes >= self._length
        return "client_done" if is_whole else outcome

    @property
    def _is_over(self) -> bool:
        if self._is_cut:
            return False
        if self.is_endless or self._is_concluded:
            return True
        return self._is_last is not None and self._is_last(
            [self._payload(raw) for raw in self._latest]
        )

    def _payload(self, raw: bytes) -> Object:
        """Return the payload of a frame.

        What the head calls an array may be a stream of server-sent events.
        """
        raw = raw.removeprefix(BOM)
        framing = SSE if begins_stream(raw) else self._framing
        return request_object(framing.fields(raw).data or b"")


_SEVERITY: Mapping[str, int] = {"completed": 0, "incomplete": 1, "failed": 2}


def worse(status: str, verdict: str) -> str:
    """Return the status of an exchange of whose response the provider said this too: the worse one
    of both.

    An HTTP status of an error stays. A connection that broke has no say where the provider said
    that it failed.
    """
    if status == "error_status":
        return status
    if status not in _SEVERITY:
        return verdict if verdict == "failed" else status
    return max(status, verdict, key=_SEVERITY.__getitem__)


def settled(end: EndRecord, conclusion: Conclusion) -> EndRecord:
    """Return the end of an exchange with the outcome that its events give it."""
    outcome = conclusion.outcome(end.outcome, end.wire_bytes)
    if outcome == end.outcome:
        return end
    # of a stream without a terminal event
    status = "completed" if end.status == end.outcome else end.status
    return msgspec.structs.replace(end, outcome=outcome, status=status, error=None)


def concluded(exchange: Exchange, events: Iterable[Event]) -> EndRecord | None:
    """Return the end of an exchange, by all its events; `None` if it has none.

    Raises `msgspec.MsgspecError`.
    """
    conclusion, end = conclusion_of(exchange), None
    for event in events:
        conclusion.follow(event)
        if event.kind == "end":
            end = msgspec.json.decode(event.raw, type=EndRecord)
    return None if end is None else settled(end, conclusion)


def conclusion_of(exchange: Exchange) -> Conclusion:
    """Return the conclusion of the response of an exchange, which gets its events."""
    conclusion = Conclusion(by_name(exchange.api))
    conclusion.ask(exchange.method, exchange.target)
    return conclusion


def _is_length(name: str, value: str) -> bool:
    return name.lower() == "content-length" and value.isdecimal() and len(value) <= LENGTH_DIGITS
