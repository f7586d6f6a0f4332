"""The rules of Realtime: each is broken by one change to a good turn, and nothing else is; and what
a program on openai-python does with a turn in which any one field is wrong.
"""

from __future__ import annotations

import base64
import copy
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import pytest
from openai.resources.realtime.realtime import RealtimeConnection
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter, ValidationError

from recorder.lint.linter import lint
from tests.support.live import REALTIME, SESSION, answered, called, response, spoken, written
from tests.support.planted_fields import Judged, compared
from tests.support.recordings import Json, the_rule

SOUND = bytes(range(64))
USER = {
    "type": "message",
    "role": "user",
    "content": [{"type": "input_audio", "transcript": "Hi"}],
    "id": "item_u",
}
HEARD: dict[str, Any] = {
    "type": "conversation.item.input_audio_transcription.completed",
    "item_id": "item_u",
    "content_index": 0,
}
BY_TOKENS = {"type": "tokens", "input_tokens": 9, "output_tokens": 2, "total_tokens": 11}
TRANSCRIBED: Json = {**HEARD, "event_id": "event_t", "transcript": "Hi", "usage": BY_TOKENS}
GOOD: list[Json] = [
    *response(
        "resp_1",
        *spoken("It ", "rains.", sound=SOUND),
        *called("weather", '{"city":', '"Oslo"}', index=1),
    ),
]
GOOD.insert(1, TRANSCRIBED)
CREATED, DELTA, WHOLE, DONE = 0, 4, 8, len(GOOD) - 1


def edited(number: int, change: Callable[[Json], object]) -> list[Json]:
    events = copy.deepcopy(GOOD)
    change(events[number])
    return events


def put(number: int, event: Any) -> list[Any]:
    return [*GOOD[:number], event, *GOOD[number:]]


MUTATIONS: Sequence[tuple[str, str, list[Any]]] = [
    ("OR001", "no type", edited(DELTA, lambda event: event.pop("type"))),
    ("OR001", "an array", put(DELTA, [])),
    ("OR002", "an event of another API", put(DELTA, {"type": "response.completed"})),
    ("OR003", "no delta", edited(DELTA, lambda event: event.pop("delta"))),
    ("OR003", "a number as a text", edited(DELTA, lambda event: event.update(delta=5))),
    ("OR004", "no end", GOOD[:DONE]),
    ("OR005", "another text", edited(WHOLE, lambda event: event.update(transcript="It snows."))),
    ("OR006", "no usage", edited(DONE, lambda event: event["response"].pop("usage"))),
]


def found(events: Sequence[Any]) -> list[str]:
    """The rules that a turn breaks; a single event is judged alone."""
    whole = list(events) if len(events) > 1 else [GOOD[CREATED], *events, GOOD[DONE]]
    before: list[Json] = [
        {"type": "session.update"},
        {"type": "session.updated", "session": SESSION},
    ]
    return [
        each.rule for each in lint(answered(REALTIME, before, {"type": "response.create"}, *whole))
    ]


@pytest.mark.parametrize(
    ("rule", "events"), [pytest.param(each[0], each[2], id=each[1]) for each in MUTATIONS]
)
def test_a_rule_is_broken_by_one_change(rule: str, events: list[Any]) -> None:
    assert set(found(events)) - {"OR005"} == {rule} - {"OR005"}
    assert rule in found(events)


def test_every_rule_is_broken_here() -> None:
    assert {each[0] for each in MUTATIONS} == {f"OR00{number}" for number in range(1, 7)}


@pytest.mark.parametrize(
    "events",
    [
        GOOD,
        response("resp_1", *written("Hel", "lo")),
        response("resp_1", status="cancelled", usage=None),
        put(
            DELTA,
            {
                "type": "error",
                "event_id": "e",
                "error": {"type": "invalid_request_error", "message": "No."},
            },
        ),
    ],
    ids=["sound and a call", "text", "cancelled", "an error"],
)
def test_a_good_turn_breaks_no_rule(events: list[Json]) -> None:
    assert found(events) == []


# -- any one field wrong, and what a program on the SDK does with it

OF_ITEM = {"response_id": "resp_1", "item_id": "item_1", "output_index": 0}
OF_MCP: Json = {"server_label": "a", "name": "b", "arguments": "{}"}
ITEMS: list[Json] = [
    USER,
    {"type": "function_call_output", "id": "item_o", "call_id": "call_1", "output": "7"},
    {
        "type": "mcp_call",
        "id": "item_m",
        "output": "x",
        "error": {"type": "http_error", "code": 500, "message": "y"},
        **OF_MCP,
    },
    {"type": "mcp_approval_request", "id": "item_r", **OF_MCP},
    {
        "type": "mcp_approval_response",
        "id": "item_a",
        "approval_request_id": "item_r",
        "approve": True,
    },
    {
        "type": "mcp_list_tools",
        "id": "item_l",
        "server_label": "a",
        "tools": [{"name": "b", "input_schema": {}}],
    },
]
LIMIT = {"name": "tokens", "limit": 9, "remaining": 8, "reset_seconds": 0.5}


def _each(of: str, names: str, **fields: Any) -> dict[str, Json]:
    return {f"{of}.{name}": fields for name in names.split()}


_BY_NAME: Mapping[str, Json] = {
    "error": {"error": {"type": "server_error", "message": "Later.", "code": "x"}},
    "session.created": {"session": SESSION},
    "session.updated": {"session": SESSION},
    "conversation.created": {"conversation": {"id": "conv_1", "object": "realtime.conversation"}},
    **_each("conversation.item", "created added done retrieved", item=USER),
    "conversation.item.deleted": {"item_id": "item_u"},
    "conversation.item.truncated": {"item_id": "item_1", "content_index": 0, "audio_end_ms": 5},
    HEARD["type"]: TRANSCRIBED,
    "conversation.item.input_audio_transcription.delta": {
        "item_id": "item_u",
        "content_index": 0,
        "delta": "H",
    },
    "conversation.item.input_audio_transcription.failed": {
        **HEARD,
        "error": {"type": "x", "message": "y"},
    },
    "conversation.item.input_audio_transcription.segment": {
        **HEARD,
        "id": "seg_1",
        "text": "Hi",
        "speaker": "a",
        "start": 0.0,
        "end": 1.0,
    },
    "input_audio_buffer.committed": {"item_id": "item_u", "previous_item_id": "item_0"},
    "input_audio_buffer.cleared": {},
    "input_audio_buffer.dtmf_event_received": {"event": "5", "received_at": 1},
    "input_audio_buffer.speech_started": {"item_id": "item_u", "audio_start_ms": 1},
    "input_audio_buffer.speech_stopped": {"item_id": "item_u", "audio_end_ms": 1},
    "input_audio_buffer.timeout_triggered": {
        "item_id": "item_u",
        "audio_start_ms": 1,
        "audio_end_ms": 2,
    },
    **_each("output_audio_buffer", "started stopped cleared", response_id="r"),
    "rate_limits.updated": {"rate_limits": [LIMIT]},
    "response.mcp_call_arguments.delta": {**OF_ITEM, "delta": "{}"},
    "response.mcp_call_arguments.done": {**OF_ITEM, "arguments": "{}"},
    **_each("response.mcp_call", "in_progress completed failed", item_id="item_m", output_index=0),
    **_each("mcp_list_tools", "in_progress completed failed", item_id="i"),
}
OTHERS: list[Json] = [
    *({"event_id": "event_x", **fields, "type": type} for type, fields in _BY_NAME.items()),
    *(
        {"event_id": "event_x", "type": "conversation.item.added", "item": item}
        for item in ITEMS[1:]
    ),
]


def _said(item: Any) -> Any:
    if item.type == "message":
        return "".join(
            (part.transcript or "") + (getattr(part, "text", None) or "") for part in item.content
        )
    if item.type == "function_call":
        return item.name + item.arguments
    return item.id


_READ: Mapping[str, Callable[[Any], Any]] = {
    "error": lambda e: e.error.message + "",
    "response.output_audio.delta": lambda e: base64.b64decode(e.delta),
    **dict.fromkeys(
        [
            f"response.{each}.delta"
            for each in ("output_audio_transcript", "output_text", "function_call_arguments")
        ],
        lambda e: e.delta + "",
    ),
    "response.output_audio_transcript.done": lambda e: e.transcript + "",
    "response.function_call_arguments.done": lambda e: (json.loads(e.arguments), e.call_id + ""),
    **dict.fromkeys(
        ("response.output_item.added", "response.output_item.done"), lambda e: _said(e.item)
    ),
    "response.done": lambda e: (
        e.response.id,
        [_said(item) for item in e.response.output or ()],
        e.response.usage and e.response.usage.total_tokens,
    ),
    HEARD["type"]: lambda e: (e.transcript + "", e.usage.type),
    **dict.fromkeys(("conversation.item.added", "conversation.item.done"), lambda e: _said(e.item)),
    "rate_limits.updated": lambda e: [limit.name for limit in e.rate_limits],
}
"""What a program reads of an event, by its type."""

_ADAPTER: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)


def program(events: Sequence[Any]) -> list[Any]:
    """What a program on the SDK reads of a turn."""
    connection = object.__new__(RealtimeConnection)
    read = []
    for event in [connection.parse_event(json.dumps(each)) for each in events]:
        look = _READ.get(event.type)
        read.append((event.type, look and look(event)))
    return read


def judged(events: Sequence[Json]) -> Judged:
    try:
        return Judged(program(events), None, all(map(_is_declared, events)))
    except (AttributeError, TypeError, ValueError) as error:
        return Judged(None, error, False)


def _is_declared(event: Json) -> bool:
    try:
        _ADAPTER.validate_python(event)
    except ValidationError:
        return False
    return True


def test_the_turns_have_every_type_that_the_sdk_knows() -> None:
    types = {
        get_args(each.model_fields["type"].annotation)[0]
        for each in get_args(get_args(RealtimeServerEvent)[0])
    }
    assert types <= {each["type"] for each in (*GOOD, *response("r", *written("x")), *OTHERS)}


UNJUDGED = re.compile(r"session(\.|\b)|\binput_schema\b")
"""What a session is set up with, and what a tool takes."""


@pytest.mark.long
def test_a_wrong_field_that_stops_the_sdk_or_that_its_types_exclude_is_found_and_no_other() -> None:
    told = [
        compared(stream, judged, found, UNJUDGED) for stream in (GOOD, *([each] for each in OTHERS))
    ]
    assert [
        each for each in told if (each.missed, each.undeclared, each.false) != ([], [], [])
    ] == []
    assert sum(each.stopped for each in told) >= 60


def test_a_program_on_the_sdk_stops_as_the_rule_says() -> None:
    by_name = {says: events for _, says, events in MUTATIONS}
    with pytest.raises(AttributeError, match="'list' object has no attribute 'type'"):
        program(by_name["an array"])
    with pytest.raises(TypeError):
        program(by_name["no delta"])
    assert "'list' object has no attribute 'type'" in " ".join(the_rule("OR001").why.split())
