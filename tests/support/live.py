"""Live sessions: messages of OpenAI Realtime and Gemini Live as their servers send them, and folds
of what is recorded.

[first, second] = turns_of(connection)     # the rows of each turn
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from recorder.ingest.assembler import Assembler
from recorder.journal.format import START, Mark, Record
from recorder.model.events import WEBSOCKET, Event, Exchange, Recording
from recorder.projections.fold import Folding, Rows
from recorder.wire.framing.websocket import encode_close
from recorder.wire.recording import recording_of
from tests.support.websocket import Connection

Json = dict[str, Any]

SOUND = bytes(range(256)) * 192  # 49,152 bytes: 1,024 ms of 24 kHz
REALTIME = "/v1/realtime?model=gpt-realtime"
SESSION: Json = {
    "type": "realtime",
    "object": "realtime.session",
    "id": "sess_1",
    "model": "gpt-realtime",
    "instructions": "You are brief.",
    "tools": [{"type": "function", "name": "weather", "parameters": {"type": "object"}}],
    "tool_choice": "auto",
    "output_modalities": ["audio"],
    "audio": {"input": {"format": {"type": "audio/pcm", "rate": 24000}}},
}
USAGE: Json = {
    "total_tokens": 253,
    "input_tokens": 132,
    "output_tokens": 121,
    "input_token_details": {
        "text_tokens": 119,
        "audio_tokens": 13,
        "image_tokens": 0,
        "cached_tokens": 64,
        "cached_tokens_details": {"text_tokens": 60, "audio_tokens": 4, "image_tokens": 0},
    },
    "output_token_details": {"text_tokens": 30, "audio_tokens": 91},
}


def coded(sound: bytes = SOUND) -> str:
    return base64.b64encode(sound).decode()


def pieces(sound: bytes = SOUND, size: int = 4800) -> list[str]:
    return [coded(sound[start : start + size]) for start in range(0, len(sound), size)]


def response(id: str, *events: Json, status: str = "completed", **more: Any) -> list[Json]:
    """A response of Realtime; what it says is `events`, whose finished items its end repeats."""
    begun = {
        "object": "realtime.response",
        "id": id,
        "status": "in_progress",
        "conversation_id": "conv_1",
        "output": [],
    }
    output = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    done = {**begun, "status": status, "output": output, "usage": USAGE, **more}
    events_of = [{**event, "response_id": id} for event in events]
    made = [
        {"type": "response.created", "response": begun},
        *events_of,
        {"type": "response.done", "response": done},
    ]
    return [{"event_id": f"event_{id}_{number}", **event} for number, event in enumerate(made)]


def spoken(
    *words: str, sound: bytes = SOUND, index: int = 0, status: str = "completed"
) -> list[Json]:
    """A message in sound, with its transcript."""
    item = {
        "id": f"item_{index}",
        "object": "realtime.item",
        "type": "message",
        "role": "assistant",
    }
    place = {"output_index": index, "item_id": item["id"], "content_index": 0}
    said = "".join(words)
    part = {"type": "audio", "transcript": ""}
    done = {**item, "status": status, "content": [{"type": "output_audio", "transcript": said}]}
    return [
        {
            "type": "response.output_item.added",
            "output_index": index,
            "item": {**item, "content": []},
        },
        {"type": "response.content_part.added", **place, "part": part},
        *(
            {"type": "response.output_audio_transcript.delta", **place, "delta": word}
            for word in words
        ),
        *(
            {"type": "response.output_audio.delta", **place, "delta": each}
            for each in pieces(sound)
        ),
        {"type": "response.output_audio.done", **place},
        {"type": "response.output_audio_transcript.done", **place, "transcript": said},
        {
            "type": "response.content_part.done",
            **place,
            "part": {"type": "audio", "transcript": said},
        },
        {"type": "response.output_item.done", "output_index": index, "item": done},
    ]


def written(*words: str, index: int = 0) -> list[Json]:
    """A message in text."""
    item = {
        "id": f"item_{index}",
        "object": "realtime.item",
        "type": "message",
        "role": "assistant",
    }
    place = {"output_index": index, "item_id": item["id"], "content_index": 0}
    done = {
        **item,
        "status": "completed",
        "content": [{"type": "output_text", "text": "".join(words)}],
    }
    return [
        {
            "type": "response.output_item.added",
            "output_index": index,
            "item": {**item, "content": []},
        },
        *({"type": "response.output_text.delta", **place, "delta": word} for word in words),
        {"type": "response.output_text.done", **place, "text": "".join(words)},
        {"type": "response.output_item.done", "output_index": index, "item": done},
    ]


def called(name: str, *arguments: str, index: int = 0) -> list[Json]:
    item = {
        "id": f"item_{index}",
        "object": "realtime.item",
        "type": "function_call",
        "name": name,
        "call_id": "call_1",
    }
    place = {"output_index": index, "item_id": item["id"], "call_id": "call_1"}
    whole = "".join(arguments)
    begun = {**item, "status": "in_progress", "arguments": ""}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": begun},
        *(
            {"type": "response.function_call_arguments.delta", **place, "delta": each}
            for each in arguments
        ),
        {
            "type": "response.function_call_arguments.done",
            **place,
            "name": name,
            "arguments": whole,
        },
        {
            "type": "response.output_item.done",
            "output_index": index,
            "item": {**item, "status": "completed", "arguments": whole},
        },
    ]


def user_item(text: str) -> Json:
    content = [{"type": "input_text", "text": text}]
    return {
        "type": "conversation.item.create",
        "item": {"type": "message", "role": "user", "content": content},
    }


class Live:
    """What was recorded of some connections."""

    def __init__(self, *connections: Connection) -> None:
        self._assembler = Assembler("r", lambda head, grouping: None, {})
        for connection in connections:
            for step in connection.steps:
                record = Record(step.connection, step.mark, step.t_ns, step.payload, START)
                self._assembler.feed(record, START)
        exchanges = self._assembler.batch.exchanges
        self.turns = [each for each in exchanges if each.method == WEBSOCKET]
        [self.connection] = [each for each in exchanges if each.method != WEBSOCKET]

    def events(self, exchange: Exchange) -> list[Event]:
        return [
            each
            for each in self._assembler.batch.events
            if each.exchange_id == exchange.exchange_id
        ]

    def recording(self, exchange: Exchange) -> Recording:
        return recording_of(exchange, self.events(exchange))

    def request(self, number: int) -> Json:
        """The request of a turn, put together."""
        return dict(json.loads(self.recording(self.turns[number]).request_body))

    @property
    def rows(self) -> Sequence[Rows]:
        return [self.folded(turn) for turn in self.turns]

    def folded(self, exchange: Exchange) -> Rows:
        """The rows of a turn, or of the connection."""
        folding = Folding(exchange)
        folding.apply_all(self.events(exchange))
        return folding.rows()


def answered(target: str, before: Sequence[Json], asked: Json, *messages: Any) -> Recording:
    """The first turn of a connection on which the server says something, and leaves."""
    made = Connection(target).client(before[0]).server(*before[1:]).client(asked).server(*messages)
    made.add(Mark.CHUNK, encode_close(1000, "")).add(Mark.CHUNK, b"").end("eof")
    live = Live(made)
    return live.recording(live.turns[0])


def turns_of(connection: Connection) -> Sequence[Rows]:
    """The rows of each turn on a connection."""
    return Live(connection).rows


# -- Gemini Live

GEMINI = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
WEATHER: Json = {"functionDeclarations": [{"name": "weather", "parameters": {"type": "OBJECT"}}]}
SETUP: Json = {
    "setup": {
        "model": "models/gemini-live-2.5",
        "systemInstruction": {"parts": [{"text": "You are brief."}]},
        "tools": [WEATHER],
        "generationConfig": {"responseModalities": ["AUDIO"]},
        "inputAudioTranscription": {},
        "outputAudioTranscription": {},
    }
}
GEMINI_USAGE: Json = {
    "promptTokenCount": 40,
    "responseTokenCount": 30,
    "thoughtsTokenCount": 5,
    "totalTokenCount": 75,
    "promptTokensDetails": [
        {"modality": "TEXT", "tokenCount": 15},
        {"modality": "AUDIO", "tokenCount": 25},
    ],
    "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 30}],
}
SETUP_COMPLETE: Json = {"setupComplete": {"sessionId": "s-1"}}


def content(**members: Any) -> Json:
    return {"serverContent": members}


def sounding(sound: bytes = SOUND) -> list[Json]:
    """What a model says in sound."""
    blobs = [{"mimeType": "audio/pcm;rate=24000", "data": each} for each in pieces(sound)]
    return [content(modelTurn={"parts": [{"inlineData": blob}]}) for blob in blobs]


def microphone(sound: bytes = SOUND, size: int = 3200) -> list[Json]:
    """What google-genai sends of a user's speech."""
    blobs = [{"data": each, "mimeType": "audio/pcm;rate=16000"} for each in pieces(sound, size)]
    return [{"realtime_input": {"audio": blob}} for blob in blobs]


def transcript(*words: str, of: str = "outputTranscription") -> list[Json]:
    return [content(**{of: {"text": word}}) for word in words]


COMPLETE: list[Json] = [
    content(generationComplete=True),
    {**content(turnComplete=True), "usageMetadata": GEMINI_USAGE},
]


# -- Gemini's Interactions over WebSocket

INTERACTIONS = "/v1beta/interactions/live"
CONNECT: Json = {"event_type": "interaction.connect", "id": "int_1"}
INTERACTION_USAGE: Json = {
    "total_input_tokens": 32,
    "total_output_tokens": 12,
    "total_thought_tokens": 3,
}


def said_live(text: str) -> Json:
    return {"event_type": "input", "content": [{"type": "text", "text": text}]}


def spoken_live(sound: bytes = SOUND, size: int = 3200) -> list[Json]:
    """What a user says in sound."""
    parts = [
        {"type": "audio", "mime_type": "audio/pcm;rate=16000", "data": each}
        for each in pieces(sound, size)
    ]
    return [{"event_type": "input", "content": [part]} for part in parts]


def live_step(index: int, type: str, *deltas: Json) -> list[Json]:
    return [
        {"event_type": "step.start", "index": index, "step": {"type": type}},
        *({"event_type": "step.delta", "index": index, "delta": delta} for delta in deltas),
        {"event_type": "step.stop", "index": index},
    ]


def text_deltas(*words: str) -> list[Json]:
    return [{"type": "text", "text": word} for word in words]


def audio_deltas(sound: bytes = SOUND) -> list[Json]:
    return [
        {"type": "audio", "mime_type": "audio/pcm;rate=24000", "data": each}
        for each in pieces(sound)
    ]


ENDED: Json = {
    "event_type": "interaction.completed",
    "status": {"code": 0},
    "usage": INTERACTION_USAGE,
}
