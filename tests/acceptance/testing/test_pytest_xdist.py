"""The plugin in the processes of pytest-xdist: each test has its recordings, wherever it runs."""

from __future__ import annotations

from pathlib import Path

import httpx2
import msgspec
import pytest

from recorder.testing import recording_transport
from tests.support.projects import LOADED, UNLOADED, Project, Upstream, stream

pytest_plugins = ["pytester"]

ASKING = """
import httpx2, pytest

def ask(base, prompt):
    answer = httpx2.post(f"{base}/responses", json={"input": prompt, "model": "m", "stream": True})
    answer.raise_for_status()
    return answer.text
"""
EIGHT = """
@pytest.mark.parametrize("number", range(8))
def test_own(recorder_replay, number):
    assert "completed" in ask(recorder_replay.base_url(), f"number {number}")
"""
SHARED = """
@pytest.mark.parametrize("number", range(4))
@pytest.mark.recorder(cassette="shared.sse.jsonl")
def test_shared(recorder_replay, number):
    assert "completed" in ask(recorder_replay.base_url(), "hi")
"""


def in_two(project: Project, tests: str, *options: str, **outcomes: int) -> str:
    """What a run in two processes says, which must have these outcomes."""
    project.pytester.makepyfile(test_it=ASKING + tests)
    loaded = [*LOADED, *(f"-pno:{name}" for name in UNLOADED)]
    result = project.pytester.runpytest_inprocess(*loaded, "-n2", "--dist=load", "-v", *options)
    result.assert_outcomes(**outcomes)
    said = str(result.stdout)
    assert "[gw0]" in said
    assert "[gw1]" in said
    return said


def test_tests_in_two_processes_are_recorded_and_replayed(
    project: Project, upstream: Upstream
) -> None:
    """Tests that share a cassette ask the same: whoever is last to record it leaves it whole."""
    in_two(project, EIGHT + SHARED, "--recorder-mode=once", passed=12)
    folder = project.pytester.path / "cassettes" / "test_it"
    assert sorted(each.name for each in folder.iterdir()) == [
        f"test_own[{number}].sse.jsonl" for number in range(8)
    ]
    [recording] = project.recordings("shared.sse.jsonl")
    assert b"".join(piece.raw for piece in recording.pieces) == stream()
    asked = [each["input"] for each in upstream.asked]
    assert sorted(set(asked)) == ["hi", *(f"number {number}" for number in range(8))]
    in_two(project, EIGHT + SHARED, passed=12)
    assert len(upstream.asked) == len(asked)


@pytest.mark.slow
def test_what_two_processes_record_in_one_cassette_is_all_there(
    project: Project, upstream: Upstream
) -> None:
    project.holds("old", path="shared.sse.jsonl")
    different = SHARED.replace('"hi"', 'f"number {number % 6}"').replace("range(4)", "range(12)")
    in_two(project, different, "--recorder-mode=rewrite", passed=12)
    asked = [
        msgspec.json.decode(each.request_body)["input"]
        for each in project.recordings("shared.sse.jsonl")
    ]
    assert sorted(asked) == [f"number {number}" for number in range(6)]
    in_two(project, different, passed=12)


@pytest.mark.slow
def test_what_is_said_of_a_cassette_is_said_by_the_process_that_is_read(
    project: Project, upstream: Upstream
) -> None:
    project.holds("hi").test("")
    said = in_two(
        project,
        "def test_one(recorder_replay): ...\ndef test_two(): ...",
        "--recorder-mode=all",
        passed=2,
    )
    assert (
        "recorder: cassettes/test_it/test_one.sse.jsonl was removed: test_it.py::test_one asked for nothing."
        in said
    )


@pytest.mark.slow
def test_tests_in_two_processes_share_a_cassette_a_session_and_what_is_said(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.holds("hi", path="shared.sse.jsonl").holds("hi", "ho", path="both.sse.jsonl")
    database = project.pytester.path / "runs.db"
    _record(database)
    monkeypatch.setenv("RECORDER_DB", str(database))
    said = in_two(
        project,
        f"""{SHARED}
@pytest.mark.parametrize("number", range(4))
@pytest.mark.recorder(session="mine")
def test_session(recorder_replay, number):
    assert "completed" in ask(recorder_replay.base_url(), "hi")
@pytest.mark.recorder(cassette="both.sse.jsonl")
def test_unused(recorder_replay):
    ask(recorder_replay.base_url(), "hi")
@pytest.mark.recorder(cassette="shared.sse.jsonl")
def test_unmatched(recorder_replay):
    ask(recorder_replay.base_url(), "ho")
""",
        passed=9,
        failed=1,
        errors=1,
    )
    assert "recorder: 1 of 2 recordings in both.sse.jsonl was not asked for:" in said
    assert "recorder: 1 request was not answered by shared.sse.jsonl." in said


def _record(database: Path) -> None:
    upstream = Upstream()
    body = msgspec.json.encode({"input": "hi", "model": "m", "stream": True})
    with httpx2.Client(transport=recording_transport(database, session="mine")) as http:
        http.post(f"{upstream.base}/v1/responses", content=body).read()
    upstream.close()
