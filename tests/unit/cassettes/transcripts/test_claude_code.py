"""`recorder.cassettes.transcripts.claude_code`: what Claude Code wrote down, as exchanges."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from recorder.cassettes import transcripts
from recorder.cassettes.content import formats
from recorder.cassettes.transcripts.claude_code import ClaudeCode
from recorder.model.events import Recording
from tests.support.transcripts import ClaudeLines, called, counting, result, thought, told
from tests.unit.cassettes.test_cassettes import imported, recordings


def data_of(lines: ClaudeLines) -> bytes:
    return b"".join(b"%b\n" % json.dumps(line).encode() for line in lines.lines)


def transcript(lines: ClaudeLines) -> ClaudeCode:
    return ClaudeCode(io.BytesIO(data_of(lines)))


def read(lines: ClaudeLines) -> list[Recording]:
    return recordings(imported(transcript(lines)))


def answer(each: Recording) -> Any:
    return json.loads(each.body)


def test_a_transcript_is_known_by_its_first_lines() -> None:
    queued = b'{"type":"queue-operation","operation":"enqueue","sessionId":"1"}\n'
    assert formats(data_of(counting())) == formats(queued) == ("claude-code",)


def test_the_lines_of_an_answer_are_one_response() -> None:
    _, last = read(counting())
    assert answer(last)["content"] == [
        thought("The tool has answered."),
        told("There are 42 bottles."),
    ]
    assert answer(last)["usage"]["output_tokens"] == 83


def test_a_request_has_what_is_new_and_the_response_that_it_follows() -> None:
    _, last = read(counting())
    body = json.loads(last.request_body)
    assert body["messages"] == [{"role": "user", "content": [result("toolu_1", "42")]}]
    assert body["thread"] == {"type": "continue", "previous_message_id": "msg_1"}


def test_a_result_between_the_lines_of_an_answer_is_of_the_next_request() -> None:
    lines = ClaudeLines()
    lines.said("Count twice.")
    lines.answered("msg_1", called("toolu_1", "Bash"), stop="tool_use")
    lines.said([result("toolu_1", "1")])
    lines.answered("msg_1", called("toolu_2", "Bash"), stop="tool_use")
    lines.said([result("toolu_2", "2")])
    lines.answered("msg_2", told("Done."))
    first, last = read(lines)
    assert [block["id"] for block in answer(first)["content"]] == ["toolu_1", "toolu_2"]
    assert len(json.loads(last.request_body)["messages"]) == 2


def test_a_sub_agent_of_an_older_version_is_a_thread_of_its_own() -> None:
    lines = counting()
    side = ClaudeLines(agent="side")
    side.said("Say hello.")
    side.answered("msg_3", told("Hello."))
    for line in side.lines:
        del line["agentId"]
    lines.lines[2:2] = side.lines
    threads = {
        answer(each)["id"]: dict(each.request.headers).get("x-claude-code-agent-id")
        for each in read(lines)
    }
    assert threads == {"msg_1": None, "msg_2": None, "msg_3": "side-1"}


def test_messages_that_claude_code_made_itself_are_not_responses() -> None:
    lines = counting()
    lines.answered("msg_3", told("API Error: Overloaded"))
    lines.lines[-1]["message"]["model"] = "<synthetic>"
    assert len(read(lines)) == 2


def test_an_exchange_has_no_byte_of_a_response_to_answer_with() -> None:
    first, _ = read(counting())
    assert first.request.derived == "a transcript of Claude Code"
    assert (
        first.damage
        == "it is derived from a transcript of Claude Code: no byte of a response is known"
    )
    assert first.end is not None
    assert not first.end.lossless


def test_ids_are_the_same_in_a_copy_under_another_session() -> None:
    assert transcript(counting()).ids == transcript(counting("a-copy")).ids


def test_the_last_answer_is_not_settled_before_what_it_ends_with_is_there() -> None:
    lines = counting()
    lines.lines.pop()
    half = transcript(lines)
    assert (half.leave_unsettled(), transcript(counting()).leave_unsettled()) == (1, 0)


def test_half_a_line_at_the_end_is_not_a_fault() -> None:
    read = ClaudeCode(io.BytesIO(data_of(counting()) + b'{"type":"assis'))
    assert (read.skipped, len(read.ids)) == ([], 2)


def test_a_line_that_is_too_long_is_named_and_the_next_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transcripts, "LINE_LIMIT", 2**20)
    long = b'{"type":"user","content":"%b"}\n' % (b"x" * 3 * 2**20)
    read = ClaudeCode(io.BytesIO(long + data_of(counting())))
    assert [(line.number, line.reason) for line in read.skipped] == [
        (1, "it is over 1 MiB, more than any request")
    ]
    assert len(read.ids) == 2
