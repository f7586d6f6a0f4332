"""Fork: a transport that answers what was recorded from the recordings, and asks the upstream for
the rest.

Rules of this file:

* A request is answered from the recording that equals it, wherever that stands: a request whose
  content another answer has changed equals none, so it is live by itself. Each recording is given
  once.
* Both kinds of answers are recorded as they pass, by the same means.
* Only live requests are changed: their model, and links to answers that were played
  (`recorder.replay.played`). They are changed before they are recorded, so the record is of what
  went out. Of the recorded answers, those are others that a person has edited
  (`recorder.replay.edit`). What goes on from one of them is live.
* Over WebSocket each turn is a request (`recorder.replay.websocket.forked`). A prewarm is never
  live: what goes on from it may be recorded. Nor does a server hang up behind a whole answer, as it
  did when that was recorded: the next turn may be live. A connection without turns (Realtime)
  equals nothing, and is live.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from urllib.parse import quote

import msgspec

from recorder.model.events import WEBSOCKET, WHOLE, Recording
from recorder.model.text import safe_text
from recorder.proxy.http.messages import Request, Response, Transport, WholeUpload
from recorder.proxy.recording import RecordingTransport, response_head
from recorder.proxy.routing import Origin
from recorder.replay.matching import Match, MatchRequest, Seen, request_of
from recorder.replay.matching.client_ids import with_client_ids
from recorder.replay.matching.miss import Miss, may_go_unanswered
from recorder.replay.pace import Waiting
from recorder.replay.played import PlayedAnswers
from recorder.replay.transport import ReplayTransport, match_request, prewarmed, whole
from recorder.replay.websocket.forked import NO_WEBSOCKET, ForkedTurns
from recorder.replay.websocket.transport import handshake_answer, switched
from recorder.wire.dialects import error_body
from recorder.wire.redaction.headers import redact_headers, redact_target
from recorder.wire.request_body import decoded_body
from recorder.wire.turns import (
    PROTOCOL,
    has_turns,
    is_connection,
    is_prewarm,
    is_turn,
    was_asked_for,
)

log = logging.getLogger(__name__)

LINE_LIMIT = 600  # characters of a line about a request that differs
LINES_LIMIT = 10  # such lines: once an agent has gone another way, all of its requests differ

_NO_WEBSOCKET = "The upstream has no WebSocket: ask over HTTP."

_MODEL_IN_PATH = re.compile(
    r"(?<=/models/)[^/:?]+(?=(?::|%3[Aa])\w)|(?<=/model/)[^/]+(?=/(?:converse|invoke)\b)"
)
"""In Google's APIs: /models/NAME:method. In Bedrock: /model/NAME/method."""
_COLLECTION = "models/"  # which Google puts before the name in a body

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_agent_turn(recorded: Recording) -> bool:
    """Return whether an exchange has an answer that an agent goes on from, and that it asked for.

    Connections, prewarms and probes are as a client likes, and a server begins what continues a
    steered response.
    """
    if is_connection(recorded) or may_go_unanswered(request_of(recorded)):
        return False
    return not is_turn(recorded) or was_asked_for(recorded.request.target, recorded.request_body)


class ForkTransport:
    """A transport that is a replay of what was recorded, and live else."""

    def __init__(
        self,
        replay: ReplayTransport,
        live: Transport,
        record: Callable[[Transport], RecordingTransport],
        *,
        model: str | None = None,
        edits: Mapping[str, Recording] = MappingProxyType({}),
    ) -> None:
        """`replay` has a strict matcher that takes no position for equality; `record` wraps what it
        plays in a transport that records, which `live` does. `model` is that of live requests, if
        it is another one; `edits` are played in place of recordings, by the id of the exchange.
        """
        self.live = live
        self._replay, self._record, self._model = replay, record, model
        self._edits = edits
        self._played = PlayedAnswers()
        self._asked = self._differing = 0
        self._without_websocket: set[str] = set()  # upstreams

    async def handle_async_request(self, request: Request) -> Response:
        if request.extensions.get("upgrade") == PROTOCOL.encode():
            return await self._connected(request)
        found = await self._recorded(request)
        if found is not None:
            return await self._record(_Playback(self._replay, found)).handle_async_request(request)
        if self._model is not None or self._played:
            await self._adapt(request)
        return await self.live.handle_async_request(request)

    async def playing(self, request: Request) -> Transport | None:
        """Return what answers a turn over WebSocket without the upstream; None if that is to be
        asked.
        """
        found = await self._recorded(request)
        if found is not None:
            return _Playback(self._replay, found)
        query = match_request(request, await request.aread())
        if not is_prewarm(query.target, query.body):
            return None
        self._played.add_prewarm(query.target, query.body)
        return _Whole(prewarmed(query.body))

    def as_live(self, target: str, body: bytes) -> bytes:
        """Return the body of a live request, or a message that is one, as it goes out.

        Raises `UsageError` if that cannot be.
        """
        body = self._played.with_items(target, body) or body
        return (in_body(body, self._model) if self._model is not None else None) or body

    def refused(self, upstream: str) -> None:
        """Note that an upstream has no WebSocket."""
        self._without_websocket.add(upstream)

    def seen(self) -> list[Seen]:
        """Return the requests that were compared with the recordings, in order, and how each was
        answered.
        """
        return self._replay.matcher.seen()

    def unused(self) -> list[Recording]:
        """Return the recordings that no request used, in recorded order."""
        return self._replay.matcher.unused()

    async def aclose(self) -> None:
        await self._replay.aclose()
        await self.live.aclose()

    async def _connected(self, request: Request) -> Response:
        """Accept a connection whose turns are answered one by one, unless the upstream has refused
        it.
        """
        query = msgspec.structs.replace(match_request(request, b""), method=WEBSOCKET)
        if not has_turns(query.target):
            return await self.live.handle_async_request(request)
        recorded = self._replay.matcher.connection(query)
        if recorded is not None and not recorded.is_switched:
            return await self._record(
                _Playback(self._replay, Match(recorded, "exact"))
            ).handle_async_request(request)
        answer = handshake_answer(request, recorded)
        if query.upstream in self._without_websocket:
            answer = whole(
                NO_WEBSOCKET,
                error_body("GET", query.target, query.upstream, NO_WEBSOCKET, _NO_WEBSOCKET),
            )
        if isinstance(answer, Response):
            return await self._record(_Whole(answer)).handle_async_request(request)
        recorder = self._record(self._replay).begin(request)
        response = switched(answer, ForkedTurns(request, self, recorder))
        recorder.response(lambda: response_head(response), b"")
        return response

    async def _recorded(self, request: Request) -> Match | None:
        """Return the recording that equals a request, if there is one.

        What it differs in is said while any is left.
        """
        self._asked += 1
        number = self._asked
        if not (self._played or self._replay.matcher.unused()):
            return None
        query = match_request(request, await request.aread())
        if self._played.follows_edit(query.target, query.body):
            self._say_difference(number, query, "It goes on from an answer that is edited.")
            return None
        if not self._replay.matcher.unused():
            return None
        found = await self._replay.find(request)
        if isinstance(found, Miss):
            if not found.is_optional:
                self._say_difference(number, found.request, found.line)
            return None
        edited = self._edits.get(found.recorded.exchange.exchange_id)
        if edited is not None:
            found = msgspec.structs.replace(found, recorded=edited)
        end = found.recorded.end
        if end is not None and end.outcome in WHOLE:
            found = msgspec.structs.replace(found, hang_up=None)
        answer = with_client_ids(found.recorded, found.client_ids)
        self._played.add(query.target, query.body, answer, is_edited=edited is not None)
        return found

    async def _adapt(self, request: Request) -> None:
        """Change the path and the body of a live request, and its record; the rest of it stays."""
        origin = _origin_of(request)
        if self._model is not None:
            origin = _with_model_in_path(request, origin, self._model)
        body, undecoded = decoded_body(redact_headers(request.headers.raw), await request.aread())
        changed = body if undecoded else self.as_live(origin.target, body)
        if changed != body:
            request.stream = WholeUpload(changed)
            request.headers.raw = _of_body(request.headers.raw, changed)
            origin = msgspec.structs.replace(origin, headers=_of_body(origin.headers, changed))
        elif undecoded:
            log.warning(
                "a live request goes out as it came, its body cannot be decoded: %s", undecoded
            )
        request.extensions["recorder"] = origin

    def _say_difference(self, number: int, request: MatchRequest, why: str) -> None:
        self._differing += 1
        if self._differing > LINES_LIMIT:
            return
        where = f"{request.method} {redact_target(request.target)}"
        line = f"request {number} ({where}) differs from the recording, so it is live. {why}"
        line = line if len(line) <= LINE_LIMIT else f"{line[:LINE_LIMIT]}…"
        log.warning("%s", safe_text(line))
        if self._differing == LINES_LIMIT:
            log.warning("further requests that differ are live without such a line")


class _Playback:
    """The transport of one request whose recording is known."""

    def __init__(self, replay: ReplayTransport, found: Match) -> None:
        self._replay, self._found = replay, found

    async def handle_async_request(self, request: Request) -> Response:
        return await self._replay.play(self._found, Waiting(self._replay.clock, request))

    async def aclose(self) -> None:
        """Do nothing: the replay is its owner's."""


class _Whole:
    """A transport that has one answer."""

    def __init__(self, response: Response) -> None:
        self._response = response

    async def handle_async_request(self, request: Request) -> Response:
        return self._response

    async def aclose(self) -> None:
        """Do nothing: it holds nothing."""


def _origin_of(request: Request) -> Origin:
    origin = request.extensions.get("recorder")
    if not isinstance(origin, Origin):
        raise TypeError("a request that came through no proxy has no record of its own")
    return origin


def _with_model_in_path(request: Request, origin: Origin, model: str) -> Origin:
    if "target" in request.extensions:
        request.extensions["target"] = in_path(
            request.extensions["target"].decode("latin-1"), model
        ).encode("latin-1")
    return msgspec.structs.replace(origin, target=in_path(origin.target, model))


def in_path(target: str, model: str) -> str:
    """Return a target with another model, if its path names one."""
    path, mark, query = target.partition("?")
    return _MODEL_IN_PATH.sub(lambda _: quote(model, safe=""), path) + mark + query


def in_body(body: bytes, model: str) -> bytes | None:
    """Return a JSON body with another model, its other members byte for byte; None if it names
    none.
    """
    try:
        members = _members.decode(body)
        named = msgspec.json.decode(members["model"], type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError):
        return None
    prefix = (
        _COLLECTION if named.startswith(_COLLECTION) and not model.startswith(_COLLECTION) else ""
    )
    return msgspec.json.encode({**members, "model": prefix + model})


def _of_body(headers: list[tuple[bytes, bytes]], body: bytes) -> list[tuple[bytes, bytes]]:
    """Return the headers of a request whose body was replaced by one without a coding."""
    kept: list[tuple[bytes, bytes]] = []
    for name, value in headers:
        if name.lower() == b"content-length":
            value = b"%d" % len(body)
        if name.lower() != b"content-encoding":
            kept.append((name, value))
    return kept
