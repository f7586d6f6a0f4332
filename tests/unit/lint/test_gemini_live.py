"""The rules of Gemini Live: each is broken by one change to a good turn, and nothing else is; and
what a program on google-genai does with a turn in which any one field is wrong.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from google import genai
from google.genai import _live_converters as converters
from google.genai import types
from google.genai.errors import APIError
from google.genai.live import AsyncSession, _is_interaction_complete

from recorder.lint.linter import lint
from tests.support.live import (
    COMPLETE,
    GEMINI,
    SETUP,
    SETUP_COMPLETE,
    answered,
    content,
    sounding,
    transcript,
)
from tests.support.planted_fields import Judged, compared
from tests.support.recordings import Json

ASKED: Json = {
    "client_content": {
        "turns": [{"role": "user", "parts": [{"text": "Weather?"}]}],
        "turn_complete": True,
    }
}
CALL: Json = {
    "toolCall": {"functionCalls": [{"id": "fc_1", "name": "weather", "args": {"city": "Oslo"}}]}
}
TEXT = content(
    modelTurn={"role": "model", "parts": [{"text": "Hm", "thought": True}, {"text": "It rains."}]}
)
GOOD: list[Json] = [
    CALL,
    *transcript("Hi", of="inputTranscription"),
    TEXT,
    *sounding(bytes(48)),
    *transcript("Rain."),
]
GOOD += COMPLETE
END = len(GOOD) - 1


def edited(number: int, change: Callable[[Json], object]) -> list[Any]:
    messages = copy.deepcopy(GOOD)
    change(messages[number])
    return messages


def put(number: int, message: Any) -> list[Any]:
    return [*GOOD[:number], message, *GOOD[number:]]


MUTATIONS: Sequence[tuple[str, str, list[Any]]] = [
    ("GL001", "an array", put(2, ["x"])),
    ("GL002", "an event of another API", put(2, {"type": "response.created"})),
    ("GL003", "a number as a text", put(2, content(outputTranscription={"text": 5}))),
    (
        "GL003",
        "no base64",
        put(
            2,
            content(modelTurn={"parts": [{"inlineData": {"mimeType": "audio/pcm", "data": "?"}}]}),
        ),
    ),
    ("GL004", "no end", GOOD[:END]),
    (
        "GL005",
        "no id",
        edited(0, lambda message: message["toolCall"]["functionCalls"][0].pop("id")),
    ),
    ("GL006", "no usage", edited(END, lambda message: message.pop("usageMetadata"))),
]


def found(messages: Sequence[Any]) -> list[str]:
    """The rules that a turn breaks; a single message is judged with the end of a turn."""
    whole = list(messages) if len(messages) > 1 else [*messages, *COMPLETE]
    recording = answered(GEMINI, [SETUP, SETUP_COMPLETE], ASKED, *whole)
    return [each.rule for each in lint(recording)]


@pytest.mark.parametrize(
    ("rule", "messages"), [pytest.param(each[0], each[2], id=each[1]) for each in MUTATIONS]
)
def test_a_rule_is_broken_by_one_change(rule: str, messages: list[Any]) -> None:
    assert found(messages) == [rule]


def test_every_rule_is_broken_here() -> None:
    assert {each[0] for each in MUTATIONS} == {f"GL00{number}" for number in range(1, 7)}


BUSY = content(turnComplete=True, interactionStatus="IN_PROGRESS")


@pytest.mark.parametrize(
    "messages",
    [
        GOOD,
        [*transcript("Once"), content(interrupted=True), COMPLETE[-1]],
        [*transcript("Wait."), BUSY, *transcript("Rain."), *COMPLETE],
        [{"error": {"code": 400, "message": "No.", "status": "INVALID_ARGUMENT"}}],
    ],
    ids=["sound and a call", "interrupted", "at work", "an error"],
)
def test_a_good_turn_breaks_no_rule(messages: list[Json]) -> None:
    assert found(messages) == []


# -- any one field wrong, and what a program on the SDK does with it

OTHERS: list[Json] = [
    {"toolCallCancellation": {"ids": ["fc_1"]}},
    {"goAway": {"timeLeft": "10s"}},
    {
        "sessionResumptionUpdate": {
            "newHandle": "h",
            "resumable": True,
            "lastConsumedClientMessageIndex": 5,
        }
    },
    {"voiceActivity": {"type": "ACTIVITY_START", "audioOffset": "1s"}},
    {"voiceActivityDetectionSignal": {"vadSignalType": "VAD_SIGNAL_TYPE_SOS"}},
    content(
        groundingMetadata={"webSearchQueries": ["x"]},
        urlContextMetadata={"urlMetadata": [{"retrievedUrl": "u"}]},
        waitingForInput=True,
        interimInputTranscription={"text": "H", "finished": False},
    ),
    {
        **content(
            turnComplete=True, turnCompleteReason="NEED_MORE_INPUT", interactionStatus="IDLE"
        ),
        "usageMetadata": {"totalTokenCount": 1},
    },
]


def _player(mime_type: Any) -> bool:
    """Whether a program plays what is of that type."""
    return bool(mime_type.startswith("audio/"))


def program(messages: Sequence[Any]) -> list[Any]:
    """What a program on the SDK reads of a turn: each message, and whether the SDK takes the result
    of each call.
    """
    unconnected: Any = None
    session = AsyncSession(
        api_client=genai.Client(api_key="none")._api_client, websocket=unconnected
    )
    read: list[Any] = []
    for each in messages:
        given = converters._LiveServerMessage_from_mldev(each)
        if not given and each:
            APIError.raise_error(each.get("code"), each, None)
        message = types.LiveServerMessage._from_response(response=given, kwargs={})
        for call in (message.tool_call and message.tool_call.function_calls) or ():
            session._parse_client_message(
                types.FunctionResponse(id=call.id, name=call.name, response={})
            )
        said, usage = message.server_content, message.usage_metadata
        parts = (said and said.model_turn and said.model_turn.parts) or ()
        read.append([_player(part.inline_data.mime_type) for part in parts if part.inline_data])
        told = [said.input_transcription, said.output_transcription] if said else []
        read.append(
            (
                message.text,
                message.data,
                _is_interaction_complete(said),
                [each and each.text for each in told],
            )
        )
        read.append(usage and usage.total_token_count)
    return read


def judged(messages: Sequence[Json]) -> Judged:
    try:
        return Judged(program(messages), None, True)
    except (APIError, AttributeError, TypeError, ValueError) as error:
        return Judged(None, error, False)


UNJUDGED = re.compile("(?!)")


@pytest.mark.long
def test_a_wrong_field_that_stops_the_sdk_is_found_and_no_other() -> None:
    told = [
        compared(stream, judged, found, UNJUDGED) for stream in (GOOD, *([each] for each in OTHERS))
    ]
    assert [
        each for each in told if (each.missed, each.undeclared, each.false) != ([], [], [])
    ] == []
    assert sum(each.stopped for each in told) >= 60


@pytest.mark.parametrize(
    ("says", "error", "words"),
    [
        (
            "an event of another API",
            TypeError,
            "'<=' not supported between instances of 'int' and 'NoneType'",
        ),
        ("a number as a text", ValueError, "validation error"),
        ("an array", AttributeError, "'list' object has no attribute 'get'"),
        ("no id", ValueError, "FunctionResponse request must have an `id` field"),
    ],
)
def test_a_program_on_the_sdk_stops_as_the_rule_says(
    says: str, error: type[Exception], words: str
) -> None:
    [messages] = [messages for _, name, messages in MUTATIONS if name == says]
    with pytest.raises(error, match=re.escape(words)):
        program(json.loads(json.dumps(messages)))
