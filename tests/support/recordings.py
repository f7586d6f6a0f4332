"""Recorded exchanges made by hand, and requests for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from recorder.model.events import Exchange
from recorder.model.payloads import Header, RequestRecord, ResponseHead
from recorder.model.recording import Piece, Recording
from recorder.replay.matching import MatchRequest

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
