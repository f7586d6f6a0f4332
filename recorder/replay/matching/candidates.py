"""Recorded exchanges, gathered by what a request may be compared with: the rungs of the ladder,
each a lookup.

Values are computed on demand, and from constant data: two threads that compute it at once get the
same.

Logical requests as they are matched: all that the model saw, where a request has only what is new.

A client over WebSocket names the response before it with almost every request, the same client over
HTTP sends the whole history: both are the same request here. How it is put together says
`recorder.wire.logical_request`. A link that leads to no recording stays as it is: then the ids are
compared.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

import msgspec

from recorder.model.events import Recording
from recorder.replay.matching.fingerprint import (
    Fingerprint,
    MatchRequest,
    Once,
    Place,
    place,
    request_of,
    without_secrets,
)
from recorder.replay.matching.noise import Rules
from recorder.replay.matching.rules import RUNGS, How
from recorder.wire.dialects import DIALECTS
from recorder.wire.logical_request import LogicalRequests, links_in
from recorder.wire.turns import as_sse, is_turn

MADE_LIMIT = 256
"""Prewarms without a recording that are remembered, the oldest forgotten first: one for each open
connection, and nobody replays to so many at once."""

_ITEMS = frozenset(each.continuation.items for each in DIALECTS if each.continuation is not None)
"""The members of requests that have the items."""


class History:
    """The conversations that responses end, by the id of the response."""

    def __init__(self, recordings: Sequence[Recording], rules: Rules) -> None:
        """Take the recordings, of which nothing is decoded before the first link is followed."""
        self._rules = rules
        self._made = OrderedDict[str, tuple[str, bytes]]()
        self._requests = LogicalRequests(recordings, compared=True, unrecorded=self._made.get)

    def add(self, id: str, request: MatchRequest) -> None:
        """Add a response without output that answered a request."""
        self._made[id] = request.target, request.body
        while len(self._made) > MADE_LIMIT:
            self._made.popitem(last=False)

    def is_linked(self, request: MatchRequest) -> bool:
        """Return whether a request goes on from a response that is known here."""
        return self._requests.is_known(links_in(request.target, request.body))

    def logical(self, request: MatchRequest, recorded: Recording | None = None) -> MatchRequest:
        """Return a request with all its items, in the form in which they are compared; `recorded`
        is its recording.
        """
        if recorded is not None:
            found = self._requests.of(recorded)
        else:
            found = self._requests.of_body(request.target, request.body)
        if found.items is None:
            return request
        return without_secrets(msgspec.structs.replace(request, body=found.encoded()), self._rules)

    def length(self, request: MatchRequest, recorded: Recording | None = None) -> int:
        """Return a number that is equal for requests whose logical requests are: of their items, if
        those count.
        """
        if any(map(self._rules.is_field, _ITEMS)):
            return 0
        if recorded is not None:
            return self._requests.length(recorded)
        return self._requests.length_of_body(request.target, request.body)


NEAR_LIMIT = 32
"""Logical requests that are put together to find the nearest one: each may be as long as all
recordings.
"""


class Candidate:
    """A recorded exchange with its place and fingerprint."""

    def __init__(self, number: int, original: Recording, rules: Rules, history: History) -> None:
        self.number = number
        self.original = original
        self.fingerprint = Fingerprint(without_secrets(request_of(original), rules), rules)
        self.place = place(self.fingerprint.request, rules)
        self._rules, self._history = rules, history

    @Once
    def recorded(self) -> Recording:
        """Return the recording as it answers a request over HTTP."""
        return as_sse(self.original) if is_turn(self.original) else self.original

    @Once
    def is_linked(self) -> bool:
        return self._history.is_linked(self.fingerprint.request)

    @Once
    def length(self) -> int:
        """Return the number of items of the logical request, by which most candidates are told
        apart.
        """
        return self._history.length(self.fingerprint.request, self.original)

    def logical(self) -> Fingerprint:
        """Return the fingerprint of the logical request, made again: all of them together may be
        far over the size of the recordings.
        """
        return Fingerprint(
            self._history.logical(self.fingerprint.request, self.original), self._rules
        )

    @Once
    def digests(self) -> LogicalDigests:
        """Return what is compared of the logical request before its values are."""
        whole = self.logical()
        return LogicalDigests(whole.quiet, whole.stamped, whole.shape, whole.outline)

    def compared(self, *, is_logical: bool) -> Fingerprint | LogicalDigests:
        return self.digests if is_logical else self.fingerprint


class LogicalDigests(NamedTuple):
    """The parts of a `Fingerprint` that are as small for a long conversation as for a short one, or
    nearly.
    """

    quiet: bytes
    stamped: bytes | None
    shape: bytes | None
    outline: Mapping[str, int]


class CandidateQueue:
    """Equal candidates, in recorded order."""

    def __init__(self) -> None:
        self.members: list[Candidate] = []
        self.waiting: deque[Candidate] = deque()
        self.again = cycle(self.members)  # for when none waits any more

    def add(self, candidate: Candidate) -> None:
        self.members.append(candidate)
        self.waiting.append(candidate)


QueuesByKey = Mapping[Hashable, CandidateQueue]


def _queues(candidates: Iterable[Candidate], key: Callable[[Candidate], Hashable]) -> QueuesByKey:
    found: dict[Hashable, CandidateQueue] = {}
    for candidate in candidates:
        found.setdefault(key(candidate), CandidateQueue()).add(candidate)
    return found


class Group:
    """The candidates of one place; with `is_logical` their logical requests are compared."""

    def __init__(self, candidates: Sequence[Candidate], *, is_logical: bool = False) -> None:
        self.candidates, self._is_logical = candidates, is_logical
        self.exact = (
            {} if is_logical else _queues(candidates, lambda candidate: candidate.fingerprint.exact)
        )

    @Once
    def quiet(self) -> QueuesByKey:
        return _queues(
            self.candidates, lambda candidate: candidate.compared(is_logical=self._is_logical).quiet
        )

    @Once
    def stamped(self) -> QueuesByKey:
        return _queues(
            self.candidates,
            lambda candidate: candidate.compared(is_logical=self._is_logical).stamped,
        )

    @Once
    def shapes(self) -> QueuesByKey:
        return _queues(
            self.candidates, lambda candidate: candidate.compared(is_logical=self._is_logical).shape
        )

    def begun(self, body: bytes) -> CandidateQueue | None:
        """Return the candidates that were answered before all of their body had come, if this may
        be the whole.
        """
        begun = [each for each in self._begun if body.startswith(each.fingerprint.request.body)]
        return _queues(begun, lambda _: None).get(None)

    @Once
    def _begun(self) -> Sequence[Candidate]:
        return [
            candidate for candidate in self.candidates if not candidate.original.request.complete
        ]

    @Once
    def has_links(self) -> bool:
        """Return whether a recorded request here has only what was new since an earlier response."""
        return any(candidate.is_linked for candidate in self.candidates)

    @Once
    def by_length(self) -> Mapping[int, Group]:
        """Return the candidates by the number of items of their logical requests.

        A conversation of 1,000 requests has 1,000 logical requests, each longer than the one
        before. Only those that have as many items as the request are put together and compared.
        """
        found: dict[int, list[Candidate]] = {}
        for candidate in self.candidates:
            found.setdefault(candidate.length, []).append(candidate)
        return {length: Group(candidates, is_logical=True) for length, candidates in found.items()}

    @Once
    def directories(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for candidate in self.candidates:
            found |= candidate.fingerprint.directories
        return found


class Resembling(NamedTuple):
    """The candidates, used or not, that resemble a request on a rung where only one can be meant."""

    how: How
    key: bytes | None  # that they share with the request
    members: Sequence[Candidate]

    @classmethod
    def of(cls, how: How, key: bytes | None, queues: QueuesByKey) -> Resembling:
        queue = queues.get(key) if key is not None else None
        return cls(how, key, queue.members if queue else ())

    def unused(self, unused: Container[int]) -> Sequence[Candidate]:
        """Return those that no request has used."""
        return [candidate for candidate in self.members if candidate.number in unused]


class MatchQuery:
    """A request to be matched: on its own terms, then with the directories of the recording taken
    for noise too.

    An agent that runs elsewhere names its own directory; the recorded answer still names the
    recorded one.
    """

    def __init__(
        self, request: MatchRequest, at: Place, rules: Rules, group: Group, history: History
    ) -> None:
        self.place = at
        self.group = group
        self._request, self._rules, self._history = request, rules, history
        self.own = Fingerprint(request, rules)

    @Once
    def is_logical(self) -> bool:
        """Return whether logical requests are compared: there is a link in this request, or in a
        recorded one.
        """
        return self._history.is_linked(self._request) or self.group.has_links

    @Once
    def length(self) -> int:
        """Return the number of items of the logical request."""
        return self._history.length(self._request)

    @Once
    def alike(self) -> Group | None:
        """Return the candidates that can be equal to this request: by its logical one, if those are
        compared.
        """
        return self.group.by_length.get(self.length) if self.is_logical else self.group

    @property
    def near(self) -> Sequence[Candidate]:
        """Return the candidates of which one is the nearest: of logical requests, some with about
        as many items.
        """
        if not self.is_logical:
            return self.group.candidates
        nearest_first = sorted(
            self.group.candidates, key=lambda each: abs(each.length - self.length)
        )
        return nearest_first[:NEAR_LIMIT]

    @Once
    def widest(self) -> Fingerprint:
        """Return the fingerprint that the last rungs compare."""
        if not self.is_logical:
            return self.moved
        return Fingerprint(
            self._history.logical(self._request), self._rules, self.group.directories
        )

    def recorded(self, candidate: Candidate) -> Fingerprint:
        """Return the fingerprint of a candidate that `widest` is compared with."""
        return candidate.logical() if self.is_logical else candidate.fingerprint

    def outline(self, candidate: Candidate) -> Mapping[str, int]:
        """Return the outline of that fingerprint."""
        return candidate.compared(is_logical=self.is_logical).outline

    def differing(self, candidate: Candidate) -> tuple[str, ...]:
        """Return the members of the body, or elements of them, that differ beyond noise."""
        differences = self.outline(candidate).items() ^ self.widest.outline.items()
        return tuple(sorted({path for path, _ in differences}))

    @Once
    def moved(self) -> Fingerprint:
        others = self.group.directories
        if self.own.directories.items() >= others.items():
            return self.own
        return Fingerprint(self._request, self._rules, others)

    def queues(self, until: How) -> Iterator[tuple[How, CandidateQueue | None]]:
        """Yield the queues of candidates that are the same, rung by rung: each is looked up when it
        is wanted.
        """
        yield "exact", self.group.exact.get(self.own.exact)
        if until == "exact":
            return
        yield "noise", self.group.quiet.get(self.own.quiet)
        yield "noise", self.group.quiet.get(self.moved.quiet)
        if self.is_logical and self.alike is not None:
            yield "noise", self.alike.quiet.get(self.widest.quiet)
        yield "noise", self.group.begun(self._request.body)

    def resembling(self, until: How) -> Iterator[Resembling]:
        """Yield the candidates that are not the same, rung by rung."""
        allowed = RUNGS.index(until)
        if self.alike is None or allowed < RUNGS.index("stamps"):
            return
        yield Resembling.of("stamps", self.widest.stamped, self.alike.stamped)
        if allowed >= RUNGS.index("position"):
            yield Resembling.of("position", self.widest.shape, self.alike.shapes)
