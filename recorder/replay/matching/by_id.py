"""A response that is requested again by its id: found in the exchanges that made it, where no such
question was recorded.

A client that lost its stream continues with `GET /responses/{id}?stream=true&starting_after=N`, at
whatever number it was cut, or names the last event that it got (Gemini's Interactions); one that
did not stream asks for `GET /responses/{id}`. Both are in the recorded stream of the response.

Nothing follows the last event of a complete response, so the number of that event, or a higher one,
gets a stream without events, as from the provider. Where the recording broke off, what comes after
its last event is not known: that is a miss.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from recorder.model.events import WHOLE, Header, Piece, Recording, ResponseHead
from recorder.replay.matching.fingerprint import Place
from recorder.wire.dialects import by_path
from recorder.wire.dialects.dialect import ResponseRoutes
from recorder.wire.dialects.json_values import decoded_or_none, object_, text, whole
from recorder.wire.framing.sse import parse
from recorder.wire.recording import is_stream, joined, payloads_of

FIRST_EVENTS = 8
"""A response says its id in one of the first events of its stream."""

# states of a response, in every format that has those
_UNFINISHED = frozenset({"queued", "in_progress"})


class Retrieval(NamedTuple):
    """An answer found by the id of a response; `after`, of its stream, the number from which on it
    is wanted.
    """

    recorded: Recording
    after: int | None


class Responses:
    """The responses that exchanges made, by upstream and id.

    Exchanges are read once, at the first request for them.
    """

    def __init__(self, recordings: Iterable[tuple[Place, Recording]]) -> None:
        self._parts: dict[tuple[str, str], list[Recording]] = {}
        for place, recorded in recordings:
            routes = by_path(place.method, place.path).response_routes
            if (
                routes is None
                or routes.made is None
                or not routes.made.search(f"{place.method} {place.path}")
            ):
                continue
            if (id := response_id(recorded, routes.member)) is not None:
                self._parts.setdefault((place.upstream, id), []).append(recorded)

    def find(self, place: Place, *, anywhere: bool = False) -> Retrieval | None:
        """Return the recorded answer to a request for a response by its id, if there is one.

        With `anywhere`, that of another upstream too, if only one has made a response of that id.
        """
        routes = by_path(place.method, place.path).response_routes
        if routes is None or routes.retrieved is None:
            return None
        retrieval = routes.retrieved.search(f"{place.method} {place.path}")
        parts = self._made(place.upstream, retrieval[1], anywhere) if retrieval else []
        parameters = dict(place.query)
        if parameters.get("stream", "").lower() not in ("true", "1"):
            return _document(parts, routes)
        after = parameters.get(routes.after)
        if routes.event_id is not None:
            return _after_event(parts, routes.event_id, after)
        if after is not None and not re.fullmatch(r"[0-9]{1,18}", after):
            return None
        return _stream(parts, None if after is None else int(after))

    def _made(self, upstream: str, id: str, anywhere: bool) -> list[Recording]:
        parts = self._parts.get((upstream, id), [])
        if parts or not anywhere:
            return parts
        made = [others for (_, made), others in self._parts.items() if made == id]
        return made[0] if len(made) == 1 else []


def _stream(parts: Iterable[Recording], after: int | None) -> Retrieval | None:
    """Return the exchange that has the next event and the most events after it: each resumed one
    has a part of it.
    """
    spans = [
        (*span, part) for part in parts if is_stream(part) and (span := _span(part)) is not None
    ]
    if not spans:
        return None
    next_one = min(first for first, _, _ in spans) if after is None else after + 1
    fitting = [(last, part) for first, last, part in spans if first <= next_one]
    last, part = max(fitting, key=lambda each: each[0], default=(-1, None))
    if part is None or (last < next_one and not _is_over(part)):
        return None
    return Retrieval(part, after)


def _after_event(parts: Iterable[Recording], member: str, id: str | None) -> Retrieval | None:
    """Return the exchange that has the most events after the one of an id; without an id, one from
    the beginning.
    """
    rests: list[Recording] = []
    for part in filter(is_stream, parts):
        if id is not None:
            rests += _rest(part, member, id)
        elif part.exchange.resumes_after is None:
            rests.append(part)
    longest = max(rests, key=lambda rest: len(rest.pieces), default=None)
    return None if longest is None else Retrieval(longest, None)


def _rest(part: Recording, member: str, id: str) -> Iterator[Recording]:
    """Yield what an exchange has after the event of an id; nothing if that is its last one, and
    others may follow.
    """
    for number, piece in enumerate(part.pieces, 1):
        payload = object_(decoded_or_none(parse(piece.raw).data or b""))
        if text(payload.get(member)) == id and (number < len(part.pieces) or _is_over(part)):
            yield msgspec.structs.replace(part, pieces=tuple(part.pieces)[number:], reads=())


def _document(parts: Iterable[Recording], routes: ResponseRoutes) -> Retrieval | None:
    """Return the finished response as one document: recorded as such, or as the last event of a
    stream states it.
    """
    for part in parts:
        if not is_stream(part):
            response = object_(decoded_or_none(part.body))
            if text(response.get("status")) not in _UNFINISHED:
                return Retrieval(part, None)
        elif routes.is_restated and (stated := _stated(part, routes.member)):
            return Retrieval(_as_document(part, stated), None)
    return None


def _stated(recorded: Recording, member: str) -> bytes:
    """Return the response as the event that ends its stream states it; nothing if none does."""
    try:
        members = msgspec.json.decode(
            _terminal_event(recorded) or b"{}", type=dict[str, msgspec.Raw]
        )
    except (msgspec.DecodeError, UnicodeDecodeError):
        return b""
    return bytes(members.get(member, b""))


def _is_over(recorded: Recording) -> bool:
    """Return whether nothing follows an exchange: its last event says so, or the provider ended it
    there.
    """
    return (recorded.end is not None and recorded.end.outcome in WHOLE) or _terminal_event(
        recorded
    ) is not None


def _terminal_event(recorded: Recording) -> bytes | None:
    """Return the payload of the event that ends a stream."""
    dialect = by_path(recorded.request.method, recorded.request.target)
    for payload in payloads_of(reversed(list(joined(recorded.pieces)))):
        if dialect.keys.of_message(payload).type in dialect.terminal:
            return payload
    return None


def _as_document(recorded: Recording, body: bytes) -> Recording:
    headers: list[Header] = [(n, v) for n, v in recorded.headers if n.lower() != "content-type"]
    head = ResponseHead(200, "OK", [*headers, ("content-type", "application/json")])
    return msgspec.structs.replace(
        recorded,
        response=head,
        pieces=(Piece(recorded.head_ns, body),),
        reads=(),
        end_ns=recorded.head_ns,
    )


def response_id(recorded: Recording, member: str = "response") -> str | None:
    """Return the id of the response that an exchange received, in a stream or as a document."""
    if not is_stream(recorded):
        return text(object_(decoded_or_none(recorded.body)).get("id"))
    for block in islice(payloads_of(joined(recorded.pieces)), FIRST_EVENTS):
        id = text(object_(object_(decoded_or_none(block)).get(member)).get("id"))
        if id is not None:
            return id
    return None


def _span(recorded: Recording) -> tuple[int, int] | None:
    """Return the first and the last number of the events that an exchange has."""
    numbers = [
        number for piece in recorded.pieces if (number := whole(piece.sequence_number)) is not None
    ]
    return (min(numbers), max(numbers)) if numbers else None
