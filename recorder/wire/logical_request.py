"""The logical request: all that the model saw, where a request has only what is new since an
earlier response.

Of a request that continues a response it is the input of that response, the items that came back
and the new items, in this order; the response may itself continue another one. Of any other request
it is the request as it was sent.

Rules of this file:

* Only input items are inherited: instructions, tools and parameters count for one request alone.
* A link is followed within the recordings that are given, to the last exchange before. A link that
  leads to none of them stands in the logical request as it was sent, and `missing_id` names it.
* A conversation may have had items from other requests than those that create responses: what is
  before the first known one is never certain, and so never complete.
* Work is bounded: `LINKS_LIMIT` links and `MEMORY_LIMIT` bytes of items. Links only lead back in
  time, so a chain has no circle.
* Which fields are links, and which items a response is, the dialect says. Pure, and never raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple

import msgspec

from recorder.model.events import MEMORY_LIMIT, WEBSOCKET, Recording
from recorder.model.facts import Links, ResponseStarted
from recorder.model.text import counted
from recorder.wire.dialects import Dialect, by_path
from recorder.wire.dialects.dialect import Continuation
from recorder.wire.dialects.json_values import Object, as_json, decoded, request_object, without
from recorder.wire.recording import payloads
from recorder.wire.turns import as_post

LINKS_LIMIT = 10_000
"""Links of one request that are followed: the longest sessions of agents have some thousand
requests.
"""

FIRST_EVENTS = 8
"""Events of a response in which its id is looked for. It stands in the last event again, where ids
rotate another.
"""

_WHOLE = Links()


class RequestPart(msgspec.Struct, frozen=True):
    """Items of a logical request that are from one exchange: what it sent, or what came back."""

    source: Literal["input", "output"]
    exchange_id: str
    number: int  # of the exchange in its session; 1 is the first
    items: tuple[msgspec.Raw, ...]


class LogicalRequest(msgspec.Struct, frozen=True):
    """A request with all its items. `depth` is the number of links that were followed."""

    fields: Object  # the members of the request besides its items
    # the member that has the items; None: `fields` are the whole request as it was sent
    items: str | None
    parts: tuple[RequestPart, ...] = ()  # in order; the last is what the request itself has
    depth: int = 0
    is_complete: bool = True
    missing_id: str | None = None  # of the link that was not followed
    reason: str | None = None  # why items are missing, as a clause

    @property
    def all_items(self) -> list[msgspec.Raw]:
        """Return the items of all parts."""
        return list(chain.from_iterable(part.items for part in self.parts))

    @property
    def size_bytes(self) -> int:
        """Return the size of all items."""
        return sum(map(_size, self.all_items))

    def body(self) -> dict[str, Any]:
        """Return the request as one JSON object, its items as `msgspec.Raw`."""
        return (
            dict(self.fields) if self.items is None else {**self.fields, self.items: self.all_items}
        )

    def encoded(self) -> bytes:
        """Return the request as JSON."""
        body = self.body()
        try:
            return msgspec.json.encode(body)
        except (ValueError, TypeError, msgspec.MsgspecError):
            # half a character: only `json` writes it
            if self.items is not None:
                body[self.items] = [decoded(bytes(item)) for item in self.all_items]
            return as_json(body).encode()


class _SentRequest(NamedTuple):
    """A request as it was sent; `place` is that of its recording, where links lead to earlier ones."""

    exchange_id: str
    number: int
    method: str
    body: bytes
    continuation: Continuation
    place: int
    is_recorded: bool = True

    @property
    def request(self) -> Object:
        return request_object(as_post(self.body) if self.method == WEBSOCKET else self.body)


class _MissingLink(NamedTuple):
    """A link that was not followed."""

    id: str
    reason: str  # why items are missing, as a clause


Unrecorded = Callable[[str], tuple[str, bytes] | None]
"""Return the target and the body of a request by the id of its response, if it is known although
not recorded.
"""


class LogicalRequests:
    """The logical requests of exchanges that may continue each other.

    Nothing is decoded for requests without a link, and each response once.
    """

    def __init__(
        self,
        recordings: Sequence[Recording],
        *,
        compared: bool = False,
        unrecorded: Unrecorded = lambda id: None,
    ) -> None:
        """`recordings` are those that links may lead to, in the order in which they began.

        With `compared`, items are in the form that is the same for two clients that send the same
        (`Continuation.compared`). `unrecorded` gives the request that a response without output
        answered.
        """
        self._recordings, self._is_compared, self._unrecorded = recordings, compared, unrecorded
        self._places = {id(each): place for place, each in enumerate(recordings)}
        self._index: _Index | None = None
        # of exchanges that others continue, by their place
        self._earlier: dict[int, Sequence[RequestPart]] = {}
        self._counts: dict[int, int] = {}  # of items up to the end of exchanges, by their place
        self._known_links: dict[str, Links] = {}  # of recorded exchanges, by their id

    def of(self, recording: Recording) -> LogicalRequest:
        """Return the logical request of a recorded exchange; one that is not among the recordings
        goes on from them.
        """
        return self._logical(self._recorded(recording), recording.request_body)

    def of_body(self, target: str, body: bytes) -> LogicalRequest:
        """Return the logical request of a request over HTTP that is not recorded."""
        return self._logical(self._not_recorded(target, body), body)

    def length(self, recording: Recording) -> int:
        """Return the number of items of a recorded exchange's logical request, which is not put
        together for that.
        """
        return self._length(self._recorded(recording))

    def length_of_body(self, target: str, body: bytes) -> int:
        """Return the number of items of the logical request of a request over HTTP that is not
        recorded.
        """
        return self._length(self._not_recorded(target, body))

    def is_known(self, links: Links) -> bool:
        """Return whether links lead to an exchange, if they are those of the last request."""
        return self._followed(links, len(self._recordings)) is not None

    def _recorded(self, recording: Recording) -> _SentRequest | None:
        return _sent(recording, self._places.get(id(recording), len(self._recordings)))

    def _not_recorded(self, target: str, body: bytes) -> _SentRequest | None:
        continuation = _dialect("POST", target).continuation
        if continuation is None:
            return None
        return _SentRequest(
            "", 0, "POST", body, continuation, len(self._recordings), is_recorded=False
        )

    # -- links

    def _links(self, sent: _SentRequest) -> Links:
        """Return the links of a request; those of a recorded one, which all that continue it lead
        to, are read once.
        """
        if not sent.is_recorded:
            return sent.continuation.links(request_object(sent.body))
        if sent.exchange_id not in self._known_links:
            self._known_links[sent.exchange_id] = sent.continuation.links(request_object(sent.body))
        return self._known_links[sent.exchange_id]

    def _followed(self, links: Links, before: int) -> _SentRequest | None:
        if links == _WHOLE:
            return None
        place = self._indexed().place(links, before)
        if place is not None:
            return _sent(self._recordings[place], place)
        found = self._unrecorded(links.response_id) if links.response_id is not None else None
        return None if found is None else self._not_recorded(*found)

    def _continued(self, sent: _SentRequest) -> Iterator[_SentRequest]:
        """Yield the requests that a request continues, the last first."""
        for _ in range(LINKS_LIMIT):
            before = self._followed(self._links(sent), sent.place)
            if before is None:
                return
            yield before
            sent = before

    def _missing(self, first: _SentRequest, depth: int) -> _MissingLink | None:
        """Return the link of the first request of a chain that leads no further; None if the chain
        is whole.
        """
        links = self._links(first)
        id = links.response_id or links.conversation_id
        if id is None:
            return None
        if depth == LINKS_LIMIT:
            return _MissingLink(id, f"only {counted(LINKS_LIMIT, 'link')} back can be followed")
        if links.response_id:
            return _MissingLink(id, f"response {id} was not recorded here")
        return _MissingLink(id, f"conversation {id} may have had items before")

    # -- what they lead to

    def _logical(self, sent: _SentRequest | None, body: bytes) -> LogicalRequest:
        if sent is None or not sent.request:
            return LogicalRequest(request_object(body), None)
        continuation = sent.continuation
        earlier = list(self._continued(sent))
        first = earlier[-1] if earlier else sent
        missing = self._missing(first, len(earlier))
        parts, fits = self._parts(earlier)
        fields = without(sent.request, (continuation.items,))
        if earlier:
            fields = without(fields, continuation.fields)
            root = first.request if missing is not None else {}
            kept = {name: root[name] for name in continuation.fields if name in root}
            fields = {**fields, **kept}
        too_large = None if fits else f"the items before take over {MEMORY_LIMIT >> 20} MiB"
        return LogicalRequest(
            fields=fields,
            items=continuation.items,
            parts=(*parts, self._input(sent)),
            depth=len(earlier),
            is_complete=missing is None and fits,
            missing_id=missing.id if missing else None,
            reason=missing.reason if missing else too_large,
        )

    def _parts(self, earlier: Sequence[_SentRequest]) -> tuple[list[RequestPart], bool]:
        """Return the parts of earlier exchanges in order, and whether all of them fit."""
        parts: list[RequestPart] = []
        size_bytes = 0
        for part in chain.from_iterable(map(self._of_earlier, earlier)):
            size_bytes += sum(map(_size, part.items))
            if size_bytes > MEMORY_LIMIT:
                return parts[::-1], False
            parts.append(part)
        return parts[::-1], True

    def _length(self, sent: _SentRequest | None) -> int:
        """Count the items of a request and of those that it continues, of each recorded one once."""
        if sent is None or not sent.request:
            return 0
        count = 0
        uncounted: list[_SentRequest] = []
        for earlier in self._continued(sent):
            if earlier.is_recorded and earlier.place in self._counts:
                count = self._counts[earlier.place]
                break
            uncounted.append(earlier)
        for earlier in reversed(uncounted):
            count += sum(len(part.items) for part in self._of_earlier(earlier))
            if earlier.is_recorded:
                self._counts[earlier.place] = count
        return count + len(self._input(sent).items)

    def _of_earlier(self, sent: _SentRequest) -> Sequence[RequestPart]:
        """Return what an earlier exchange adds, the last first."""
        if not sent.is_recorded:
            return (self._input(sent),)
        if sent.place not in self._earlier:
            self._earlier[sent.place] = self._output(sent), self._input(sent)
        return self._earlier[sent.place]

    def _input(self, sent: _SentRequest) -> RequestPart:
        items = self._encoded(sent.continuation.input(sent.request), sent.continuation)
        return RequestPart("input", sent.exchange_id, sent.number, items)

    def _output(self, sent: _SentRequest) -> RequestPart:
        """Return what came back: of a response that was retrieved later, the most that an exchange
        has of it.
        """
        output = sent.continuation.output
        places = (sent.place, *self._indexed().retrievals(sent.place))
        found = max((output(payloads(self._recordings[place])) for place in places), key=len)
        return RequestPart(
            "output", sent.exchange_id, sent.number, self._encoded(found, sent.continuation)
        )

    def _encoded(self, items: Sequence[Any], continuation: Continuation) -> tuple[msgspec.Raw, ...]:
        forms = map(continuation.compared, items) if self._is_compared else items
        return tuple(msgspec.Raw(as_json(each).encode()) for each in forms if each is not None)

    def _indexed(self) -> _Index:
        if self._index is None:
            self._index = _Index(self._recordings)
        return self._index


class _Index:
    """The places of recordings, by what links name."""

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self._requests: dict[Links, list[int]] = {}
        self._retrievals: dict[str, list[int]] = {}
        self._ids: dict[int, Sequence[str]] = {}
        for place, recording in enumerate(recordings):
            dialect = _dialect(recording.exchange.method, recording.exchange.target)
            if dialect.continuation is not None:
                self._add(place, recording, dialect)

    def place(self, links: Links, before: int) -> int | None:
        """Return the last exchange, before one, that has the response or the conversation."""
        return next(
            (place for place in reversed(self._requests.get(links, [])) if place < before), None
        )

    def retrievals(self, place: int) -> list[int]:
        """Return the exchanges that retrieved the response of one later."""
        later = chain.from_iterable(self._retrievals.get(id, ()) for id in self._ids[place])
        return [each for each in later if each > place]

    def _add(self, place: int, recording: Recording, dialect: Dialect) -> None:
        ids = self._ids[place] = response_ids(recording, dialect)
        if not recording.request_body:
            for id in ids:
                self._retrievals.setdefault(id, []).append(place)
            return
        for id in ids:
            self._requests.setdefault(Links(id), []).append(place)
        links = links_of(recording)
        if links.conversation_id is not None and ids:
            self._requests.setdefault(Links(None, links.conversation_id), []).append(place)


def links_of(recording: Recording) -> Links:
    """Return the links of a recorded request; it is only decoded if it may have one."""
    return links_in(recording.exchange.target, recording.request_body, recording.exchange.method)


def links_in(target: str, body: bytes, method: str = "POST") -> Links:
    """Return the links of a request, by its target without a host and its body."""
    continuation = _dialect(method, target).continuation
    if continuation is None or not any(
        f'"{name}"'.encode() in body for name in continuation.fields
    ):
        return _WHOLE
    return continuation.links(request_object(body))


def response_ids(recording: Recording, dialect: Dialect) -> Sequence[str]:
    """Return the ids that a response has in its first events and in its last one, each once."""
    every = [*payloads(recording)]
    decoder = dialect.decoder()
    looked_at = (*every[:FIRST_EVENTS], *every[FIRST_EVENTS:][-1:])
    facts = list(chain.from_iterable(decoder.event(None, payload) for payload in looked_at))
    if len(every) == 1:  # a document, or a stream that broke off
        facts += dialect.decoder().document(every[0])
    ids = (fact.response_id for fact in facts if isinstance(fact, ResponseStarted))
    return tuple(dict.fromkeys(id for id in ids if id is not None))


def _sent(recording: Recording, place: int) -> _SentRequest | None:
    """Return a recorded request; None if it continues nothing, and can only be taken as it was
    sent.
    """
    exchange, body = recording.exchange, recording.request_body
    continuation = _dialect(exchange.method, exchange.target).continuation
    if continuation is None:
        return None
    return _SentRequest(
        exchange.exchange_id, recording.number, exchange.method, body, continuation, place
    )


def _dialect(method: str, target: str) -> Dialect:
    return by_path("POST" if method == WEBSOCKET else method, target)


def _size(item: msgspec.Raw) -> int:
    return memoryview(item).nbytes
