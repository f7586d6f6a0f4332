"""Sessions of requests get from a replay what they got when it was recorded, chunk by chunk,
failures too.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import msgspec
import pytest
import requests
import urllib3

from recorder.model.events import Recording
from recorder.replay.faults.forms import parse_fault
from recorder.replay.faults.transport import FaultTransport
from recorder.replay.matching import Matcher
from recorder.replay.pace import THREAD, Clock
from recorder.replay.transport import ReplayTransport
from recorder.testing.requests_library import ReplayAdapter
from tests.integration.testing.test_testing import FAILURES, STREAMS, cut_off, whole
from tests.support.facts import MS, PATHS
from tests.support.projects import Project, Upstream, stream
from tests.support.sdks import BASE, asked, of
from tests.support.sockets import ScriptedUpstream
from tests.unit.replay.test_pace import TestClock

pytest_plugins = ["pytester"]

API = "openai-chat"
STREAM = b"".join(STREAMS[API])
CUTS = [5, 50, 100]


class Came(NamedTuple):
    """What a session got: the pieces, and the names of the exception and of what is behind it."""

    status: int | None
    pieces: list[bytes]
    failure: list[str]


def session_of(
    recording: Recording, clock: Clock = THREAD, speed: float | None = None
) -> requests.Session:
    session = requests.Session()
    session.mount(
        "http://", ReplayAdapter(ReplayTransport(Matcher([recording]), speed=speed, clock=clock))
    )
    return session


def posted(session: requests.Session, base: str = BASE, **how: Any) -> requests.Response:
    given: dict[str, Any] = {
        "data": asked(API),
        "headers": {"content-type": "application/json"},
        "stream": True,
    }
    return session.post(base + PATHS[API], **given | how)


def got(session: requests.Session, base: str = BASE) -> Came:
    status: int | None = None
    pieces: list[bytes] = []
    try:
        with session, posted(session, base) as response:
            status = response.status_code
            pieces += response.iter_content(None)
    except requests.RequestException as error:
        return Came(status, pieces, [type(error).__name__, *map(_kind, error.args)])
    return Came(status, pieces, [])


def _kind(cause: Any) -> str:
    causes = cause.args if isinstance(cause, BaseException) else ()
    return " ".join([type(cause).__name__, *map(_kind, causes)]) if causes else ""


def test_a_body_comes_in_the_pieces_that_were_read() -> None:
    came = got(session_of(of(API, STREAM, cuts=CUTS)))
    assert (came.status, came.failure) == (200, [])
    assert came.pieces == [
        STREAM[start:end] for start, end in zip([0, *CUTS], [*CUTS, None], strict=True)
    ]


def test_a_piece_comes_when_it_is_due_and_waits_for_no_other() -> None:
    clock = TestClock()
    began_ns = clock.time_ns
    with posted(session_of(of(API, STREAM, cuts=CUTS), clock, speed=1)) as response:
        times = [(clock.time_ns - began_ns) // MS for _ in response.iter_content(None)]
    assert times == [2, 3, 4, 5]


def test_lines_come_as_soon_as_they_are_whole() -> None:
    clock = TestClock()
    began_ns = clock.time_ns
    with posted(session_of(whole(API, cuts=[len(STREAMS[API][0])]), clock, speed=1)) as response:
        assert next(response.iter_lines()).startswith(b"data: {")
        assert (clock.time_ns - began_ns) // MS == 2


async def test_a_replayed_failure_is_the_one_that_was_seen_live() -> None:
    for failure, (script, recording) in FAILURES.items():
        async with ScriptedUpstream(script(API)) as upstream:
            came = await asyncio.to_thread(got, requests.Session(), upstream.base)
        again = got(session_of(recording(API)))
        assert came.failure or came.pieces
        assert b"".join(again.pieces) == b"".join(came.pieces), failure
        assert (again.status, again.failure) == (came.status, came.failure), failure


def test_an_upstream_that_was_not_there_is_not_there_again() -> None:
    with pytest.raises(requests.ConnectionError) as raised:
        posted(session_of(cut_off(whole(API), "upstream_unreachable")))
    assert not isinstance(raised.value, requests.Timeout)


@pytest.mark.parametrize("timeout", [5, (1, 5), urllib3.Timeout(read=5)])
def test_a_stall_ends_with_the_read_timeout_of_the_client(timeout: Any) -> None:
    stalled = msgspec.structs.replace(whole(API), end_ns=3_600_000 * MS)
    with pytest.raises(requests.ConnectionError, match="Read timed out"):
        posted(session_of(stalled, TestClock(), speed=1), timeout=timeout, stream=False)
    silent = msgspec.structs.replace(stalled, head_ns=3_600_000 * MS)
    with pytest.raises(requests.ReadTimeout):
        posted(session_of(silent, TestClock(), speed=1), timeout=timeout)


def test_a_client_may_leave_in_mid_stream() -> None:
    session = session_of(of(API, STREAM, cuts=CUTS))
    response = posted(session)
    assert next(response.iter_content(None)) == STREAM[:5]
    response.close()
    session.close()


@pytest.mark.parametrize(
    "body", [asked(API), asked(API).decode(), [asked(API)[:9], asked(API)[9:]]]
)
def test_a_request_is_matched_in_whatever_form_it_is_given(body: Any) -> None:
    data: Any = iter(body) if isinstance(body, list) else body
    assert posted(session_of(whole(API)), data=data).content == STREAM


def test_a_request_that_nothing_answers_gets_the_error_that_names_the_nearest() -> None:
    response = posted(session_of(whole(API)), data=b'{"model":"other"}')
    assert (response.status_code, response.headers["x-recorder-miss"]) == (400, "1")
    assert "Nothing recorded answers" in response.json()["error"]["message"]


def test_faults_are_done_to_it() -> None:
    session, replay = (
        requests.Session(),
        ReplayTransport(Matcher([whole(API)]), speed=None, clock=THREAD),
    )
    session.mount(
        "http://", ReplayAdapter(FaultTransport(replay, [parse_fault("cut@1:reset")], clock=THREAD))
    )
    came = got(session)
    assert b"".join(came.pieces) == STREAMS[API][0]
    assert came.failure[0] == "ChunkedEncodingError"


# -- in the fixture

TEST = """
import requests

def test_one(recorder_replay):
    with requests.Session() as session:
        session.mount("http://", recorder_replay.requests_adapter())
        json = {"model": "m", "input": "hi", "stream": True}
        answer = session.post("BASE/v1/responses", json=json, stream=True)
        assert answer.content == CONTENT
        assert [each.how for each in recorder_replay.requests] == ["HOW"]
"""


def text_of(base: str, how: str, content: bytes = b"") -> str:
    return (
        TEST.replace("BASE", base).replace("HOW", how).replace("CONTENT", repr(content or stream()))
    )


def test_a_cassette_of_another_library_answers_it(project: Project) -> None:
    project.holds("hi").test(text_of(BASE, "exact")).said(passed=1)


def test_what_it_asks_is_recorded_and_replayed_from_then_on(
    project: Project, upstream: Upstream
) -> None:
    project.test(text_of(upstream.base, "miss")).said("--recorder-mode=once", passed=1)
    [recording] = project.recordings()
    assert b"".join(piece.raw for piece in recording.pieces) == stream()
    assert recording.end is not None
    assert recording.end.outcome == "eof"
    project.test(text_of(upstream.base, "exact")).said(passed=1)
    assert len(upstream.asked) == 1


def test_an_unused_recording_and_a_miss_fail_the_test(project: Project) -> None:
    text = (
        text_of(BASE, "miss")
        .replace('"hi"', '"ho"')
        .replace("assert answer.content == ", "assert answer.content; ")
    )
    said = project.holds("hi").test(text).said(passed=1, errors=1)
    assert 'input: recorded "hi", asked "ho"' in said
    assert "1 of 1 recording in" in said
