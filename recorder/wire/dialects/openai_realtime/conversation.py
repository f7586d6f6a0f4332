"""The request of a turn of a Realtime session, put together from messages, in the form of a request
for a response.

What was set up holds for all turns; the items are those since the turn before. Of the client's
speech there is the sound by size, digest and duration, and what the server has written down of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from recorder.wire.dialects.conversation import Message, Part
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    names,
    object_,
    objects,
    request_object,
    text,
    whole,
)
from recorder.wire.dialects.media import Sound, decoded_size
from recorder.wire.dialects.openai_responses.conversation import ResponsesConversation

APPEND = "input_audio_buffer.append"
SETUP = names("session.created session.updated session.update")
OPENING = names(f"{APPEND} input_audio_buffer.commit conversation.item.create response.create")

_HEARD = "conversation.item.input_audio_transcription"
_COMMITTED, _TRANSCRIBED, _HALF_TRANSCRIBED = (
    "input_audio_buffer.committed",
    f"{_HEARD}.completed",
    f"{_HEARD}.delta",
)
_BEGUN = "response.created"
HEARD = frozenset({_COMMITTED, _TRANSCRIBED, _HALF_TRANSCRIBED, _BEGUN})

# bytes of the messages of one request, without their sound: as of any request's body
REQUEST_LIMIT = 16 * 2**20

_BETA_FORMATS = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}


def format_of(session: Object, direction: str) -> str:
    """Return the format of the sound of a direction, `input` or `output`, that a session or a
    response has.
    """
    stated = object_(session, "audio", direction, "format")
    rate = whole(stated, "rate")
    name = text(stated, "type") or _BETA_FORMATS.get(
        text(session, f"{direction}_audio_format") or "", "audio/pcm"
    )
    return f"{name};rate={rate}" if rate is not None else name


def sound_size(message: Object) -> int | None:
    """Return the size of a piece of sound that a message of the client is; None if it is none."""
    return decoded_size(text(message, "audio")) if text(message, "type") == APPEND else None


def client_ids(message: Object) -> list[str]:
    """Return the ids that a client gave a message and its item, which it need not do."""
    return [id for id in (text(message, "event_id"), text(message, "item", "id")) if id]


class TurnRequest:
    """The messages of one turn."""

    def __init__(self) -> None:
        self._settings: dict[str, Any] = {}
        self._items: list[dict[str, Any]] = []
        self._speech: dict[str, Any] | None = None  # the item of the sound that is coming
        self._sound: Sound | None = None
        self._transcripts: dict[str, str] = {}  # by the id of the item
        self._left = REQUEST_LIMIT

    def sent(self, payload: bytes) -> None:
        """Add a message of the client, or the session as it was set up."""
        message = request_object(payload)
        type = text(message, "type") or ""
        if type == APPEND:
            self._hear(text(message, "audio") or "")
            return
        self._left -= len(payload)
        if self._left < 0:
            return
        if type in SETUP:
            self._settings |= object_(message, "session")
        elif type == "conversation.item.create":
            self._items.append(self._item(object_(message, "item")))
        elif type == "response.create":
            asked = object_(message, "response")
            self._settings |= {
                name: value
                for name, value in asked.items()
                if name not in ("input", "conversation")
            }
            self._items += [self._item(item) for item in objects(asked, "input")]
        elif type == "input_audio_buffer.clear" and self._speech is not None:
            self._items.remove(self._speech)
            self._end_speech(None)

    def heard(self, payload: bytes) -> None:
        """Add what the server says of the client's speech, and the conversation that it is part of."""
        self._left -= len(payload)
        if self._left < 0:
            return
        event = request_object(payload)
        type, id = text(event, "type"), text(event, "item_id")
        if type == _BEGUN:
            conversation = text(event, "response", "conversation_id")
            self._settings |= {"conversation": conversation} if conversation else {}
        elif type == _COMMITTED:
            self._end_speech(id)
        elif id is not None:
            if type == _HALF_TRANSCRIBED:
                self._transcripts[id] = self._transcripts.get(id, "") + (text(event, "delta") or "")
            else:
                self._transcripts[id] = text(event, "transcript") or ""

    def body(self) -> bytes:
        """Return the request.

        Speech of a turn before may be written down in this one: it comes first, since the last
        words are what this turn is about.
        """
        known = {item.get("id") for item in self._items}
        earlier = [_speech(id) for id in self._transcripts if id not in known]
        items = [_with_transcript(item, self._transcripts) for item in (*earlier, *self._items)]
        return as_json({**self._settings, "input": [self._told(item) for item in items]}).encode()

    def _hear(self, data: str) -> None:
        if self._speech is None or self._sound is None:
            self._sound = Sound(format_of(self._settings, "input"))
            self._speech = _speech(None)
            self._speech["content"][0]["audio"] = self._sound
            self._items.append(self._speech)
        self._sound.add(data)

    def _end_speech(self, id: str | None) -> None:
        if self._speech is not None and id is not None:
            self._speech["id"] = id
        self._speech = self._sound = None

    def _item(self, item: Object) -> dict[str, Any]:
        """Return an item with each sound in it as what is kept of that."""
        made = dict(item)
        if objects(item, "content"):
            made["content"] = [self._part(part) for part in objects(item, "content")]
        return made

    def _part(self, part: Object) -> Object:
        data = text(part, "audio")
        if data is None:
            return part
        sound = Sound(format_of(self._settings, "input"))
        sound.add(data)
        return {**part, "audio": sound.told()}

    def _told(self, item: Object) -> Object:
        parts = [
            {**part, "audio": part["audio"].told()}
            if isinstance(part.get("audio"), Sound)
            else part
            for part in objects(item, "content")
        ]
        return {**item, "content": parts} if parts else item


def _speech(id: str | None) -> dict[str, Any]:
    said = {"type": "message", "role": "user", "content": [{"type": "input_audio"}]}
    return said if id is None else {"id": id, **said}


def _with_transcript(item: Object, transcripts: Mapping[str, str]) -> Object:
    transcript = transcripts.get(str(item.get("id")))
    parts = objects(item, "content")
    if transcript is None or not parts:
        return item
    return {**item, "content": [{**parts[0], "transcript": transcript}, *parts[1:]]}


class RealtimeConversation(ResponsesConversation):
    """A request as `TurnRequest` puts it together."""

    not_of_answer = ResponsesConversation.not_of_answer | names(
        "id object expires_at client_secret tracing include"
    )

    def read_messages(self) -> Iterator[Message]:
        for message in super().read_messages():
            yield msgspec.structs.replace(message, parts=[_spoken(part) for part in message.parts])


def _spoken(part: Part) -> Part:
    """Return a part of speech that was written down as the text that it is."""
    transcript = text(part.given, "transcript")
    return (
        part if transcript is None else msgspec.structs.replace(part, kind="text", text=transcript)
    )
