"""Recorded exchanges, gathered by what a request may be compared with: the rungs of the ladder, each a lookup.

Only what is asked for is computed, and from what does not change: two threads that compute it at once get the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle

from recorder.model.recording import Recording
from recorder.replay.matching.fingerprint import Likeness, Place, Request, place, request_of, without_secrets
from recorder.replay.matching.noise import Rules
from recorder.replay.matching.noise_rules import How
from recorder.replay.matching.once import Once


class Entry:
    """A recorded exchange, and what it is compared by."""

    def __init__(self, number: int, recorded: Recording, rules: Rules) -> None:
        self.number = number
        self.recorded = recorded
        self.likeness = Likeness(without_secrets(request_of(recorded), rules), rules)
        self.place = place(self.likeness.request, rules)


class Line:
    """Entries that are alike, in recorded order."""

    def __init__(self) -> None:
        self.members: list[Entry] = []
        self.waiting: deque[Entry] = deque()
        self.again = cycle(self.members)  # for when none waits any more

    def add(self, entry: Entry) -> None:
        self.members.append(entry)
        self.waiting.append(entry)


Lines = Mapping[Hashable, Line]


def _lines(entries: Iterable[Entry], key: Callable[[Likeness], Hashable]) -> Lines:
    found: dict[Hashable, Line] = {}
    for entry in entries:
        found.setdefault(key(entry.likeness), Line()).add(entry)
    return found


class Group:
    """The entries of one place."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.exact = _lines(entries, lambda likeness: likeness.exact)

    @Once
    def quiet(self) -> Lines:
        return _lines(self.entries, lambda likeness: likeness.quiet)

    @Once
    def shapes(self) -> Lines:
        return _lines(self.entries, lambda likeness: likeness.shape)

    @Once
    def directories(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for entry in self.entries:
            found |= entry.likeness.directories
        return found


class Question:
    """A request as it is asked: on its own terms, then with the directories of the recording taken for noise too.

    An agent that runs elsewhere names its own directory; what the recorded model says still names the recorded one.
    """

    def __init__(self, request: Request, at: Place, rules: Rules, group: Group) -> None:
        self.place = at
        self.group = group
        self._request, self._rules = request, rules
        self.own = Likeness(request, rules)

    @Once
    def moved(self) -> Likeness:
        others = self.group.directories
        return self.own if self.own.directories.items() >= others.items() else self._with(others)

    def _with(self, others: Mapping[str, int]) -> Likeness:
        return Likeness(self._request, self._rules, others)

    def lines(self, until: How) -> Iterator[tuple[How, Line]]:
        """The entries that are the same, rung by rung."""
        for how, found in self._rungs():
            if how == "noise" and until == "exact":
                return
            if found is not None:
                yield how, found

    def _rungs(self) -> Iterator[tuple[How, Line | None]]:
        yield "exact", self.group.exact.get(self.own.exact)
        yield "noise", self.group.quiet.get(self.own.quiet)
        yield "noise", self.group.quiet.get(self.moved.quiet)

    def at_position(self, until: How) -> Sequence[Entry]:
        """The entries at the same position of a conversation, used or not."""
        shape = self.moved.shape if until == "position" else None
        line = self.group.shapes.get(shape) if shape is not None else None
        return line.members if line else ()
