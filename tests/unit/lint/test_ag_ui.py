"""The rules of AG-UI: one change breaks one rule; the client is asked in
tests/acceptance/test_screen_sdks.py.
"""

from __future__ import annotations

from typing import Any

from tests.support.recordings import Json, Mutation, Reply, unnamed
from tests.support.screen import AG_UI_ASKED
from tests.unit.wire.dialects.test_ag_ui import FINISHED, FULL, STARTED, STREAMS

GOOD = Reply(events=tuple(FULL[0]), encoding=unnamed, target="/agent", asked=AG_UI_ASKED)
STEP_START, STATE, DELTA, CUSTOM, STEP_END = range(1, 6)
THOUGHT, TEXT_START, TEXT, TEXT_END, CALL, ARGS = 8, 12, 13, 14, 15, 16
CALL_END, RESULT, FINISH = 18, 19, 20


def edited(number: int, **fields: Any) -> Reply:
    return GOOD.edited(number, lambda event: event.update(fields))


def less(number: int, *names: str) -> Reply:
    def change(event: Json) -> None:
        for name in names:
            event.pop(name)

    return GOOD.edited(number, change)


FAILED: Json = {"type": "RUN_ERROR", "message": "no"}

# With the names of what @ag-ui/client raises; None: the run is complete.
INVALID, ORDER = "ZodError", "Error"
FAULTS: list[tuple[str, str, Reply, str | None]] = [
    ("AG001", "an array", GOOD.put(TEXT, b"data: []\n\n"), "Error"),
    ("AG001", "no type", less(TEXT, "type"), "Error"),
    ("AG001", "no delta", less(TEXT, "delta"), INVALID),
    ("AG001", "a delta of null", edited(TEXT, delta=None), INVALID),
    ("AG001", "a number as a delta", edited(ARGS, delta=5), INVALID),
    ("AG001", "no id", less(TEXT, "messageId"), INVALID),
    ("AG001", "a number as an id", edited(CALL, toolCallId=5), INVALID),
    ("AG001", "a call without a name", less(CALL, "toolCallName"), INVALID),
    ("AG001", "a name of null", edited(TEXT_START, name=None), INVALID),
    ("AG001", "a text of a tool", edited(TEXT_START, role="tool"), INVALID),
    ("AG001", "a result of a user", edited(RESULT, role="user"), INVALID),
    ("AG001", "a thought without a role", less(THOUGHT - 1, "role"), INVALID),
    ("AG001", "a result without a message", less(RESULT, "messageId"), INVALID),
    ("AG001", "an object as a result", edited(RESULT, content={"n": 4}), INVALID),
    ("AG001", "a delta of state as an object", edited(DELTA, delta={}), INVALID),
    ("AG001", "a step without a name", less(STEP_START, "stepName"), INVALID),
    ("AG001", "a time as a text", edited(TEXT, timestamp="2026-11-28"), INVALID),
    ("AG001", "a run without a thread", less(0, "threadId"), INVALID),
    ("AG001", "a run without an id", less(FINISH, "runId"), INVALID),
    ("AG001", "an error without a text", GOOD.put(FINISH, {"type": "RUN_ERROR"}), INVALID),
    ("AG001", "usage that is no array", edited(FINISH, usage={"inputTokens": 5}), INVALID),
    ("AG001", "half a token", edited(FINISH, usage=[{"inputTokens": 0.5}]), INVALID),
    ("AG002", "no beginning", GOOD.without(0), ORDER),
    ("AG003", "another id", edited(TEXT, messageId="a-2"), ORDER),
    ("AG003", "arguments of another call", edited(ARGS, toolCallId="c-2"), ORDER),
    ("AG003", "a text that begins twice", GOOD.put(TEXT, GOOD.events[TEXT_START]), ORDER),
    ("AG003", "an end twice", GOOD.put(TEXT_END, GOOD.events[TEXT_END]), ORDER),
    (
        "AG003",
        "a step that did not begin",
        GOOD.put(TEXT, {"type": "STEP_FINISHED", "stepName": "x"}),
        ORDER,
    ),
    (
        "AG003",
        "a chunk of nothing",
        GOOD.put(TEXT_START, {"type": "TEXT_MESSAGE_CHUNK", "delta": "x"}),
        "Error",
    ),
    ("AG004", "a call that stays open", GOOD.without(CALL_END), ORDER),
    ("AG004", "a text that stays open", GOOD.without(TEXT_END), ORDER),
    ("AG005", "a text after the end", GOOD.put(FINISH + 1, GOOD.events[TEXT_START]), ORDER),
    ("AG005", "a run in a run", GOOD.put(TEXT, STARTED), ORDER),
    ("AG006", "no end", GOOD.without(FINISH), None),
    ("AG007", "a type of nobody", edited(CUSTOM, type="NOVEL"), None),
]
MUTATIONS = [Mutation(rule, says, reply) for rule, says, reply, _ in FAULTS]
GOODS = {
    **{says: GOOD._replace(events=tuple(events)) for says, (events, _) in STREAMS.items()},
    "two runs": GOOD._replace(events=(STARTED, FINISHED, STARTED, FINISHED)),
    "an error": GOOD._replace(events=(STARTED, FAILED)),
    "an error at once": GOOD._replace(events=(FAILED,)),
    "a parent of null": edited(CALL, parentMessageId=None),
    "a member of tomorrow": edited(TEXT, novel=None),
}
