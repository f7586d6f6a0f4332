"""Pairing of exchanges of two recordings: by their requests, down the matching ladder.

The name of the upstream does not count: a gateway has another name than its provider. What no rung
finds is paired in order, among the requests to the same place; what is left then has no partner. If
each side has but one exchange, they are compared whatever they are.

If a request has only what is new since an earlier response, all are compared with what they
continue.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from recorder.diff.compared import ComparedRecording
from recorder.diff.report import How
from recorder.replay.matching.fingerprint import Fingerprint, Place, place
from recorder.replay.matching.noise import Rules


class Pairing(NamedTuple):
    """The pairs in the order of A, and the exchanges without a partner."""

    pairs: list[tuple[ComparedRecording, ComparedRecording, How]]
    only_a: list[ComparedRecording]
    only_b: list[ComparedRecording]


class _Digests(NamedTuple):
    """The keys of a logical request, which is not held: the last of a session is as long as all of
    them.
    """

    exact: bytes
    quiet: bytes
    shape: bytes | None


class _ComparedRequest:
    """The request of one side. `directories` are those of all exchanges: noise in each of them."""

    def __init__(
        self, side: ComparedRecording, rules: Rules, directories: Mapping[str, int]
    ) -> None:
        self.side = side
        self.place: Place = place(side.request, rules)._replace(upstream="")
        whole = Fingerprint(side.compared_request, rules, directories)
        self.keys = _Digests(whole.exact, whole.quiet, whole.shape) if side.is_logical else whole


_Key = Callable[[_ComparedRequest], Hashable]

_RUNGS: Sequence[tuple[How, _Key]] = (
    ("exact", lambda request: request.keys.exact),
    ("noise", lambda request: request.keys.quiet),
    ("position", lambda request: request.keys.shape),
    ("order", lambda request: b""),
)
"""By each, requests to the same place whose keys are equal are partners, in recorded order. `None`
equals nothing.
"""


def pair_exchanges(
    a: Sequence[ComparedRecording], b: Sequence[ComparedRecording], rules: Rules
) -> Pairing:
    """Pair the exchanges; each is in one pair or left over."""
    if len(a) == len(b) == 1:
        return Pairing([(a[0], b[0], "alone")], [], [])
    directories = directories_of([*a, *b], rules)
    left_a = [_ComparedRequest(side, rules, directories) for side in a]
    left_b = [_ComparedRequest(side, rules, directories) for side in b]
    pairs: list[tuple[ComparedRecording, ComparedRecording, How]] = []
    for how, key in _RUNGS:
        waiting = _lines(left_b, key)
        taken: set[int] = set()
        for one in left_a:
            line = waiting.get(_at(one, key))
            if line:
                other = line.pop()
                taken |= {id(one), id(other)}
                pairs.append((one.side, other.side, how))
        left_a, left_b = (
            [each for each in left if id(each) not in taken] for left in (left_a, left_b)
        )
    order = {id(side): number for number, side in enumerate(a)}
    pairs.sort(key=lambda pair: order[id(pair[0])])
    return Pairing(pairs, [each.side for each in left_a], [each.side for each in left_b])


def directories_of(sides: Sequence[ComparedRecording], rules: Rules) -> Mapping[str, int]:
    """Return the working directories that requests name."""
    found: dict[str, int] = {}
    for side in sides:
        found |= Fingerprint(side.compared_request, rules).directories
    return found


def _at(request: _ComparedRequest, key: _Key) -> Hashable:
    value = key(request)
    return None if value is None else (request.place, value)


def _lines(
    requests: Sequence[_ComparedRequest], key: _Key
) -> dict[Hashable, list[_ComparedRequest]]:
    """Group equal exchanges, in reverse order: `pop` gives the first."""
    found: dict[Hashable, list[_ComparedRequest]] = {}
    for each in reversed(requests):
        at = _at(each, key)
        if at is not None:
            found.setdefault(at, []).append(each)
    return found
