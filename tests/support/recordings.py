"""Recorded exchanges made by hand, and requests for them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from recorder.ingest.assembler import Assembler
from recorder.journal.format import START, Mark, Record
from recorder.lint import PROFILES, RULES, Finding, Profile, Rule, lint, profile_of
from recorder.model.events import Event, Exchange, Outcome
from recorder.model.payloads import ExchangeEnd, Header, RequestEnd, RequestHead, RequestRecord, ResponseHead
from recorder.model.recording import Piece, Recording
from recorder.replay.matching import MatchRequest
from recorder.wire.recording import recording_of

SSE = "text/event-stream"


def as_body(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def ask(
    body: Any = b"",
    target: str = "/v1/responses",
    *,
    method: str = "POST",
    upstream: str = "openai",
    headers: Sequence[Header] = (),
) -> MatchRequest:
    """A request; a body that is not bytes is sent as JSON."""
    return MatchRequest(method, target, upstream, list(headers), as_body(body))


def get(target: str) -> MatchRequest:
    return ask(target=target, method="GET")


def record(
    request: MatchRequest, *raws: bytes, name: str = "e", content_type: str = SSE, first_number: int = 0
) -> Recording:
    """`request` as it was answered with frames, numbered from `first_number` on."""
    exchange = Exchange(
        *("s", name, 1, "r", request.upstream, "other", request.method, request.target),
    )
    head = RequestRecord(
        *(request.method, request.target, request.upstream, request.headers),
        *(len(request.body), "", len(request.body), True),
    )
    pieces = tuple(Piece(number, raw, first_number + number) for number, raw in enumerate(raws))
    response = ResponseHead(200, "OK", [("content-type", content_type)])
    return Recording(exchange, head, request.body, response, 0, pieces, (), None, len(raws))


def event(type: str, number: int, **fields: Any) -> bytes:
    data = json.dumps({"type": type, "sequence_number": number, **fields})
    return f"event: {type}\ndata: {data}\n\n".encode()


def stream(id: str, deltas: int = 3, *, whole: bool = True) -> list[bytes]:
    """A response of the Responses API; one that is not whole breaks off before its last event."""
    begun = event("response.created", 0, response={"id": id, "status": "in_progress"})
    told = [event("response.output_text.delta", number, delta="x") for number in range(1, deltas + 1)]
    ended = event("response.completed", deltas + 1, response={"id": id, "status": "completed"})
    return [begun, *told, *([ended] if whole else [])]


# -- Replies made by hand, recorded as the proxy would, and what `lint` says of them: the harness of all rules


Json = dict[str, Any]
Encoding = Callable[[Json], bytes]

SECOND = 1_000_000_000
STEP_NS = 10_000_000  # from one event to the next, if nothing else is said


def named(event: Json) -> bytes:
    """An event as OpenAI Responses and Anthropic send it: with its type as its name."""
    return f"event: {event.get('type')}\ndata: {json.dumps(event)}\n\n".encode()


def unnamed(event: Json) -> bytes:
    """An event as OpenAI Chat sends it."""
    return f"data: {json.dumps(event)}\n\n".encode()


def crlf(event: Json) -> bytes:
    """An event as Gemini sends it."""
    return f"data: {json.dumps(event)}\r\n\r\n".encode()


class Reply(NamedTuple):
    """What a provider answers. Methods give another one; this one stays as it is."""

    events: tuple[Json | bytes, ...] = ()  # bytes are sent as they are
    encoding: Encoding = named
    target: str = "/v1/responses"
    method: str = "POST"
    asked: Any = None  # the request body
    status: int = 200
    headers: tuple[Header, ...] = (("content-type", "text/event-stream; charset=utf-8"),)
    body: bytes | None = None  # in the place of events, sent as it is
    pauses: Mapping[int, float] = {}  # seconds before the event of that number, from 0; len(events): before the end
    outcome: Outcome | None = "eof"  # None: it is still open

    def without(self, *numbers: int | str) -> Reply:
        """Less some events, by number (from the end if negative) or type."""
        gone = {number for each in numbers for number in self.where(each)}
        return self._replace(events=tuple(each for number, each in enumerate(self.events) if number not in gone))

    def edited(self, which: int | str, change: Callable[[Json], object]) -> Reply:
        """With a change made to copies of some events: `reply.edited(3, lambda event: event.pop("item_id"))`."""
        events = list(self.events)
        for number in self.where(which):
            event = copy.deepcopy(events[number])
            assert isinstance(event, dict), "bytes are not edited"
            change(event)
            events[number] = event
        return self._replace(events=tuple(events))

    def put(self, number: int, *events: Json | bytes) -> Reply:
        """With more events, before the one of that number."""
        return self._replace(events=(*self.events[:number], *events, *self.events[number:]))

    def moved(self, which: int, to: int) -> Reply:
        """With an event where another one was."""
        events = list(self.events)
        events.insert(to, events.pop(which))
        return self._replace(events=tuple(events))

    def numbered(self, first: int = 0) -> Reply:
        """With sequence numbers as they should be."""
        events = list(self.events)
        for number, event in enumerate(events):
            if isinstance(event, dict):
                events[number] = {**event, "sequence_number": first + number}
        return self._replace(events=tuple(events))

    def headed(self, name: str, value: str | None) -> Reply:
        """With a header, or without it."""
        kept = tuple(header for header in self.headers if header[0].lower() != name.lower())
        return self._replace(headers=kept if value is None else (*kept, (name, value)))

    def where(self, which: int | str) -> list[int]:
        """The numbers of events, by number or type."""
        if isinstance(which, int):
            return [range(len(self.events))[which]]
        found = [n for n, each in enumerate(self.events) if isinstance(each, dict) and each.get("type") == which]
        assert found, f"the reply has no {which}"
        return found

    def blocks(self) -> list[bytes]:
        """What is sent, event by event."""
        if self.body is not None:
            return [self.body]
        return [each if isinstance(each, bytes) else self.encoding(each) for each in self.events]


class Mutation(NamedTuple):
    """A reply that breaks one rule."""

    rule: str
    says: str
    reply: Reply


def assert_only(rule: str, reply: Reply) -> None:
    """A reply breaks that rule and no other, in each profile that the rule is of and that is about the reply's API."""
    exchange, events = recorded(reply)
    profiles = [profile for profile in the_rule(rule).profiles if exchange.api in PROFILES[profile]]
    assert profiles, f"no profile of {rule} is about {exchange.api}"
    for profile in profiles:
        findings = lint(recording_of(exchange, events), profile)
        assert [finding.rule for finding in findings] == [rule], f"profile {profile}: {shown(findings)}"


def assert_clean(reply: Reply, *profiles: Profile) -> None:
    """A reply breaks no rule: of these profiles, else of all that are about its API."""
    exchange, events = recorded(reply)
    for profile in profiles or [name for name, apis in PROFILES.items() if exchange.api in apis]:
        findings = lint(recording_of(exchange, events), profile)
        assert not findings, f"profile {profile}: {shown(findings)}"


def broken(reply: Reply, profile: Profile | None = None) -> list[str]:
    """The rules that a reply breaks, in their order."""
    return [finding.rule for finding in linted(reply, profile)]


def linted(reply: Reply, profile: Profile | None = None) -> list[Finding]:
    exchange, events = recorded(reply)
    assert profile or profile_of(exchange.api), f"no profile is about {exchange.api}"
    return lint(recording_of(exchange, events), profile)


def shown(findings: Iterable[Finding]) -> str:
    return "; ".join(f"{each.rule} {each.places}" for each in findings) or "nothing"


def the_rule(id: str) -> Rule:
    """Raises `StopIteration` if there is none."""
    return next(rule for rule in RULES if rule.id == id)


def recorded(reply: Reply) -> tuple[Exchange, list[Event]]:
    """A reply as the log has it."""
    body = b"" if reply.asked is None else json.dumps(reply.asked).encode()
    head = RequestHead("e", "s", 1, reply.method, reply.target, "upstream", [("content-type", "application/json")])
    steps = [
        (Mark.REQUEST, 0, msgspec.json.encode(head)),
        *([(Mark.REQUEST_BODY, 0, body)] if body else []),
        (Mark.REQUEST_END, 0, msgspec.json.encode(RequestEnd(True))),
        (Mark.RESPONSE, STEP_NS, msgspec.json.encode(ResponseHead(reply.status, "", list(reply.headers)))),
        *_chunks(reply),
    ]
    return assembled(steps)


def _chunks(reply: Reply) -> Iterable[tuple[Mark, int, bytes]]:
    t_ns = STEP_NS
    for number, block in enumerate(reply.blocks()):
        t_ns += _pause(reply, number)
        yield Mark.CHUNK, t_ns, block
    if reply.outcome is not None:
        t_ns += _pause(reply, len(reply.events))
        yield Mark.END, t_ns, msgspec.json.encode(ExchangeEnd(reply.outcome))


def _pause(reply: Reply, number: int) -> int:
    return int(reply.pauses[number] * SECOND) if number in reply.pauses else STEP_NS


def assembled(steps: Iterable[tuple[Mark, int, bytes]]) -> tuple[Exchange, list[Event]]:
    """One exchange, from the records of a journal: mark, time, payload."""
    assembler = Assembler("r", lambda head, grouping: "s")
    for mark, t_ns, payload in steps:
        assembler.feed(Record(1, mark, t_ns, payload, START), START)
    [exchange] = assembler.batch.exchanges
    return exchange, assembler.batch.events
