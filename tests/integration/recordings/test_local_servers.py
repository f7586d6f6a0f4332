"""Streams of servers that others have written, as recorded: our rows are what the official client
makes of them.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from recorder.model.events import Recording
from recorder.projections.fold import Rows
from recorder.recordings.files import load_file
from tests.support.bedrock import KIND, converse_events
from tests.support.corpus import DATA
from tests.support.facts import captured, folded
from tests.support.ollama_sdk import CHAT, ollama_answering, ollama_reading
from tests.support.sdks import answering, anthropic_client
from tests.support.server import run

KINDS = {
    "anthropic": "text/event-stream",
    "ollama": "application/x-ndjson",
    "bedrock-converse": KIND,
}
AIMOCK, LITELLM = (
    DATA / "cassettes" / f"{name}.sse.jsonl" for name in ("aimock", "litellm-messages")
)


def recorded(path: Any, number: int) -> Recording:
    return load_file(path).recordings[number - 1]


def rows_of(recording: Recording) -> Rows:
    return folded(
        *captured(
            recording.body, recording.exchange.api, content_type=KINDS[recording.exchange.api]
        )
    )


def calls_in(rows: Rows) -> list[tuple[str, Any]]:
    return [
        (item.name, json.loads(item.arguments))
        for item in rows["items"]
        if item.kind == "tool_call"
    ]


def test_a_message_of_litellm_is_what_anthropics_sdk_reads() -> None:
    recording = recorded(LITELLM, 1)
    client = anthropic_client("http://127.0.0.1:1", http_client=answering(recording.body))
    with client.messages.stream(
        model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}]
    ) as stream:
        message = stream.get_final_message()
    rows = rows_of(recording)
    [thought] = [block for block in message.content if block.type == "thinking"]
    assert rows["items"][0].text == thought.thinking
    assert calls_in(rows) == [
        (block.name, block.input) for block in message.content if block.type == "tool_use"
    ]
    [exchange], [usage] = rows["exchanges"], rows["usage"]
    assert (exchange.finish_reason, exchange.status) == (message.stop_reason, "completed")
    assert (usage.input_tokens, usage.output_tokens) == (
        message.usage.input_tokens,
        message.usage.output_tokens,
    )


def test_an_answer_in_lines_is_what_ollamas_package_reads() -> None:
    """Reasoning is under a name there that the package does not know: an anomaly says that no view
    has it.
    """
    recording = recorded(AIMOCK, 1)
    read = ollama_reading(ollama_answering(recording.body, KINDS["ollama"]), CHAT)
    rows = rows_of(recording)
    [message] = [item for item in rows["items"] if item.kind == "message"]
    [exchange], [usage], [anomaly] = rows["exchanges"], rows["usage"], rows["anomalies"]
    assert (message.text, calls_in(rows), exchange.finish_reason) == (
        read.text,
        read.calls,
        read.reason,
    )
    assert (usage.input_tokens, usage.output_tokens) == read.usage
    assert (anomaly.kind, read.thoughts) == ("unread", "")


def test_lint_finds_the_event_at_which_the_client_of_aws_gives_up() -> None:
    recording = recorded(AIMOCK, 2)
    with pytest.raises(
        importlib.import_module("botocore.parsers").ResponseParserError, match="ContentBlockStart"
    ):
        converse_events(recording.body)
    [finding] = json.loads(run(DATA / "none.db", "lint", AIMOCK, "--json").out)
    assert (finding["rule"], finding["exchange"]) == ("BR002", 2)
    thought, message, _ = rows_of(recording)["items"]
    assert (thought.text, message.text) == ("A tool knows it.", "I ask the cellar.")
    assert calls_in(rows_of(recording)) == [("cellar", {"shelf": "north-west ✓", "row": 3})]
