"""Recorded conversations for tests of what commands show: captured, stored and projected as the
recorder does it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from sqlalchemy import URL

from recorder.ingest.capture import Capture
from recorder.model.attribution import Attribution
from recorder.model.events import (
    WEBSOCKET,
    Event,
    Exchange,
    ExchangeEnd,
    GapRecord,
    Header,
    Outcome,
    Piece,
    Recording,
    RequestHead,
    RequestRecord,
    ResponseHead,
    Session,
)
from recorder.model.ids import uuid7
from recorder.store.engine import address_of
from recorder.store.location import database_path, database_url
from recorder.store.write.writer import Store
from recorder.wire.dialects import by_name
from tests.support.empty_log import empty
from tests.support.rows import START_NS, make_id

MS = 1_000_000
S = 1000 * MS

Frames = Sequence[bytes]

USAGE = {
    "input_tokens": 1234,
    "input_tokens_details": {"cached_tokens": 1024},
    "output_tokens": 456,
    "output_tokens_details": {"reasoning_tokens": 192},
    "total_tokens": 1690,
}


def sse(type: str, **fields: Any) -> bytes:
    return f"event: {type}\ndata: {json.dumps({'type': type, **fields}, ensure_ascii=False)}\n\n".encode()


def response(
    *items: bytes, id: str = "resp_1", model: str = "gpt-5", usage: Any = USAGE
) -> list[bytes]:
    """A Responses stream around the events of its items."""
    about = {"id": id, "model": model, "status": "in_progress", "output": []}
    ended = {**about, "status": "completed", "usage": usage}
    return numbered(
        [sse("response.created", response=about), *items, sse("response.completed", response=ended)]
    )


def numbered(frames: Frames) -> list[bytes]:
    """Frames with the sequence numbers that the wire has."""
    return [
        frame.replace(b'{"type"', b'{"sequence_number": %d, "type"' % n, 1)
        for n, frame in enumerate(frames)
    ]


def message(*words: str, index: int = 0, **fields: Any) -> list[bytes]:
    part = {"type": "output_text", "text": "".join(words), "annotations": [], **fields}
    item = {
        "id": f"msg_{index}",
        "type": "message",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }
    where = {"output_index": index, "item_id": item["id"], "content_index": 0}
    return [
        sse("response.output_item.added", output_index=index, item=item),
        sse("response.content_part.added", **where, part={**part, "text": "", "annotations": []}),
        *(sse("response.output_text.delta", **where, delta=word) for word in words),
        sse("response.output_text.done", **where, text="".join(words)),
        sse(
            "response.output_item.done",
            output_index=index,
            item={**item, "status": "completed", "content": [part]},
        ),
    ]


def thought(*words: str, index: int = 0) -> list[bytes]:
    item = {"id": f"rs_{index}", "type": "reasoning", "summary": []}
    where = {"output_index": index, "item_id": item["id"], "summary_index": 0}
    summary = [{"type": "summary_text", "text": "".join(words)}]
    return [
        sse("response.output_item.added", output_index=index, item=item),
        *(sse("response.reasoning_summary_text.delta", **where, delta=word) for word in words),
        sse("response.output_item.done", output_index=index, item={**item, "summary": summary}),
    ]


def call(name: str, arguments: str, index: int = 0, call_id: str = "call_1") -> list[bytes]:
    item = {"id": f"fc_{index}", "type": "function_call", "name": name, "call_id": call_id}
    where = {"output_index": index, "item_id": item["id"]}
    added = {**item, "arguments": "", "status": "in_progress"}
    done = {**item, "arguments": arguments, "status": "completed"}
    return [
        sse("response.output_item.added", output_index=index, item=added),
        sse("response.function_call_arguments.delta", **where, delta=arguments),
        sse("response.function_call_arguments.done", **where, arguments=arguments),
        sse("response.output_item.done", output_index=index, item=done),
    ]


def asking(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def answering(output: str, call_id: str = "call_1") -> list[dict[str, Any]]:
    return [{"type": "function_call_output", "call_id": call_id, "output": output}]


class Conversations:
    """A database.

    Frames of a response come 100 ms apart, the first one 100 ms after the request.
    """

    def __init__(self, database: Path | URL) -> None:
        self.database = database_url(database)
        self._number = 0

    @property
    def path(self) -> Path:
        """The file, if it is one."""
        return database_path(self.database)

    def session(
        self, name: str, at_s: float = 0.0, origin: Literal["live", "import"] = "live"
    ) -> Conversation:
        self._number += 1
        at_ns = START_NS + round(at_s * S)
        session = Session(make_id(self._number, at_ns), at_ns, name, "path", "{}", origin)
        if address_of(self.database).is_local and not self.path.exists():
            empty(self.path)
        with Store(self.database) as store, store.transaction():
            store.add_session(session)
        return Conversation(self.database, session, self._number * 1000)


class Conversation:
    """A session of it."""

    def __init__(self, database: URL, session: Session, number: int) -> None:
        self.database, self.session, self._number = database, session, number

    @property
    def path(self) -> Path:
        """The file, if it is one."""
        return database_path(self.database)

    def exchange(
        self,
        frames: Frames,
        asked: Any = None,
        *,
        body: Any = None,
        at_s: float = 0.0,
        ended: bool = True,
        outcome: Outcome = "eof",
        content_type: str = "text/event-stream",
        headers: Sequence[Header] = (),
        http_status: int = 200,
        attribution: Attribution | None = None,
        **fields: Any,
    ) -> Exchange:
        """An exchange that begins `at_s` after the session."""
        self._number += 1
        started_ns = self.session.created_ns + round(at_s * S)
        ids = {
            "session_id": self.session.session_id,
            "exchange_id": make_id(self._number, started_ns),
        }
        kind = {
            "provider": "openai",
            "api": "openai-responses",
            "method": "POST",
            "target": "/v1/responses",
        }
        exchange = Exchange(
            **{**ids, **kind, "started_ns": started_ns, "recorder_id": "r", **fields}
        )
        asking = json.dumps(
            body or {"model": "gpt-5", "stream": True, "input": asked or []}
        ).encode()
        with Store(self.database) as store, store.transaction():
            store.add_exchange(exchange)
            head = ResponseHead(http_status, "OK", [("content-type", content_type)])
            ending = outcome if ended else None
            store.append(
                recorded_events(exchange, asking, frames, ending, head, headers, attribution)
            )
            if ended:
                store.projector.project(exchange.session_id, exchange.exchange_id)
        return exchange


def recorded_events(
    exchange: Exchange,
    body: bytes,
    frames: Frames,
    outcome: Outcome | None,
    response_head: ResponseHead,
    headers: Sequence[Header] = (),
    attribution: Attribution | None = None,
) -> list[Event]:
    ids = (exchange.exchange_id, exchange.session_id)
    head = RequestHead(
        *ids, exchange.started_ns, exchange.method, exchange.target, exchange.provider, [*headers]
    )
    if attribution is not None:
        head = msgspec.structs.replace(head, attribution=attribution)
    capture = Capture(exchange.session_id, exchange.exchange_id, by_name(exchange.api), 0)
    events = capture.request(head, body, wire=body)
    events += capture.response(50 * MS, response_head)
    for number, frame in enumerate(frames, 1):
        events += capture.chunk(number * 100 * MS, frame)
    if outcome is not None:
        events += capture.end((len(frames) + 1) * 100 * MS, ExchangeEnd(outcome))
    return events


# -- Sessions in a log, made of bodies by the capture that makes all of them


HOSTILE = "\x1b]52;c;aGk=\x07\x9b31m\u202ereversed\u2066"
FRAMES = [
    b'event: response.created\ndata: {"type":"response.created","sequence_number":0}\n\n',
    b'data: {"type":"response.output_text.delta","sequence_number":1,"delta":"Hello","output_index":0}\n\n',
    b': keep-alive "quoted"\n\n',
    b'data: {"type":"response.output_text.delta","sequence_number":2,"delta":", \xc3\xa9t\xc3\xa9"}\n\n',
    b'data: {"type":"response.completed","sequence_number":3}\n\n',
]


class Recorded:
    """A log with sessions of the Responses API, each a second later than the one before."""

    def __init__(self, path: Path) -> None:
        self.path = path if path.exists() else empty(path)
        self._clock = 1_700_000_000_000_000_000

    def session(
        self,
        name: str,
        *bodies: list[bytes],
        gap: bool = False,
        ended: bool = True,
        outcome: Outcome = "eof",
    ) -> str:
        session_id = self._id()
        with Store(self.path) as store, store.transaction():
            store.add_session(Session(session_id, self._clock, name, "path", "{}", "live"))
            for body in bodies:
                self._exchange(store, session_id, body, gap, outcome if ended else None)
        return session_id

    def _exchange(
        self, store: Store, session_id: str, body: list[bytes], gap: bool, end: Outcome | None
    ) -> None:
        exchange_id = self._id()
        head = RequestHead(
            exchange_id, session_id, self._clock, "POST", "/v1/responses", "openai", []
        )
        api = "openai-responses"
        store.add_exchange(
            Exchange(
                session_id,
                exchange_id,
                self._clock,
                "r",
                "openai",
                api,
                "POST",
                "/v1/responses",
                "curl",
            )
        )
        capture = Capture(session_id, exchange_id, by_name(api), 0)
        events = capture.request(head, b'{"stream":true}', wire=b'{"stream":true}')
        events += capture.response(
            1_000_000, ResponseHead(200, "OK", [("content-type", "text/event-stream")])
        )
        for number, chunk in enumerate(body):
            events += capture.chunk((10 + number * 20) * 1_000_000, chunk)
        if gap:
            events += capture.gap(
                GapRecord("response", 1, 5, "", 0, 0, "the journal is at its bound")
            )
        if end is not None:
            events += capture.end(500_000_000, ExchangeEnd(end))
        store.append(events)
        if end is not None:
            store.projector.project(session_id, exchange_id)

    def _id(self) -> str:
        self._clock += 1_000_000_000
        return uuid7(self._clock, self._clock.to_bytes(10, "little"))


# -- Recorded conversations in which requests continue responses, for tests of logical requests


Json = dict[str, Any]

CALL = {
    "type": "function_call",
    "id": "fc_1",
    "status": "completed",
    "call_id": "call_1",
    "name": "roll",
    "arguments": '{"dice":2}',
}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "7"}


def said(text: str, id: str = "msg_1") -> Json:
    """A message of the model, as the provider states it."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "type": "message",
        "id": id,
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }


def user(text: str) -> Json:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def asks(input: Any, previous: str | None = None, **fields: Any) -> Json:
    """The body of a request."""
    link = {} if previous is None else {"previous_response_id": previous}
    return {"model": "m", "stream": True, **link, "input": input, **fields}


def answer(id: str, *items: Json, restates: bool = True) -> list[Json]:
    """The events of a response; without `restates` its last one has no items, as Codex accepts it."""
    done = [
        {"type": "response.output_item.done", "output_index": index, "item": item}
        for index, item in enumerate(items)
    ]
    output = [*items] if restates else []
    return [
        {"type": "response.created", "response": {"id": id, "status": "in_progress", "output": []}},
        *done,
        {
            "type": "response.completed",
            "response": {"id": id, "status": "completed", "output": output},
        },
    ]


def made(
    number: int,
    body: Json | None,
    events: Iterable[Json] = (),
    *,
    turn: bool = False,
    document: Json | None = None,
) -> Recording:
    """An exchange of a session: a request, and the events or the document that answered it; `turn`:
    over WebSocket.
    """
    target = "/v1/responses" if body is not None else "/v1/responses/resp"
    method = WEBSOCKET if turn else "GET" if body is None else "POST"
    ids = ("s", f"e{number}", number, "r", "openai", "openai-responses")
    sent = b"" if body is None else json.dumps(body).encode()
    request = RequestRecord(method, target, "openai", [], len(sent), "", len(sent), complete=True)
    raws = [json.dumps(event).encode() for event in events]
    if not turn:
        raws = [b"data: %s\n\n" % raw for raw in raws]
    kind = "text/event-stream"
    if document is not None:
        raws, kind = [json.dumps(document).encode()], "application/json"
    head = ResponseHead(101, "", []) if turn else ResponseHead(200, "OK", [("content-type", kind)])
    pieces = tuple(Piece(n, raw) for n, raw in enumerate(raws))
    return Recording(
        *(Exchange(*ids, method, target), request, sent, head, 0, pieces, (), None, len(raws)),
        number=number,
        name=f"exchange {number}",
    )


def by_delta(*, turn: bool = False, text: str = "Roll two dice.") -> list[Recording]:
    """Three requests of an agent, of which each has only what is new."""
    return [
        made(1, asks(user(text)["content"][0]["text"]), answer("resp_1", THOUGHT, CALL), turn=turn),
        made(
            2,
            asks([RESULT], "resp_1"),
            answer("resp_2", said("You rolled 7."), restates=False),
            turn=turn,
        ),
        made(
            3, asks([user("Again?")], "resp_2"), answer("resp_3", said("No.", "msg_2")), turn=turn
        ),
    ]


def whole_history(text: str = "Roll two dice.") -> list[Recording]:
    """The same conversation from a client that sends all of it, as its SDK writes it."""
    call = {name: CALL[name] for name in ("type", "call_id", "name", "arguments")}
    first = [user(text), call, RESULT]
    spoken = {"role": "assistant", "content": "You rolled 7."}
    return [
        made(1, asks([user(text)]), answer("resp_a", THOUGHT, CALL)),
        made(2, asks(first), answer("resp_b", said("You rolled 7."))),
        made(
            3,
            asks([*first, spoken, {"role": "user", "content": "Again?"}]),
            answer("resp_c", said("No.")),
        ),
    ]


def items_of(parts: Sequence[Any]) -> list[Json]:
    """The items of the parts of a logical request, decoded."""
    return [json.loads(bytes(item)) for part in parts for item in part.items]
