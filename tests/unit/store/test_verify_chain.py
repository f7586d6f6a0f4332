"""`recorder.store.maintain.verify.chain`: one exchange, every change of it, and what its records
say of themselves.
"""

from __future__ import annotations

import gzip
import time
import tracemalloc
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.ingest.capture import Capture
from recorder.model.chain import link, root
from recorder.model.events import (
    EndRecord,
    Event,
    ExchangeEnd,
    GapRecord,
    Outcome,
    RequestHead,
    RequestRecord,
    ResponseHead,
)
from recorder.store.maintain.verify.chain import FINDINGS_LIMIT, ChainVerifier, LogFinding
from recorder.wire.dialects import by_name
from recorder.wire.framing.sse import FRAME_LIMIT
from tests.support.facts import EXCHANGE
from tests.support.tables import table

LOST = GapRecord("response", 2, 7, "", 0, 0, "the journal is at its bound")
SSE = b'data: {"type":"response.created"}\n\n: ping\n\ndata: {"type":"response.completed"}\n\ncut'


def captured(
    chunks: Sequence[bytes] = (SSE,),
    *,
    gap: GapRecord | None = None,
    coding: str | None = None,
    request: bytes = b"{}",
    request_headers: Sequence[tuple[str, str]] = (),
    outcome: Outcome = "eof",
    complete: bool = True,
    content_type: str = "text/event-stream",
) -> list[Event]:
    """What the capture makes of an exchange."""
    capture = Capture("s-1", "e-1", by_name(EXCHANGE.api), 0)
    head = RequestHead(
        "e-1", "s-1", 0, EXCHANGE.method, EXCHANGE.target, EXCHANGE.provider, list(request_headers)
    )
    wire = gzip.compress(request) if request_headers else request
    events = capture.request(head, request, wire=wire, complete=complete)
    headers = [("content-type", content_type), *([("content-encoding", coding)] if coding else [])]
    events += capture.response(1, ResponseHead(200, "OK", headers))
    for number, chunk in enumerate(chunks):
        events += capture.chunk(10 + number, chunk)
    if gap is not None:
        events += capture.gap(gap)
    return [*events, *capture.end(500, ExchangeEnd(outcome))]


def verified(events: Sequence[Event]) -> ChainVerifier:
    verifier = ChainVerifier("s-1", "e-1", EXCHANGE)
    for event in events:
        verifier.feed(event)
    verifier.close()
    return verifier


def found(events: Sequence[Event]) -> list[LogFinding]:
    return verified(events).findings


def checks(events: Sequence[Event]) -> set[str]:
    return {finding.check for finding in found(events)}


def rehashed(events: Sequence[Event]) -> list[Event]:
    """Events chained anew, as someone would who knows how."""
    previous, chained = root("s-1", "e-1"), []
    for event in events:
        previous = link(previous, *msgspec.structs.astuple(event)[2:-1])
        chained.append(msgspec.structs.replace(event, hash=previous))
    return chained


def saying(
    told: Sequence[Event], pos: int, record: type[msgspec.Struct], /, **fields: Any
) -> list[Event]:
    """The record at a position says something else, in a chain that holds."""
    said = msgspec.json.decode(told[pos].raw, type=record)
    raw = msgspec.json.encode(msgspec.structs.replace(said, **fields))
    changed = [*told]
    changed[pos] = msgspec.structs.replace(told[pos], raw=raw)
    return rehashed(changed)


@pytest.mark.parametrize(
    "events",
    [
        captured(),
        captured([SSE[cut : cut + 1] for cut in range(len(SSE))]),
        captured([gzip.compress(SSE)], coding="gzip"),
        captured([gzip.compress(SSE)[:30]], coding="gzip", outcome="upstream_reset"),
        captured([b"no gzip at all"], coding="gzip"),
        captured([gzip.compress(SSE)]),
        captured([b"data: " + b"x" * 2 * FRAME_LIMIT + b"\n\n", SSE]),
        captured([b"data: " + b"x" * 2 * FRAME_LIMIT], outcome="client_disconnect"),
        captured([b"{}"], content_type="application/json"),
        captured([]),
        captured(gap=LOST),
        captured([gzip.compress(SSE)[:40]], coding="gzip", gap=LOST),
        captured(gap=msgspec.structs.replace(LOST, of="request")),
        captured(request=b"x" * (FRAME_LIMIT + 1)),
        captured(request_headers=[("Content-Encoding", "gzip")]),
        captured(request=b"", complete=False),
        captured(outcome="recorder_crash"),
    ],
)
def test_what_the_capture_makes_is_in_order(events: list[Event]) -> None:
    assert found(events) == []


def test_gaps_are_listed_and_no_finding() -> None:
    verifier = verified(captured(gap=LOST))
    assert [(gap.of, gap.chunks, gap.size_bytes) for gap in verifier.gaps] == [("response", 2, 7)]
    assert verifier.findings == []


def test_an_end_that_was_added_to_a_log_in_doubt_says_nothing_of_what_was_before() -> None:
    events = captured()[:4]
    rest = Capture.after(events[-1])
    events += [
        *rest.gap(LOST),
        *rest.end(9, ExchangeEnd("recorder_crash", "the journal contradicts the log")),
    ]
    assert found(events) == []


EVENTS = captured([SSE, SSE], gap=LOST)
positions = st.integers(0, len(EVENTS) - 1)


@given(positions, st.data())
def test_any_bit_of_an_event_is_held(pos: int, data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(["raw", "hash"]))
    before = bytearray(getattr(EVENTS[pos], field))
    bit = data.draw(st.integers(0, len(before) * 8 - 1))
    before[bit // 8] ^= 1 << bit % 8
    changed = [*EVENTS]
    changed[pos] = msgspec.structs.replace(EVENTS[pos], **{field: bytes(before)})
    assert found(changed)


@given(positions)
def test_one_changed_event_is_one_broken_link(pos: int) -> None:
    changed = [*EVENTS]
    changed[pos] = msgspec.structs.replace(EVENTS[pos], t_ns=EVENTS[pos].t_ns + 1)
    assert [(each.pos, each.check) for each in found(changed)] == [(pos, "hash")]


@given(st.integers(0, len(EVENTS) - 2))
def test_a_missing_event_is_named(pos: int) -> None:
    left = [event for event in EVENTS if event.pos != pos]
    assert (pos, "position") in {(each.pos, each.check) for each in found(left)}


@given(positions, positions)
def test_events_that_changed_places_are_found(one: int, other: int) -> None:
    moved = [*EVENTS]
    moved[one] = msgspec.structs.replace(EVENTS[other], pos=one)
    moved[other] = msgspec.structs.replace(EVENTS[one], pos=other)
    assert bool(found(moved)) == (one != other)


def test_a_chain_of_another_exchange_does_not_pass() -> None:
    verifier = ChainVerifier("s-1", "e-2")
    for event in EVENTS:
        verifier.feed(event)
    assert [(each.pos, each.check) for each in verifier.close()] == [(0, "hash")]


BODY = {"body_bytes": 1, "wire_bytes": 1, "wire_sha256": "00"}
OF_THE_REQUEST = {**BODY, "method": "GET", "target": "/", "upstream": "x"}
OF_THE_END = {
    **BODY,
    "events": 3,
    "frames": 9,
    "body_sha256": "00",
    "gap_chunks": 0,
    "gap_bytes": 0,
}


@table(
    ("pos", "record", "wrong"),
    [
        (0, RequestRecord, OF_THE_REQUEST),
        (-1, EndRecord, {**OF_THE_END, "http_status": 201, "lossless": True}),
    ],
)
def test_what_a_request_and_an_end_say_must_be_what_is_there(
    pos: int, record: type[msgspec.Struct], wrong: dict[str, object]
) -> None:
    for field, value in wrong.items():
        [finding] = found(saying(EVENTS, pos, record, **{field: value}))
        assert (finding.pos, finding.check, field in finding.message) == (
            EVENTS[pos].pos,
            "sums",
            True,
        )


def test_behind_the_end_there_are_only_notes() -> None:
    end = EVENTS[-1]
    later = msgspec.structs.replace(end, pos=end.pos + 1, kind="note", raw=b"{}")
    assert found(rehashed([*EVENTS, later])) == []
    assert checks(rehashed([*EVENTS, msgspec.structs.replace(later, kind="frame")])) == {"order"}


def test_an_exchange_begins_with_its_request() -> None:
    assert checks(rehashed([msgspec.structs.replace(EVENTS[2], pos=0)])) == {"order"}
    assert checks([]) == {"order"}


def test_an_open_exchange_is_in_order() -> None:
    verifier = verified(EVENTS[:-1])
    assert (verifier.findings, verifier.end_pos) == ([], None)


@table("pos", [0, 2, len(EVENTS) - 2, len(EVENTS) - 1])
@table("raw", [b"", b"null", b"[]", b"\xff", b'{"status":3}', None, 3, "text", 1.5])
def test_a_record_that_makes_no_sense_is_a_finding_and_no_error(pos: int, raw: Any) -> None:
    changed = [*EVENTS]
    changed[pos] = msgspec.structs.replace(EVENTS[pos], raw=raw)
    assert found(rehashed(changed) if isinstance(raw, bytes) else changed)


def test_however_much_is_wrong_the_findings_are_few() -> None:
    many = captured([SSE] * 100)
    odd = [msgspec.structs.replace(event, raw=event.raw + b"x") for event in many]
    assert len(found(odd)) == FINDINGS_LIMIT + 1
    assert "findings more" in found(odd)[-1].message


@pytest.mark.timed
def test_verifying_keeps_up_with_the_disk() -> None:
    """A tenth of what is measured. It counts CPU time: a machine may have other things to do."""
    many = captured([SSE] * 10_000)
    began = time.process_time()
    assert found(many) == []
    assert len(many) / (time.process_time() - began) > 20_000


@pytest.mark.long
def test_what_is_held_does_not_grow_with_the_exchange() -> None:
    many = captured([SSE] * 10_000)
    verifier = ChainVerifier("s-1", "e-1", EXCHANGE)
    tracemalloc.start()
    for event in many:
        verifier.feed(event)
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # what one `reads` takes when it is decoded
    assert held_bytes < 256 * 1024 < sum(len(event.raw) for event in many)
