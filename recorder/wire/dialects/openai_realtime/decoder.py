"""The events of Realtime → facts: those of the Responses format under other names, and sound.

A sound is an item of its own beside the message whose transcript is its text: only the log has its
bytes. What the server hears, and what is cut off because the user speaks, are steps with their
times (`phases`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from recorder.model.facts import (
    Fact,
    ItemFinished,
    ItemKey,
    ItemStarted,
    ItemState,
    Iteration,
    MalformedPayload,
    ResponseStarted,
    ToolProgress,
    Usage,
    UsageReported,
)
from recorder.wire.dialects.decoder import Content, Facts, FastPath, failed
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    names,
    object_,
    objects,
    places,
    request_object,
    text,
)
from recorder.wire.dialects.json_values import whole as number
from recorder.wire.dialects.keys import ERROR
from recorder.wire.dialects.media import Sound
from recorder.wire.dialects.openai_realtime.conversation import format_of
from recorder.wire.dialects.openai_responses.decoder import ResponsesDecoder
from recorder.wire.dialects.openai_responses.texts import FAST_PATHS
from recorder.wire.dialects.other import OtherDecoder
from recorder.wire.dialects.usage_report import COUNTS, counts_at, token_count

DONE = "response.done"

_TRANSCRIPT, _TEXT = "response.output_audio_transcript", "response.output_text"
_TEXTS = (_TRANSCRIPT, "response.text", "response.audio_transcript")  # the last two in the beta
_SAME: Mapping[str, str] = {
    DONE: "response.completed",
    **dict.fromkeys((f"{of}.delta" for of in _TEXTS), f"{_TEXT}.delta"),
    **dict.fromkeys((f"{of}.done" for of in _TEXTS), f"{_TEXT}.done"),
}
"""By type of event, what it is called in the Responses format."""

_FAST_PATHS: dict[str | None, FastPath] = {**FAST_PATHS}
_FAST_PATHS |= {type: FAST_PATHS[same] for type, same in _SAME.items() if same in FAST_PATHS}

_SOUND = names("response.output_audio.delta response.audio.delta")
_SOUND_END = names("response.output_audio.done response.audio.done")

_STEPS = names("""
    input_audio_buffer.speech_started input_audio_buffer.speech_stopped input_audio_buffer.timeout_triggered
    input_audio_buffer.cleared conversation.item.truncated conversation.item.deleted
    output_audio_buffer.started output_audio_buffer.stopped output_audio_buffer.cleared
    mcp_list_tools.in_progress mcp_list_tools.completed mcp_list_tools.failed
    input_audio_buffer.dtmf_event_received
    """)
_SILENT = names("""
    session.created session.updated conversation.created rate_limits.updated input_audio_buffer.committed
    conversation.item.added conversation.item.created conversation.item.done conversation.item.retrieved
    conversation.item.input_audio_transcription.delta conversation.item.input_audio_transcription.segment
    """)
"""What repeats items that the request or the response has, or is of the request (`.conversation`).
"""
_TRANSCRIBED = "conversation.item.input_audio_transcription.completed"
_NO_TRANSCRIPT = "conversation.item.input_audio_transcription.failed"

_DETAILS = names("audio_start_ms audio_end_ms content_index event")


class RealtimeDecoder(ResponsesDecoder):
    """Follows one response, and what happens around it."""

    counts = places(f"""
cache_read_input_tokens input_token_details.cached_tokens
{COUNTS}
""")
    details = places("""
input_audio_tokens input_token_details.audio_tokens
cache_read_input_audio_tokens input_token_details.cached_tokens_details.audio_tokens
input_image_tokens input_token_details.image_tokens
output_audio_tokens output_token_details.audio_tokens
""")

    about = ResponsesDecoder.about | {"audio"}

    def __init__(self) -> None:
        super().__init__()
        self._format = format_of({}, "output")
        self._sounds: dict[ItemKey, tuple[int | None, Sound]] = {}  # that have not ended
        self._transcriptions: list[Iteration] = []
        self._used: UsageReported | None = None

    def fast_paths(self) -> Mapping[str | None, FastPath]:
        return _FAST_PATHS

    def contents(self, type: str | None, payload: Any) -> Iterable[Content]:
        type = type or text(payload, "type") or ""
        if type == ERROR or type in _OWN:
            return ()
        return super().contents(_SAME.get(type, type), _as_of_responses(payload))

    def document(self, data: bytes) -> Facts:
        """Decode nothing but an error: a document of this path is a description of WebRTC."""
        return super().document(data) if data.lstrip().startswith(b"{") else ()

    def payload(self, type: str | None, payload: Any) -> Facts:
        """Decode the payload of an event."""
        if not isinstance(payload, dict):
            return (MalformedPayload("the payload is not an object"),)
        type = type or text(payload, "type") or ""
        if type in _SOUND:
            return self._heard(payload)
        if type in _SOUND_END:
            return self._silence(self._place(payload))
        if type in _STEPS:
            return (_step(type, payload),)
        if type in _SILENT:
            return ()
        if type == _TRANSCRIBED:
            return self.transcribed(object_(payload, "usage"))
        if type in (ERROR, _NO_TRANSCRIPT):
            error = msgspec.structs.replace(failed(payload), ends=False)
            return (
                ToolProgress(
                    ERROR, error.code or error.type or ERROR, as_json({"message": error.message})
                ),
                error,
            )
        response = object_(payload, "response")
        if response:
            self._format = format_of(response, "output") if "audio" in response else self._format
        facts = super().payload(_SAME.get(type, type), _as_of_responses(payload))
        self._used = next((fact for fact in facts if isinstance(fact, UsageReported)), self._used)
        return [*self._silences(), *facts] if type == DONE else facts

    # -- tokens of the model that transcribes

    def transcribed(self, usage: Object) -> Facts:
        """Note the tokens of a transcription; one that is charged by the second has none."""
        counts = Usage(**counts_at(usage, self.counts))
        if counts.input_tokens is not None:
            audio_tokens = token_count(usage, "input_token_details", "audio_tokens")
            self._transcriptions.append(
                Iteration("transcription", None, counts, input_audio_tokens=audio_tokens)
            )
        return ()

    def request(self, data: bytes) -> Facts:
        """Report the transcriptions beside the response: what was set up names their model, and is
        told at the end.
        """
        if not self._transcriptions:
            return ()
        model = _transcription_model(request_object(data)) or "unknown"
        told = self._used or UsageReported(Usage(input_tokens=0, output_tokens=0), "{}")
        named = tuple(msgspec.structs.replace(each, model=model) for each in self._transcriptions)
        return (msgspec.structs.replace(told, iterations=named),)

    # -- sound

    def _place(self, event: Object) -> ItemKey:
        return f"{self._key(event)}.{number(event, 'content_index') or 0}.audio"

    def _heard(self, event: Object) -> Facts:
        data = text(event, "delta")
        if data is None:
            return (MalformedPayload("a piece of sound without its delta"),)
        place, index = self._place(event), number(event, "output_index")
        begun = (
            []
            if place in self._sounds
            else [ItemStarted(place, index, ItemState("other", "audio"))]
        )
        _, sound = self._sounds.setdefault(place, (index, Sound(self._format)))
        sound.add(data)
        return begun

    def _silence(self, place: ItemKey) -> list[Fact]:
        """End a sound, whole or not: one that is interrupted ends, too."""
        if place not in self._sounds:
            return []
        index, sound = self._sounds.pop(place)
        return [
            ItemFinished(place, index, ItemState("other", "audio", output=as_json(sound.told())))
        ]

    def _silences(self) -> list[Fact]:
        facts: list[Fact] = []
        for place in list(self._sounds):
            facts += self._silence(place)
        return facts


class BetweenTurns(OtherDecoder):
    """Reads what stays with the connection.

    A transcription may come when its turn has ended: its tokens count here.
    """

    def __init__(self) -> None:
        self._turn = RealtimeDecoder()
        self._session: Object = {}

    def payload(self, type: str | None, payload: Any) -> Facts:
        """Decode the payload of an event."""
        self._session = object_(payload, "session") or self._session
        if type != _TRANSCRIBED:
            return super().payload(type, payload)
        self._turn.transcribed(object_(payload, "usage"))
        reported = self._turn.request(as_json(self._session).encode())
        return (
            (ResponseStarted(None, _transcription_model(self._session)), *reported)
            if reported
            else ()
        )


def _transcription_model(session: Object) -> str | None:
    now = text(session, "audio", "input", "transcription", "model")
    return now or text(session, "input_audio_transcription", "model")


_OWN = _SOUND | _SOUND_END | _STEPS | _SILENT | {_TRANSCRIBED, _NO_TRANSCRIPT}


def _step(type: str, event: Object) -> ToolProgress:
    of, _, step = type.rpartition(".")
    details = {name: value for name, value in event.items() if name in _DETAILS}
    return ToolProgress(of, step, as_json(details) if details else None)


def _as_of_responses(event: Any) -> Any:
    """Return an event as the Responses format has it: a transcript is a text, and the end says why
    it came.
    """
    if not isinstance(event, dict):
        return event
    made = dict(event)
    if isinstance(event.get("transcript"), str):
        made["text"] = made.pop("transcript")
    if isinstance(event.get("part"), dict):
        made["part"] = _part(event["part"])
    if isinstance(event.get("item"), dict):
        made["item"] = _item(event["item"])
    response = event.get("response")
    if isinstance(response, dict):
        details = object_(response, "status_details")
        ended = {
            "incomplete_details": {"reason": details.get("reason")},
            "error": details.get("error"),
        }
        made["response"] = {
            **response,
            **ended,
            "output": [_item(item) for item in objects(response, "output")],
        }
    return made


def _item(item: Object) -> Object:
    parts = objects(item, "content")
    return {**item, "content": [_part(part) for part in parts]} if parts else item


def _part(part: Object) -> Object:
    """Return a part of a message; spoken words as the text that they are."""
    if text(part, "type") not in ("audio", "output_audio", "input_audio"):
        return part
    return {"type": "output_text", "text": text(part, "transcript") or ""}
