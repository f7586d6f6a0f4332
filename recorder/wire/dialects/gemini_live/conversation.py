"""The request of a turn of Gemini Live, put together from messages, in the form of a request to
generate content.

The setup holds for all turns; `contents` are those since the turn before. Of what the user says and
shows there is the sound and each picture by size and digest, and what the server has written down.
"""

from __future__ import annotations

from typing import Any

from recorder.wire.dialects.gemini.conversation import GeminiConversation, either
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    object_,
    objects,
    request_object,
    text,
)
from recorder.wire.dialects.media import Sound, decoded_size, medium

# bytes of the messages of one request, without their sound: as of any request's body
REQUEST_LIMIT = 16 * 2**20

_RATE = 16_000  # of the sound of clients that name none

LiveConversation = GeminiConversation


def sound_size(message: Object) -> int | None:
    """Return the size of the sound that a message of the client is; None if it is anything else."""
    given = object_(either(message, "realtimeInput"))
    blobs = _sounds(given)
    is_only_sound = bool(blobs) and given.keys() <= {"audio", "mediaChunks", "media_chunks"}
    return sum(decoded_size(text(blob, "data")) for blob in blobs) if is_only_sound else None


def _blobs(given: Object) -> list[Object]:
    named = [object_(given, name) for name in ("audio", "video", "media")]
    return [*filter(None, named), *objects(either(given, "mediaChunks"))]


def _sounds(given: Object) -> list[Object]:
    return [blob for blob in _blobs(given) if _type_of(blob).startswith("audio/")]


def _type_of(blob: Object) -> str:
    return str(either(blob, "mimeType") or "")


class TurnRequest:
    """The messages of one turn."""

    def __init__(self) -> None:
        self._setup: Object = {}
        self._contents: list[Any] = []
        self._spoken: dict[str, Any] | None = None  # the content that speech belongs to
        self._sounds: dict[str, Sound] = {}  # by type
        self._transcript: list[str] = []
        self._left = REQUEST_LIMIT

    def sent(self, payload: bytes) -> None:
        """Add a message of the client."""
        message = request_object(payload)
        given = object_(either(message, "realtimeInput"))
        sounds = _sounds(given)
        for sound in sounds:
            self._hear(_type_of(sound), text(sound, "data") or "")
        self._left -= 0 if sounds else len(payload)
        if self._left < 0:
            return
        self._setup = object_(message, "setup") or self._setup
        self._contents += objects(either(message, "clientContent", "turns"))
        responses = objects(either(message, "toolResponse", "functionResponses"))
        if responses:
            self._contents.append(
                {"role": "function", "parts": [{"functionResponse": each} for each in responses]}
            )
        if text(given, "text"):
            self._contents.append({"role": "user", "parts": [{"text": given["text"]}]})
        shown = [blob for blob in _blobs(given) if blob not in sounds]
        if shown:
            self._contents.append(
                {"role": "user", "parts": [{"fileData": medium(blob) or {}} for blob in shown]}
            )

    def heard(self, payload: bytes) -> None:
        """Add what the server has written down of the user's speech."""
        if b"nputTranscription" not in payload or self._left < 0:
            return
        said = text(request_object(payload), "serverContent", "inputTranscription", "text")
        if said:
            self._left -= len(payload)
            self._begin_speech()
            self._transcript.append(said)

    def body(self) -> bytes:
        """Return the request."""
        return as_json(
            {**self._setup, "contents": [self._told(content) for content in self._contents]}
        ).encode()

    def _hear(self, mime_type: str, data: str) -> None:
        self._begin_speech()
        if mime_type not in self._sounds:
            self._sounds[mime_type] = Sound(mime_type, _RATE)
        self._sounds[mime_type].add(data)

    def _begin_speech(self) -> None:
        if self._spoken is None:
            self._spoken = {"role": "user", "parts": []}
            self._contents.append(self._spoken)

    def _told(self, content: Any) -> Any:
        if content is not self._spoken:
            return content
        parts: list[Object] = [{"inlineData": sound.told()} for sound in self._sounds.values()]
        transcript = "".join(self._transcript).strip()
        return {"role": "user", "parts": [*parts, {"text": transcript}] if transcript else parts}
