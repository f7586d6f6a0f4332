"""What the events of Bedrock's Converse mean, and that it is what botocore yields from the same
bytes.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from recorder.projections.fold import Rows
from recorder.wire.dialects.bedrock_converse import DIALECT
from tests.support.aws_messages import aws_event, aws_message
from tests.support.bedrock import KIND, aws_client, bedrock
from tests.support.facts import captured, folded

USAGE = {"inputTokens": 3, "cacheReadInputTokens": 2, "outputTokens": 5, "totalTokens": 10}


def delta(index: int, **said: Any) -> tuple[str, Any]:
    return "contentBlockDelta", {"contentBlockIndex": index, "delta": said}


def stop(index: int) -> tuple[str, Any]:
    return "contentBlockStop", {"contentBlockIndex": index}


EVENTS = [
    ("messageStart", {"role": "assistant"}),
    delta(0, reasoningContent={"text": "Hm."}),
    delta(0, reasoningContent={"signature": "AAAA"}),
    stop(0),
    delta(1, text="Zür"),
    delta(1, text="ich ✓"),
    stop(1),
    (
        "contentBlockStart",
        {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "t", "name": "roll"}}},
    ),
    delta(2, toolUse={"input": '{"sides":'}),
    delta(2, toolUse={"input": "6}"}),
    stop(2),
    ("messageStop", {"stopReason": "tool_use"}),
    ("metadata", {"usage": USAGE, "metrics": {"latencyMs": 9}}),
]
ALL = b"".join(aws_event(type, payload) for type, payload in EVENTS)


def of_sdk() -> tuple[str, str, str, Any, str]:
    """Text, thoughts, arguments, usage and reason, as botocore yields them over a socket."""
    text = thoughts = arguments = reason = ""
    usage: Any = None
    with bedrock(ALL) as url, aws_client(url) as client:
        asked = [{"role": "user", "content": [{"text": "Roll."}]}]
        for event in client.converse_stream(modelId="m", messages=asked)["stream"]:
            said = event.get("contentBlockDelta", {}).get("delta", {})
            text += said.get("text", "")
            thoughts += said.get("reasoningContent", {}).get("text", "")
            arguments += said.get("toolUse", {}).get("input", "")
            reason = event.get("messageStop", {}).get("stopReason", reason)
            usage = event.get("metadata", {}).get("usage", usage)
    return text, thoughts, arguments, usage, reason


def rows_of(body: bytes, kind: str = KIND, **how: Any) -> Rows:
    return folded(*captured(body, "bedrock-converse", content_type=kind, **how))


def assert_all(rows: Rows) -> None:
    [exchange], [thought, message, call], [usage] = rows["exchanges"], rows["items"], rows["usage"]
    assert (thought.text, thought.encrypted, message.text) == ("Hm.", True, "Zürich ✓")
    assert (call.name, call.call_id, call.arguments) == ("roll", "t", '{"sides":6}')
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (5, 2, 5)
    assert (exchange.status, exchange.finish_reason, rows["anomalies"]) == (
        "completed",
        "tool_use",
        [],
    )


def test_a_stream_is_what_botocore_says() -> None:
    assert of_sdk() == ("Zürich ✓", "Hm.", '{"sides":6}', USAGE, "tool_use")
    assert_all(rows_of(ALL))


@given(st.sets(st.integers(1, len(ALL) - 1)))
def test_it_is_the_same_however_the_bytes_come(cuts: set[int]) -> None:
    assert_all(rows_of(ALL, cuts=sorted(cuts)))


def test_a_document_says_the_same() -> None:
    content = [
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "AAAA"}}},
        {"text": "Zürich ✓"},
        {"toolUse": {"toolUseId": "t", "name": "roll", "input": {"sides": 6}}},
    ]
    message = {"role": "assistant", "content": content}
    body = {"output": {"message": message}, "stopReason": "tool_use", "usage": USAGE}
    assert_all(rows_of(json.dumps(body).encode(), "application/json"))


def test_an_exception_in_the_stream_fails_it() -> None:
    headers = {":exception-type": "throttlingException", ":message-type": "exception"}
    whole = b"".join(aws_event(*each) for each in EVENTS[:5]) + aws_message(
        headers, b'{"message":"Slow down."}'
    )
    [exchange] = rows_of(whole)["exchanges"]
    assert (exchange.status, exchange.error) == ("failed", "Slow down.")


def test_a_request_says_what_is_asked_and_what_tools_returned() -> None:
    result = {"toolUseId": "t", "content": [{"json": {"n": 6}}], "status": "success"}
    body = {
        "system": [{"text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [{"text": "Roll."}]},
            {
                "role": "assistant",
                "content": [{"toolUse": {"toolUseId": "t", "name": "roll", "input": {}}}],
            },
            {"role": "user", "content": [{"toolResult": result}]},
        ],
        "inferenceConfig": {"maxTokens": 9},
        "toolConfig": {"tools": [{"toolSpec": {"name": "roll", "inputSchema": {"json": {}}}}]},
    }
    facts = DIALECT.request_facts(
        "/model/eu.amazon.nova%3A0/converse-stream", json.dumps(body).encode()
    )
    assert (facts.model, facts.stream, facts.text) == ("eu.amazon.nova:0", True, "Roll.")
    assert facts.instructions == ("Be brief.",)
    assert [(each.call_id, each.output) for each in facts.results] == [("t", '{"n":6}')]
    assert (facts.parameters.max_output_tokens, facts.parameters.tool_names) == (9, ("roll",))
