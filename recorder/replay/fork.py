"""Fork: a transport that answers what was recorded from the recordings, and asks the upstream for the rest.

Rules of this file:

* A request is answered from the recording that equals it, wherever that stands: a request whose content another answer
  has changed equals none, so it is live by itself. Each recording is given once.
* Both kinds of answers are recorded as they pass, by the same means.
* Only live requests are changed, and only their model. They are changed before they are recorded, so the record is of
  what went out. Of the recorded answers, those are others that a person has edited (`recorder.replay.edit`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from urllib.parse import quote

import msgspec

from recorder.model.events import Recording
from recorder.model.text import safe_text
from recorder.proxy.http.messages import Request, Response, Transport, WholeUpload
from recorder.proxy.routing import Origin
from recorder.replay.matching import Match, Seen, request_of
from recorder.replay.matching.miss import Miss, may_go_unanswered
from recorder.replay.pace import Waiting
from recorder.replay.transport import ReplayTransport
from recorder.wire.redaction.headers import redact_headers, redact_target
from recorder.wire.request_body import decoded_body
from recorder.wire.turns import is_connection, is_turn, was_asked_for

log = logging.getLogger(__name__)

LINE_LIMIT = 600  # characters of a line about a request that differs
LINES_LIMIT = 10  # such lines: once an agent has gone another way, all of its requests differ

_MODEL_IN_PATH = re.compile(r"(?<=/models/)[^/:?]+(?=(?::|%3[Aa])\w)")  # Google's APIs: /models/NAME:method
_COLLECTION = "models/"  # which Google puts before the name in a body

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_agent_turn(recorded: Recording) -> bool:
    """Return whether an exchange has an answer that an agent goes on from, and that it asked for.

    Connections, prewarms and probes are as a client likes, and a server begins what continues a steered response.
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
        record: Callable[[Transport], Transport],
        *,
        model: str | None = None,
        edits: Mapping[str, Recording] = MappingProxyType({}),
    ) -> None:
        """`replay` has a strict matcher that takes no position for equality; `record` wraps what it plays in a
        transport that records, which `live` does. `model` is that of live requests, if it is another one; `edits` are
        played in place of recordings, by the id of the exchange.
        """
        self._replay, self._live, self._record, self._model = replay, live, record, model
        self._edits = edits
        self._asked = self._differing = 0

    async def handle_async_request(self, request: Request) -> Response:
        found = await self._recorded(request)
        if found is not None:
            return await self._record(_Playback(self._replay, found)).handle_async_request(request)
        if self._model is not None:
            await _put_model(request, self._model)
        return await self._live.handle_async_request(request)

    def seen(self) -> list[Seen]:
        """Return the requests that were compared with the recordings, in order, and how each was answered."""
        return self._replay.matcher.seen()

    def unused(self) -> list[Recording]:
        """Return the recordings that no request used, in recorded order."""
        return self._replay.matcher.unused()

    async def aclose(self) -> None:
        await self._replay.aclose()
        await self._live.aclose()

    async def _recorded(self, request: Request) -> Match | None:
        """Return the recording that equals a request, if there is one. What it differs in is said while any is left."""
        self._asked += 1
        number = self._asked
        if not self._replay.matcher.unused():
            return None
        found = await self._replay.find(request)
        if isinstance(found, Match):
            edited = self._edits.get(found.recorded.exchange.exchange_id)
            return found if edited is None else msgspec.structs.replace(found, recorded=edited)
        if not found.is_optional:
            self._say_difference(number, found)
        return None

    def _say_difference(self, number: int, miss: Miss) -> None:
        self._differing += 1
        if self._differing > LINES_LIMIT:
            return
        where = f"{miss.request.method} {redact_target(miss.request.target)}"
        line = f"request {number} ({where}) differs from the recording, so it is live. {miss.line}"
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
