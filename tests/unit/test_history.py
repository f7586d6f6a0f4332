"""The history checker, which acceptance tests judge by: it finds what it should, each fault by its
equation.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec
import pytest

from tests.support.scripts import Logged, Received, judge

SENT = b"data: 1\n\ndata: 2\n\ndata: 3\n\n"
FRAMES = [SENT[:9], SENT[9:18], SENT[18:]]


def received(body: bytes = SENT, status: int | None = 200) -> Received:
    return Received("a", status, len(body), sha256(body).hexdigest(), "complete")


def gap(lost: bytes) -> tuple[str, bytes]:
    digest = sha256(lost).hexdigest()
    return "gap", msgspec.json.encode(
        {"of": "response", "chunks": 1, "size_bytes": len(lost), "sha256": digest}
    )


def logged(*events: bytes | tuple[str, bytes], **end: object) -> Logged:
    rows = [
        ("request", b"{}"),
        *(each if isinstance(each, tuple) else ("frame", each) for each in events),
    ]
    gaps = [msgspec.json.decode(raw) for kind, raw in rows if kind == "gap"]
    size = sum(len(raw) for kind, raw in rows if kind == "frame") + sum(
        each["size_bytes"] for each in gaps
    )
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
    assert not list(
        judge(received(SENT[:5]), [logged(*FRAMES[:2], outcome="client_disconnect")], SENT)
    )


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
        (
            received(),
            [Logged("x", [each for each in logged(*FRAMES).events if each[0] != 2])],
            "hole",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_fault_is_found(stream: Received, exchanges: list[Logged], word: str) -> None:
    findings = list(judge(stream, exchanges, SENT))
    assert any(word in finding for finding in findings), findings
