"""`recorder bisect`: the words of a step, and which runs prove nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from recorder.commands.serving.bisecting import unanswered
from recorder.commands.terminal.bisect_report import answer_of, question_of
from recorder.model.events import Recording
from recorder.recordings.files import load_file
from recorder.torture.faulty import with_faults
from recorder.wire.dialects import by_name

FORMATS = Path(by_name.__code__.co_filename).parent
WEATHER = "What is the weather like in Paris and in Zürich?"


def demo(format: str) -> list[Recording]:
    return load_file(FORMATS / format / "demo.sse.jsonl").recordings


@pytest.mark.parametrize("format", ["anthropic", "gemini", "openai_chat", "openai_responses"])
def test_a_step_is_named_with_what_was_said_last_and_with_the_call_that_answered(
    format: str,
) -> None:
    steps = {question_of(each): answer_of(each) for each in demo(format)}
    assert steps[WEATHER].startswith("get_weather({")
    results = [question for question in steps if "18 °C, clear" in question]
    assert results, "the result of a tool"
    assert steps["This is over the rate limit."] == "status 429"


def test_a_request_counts_as_answered_if_it_was_when_it_was_sent_again() -> None:
    recorded = demo("openai_chat")[0]

    def faulty(form: str) -> Recording:
        return asyncio.run(with_faults(recorded, (form,), None))

    refused, broken = faulty("status:529"), faulty("cut@3:reset")
    assert unanswered([recorded]) is None
    assert unanswered([refused, broken, recorded]) is None
    for fault in (refused, broken):
        assert unanswered([fault]) is fault
