"""Runs of programs as `recorder tap` records them: their lines, and those of the client that
started them.

rows = rows_of("acp", spoken("acp"))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from recorder.ingest.capture import Capture
from recorder.ingest.message_capture import MessageCapture
from recorder.ingest.websocket_capture import WebSocketCapture
from recorder.model.events import STDIO, SWITCHED, ExchangeEnd, Header, RequestHead, ResponseHead
from recorder.projections.fold import Rows
from recorder.wire.dialects import by_name
from recorder.wire.redaction.bodies import BY_SHAPE
from tests.support.facts import EXCHANGE, MS, folded
from tests.support.recordings import Reply

PROGRAMS = Path(__file__).parents[1] / "data" / "programs"
COMMAND = b'{"command":["agent"]}'


class Line(NamedTuple):
    is_of_client: bool
    raw: bytes


def spoken(name: str) -> list[Line]:
    """The lines of a recorded run: `>` is before those of the client."""
    lines = (PROGRAMS / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
    return [Line(line.startswith(b">"), line[2:]) for line in lines]


def played(reply: Reply, name: str) -> Reply:
    """A reply with the lines of both sides of a recorded run."""
    run = spoken(name)
    sent = tuple(msgspec.json.decode(line.raw) for line in run if line.is_of_client)
    return reply._replace(
        events=tuple(line.raw for line in run if not line.is_of_client), sent=sent
    )


def said(by: str, **members: Any) -> Line:
    """A line of our own."""
    return Line(by == ">", msgspec.json.encode(members) + b"\n")


def rows_of(api: str, lines: Iterable[Line], *, read_bytes: int | None = None) -> Rows:
    """What all projections make of a run in which each line comes a millisecond after the one
    before.

    `read_bytes`: each read has so many of them, whatever the lines.
    """
    dialect = by_name(api)
    media_type = dialect.program.media_type if dialect.program else "application/x-ndjson"
    headers: Sequence[Header] = [("content-type", media_type)]
    exchange = msgspec.structs.replace(
        EXCHANGE, api=api, method=STDIO, target="/agent", provider="agent"
    )
    head = RequestHead(
        exchange.exchange_id, exchange.session_id, 1_000, STDIO, "/agent", "agent", [*headers]
    )
    capture = Capture(exchange.session_id, exchange.exchange_id, dialect, 0)
    events = capture.request(head, COMMAND, wire=COMMAND)
    connection = MessageCapture.switched(capture, dialect, (), coding=None)
    run = WebSocketCapture(connection, dialect, headers, BY_SHAPE, _no_turn, capture, is_stdio=True)
    events += run.response(MS, ResponseHead(SWITCHED, "", []))
    t_ns = MS
    for line in lines:
        t_ns += MS
        take = run.client_chunk if line.is_of_client else run.chunk
        step = read_bytes or len(line.raw)
        for start in range(0, len(line.raw), step):
            events += take(t_ns, line.raw[start : start + step])
    events += run.chunk(t_ns + MS, b"")
    events += run.end(t_ns + MS, ExchangeEnd("eof"))
    return folded(exchange, events)


def _no_turn(*about: Any) -> Any:
    raise AssertionError("a program has no turns")
