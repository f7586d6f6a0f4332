"""What gateways of Anthropic Messages do wrong."""

from __future__ import annotations

import json
import re

from tests.support.probe.gateway import Planted
from tests.support.probe.planting import (
    OPENAI_ERROR,
    Json,
    PlantedFault,
    any_key,
    as_is,
    dropped,
    each,
    ended,
    everywhere,
    forgets,
    in_document,
    in_stream,
    on_error,
    removed,
    streamed,
    together,
    typed,
    with_body,
    without_last,
    zeroed,
)


def _anthropic_delta(event: Json) -> tuple[Json, str] | None:
    delta = event.get("delta") or {}
    return (delta, "text") if delta.get("type") == "text_delta" else None


def _reasons(**reasons: str) -> Planted:
    """A gateway with other words for why an answer ends."""
    return everywhere(each("stop_reason", lambda was: reasons.get(str(was), was)))


def _without_thinking(event: Json) -> object:
    if event.get("type") in ("content_block_start", "content_block_delta", "content_block_stop"):
        event["index"] -= 1
    if isinstance(event.get("content"), list):
        event["content"] = [block for block in event["content"] if block["type"] != "thinking"]
    return event.get("index", 0) >= 0


FAULTS = [
    PlantedFault(
        "anthropic-no-end",
        "`message_stop` is missing.",
        "text",
        "AN007",
        streamed(without_last(1)),
    ),
    PlantedFault(
        "anthropic-no-usage",
        "`message_delta` has no `usage`.",
        "text",
        "AN010",
        in_stream(removed("usage", of=typed("message_delta"))),
    ),
    PlantedFault(
        "anthropic-usage-zero",
        "All counts of tokens are 0.",
        "text",
        "PR031",
        everywhere(zeroed),
    ),
    PlantedFault(
        "anthropic-no-names",
        "Events have no `event:` line.",
        "text",
        "AN001",
        streamed(as_is(lambda frame: re.sub(rb"^event: .*\n", b"", frame))),
    ),
    PlantedFault(
        "anthropic-indexes",
        "All blocks have the index 0.",
        "parallel-tools",
        "AN013",
        in_stream(each("index", lambda _: 0)),
    ),
    PlantedFault(
        "anthropic-one-delta",
        "The text comes in one delta, at the end.",
        "text",
        "PR021",
        streamed(together(_anthropic_delta)),
    ),
    PlantedFault(
        "anthropic-no-signature",
        "Thinking has no signature.",
        "reasoning",
        "AN020",
        in_stream(dropped(lambda event: (event.get("delta") or {}).get("type") == "signature_delta")),
    ),
    PlantedFault(
        "anthropic-no-thinking",
        "Thinking is left out.",
        "reasoning",
        "PR121",
        everywhere(_without_thinking),
    ),
    PlantedFault(
        "anthropic-input-cut",
        "The input of tools lacks its end.",
        "parallel-tools",
        "AN019",
        in_stream(each("partial_json", ended)),
    ),
    PlantedFault(
        "anthropic-input-text",
        "The input of a tool is a text in place of an object.",
        "parallel-tools",
        "PR014",
        in_document(each("input", json.dumps, of=typed("tool_use"))),
    ),
    PlantedFault(
        "anthropic-reasons",
        "The `stop_reason` is one of OpenAI's: `stop`, `length`, `tool_calls`.",
        "text",
        "AN021",
        _reasons(end_turn="stop", max_tokens="length", tool_use="tool_calls"),
    ),
    PlantedFault(
        "anthropic-calls-end",
        "The `stop_reason` of tool calls is `end_turn`.",
        "parallel-tools",
        "PR015",
        _reasons(tool_use="end_turn"),
    ),
    PlantedFault(
        "anthropic-cut-end",
        "The `stop_reason` of an answer that was cut off is `end_turn`.",
        "max-tokens",
        "PR015",
        _reasons(max_tokens="end_turn"),
    ),
    PlantedFault(
        "anthropic-no-choice",
        "`tool_choice` is ignored.",
        "forced-tool",
        "PR050",
        forgets("tool_choice"),
    ),
    PlantedFault(
        "anthropic-any-key",
        "A wrong key is accepted.",
        "wrong-key",
        "PR090",
        any_key,
    ),
    PlantedFault(
        "anthropic-error-openai",
        "Errors have the form of OpenAI's.",
        "bad-request",
        "PR082",
        on_error(400, 401, change=with_body(OPENAI_ERROR)),
    ),
]
