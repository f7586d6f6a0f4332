"""The rules of UI messages: one change breaks one rule; `ai` is asked in
tests/acceptance/test_screen_sdks.py.
"""

from __future__ import annotations

from typing import Any

from tests.support.recordings import Json, Mutation, Reply, assert_clean, broken, unnamed
from tests.support.screen import UI_ASKED
from tests.support.tables import table
from tests.unit.wire.dialects.test_ui_messages import (
    FINISH,
    ROLL,
    START,
    STEP,
    STEP_END,
    STREAMS,
    gave,
    part,
)

DONE = b"data: [DONE]\n\n"
EVENTS = (
    START,
    STEP,
    *part("reasoning", "r", "Hm."),
    *part("text", "0", "Zürich ✓"),
    *ROLL,
    STEP_END,
    gave("c-1", "4"),
)
GOOD = Reply(events=(*EVENTS, FINISH, DONE), encoding=unnamed, target="/api/chat", asked=UI_ASKED)
NUMBERS = {
    "reasoning": 3,
    "text": 6,
    "call": 8,
    "input": 9,
    "whole": 11,
    "step end": 12,
    "result": 13,
    "finish": 14,
}


def edited(which: str, **fields: Any) -> Reply:
    return GOOD.edited(NUMBERS[which], lambda event: event.update(fields))


def less(which: str, *names: str) -> Reply:
    def change(event: Json) -> None:
        for name in names:
            event.pop(name)

    return GOOD.edited(NUMBERS[which], change)


FAILED: Json = {"type": "error", "errorText": "no"}

# With the names of what `ai` raises; None: it hands all of it on.
INVALID, ORDER = "AI_TypeValidationError", "AI_UIMessageStreamError"
FAULTS: list[tuple[str, str, Reply, str | None]] = [
    ("UM001", "no delta", less("text", "delta"), INVALID),
    ("UM001", "a delta of null", edited("text", delta=None), INVALID),
    ("UM001", "a number as a delta", edited("text", delta=5), INVALID),
    ("UM001", "no id", less("text", "id"), INVALID),
    ("UM001", "a number as an id", edited("reasoning", id=5), INVALID),
    ("UM001", "an unknown type", edited("text", type="text-added"), INVALID),
    ("UM001", "no type", less("text", "type"), INVALID),
    ("UM001", "an array", GOOD.put(6, b"data: []\n\n"), INVALID),
    ("UM001", "a call without a name", less("whole", "toolName"), INVALID),
    ("UM001", "a call without an id", less("call", "toolCallId"), INVALID),
    ("UM001", "a title of null", edited("whole", title=None), INVALID),
    ("UM001", "a word as a truth", edited("whole", dynamic="yes"), INVALID),
    ("UM001", "metadata that is a text", edited("text", providerMetadata="x"), INVALID),
    ("UM001", "input as an object", edited("input", inputTextDelta={}), INVALID),
    ("UM001", "a call without input", less("whole", "input"), INVALID),
    ("UM001", "a result without output", less("result", "output"), INVALID),
    ("UM001", "an unknown encoding", edited("call", inputEncoding="x"), INVALID),
    ("UM001", "an error without a text", edited("finish", type="error"), INVALID),
    (
        "UM001",
        "an error as in Chat",
        GOOD.put(6, {"type": "error", "errorText": {"message": "no"}}),
        INVALID,
    ),
    ("UM001", "an unknown reason", edited("finish", finishReason="done"), INVALID),
    ("UM001", "a reason of null", edited("finish", finishReason=None), INVALID),
    (
        "UM001",
        "a message id of null",
        GOOD.edited(0, lambda event: event.update(messageId=None)),
        INVALID,
    ),
    (
        "UM001",
        "a source without a URL",
        GOOD.put(6, {"type": "source-url", "sourceId": "s"}),
        INVALID,
    ),
    ("UM002", "another id", edited("text", id="1"), ORDER),
    (
        "UM002",
        "a text of the step before",
        GOOD.put(13, {"type": "text-delta", "id": "9", "delta": "x"}),
        ORDER,
    ),
    ("UM002", "an end twice", GOOD.put(8, {"type": "text-end", "id": "0"}), ORDER),
    ("UM003", "input of another call", edited("input", toolCallId="c-2"), ORDER),
    ("UM004", "a result of another call", edited("result", toolCallId="c-2"), ORDER),
    ("UM005", "a text that stays open", GOOD.put(14, {"type": "text-start", "id": "7"}), None),
    ("UM006", "no end", GOOD.without(14, 15), None),
]
MUTATIONS = [Mutation(rule, says, reply) for rule, says, reply, _ in FAULTS]
GOODS = {
    "all": GOOD,
    **{says: GOOD._replace(events=(*events, DONE)) for says, (events, _) in STREAMS.items()},
    "parts alone": GOOD._replace(events=(*part("text", "0", "Hi"), DONE)),
    "an error": GOOD.put(8, FAILED).without(*range(9, 16)),
    "a member of tomorrow": edited("text", novel=None),
}


@table(
    "reply", [GOOD._replace(asked={**UI_ASKED, "messages": [{"parts": [{"toolCallId": "c-2"}]}]})]
)
def test_a_result_of_a_call_in_the_request_is_right(reply: Reply) -> None:
    assert_clean(reply.put(13, gave("c-2", "5")))


def test_another_stream_on_the_path_is_not_judged() -> None:
    assert (
        broken(GOOD._replace(asked={}, headers=(("content-type", "text/plain"),)), "ui-messages")
        == []
    )
