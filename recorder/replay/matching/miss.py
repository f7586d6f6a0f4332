"""Why no recorded exchange answers a request: what comes nearest to it, and where that differs.

Work is bounded, whatever was recorded and whatever is asked: bodies are compared by checksums of their parts first.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import msgspec

from recorder.model.text import counted
from recorder.replay.matching.candidates import Entry, Group, Line, Question
from recorder.replay.matching.differences import Difference, differences
from recorder.replay.matching.fingerprint import NO_JSON, Likeness, Place, Request, canonical, json_value
from recorder.wire.recording import Recorded

NEAREST_LIMIT = 8
"""Recorded requests that are compared in full to find the nearest: the best by the checksums of their parts."""

NEAREST_BYTES = 32 * 2**20
"""Of their bodies together, but for the first: comparing that much takes under a second."""

COUNT_LIMIT = 1000
"""Differences that are counted."""

LISTED = 12
"""Differences, or places, that a message lists."""

INDENT = "  "
"""Before each of them."""


class Miss(msgspec.Struct, frozen=True):
    """Nothing answers it, and why."""

    request: Request
    nearest: Recorded | None
    differences: list[Difference]
    message: str  # for a person; it quotes both requests

    @property
    def line(self) -> str:
        """The message on one line: what it lists, between semicolons."""
        lines = self.message.split("\n")
        said = [each for each in lines if not each.startswith(INDENT)]
        listed = [each.strip() for each in lines if each.startswith(INDENT)]
        return " ".join([*said, "; ".join(listed)]).strip()


def all_used(question: Question, line: Line) -> Miss:
    """As often as it is asked, it was not recorded."""
    count = len(line.members)
    answers = "The one recorded answer is" if count == 1 else f"All {count} recorded answers are"
    message = f"{answers} used: {question.place} was asked with this body more often than it was recorded."
    return Miss(question.own.request, line.members[-1].recorded, [], message)


def unlike(question: Question, unused: Container[int], alike: int) -> Miss:
    """Nothing is equal; `alike` are at the same position of a conversation, and unused."""
    nearest, found = _nearest(question, unused)
    lines = [f"Nothing recorded answers {question.place}: of {len(question.group.entries)} there, none is equal."]
    if alike > 1:
        lines.append(f"{alike} of them are at the same position of a conversation: which is meant is unclear.")
    lines.append(f"The nearest is {_named(nearest, unused)}. It differs in {_counted(found)}:")
    more = [f"and {len(found) - LISTED} more"] if len(found) > LISTED else []
    message = _listed(lines, [*map(str, found[:LISTED]), *more])
    return Miss(question.own.request, nearest.recorded, found, message)


def elsewhere(request: Request, at: Place, groups: Mapping[Place, Group]) -> Miss:
    """Nothing was recorded at that place: what was, at others."""
    if not groups:
        return Miss(request, None, [], f"Nothing recorded answers {at}: there are no recordings.")
    near = min(groups, key=lambda other: len(_parting(other, at)) + (other.path != at.path))
    counts = [f"{place}: {len(group.entries)}" for place, group in groups.items()]
    more = [f"and {len(counts) - LISTED} other places"] if len(counts) > LISTED else []
    message = _listed([f"Nothing recorded answers {at}. Recorded were:"], [*counts[:LISTED], *more])
    return Miss(request, groups[near].entries[0].recorded, _parting(near, at), message)


def _parting(recorded: Place, asked: Place) -> list[Difference]:
    sides = zip(Place._fields, recorded.words, asked.words, strict=True)
    return [Difference(name, theirs, mine) for name, theirs, mine in sides if theirs != mine]


def _nearest(question: Question, unused: Container[int]) -> tuple[Entry, list[Difference]]:
    """By the number of differences: found by checksums of the parts, and counted where those are the fewest."""
    asked, value = question.moved, question.moved.value()

    def distance(entry: Entry) -> tuple[int, bool, int]:
        parts = len(entry.likeness.outline.items() ^ asked.outline.items())
        return parts, entry.number not in unused, entry.number

    first, *others = sorted(question.group.entries, key=distance)[:NEAREST_LIMIT]
    best = first, _compared(first.likeness, value, asked.request, COUNT_LIMIT)
    budget = NEAREST_BYTES
    for entry in others:
        budget -= len(entry.recorded.request_body) + len(asked.request.body)
        if budget < 0:
            break
        found = _compared(entry.likeness, value, asked.request, _count(best[1]))
        best = (entry, found) if _count(found) < _count(best[1]) else best
    return best


def _count(found: Sequence[Difference]) -> int:
    """How many differences those are: where nothing can be compared, the whole is more than any part."""
    return COUNT_LIMIT if any(each.path == "" for each in found) else len(found)


def _compared(recorded: Likeness, value: Any, asked: Request, limit: int) -> list[Difference]:
    """Where they differ but for noise; where only noise differs, the noise."""
    theirs = recorded.value()
    if theirs is NO_JSON or value is NO_JSON:
        recorded_bytes, asked_bytes = (f"{len(each.body)} bytes" for each in (recorded.request, asked))
        return [Difference("", recorded_bytes, asked_bytes)]
    ours, mine = json_value(recorded.request.body), json_value(asked.body)
    found = differences(theirs, value, limit) or differences(ours, mine, limit)
    return found or differences(canonical(ours).decode(), canonical(mine).decode(), limit)  # Python takes 1 for true


def _named(entry: Entry, unused: Container[int]) -> str:
    id = entry.recorded.exchange.exchange_id
    name = entry.recorded.name or f"number {entry.number + 1} of the recordings (exchange {id})"
    return name if entry.number in unused else f"{name}, already used"


def _counted(found: Sequence[Difference]) -> str:
    more = "at least " if len(found) == COUNT_LIMIT else ""
    return f"{more}{counted(len(found), 'place')}"


def _listed(lines: Sequence[str], items: Sequence[str]) -> str:
    return "\n".join([*lines, *(f"{INDENT}{each}" for each in items)])
