"""`recorder.cassettes.transcripts.codex`: what Codex wrote down, as exchanges."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from recorder.cassettes.content import formats
from recorder.cassettes.transcripts.codex import Codex
from recorder.model.events import Recording
from tests.support.transcripts import (
    FORK,
    OLD_TURN,
    OWN_TURN,
    SUB_THREAD,
    THREAD,
    CodexLines,
    counted_by_codex,
)
from tests.unit.cassettes.test_cassettes import imported, recordings


def transcript(lines: CodexLines) -> Codex:
    return Codex(io.BytesIO(b"".join(b"%b\n" % json.dumps(line).encode() for line in lines.lines)))


def read(lines: CodexLines) -> list[Recording]:
    return recordings(imported(transcript(lines)))


def request(each: Recording) -> Any:
    return json.loads(each.request_body)


def answer(each: Recording) -> Any:
    return json.loads(each.body)


def test_a_rollout_is_known_by_its_first_line() -> None:
    assert formats(json.dumps(counted_by_codex().lines[0]).encode()) == ("codex",)


@pytest.mark.parametrize("is_new", [True, False])
def test_a_report_of_usage_ends_a_response_and_counts_once(is_new: bool) -> None:
    found = [answer(each) for each in read(counted_by_codex(is_new=is_new))]
    assert [[item["type"] for item in each["output"]] for each in found] == [
        ["function_call"],
        ["reasoning", "message"],
    ]
    assert [each["usage"]["input_tokens"] for each in found] == [100, 200]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_report_that_comes_again_ends_no_other_response(is_new: bool) -> None:
    lines = counted_by_codex(is_new=is_new)
    again = lines.lines.pop()
    lines.answered("Anything")
    lines.lines.append(again)
    lines.answered("else?")
    lines.used(300)
    *_, last = [answer(each) for each in read(lines)]
    assert len(last["output"]) == 2


def test_a_report_that_comes_late_ends_no_other_response() -> None:
    lines = counted_by_codex()
    late = lines.lines.pop(), lines.lines.pop()
    lines.answered("Anything")
    lines.lines += late
    lines.answered("else?")
    lines.used(300)
    *_, last = [answer(each) for each in read(lines)]
    assert len(last["output"]) == 2


def test_a_result_that_came_before_the_end_is_of_the_next_request() -> None:
    _, last = map(request, read(counted_by_codex()))
    assert [item["type"] for item in last["input"]] == ["function_call_output"]
    assert (last["previous_response_id"], last["reasoning"]) == ("resp_100", {"effort": "high"})


def test_a_turn_that_was_broken_off_has_no_usage() -> None:
    lines = counted_by_codex()
    lines.said("Again.")
    lines.answered("There are")
    lines.event("turn_aborted", reason="interrupted")
    *_, last = map(answer, read(lines))
    assert (last["status"], "usage" in last) == ("incomplete", False)


def test_a_response_without_usage_may_still_be_written() -> None:
    lines = counted_by_codex()
    lines.answered("More")
    assert transcript(lines).leave_unsettled() == 1


def test_a_sub_agent_is_of_the_session_that_began_it() -> None:
    lines = CodexLines(SUB_THREAD, THREAD)
    lines.answered("Hello.")
    lines.used(10)
    [each] = read(lines)
    headers = dict(each.request.headers)
    assert (
        transcript(lines).name
        == headers["session-id"]
        == headers["x-codex-parent-thread-id"]
        == THREAD
    )
    assert headers["thread-id"] == SUB_THREAD


def forked(of: CodexLines, turn_id: str | None) -> CodexLines:
    """A thread that goes on from a copy of another one."""
    lines = of.forked(FORK)
    lines.turn(turn_id)
    lines.said("And now?")
    lines.answered("Now there are 41.")
    lines.used(300)
    return lines


@pytest.mark.parametrize("has_meta", [True, False])
def test_the_copied_history_of_a_fork_is_not_its_own(has_meta: bool) -> None:
    parent = CodexLines()
    parent.turn(OLD_TURN)
    parent.answered("There are 42 bottles.")
    parent.used(200)
    lines = forked(parent, OWN_TURN)
    if has_meta:
        lines.lines.insert(1, parent.lines[0])
    [own] = read(lines)
    assert [item["content"][0]["text"] for item in request(own)["input"]] == ["And now?"]


def test_the_copy_of_a_version_whose_turns_have_no_ids_is_what_was_written_at_once() -> None:
    lines = forked(counted_by_codex(is_new=False), None)
    [own] = read(lines)
    assert answer(own)["usage"]["input_tokens"] == 300
