"""The messages of Gemini Live → facts: the parts of `generateContent` under other names, and sound.

A sound is an item of its own beside the message whose transcript is its text: only the log has its
bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from recorder.model.facts import (
    Fact,
    ItemFinished,
    ItemStarted,
    ItemState,
    ResponseFinished,
    ToolProgress,
    UsageReported,
)
from recorder.wire.dialects.decoder import Content, Facts, FastPath
from recorder.wire.dialects.gemini.decoder import GeminiDecoder
from recorder.wire.dialects.json_values import Object, as_json, object_, objects, text, without
from recorder.wire.dialects.media import Sound

END = "serverContent.turnComplete"
PARTS = frozenset(
    {
        "serverContent.modelTurn",
        "serverContent.outputTranscription",
        "serverContent.generationComplete",
        "toolCall",
    }
)
"""Types of messages that a model says something in, by which a response has begun."""

_SOUND = "0.audio"
_USUAL = ("", "TURN_COMPLETE_REASON_UNSPECIFIED", "NEED_MORE_INPUT")
_INTERRUPTED = "INTERRUPTED"

_NAMES = {
    "responseTokenCount": "candidatesTokenCount",
    "responseTokensDetails": "candidatesTokensDetails",
}
"""Counts of tokens as `generateContent` calls them."""

_SILENT = ("setupComplete", "sessionResumptionUpdate", "serverContent", "toolCall", "usageMetadata")
_STEPS = ("toolCallCancellation", "goAway", "voiceActivity", "voiceActivityDetectionSignal")
_STATES = ("interrupted", "generationComplete", "waitingForInput")


class LiveDecoder(GeminiDecoder):
    """Follows one turn."""

    def __init__(self) -> None:
        super().__init__()
        self._sound: Sound | None = None
        self._was_interrupted = False

    def fast_paths(self) -> Mapping[str | None, FastPath]:
        return {}

    def contents(self, type: str | None, payload: Any) -> Iterator[Content]:
        return super().contents(
            type, _chunk_of(payload, None) if isinstance(payload, dict) else payload
        )

    def payload(self, type: str | None, payload: Any) -> Facts:
        """Decode a message of the server."""
        if not isinstance(payload, dict) or payload.get("error"):
            return super().payload(type, payload)
        content = object_(payload, "serverContent")
        self._was_interrupted = self._was_interrupted or content.get("interrupted") is True
        reason = None
        if type == END:
            reason = text(content, "turnCompleteReason") or ""
            reason = (
                (_INTERRUPTED if self._was_interrupted else "STOP") if reason in _USUAL else reason
            )
        facts = [*self._heard(content), *_steps(payload, content)]
        facts += self._silence() if reason is not None else []
        for fact in super()._chunk(_chunk_of(payload, reason)):
            told: Fact = fact
            if isinstance(fact, ResponseFinished) and fact.reason != "STOP":
                told = ResponseFinished(reason, "incomplete")
            elif isinstance(fact, UsageReported):
                told = msgspec.structs.replace(fact, raw=as_json(payload["usageMetadata"]))
            facts.append(told)
        return facts

    def _heard(self, content: Object) -> Iterable[Fact]:
        for part in objects(content, "modelTurn", "parts"):
            if not _is_sound(part):
                continue
            if self._sound is None:
                self._sound = Sound(text(part, "inlineData", "mimeType") or "")
                yield ItemStarted(_SOUND, 0, ItemState("other", "audio"))
            self._sound.add(text(part, "inlineData", "data") or "")

    def _silence(self) -> list[Fact]:
        sound, self._sound = self._sound, None
        if sound is None:
            return []
        return [ItemFinished(_SOUND, 0, ItemState("other", "audio", output=as_json(sound.told())))]


def _is_sound(part: Object) -> bool:
    return (text(part, "inlineData", "mimeType") or "").startswith("audio/")


def _steps(payload: Object, content: Object) -> list[Fact]:
    """Return what happens around what the model says."""
    steps: list[Fact] = [
        ToolProgress("serverContent", name) for name in _STATES if content.get(name)
    ]
    return steps + [
        ToolProgress("message", name, as_json(payload[name]))
        for name in _STEPS
        if payload.get(name)
    ]


def _chunk_of(payload: Object, reason: str | None) -> Object:
    """Return a message as `generateContent` has it.

    A transcript is a text; that of the user is of the request.
    """
    content = object_(payload, "serverContent")
    parts = [part for part in objects(content, "modelTurn", "parts") if not _is_sound(part)]
    said = text(content, "outputTranscription", "text")
    parts += [{"text": said}] if said else []
    parts += [{"functionCall": call} for call in objects(payload, "toolCall", "functionCalls")]
    usage = {
        _NAMES.get(name, name): value for name, value in object_(payload, "usageMetadata").items()
    }
    candidate = {
        "content": {"role": "model", "parts": parts},
        "groundingMetadata": content.get("groundingMetadata"),
    }
    if reason is not None:
        candidate["finishReason"] = reason
    rest = without(payload, (*_SILENT, *_STEPS))
    chunk = {**rest, "usageMetadata": usage} if usage else rest
    return {**chunk, "candidates": [candidate]} if parts or reason is not None else chunk
