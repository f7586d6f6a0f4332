"""The rules of Ollama: one change to a good reply breaks one rule and nothing else, and the SDK as
the rule says.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from ollama import ResponseError
from pydantic import ValidationError

from tests.support.ollama_sdk import CHAT, GENERATE, ollama_answering, ollama_reading
from tests.support.recordings import Json, Mutation, Reply, assert_clean, assert_only, broken
from tests.support.tables import table

LINES = "application/x-ndjson"
CALL = {"function": {"name": "roll", "arguments": {"sides": 6}}}
COUNTS = {"total_duration": 5, "prompt_eval_count": 26, "eval_count": 282}
THOUGHT, TEXT, CALLED, LAST = range(4)


def line(**said: Any) -> Json:
    message = {"role": "assistant", "content": "", **said}
    return {"model": "m", "created_at": "2026-11-28T08:52:19Z", "message": message, "done": False}


GOOD = Reply(
    events=(
        line(thinking="Hm."),
        line(content="Zürich ✓"),
        line(tool_calls=[CALL]),
        {**line(), "done": True, "done_reason": "stop", **COUNTS},
    ),
    encoding=lambda event: json.dumps(event, ensure_ascii=False).encode() + b"\n",
    target=CHAT,
    asked={"model": "m", "messages": []},
    headers=(("content-type", LINES),),
)
GENERATED = GOOD._replace(
    target=GENERATE,
    events=(
        {"model": "m", "response": "Hi", "done": False},
        {
            "model": "m",
            "response": "",
            "done": True,
            "done_reason": "stop",
            "context": [1],
            **COUNTS,
        },
    ),
)
ERROR = {"error": "out of memory"}


def in_message(number: int, **fields: Any) -> Reply:
    return GOOD.edited(number, lambda event: event["message"].update(fields))


def in_last(**fields: Any) -> Reply:
    return GOOD.edited(LAST, lambda event: event.update(fields))


def called(**function: Any) -> Reply:
    return in_message(CALLED, tool_calls=[{"function": {**CALL["function"], **function}}])


# With what the SDK raises; None: it hands all of it on.
FAULTS: list[tuple[str, str, Reply, type[Exception] | None]] = [
    ("OL001", "an empty line", GOOD.put(TEXT, b"\n"), json.JSONDecodeError),
    ("OL001", "a separator in a text", in_message(TEXT, content="a\u2028b"), json.JSONDecodeError),
    ("OL002", "an array", GOOD.put(TEXT, b"[]\n"), AttributeError),
    ("OL003", "no message", GOOD.edited(TEXT, lambda event: event.pop("message")), ValidationError),
    (
        "OL003",
        "no role",
        GOOD.edited(TEXT, lambda event: event["message"].pop("role")),
        ValidationError,
    ),
    ("OL003", "a number as a text", in_message(TEXT, content=5), ValidationError),
    ("OL003", "arguments as a text", called(arguments='{"sides":6}'), ValidationError),
    ("OL003", "a call without a name", called(name=None), ValidationError),
    ("OL003", "half a token", in_last(eval_count=1.5), ValidationError),
    ("OL004", "no last line", GOOD.without(LAST), None),
    ("OL005", "no counts", GOOD.edited(LAST, lambda event: event.pop("eval_count")), None),
    ("OL005", "no reason", GOOD.edited(LAST, lambda event: event.pop("done_reason")), None),
    ("OL006", "a text after the end", GOOD.moved(TEXT, LAST), None),
    (
        "OL007",
        "an error as in Chat",
        GOOD.put(TEXT, {"error": {"message": "no"}}).without(*range(2, 5)),
        TypeError,
    ),
]
MUTATIONS = [Mutation(rule, says, reply) for rule, says, reply, _ in FAULTS]
GOODS = {
    "chat": GOOD,
    "generate": GENERATED,
    "an error": GOOD.put(TEXT, ERROR).without(*range(2, 5)),
    "a load": in_last(done_reason="load", eval_count=None, prompt_eval_count=None).without(0, 1, 2),
}


@table(("rule", "says", "reply", "raises"), FAULTS)
def test_one_change_breaks_one_rule_and_the_sdk_as_it_says(
    rule: str, says: str, reply: Reply, raises: type[Exception] | None
) -> None:
    assert_only(rule, reply)
    client = ollama_answering(b"".join(reply.blocks()), LINES)
    if raises is None:
        ollama_reading(client, reply.target)
    else:
        with pytest.raises(raises):
            ollama_reading(client, reply.target)


@table("reply", GOODS.values())
def test_what_the_sdk_takes_breaks_no_rule(reply: Reply) -> None:
    assert_clean(reply)
    client = ollama_answering(b"".join(reply.blocks()), LINES)
    if ERROR in reply.events:
        with pytest.raises(ResponseError):
            ollama_reading(client, reply.target)
    else:
        ollama_reading(client, reply.target)


def test_the_stream_of_an_app_on_the_same_path_is_not_judged() -> None:
    app = Reply(events=({"type": "text-delta", "id": "1"},), target=CHAT, asked={})
    assert broken(app, "ollama") == []
