"""The transport that accepts WebSocket handshakes, and chooses how a connection is replayed.

Where the path has turns, each request message is answered by itself, whatever connection it was recorded on, or none
(`recorder.replay.websocket.turns`). Elsewhere the handshake is matched, and its connection is played back whole
(`recorder.replay.websocket.playback`). A handshake that was refused when it was recorded is refused again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from recorder.model.events import SWITCHED, WEBSOCKET
from recorder.model.payloads import as_sent, header
from recorder.model.recording import Recording
from recorder.proxy.http.messages import IteratedBody, Request, Response, Transport
from recorder.replay.matching import MatchRequest, Miss
from recorder.replay.transport import ReplayTransport, match_request, origin_of, whole
from recorder.replay.websocket.connection import ReplayedConnection
from recorder.replay.websocket.playback import Playback
from recorder.replay.websocket.turns import OF_THE_HANDSHAKE, Turns
from recorder.wire.dialects import error_body
from recorder.wire.redaction.headers import COUNTED
from recorder.wire.turns import PROTOCOL, has_turns
from recorder.wire.websocket_endpoint import HandshakeError, accepted, offered_protocols


class WebSocketTransport:
    """Accepts WebSocket handshakes; all other requests pass to `inner`, which answers with `replay`, with faults or
    without.
    """

    def __init__(self, inner: Transport, replay: ReplayTransport) -> None:
        self._inner, self._replay = inner, replay

    async def handle_async_request(self, request: Request) -> Response:
        if request.extensions.get("upgrade") != PROTOCOL.encode():
            return await self._inner.handle_async_request(request)
        query = match_request(request, b"")
        if has_turns(query.target):
            return await self._for_turns(request, query)
        found = self._replay.matcher.match(msgspec.structs.replace(query, method=WEBSOCKET))
        if isinstance(found, Miss):
            return await self._replay.missed(request, found)
        if not found.recorded.is_switched:
            return await self._replay.replay(request, found.recorded)
        return _accepted(request, found.recorded, Playback(request, found.recorded, self._replay))

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _for_turns(self, request: Request, query: MatchRequest) -> Response:
        """Accept a connection whose messages are answered one by one, unless the upstream had refused it."""
        replay = self._replay
        if replay.forwards and not replay.matcher.has_requests(msgspec.structs.replace(query, method="POST")):
            missed = Miss(query, None, [], f"Nothing recorded answers {query.target} ({query.upstream}).")
            return await replay.missed(request, missed)
        recorded = replay.matcher.connection(msgspec.structs.replace(query, method=WEBSOCKET))
        if recorded is not None and not recorded.is_switched:
            return await replay.replay(request, recorded)
        return _accepted(request, recorded, Turns(request, self._inner))


def _accepted(request: Request, recorded: Recording | None, connection: ReplayedConnection) -> Response:
    """Return the answer to a handshake: our own, and the headers of the recorded one that are not part of it."""
    given = recorded.response.headers if recorded is not None and recorded.response is not None else []
    answer = accepted(request.headers.raw, _protocol(request, given))
    if isinstance(answer, HandshakeError):
        origin = origin_of(request)
        body = error_body(request.method, origin.target, origin.upstream, answer.status, answer.message)
        return whole(answer.status, body, answer.headers)
    more = as_sent((name, value) for name, value in given if not COUNTED.fullmatch(value))
    headers = [*answer, *(each for each in more if not each[0].lower().startswith(OF_THE_HANDSHAKE))]
    return Response(SWITCHED, b"Switching Protocols", headers, IteratedBody(connection.stream()))


def _protocol(request: Request, recorded: Sequence[tuple[str, str]]) -> str | None:
    """Return the subprotocol to answer with: the recorded one.

    Its name may have been redacted, because clients put keys into it. They prefer the one that has none.
    """
    offered = offered_protocols(request.headers.raw)
    chosen = header(recorded, "sec-websocket-protocol")
    if not chosen or not offered:
        return None
    return chosen if chosen in offered else offered[0]
