"""The turns of a WebSocket connection that have not ended, and which of them a message belongs to.

Rules of this file:

* A message of the server belongs to the turn with its response id, else to the oldest open turn with its `stream_id`,
  else to the oldest open turn: one that is being answered before one that waits.
* A response that begins and that no open turn waits for is of a turn that the server begins. It may continue one that
  was steered: the message that did so is kept until then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from recorder.ingest.message_capture import MessageCapture
from recorder.model.events import Event
from recorder.wire.dialects import MessageIds
from recorder.wire.sse import FRAME_LIMIT
from recorder.wire.websocket import Message

OPEN_TURNS = 256
"""Turns of one connection that wait for their end: real ones have a handful of streams. Further requests stay with the
connection, so that a client which only asks costs no memory without bound."""

STEERS = 16
"""Messages that steer a response and have no successor yet: a connection has one for each stream. Of longer ones than
`FRAME_LIMIT` the successor has no request, so that they take no memory."""

ENDED_RESPONSES = 256
"""Ids of responses that have ended, so that what still comes for one is not taken for a part of the next turn."""

NO_MESSAGE = Message("text", b"")  # in place of a request


class OpenTurn(msgspec.Struct, eq=False):
    """A turn that has not ended, as its owner begins it."""

    capture: MessageCapture
    events: list[Event]  # of its request, until they are handed on
    on_end: Callable[[], None]
    stream_id: str | None = None
    response_id: str | None = None
    has_head: bool = False


class OpenTurns:
    """All of one connection."""

    def __init__(self) -> None:
        self._open: list[OpenTurn] = []
        self._ended_responses = deque[str](maxlen=ENDED_RESPONSES)
        self._steers: dict[str, Message] = {}  # by the id of the response

    def __iter__(self) -> Iterator[OpenTurn]:
        return iter(list(self._open))

    def __len__(self) -> int:
        return len(self._open)

    @property
    def is_full(self) -> bool:
        return len(self._open) >= OPEN_TURNS

    def add(self, turn: OpenTurn) -> None:
        self._open.append(turn)

    def end(self, turn: OpenTurn) -> None:
        self._open.remove(turn)
        if turn.response_id is not None:
            self._ended_responses.append(turn.response_id)

    def steer(self, response_id: str | None, message: Message) -> None:
        """Keep a message that steers a response for the one that continues it."""
        if response_id is None or len(message.payload) > FRAME_LIMIT:
            return
        self._steers[response_id] = message
        if len(self._steers) > STEERS:
            del self._steers[next(iter(self._steers))]

    def steered(self, response_id: str | None) -> Message:
        """Return the message that steered a response, once; an empty one if there is none."""
        return self._steers.pop(response_id or "", NO_MESSAGE)

    def is_unasked(self, ids: MessageIds) -> bool:
        """Return whether a response that begins is of no open turn: all that may be meant have another one, or it
        continues a response that was steered.
        """
        if ids.response_id is None or ids.response_id in self._ended_responses or self.is_full:
            return False
        turn = self.of(ids)
        if turn is None or turn.response_id is None:
            return turn is None or ids.previous_response_id in self._steers
        return turn.response_id != ids.response_id

    def of(self, ids: MessageIds) -> OpenTurn | None:
        """Return the open turn that a message belongs to."""
        if not self._open or ids.response_id in self._ended_responses:
            return None
        turns = self._open
        if ids.response_id is not None:
            known = next((turn for turn in turns if turn.response_id == ids.response_id), None)
            if known is not None:
                return known
        if ids.stream_id is not None:
            of_stream = [turn for turn in turns if turn.stream_id == ids.stream_id]
            turns = of_stream or [turn for turn in turns if turn.stream_id is None]
        begun = [turn for turn in turns if turn.response_id is not None]
        waiting = [turn for turn in turns if turn.response_id is None]
        # An id that is not known is that of a response that begins now; else it was changed on the way.
        turns = begun + waiting if ids.response_id is None else waiting + begun
        return turns[0] if turns else None
