"""The matcher: it finds the recorded exchange that answers a request.

Must not know: where recordings come from, and how answers are sent.

Rules of this file:

* Method, upstream, path and query must be the same. Then four rules, the strictest first: the body
  is the same; it is the same except for noise; it is the only unused one that is the same except
  for times and UUIDs in what the model reads; it is the only unused one at that position of a
  conversation. The last two are for agents, whose instructions are never the same twice: they are
  used only where the rules ask for them, and say what differs. The matcher never guesses: if none
  applies, it is a miss, which names the nearest recording and the differences.
* A request to an unknown host can be for any upstream: it is for the only one with a recording of
  that method, path and query. If there are several, path and headers decide, as in the proxy; else
  it is a miss.
* A server that needs no body may answer before it came: then the log has what came until then, and
  a request that begins so is the same.
* Equal requests are answered in recorded order, each recorded answer once. Without `strict`, a
  client that runs again gets the same answers: when all are used, they are given again in the same
  order, one for each request. GET reads a state: it uses its answers in order too, and then repeats
  the last one.
* A turn over WebSocket is the POST that requests the same (`recorder.wire.turns`). Where a request
  has only what is new since an earlier response, the whole conversations are compared, too, as
  noise is (`recorder.replay.matching.candidates`).
* The answer has the ids of the client that sent the request
  (`recorder.replay.matching.client_ids`).
* `dict.pop` hands out exchanges: it gives each key to one thread only. Everything else is computed
  from constant data, so two threads that compute it at once get the same result. There is no lock.
* Secrets are removed from both, as when a request is recorded: two requests never differ by a
  secret.
* Pure, and never raises, whatever the request.
* A response that was steered has a successor that no request asked for, on the same connection. A
  recording has it as a turn whose request is the `response.steer`; one of an older recorder has its
  messages with the connection. Either way they are sent behind the response that they continue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

import msgspec

from recorder.model.events import WEBSOCKET, CloseRecord, Recording, WebSocketTurn
from recorder.replay.matching.by_id import Responses, Retrieval
from recorder.replay.matching.candidates import (
    Candidate,
    CandidateQueue,
    Group,
    History,
    MatchQuery,
    Resembling,
)
from recorder.replay.matching.client_ids import pairs
from recorder.replay.matching.fingerprint import (
    MatchRequest,
    Once,
    Place,
    place,
    request_of,
    without_secrets,
)
from recorder.replay.matching.miss import (
    Miss,
    RequestDifference,
    all_used,
    elsewhere,
    may_go_unanswered,
    unlike,
)
from recorder.replay.matching.noise import DEFAULT_RULES, Rules
from recorder.replay.matching.rules import How
from recorder.wire.dialects import by_name
from recorder.wire.redaction.headers import redact_target
from recorder.wire.turns import (
    begins_response,
    is_connection,
    is_live_turn,
    is_prewarm,
    is_turn,
    message_ids,
    prewarm_id,
    was_asked_for,
    with_turns,
)


class Successor(NamedTuple):
    """The messages of such a response, with their wall times."""

    response_id: str
    exchange_id: str  # of its turn, or of the connection
    messages: Sequence[tuple[int, bytes]]


def successors(recordings: Iterable[Recording]) -> Mapping[str, Successor]:
    """Return the successors, by the id of the response that each continues."""
    found: dict[str, Successor] = {}
    for recorded in recordings:
        is_asked_for = is_turn(recorded) and was_asked_for(
            recorded.request.target, recorded.request_body
        )
        if is_asked_for or not (is_turn(recorded) or is_connection(recorded)):
            continue
        for messages in _responses(recorded):
            ids = message_ids(recorded.request.target, messages[0][1])
            if ids.previous_response_id is not None and ids.response_id is not None:
                successor = Successor(ids.response_id, recorded.exchange.exchange_id, messages)
                found.setdefault(ids.previous_response_id, successor)
    return found


def response_id(recorded: Recording) -> str | None:
    """Return the id of the response of a turn."""
    ids = (message_ids(recorded.request.target, piece.raw).response_id for piece in recorded.pieces)
    return next((id for id in ids if id is not None), None)


def following(id: str | None, found: Mapping[str, Successor]) -> Iterator[Successor]:
    """Yield the successors of a response, each behind the one that it continues."""
    seen: set[str] = set()
    while id is not None and id not in seen and (successor := found.get(id)) is not None:
        yield successor
        seen.add(id)
        id = successor.response_id


def _responses(recorded: Recording) -> Iterator[Sequence[tuple[int, bytes]]]:
    """Yield the messages of each response that begins in a recording."""
    messages: list[tuple[int, bytes]] = []
    for piece in recorded.pieces:
        if begins_response(recorded.request.target, piece.raw):
            if messages:
                yield messages
            messages = []
        elif not messages:
            continue
        messages.append((recorded.exchange.started_ns + piece.t_ns, piece.raw))
    if messages:
        yield messages


__all__ = [
    "Elsewhere",
    "HangUp",
    "Match",
    "MatchRequest",
    "Matcher",
    "Miss",
    "RequestDifference",
    "Seen",
    "request_of",
]

Elsewhere = Literal["fault", "forwarded"]
"""Who answered a request in place of a recording."""

HowAnswered = How | Elsewhere | Literal["miss", "probe"]
"""How a request was answered. A probe: nothing is recorded, and nothing is missed."""

SEEN_LIMIT = 10_000
"""Requests that are remembered: a mock server may run for days."""


class HangUp(msgspec.Struct, frozen=True):
    """The end that the server put to a WebSocket connection, behind the last of its turns."""

    after_ns: int  # the end of that turn
    code: int | None  # None: without a Close frame
    reason: str


class Match(msgspec.Struct, frozen=True):
    """The answer."""

    recorded: Recording
    how: How
    after: int | None = None  # of a stream that is resumed: only the events with greater numbers
    client_ids: Mapping[str, str] = {}  # recorded ones, and what the client has in their place
    # what gives a payload the ids of this request
    renumbered: Callable[[bytes], bytes] | None = None
    # messages behind it, each so long after the one before
    followed_by: tuple[tuple[int, bytes], ...] = ()
    hang_up: HangUp | None = None  # if it is the last turn of a connection that the server ended
    # at a position, where the request is another one: `instructions`, `input[2]`
    differing: tuple[str, ...] = ()


def _renumbering(recorded: Recording, body: bytes) -> Callable[[bytes], bytes] | None:
    made = by_name(recorded.exchange.api).renumbering
    return None if made is None else made(recorded.request_body, body)


class Seen(msgspec.Struct, frozen=True):
    """A request, and how it was answered."""

    method: str
    target: str  # redacted
    upstream: str
    body_bytes: int
    how: HowAnswered
    exchange_id: str | None = None  # of the recording that answered it
    message: str | None = None  # why no recording did
    differing: tuple[str, ...] = ()  # from the recording that answered it by its position


class Matcher:
    """Recorded exchanges, each to be given away once.

    `strict`: when all equal recordings are used, the next request is a miss; otherwise the first
    answer is given again, then the second, as to a client that runs again.
    """

    def __init__(
        self, recordings: Sequence[Recording], rules: Rules = DEFAULT_RULES, *, strict: bool = True
    ) -> None:
        self._rules = rules
        self._strict = strict
        self._history = History(recordings, rules)
        self._all = [
            Candidate(number, recorded, rules, self._history)
            for number, recorded in enumerate(recordings)
        ]
        places: dict[Place, list[Candidate]] = {}
        for candidate in self._all:
            if not is_live_turn(candidate.original):  # those are played back with their connection
                places.setdefault(candidate.place, []).append(candidate)
        self._groups = {place: Group(candidates) for place, candidates in places.items()}
        self._unused = {candidate.number: candidate for candidate in self._all}
        # given where only one was left, by the key that was asked
        self._resembled: dict[bytes | None, Candidate] = {}
        self._seen: deque[Seen] = deque(maxlen=SEEN_LIMIT)

    def match(self, request: MatchRequest) -> Match | Miss:
        """Return the answer to a request, and mark it as used."""
        request = without_secrets(request, self._rules)
        found = self._match(request)
        if isinstance(found, Match) and is_turn(found.recorded):
            turn = self._by_id[found.recorded.exchange.exchange_id].original
            found = msgspec.structs.replace(
                found, hang_up=self._hang_up(turn), followed_by=self._followed_by(turn)
            )
        elif isinstance(found, Match) and request.method == WEBSOCKET:
            found = msgspec.structs.replace(found, recorded=self._with_turns(found.recorded))
        if isinstance(found, Match):
            found = msgspec.structs.replace(
                found, renumbered=_renumbering(found.recorded, request.body)
            )
            exchange_id = found.recorded.exchange.exchange_id
            self._seen.append(_seen(request, found.how, exchange_id, differing=found.differing))
            return found
        self._seen.append(
            _seen(request, "probe" if found.is_optional else "miss", message=found.message)
        )
        if is_prewarm(request.target, request.body):
            self._history.add(prewarm_id(request.body), request)
        return found

    @Once
    def _by_id(self) -> Mapping[str, Candidate]:
        return {candidate.original.exchange.exchange_id: candidate for candidate in self._all}

    @Once
    def _live_turns(self) -> Mapping[str, Sequence[Candidate]]:
        """Return the turns of live sessions, by the id of the connection."""
        found: dict[str, list[Candidate]] = {}
        for candidate in self._all:
            place = candidate.original.request.websocket
            if isinstance(place, WebSocketTurn) and is_live_turn(candidate.original):
                found.setdefault(place.connection, []).append(candidate)
        return found

    def _with_turns(self, connection: Recording) -> Recording:
        """Return the connection of a live session with its turns, which are played back with it;
        mark them as used.
        """
        turns = self._live_turns.get(connection.exchange.exchange_id, ())
        for turn in turns:
            self._take(turn)
        return with_turns(connection, [turn.original for turn in turns]) if turns else connection

    @Once
    def _successors(self) -> Mapping[str, Successor]:
        return successors(candidate.original for candidate in self._all)

    def _followed_by(self, turn: Recording) -> tuple[tuple[int, bytes], ...]:
        """Return the messages of the responses that continue a turn without a request, and mark
        them as used.
        """
        if not self._successors:
            return ()
        messages: list[tuple[int, bytes]] = []
        before_ns = turn.exchange.started_ns + turn.end_ns
        for successor in following(response_id(turn), self._successors):
            self._take(self._by_id[successor.exchange_id])
            for at_ns, payload in successor.messages:
                messages.append((max(0, at_ns - before_ns), payload))
                before_ns = at_ns
        return tuple(messages)

    @Once
    def _last_turns(self) -> Mapping[str, Recording]:
        """Return the last turn of each recorded connection on which there were turns, by its id."""
        last: dict[str, tuple[int, Recording]] = {}
        for turn in (candidate.original for candidate in self._all):
            place = turn.request.websocket
            if (
                isinstance(place, WebSocketTurn)
                and place.number >= last.get(place.connection, (0, turn))[0]
            ):
                last[place.connection] = place.number, turn
        return {connection: turn for connection, (_, turn) in last.items()}

    def _hang_up(self, turn: Recording) -> HangUp | None:
        """Return how the server ended the connection after a turn; None if it was not the last, or
        the client did.
        """
        place = turn.request.websocket
        if not isinstance(place, WebSocketTurn) or self._last_turns[place.connection] is not turn:
            return None
        connection = self._by_id.get(place.connection)
        close = server_close(connection.original) if connection is not None else None
        if connection is None or close is None:
            return None
        ended_ns = connection.original.exchange.started_ns + connection.original.end_ns
        after_ns = max(0, ended_ns - turn.exchange.started_ns - turn.end_ns)
        return HangUp(after_ns, close.code, close.reason or "")

    def connection(self, request: MatchRequest) -> Recording | None:
        """Return the recorded handshake for one whose messages are matched one by one, and mark it
        as used.

        There may be none: the recordings may be of HTTP. With more handshakes than were recorded
        the last is returned.
        """
        group = self._groups.get(self._place(request))
        if group is None:
            return None
        waiting = (candidate for candidate in group.candidates if self._take(candidate))
        return next(waiting, group.candidates[-1]).original

    def has_requests(self, request: MatchRequest) -> bool:
        """Return whether anything was recorded at the place of a request."""
        return self._place(request) in self._groups

    def note(self, request: MatchRequest, how: Elsewhere, message: str) -> None:
        """Record that a request was answered by something else."""
        self._seen.append(_seen(request, how, message=message))

    def unused(self) -> list[Recording]:
        """Return the exchanges that were not requested, in recorded order.

        Whether a client probes, prewarms, or connects again is a matter of chance.
        """
        waiting = (candidate for candidate in self._all if candidate.number in self._unused)
        return [each.original for each in waiting if self._is_needed(each)]

    def _is_needed(self, candidate: Candidate) -> bool:
        request = candidate.fingerprint.request
        if request.method == WEBSOCKET:  # its turns stand for it
            return candidate.original.exchange.exchange_id not in self._last_turns
        return not may_go_unanswered(request)

    def seen(self) -> list[Seen]:
        """Return the requests and how they were answered, in order."""
        return list(self._seen)

    def _match(self, request: MatchRequest) -> Match | Miss:
        at = self._place(request)
        group = self._groups.get(at)
        query = MatchQuery(request, at, self._rules, group, self._history) if group else None
        found = self._alike(query) if query else None
        if found is None and (retrieved := self._retrieved(request, at)):
            found = Match(retrieved.recorded, "exact", retrieved.after)
        if found is not None:
            return found
        if query is None:
            return elsewhere(request, at, self._groups)
        return unlike(query, self._unused, self._rules.until)

    def _place(self, request: MatchRequest) -> Place:
        at = place(request, self._rules)
        if request.upstream_is_known or at in self._groups:
            return at
        others = [other for other in self._groups if other._replace(upstream=at.upstream) == at]
        return others[0] if len(others) == 1 else at

    def _retrieved(self, request: MatchRequest, at: Place) -> Retrieval | None:
        return (
            self._responses.find(at, anywhere=not request.upstream_is_known)
            if at.method == "GET"
            else None
        )

    @Once
    def _responses(self) -> Responses:
        return Responses((candidate.place, candidate.recorded) for candidate in self._all)

    def _alike(self, query: MatchQuery) -> Match | Miss | None:
        """Find an equal exchange, down the ladder.

        Where equals are all used, what merely resembles is not an answer.
        """
        used: tuple[How, CandidateQueue] | None = None
        for how, queue in query.queues(self._rules.until):
            if queue is None:
                continue
            if (candidate := self._next(queue)) is not None:
                return _match(query, candidate, how)
            used = used or (how, queue)
        if used is None:
            resembling = map(partial(self._only_one, query), query.resembling(self._rules.until))
            return next(filter(None, resembling), None)
        how, queue = used
        if query.place.method in ("GET", "HEAD"):
            return _match(query, queue.members[-1], how)
        return all_used(query, queue) if self._strict else _match(query, next(queue.again), how)

    def _next(self, queue: CandidateQueue) -> Candidate | None:
        """Return the first unused exchange of the queue, and mark it as used."""
        while queue.waiting:
            try:
                candidate = queue.waiting.popleft()
            except IndexError:  # another thread took it
                break
            if self._take(candidate):
                return candidate
        return None

    def _take(self, candidate: Candidate) -> bool:
        return self._unused.pop(candidate.number, None) is not None

    def _only_one(self, query: MatchQuery, resembling: Resembling) -> Match | None:
        """Match the only one that can be meant: of the unused ones, or when all are used, the one
        that was it then.

        Of several, each other one had been used when it was given, as what is equal to something
        else.
        """
        how, key, members = resembling
        unused = resembling.unused(self._unused)
        candidate: Candidate | None = None
        if len(unused) == 1 and self._take(unused[0]):
            candidate = self._resembled[key] = unused[0]
        elif not unused and not self._strict:
            candidate = members[0] if len(members) == 1 else self._resembled.get(key)
        if candidate is None:
            return None
        found = _match(query, candidate, how)
        return msgspec.structs.replace(found, differing=query.differing(candidate))


def server_close(connection: Recording) -> CloseRecord | None:
    """Return how the server ended a connection; None if the client did, or nobody."""
    close = connection.end.close if connection.end is not None else None
    return close if isinstance(close, CloseRecord) and close.by == "server" else None


def _match(query: MatchQuery, candidate: Candidate, how: How) -> Match:
    client_ids = (
        {} if how == "exact" else pairs(candidate.fingerprint.client_ids, query.own.client_ids)
    )
    return Match(candidate.recorded, how, client_ids=client_ids)


def _seen(
    request: MatchRequest,
    how: HowAnswered,
    exchange_id: str | None = None,
    message: str | None = None,
    differing: tuple[str, ...] = (),
) -> Seen:
    target = redact_target(request.target)
    return Seen(
        request.method,
        target,
        request.upstream,
        len(request.body),
        how,
        exchange_id,
        message,
        differing,
    )
