"""What a Realtime session means, turn by turn, and that it is what openai-python yields from the
same messages.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from openai.resources.realtime.realtime import RealtimeConnection

from recorder.projections.fold import Rows
from tests.support.live import (
    REALTIME,
    SESSION,
    SOUND,
    Json,
    Live,
    called,
    pieces,
    response,
    spoken,
    turns_of,
    user_item,
    written,
)
from tests.support.websocket import Connection

ASK = {"type": "response.create"}
SPOKEN = {
    "mime_type": "audio/pcm",
    "size_bytes": len(SOUND),
    "sha256": sha256(SOUND).hexdigest(),
    "duration_ms": 1024,
}


def begun(**session: Any) -> Connection:
    """A connection on which the session has been set up."""
    made = Connection(REALTIME).server(
        {"type": "session.created", "session": {"model": "gpt-realtime"}}
    )
    made.client({"type": "session.update", "session": {"instructions": "You are brief."}})
    return made.server({"type": "session.updated", "session": {**SESSION, **session}})


def asked(text: str, *events: Json, **end: Any) -> Connection:
    """A connection with one turn."""
    return begun().client(user_item(text)).client(ASK).server(*response("resp_1", *events, **end))


def conversed() -> Connection:
    """One turn that calls a tool, and one with the answer to it."""
    made = asked("Weather?", *called("weather", '{"city":', '"Oslo"}'))
    result = {"type": "function_call_output", "call_id": "call_1", "output": '{"t": 7}'}
    made.client({"type": "conversation.item.create", "item": result}).client(ASK)
    return made.server(*response("resp_2", *spoken("Seven ", "degrees."))).close()


def heard(transcript_usage: Json | None = None, **session: Any) -> Connection:
    """Speech that the server answers by itself."""
    made = begun(**session)
    for piece in pieces():
        made.client({"type": "input_audio_buffer.append", "audio": piece})
    made.server(
        {"type": "input_audio_buffer.speech_started", "audio_start_ms": 96, "item_id": "item_u"}
    )
    made.server(
        {"type": "input_audio_buffer.speech_stopped", "audio_end_ms": 1024, "item_id": "item_u"}
    )
    made.server(
        {"type": "input_audio_buffer.committed", "previous_item_id": None, "item_id": "item_u"}
    )
    answer = response("resp_1", *spoken("Hello."))
    transcribed = {
        "type": "conversation.item.input_audio_transcription.completed",
        "content_index": 0,
    }
    transcribed |= {"usage": transcript_usage} if transcript_usage else {}
    return made.server(
        answer[0], {**transcribed, "item_id": "item_u", "transcript": "Good morning"}, *answer[1:]
    )


# -- what a turn says


def read_by_sdk(made: Connection) -> list[Any]:
    """The events of all turns as openai-python parses them."""
    live = Live(made)
    raws = [piece.raw for turn in live.turns for piece in live.recording(turn).pieces]
    return [RealtimeConnection.parse_event(object.__new__(RealtimeConnection), raw) for raw in raws]


def test_texts_calls_and_usage_are_what_the_sdk_yields() -> None:
    first, second = turns_of(conversed())
    events = read_by_sdk(conversed())
    transcript = "".join(
        each.delta for each in events if each.type == "response.output_audio_transcript.delta"
    )
    arguments = "".join(
        each.delta for each in events if each.type == "response.function_call_arguments.delta"
    )
    usage = events[-1].response.usage
    [call], [message] = calls_of(first), messages_of(second)
    assert (message.text, call.name, call.arguments, call.call_id) == (
        transcript,
        "weather",
        arguments,
        "call_1",
    )
    [counts] = second["usage"]
    assert (counts.input_tokens, counts.output_tokens) == (usage.input_tokens, usage.output_tokens)
    assert counts.cache_read_input_tokens == usage.input_token_details.cached_tokens
    assert counts.input_audio_tokens == usage.input_token_details.audio_tokens
    assert (
        counts.cache_read_input_audio_tokens
        == usage.input_token_details.cached_tokens_details.audio_tokens
    )
    assert counts.output_audio_tokens == usage.output_token_details.audio_tokens
    assert first["anomalies"] == second["anomalies"] == []


def messages_of(rows: Rows) -> list[Any]:
    return [item for item in rows["items"] if item.kind == "message"]


def calls_of(rows: Rows) -> list[Any]:
    return [item for item in rows["items"] if item.kind == "tool_call"]


def test_a_text_is_a_message() -> None:
    [rows] = turns_of(asked("Hi", *written("Hel", "lo")))
    assert [item.text for item in rows["items"]] == ["Hello"]
    [exchange] = rows["exchanges"]
    assert (exchange.status, exchange.finish_reason, exchange.response_id) == (
        "completed",
        "completed",
        "resp_1",
    )
    assert (exchange.request_model, exchange.user_text, exchange.is_turn) == (
        "gpt-realtime",
        "Hi",
        True,
    )


def test_a_result_is_of_the_turn_that_sends_it() -> None:
    first, second = turns_of(conversed())
    assert first["results"] == []
    [result] = second["results"]
    assert (result.call_key, result.output) == ("call_1", '{"t": 7}')


def test_what_was_set_up_holds_for_each_turn() -> None:
    live = Live(conversed())
    for number, items in enumerate((["message"], ["function_call_output"])):
        request = live.request(number)
        assert (request["instructions"], request["tools"]) == (
            SESSION["instructions"],
            SESSION["tools"],
        )
        assert [item["type"] for item in request["input"]] == items
    for rows in live.rows:
        [parameters] = rows["parameters"]
        assert (parameters.tool_names, parameters.system_bytes) == (
            '["weather"]',
            len(SESSION["instructions"]),
        )


BY_TOKENS = {
    "type": "tokens",
    "input_tokens": 20,
    "output_tokens": 5,
    "total_tokens": 25,
    "input_token_details": {"audio_tokens": 18, "text_tokens": 2},
}
TRANSCRIPTION = {"model": "gpt-4o-transcribe"}


@pytest.mark.parametrize(
    "session",
    [
        {"audio": {"input": {"transcription": TRANSCRIPTION}}},
        {"input_audio_transcription": TRANSCRIPTION},
    ],
    ids=["now", "beta"],
)
def test_tokens_of_a_transcription_are_those_of_its_own_model(session: Json) -> None:
    [rows] = turns_of(heard(BY_TOKENS, **session))
    [counts], [run] = rows["usage"], rows["iterations"]
    assert (run.type, run.model) == ("transcription", "gpt-4o-transcribe")
    assert (run.input_tokens, run.input_audio_tokens, run.output_tokens) == (20, 18, 5)
    assert (counts.input_tokens, counts.billed_input_tokens) == (132, 152)


def test_transcriptions_between_two_turns_count_once_and_with_the_connection() -> None:
    made = heard(audio={"input": {"transcription": TRANSCRIPTION}})
    late = {
        "type": "conversation.item.input_audio_transcription.completed",
        "transcript": "So",
        "usage": BY_TOKENS,
    }
    made.server({**late, "item_id": "item_u"}, {**late, "item_id": "item_v"})
    live = Live(made.client(ASK).server(*response("resp_2", *spoken("Yes."))).close())
    rows = live.folded(live.connection)
    assert [(run.model, run.input_tokens) for run in rows["iterations"]] == [
        (TRANSCRIPTION["model"], 20)
    ] * 2
    assert [(counts.model, counts.billed_input_tokens) for counts in rows["usage"]] == [
        (TRANSCRIPTION["model"], 40)
    ]
    assert [turn["iterations"] for turn in live.rows] == [[], []]


def test_a_transcription_by_the_second_has_no_tokens() -> None:
    [rows] = turns_of(heard({"type": "duration", "seconds": 1.5}))
    assert rows["iterations"] == []


# -- sound


def test_speech_that_is_answered_is_a_turn_with_both_transcripts() -> None:
    [rows] = turns_of(heard())
    [exchange] = rows["exchanges"]
    assert (exchange.user_text, exchange.is_turn, exchange.status) == (
        "Good morning",
        True,
        "completed",
    )
    assert [message.text for message in messages_of(rows)] == ["Hello."]
    assert [phase.phase for phase in rows["phases"]] == ["speech_started", "speech_stopped"]
    assert json.loads(rows["phases"][1].detail) == {"audio_end_ms": 1024}


@pytest.mark.parametrize(
    ("message", "said", "is_turn"),
    [
        (user_item("And Rome?"), "And Rome?", True),
        (
            {
                "type": "conversation.item.create",
                "item": {"type": "function_call_output", "call_id": "call_1", "output": "7"},
            },
            "Good morning",
            False,
        ),
    ],
    ids=["a text", "a result"],
)
def test_words_of_the_turn_before_are_not_what_a_turn_is_about(
    message: Json, said: str, is_turn: bool
) -> None:
    made = begun()
    for piece in pieces():
        made.client({"type": "input_audio_buffer.append", "audio": piece})
    made.server({"type": "input_audio_buffer.committed", "item_id": "item_u"})
    made.server(*response("resp_1", *spoken("Hello."))).client(message).client(ASK)
    created, *rest = response("resp_2", *spoken("Yes."))
    made.server(
        created,
        {
            "type": "conversation.item.input_audio_transcription.completed",
            "item_id": "item_u",
            "transcript": "Good morning",
        },
        *rest,
    )
    [exchange] = turns_of(made.close())[1]["exchanges"]
    assert (exchange.user_text, exchange.is_turn) == (said, is_turn)


def test_sound_of_both_sides_is_a_size_a_digest_and_a_duration() -> None:
    live = Live(heard())
    [item] = live.request(0)["input"]
    assert item == {
        "id": "item_u",
        "type": "message",
        "role": "user",
        "content": [
            {
                "type": "input_audio",
                "audio": {**SPOKEN, "mime_type": "audio/pcm;rate=24000"},
                "transcript": "Good morning",
            }
        ],
    }
    [rows] = live.rows
    [sound] = [each for each in rows["items"] if each.type == "audio"]
    assert json.loads(sound.output) == SPOKEN
    assert not [row for row in rows["anomalies"] if row.kind == "unread"]


def test_telephone_sound_has_its_own_rate() -> None:
    made = begun(audio={"input": {"format": {"type": "audio/pcmu"}}})
    made.client({"type": "input_audio_buffer.append", "audio": pieces(SOUND[:8000], 8000)[0]})
    [item] = Live(made.server(*response("resp_1"))).request(0)["input"]
    assert item["content"][0]["audio"]["duration_ms"] == 1000


def test_a_response_that_speech_interrupts_says_so() -> None:
    stopped = {"type": "cancelled", "reason": "turn_detected"}
    said = spoken("Once upon", sound=SOUND[:4800], status="incomplete")
    made = asked("A story", *said, status="cancelled", status_details=stopped)
    made.client({"type": "input_audio_buffer.append", "audio": pieces()[0]})
    made.client(
        {
            "type": "conversation.item.truncate",
            "item_id": "item_0",
            "content_index": 0,
            "audio_end_ms": 60,
        }
    )
    made.server(
        {
            "type": "conversation.item.truncated",
            "item_id": "item_0",
            "content_index": 0,
            "audio_end_ms": 60,
        }
    )
    [told, _] = turns_of(made.server(*response("resp_2", *written("Yes?"))))
    [exchange] = told["exchanges"]
    assert (exchange.status, exchange.finish_reason) == ("incomplete", "turn_detected")
    assert [(item.text, item.status) for item in messages_of(told)] == [("Once upon", "incomplete")]
    assert told["anomalies"] == []


# -- what begins and ends a turn


def test_sound_behind_the_last_response_is_not_a_broken_turn() -> None:
    made = asked("Hi", *written("Hello"))
    made.client({"type": "input_audio_buffer.append", "audio": pieces()[0]}).close()
    [_, rest] = turns_of(made)
    [exchange] = rest["exchanges"]
    assert (exchange.status, exchange.user_text, rest["items"], rest["anomalies"]) == (
        "completed",
        None,
        [],
        [],
    )


def test_a_response_that_was_asked_for_and_did_not_come_is_missed() -> None:
    [rows] = turns_of(begun().client(user_item("Hi")).client(ASK).close())
    assert [row.status for row in rows["exchanges"]] == ["client_disconnect"]


def test_an_error_does_not_fail_the_response_that_follows() -> None:
    made = begun().client(user_item("Hi"))
    made.server(
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "No active response"},
        }
    )
    [failed] = turns_of(made.close())
    assert [(row.status, row.error) for row in failed["exchanges"]] == [
        ("failed", "No active response")
    ]
    del made.steps[-5:]  # the end of the connection
    [rows] = turns_of(made.client(ASK).server(*response("resp_1", *written("Hello"))))
    assert [(row.status, row.error) for row in rows["exchanges"]] == [("completed", None)]
    assert [(step.type, step.detail) for step in rows["phases"]] == [
        ("error", '{"message":"No active response"}')
    ]


def test_a_second_response_at_the_same_time_is_a_turn_of_its_own() -> None:
    made = begun().client(user_item("Hi")).client(ASK)
    one, other = response("resp_1", *written("Hello")), response("resp_2", *written("Title"))
    made.server(*one[:-1]).client({"type": "response.create", "response": {"conversation": "none"}})
    made.server(*other, one[-1]).close()
    first, second = turns_of(made)
    assert [messages_of(rows)[0].text for rows in (first, second)] == ["Hello", "Title"]


def test_no_message_is_lost_and_none_is_there_twice() -> None:
    made = conversed()
    live = Live(made)
    of_all = [live.recording(each) for each in (live.connection, *live.turns)]
    sent = [json.loads(message.raw)["type"] for each in of_all for message in each.sent]
    assert sorted(sent) == sorted(
        ["session.update", *["conversation.item.create", "response.create"] * 2]
    )
    types = [json.loads(piece.raw)["type"] for each in of_all for piece in each.pieces]
    assert types.count("session.updated") == types.count("session.created") == 1
    assert types.count("response.done") == 2
