"""What gateways of Anthropic Messages do wrong."""

from __future__ import annotations

import json
import re

from tests.support.probe.gateway import Planted
from tests.support.probe.planting import (
    OPENAI_ERROR,
    Json,
    any_key,
    as_is,
    dropped,
    each,
    ended,
    everywhere,
    faults,
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


FAULTS = faults(
    """\
anthropic-no-end | text | AN007 | `message_stop` is missing.
anthropic-no-usage | text | AN010 | `message_delta` has no `usage`.
anthropic-usage-zero | text | PR031 | All counts of tokens are 0.
anthropic-no-names | text | AN001 | Events have no `event:` line.
anthropic-indexes | parallel-tools | AN013 | All blocks have the index 0.
anthropic-one-delta | text | PR021 | The text comes in one delta, at the end.
anthropic-no-signature | reasoning | AN020 | Thinking has no signature.
anthropic-no-thinking | reasoning | PR121 | Thinking is left out.
anthropic-input-cut | parallel-tools | AN019 | The input of tools lacks its end.
anthropic-input-text | parallel-tools | PR014 | The input of a tool is a text in place of an object.
anthropic-reasons | text | AN021 | The `stop_reason` is one of OpenAI's: `stop`, `length`, `tool_calls`.
anthropic-calls-end | parallel-tools | PR015 | The `stop_reason` of tool calls is `end_turn`.
anthropic-cut-end | max-tokens | PR015 | The `stop_reason` of an answer that was cut off is `end_turn`.
anthropic-no-choice | forced-tool | PR050 | `tool_choice` is ignored.
anthropic-any-key | wrong-key | PR090 | A wrong key is accepted.
anthropic-error-openai | bad-request | PR082 | Errors have the form of OpenAI's.
""",
    {
        "anthropic-no-end": streamed(without_last(1)),
        "anthropic-no-usage": in_stream(removed("usage", of=typed("message_delta"))),
        "anthropic-usage-zero": everywhere(zeroed),
        "anthropic-no-names": streamed(as_is(lambda frame: re.sub(rb"^event: .*\n", b"", frame))),
        "anthropic-indexes": in_stream(each("index", lambda _: 0)),
        "anthropic-one-delta": streamed(together(_anthropic_delta)),
        "anthropic-no-signature": in_stream(
            dropped(lambda event: (event.get("delta") or {}).get("type") == "signature_delta")
        ),
        "anthropic-no-thinking": everywhere(_without_thinking),
        "anthropic-input-cut": in_stream(each("partial_json", ended)),
        "anthropic-input-text": in_document(each("input", json.dumps, of=typed("tool_use"))),
        "anthropic-reasons": _reasons(end_turn="stop", max_tokens="length", tool_use="tool_calls"),
        "anthropic-calls-end": _reasons(tool_use="end_turn"),
        "anthropic-cut-end": _reasons(max_tokens="end_turn"),
        "anthropic-no-choice": forgets("tool_choice"),
        "anthropic-any-key": any_key,
        "anthropic-error-openai": on_error(400, 401, change=with_body(OPENAI_ERROR)),
    },
)
