"""Recorded exchanges made by hand, and requests for them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from recorder.diff import Level, Report, Terms, diff
from recorder.ingest.assembler import Assembler
from recorder.journal.format import START, Mark, Record
from recorder.lint.linter import PROFILES, RULES, Finding, lint, profile_of
from recorder.lint.rule import Profile, Rule
from recorder.model.events import (
    STDIO,
    Event,
    Exchange,
    ExchangeEnd,
    Header,
    Outcome,
    Piece,
    Recording,
    RequestEnd,
    RequestHead,
    RequestRecord,
    ResponseHead,
)
from recorder.replay.matching import MatchRequest
from recorder.wire.dialects import by_name
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
    request: MatchRequest,
    *raws: bytes,
    name: str = "e",
    content_type: str = SSE,
    first_number: int = 0,
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
    told = [
        event("response.output_text.delta", number, delta="x") for number in range(1, deltas + 1)
    ]
    ended = event("response.completed", deltas + 1, response={"id": id, "status": "completed"})
    return [begun, *told, *([ended] if whole else [])]


# -- Replies made by hand, recorded as the proxy would, and what `lint` says of them: the harness of
# all rules


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
    sent: tuple[Json, ...] = ()  # lines of the client, to a program
    program: str = "mcp"  # the format of these lines
    status: int = 200
    headers: tuple[Header, ...] = (("content-type", "text/event-stream; charset=utf-8"),)
    body: bytes | None = None  # in the place of events, sent as it is
    # seconds before the event of that number, from 0; len(events): before the end
    pauses: Mapping[int, float] = {}
    outcome: Outcome | None = "eof"  # None: it is still open

    def without(self, *numbers: int | str) -> Reply:
        """Less some events, by number (from the end if negative) or type."""
        gone = {number for each in numbers for number in self.where(each)}
        return self._replace(
            events=tuple(each for number, each in enumerate(self.events) if number not in gone)
        )

    def edited(self, which: int | str, change: Callable[[Json], object]) -> Reply:
        """With a change made to copies of some events:
        `reply.edited(3, lambda event: event.pop("item_id"))`.
        """
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
        found = [
            n
            for n, each in enumerate(self.events)
            if isinstance(each, dict) and each.get("type") == which
        ]
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
    """A reply breaks that rule and no other, in each profile that the rule is of and that is about
    the reply's API.
    """
    exchange, events = recorded(reply)
    profiles = [profile for profile in the_rule(rule).profiles if exchange.api in PROFILES[profile]]
    assert profiles, f"no profile of {rule} is about {exchange.api}"
    for profile in profiles:
        findings = lint(recording_of(exchange, events), profile)
        assert [finding.rule for finding in findings] == [rule], (
            f"profile {profile}: {shown(findings)}"
        )


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
    program = by_name(reply.program).program if reply.method == STDIO else None
    media_type = program.media_type if program else "application/json"
    head = RequestHead(
        "e", "s", 1, reply.method, reply.target, "upstream", [("content-type", media_type)]
    )
    steps = [
        (Mark.REQUEST, 0, msgspec.json.encode(head)),
        *([(Mark.REQUEST_BODY, 0, body)] if body else []),
        (Mark.REQUEST_END, 0, msgspec.json.encode(RequestEnd(True))),
        (
            Mark.RESPONSE,
            STEP_NS,
            msgspec.json.encode(ResponseHead(reply.status, "", list(reply.headers))),
        ),
        *[(Mark.CLIENT_CHUNK, STEP_NS, json.dumps(line).encode() + b"\n") for line in reply.sent],
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


# -- Good streams of each API, changes to them, and what `diff` says: the harness of its tests


Episode = tuple[Exchange, list[Event]]


def compared(a: Reply | Episode, b: Reply | Episode, *only: Level, **terms: Any) -> Report:
    """Two replies, or exchanges, as each other's only partner."""
    one, other = (recorded(each) if isinstance(each, Reply) else each for each in (a, b))
    return diff([recording_of(*one)], [recording_of(*other)], only, Terms(**terms))


def differing(a: Reply, b: Reply, **terms: Any) -> tuple[Level, ...]:
    """The levels at which two replies differ."""
    return compared(a, b, **terms).differing


def replaced(reply: Reply, old: str, new: str) -> Reply:
    """With another text wherever one stands: a provider that says something else says so
    everywhere.
    """
    events = json.loads(json.dumps(reply.events).replace(old, new))
    assert events != list(reply.events), f"nothing says {old}"
    return reply._replace(events=tuple(events))


def _item(step: str, index: int, item: Json) -> Json:
    return {"type": f"response.output_item.{step}", "output_index": index, "item": item}


def _part(step: str, text: str) -> Json:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": f"response.content_part.{step}",
        "item_id": "msg_1",
        "output_index": 0,
        "content_index": 0,
        "part": part,
    }


def _text(step: str, **said: str) -> Json:
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    return {"type": f"response.output_text.{step}", **where, "logprobs": [], **said}


_MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant"}
_SAID = [{"type": "output_text", "text": "It is sunny in Paris.", "annotations": []}]
_CALL = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "look_up"}
_ARGUMENTS = '{"city":"Lyon","days":3}'
_DONE: list[Json] = [
    {**_MESSAGE, "status": "completed", "content": _SAID},
    {**_CALL, "status": "completed", "arguments": _ARGUMENTS},
]
_COUNTS = {"input_tokens": 36, "output_tokens": 87, "total_tokens": 123}


def _arguments(step: str, **said: str) -> Json:
    return {
        "type": f"response.function_call_arguments.{step}",
        "item_id": "fc_1",
        "output_index": 1,
        **said,
    }


RESPONSES = Reply(
    (
        {
            "type": "response.created",
            "response": {"id": "resp_1", "created_at": 1, "status": "in_progress", "output": []},
        },
        _item("added", 0, {**_MESSAGE, "status": "in_progress", "content": []}),
        _part("added", ""),
        _text("delta", delta="It is", obfuscation="xyz"),
        _text("delta", delta=" sunny", obfuscation="x"),
        _text("delta", delta=" in Paris."),
        _text("done", text="It is sunny in Paris."),
        _part("done", "It is sunny in Paris."),
        _item("done", 0, _DONE[0]),
        _item("added", 1, {**_CALL, "status": "in_progress", "arguments": ""}),
        _arguments("delta", delta='{"city":"'),
        _arguments("delta", delta='Lyon","days":3}'),
        _arguments("done", arguments=_ARGUMENTS),
        _item("done", 1, _DONE[1]),
        {
            "type": "response.completed",
            "response": {
                "id": "resp_1",
                "created_at": 1,
                "status": "completed",
                "output": _DONE,
                "usage": _COUNTS,
            },
        },
    ),
    asked={"model": "gpt", "input": "What is the weather?", "stream": True},
).numbered()


def _chunk(delta: Json, reason: str | None = None, **more: Any) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {
        "id": "chat_1",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "gpt",
        "choices": [choice],
        **more,
    }


def _called(**function: str) -> Json:
    return {"tool_calls": [{"index": 0, "function": function}]}


CHAT_REPLY = Reply(
    (
        _chunk({"role": "assistant", "content": ""}),
        _chunk({"content": "It is"}),
        _chunk({"content": " sunny"}),
        _chunk({"content": " in Paris."}),
        _chunk(
            {
                "tool_calls": [
                    {
                        "index": 0,
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "look_up", "arguments": ""},
                    }
                ]
            }
        ),
        _chunk(_called(arguments='{"city":"')),
        _chunk(_called(arguments='Lyon","days":3}')),
        _chunk({}, "tool_calls"),
        {
            **_chunk({}),
            "choices": [],
            "usage": {"prompt_tokens": 36, "completion_tokens": 87, "total_tokens": 123},
        },
    ),
    unnamed,
    "/v1/chat/completions",
)


def _block(step: str, index: int, **more: Any) -> Json:
    return {"type": f"content_block_{step}", "index": index, **more}


def _delta(index: int, type: str, **said: str) -> Json:
    return _block("delta", index, delta={"type": type, **said})


MESSAGES = Reply(
    (
        {
            "type": "message_start",
            "message": {
                "id": "msg_1",
                "role": "assistant",
                "content": [],
                "usage": {"input_tokens": 36},
            },
        },
        _block("start", 0, content_block={"type": "text", "text": ""}),
        _delta(0, "text_delta", text="It is"),
        {"type": "ping"},
        _delta(0, "text_delta", text=" sunny"),
        _delta(0, "text_delta", text=" in Paris."),
        _block("stop", 0),
        _block(
            "start",
            1,
            content_block={"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {}},
        ),
        _delta(1, "input_json_delta", partial_json=""),
        _delta(1, "input_json_delta", partial_json='{"city":"'),
        _delta(1, "input_json_delta", partial_json='Lyon","days":3}'),
        _block("stop", 1),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 87},
        },
        {"type": "message_stop"},
    ),
    named,
    "/v1/messages",
)


def _part_chunk(*parts: Json, reason: str | None = None) -> Json:
    candidate = {
        "content": {"role": "model", "parts": list(parts)},
        **({"finishReason": reason} if reason else {}),
    }
    counts = {
        "promptTokenCount": 36,
        "candidatesTokenCount": 87 if reason else 5,
        "totalTokenCount": 123 if reason else 41,
    }
    return {
        "candidates": [candidate],
        "usageMetadata": counts,
        "responseId": "r_1",
        "modelVersion": "gemini",
    }


GEMINI_REPLY = Reply(
    (
        _part_chunk({"text": "It is"}),
        _part_chunk({"text": " sunny"}),
        _part_chunk({"text": " in Paris."}),
        _part_chunk(
            {
                "functionCall": {"name": "look_up", "args": {"city": "Lyon", "days": 3}},
                "thoughtSignature": "abcdef",
            }
        ),
        _part_chunk({"text": ""}, reason="STOP"),
    ),
    crlf,
    "/v1beta/models/gemini:streamGenerateContent?alt=sse",
)

GOOD: Mapping[str, Reply] = {
    "openai-responses": RESPONSES,
    "openai-chat": CHAT_REPLY,
    "anthropic": MESSAGES,
    "gemini": GEMINI_REPLY,
}
