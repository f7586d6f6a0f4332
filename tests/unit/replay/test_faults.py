"""Faults: each does what its form says, nothing else, and the same again with the same seed."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.errors import UpstreamError
from recorder.model.facts import ErrorReported
from recorder.proxy.http.messages import IteratedBody, Request, Response
from recorder.replay.faults.forms import FORMS, parse_fault
from recorder.replay.faults.transport import FaultTransport
from recorder.wire.dialects import by_path
from recorder.wire.framing import JSON_ARRAY, framing_of
from recorder.wire.framing.sse import Splitter, parse
from tests.support.aws_messages import aws_event
from tests.support.facts import MS
from tests.support.proxy import request_for
from tests.unit.replay.test_pace import TestClock
from tests.unit.replay.test_transport import BODY, FRAMES

WORDS = "Zwölf Boxkämpfer 🥊 jagen Viktor quer über den großen Sylter Deich"
UNICODE = b"".join(
    b"data: %b\n\n" % json.dumps({"delta": word}, ensure_ascii=False).encode()
    for word in WORDS.split()
)


class Upstream:
    """Answers every request with the same chunks, one every 10 ms; may break off at the end."""

    def __init__(
        self,
        clock: TestClock,
        *chunks: bytes,
        kind: str = "text/event-stream",
        breaks_off: bool = False,
    ) -> None:
        self._clock, self._chunks, self._kind, self._breaks_off = clock, chunks, kind, breaks_off
        self.asked: list[Request] = []
        self.closed = 0

    async def handle_async_request(self, request: Request) -> Response:
        self.asked.append(request)
        return Response(200, b"OK", [(b"content-type", self._kind.encode())], IteratedBody(self))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            await self._clock.sleep_until(self._clock.time_ns + 10 * MS)
            yield chunk
        if self._breaks_off:
            raise UpstreamError("gone", "upstream_reset")

    async def aclose(self) -> None:
        self.closed += 1


class Seen:
    """What came through: the chunks with their times, and the outcome it broke off with."""

    def __init__(self) -> None:
        self.status = 0
        self.headers = httpx.Headers()
        self.times_ms: list[float] = []
        self.chunks: list[bytes] = []
        self.outcome: str | None = None
        self.ended_ms = 0.0

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)


def request(**more: Any) -> Request:
    return request_for("POST", "https://api.openai.com/v1/responses", content=b"{}", **more)


async def through(
    transport: FaultTransport, clock: TestClock, asked: Request | None = None
) -> Seen:
    seen, started_ns = Seen(), clock.time_ns
    response = await transport.handle_async_request(asked or request())
    seen.status, seen.headers = response.status_code, httpx.Headers(response.headers.raw)
    try:
        async for chunk in response.stream:
            seen.chunks.append(chunk)
            seen.times_ms.append((clock.time_ns - started_ns) / MS)
    except UpstreamError as error:
        seen.outcome = error.outcome
    await response.stream.aclose()
    seen.ended_ms = (clock.time_ns - started_ns) / MS
    return seen


async def spoilt(
    *faults: str,
    chunks: tuple[bytes, ...] = (BODY,),
    seed: int = 0,
    asked: Request | None = None,
    **how: Any,
) -> Seen:
    clock = TestClock()
    upstream = Upstream(clock, *chunks, **how)
    transport = FaultTransport(
        upstream, [parse_fault(fault) for fault in faults], seed=seed, clock=clock
    )
    seen = await through(transport, clock, asked)
    assert upstream.closed == len(upstream.asked)
    return seen


cuts = st.lists(st.integers(1, len(BODY) - 1), unique=True).map(sorted)


def cut(places: list[int]) -> tuple[bytes, ...]:
    return tuple(BODY[start:stop] for start, stop in itertools.pairwise([0, *places, len(BODY)]))


@given(cuts, st.integers(0, len(FRAMES)))
async def test_a_cut_comes_after_its_event_whatever_the_chunks(
    places: list[int], event: int
) -> None:
    seen = await spoilt(f"cut@{event}", chunks=cut(places))
    assert (seen.body, seen.outcome) == (b"".join(FRAMES[:event]), "truncated")


@pytest.mark.parametrize("kind", ["application/x-ndjson", "application/vnd.amazon.eventstream"])
async def test_a_line_and_a_binary_message_are_events(kind: str) -> None:
    one = aws_event("chunk", 1) if "amazon" in kind else b'{"a": 1}\n'
    seen = await spoilt("cut@2", chunks=(one + one[:5], one[5:] + one), kind=kind)
    assert (seen.body, seen.outcome) == (2 * one, "truncated")


ARRAY = request_for(
    "POST",
    "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent",
    content=b"{}",
)


@pytest.mark.parametrize(
    ("fault", "texts"), [("cut@1", b'[{"a":1}'), ("error@2:503", None), ("error@0:503", None)]
)
async def test_an_array_is_struck_between_its_elements(fault: str, texts: bytes | None) -> None:
    seen = await spoilt(
        fault, asked=ARRAY, chunks=(b'[{"a"', b':1}\n,{"b":2}\n]'), kind="application/json"
    )
    if texts is not None:
        assert (seen.body, seen.outcome) == (texts, "truncated")
        return
    *elements, error = json.loads(seen.body)
    assert elements == [{"a": 1}, {"b": 2}][: int(fault[6])]
    assert error["error"]["code"] == 503


@given(
    st.lists(
        st.sampled_from(
            ["drop@1", "drop@3", "drop:50%", "repeat@1", "repeat:50%", "reorder@1", "reorder:50%"]
        )
    ),
    st.sampled_from([b"[1,\r\n2\n,[3] ]\n", b"[{}]", b"[]", b" [ ]\n"]),
    st.integers(0, 99),
)
async def test_an_array_whose_elements_are_moved_is_an_array(
    faults: list[str], body: bytes, seed: int
) -> None:
    seen = await spoilt(
        *faults, asked=ARRAY, chunks=(body[:5], body[5:]), kind="application/json", seed=seed
    )
    assert {*map(str, json.loads(seen.body))} <= {*map(str, json.loads(body))}


async def test_elements_are_lost_repeated_and_late() -> None:
    for fault, elements in (
        ("drop@1", [2, 3]),
        ("repeat@1", [1, 1, 2, 3]),
        ("reorder@1", [2, 1, 3]),
    ):
        seen = await spoilt(fault, asked=ARRAY, chunks=(b"[1,2,3]",), kind="application/json")
        assert json.loads(seen.body) == elements


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "kind", ["application/x-ndjson", "application/vnd.amazon.eventstream", "application/json"]
)
async def test_the_json_of_an_event_ends_too_early_in_any_framing(kind: str, seed: int) -> None:
    texts = {
        "application/x-ndjson": b'{"a": 1}\n{"a": 1}\n',
        "application/json": b'[{"a": 1}\n,{"a": 1}\n]',
    }
    body = texts.get(kind, 2 * aws_event("chunk", {"a": 1}))
    framing = framing_of(kind) or JSON_ARRAY
    seen = await spoilt("corrupt@1", asked=ARRAY, chunks=(body,), kind=kind, seed=seed)
    pieces = framing.splitter().feed(seen.body)
    damaged = framing.fields(pieces[0].raw).data or b""
    assert b'{"a": 1}'.startswith(damaged.partition(b",")[0].strip())
    with pytest.raises(ValueError):
        json.loads(damaged)


@given(cuts, st.integers(0, len(FRAMES)))
async def test_a_clean_end_comes_after_its_event_whatever_the_chunks(
    places: list[int], event: int
) -> None:
    seen = await spoilt(f"end@{event}", chunks=cut(places))
    assert (seen.body, seen.outcome) == (b"".join(FRAMES[:event]), None)


@pytest.mark.parametrize(
    ("url", "events"),
    [
        ("https://api.openai.com/v1/responses", ["error", "response.failed"]),
        ("https://api.openai.com/v1/chat/completions", [None]),
        ("https://api.anthropic.com/v1/messages", ["error"]),
        (
            "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse",
            [None],
        ),
    ],
)
async def test_an_error_in_a_stream_is_one_to_the_decoder_of_its_format(
    url: str, events: list[str | None]
) -> None:
    seen = await spoilt("error@2:429", asked=request_for("POST", url, content=b"{}"))
    assert seen.body.startswith(b"".join(FRAMES[:2]))
    assert seen.outcome is None
    dialect = by_path("POST", httpx.URL(url).path)
    found = []
    for piece in Splitter().feed(seen.body[len(b"".join(FRAMES[:2])) :]):
        parsed = parse(piece.raw)
        facts = dialect.decoder().event(dialect.keys(piece.raw).type, parsed.data or b"")
        assert [fact for fact in facts if isinstance(fact, ErrorReported)]
        found.append(parsed.event.decode() if parsed.event else None)
    assert found == events


async def test_a_cut_may_be_a_reset_and_a_stream_without_that_event_is_not_cut() -> None:
    assert (await spoilt("cut@1:reset")).outcome == "upstream_reset"
    seen = await spoilt("cut@21")
    assert (seen.body, seen.outcome) == (BODY, None)


async def test_comments_are_no_events() -> None:
    seen = await spoilt("cut@2", chunks=(b": a\n\n", FRAMES[0], b": b\n\n\n", FRAMES[1], FRAMES[2]))
    assert seen.body == b": a\n\n" + FRAMES[0] + b": b\n\n\n" + FRAMES[1]


async def test_a_cut_at_a_time_lets_through_what_came_before() -> None:
    seen = await spoilt("cut@25ms", chunks=tuple(FRAMES))
    assert (seen.chunks, seen.outcome) == (FRAMES[:2], "truncated")


async def test_a_stall_holds_up_all_that_follows_its_event_and_a_delay_everything() -> None:
    seen = await spoilt("stall@3:2s", chunks=tuple(FRAMES[:5]))
    assert seen.times_ms == [10, 20, 30, 2_040, 2_050]
    assert (await spoilt("delay:1.5s")).times_ms == [1_510]


async def test_a_stall_without_an_end_lasts_until_the_client_gives_up() -> None:
    seen = await spoilt("stall@3", asked=request(extensions={"timeout": {"read": 5.0}}))
    assert (seen.body, seen.outcome, seen.ended_ms) == (b"".join(FRAMES[:3]), "timeout", 5_010)


async def test_lost_repeated_and_late_events() -> None:
    assert (await spoilt("drop@2")).body == b"".join(FRAMES[:1] + FRAMES[2:])
    assert (await spoilt("repeat@2")).body == b"".join(FRAMES[:2] + FRAMES[1:])
    assert (await spoilt("reorder@2")).body == b"".join(
        [FRAMES[0], FRAMES[2], FRAMES[1], *FRAMES[3:]]
    )
    assert (await spoilt("reorder@20")).body == BODY


@given(
    st.sampled_from(['{"a":1}', "{}", "[]", '{"a": "}"}', "[[]]"]),
    st.text(" \t", max_size=9),
    st.integers(),
)
async def test_whatever_the_payload_it_is_no_json_afterwards(
    payload: str, spaces: str, seed: int
) -> None:
    seen = await spoilt(
        "corrupt@1", chunks=(f"data:{payload}{spaces}\r\n\r\n".encode(),), seed=seed
    )
    assert seen.body.endswith(b"\r\n\r\n")
    with pytest.raises(ValueError):
        json.loads(seen.body.partition(b":")[2])


@given(st.integers(1, len(FRAMES)), st.integers())
async def test_a_damaged_event_is_framed_as_before_and_is_no_json(event: int, seed: int) -> None:
    pieces = Splitter().feed((await spoilt(f"corrupt@{event}", seed=seed)).body)
    blocks = [piece.raw for piece in pieces]
    damaged = blocks.pop(event - 1)
    assert blocks == FRAMES[: event - 1] + FRAMES[event:]
    with pytest.raises(ValueError):
        json.loads(damaged.partition(b"data: ")[2])


async def test_what_is_no_json_object_is_not_damaged() -> None:
    assert (
        await spoilt("corrupt:100%", chunks=(b"data: [DONE]\n\n", b"data: {\n\n"))
    ).body.startswith(b"data: [D")


@pytest.mark.parametrize("fault", ["drop", "repeat", "reorder", "corrupt"])
async def test_a_share_of_events_is_some_of_them(fault: str) -> None:
    frames = FRAMES * 20
    assert (await spoilt(f"{fault}:0%", chunks=tuple(frames))).body == b"".join(frames)
    some = await spoilt(f"{fault}:30%", chunks=tuple(frames))
    assert len([1 for came, sent in zip(some.chunks, frames, strict=False) if came != sent]) > 50


@pytest.mark.parametrize("fault", ["slice", "slice:1", "slice:utf8", "drip:1000", "drip:7"])
async def test_slices_are_the_whole_body(fault: str) -> None:
    seen = await spoilt(fault, chunks=(UNICODE, b"", UNICODE))
    assert seen.body == UNICODE * 2
    assert all(seen.chunks) or b"" in seen.chunks
    assert {len(chunk) for chunk in (await spoilt("slice:3")).chunks} == {1, 2, 3}


async def test_a_cut_in_characters_is_in_every_character_of_several_bytes() -> None:
    seen = await spoilt("slice:utf8", chunks=(UNICODE,))
    assert len(seen.chunks) == 1 + sum(len(char.encode()) > 1 for char in UNICODE.decode())
    for chunk in seen.chunks[:-1]:
        with pytest.raises(UnicodeDecodeError):
            chunk.decode()


async def test_a_drip_that_wakes_late_does_not_fall_behind() -> None:
    clock = TestClock(late_ns=7 * MS)
    transport = FaultTransport(
        Upstream(clock, bytes(3_000)), [parse_fault("drip:1000")], clock=clock
    )
    assert (await through(transport, clock)).times_ms[-1] == 10 + 7 + 2_950 + 7


async def test_a_drip_takes_its_time_and_no_more() -> None:
    seen = await spoilt("drip:1000", chunks=(bytes(3_000),))
    assert seen.times_ms[-1] == 10 + 2_950
    assert {len(chunk) for chunk in seen.chunks} == {50}


@pytest.mark.parametrize(
    ("status", "kind"), [(429, "requests"), (500, "server_error"), (529, "server_error")]
)
async def test_a_status_is_an_error_in_the_provider_s_shape(status: int, kind: str) -> None:
    seen = await spoilt(f"status:{status}:retry-after=1")
    assert (seen.status, seen.headers["retry-after"]) == (status, "1")
    assert json.loads(seen.body)["error"]["type"] == kind


async def test_a_status_may_pass_after_some_times() -> None:
    clock = TestClock()
    transport = FaultTransport(
        Upstream(clock, BODY), [parse_fault("status:529:times=2")], clock=clock
    )
    assert [(await through(transport, clock)).status for _ in range(3)] == [529, 529, 200]


async def test_several_faults_apply_in_order() -> None:
    assert (await spoilt("drop@1", "cut@2")).body == b"".join(FRAMES[1:3])
    assert (await spoilt("cut@2", "drop@1")).body == FRAMES[1]


DOCUMENT: dict[str, Any] = {"chunks": (b"{", b"}"), "kind": "application/json"}


async def test_a_document_has_no_events_to_lose() -> None:
    seen = await spoilt("cut@1", "error@0:500", "drop:100%", "reorder@1", "stall@2", **DOCUMENT)
    assert (seen.chunks, seen.times_ms, seen.outcome) == ([b"{", b"}"], [10, 20], None)


async def test_what_is_before_the_first_event_at_a_time_or_at_bytes_happens_to_a_document_too() -> (
    None
):
    assert ((cut := await spoilt("cut@0:reset", **DOCUMENT)).body, cut.outcome) == (
        b"",
        "upstream_reset",
    )
    assert (await spoilt("stall@0:1s", **DOCUMENT)).times_ms == [1_010, 1_020]
    assert (await spoilt("delay:1s", **DOCUMENT)).times_ms == [1_010, 1_020]
    assert ((end := await spoilt("end@0", **DOCUMENT)).body, end.outcome) == (b"", None)
    assert ((cut := await spoilt("cut@15ms", **DOCUMENT)).body, cut.outcome) == (b"{", "truncated")
    assert (await spoilt("slice:1", chunks=(b"[]",), kind="application/json")).chunks == [
        b"[",
        b"]",
    ]
    assert (await spoilt("drip:1", **DOCUMENT)).times_ms == [10, 1_010]


def faulty(
    *specs: str, chunks: tuple[bytes, ...] = (BODY,), **how: Any
) -> tuple[FaultTransport, TestClock]:
    clock = TestClock()
    return FaultTransport(
        Upstream(clock, *chunks, **how), [parse_fault(each) for each in specs], clock=clock
    ), clock


LAST = len(FRAMES)


@pytest.mark.parametrize(
    ("spec", "unmet"),
    [
        (f"cut@{LAST + 1}", f"no response had an event {LAST + 1}"),
        ("cut@99s", "no response took 99 s"),
        (f"end@{LAST + 1}", f"no response had an event {LAST + 1}"),
        (f"error@{LAST + 1}:500", f"no response had an event {LAST + 1}"),
        (f"stall@{LAST + 1}", f"no response had an event {LAST + 1}"),
        (f"drop@{LAST + 1}", f"no response had an event {LAST + 1}"),
        ("repeat:0%", "it met no event"),
        (f"corrupt@{LAST + 1}", f"no response had an event {LAST + 1} that has JSON"),
        (f"reorder@{LAST}", f"no response had an event {LAST} and another after it"),
        ("slice:utf8", "no response had a character of several bytes"),
    ],
)
async def test_a_fault_that_has_done_nothing_is_known(spec: str, unmet: str) -> None:
    transport, clock = faulty(spec, "delay:0s")
    assert transport.unused == [spec, "delay:0s"]
    assert (await through(transport, clock)).body == BODY
    assert (transport.unused, [fault.unmet for fault in transport.idle()]) == ([spec], [unmet])


@pytest.mark.parametrize(
    "spec",
    [
        *(
            "cut@0",
            f"cut@{LAST}",
            "cut@5ms",
            "end@0",
            f"end@{LAST}",
            "stall@0:1s",
            f"stall@{LAST}:1s",
        ),
        *("error@0:500", f"error@{LAST}:529", "delay:0s", "slice:1", "drop@1"),
        *("repeat@1", "reorder@1", "corrupt@1", "status:500", "drip:99999"),
    ],
)
async def test_a_fault_that_has_done_something_is_used(spec: str) -> None:
    transport, clock = faulty(spec)
    await through(transport, clock)
    assert transport.unused == []


async def test_a_fault_that_only_some_responses_have_met_is_used() -> None:
    transport, clock = faulty("status:500:times=1", "cut@1")
    assert [(await through(transport, clock)).outcome for _ in range(2)] == [None, "truncated"]
    assert transport.unused == []


async def test_an_event_without_json_cannot_be_corrupted() -> None:
    transport, clock = faulty("corrupt@1", chunks=(b"data: [DONE]\n\n",))
    await through(transport, clock)
    assert transport.unused == ["corrupt@1"]


async def test_all_that_came_passes_before_the_upstream_s_own_failure() -> None:
    seen = await spoilt("drop@1", chunks=(BODY[:-3],), breaks_off=True)
    assert (seen.body, seen.outcome) == (BODY[len(FRAMES[0]) : -3], "upstream_reset")


async def test_the_upstream_is_asked_for_a_body_that_can_be_read() -> None:
    clock = TestClock()
    upstream = Upstream(clock, BODY)
    await through(
        FaultTransport(upstream, [parse_fault("drop@1")], clock=clock),
        clock,
        request(headers={"accept-encoding": "zstd"}),
    )
    assert upstream.asked[0].headers.get("accept-encoding") == "identity"


@given(
    st.sampled_from(["slice", "drop:50%", "corrupt:50%", "reorder:50%", "slice:utf8"]),
    st.integers(0, 2**32),
)
async def test_the_same_seed_is_the_same_run(fault: str, seed: int) -> None:
    first, second = [await spoilt(fault, chunks=(UNICODE, BODY), seed=seed) for _ in range(2)]
    assert first.chunks == second.chunks


async def test_another_seed_or_request_is_another_run() -> None:
    clock = TestClock()
    transport = FaultTransport(Upstream(clock, BODY), [parse_fault("slice")], clock=clock)
    runs = [await through(transport, clock) for _ in range(2)]
    runs.append(await spoilt("slice", seed=1))
    assert len({tuple(run.chunks) for run in runs}) == 3


NO_FAULTS = [
    *(
        "",
        "cut",
        "cut@",
        "cut@x",
        "cut@-1",
        "cut@1:gently",
        "cut@²",
        "cut@1:",
        "stall",
        "stall@1:2",
        "stall@1:2s:3s",
    ),
    *("error@1", "error:500", "error@1:200", "error@1:500:500"),
    *("end", "end@", "end@-1", "end@1:reset", "end@5s"),
    *(
        "delay",
        "delay@1:2s",
        "delay:2",
        "slice:0",
        "slice@1",
        "drop",
        "drop@0",
        "drop:5",
        "drop:101%",
        "drop@1:5%",
    ),
    *("status", "status:200", "status:600", "status:429:retry-after=soon", "status:429:times=0"),
    *(
        "status:429:x=1",
        "status:429:times=1:times=2",
        "drip:0",
        "drip",
        "explode",
        "CUT@1",
        "cut@9999999999",
    ),
]
OUT_OF_RANGE = {
    "drip:0": "0 is not between 1 and",
    "cut@-1": "-1 is not between 0 and",
    "drop@0": "0 is not between 1 and",
    "drop:101%": "101% is more than all",
    "delay:-1s": "-1s is less than nothing",
    "delay:86401s": "86401s is over a day",
    "stall@1:2": "2 has no unit, s or ms",
    "status:200": "200 is not between 400 and 599",
    "status:429:times=0": "0 is not between 1 and",
}


def refusal(text: str) -> str:
    with pytest.raises(ValueError) as raised:
        parse_fault(text)
    return str(raised.value)


def test_what_is_no_fault_is_said_in_one_sentence() -> None:
    for text in NO_FAULTS:
        assert re.fullmatch(re.escape(f"{text!r} is not a fault: ") + r"[^\n]*\.", refusal(text))


def test_what_is_out_of_range_is_told_the_range() -> None:
    for text, said in OUT_OF_RANGE.items():
        assert refusal(text).startswith(f"{text!r} is not a fault: {said}")
        assert "; write " in refusal(text)


def test_every_form_has_its_own_help() -> None:
    for name in FORMS:
        assert f"write {name}" in refusal(f"{name}@1:2:3:4")


@given(st.text())
def test_any_text_is_a_fault_or_a_value_error(text: str) -> None:
    for each in (text, f"cut@{text}", f"drop:{text}", f"status:{text}", f"stall@1:{text}"):
        try:
            parse_fault(each)
        except ValueError:
            pass
