"""The request of an interaction over WebSocket, put together from messages, in the form of one over
HTTP.

What created it, or its id, holds for all; `input` is what the client said, of its sound only size
and digest.
"""

from __future__ import annotations

from typing import Any

from recorder.wire.dialects.gemini_interactions_live.decoder import events_in
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    objects,
    request_object,
    text,
    without,
)
from recorder.wire.dialects.media import Sound, decoded_size

SETUP = frozenset({"interaction.create", "interaction.connect"})
# bytes of the messages of one request, without their sound: as of any request's body
REQUEST_LIMIT = 16 * 2**20

_RATE = 16_000  # of the sound of clients that name none
_OF_CONNECTION = frozenset({"interaction.complete", "interaction.cancel", "interaction.disconnect"})


def _is_sound(part: Object) -> bool:
    return part.get("type") == "audio" and "data" in part


def sound_size(message: Object) -> int | None:
    """Return the size of the sound that a message of the client is; None if it is anything else."""
    parts: list[Object] = []
    for event in events_in(message):
        parts += objects(event, "content") or [event]
    if not parts or not all(_is_sound(part) for part in parts):
        return None
    return sum(decoded_size(text(part, "data")) for part in parts)


class TurnRequest:
    """The messages of one interaction."""

    def __init__(self) -> None:
        self._setup: Object = {}
        self._steps: list[dict[str, Any]] = []
        self._sounds: dict[str, Sound] = {}  # by type
        self._left = REQUEST_LIMIT

    def sent(self, payload: bytes) -> None:
        """Add a message of the client."""
        message = request_object(payload)
        self._left -= len(payload) if sound_size(message) is None else 0
        for event in events_in(message):
            type = text(event, "event_type") or ""
            if type in SETUP:
                self._setup = without(event, ("event_type",))
            elif type == "input":
                self._say(objects(event, "content"))
            elif self._left > 0 and type not in _OF_CONNECTION:
                self._steps.append({**without(event, ("event_type",)), "type": type})

    def heard(self, payload: bytes) -> None:
        """Add nothing: the server says nothing of what it heard."""

    def body(self) -> bytes:
        """Return the request."""
        return as_json(
            {**self._setup, "input": [self._told(step) for step in self._steps]}
        ).encode()

    def _say(self, parts: list[Object]) -> None:
        """Add what the client says.

        The pieces of a sound are one part, where the first of them was.
        """
        kept: list[Object] = []
        for part in parts:
            if not _is_sound(part):
                kept += [part] if self._left > 0 else []
                continue
            mime_type = text(part, "mime_type") or ""
            if mime_type not in self._sounds:
                self._sounds[mime_type] = Sound(mime_type, _RATE)
                kept.append({"type": "audio", "mime_type": mime_type})
            self._sounds[mime_type].add(text(part, "data") or "")
        if kept:
            self._steps.append({"type": "user_input", "content": kept})

    def _told(self, step: dict[str, Any]) -> Object:
        parts = objects(step, "content")
        return {**step, "content": [self._told_part(part) for part in parts]} if parts else step

    def _told_part(self, part: Object) -> Object:
        is_sound = part.get("type") == "audio" and "data" not in part
        sound = self._sounds.get(text(part, "mime_type") or "") if is_sound else None
        return part if sound is None else {**part, **sound.told()}
