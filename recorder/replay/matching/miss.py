"""The message for a request that no recorded exchange answers: the nearest one, and where it
differs.

Work is bounded for every recording and every request: bodies are compared by checksums of their
parts first. The differences of two JSON values are paths, and the values on each side. Values are
equal as JSON has it: `1` is `1.0`, and neither is `true`. Equal parts are skipped, and the search
stops at a limit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from email import message_from_bytes
from hashlib import sha256
from itertools import islice
from typing import Any

import msgspec

from recorder.model.events import Recording
from recorder.model.text import counted, limited, shared_length
from recorder.replay.matching.candidates import Candidate, CandidateQueue, Group, MatchQuery
from recorder.replay.matching.fingerprint import (
    CONVERSATIONS,
    NO_JSON,
    Fingerprint,
    MatchRequest,
    Place,
    boundary_of,
    json_value,
)
from recorder.replay.matching.rules import How
from recorder.wire.dialects.canonical import canonical
from recorder.wire.dialects.json_values import as_json, without_nulls
from recorder.wire.grouping.probes import is_optional
from recorder.wire.turns import is_prewarm

SHOWN = 120
"""Characters shown of a value: a sentence, from a little before where it begins to differ."""

BEFORE = 30

MEMBERS_LIMIT = 100_000
"""Members of one object or array that are looked at, one after another."""

PARTS_LIMIT = 1000
"""Parts of a form that are compared: uploads have a handful."""

HEAD_LIMIT = 8192
"""Bytes of the headers of a part: a name and a type."""

_NAME = re.compile(r"[A-Za-z_][\w-]*")


class RequestDifference(msgspec.Struct, frozen=True):
    """One place. A side is `None` if it has no value there, else JSON, cut to a readable length."""

    path: str  # input[3].content[0].text; empty for the whole
    recorded: str | None
    requested: str | None

    def __str__(self) -> str:
        nothing = "(nothing)"  # a side that is there is JSON, and never empty
        return f"{self.path or '(the body)'}: recorded {self.recorded or nothing}, asked {self.requested or nothing}"


def differences(recorded: Any, requested: Any, limit: int) -> list[RequestDifference]:
    """Return the first `limit` places in which two JSON values differ."""
    return list(islice(_differences("", recorded, requested), limit))


def _differences(path: str, recorded: Any, requested: Any) -> Iterator[RequestDifference]:
    if _is_equal(recorded, requested):
        return
    sides = _members(recorded), _members(requested)
    if type(recorded) is not type(requested) or sides[0] is None or sides[1] is None:
        yield RequestDifference(path, *_shown(recorded, requested))
        return
    for name in [*sides[0], *(name for name in sides[1] if name not in sides[0])]:
        yield from _at(
            _step(path, name), *(side.get(name, _NOTHING) for side in sides if side is not None)
        )
    if max(len(recorded), len(requested)) > MEMBERS_LIMIT:
        yield RequestDifference(
            path, *(f"{len(each)} members, not all compared" for each in (recorded, requested))
        )


def _is_equal(recorded: Any, requested: Any) -> bool:
    """Return whether they are surely equal: of objects and arrays, members may differ although
    Python treats them as equal."""
    if recorded != requested:
        # NaN, which the standard library reads
        return bool(recorded != recorded and requested != requested)
    if isinstance(recorded, dict | list):
        return canonical(recorded) == canonical(requested)
    return isinstance(recorded, bool) == isinstance(requested, bool)


def _members(value: Any) -> dict[Any, Any] | None:
    """Return the members that are compared, of an object by their names, of an array by their
    numbers.
    """
    if isinstance(value, dict):
        return dict(islice(value.items(), MEMBERS_LIMIT))
    return dict(enumerate(value[:MEMBERS_LIMIT])) if isinstance(value, list) else None


_NOTHING = object()


def _at(path: str, recorded: Any, requested: Any) -> Iterator[RequestDifference]:
    if recorded is _NOTHING:
        yield RequestDifference(path, None, _cut(as_json(requested), 0))
    elif requested is _NOTHING:
        yield RequestDifference(path, _cut(as_json(recorded), 0), None)
    else:
        yield from _differences(path, recorded, requested)


def _step(path: str, name: str | int) -> str:
    if isinstance(name, str) and _NAME.fullmatch(name):
        return f"{path}.{name}" if path else name
    return f"{path}[{as_json(name)}]"


def _shown(recorded: Any, requested: Any) -> tuple[str, str]:
    """Return both texts from a little before the place where they part."""
    sides = as_json(recorded), as_json(requested)
    start = max(0, shared_length(*sides) - BEFORE)
    return _cut(sides[0], start), _cut(sides[1], start)


def _cut(text: str, start: int) -> str:
    if len(text) <= SHOWN:
        return text
    end = start + SHOWN
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


NEAREST_LIMIT = 8
"""Recorded requests that are compared in full to find the nearest: the best by the checksums of
their parts.
"""

NEAREST_BYTES = 32 * 2**20
"""Of their bodies together, but for the first: comparing that much takes under a second."""

COUNT_LIMIT = 1000
"""Differences that are counted."""

_OF_MESSAGES = tuple(f"{name}[" for name in CONVERSATIONS)

LISTED = 12
"""Differences, or places, that a message lists."""

INDENT = "  "
"""Before each of them."""


class Miss(msgspec.Struct, frozen=True):
    """Nothing answers it, and why."""

    request: MatchRequest
    nearest: Recording | None
    differences: list[RequestDifference]
    message: str  # for a person; it quotes both requests

    @property
    def is_optional(self) -> bool:
        """Return True if the client goes on without an answer, or with one that is made here."""
        return may_go_unanswered(self.request)

    @property
    def line(self) -> str:
        """The message on one line: what it lists, between semicolons."""
        lines = self.message.split("\n")
        parts = [each for each in lines if not each.startswith(INDENT)]
        listed = [each.strip() for each in lines if each.startswith(INDENT)]
        return " ".join([*parts, "; ".join(listed)]).strip()


def may_go_unanswered(request: MatchRequest) -> bool:
    """Return whether a client goes on without an answer, or with one that is made here."""
    return is_optional(request.method, request.target) or is_prewarm(request.target, request.body)


def all_used(query: MatchQuery, queue: CandidateQueue) -> Miss:
    """Return the message for a request that was sent more often than it was recorded."""
    count = len(queue.members)
    answers = "The one recorded answer is" if count == 1 else f"All {count} recorded answers are"
    message = (
        f"{answers} used: {query.place} was asked with this body more often than it was recorded."
    )
    return Miss(query.own.request, queue.members[-1].original, [], message)


_RESEMBLING: Mapping[How, str] = {
    "stamps": "differ in times and UUIDs only",
    "position": "are at the same position of a conversation",
}


def unlike(query: MatchQuery, unused: Container[int], until: How) -> Miss:
    """Return the miss of a request that nothing equals, down to the rung `until`."""
    nearest, parting = _nearest(query, unused)
    lines = [
        f"Nothing recorded answers {query.place}: of {len(query.group.candidates)} there, none is equal."
    ]
    for resembling in query.resembling(until):
        count = len(resembling.unused(unused))
        if count > 1:
            lines.append(
                f"{count} of them {_RESEMBLING[resembling.how]}: which is meant is unclear."
            )
            break
    if until == "noise" and _differs_in_stamps(query, unused):
        lines.append(
            'One differs in times and UUIDs only: until = "stamps" in [match] would let it answer.'
        )
    lines.append(f"The nearest is {_named(nearest, unused)}. It differs in {_counted(parting)}:")
    return Miss(
        query.own.request, nearest.original, parting, _listed(lines, [*map(str, parting)], "more")
    )


def _differs_in_stamps(query: MatchQuery, unused: Container[int]) -> bool:
    """Return whether one rung more would have answered a request."""
    return any(len(resembling.unused(unused)) == 1 for resembling in query.resembling("stamps"))


def elsewhere(request: MatchRequest, at: Place, groups: Mapping[Place, Group]) -> Miss:
    """Return the miss of a request to a place where nothing was recorded, with the places where
    something was.
    """
    if not groups:
        return Miss(request, None, [], f"Nothing recorded answers {at}: there are no recordings.")
    near = min(groups, key=lambda other: len(_parting(other, at)) + (other.path != at.path))
    counts = [f"{place}: {len(group.candidates)}" for place, group in groups.items()]
    message = _listed([f"Nothing recorded answers {at}. Recorded were:"], counts, "other places")
    return Miss(request, groups[near].candidates[0].original, _parting(near, at), message)


def _parting(recorded: Place, requested: Place) -> list[RequestDifference]:
    sides = zip(Place._fields, recorded.words, requested.words, strict=True)
    return [RequestDifference(name, theirs, mine) for name, theirs, mine in sides if theirs != mine]


def _nearest(
    query: MatchQuery, unused: Container[int]
) -> tuple[Candidate, list[RequestDifference]]:
    """Find the exchange with the fewest differences, by checksums of the parts; counted where those
    are the fewest.

    One that waits for its request is nearer than one that has had it, whatever differs; then one
    with as many messages.
    """
    requested, value = query.widest, query.widest.value()
    count = _messages(requested.outline)

    def kind(candidate: Candidate) -> tuple[bool, bool]:
        return candidate.number not in unused, _messages(query.outline(candidate)) != count

    def distance(candidate: Candidate) -> tuple[tuple[bool, bool], int, int]:
        parts = len(query.outline(candidate).items() ^ requested.outline.items())
        return kind(candidate), parts, candidate.number

    first, *others = sorted(query.near, key=distance)[:NEAREST_LIMIT]
    others = [candidate for candidate in others if kind(candidate) == kind(first)]
    best = first, _compared(query.recorded(first), value, requested.request, COUNT_LIMIT)
    budget = NEAREST_BYTES
    for candidate in others:
        budget -= len(candidate.original.request_body) + len(requested.request.body)
        if budget < 0:
            break
        found = _compared(query.recorded(candidate), value, requested.request, _count(best[1]))
        best = (candidate, found) if _count(found) < _count(best[1]) else best
    return best


def _messages(outline: Mapping[str, int]) -> int:
    """Return the number of messages of a request."""
    return sum(path.startswith(_OF_MESSAGES) for path in outline)


def _count(found: Sequence[RequestDifference]) -> int:
    """Count the differences: where nothing can be compared, the whole is more than any part."""
    return COUNT_LIMIT if any(each.path == "" for each in found) else len(found)


def _compared(
    recorded: Fingerprint, value: Any, requested: MatchRequest, limit: int
) -> list[RequestDifference]:
    """Return the differences but for noise; if only noise differs, the noise."""
    theirs = recorded.value()
    if theirs is NO_JSON or value is NO_JSON:
        fields, asked = _fields(recorded.request), _fields(requested)
        if fields and asked and (found := differences(fields, asked, limit)):
            return found
        recorded_bytes, requested_bytes = (
            f"{len(each.body)} bytes" for each in (recorded.request, requested)
        )
        return [RequestDifference("", recorded_bytes, requested_bytes)]
    ours, mine = json_value(recorded.request.body), json_value(requested.body)
    found = differences(theirs, value, limit) or differences(ours, mine, limit)
    # Python takes 1 for true
    return found or differences(canonical(ours).decode(), canonical(mine).decode(), limit)


def _fields(request: MatchRequest) -> Mapping[str, Any]:
    """Return the parts of a form, by their names, with a number behind one that comes again;
    nothing, if it is none.
    """
    boundary = boundary_of(request)
    if boundary is None:
        return {}
    found: dict[str, Any] = {}
    counts = Counter[str]()
    for part in request.body.split(b"--" + boundary, PARTS_LIMIT + 1)[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        about = message_from_bytes(head[:HEAD_LIMIT].lstrip())
        name = str(about.get_param("name", "", "content-disposition"))
        field = {
            "filename": about.get_filename(),
            "type": about.get("content-type"),
            "content": _content(content),
        }
        number = counts[name]
        counts[name] += 1
        found[f"{name}[{number}]" if number else name] = without_nulls(field)
    return found


def _content(part: bytes) -> str:
    """Return what a part of a form has as it is shown: a text, or the size and the digest of a
    file.
    """
    content = part.removesuffix(b"\r\n")
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"{len(content)} bytes, SHA-256 {sha256(content).hexdigest()[:12]}"


def _named(candidate: Candidate, unused: Container[int]) -> str:
    id = candidate.original.exchange.exchange_id
    name = (
        candidate.original.name
        or f"number {candidate.number + 1} of the recordings (exchange {id})"
    )
    return name if candidate.number in unused else f"{name}, already used"


def _counted(found: Sequence[RequestDifference]) -> str:
    more = "at least " if len(found) == COUNT_LIMIT else ""
    return f"{more}{counted(len(found), 'place')}"


def _listed(lines: Sequence[str], items: Sequence[str], others: str) -> str:
    return "\n".join([*lines, *limited([f"{INDENT}{each}" for each in items], LISTED, others)])
