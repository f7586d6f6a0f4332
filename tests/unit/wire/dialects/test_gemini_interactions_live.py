"""What an interaction over WebSocket means. What google-genai makes of it is in `test_live_sdks`."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest

from recorder.projections.fold import Rows
from tests.support.live import (
    CONNECT,
    ENDED,
    INTERACTIONS,
    SOUND,
    Live,
    audio_deltas,
    live_step,
    said_live,
    spoken_live,
    text_deltas,
    turns_of,
)
from tests.support.websocket import Connection

CREATE = {
    "event_type": "interaction.create",
    "model": "gemini-live-3.5",
    "system_instruction": "You are brief.",
}
ANSWER = live_step(0, "model_output", *text_deltas("Hel", "lo"))


def begun(setup: dict[str, Any] = CONNECT) -> Connection:
    made = Connection(INTERACTIONS, upstream="gemini").client(setup)
    return made.server({"event_type": "interaction.connected"})


def messages_of(rows: Rows) -> list[str]:
    return [item.text for item in rows["items"] if item.kind == "message"]


def test_an_interaction_is_one_turn_until_it_is_completed() -> None:
    made = begun(CREATE).client(said_live("Hi.")).server(*ANSWER).client(said_live("And?"))
    made.server(*live_step(1, "model_output", *text_deltas("Bye.")), ENDED).close()
    live = Live(made)
    [rows] = live.rows
    [exchange], [usage] = rows["exchanges"], rows["usage"]
    assert (exchange.status, exchange.finish_reason, exchange.request_model) == (
        "completed",
        "completed",
        "gemini-live-3.5",
    )
    assert messages_of(rows) == ["Hello", "Bye."]
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_output_tokens) == (32, 15, 3)
    assert live.request(0)["system_instruction"] == "You are brief."
    assert [step["content"] for step in live.request(0)["input"]] == [
        said_live(each)["content"] for each in ("Hi.", "And?")
    ]
    assert rows["anomalies"] == []


def test_several_events_in_one_message_are_read_each() -> None:
    both = {"events": [said_live("Hi."), said_live("Now.")]}
    [rows] = turns_of(begun().client(both).server({"events": [*ANSWER, ENDED]}).close())
    assert messages_of(rows) == ["Hello"]
    assert [row.status for row in rows["exchanges"]] == ["completed"]
    assert rows["anomalies"] == []


def test_sound_of_either_side_is_kept_by_size_digest_and_duration() -> None:
    made = begun()
    for each in spoken_live():
        made.client(each)
    live = Live(made.server(*live_step(0, "model_output", *audio_deltas()), ENDED).close())
    about = {"size_bytes": len(SOUND), "sha256": sha256(SOUND).hexdigest()}
    [step] = live.request(0)["input"]
    assert step["content"] == [
        {"type": "audio", "mime_type": "audio/pcm;rate=16000", **about, "duration_ms": 1536},
    ]
    [sound] = [item for item in live.rows[0]["items"] if item.type == "audio"]
    assert about.items() <= json.loads(sound.output).items()


@pytest.mark.parametrize(
    ("last", "status", "reason"),
    [
        ({"event_type": "interaction.cancelled"}, "incomplete", "cancelled"),
        ({"event_type": "reconnection_required"}, "incomplete", "requires_continuation"),
        ({**ENDED, "status": {"code": 13, "message": "no"}}, "failed", "failed"),
    ],
)
def test_another_end_is_told(last: dict[str, Any], status: str, reason: str) -> None:
    [rows] = turns_of(begun().client(said_live("Hi.")).server(*ANSWER, last).close())
    [exchange] = rows["exchanges"]
    assert (exchange.status, exchange.finish_reason) == (status, reason)


@pytest.mark.parametrize(
    ("left_after", "status"), [(len(ANSWER), "completed"), (2, "client_disconnect")]
)
def test_a_client_that_leaves_after_a_step_has_all_that_it_waited_for(
    left_after: int, status: str
) -> None:
    made = begun().client(said_live("Hi.")).server(*live_step(0, "thought"))
    made.server(*[{**each, "index": 1} for each in ANSWER][:left_after])
    made.client({"event_type": "interaction.disconnect"})
    [rows] = turns_of(made.close())
    assert [row.status for row in rows["exchanges"]] == [status]
