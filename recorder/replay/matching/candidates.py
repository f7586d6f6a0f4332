"""Recorded exchanges, gathered by what a request may be compared with: the rungs of the ladder, each a lookup.

Values are computed on demand, and from constant data: two threads that compute it at once get the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle

from recorder.model.recording import Recording
from recorder.replay.matching.fingerprint import Fingerprint, MatchRequest, Place, place, request_of, without_secrets
from recorder.replay.matching.noise import Rules
from recorder.replay.matching.noise_rules import How
from recorder.replay.matching.once import Once


class Candidate:
    """A recorded exchange with its place and fingerprint."""

    def __init__(self, number: int, recorded: Recording, rules: Rules) -> None:
        self.number = number
        self.recorded = recorded
        self.fingerprint = Fingerprint(without_secrets(request_of(recorded), rules), rules)
        self.place = place(self.fingerprint.request, rules)


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


def _queues(candidates: Iterable[Candidate], key: Callable[[Fingerprint], Hashable]) -> QueuesByKey:
    found: dict[Hashable, CandidateQueue] = {}
    for candidate in candidates:
        found.setdefault(key(candidate.fingerprint), CandidateQueue()).add(candidate)
    return found


class Group:
    """The candidates of one place."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self.candidates = candidates
        self.exact = _queues(candidates, lambda fingerprint: fingerprint.exact)

    @Once
    def quiet(self) -> QueuesByKey:
        return _queues(self.candidates, lambda fingerprint: fingerprint.quiet)

    @Once
    def shapes(self) -> QueuesByKey:
        return _queues(self.candidates, lambda fingerprint: fingerprint.shape)

    @Once
    def directories(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for candidate in self.candidates:
            found |= candidate.fingerprint.directories
        return found


class MatchQuery:
    """A request to be matched: on its own terms, then with the directories of the recording taken for noise too.

    An agent that runs elsewhere names its own directory; the recorded answer still names the recorded one.
    """

    def __init__(self, request: MatchRequest, at: Place, rules: Rules, group: Group) -> None:
        self.place = at
        self.group = group
        self._request, self._rules = request, rules
        self.own = Fingerprint(request, rules)

    @Once
    def moved(self) -> Fingerprint:
        others = self.group.directories
        return self.own if self.own.directories.items() >= others.items() else self._with(others)

    def _with(self, others: Mapping[str, int]) -> Fingerprint:
        return Fingerprint(self._request, self._rules, others)

    def queues(self, until: How) -> Iterator[tuple[How, CandidateQueue]]:
        """Yield the queues of candidates that are the same, rung by rung."""
        for how, found in self._rungs():
            if how == "noise" and until == "exact":
                return
            if found is not None:
                yield how, found

    def _rungs(self) -> Iterator[tuple[How, CandidateQueue | None]]:
        yield "exact", self.group.exact.get(self.own.exact)
        yield "noise", self.group.quiet.get(self.own.quiet)
        yield "noise", self.group.quiet.get(self.moved.quiet)

    def at_position(self, until: How) -> Sequence[Candidate]:
        """Return the candidates at the same position of a conversation, used or not."""
        shape = self.moved.shape if until == "position" else None
        queue = self.group.shapes.get(shape) if shape is not None else None
        return queue.members if queue else ()
