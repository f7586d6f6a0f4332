"""What a session of Gemini Live means, turn by turn. What google-genai makes of it is in
`test_live_sdks`.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from recorder.projections.fold import Rows
from tests.support.live import (
    COMPLETE,
    GEMINI,
    SETUP,
    SETUP_COMPLETE,
    SOUND,
    Live,
    content,
    microphone,
    sounding,
    transcript,
    turns_of,
)
from tests.support.websocket import Connection

ASK = {
    "client_content": {
        "turns": [{"role": "user", "parts": [{"text": "Weather?"}]}],
        "turn_complete": True,
    }
}
CALL = {
    "toolCall": {"functionCalls": [{"id": "fc_1", "name": "weather", "args": {"city": "Oslo"}}]}
}
RESULT = {
    "tool_response": {
        "functionResponses": [{"id": "fc_1", "name": "weather", "response": {"t": 7}}]
    }
}


def begun() -> Connection:
    return Connection(GEMINI, upstream="gemini").client(SETUP).server(SETUP_COMPLETE)


def messages_of(rows: Rows) -> list[Any]:
    return [item for item in rows["items"] if item.kind == "message"]


def test_a_call_its_result_and_the_answer_are_one_turn() -> None:
    made = begun().client(ASK).server(CALL).client(RESULT)
    made.server(*transcript("Seven ", "degrees."), *sounding(), *COMPLETE).close()
    [rows] = turns_of(made)
    [exchange], [call], [result] = rows["exchanges"], _calls(rows), rows["results"]
    assert (exchange.status, exchange.finish_reason, exchange.user_text) == (
        "completed",
        "STOP",
        "Weather?",
    )
    assert exchange.request_model == "gemini-live-2.5"
    assert (call.name, json.loads(call.arguments), call.call_id) == (
        "weather",
        {"city": "Oslo"},
        "fc_1",
    )
    assert (result.call_key, json.loads(result.output)) == ("fc_1", {"t": 7})
    assert [message.text for message in messages_of(rows)] == ["Seven degrees."]
    assert rows["anomalies"] == []


def _calls(rows: Rows) -> list[Any]:
    return [item for item in rows["items"] if item.kind == "tool_call"]


def test_speech_has_both_transcripts_and_sound_by_size_digest_and_duration() -> None:
    made = begun().client(ASK).server(*transcript("Rain."), *COMPLETE)
    for each in microphone():
        made.client(each)
    made.server(
        *transcript("Good ", "morning", of="inputTranscription"),
        *sounding(),
        *transcript("Hello."),
        *COMPLETE,
    )
    live = Live(made.close())
    [_, rows] = live.rows
    [sound] = [item for item in rows["items"] if item.type == "audio"]
    digest = sha256(SOUND).hexdigest()
    about = {"size_bytes": len(SOUND), "sha256": digest}
    assert json.loads(sound.output) == {
        "mime_type": "audio/pcm;rate=24000",
        **about,
        "duration_ms": 1024,
    }
    request = live.request(1)
    assert request["contents"] == [
        {
            "role": "user",
            "parts": [
                {"inlineData": {"mime_type": "audio/pcm;rate=16000", **about, "duration_ms": 1536}},
                {"text": "Good morning"},
            ],
        }
    ]
    assert request["systemInstruction"] == SETUP["setup"]["systemInstruction"]
    [exchange] = rows["exchanges"]
    assert (exchange.user_text, exchange.request_model) == ("Good morning", "gemini-live-2.5")


def test_usage_is_counted_by_modality() -> None:
    [rows] = turns_of(begun().client(ASK).server(*transcript("Rain."), *COMPLETE))
    [usage] = rows["usage"]
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_output_tokens) == (40, 35, 5)
    assert (usage.input_audio_tokens, usage.output_audio_tokens) == (25, 30)
    assert "responseTokenCount" in usage.usage_raw


def test_a_turn_that_speech_interrupts_says_so() -> None:
    made = begun().client(ASK).server(*transcript("Once upon"), *sounding(SOUND[:4800]))
    made.client(microphone()[0]).server(content(interrupted=True), content(turnComplete=True))
    made.client(microphone()[1]).server(*transcript("Yes?"), *COMPLETE).close()
    [told, answered] = turns_of(made)
    assert [(row.status, row.finish_reason) for row in told["exchanges"]] == [
        ("incomplete", "INTERRUPTED")
    ]
    assert [step.phase for step in told["phases"]] == ["interrupted"]
    assert [row.status for row in answered["exchanges"]] == ["completed"]


def test_a_turn_goes_on_while_the_server_is_at_work() -> None:
    busy = content(turnComplete=True, interactionStatus="IN_PROGRESS")
    made = begun().client(ASK).server(*transcript("Wait. "), busy)
    made.server(*transcript("Rain."), content(turnComplete=True, interactionStatus="IDLE"))
    [rows] = turns_of(made)
    assert [message.text for message in messages_of(rows)] == ["Wait. Rain."]


def test_what_is_around_the_turns_is_of_the_connection() -> None:
    made = begun().server(
        {"sessionResumptionUpdate": {"newHandle": "h"}}, {"goAway": {"timeLeft": "10s"}}
    )
    live = Live(made.client(ASK).server(*transcript("Rain."), *COMPLETE).close())
    own = live.recording(live.connection)
    assert [next(iter(json.loads(each.raw))) for each in own.pieces] == [
        "setupComplete",
        "sessionResumptionUpdate",
        "goAway",
    ]
    assert [json.loads(each.raw) for each in own.sent] == [SETUP]
