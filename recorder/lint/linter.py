"""The judgement of one exchange: all rules, and what it breaks of them. Pure: a recording in,
findings out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain

import msgspec

from recorder.lint import http, sse
from recorder.lint.rule import Faults, Hit, MakeWalk, Profile, Rule, Severity
from recorder.lint.stream import StreamView
from recorder.model.events import Recording
from recorder.model.text import storable
from recorder.program import load
from recorder.wire.dialects import DIALECTS, by_name, parts
from recorder.wire.dialects.declared import DECLARED

_OF_DECLARED = load("recorder.wire.dialects.declared.lint")

RULES: tuple[Rule, ...] = tuple(
    chain.from_iterable(each.RULES for each in (http, sse, *parts("lint").values(), _OF_DECLARED))
)
"""All of them, in the order in which findings are given."""

PLACES_LIMIT = 100
"""Places of one finding that are kept: the first ones show what is wrong, the count says how often.
"""

PROFILES: Mapping[Profile, frozenset[str]] = {
    profile: frozenset(dialect.name for dialect in DIALECTS if profile in dialect.profiles)
    for profile in (*chain.from_iterable(dialect.profiles for dialect in DIALECTS), DECLARED)
}
"""The profiles, and the APIs (`Exchange.api`) that each is about. The first of an API is its own;
those of the last are in settings."""


class Finding(msgspec.Struct, frozen=True):
    """A rule that an exchange breaks."""

    rule: str
    severity: Severity
    meaning: str
    why: str
    source: str
    count: int  # of the places
    places: list[Hit]  # the first of them


def profile_of(api: str) -> Profile | None:
    """Return the profile of an API; `None` if there are no rules for it."""
    return next(iter(by_name(api).profiles), None)


def lint(
    recording: Recording, profile: Profile | None = None, places_limit: int = PLACES_LIMIT
) -> list[Finding]:
    """Return the findings of an exchange, by the rules of a profile, else of its API's own, in
    order of `RULES`.

    An API without a profile, and one that the profile is not about, has no findings.
    """
    api = recording.exchange.api
    profile = profile or profile_of(api)
    if profile is None or profile not in by_name(api).profiles:
        return []
    rules = {rule.id: rule for rule in RULES if profile in rule.profiles}
    walks = dict.fromkeys(rule.walk for rule in rules.values())
    counts = Counter[str]()
    places: dict[str, list[Hit]] = {}
    for id, pos, said in _faults(StreamView(recording), walks):
        counts[id] += 1
        if counts[id] <= places_limit:
            # They quote recorded text, of which half a surrogate pair is not text that can be
            # written.
            places.setdefault(id, []).append(Hit(pos, storable(said)))
    if counts[sse.OTHER_API]:
        rules = {sse.OTHER_API: rules[sse.OTHER_API]}
    return [
        Finding(
            rule.id,
            rule.severity,
            rule.meaning,
            rule.why,
            rule.source,
            counts[rule.id],
            places[rule.id],
        )
        for rule in rules.values()
        if counts[rule.id]
    ]


def _faults(stream: StreamView, walks: Iterable[MakeWalk]) -> Faults:
    """Yield the faults that walks find, all of them in one pass over the blocks."""
    begun = [walk(stream) for walk in walks]
    for block in stream.each_block():
        for walk in begun:
            yield from walk.feed(block)
    for walk in begun:
        yield from walk.end()
