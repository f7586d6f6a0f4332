"""The history checker itself: it finds what it should, each fault by its equation. And the scripts do what they say."""

from __future__ import annotations

from hashlib import sha256

import msgspec
import pytest

from tests.support.event_loop import on_uvloop
from tests.support.history import Logged, judge
from tests.support.scripts import (
    Action,
    Chunk,
    End,
    Fin,
    LeaveAfter,
    ReadAll,
    Received,
    Reset,
    ResetAfter,
    Script,
    Sleep,
    Slow,
    Stall,
    Upstream,
    ask,
    body_of,
)

SENT = b"data: 1\n\ndata: 2\n\ndata: 3\n\n"
FRAMES = [SENT[:9], SENT[9:18], SENT[18:]]


def received(body: bytes = SENT, status: int | None = 200) -> Received:
    return Received("a", status, len(body), sha256(body).hexdigest(), "complete")


def gap(lost: bytes) -> tuple[str, bytes]:
    digest = sha256(lost).hexdigest()
    return "gap", msgspec.json.encode({"of": "response", "chunks": 1, "size_bytes": len(lost), "sha256": digest})


def logged(*events: bytes | tuple[str, bytes], **end: object) -> Logged:
    rows = [("request", b"{}"), *(each if isinstance(each, tuple) else ("frame", each) for each in events)]
    gaps = [msgspec.json.decode(raw) for kind, raw in rows if kind == "gap"]
    size = sum(len(raw) for kind, raw in rows if kind == "frame") + sum(each["size_bytes"] for each in gaps)
    sums = {
        "outcome": "eof",
        "wire_bytes": size,
        "lossless": not gaps,
        "gap_chunks": len(gaps),
        "gap_bytes": sum(each["size_bytes"] for each in gaps),
    }
    rows.append(("end", msgspec.json.encode({**sums, **end})))
    return Logged("x", [(pos, kind, raw) for pos, (kind, raw) in enumerate(rows)])


def test_a_whole_exchange_and_one_with_a_counted_gap_are_good() -> None:
    assert not list(judge(received(), [logged(*FRAMES)], SENT))
    assert not list(judge(received(), [logged(FRAMES[0], gap(FRAMES[1]), FRAMES[2])], SENT))


def test_a_client_that_left_has_less_than_the_log() -> None:
    assert not list(judge(received(SENT[:5]), [logged(*FRAMES[:2], outcome="client_disconnect")], SENT))


def test_a_request_that_never_arrived_owes_nothing() -> None:
    assert not list(judge(received(b"", None), [], b""))


@pytest.mark.parametrize(
    ("stream", "exchanges", "word"),
    [
        (received(), [], "no exchange"),
        (received(), [logged(*FRAMES)] * 2, "2 exchanges"),
        (received(), [logged(*FRAMES[:2], outcome="recorder_crash")], "the log has 18"),
        (received(), [logged(FRAMES[0], FRAMES[2])], "event 2 is not"),
        (received(), [logged(FRAMES[0], FRAMES[0], *FRAMES[1:])], "event 2 is not"),
        (received(), [logged(FRAMES[1], FRAMES[0], FRAMES[2])], "event 1 is not"),
        (received(), [logged(FRAMES[0], gap(b"data: X\n\n"), FRAMES[2])], "the gap at event 2"),
        (received(), [logged(*FRAMES[:2], gap(FRAMES[2]), gap_bytes=0)], "counts other gaps"),
        (received(), [logged(*FRAMES[:2], gap(FRAMES[2]), lossless=True)], "says that it is whole"),
        (received(), [logged(*FRAMES, wire_bytes=1)], "counts 1 bytes"),
        (received(SENT[:9]), [logged(*FRAMES[:2])], "ended well after 18 bytes of 27"),
        (received(b"data: X\n\n"), [logged(*FRAMES)], "other bytes"),
        (received(), [Logged("x", logged(*FRAMES).events[:-1])], "0 ends"),
        (received(), [Logged("x", [each for each in logged(*FRAMES).events if each[0] != 2])], "hole"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_fault_is_found(stream: Received, exchanges: list[Logged], word: str) -> None:
    findings = list(judge(stream, exchanges, SENT))
    assert any(word in finding for finding in findings), findings


# -- the scripts

PIECES: list[Action] = [Chunk(SENT), Sleep(0.01), Chunk(SENT)]
SCRIPTS: dict[str, Script] = {
    "whole": [*PIECES, End()],
    "reset": [*PIECES, Sleep(0.05), Reset()],
    "fin": [*PIECES, Fin()],
    "nothing": [Reset()],
    "stalls": [*PIECES, Stall()],
}


@pytest.mark.parametrize(
    ("id", "ending", "status", "size"),
    [
        ("whole", "complete", 200, 2),
        ("reset", "broken", 200, 2),
        ("fin", "broken", 200, 2),
        ("nothing", "broken", None, 0),
        ("stalls", "impatient", 200, 2),
    ],
)
@on_uvloop
async def test_an_upstream_plays_its_script(id: str, ending: str, status: int | None, size: int) -> None:
    async with Upstream(SCRIPTS.__getitem__) as upstream:
        got = await ask(upstream.port, id, ReadAll(), patience_s=0.5)
        assert (got.ending, got.status, got.size_bytes) == (ending, status, size * len(SENT))
        assert upstream.sent[id] == len(body_of(SCRIPTS[id]))
        assert got.sha256 == sha256(body_of(SCRIPTS[id])).hexdigest()


@pytest.mark.parametrize("behaviour", [LeaveAfter(5), ResetAfter(5)])
@on_uvloop
async def test_a_client_leaves_when_it_has_enough(behaviour: LeaveAfter | ResetAfter) -> None:
    async with Upstream(SCRIPTS.__getitem__) as upstream:
        got = await ask(upstream.port, "stalls", behaviour)
        assert got.ending == "left"
        assert got.size_bytes >= 5


@on_uvloop
async def test_a_slow_client_gets_it_all_in_its_time() -> None:
    async with Upstream(SCRIPTS.__getitem__) as upstream:
        assert (await ask(upstream.port, "whole", Slow(500), patience_s=5)).ending == "complete"
        assert (await ask(upstream.port, "whole", Slow(100), patience_s=0.1)).ending == "impatient"


@on_uvloop
async def test_where_nobody_listens_a_client_is_refused() -> None:
    assert (await ask(1, "whole", ReadAll())).ending == "refused"
