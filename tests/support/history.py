"""The history checker: what clients received, what the upstream sent, and what the log has, against each other.

For every stream, by its id (`tests.support.scripts`):

1. an answer that a client saw is in the log, as one exchange; and never more than one;
2. its positions are 0, 1, 2 …, and the last event, and no other, is its `end`;
3. what the log has of the body and what it counts as gaps, in order, is what the upstream sent: byte for byte, a gap by
   its length and digest; nothing twice, nothing left out, as far as it goes;
4. it goes at least as far as what the client received, and the client's bytes are those;
5. the sums of the `end` are those of its events, and a body that ended well is as long as the one that was sent.

So a byte that a client received is in the log, in order, once, or in a counted gap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import URL

from recorder.model.events import BODY_KINDS
from tests.support.raw_log import Ask, asking
from tests.support.scripts import Received, id_of

Sent = Callable[[str], bytes]
"""What the upstream sent of the body of an id."""


class Logged(NamedTuple):
    """An exchange as the log has it."""

    exchange_id: str
    events: Sequence[tuple[int, str, bytes]]  # position, kind, raw


class Report(NamedTuple):
    """What a check has found. Findings are sentences; none means that nothing was lost silently."""

    findings: list[str]
    streams: int
    exchanges: int
    received_bytes: int
    stored_bytes: int
    gap_bytes: int
    outcomes: Mapping[str, int]


def check(database: Path | URL, received: Sequence[Received], sent: Sent) -> Report:
    """Compare a database that nobody writes to any more."""
    findings: list[str] = []
    outcomes: Counter[str] = Counter()
    stored = gaps = 0
    with asking(database) as ask:
        ids = _exchange_ids(ask)
        for stream in received:
            logged = [_read(ask, *each) for each in ids.get(stream.id, ())]
            findings += [f"{stream.id}: {finding}" for finding in judge(stream, logged, sent(stream.id))]
            for each in logged:
                end = _end(each)
                outcomes[end.get("outcome", "none")] += 1
                stored += sum(len(raw) for _, kind, raw in each.events if kind in BODY_KINDS)
                gaps += end.get("gap_bytes", 0)
    exchanges = sum(map(len, ids.values()))
    received_bytes = sum(each.size_bytes for each in received)
    return Report(findings, len(received), exchanges, received_bytes, stored, gaps, dict(outcomes))


def judge(stream: Received, logged: Sequence[Logged], sent: bytes) -> Iterator[str]:
    """What contradicts the equations in one stream."""
    if len(logged) > 1:
        yield f"{len(logged)} exchanges in the log for one request"
    if not logged:
        if stream.status == 200:
            yield f"the client saw an answer and {stream.size_bytes} bytes, the log has no exchange"
        return
    (exchange, *_) = logged
    kinds = [kind for _, kind, _ in exchange.events]
    if [pos for pos, _, _ in exchange.events] != list(range(len(exchange.events))):
        yield "its positions have a hole"
    if kinds.count("end") != 1 or kinds[-1] != "end":
        yield f"it has {kinds.count('end')} ends, and its last event is {kinds[-1] if kinds else 'none'}"
        return
    covered, contradiction = _cover(exchange, sent)
    if contradiction is not None:
        yield contradiction
        return
    if stream.size_bytes > covered:
        yield f"the client received {stream.size_bytes} bytes, the log has {covered}, gaps included"
    elif sha256(sent[: stream.size_bytes]).hexdigest() != stream.sha256:
        yield "the client received other bytes than the upstream sent"
    yield from _sums(_end(exchange), exchange, covered, len(sent))


def _cover(exchange: Logged, sent: bytes) -> tuple[int, str | None]:
    """How far the log covers what was sent, and where it contradicts that."""
    at = 0
    for pos, kind, raw in exchange.events:
        if kind in BODY_KINDS:
            if sent[at : at + len(raw)] != raw:
                return at, f"event {pos} is not what was sent at byte {at}"
            at += len(raw)
        elif kind == "gap" and (gap := msgspec.json.decode(raw))["of"] == "response":
            lost = sent[at : at + gap["size_bytes"]]
            if len(lost) != gap["size_bytes"] or (gap["sha256"] and sha256(lost).hexdigest() != gap["sha256"]):
                return at, f"the gap at event {pos} is not what was sent at byte {at}"
            at += len(lost)
    return at, None


def _sums(end: Mapping[str, Any], exchange: Logged, covered: int, sent: int) -> Iterator[str]:
    gaps = [msgspec.json.decode(raw) for _, kind, raw in exchange.events if kind == "gap"]
    counted = [(gap["chunks"], gap["size_bytes"]) for gap in gaps if gap["of"] == "response"]
    if (end["gap_chunks"], end["gap_bytes"]) != (sum(each for each, _ in counted), sum(each for _, each in counted)):
        yield "its end counts other gaps than it has"
    if end["wire_bytes"] != covered:
        yield f"its end counts {end['wire_bytes']} bytes, its events have {covered}"
    if end["lossless"] and gaps:
        yield "it says that it is whole, and has a gap"
    if end["outcome"] == "eof" and covered != sent:
        yield f"it ended well after {covered} bytes of {sent}"


def _end(exchange: Logged) -> dict[str, Any]:
    raw = next((raw for _, kind, raw in exchange.events if kind == "end"), b"{}")
    return dict(msgspec.json.decode(raw))


def _exchange_ids(ask: Ask) -> dict[str, list[tuple[str, str]]]:
    """The exchanges of each stream."""
    found: dict[str, list[tuple[str, str]]] = {}
    for session_id, exchange_id, target in ask("SELECT session_id, exchange_id, target FROM exchanges"):
        found.setdefault(id_of(target), []).append((session_id, exchange_id))
    return found


def _read(ask: Ask, session_id: str, exchange_id: str) -> Logged:
    sql = "SELECT pos, kind, raw FROM events WHERE session_id = ? AND exchange_id = ? ORDER BY pos"
    return Logged(exchange_id, ask(sql, session_id, exchange_id))
