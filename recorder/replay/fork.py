"""Fork: a transport that answers from recordings first, and from the upstream from the point on where they end.

Rules of this file:

* Each recording is given once. When all are, or at the first request that none answers, it goes live, and stays live:
  what comes then was decided by an answer that is not recorded.
* Both kinds of answers are recorded as they pass, by the same means: `record` wraps the transport of each.
* Only live requests are changed, and only their model. They are changed before they are recorded, so the record is of
  what went out.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from urllib.parse import quote

import msgspec

from recorder.model.events import Recording
from recorder.model.text import safe_text
from recorder.proxy.http.messages import Request, Response, Transport, WholeUpload
from recorder.proxy.routing import Origin
from recorder.replay.matching import Match, Seen
from recorder.replay.pace import Waiting
from recorder.replay.transport import ReplayTransport
from recorder.wire.redaction.headers import redact_headers, redact_target
from recorder.wire.request_body import decoded_body

log = logging.getLogger(__name__)

LINE_LIMIT = 600  # characters of a line about a request that differs

_MODEL_IN_PATH = re.compile(r"(?<=/models/)[^/:?]+(?=(?::|%3[Aa])\w)")  # Google's APIs: /models/NAME:method
_COLLECTION = "models/"  # which Google puts before the name in a body

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


class ForkTransport:
    """A transport that is a replay up to a point, and live from there on."""

    def __init__(
        self,
        replay: ReplayTransport,
        upstream: Transport,
        record: Callable[[Transport], Transport],
        *,
        model: str | None = None,
    ) -> None:
        """`replay` has a strict matcher. `record` wraps a transport in one that records; `model` is that of live
        requests, if it is another one.
        """
        self._replay, self._record, self._model = replay, record, model
        self._upstream, self._live = upstream, record(upstream)
        self.replayed = self.asked = 0
        self.live_since_ns: int | None = None  # wall time of the first request that went live
        self._is_live = not replay.matcher.unused()

    async def handle_async_request(self, request: Request) -> Response:
        found = None if self._is_live else await self._recorded(request)
        if found is not None:
            self.replayed += 1
            return await self._record(_Playback(self._replay, found)).handle_async_request(request)
        if self._is_live and self.live_since_ns is None:
            self.live_since_ns = time.time_ns()
        if self._model is not None:
            await _put_model(request, self._model)
        return await self._live.handle_async_request(request)

    def unused(self) -> list[Recording]:
        """Return the recordings that no request used, in recorded order."""
        return self._replay.matcher.unused()

    def seen(self) -> list[Seen]:
        """Return the requests up to the first live one, and how each was answered."""
        return self._replay.matcher.seen()

    async def aclose(self) -> None:
        await self._replay.aclose()
        await self._upstream.aclose()

    async def _recorded(self, request: Request) -> Match | None:
        """Return the recording that answers a request, if there is one. A probe that none answers changes nothing."""
        self.asked += 1
        number = self.asked
        found = await self._replay.find(request)
        if isinstance(found, Match):
            self._is_live = self._is_live or not self._replay.matcher.unused()
            return found
        if not found.is_optional and not self._is_live:
            self._is_live = True
            where = f"{found.request.method} {redact_target(found.request.target)}"
            line = f"request {number} ({where}) differs from the recording: live from here. {found.line}"
            line = line if len(line) <= LINE_LIMIT else f"{line[:LINE_LIMIT]}…"
            log.warning("%s", safe_text(line))
        return None


class _Playback:
    """The transport of one request whose recording is known."""

    def __init__(self, replay: ReplayTransport, found: Match) -> None:
        self._replay, self._found = replay, found

    async def handle_async_request(self, request: Request) -> Response:
        return await self._replay.play(self._found, Waiting(self._replay.clock, request))

    async def aclose(self) -> None:
        """Do nothing: the replay is its owner's."""


async def _put_model(request: Request, model: str) -> None:
    """Replace the model in the path and in the body of a request, and in its record; the rest of it stays."""
    origin = request.extensions.get("recorder")
    if not isinstance(origin, Origin):
        raise TypeError("a request that came through no proxy has no record of its own")
    if "target" in request.extensions:
        request.extensions["target"] = in_path(request.extensions["target"].decode("latin-1"), model).encode("latin-1")
    origin = msgspec.structs.replace(origin, target=in_path(origin.target, model))
    body, undecoded = decoded_body(redact_headers(request.headers.raw), await request.aread())
    changed = None if undecoded else in_body(body, model)
    if changed is not None:
        request.stream = WholeUpload(changed)
        request.headers.raw = _of_body(request.headers.raw, changed)
        origin = msgspec.structs.replace(origin, headers=_of_body(origin.headers, changed))
    elif undecoded:
        log.warning("the model of a live request is not replaced, its body cannot be decoded: %s", undecoded)
    request.extensions["recorder"] = origin


def in_path(target: str, model: str) -> str:
    """Return a target with another model, if its path names one."""
    path, mark, query = target.partition("?")
    return _MODEL_IN_PATH.sub(lambda _: quote(model, safe=""), path) + mark + query


def in_body(body: bytes, model: str) -> bytes | None:
    """Return a JSON body with another model, its other members byte for byte; None if it names none."""
    try:
        members = _members.decode(body)
        named = msgspec.json.decode(members["model"], type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError):
        return None
    prefix = _COLLECTION if named.startswith(_COLLECTION) and not model.startswith(_COLLECTION) else ""
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
