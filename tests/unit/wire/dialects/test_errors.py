"""What a tool's result says of itself, where its API has no mark for an error."""

from __future__ import annotations

import json

from recorder.wire.dialects import by_name
from recorder.wire.dialects.errors import says_failed
from tests.support.tables import table

UNIFIED = "Chunk ID: 066743\nWall time: 12 seconds\nProcess exited with code {}\nOutput:\n"
SHELL = "Exit code: {}\nWall time: 0.1 seconds\nOutput:\n"

FAILED = (
    '{"error": "no such city"}',
    ' {"error": {"code": 7}, "hint": "Ask again."}',
    '{"content": [{"type": "text", "text": "no"}], "isError": true}',
    '{"is_error": true}',
    '{"success": false, "output": ""}',
    '{"exit_code": 2}',
    '{"output": "", "metadata": {"exit_code": 1, "duration_seconds": 0.1}}',
    UNIFIED.format(1),
    SHELL.format(-9),
)
DID_NOT = ('{"exit_code": 0}', UNIFIED.format(0), SHELL.format(0))
DOES_NOT_SAY = (
    "",
    "Error: no such city",
    "Exit code: 1",
    f"$ cat log\n{SHELL.format(1)}",
    '{"error": null, "city": "Bern"}',
    '{"error": ""}',
    '{"error": false}',
    '{"city": "Bern", "error": "of the sensor"}',
    '{"rows": [{"error": "x"}]}',
    '[{"error": "x"}]',
    '"{\\"error\\": 1}"',
    '{"isError": false}',
    '{"success": true}',
    '{"error": "cut o',
)


@table("output", FAILED)
def test_a_result_that_says_so_failed(output: str) -> None:
    assert says_failed(output) is True


@table("output", DID_NOT)
def test_an_exit_code_of_0_is_a_success(output: str) -> None:
    assert says_failed(output) is False


@table("output", DOES_NOT_SAY)
def test_prose_and_data_say_nothing(output: str) -> None:
    assert says_failed(output) is None


@table("api", ["openai-chat", "ollama"])
def test_formats_without_a_mark_read_what_results_say(api: str) -> None:
    said = [("a", '{"error": "no such city"}'), ("b", '{"city": "Bern"}')]
    messages = [
        {"role": "tool", "tool_call_id": id, "tool_name": "weather", "content": text}
        for id, text in said
    ]
    body = json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": "Hi"}, *messages]}
    ).encode()
    target = {"openai-chat": "/v1/chat/completions", "ollama": "/api/chat"}[api]
    conversation = by_name(api).read_request(target, body)
    assert conversation is not None
    assert [result.failed for result in conversation.facts().results] == [True, None]
