"""Facts and events for tests of projections, and folds of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import msgspec

from recorder.ingest.capture import Capture
from recorder.model.events import (
    BODY_KINDS,
    Event,
    Exchange,
    ExchangeEnd,
    Kind,
    RequestHead,
    ResponseHead,
)
from recorder.model.events import Outcome as Ending
from recorder.model.facts import Fact, RequestFacts
from recorder.projections.fold import Folding, Rows
from recorder.projections.rows import AnomalyRow, Projection
from recorder.wire.dialects import by_name
from recorder.wire.dialects.openai_responses import DIALECT

EXCHANGE = Exchange(
    "s-1", "e-1", 1_000, "r-1", "openai", "openai-responses", "POST", "/v1/responses"
)

MS = 1_000_000


def event(pos: int = 0, *, kind: Kind = "frame", t_ms: float = 0.0, **fields: Any) -> Event:
    """An event of `EXCHANGE`; what is not given is not there."""
    empty = {
        "type": None,
        "sequence_number": None,
        "item_id": None,
        "output_index": None,
        "raw": b"data: {}\n\n",
    }
    return Event(
        "s-1",
        "e-1",
        pos,
        kind,
        round(t_ms * MS),
        **{**empty, "data_start": None, "data_length": None, "hash": b"", **fields},
    )


Told = Fact | tuple[Event, Sequence[Fact]] | Event
"""A fact at an event of no interest, facts at an event, or an event without facts."""


class Outcome(msgspec.Struct):
    rows: list[Any]
    anomalies: list[AnomalyRow]

    @property
    def row(self) -> Any:
        [row] = self.rows
        return row

    @property
    def kinds(self) -> list[str]:
        return [row.kind for row in self.anomalies]


def fold(projection: Projection, told: Iterable[Told], exchange: Exchange = EXCHANGE) -> Outcome:
    """What one projection makes of facts, beside the others, and the anomalies that they report."""
    folding = Folding(exchange, with_history=True)
    for pos, each in enumerate(told):
        at, facts = (
            each
            if isinstance(each, tuple)
            else (each, ())
            if isinstance(each, Event)
            else (event(pos), (each,))
        )
        if at.kind in BODY_KINDS:
            folding.timing.event(at)
            folding.anomalies.event(at)
        folding._apply(folding._handlers, facts, at)
    rows = folding.rows()
    assert rows == folding.rows(), "rows may be asked for again"
    return Outcome(rows[projection.name], rows["anomalies"])


def captured(
    body: bytes,
    api: str = "openai-responses",
    *,
    cuts: Iterable[int] = (),
    request: bytes = b"",
    content_type: str = "text/event-stream",
    outcome: Ending = "eof",
    status: int = 200,
    started_ns: int = 1_000,
    exchange: Exchange | None = None,
    coding: str | None = None,
) -> tuple[Exchange, list[Event]]:
    """A response as the log has it, a millisecond for every chunk that the body is cut into."""
    if exchange is None:
        exchange = msgspec.structs.replace(
            EXCHANGE, api=api, target=PATHS[api], started_ns=started_ns
        )
    api, target = exchange.api, exchange.target
    head = RequestHead(
        exchange.exchange_id, exchange.session_id, started_ns, "POST", target, "openai", []
    )
    capture = Capture(exchange.session_id, exchange.exchange_id, by_name(api), 0)
    events = capture.request(head, request, wire=request)
    headers = [
        ("content-type", content_type),
        *([] if coding is None else [("content-encoding", coding)]),
    ]
    events += capture.response(MS, ResponseHead(status, "OK", headers))
    places = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    for number, (start, end) in enumerate(pairwise(places), 2):
        events += capture.chunk(number * MS, body[start:end])
    events += capture.end((len(places) + 2) * MS, ExchangeEnd(outcome))
    return exchange, events


def folded(exchange: Exchange, events: Iterable[Event]) -> Rows:
    """What all projections make of events."""
    folding = Folding(exchange)
    for each in events:
        folding.apply(each)
    return folding.rows()


PATHS = {
    "a2a": "/agent",
    "ag-ui": "/agent",
    "anthropic": "/v1/messages",
    "anthropic-sessions": "/v1/sessions/sesn_1/events/stream",
    "bedrock-converse": "/model/m/converse-stream",
    "bedrock-invoke": "/model/claude/invoke-with-response-stream",
    "bedrock-models": "/model/amazon.nova/invoke-with-response-stream",
    "gemini": "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
    "gemini-interactions": "/v1beta/interactions",
    "mcp": "/mcp",
    "ollama": "/api/chat",
    "openai-agents": "/v1/agents/sessions/asess_1/events",
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "other": "/v1/threads/runs",
    "ui-messages": "/api/chat",
}


# -- Responses streams, requests and documents as facts, for tests


AnyFact = TypeVar("AnyFact", bound=Fact)
Json = dict[str, Any]


def tell(*events: Json) -> list[Fact]:
    """The facts of a stream, each event named by its type as the log names it."""
    teller = DIALECT.decoder()
    return [
        fact
        for event in events
        for fact in teller.event(event.get("type"), json.dumps(event).encode())
    ]


def document(payload: object) -> Sequence[Fact]:
    return DIALECT.decoder().document(json.dumps(payload).encode())


def asked(**body: Any) -> RequestFacts:
    return DIALECT.request_facts("/v1/responses", json.dumps(body).encode())


def of(kind: type[AnyFact], facts: Sequence[Fact]) -> list[AnyFact]:
    return [fact for fact in facts if isinstance(fact, kind)]


def item_event(step: str, item: Json, index: int = 0) -> Json:
    return {"type": f"response.output_item.{step}", "output_index": index, "item": item}
