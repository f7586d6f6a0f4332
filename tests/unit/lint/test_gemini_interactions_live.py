"""The rules of Interactions over WebSocket: those of Interactions, judged by what google-genai
makes of a turn.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from google.genai import interactions
from google.genai._gaos.google_genai import _parse_server_event
from google.genai._interactions_websocket import APIWebSocketError, _frame_events
from pydantic import TypeAdapter, ValidationError

from recorder.lint.linter import lint
from tests.support.live import (
    CONNECT,
    ENDED,
    INTERACTIONS,
    answered,
    live_step,
    said_live,
    text_deltas,
)
from tests.support.planted_fields import Judged, compared
from tests.support.recordings import Json
from tests.unit.lint.test_gemini_interactions import said, step

CONNECTED: Json = {"event_type": "interaction.connected"}
GOOD: list[Json] = [
    {"event_type": "interaction.created", "interaction_id": "int_1"},
    *step(0, {"type": "thought"}, {"type": "thought_summary", "content": said("Hm.")}),
    *live_step(1, "model_output", *text_deltas("Hel", "lo")),
    *step(
        2,
        {"type": "function_call", "id": "c1", "name": "roll", "arguments": {}},
        {"type": "arguments_delta", "arguments": '{"sides": 6}'},
    ),
    {**ENDED, "created": "2026-11-28T10:00:00Z", "updated": "2026-11-28T10:00:09Z"},
]
LAST = len(GOOD) - 1
STOPPED = 3  # of GOOD


def found(messages: Sequence[Any]) -> list[str]:
    """The rules that a turn breaks."""
    return [
        each.rule
        for each in lint(
            answered(INTERACTIONS, [CONNECT, CONNECTED], said_live("Roll."), *messages)
        )
    ]


@pytest.mark.parametrize(
    ("rule", "messages"),
    [
        ("GI001", [*GOOD[:1], {"events": ["x"]}, *GOOD[1:]]),
        ("GI002", [*GOOD[:1], {"events": [{**GOOD[1], "step": None}]}, *GOOD[2:]]),
        (
            "GI003",
            [
                *GOOD[:1],
                {"event_type": "interaction.status_update", "interaction_id": "int_1"},
                *GOOD[1:],
            ],
        ),
        ("GI004", [*GOOD[:LAST], GOOD[STOPPED], GOOD[LAST]]),
        ("GI006", GOOD[:2]),
        ("GI008", [*GOOD[:LAST], {"event_type": "interaction.completed"}]),
        ("GI012", [*GOOD[:LAST], {"events": [GOOD[LAST], {"event_type": "error", "error": {}}]}]),
    ],
)
def test_a_rule_is_broken_by_one_change(rule: str, messages: list[Any]) -> None:
    assert found(messages) == [rule]


@pytest.mark.parametrize(
    "messages",
    [
        GOOD,
        [{"events": GOOD}],
        [*GOOD[:LAST], {"event_type": "interaction.cancelled"}],
        [*GOOD[:LAST], {"event_type": "reconnection_required"}],
        [GOOD[STOPPED], *live_step(1, "model_output", *text_deltas("x")), ENDED],
    ],
    ids=[
        "each alone",
        "all in one message",
        "cancelled",
        "to be continued",
        "come back within a step",
    ],
)
def test_a_good_turn_breaks_no_rule(messages: list[Json]) -> None:
    assert found(messages) == []


# -- any one field wrong, and what a program on google-genai makes of it


def program(messages: Sequence[Json]) -> tuple[Any, ...]:
    """What a program puts together from the events that the SDK yields."""
    words, calls, usage, ended = "", dict[int, list[str]](), None, None
    for message in messages:
        for payload in _frame_events(json.dumps(message)):
            event: Any = _parse_server_event(payload)
            if event.event_type == "step.start" and event.step.type == "function_call":
                calls[event.index] = [
                    event.step.id,
                    event.step.name + json.dumps(event.step.arguments),
                ]
            elif event.event_type == "step.delta" and event.delta.type == "arguments_delta":
                calls[event.index][1] += event.delta.arguments
            elif event.event_type == "step.delta":
                words += (
                    event.delta.content.text
                    if event.delta.type == "thought_summary"
                    else event.delta.text
                )
            elif event.event_type == "interaction.completed":
                ended, usage = (
                    event.status.code if event.status else None,
                    event.usage and event.usage.model_dump(),
                )
    return words, calls, usage, ended


_ADAPTER: TypeAdapter[Any] = TypeAdapter(interactions.ServerEvent)


def judged(messages: Sequence[Json]) -> Judged:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read = program(messages)
        except (APIWebSocketError, AttributeError, KeyError, TypeError) as error:
            return Judged(None, error, False)
    return Judged(read, None, all(map(_is_declared, messages)))


def _is_declared(event: Json) -> bool:
    try:
        return "UNKNOWN" not in repr(_ADAPTER.validate_python(event))
    except (ValidationError, TypeError):
        return False


@pytest.mark.long
def test_a_wrong_field_that_stops_the_sdk_is_found_and_one_that_it_takes_is_none() -> None:
    told = compared(GOOD, judged, found)
    assert (told.missed, told.undeclared, told.false) == ([], [], [])
    assert told.stopped >= 30
