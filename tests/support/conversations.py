"""Recorded conversations for tests of what commands show: captured, stored and projected as the recorder does it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import URL

from recorder.ingest.capture import Capture
from recorder.model.events import Event, Exchange, Outcome, Session
from recorder.model.payloads import ExchangeEnd, Header, RequestHead, ResponseHead
from recorder.store.engine import engine_of
from recorder.store.location import database_path, database_url
from recorder.store.writer import Store
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


def response(*items: bytes, id: str = "resp_1", model: str = "gpt-5", usage: Any = USAGE) -> list[bytes]:
    """A Responses stream around the events of its items."""
    about = {"id": id, "model": model, "status": "in_progress", "output": []}
    ended = {**about, "status": "completed", "usage": usage}
    return numbered([sse("response.created", response=about), *items, sse("response.completed", response=ended)])


def numbered(frames: Frames) -> list[bytes]:
    """Frames with the sequence numbers that the wire has."""
    return [frame.replace(b'{"type"', b'{"sequence_number": %d, "type"' % n, 1) for n, frame in enumerate(frames)]


def message(*words: str, index: int = 0, **fields: Any) -> list[bytes]:
    part = {"type": "output_text", "text": "".join(words), "annotations": [], **fields}
    item = {"id": f"msg_{index}", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
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
    """A database. Frames of a response come 100 ms apart, the first one 100 ms after the request."""

    def __init__(self, database: Path | URL) -> None:
        self.database = database_url(database)
        self._number = 0

    @property
    def path(self) -> Path:
        """The file, if it is one."""
        return database_path(self.database)

    def session(self, name: str, at_s: float = 0.0, origin: Literal["live", "import"] = "live") -> Conversation:
        self._number += 1
        at_ns = START_NS + round(at_s * S)
        session = Session(make_id(self._number, at_ns), at_ns, name, "path", "{}", origin)
        if engine_of(self.database).is_local and not self.path.exists():
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
        **fields: Any,
    ) -> Exchange:
        """An exchange that begins `at_s` after the session."""
        self._number += 1
        started_ns = self.session.created_ns + round(at_s * S)
        ids = {"session_id": self.session.session_id, "exchange_id": make_id(self._number, started_ns)}
        kind = {"provider": "openai", "api": "openai-responses", "method": "POST", "target": "/v1/responses"}
        exchange = Exchange(**{**ids, **kind, "started_ns": started_ns, "recorder_id": "r", **fields})
        asking = json.dumps(body or {"model": "gpt-5", "stream": True, "input": asked or []}).encode()
        with Store(self.database) as store, store.transaction():
            store.add_exchange(exchange)
            head = ResponseHead(http_status, "OK", [("content-type", content_type)])
            store.append(recorded_events(exchange, asking, frames, outcome if ended else None, head, headers))
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
) -> list[Event]:
    ids = (exchange.exchange_id, exchange.session_id)
    head = RequestHead(*ids, exchange.started_ns, exchange.method, exchange.target, exchange.provider, [*headers])
    capture = Capture(exchange.session_id, exchange.exchange_id, by_name(exchange.api), 0)
    events = capture.request(head, body, wire=body)
    events += capture.response(50 * MS, response_head)
    for number, frame in enumerate(frames, 1):
        events += capture.chunk(number * 100 * MS, frame)
    if outcome is not None:
        events += capture.end((len(frames) + 1) * 100 * MS, ExchangeEnd(outcome))
    return events
