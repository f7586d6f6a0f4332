"""Which recorded exchange answers a request.

Rules of this file:

* Method, upstream, path and query must be the same. Then a ladder, the surest rung first: the same body; the same but
  for noise; the only one unused at that position of a conversation. It is never a guess: the next rung is a miss, and
  that says what was nearest and where it differs.
* A request to a host that nobody has named can be for any upstream: it is for the only one that has the rest of its
  place. Where several have, it is for the one that its path and headers tell, as with the proxy, or a miss.
* Requests that are alike are answered in recorded order, each recorded answer once. Where that is not strict, a client
  that runs again is answered as the first time: when all are used, they are given again in the same order, one for each
  request. GET asks for a state: it uses up its answers in order too, and then the last one stands.
* The answer names the handles of the client that asks (`recorder.replay.matching.handles`).
* Exchanges are given away by `dict.pop`, which gives each key to one thread only; all else is computed from what does
  not change, so that two threads that compute it at once get the same. There is no lock to hold.
* Secrets are taken out of both, as they are when a request is recorded: they tell no two requests apart.
* Pure, and never raises, whatever is asked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from recorder.replay.matching.by_id import Responses, Retrieval
from recorder.replay.matching.candidates import Entry, Group, Line, Question
from recorder.replay.matching.differences import Difference
from recorder.replay.matching.fingerprint import Place, Request, place, request_of, without_secrets
from recorder.replay.matching.handles import pairs
from recorder.replay.matching.miss import Miss, all_used, elsewhere, unlike
from recorder.replay.matching.noise import DEFAULT_RULES, Rules
from recorder.replay.matching.noise_rules import How
from recorder.replay.matching.once import Once
from recorder.wire.grouping.probes import is_optional
from recorder.wire.recording import Recorded
from recorder.wire.redaction.headers import redact_target

__all__ = ["Difference", "Elsewhere", "Match", "Matcher", "Miss", "Request", "Seen", "request_of"]

Elsewhere = Literal["fault", "forwarded"]
"""Who answered a request in place of a recording."""

SEEN_LIMIT = 10_000
"""Requests that are remembered: a mock server may run for days."""


class Match(msgspec.Struct, frozen=True):
    """The answer."""

    recorded: Recorded
    how: How
    after: int | None = None  # of a stream that is resumed: only the events with greater numbers
    handles: Mapping[str, str] = {}  # recorded ones, and what the client has in their place


class Seen(msgspec.Struct, frozen=True):
    """What was asked, and how it was answered."""

    method: str
    target: str  # redacted
    upstream: str
    body_bytes: int
    how: How | Elsewhere | Literal["miss", "probe"]  # a probe: nothing is recorded, and nothing is missed
    exchange_id: str | None = None  # of the recording that answered it
    message: str | None = None  # why no recording did


class Matcher:
    """Recorded exchanges, each to be given away once.

    `strict`: when all that are alike are used, the next request is a miss; otherwise the first answer is given again,
    then the second, as to a client that runs again.
    """

    def __init__(self, recordings: Sequence[Recorded], rules: Rules = DEFAULT_RULES, *, strict: bool = True) -> None:
        self._rules = rules
        self._strict = strict
        self._entries = [Entry(number, recorded, rules) for number, recorded in enumerate(recordings)]
        places: dict[Place, list[Entry]] = {}
        for entry in self._entries:
            places.setdefault(entry.place, []).append(entry)
        self._groups = {place: Group(entries) for place, entries in places.items()}
        self._unused = {entry.number: entry for entry in self._entries}
        self._at_positions: dict[bytes | None, Entry] = {}  # given there, by the shape that was asked
        self._seen: deque[Seen] = deque(maxlen=SEEN_LIMIT)

    def match(self, request: Request) -> Match | Miss:
        """The answer to a request, which is then used."""
        request = without_secrets(request, self._rules)
        found = self._match(request)
        self._seen.append(_seen(request, found))
        return found

    def note(self, request: Request, how: Elsewhere, message: str) -> None:
        """That a request was answered by something else."""
        self._seen.append(Seen(*_asked(request), how, message=message))

    def unused(self) -> list[Recorded]:
        """What nobody has asked for, in recorded order. Whether a client probes is a matter of chance."""
        waiting = (entry.recorded for entry in self._entries if entry.number in self._unused)
        return [each for each in waiting if not is_optional(each.request.method, each.request.target)]

    def seen(self) -> list[Seen]:
        """What was asked and how it was answered, in order."""
        return list(self._seen)

    def _match(self, request: Request) -> Match | Miss:
        at = self._place(request)
        group = self._groups.get(at)
        question = Question(request, at, self._rules, group) if group else None
        found = self._alike(question) if question else None
        if found is None and (retrieved := self._retrieved(request, at)):
            found = Match(retrieved.recorded, "exact", retrieved.after)
        if found is not None:
            return found
        if question is None:
            return elsewhere(request, at, self._groups)
        return unlike(question, self._unused, len(self._candidates(question)))

    def _place(self, request: Request) -> Place:
        at = place(request, self._rules)
        if request.upstream_is_known or at in self._groups:
            return at
        others = [other for other in self._groups if other._replace(upstream=at.upstream) == at]
        return others[0] if len(others) == 1 else at

    def _retrieved(self, request: Request, at: Place) -> Retrieval | None:
        return self._responses.find(at, anywhere=not request.upstream_is_known) if at.method == "GET" else None

    @Once
    def _responses(self) -> Responses:
        return Responses((entry.place, entry.recorded) for entry in self._entries)

    def _alike(self, question: Question) -> Match | Miss | None:
        """Down the ladder. Where equals are all used, what merely resembles is no answer."""
        used: tuple[How, Line] | None = None
        for how, line in question.lines(self._rules.until):
            if (entry := self._next(line)) is not None:
                return _match(question, entry, how)
            used = used or (how, line)
        if used is None:
            return self._at_position(question)
        how, line = used
        if question.place.method in ("GET", "HEAD"):
            return _match(question, line.members[-1], how)
        return all_used(question, line) if self._strict else _match(question, next(line.again), how)

    def _next(self, line: Line) -> Entry | None:
        """The first of the line that nobody has, from now on the caller's."""
        while line.waiting:
            try:
                entry = line.waiting.popleft()
            except IndexError:  # another thread took it
                break
            if self._take(entry):
                return entry
        return None

    def _take(self, entry: Entry) -> bool:
        return self._unused.pop(entry.number, None) is not None

    def _at_position(self, question: Question) -> Match | None:
        entry = self._only_one(question)
        return None if entry is None else _match(question, entry, "position")

    def _only_one(self, question: Question) -> Entry | None:
        """The only one that can be meant: of the unused ones, or when all are used, whoever it was then.

        Of several, each other one had been used when it was given, as what is equal to something else.
        """
        shape, members = question.moved.shape, question.at_position(self._rules.until)
        candidates = self._candidates(question)
        if len(candidates) == 1 and self._take(candidates[0]):
            self._at_positions[shape] = candidates[0]
            return candidates[0]
        if candidates or self._strict:
            return None
        return members[0] if len(members) == 1 else self._at_positions.get(shape)

    def _candidates(self, question: Question) -> list[Entry]:
        """The unused ones at the same position of a conversation."""
        return [entry for entry in question.at_position(self._rules.until) if entry.number in self._unused]


def _match(question: Question, entry: Entry, how: How) -> Match:
    handles = {} if how == "exact" else pairs(entry.likeness.handles, question.own.handles)
    return Match(entry.recorded, how, handles=handles)


def _seen(request: Request, found: Match | Miss) -> Seen:
    if isinstance(found, Match):
        return Seen(*_asked(request), found.how, found.recorded.exchange.exchange_id)
    how: Literal["miss", "probe"] = "probe" if is_optional(request.method, request.target) else "miss"
    return Seen(*_asked(request), how, message=found.message)


def _asked(request: Request) -> tuple[str, str, str, int]:
    return request.method, redact_target(request.target), request.upstream, len(request.body)
