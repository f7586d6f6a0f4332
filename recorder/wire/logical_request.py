"""The logical request: all that the model saw, where a request has only what is new since an earlier response.

Of a request that continues a response it is the input of that response, the items that came back and the new items, in
this order; the response may itself continue another one. Of any other request it is the request as it was sent.

Rules of this file:

* Only input items are inherited: instructions, tools and parameters count for one request alone.
* A link is followed within the recordings that are given, to the last exchange before. A link that leads to none of
  them stands in the logical request as it was sent, and `missing_id` names it.
* A conversation may have had items from other requests than those that create responses: what is before the first known
  one is never certain, and so never complete.
* Work is bounded: `LINKS_LIMIT` links and `MEMORY_LIMIT` bytes of items. Links only lead back in time, so a chain has
  no circle.
* Which fields are links, and which items a response is, the dialect says. Pure, and never raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
"""Links of one request that are followed: the longest sessions of agents have some thousand requests."""

FIRST_EVENTS = 8
"""Events of a response in which its id is looked for. It stands in the last event again, where ids rotate another."""

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
    items: str | None  # the member that has the items; None: `fields` are the whole request as it was sent
    parts: tuple[RequestPart, ...] = ()  # in order; the last is what the request itself has
    depth: int = 0
    is_complete: bool = True
    missing_id: str | None = None  # of the link that was not followed
    reason: str | None = None  # why items are missing, as a clause

    @property
    def size_bytes(self) -> int:
        """Return the size of all items."""
        return sum(_size(item) for part in self.parts for item in part.items)

    def body(self) -> dict[str, Any]:
        """Return the request as one JSON object, its items as `msgspec.Raw`."""
        if self.items is None:
            return dict(self.fields)
        return {**self.fields, self.items: [item for part in self.parts for item in part.items]}

    def encoded(self) -> bytes:
        """Return the request as JSON."""
        try:
            return msgspec.json.encode(self.body())
        except (
            ValueError,
            TypeError,
            msgspec.MsgspecError,
        ):  # half a character: only `json` writes it
            own = {self.items: [decoded(bytes(item)) for part in self.parts for item in part.items]}
            return as_json({**self.fields, **(own if self.items else {})}).encode()


class _SentRequest(NamedTuple):
    """A request as it was sent; `place` is that of its recording, where links lead to earlier ones."""

    exchange_id: str
    number: int
    method: str
    target: str
    body: bytes
    place: int
    is_recorded: bool = True

    @property
    def continuation(self) -> Continuation | None:
        return _dialect(self.method, self.target).continuation if self.body else None

    @property
    def request(self) -> Object:
        return request_object(as_post(self.body) if self.method == WEBSOCKET else self.body)


Unrecorded = Callable[[str], tuple[str, bytes] | None]
"""Return the target and the body of a request by the id of its response, if it is known although not recorded."""


class LogicalRequests:
    """The logical requests of exchanges that may continue each other. Nothing is decoded for requests without a link,
    and each response once.
    """

    def __init__(
        self, recordings: Sequence[Recording], *, compared: bool = False, unrecorded: Unrecorded = lambda id: None
    ) -> None:
        """`recordings` are those that links may lead to, in the order in which they began.

        With `compared`, items are in the form that is the same for two clients that send the same
        (`Continuation.compared`). `unrecorded` gives the request that a response without output answered.
        """
        self._recordings, self._is_compared, self._unrecorded = recordings, compared, unrecorded
        self._places = {id(each): place for place, each in enumerate(recordings)}
        self._index: _Index | None = None
        self._earlier: dict[int, Sequence[RequestPart]] = {}  # of exchanges that others continue, by their place
        self._counts: dict[int, int] = {}  # of items up to the end of exchanges, by their place
        self._known_links: dict[str, Links] = {}  # of recorded exchanges, by their id

    def of(self, recording: Recording) -> LogicalRequest:
        """Return the logical request of a recorded exchange; one that is not among the recordings goes on from them."""
        return self._logical(self._recorded(recording))

    def of_body(self, target: str, body: bytes) -> LogicalRequest:
        """Return the logical request of a request over HTTP that is not recorded."""
        return self._logical(self._not_recorded(target, body))

    def length(self, recording: Recording) -> int:
        """Return the number of items of a recorded exchange's logical request, which is not put together for that."""
        return self._length(self._recorded(recording))

    def length_of_body(self, target: str, body: bytes) -> int:
        """Return the number of items of the logical request of a request over HTTP that is not recorded."""
        return self._length(self._not_recorded(target, body))

    def is_known(self, links: Links) -> bool:
        """Return whether links lead to an exchange, if they are those of the last request."""
        return links != _WHOLE and self._followed(links, len(self._recordings)) is not None

    def _recorded(self, recording: Recording) -> _SentRequest:
        return _sent(recording, self._places.get(id(recording), len(self._recordings)))

    def _not_recorded(self, target: str, body: bytes) -> _SentRequest:
        return _SentRequest("", 0, "POST", target, body, len(self._recordings), is_recorded=False)

    def _followed(self, links: Links, before: int) -> _SentRequest | None:
        place = self._indexed().place(links, before)
        if place is not None:
            return _sent(self._recordings[place], place)
        found = self._unrecorded(links.response_id) if links.response_id is not None else None
        return None if found is None else self._not_recorded(*found)

    def _logical(self, sent: _SentRequest) -> LogicalRequest:
        continuation = sent.continuation
        if continuation is None or not request_object(sent.body):
            return LogicalRequest(request_object(sent.body), None)
        chain, missing_id, reason = self._chain(sent, continuation)
        before, fits = self._before(chain[1:], continuation)
        fields = without(sent.request, (continuation.items,))
        kept = {}
        if len(chain) > 1:
            fields = without(fields, continuation.fields)
            root = chain[-1].request if missing_id is not None else {}
            kept = {name: root[name] for name in continuation.fields if name in root}
        return LogicalRequest(
            fields={**fields, **kept},
            items=continuation.items,
            parts=(*before, self._input(sent, continuation)),
            depth=len(chain) - 1,
            is_complete=reason is None and fits,
            missing_id=missing_id,
            reason=reason or (None if fits else f"the items before take over {MEMORY_LIMIT >> 20} MiB"),
        )

    def _chain(
        self, sent: _SentRequest, continuation: Continuation
    ) -> tuple[list[_SentRequest], str | None, str | None]:
        """Return a request and those that it continues, the last first; the id that leads no further, and why."""
        chain = [sent]
        while (links := self._links(chain[-1], continuation)) != _WHOLE:
            id = links.response_id or links.conversation_id
            if len(chain) > LINKS_LIMIT:
                return chain, id, f"only {counted(LINKS_LIMIT, 'link')} back can be followed"
            before = self._followed(links, chain[-1].place)
            if before is None:
                missing = f"response {id} was not recorded here"
                return chain, id, missing if links.response_id else f"conversation {id} may have had items before"
            chain.append(before)
        return chain, None, None

    def _length(self, sent: _SentRequest) -> int:
        continuation = sent.continuation
        if continuation is None or not request_object(sent.body):
            return 0
        return self._length_before(sent, continuation) + len(self._input(sent, continuation).items)

    def _length_before(self, sent: _SentRequest, continuation: Continuation) -> int:
        """Count the items of earlier exchanges, of each recorded one once."""
        chain, count = [sent], 0
        while (links := self._links(chain[-1], continuation)) != _WHOLE and len(chain) <= LINKS_LIMIT:
            before = self._followed(links, chain[-1].place)
            if before is None:
                break
            if before.is_recorded and before.place in self._counts:
                count = self._counts[before.place]
                break
            chain.append(before)
        for each in reversed(chain[1:]):
            count += sum(len(part.items) for part in self._of_earlier(each, continuation))
            if each.is_recorded:
                self._counts[each.place] = count
        return count

    def _links(self, sent: _SentRequest, continuation: Continuation) -> Links:
        """Return the links of a request; those of a recorded one, which all that continue it lead to, are read once."""
        if not sent.is_recorded:
            return continuation.links(request_object(sent.body))
        if sent.exchange_id not in self._known_links:
            self._known_links[sent.exchange_id] = continuation.links(request_object(sent.body))
        return self._known_links[sent.exchange_id]

    def _before(self, chain: Sequence[_SentRequest], continuation: Continuation) -> tuple[list[RequestPart], bool]:
        """Return the parts of earlier exchanges in order, and whether all of them fit."""
        parts: list[RequestPart] = []
        size_bytes = 0
        for sent in chain:
            for part in self._of_earlier(sent, continuation):
                size_bytes += sum(map(_size, part.items))
                if size_bytes > MEMORY_LIMIT:
                    return parts[::-1], False
                parts.append(part)
        return parts[::-1], True

    def _of_earlier(self, sent: _SentRequest, continuation: Continuation) -> Sequence[RequestPart]:
        """Return what an earlier exchange adds, the last first."""
        if not sent.is_recorded:
            return (self._input(sent, continuation),)
        if sent.place not in self._earlier:
            self._earlier[sent.place] = self._output(sent, continuation), self._input(sent, continuation)
        return self._earlier[sent.place]

    def _input(self, sent: _SentRequest, continuation: Continuation) -> RequestPart:
        items = continuation.input(sent.request)
        return RequestPart("input", sent.exchange_id, sent.number, self._encoded(items, continuation))

    def _output(self, sent: _SentRequest, continuation: Continuation) -> RequestPart:
        """Return what came back: of a response that was retrieved later, the most that an exchange has of it."""
        places = (sent.place, *self._indexed().retrievals(sent.place))
        found = (continuation.output(payloads(self._recordings[place])) for place in places)
        items = self._encoded(max(found, key=len), continuation)
        return RequestPart("output", sent.exchange_id, sent.number, items)

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
        return next((place for place in reversed(self._requests.get(links, [])) if place < before), None)

    def retrievals(self, place: int) -> list[int]:
        """Return the exchanges that retrieved the response of one later."""
        return [each for id in self._ids[place] for each in self._retrievals.get(id, []) if each > place]

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
    if continuation is None or not any(f'"{name}"'.encode() in body for name in continuation.fields):
        return _WHOLE
    return continuation.links(request_object(body))


def response_ids(recording: Recording, dialect: Dialect) -> Sequence[str]:
    """Return the ids that a response has in its first events and in its last one, each once."""
    every = [*payloads(recording)]
    decoder = dialect.decoder()
    looked_at = (*every[:FIRST_EVENTS], *every[FIRST_EVENTS:][-1:])
    facts = [fact for payload in looked_at for fact in decoder.event(None, payload)]
    if len(every) == 1:  # a document, or a stream that broke off
        facts += dialect.decoder().document(every[0])
    ids = (fact.response_id for fact in facts if isinstance(fact, ResponseStarted))
    return tuple(dict.fromkeys(id for id in ids if id is not None))


def _sent(recording: Recording, place: int) -> _SentRequest:
    exchange = recording.exchange
    return _SentRequest(
        *(exchange.exchange_id, recording.number, exchange.method, exchange.target, recording.request_body, place)
    )


def _dialect(method: str, target: str) -> Dialect:
    return by_path("POST" if method == WEBSOCKET else method, target)


def _size(item: msgspec.Raw) -> int:
    return memoryview(item).nbytes
