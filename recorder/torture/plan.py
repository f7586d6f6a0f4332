"""The plan: which faults strike which exchanges, at every boundary that the decoder of their format
sees.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from recorder.model.events import Recording
from recorder.model.facts import Fact, ItemFinished, ItemStarted, ResponseFinished, TextAdded
from recorder.replay.faults.transport import blocks
from recorder.wire.dialects import Dialect, by_name
from recorder.wire.framing import SSE
from recorder.wire.grouping.purpose import placed
from recorder.wire.grouping.rules import Claims
from recorder.wire.recording import framing_in_head, is_stream
from recorder.wire.turns import as_http, is_turn

Boundary = Literal[
    "start", "text", "arguments", "call", "items", "middle", "finish", "last", "after", "whole"
]

_PLACES: Mapping[Boundary, str] = {
    "start": "before the first event",
    "text": "inside a text",
    "arguments": "inside the arguments of a call",
    "call": "at the beginning of a call",
    "items": "between two items",
    "middle": "in the middle",
    "finish": "before the end of the answer",
    "last": "before the last event",
    "after": "after the last event",
    "whole": "the whole answer",
}
"""The boundaries, as they are printed."""

_CUTS = ("end@{n}", "cut@{n}", "cut@{n}:reset", "stall@{n}")

_FORMS: Mapping[Boundary, Sequence[str]] = {
    "start": _CUTS,
    "text": (*_CUTS, "repeat@{n}"),
    "arguments": (*_CUTS, "repeat@{n}"),
    "call": ("repeat@{n}",),
    "items": ("end@{n}", "cut@{n}"),
    "middle": (*_CUTS, "repeat@{n}"),
    "finish": _CUTS,
    "last": ("end@{n}", "cut@{n}"),
    "after": ("cut@{n}", "cut@{n}:reset", "stall@{n}", "repeat@{n}"),
    "whole": ("slice:utf8",),
}
"""The faults at each boundary: `n` is the number of the event that they come after."""

_CLOSES = ("close@{n}:1000", "cut@{n}", "cut@{n}:reset", "stall@{n}")

_FORMS_OVER_WEBSOCKET: Mapping[Boundary, Sequence[str]] = {
    "start": _CLOSES,
    "text": (*_CLOSES, "repeat@{n}"),
    "arguments": (*_CLOSES, "repeat@{n}"),
    "call": ("repeat@{n}",),
    "items": ("close@{n}:1000", "cut@{n}"),
    "middle": (*_CLOSES, "repeat@{n}"),
    "finish": _CLOSES,
    "last": ("close@{n}:1000", "cut@{n}"),
    "after": ("close@{n}:1000", "cut@{n}"),
    "whole": (),
}
"""Over WebSocket: an answer has no end of its own that could come too early, the connection has. A
message is text, so no character is split, and what follows the last one is of no turn."""

_WITH_ERRORS = ("text", "arguments")
"""The boundaries at which a stream says each error of its API too: no client knows them better at
another one.
"""

_TURNS = ("turn", "subagent", None)

# and above: what a stream that has begun may end with; those below are about the request
_OF_SERVERS = 429


class PlannedFault(NamedTuple):
    """A fault that strikes an exchange."""

    exchange: Recording
    form: str
    place: str
    is_whole: bool | None
    """Whether the client gets all of the answer; None: nobody here knows, or what it asks next does
    not tell whether it noticed.
    """


class Stream(NamedTuple):
    """An exchange that can be struck, and the facts of each of its events; a document has none."""

    exchange: Recording
    facts: Sequence[Sequence[Fact]]
    last: int | None  # the number of the first event behind which nothing follows, by its type

    @property
    def has_call(self) -> bool:
        return any(_has_call(facts) for facts in self.facts)

    @property
    def items_end(self) -> int:
        """The number of the event by which all items have ended."""
        return max(_events_with(self.facts, ItemFinished), default=len(self.facts))

    @property
    def finish(self) -> int | None:
        """The number of the event by which the answer is whole."""
        numbers = _events_with(self.facts, ResponseFinished)
        return numbers[0] if numbers else self.last


async def plan(asked: Iterable[Recording]) -> list[PlannedFault]:
    """Return the faults for what a client asked: those at boundaries for the first answer with a
    call, and for the first without; errors of HTTP for the first of both.
    """
    struck = _struck([await _stream(each) for each in asked if _can_be_struck(each)])
    planned: dict[tuple[str, str], PlannedFault] = {}
    for number, stream in enumerate(struck):
        exchange_id = stream.exchange.exchange.exchange_id
        dialect = by_name(stream.exchange.exchange.api)
        statuses = [] if number else _statuses(stream, dialect)
        for fault in (*statuses, *_in_body(stream, dialect)):
            planned.setdefault((exchange_id, fault.form), fault)
    return list(planned.values())


def _can_be_struck(recorded: Recording) -> bool:
    answer = as_http(recorded)
    response = answer.response
    is_answered = response is not None and response.status < 400
    is_readable = not answer.is_switched and not answer.is_coded
    return (
        is_answered
        and is_readable
        and answer.request.method == "POST"
        and _is_in_conversation(recorded)
    )


def _is_in_conversation(recorded: Recording) -> bool:
    """Return whether a request is one of a conversation: a client may well do without the title
    that it asks for.
    """
    exchange, path = recorded.exchange, recorded.request.target.partition("?")[0]
    facts = by_name(exchange.api).request_facts(path, recorded.request_body)
    claims = Claims(recorded.request.headers, recorded.request_body, is_message=is_turn(recorded))
    return placed(exchange.api, recorded.request.method, path, claims, facts).purpose in _TURNS


def _struck(streams: Sequence[Stream]) -> list[Stream]:
    """Return the exchanges that are struck, in the order in which they were asked."""
    first: dict[bool, Stream] = {}
    for stream in streams:
        if stream.facts:
            first.setdefault(stream.has_call, stream)
    return [each for each in streams if each in first.values()] or list(streams[:1])


async def _stream(recorded: Recording) -> Stream:
    answer = as_http(recorded)
    framing = SSE if is_stream(answer) else framing_in_head(answer.exchange, answer.response)
    if framing is SSE and not is_stream(answer):
        return Stream(recorded, [], None)
    dialect = by_name(recorded.exchange.api)
    decoder = dialect.decoder()
    facts: list[Sequence[Fact]] = []
    last: int | None = None
    async for block in blocks(_one(answer.body), framing):
        if block.event is not None:
            fields = framing.fields(block.raw)
            type = dialect.keys.of_fields(block.raw, fields).type
            facts.append(() if fields.data is None else decoder.event(type, fields.data))
            if last is None and type in dialect.last_types:
                last = block.event
    return Stream(recorded, facts, last)


async def _one(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _statuses(stream: Stream, dialect: Dialect) -> Iterator[PlannedFault]:
    """Yield the errors of HTTP that the provider documents."""
    for status in dialect.error_statuses:
        yield PlannedFault(
            stream.exchange, f"status:{status}", "in place of the answer", is_whole=False
        )


def _in_body(stream: Stream, dialect: Dialect) -> Iterator[PlannedFault]:
    """Yield the faults at the boundaries of a body."""
    known = _FORMS_OVER_WEBSOCKET if is_turn(stream.exchange) else _FORMS
    for boundary, n in _boundaries(stream):
        forms = [form.format(n=n) for form in known[boundary]]
        if boundary in _WITH_ERRORS:
            forms += [
                f"error@{n}:{status}" for status in dialect.error_statuses if status >= _OF_SERVERS
            ]
        for form in forms:
            yield PlannedFault(stream.exchange, form, _PLACES[boundary], _is_whole(form, n, stream))


def _is_whole(form: str, n: int, stream: Stream) -> bool | None:
    if form.startswith(("repeat", "slice")):
        return True
    # Who notices that an answer broke off behind a whole call may ask again with the call and its
    # result, as Codex does: after a whole answer it asks the same.
    if stream.finish is None or (n < stream.finish and stream.has_call and n >= stream.items_end):
        return None
    return n >= stream.finish


def _boundaries(stream: Stream) -> Iterator[tuple[Boundary, int]]:
    """Yield the boundaries that a stream has, each with the number of the event before it."""
    finish, last = stream.finish, len(stream.facts)
    yield "start", 0
    if not stream.facts:
        return
    inner = list(_inside(stream.facts))
    yield from inner or [("middle", max(1, last // 2))]
    if finish is not None and finish > 1:
        yield "finish", finish - 1
    if last > 1:
        yield "last", last - 1
    yield "after", last
    if not stream.exchange.body.isascii():
        yield "whole", last


def _inside(facts: Sequence[Sequence[Fact]]) -> Iterator[tuple[Boundary, int]]:
    """Yield the boundaries inside an answer; none of a format that is not known."""
    starts = _events_with(facts, ItemStarted)
    calls = [n for n in starts if _has_call(facts[n - 1])]
    texts = _events_adding(facts, ("text", "refusal"))
    arguments = [n for n in _events_adding(facts, ("arguments",)) if n not in calls]
    deltas: tuple[tuple[Boundary, list[int]], ...] = (
        ("text", texts),
        ("arguments", _of_first(arguments, calls)),
    )
    for boundary, numbers in deltas:
        if len(numbers) > 1:
            yield boundary, numbers[(len(numbers) - 1) // 2]
    if calls:
        yield "call", calls[0]
    if len(starts) > 1:
        yield "items", starts[1] - 1


def _events_with(facts: Sequence[Sequence[Fact]], kind: type[Fact]) -> list[int]:
    """Return the numbers of the events that have a fact of that kind."""
    return [n for n, each in enumerate(facts, 1) if any(isinstance(fact, kind) for fact in each)]


def _events_adding(facts: Sequence[Sequence[Fact]], fields: Sequence[str]) -> list[int]:
    """Return the numbers of the events that add to one of these texts."""
    found = []
    for n, each in enumerate(facts, 1):
        if any(isinstance(fact, TextAdded) and fact.field in fields for fact in each):
            found.append(n)
    return found


def _of_first(arguments: Sequence[int], calls: Sequence[int]) -> list[int]:
    """Return those of the first call."""
    return [n for n in arguments if len(calls) < 2 or n < calls[1]]


def _has_call(facts: Iterable[Fact]) -> bool:
    return any(isinstance(fact, ItemStarted) and fact.stated.kind == "tool_call" for fact in facts)
