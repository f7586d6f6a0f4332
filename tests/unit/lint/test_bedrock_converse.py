"""The rules of Bedrock's Converse: one change to a good reply breaks one rule, and botocore as the
rule says.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from tests.support.aws_messages import aws_event, aws_message
from tests.support.bedrock import KIND, converse_events
from tests.support.recordings import Json, Mutation, Reply, assert_clean, assert_only, broken
from tests.support.tables import table

EventStreamError = importlib.import_module("botocore.exceptions").EventStreamError
ResponseParserError = importlib.import_module("botocore.parsers").ResponseParserError


def encoded(event: Json) -> bytes:
    return aws_event(
        str(event.get("type")), {name: each for name, each in event.items() if name != "type"}
    )


def delta(index: int, **said: Any) -> Json:
    return {"type": "contentBlockDelta", "contentBlockIndex": index, "delta": said}


def stop(index: int) -> Json:
    return {"type": "contentBlockStop", "contentBlockIndex": index}


COUNTS = {"inputTokens": 3, "outputTokens": 5, "totalTokens": 8}
ROLE, THOUGHT, SIGNED, _, TEXT, MORE, _, CALL, INPUT, REST, CALLED, END, META = range(13)
GOOD = Reply(
    events=(
        {"type": "messageStart", "role": "assistant"},
        delta(0, reasoningContent={"text": "Hm."}),
        delta(0, reasoningContent={"signature": "AAAA"}),
        stop(0),
        delta(1, text="Zür"),
        delta(1, text="ich"),
        stop(1),
        {
            "type": "contentBlockStart",
            "contentBlockIndex": 2,
            "start": {"toolUse": {"toolUseId": "t", "name": "roll"}},
        },
        delta(2, toolUse={"input": '{"sides":'}),
        delta(2, toolUse={"input": "6}"}),
        stop(2),
        {"type": "messageStop", "stopReason": "tool_use"},
        {"type": "metadata", "usage": COUNTS, "metrics": {"latencyMs": 9}},
    ),
    encoding=encoded,
    target="/model/m/converse-stream",
    asked={"messages": []},
    headers=(("content-type", KIND),),
)


def exception(name: str) -> bytes:
    headers = {":exception-type": name, ":message-type": "exception"}
    return aws_message(headers, b'{"message":"Slow down."}')


def with_member(number: int, name: str, value: Any) -> Reply:
    return GOOD.edited(number, lambda event: event.update({name: value}))


def told(body: bytes) -> str:
    """What a program makes of the events: texts, and the names and inputs of calls by index."""
    said, calls = "", dict[int, list[str]]()
    for event in converse_events(body):
        match event:
            case {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": call}}}:
                calls[index] = [call["name"], ""]
            case {"contentBlockDelta": {"contentBlockIndex": index, "delta": {"toolUse": call}}}:
                calls[index][1] += call["input"]
            case {"contentBlockDelta": {"delta": {"text": text}}}:
                said += text
            case {"contentBlockDelta": found}:
                assert found["delta"]
            case {"messageStop": found}:
                said += f" ({found['stopReason']})"
            case {"metadata": found}:
                said += f" {found['usage']['totalTokens']} tokens"
    return said + "".join(
        f" {name}{json.dumps(json.loads(given or '{}'))}" for name, given in calls.values()
    )


ALL = 'Zürich (tool_use) 8 tokens roll{"sides": 6}'

# With what botocore, or a program that only joins what it yields, raises; else what such a program
# has.
FAULTS: list[tuple[str, str, Reply, type[Exception] | str]] = [
    ("BR001", "an event as an array", GOOD.put(TEXT, aws_event("contentBlockDelta", [])), AttributeError),
    ("BR001", "a delta as a text", with_member(TEXT, "delta", "Zür"), AttributeError),
    ("BR001", "a call as a text", with_member(CALL, "start", {"toolUse": "roll"}), AttributeError),
    ("BR001", "usage as a number", with_member(META, "usage", 8), AttributeError),
    ("BR002", "an empty delta", with_member(TEXT, "delta", {}), ResponseParserError),
    ("BR002", "a delta with two members", with_member(TEXT, "delta", {"text": "a", "image": {}}), ResponseParserError),
    ("BR002", "a start of two kinds", GOOD.edited(CALL, lambda event: event["start"].update(image={"format": "png"})),
     ResponseParserError),
    ("BR002", "a thought with its signature",
     with_member(THOUGHT, "delta", {"reasoningContent": {"text": "Hm.", "signature": "A"}}), ResponseParserError),
    ("BR003", "no delta", GOOD.edited(MORE, lambda event: event.pop("delta")), KeyError),
    ("BR003", "a text as a number", with_member(TEXT, "delta", {"text": 5}), TypeError),
    ("BR003", "a call without a name", with_member(CALL, "start", {"toolUse": {"toolUseId": "t"}}), KeyError),
    ("BR003", "an input as an object", with_member(REST, "delta", {"toolUse": {"input": {"sides": 6}}}), TypeError),
    ("BR003", "no reason", GOOD.edited(END, lambda event: event.pop("stopReason")), KeyError),
    ("BR003", "no total", GOOD.edited(META, lambda event: event["usage"].pop("totalTokens")), KeyError),
    ("BR004", "an event that nobody knows", GOOD.put(TEXT, aws_event("textDelta", {"text": "Lost."})), ALL),
    ("BR004", "an event without a type", GOOD.put(META, aws_message({}, b"{}")), ALL),
    ("BR004", "an exception that nobody knows", GOOD.put(MORE, exception("quotaException")).without(*range(6, 14)),
     EventStreamError),
    ("BR005", "no end", GOOD.without(END), 'Zürich 8 tokens roll{"sides": 6}'),
    ("BR006", "no counts", GOOD.without(META), 'Zürich (tool_use) roll{"sides": 6}'),
    ("BR007", "a call that never began", GOOD.without(CALL), KeyError),
    ("BR008", "half an input", GOOD.without(REST), json.JSONDecodeError),
    ("BR008", "an input as a text", with_member(REST, "delta", {"toolUse": {"input": "six"}}), json.JSONDecodeError),
]  # fmt: skip
MUTATIONS = [Mutation(rule, says, reply) for rule, says, reply, _ in FAULTS]
GOODS: dict[str, Reply] = {
    "converse": GOOD,
    "a call without input": GOOD.without(INPUT, REST),
    "a delta of a new kind": GOOD.put(TEXT, delta(7, hologram={"x": 1})),
    "a null beside a text": with_member(TEXT, "delta", {"text": "Zür", "toolUse": None}),
    "an exception": GOOD.put(TEXT, exception("throttlingException")).without(*range(TEXT + 1, 14)),
}


@table(("rule", "says", "reply", "then"), FAULTS)
def test_one_change_breaks_one_rule_and_botocore_as_it_says(
    rule: str, says: str, reply: Reply, then: type[Exception] | str
) -> None:
    assert_only(rule, reply)
    body = b"".join(reply.blocks())
    if isinstance(then, str):
        assert told(body) == then
    else:
        with pytest.raises(then):
            told(body)


@table("reply", GOODS.values())
def test_what_botocore_takes_breaks_no_rule(reply: Reply) -> None:
    assert_clean(reply)
    body = b"".join(reply.blocks())
    if reply is GOODS["an exception"]:
        with pytest.raises(EventStreamError, match=r"throttlingException.*Slow down"):
            told(body)
    else:
        told(body)


def test_a_stream_in_another_framing_is_not_judged() -> None:
    app = Reply(events=({"type": "text-delta", "id": "1"},), target=GOOD.target, asked={})
    assert broken(app, "bedrock-converse") == []
