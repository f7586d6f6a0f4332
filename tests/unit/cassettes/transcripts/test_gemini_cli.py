"""`recorder.cassettes.transcripts.gemini_cli`: what Gemini CLI wrote down, as exchanges."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from recorder.cassettes.content import formats
from recorder.cassettes.transcripts.gemini_cli import GeminiCli
from recorder.errors import RecorderError
from recorder.model.events import Recording
from tests.support.transcripts import counted_by_gemini
from tests.unit.cassettes.test_cassettes import imported, recordings


def read(data: bytes) -> list[Recording]:
    return recordings(imported(GeminiCli(io.BytesIO(data))))


def in_lines(lines: list[dict[str, Any]]) -> bytes:
    return b"".join(b"%b\n" % json.dumps(line).encode() for line in lines)


def in_document(lines: list[dict[str, Any]]) -> bytes:
    return json.dumps({**lines[0], "messages": lines[1:-1]}, indent=2).encode()


def test_a_chat_is_known_by_its_first_line() -> None:
    lines = counted_by_gemini()
    assert formats(in_lines(lines)) == formats(in_document(lines)) == ("gemini-cli",)


@pytest.mark.parametrize("form", [in_lines, in_document])
@pytest.mark.parametrize("has_results", [True, False])
def test_calls_thoughts_and_results_are_parts_of_the_api(form: Any, has_results: bool) -> None:
    first, last = read(form(counted_by_gemini(has_results=has_results)))
    [call] = json.loads(first.body)["candidates"][0]["content"]["parts"]
    thought, said = json.loads(last.body)["candidates"][0]["content"]["parts"]
    asked = json.loads(last.request_body)["contents"]
    assert asked[0] == {"role": "model", "parts": [call]}
    assert asked[1]["parts"][0]["functionResponse"]["response"] == {"output": "42"}
    assert (thought, said) == (
        {"text": "**Bottles**\nThey were counted.", "thought": True},
        {"text": "42."},
    )


def test_a_message_that_is_written_again_counts_once() -> None:
    usage = [json.loads(each.body)["usageMetadata"] for each in read(in_lines(counted_by_gemini()))]
    assert [each["promptTokenCount"] for each in usage] == [11540, 11540]


def test_half_a_document_is_refused() -> None:
    with pytest.raises(RecorderError, match="it was cut off"):
        GeminiCli(io.BytesIO(in_document(counted_by_gemini())[:-9]))
