"""Cassettes written by tests: whole or not at all, by one test at a time, in whatever process it runs.

Rules of this file:

* A cassette that tests share says which of them asked for which exchange. A test that records anew gives up what it
  alone asked for before; what another test asked for stays, or is replaced by a newer answer to the same request.
* What several tests of a run ask for is in a cassette once. A test adds to what is there by then.
* All that is written is redacted (`recorder.testing.clearing`), what was there before included.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from recorder.cassettes.sse_jsonl.writer import cassette_lines, save
from recorder.errors import RecorderError
from recorder.model.events import Session
from recorder.replay.matching import Match, Matcher, request_of
from recorder.replay.matching.noise import Rules
from recorder.testing.clearing import cleared
from recorder.testing.contents import SOURCE, Contents, Episode, in_cassette
from recorder.testing.marked import Settings
from recorder.wire.recording import recorded

LABEL = "tests"  # of the session in a shared cassette: each test with the numbers of the exchanges it asked for
ANEW = ("all", "rewrite")  # the modes that replace what there was


class _Part(NamedTuple):
    """An exchange of a cassette, and the tests that are known to have asked for it."""

    episode: Episode
    tests: frozenset[str]

    @property
    def began_ns(self) -> int:
        return self.episode[0].started_ns


def keep(chosen: Settings, held: Contents, taped: Sequence[Episode], used: Set[str]) -> str | None:
    """Write what a test has recorded; return what should be known of that. Raises `RecorderError`.

    `held` is what the test was answered from, `used` has the ids of the exchanges of it that it asked for.
    """
    path = chosen.cassette
    try:
        if not taped and not path.exists():
            return None
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(path.parent):
            return _kept(chosen, held, taped, used)
    except OSError as error:
        raise RecorderError(f"The cassette {path} cannot be written: {error.strerror}.") from None


def _kept(chosen: Settings, held: Contents, taped: Sequence[Episode], used: Set[str]) -> str | None:
    there = _there(chosen, held)
    before = _parts(there, chosen)
    left = _given_up(before, there.session, chosen, taped) if chosen.mode in ANEW else before
    known = {exchange.exchange_id for exchange, _ in held.episodes}
    parts = _added(_marked(left, used, taped, chosen), known, taped, chosen)
    if parts == before:
        return None
    if not parts:
        chosen.cassette.unlink(missing_ok=True)
        return f"{chosen.shown} was removed: {chosen.test} asked for nothing."
    session = _labelled(there.session if left else held.session, parts, chosen)
    episodes = cleared(session, [part.episode for part in parts], chosen.redactions)
    save(chosen.cassette, cassette_lines(session, episodes))
    return None


def _there(chosen: Settings, held: Contents) -> Contents:
    """What is to be added to, or replaced: what another process may have written since the test began, too."""
    if not chosen.cassette.exists():
        return held
    try:
        return in_cassette(chosen.cassette)
    except RecorderError:
        if chosen.mode == "new_episodes":
            raise
        return held  # in place of what nothing can read


def _parts(there: Contents, chosen: Settings) -> list[_Part]:
    """The exchanges with their tests: of a cassette without a label, those of the test that it is named after."""
    told = _told(there.session)
    if told is None:
        names = _named_after(there.session, chosen)
        return [_Part(each, names) for each in there.episodes]
    return [
        _Part(each, frozenset(test for test, numbers in told.items() if numbers is None or number in numbers))
        for number, each in enumerate(there.episodes, 1)
    ]


def _told(session: Session) -> dict[str, list[int] | None] | None:
    """What the label says; a list of names is of tests that share all of it."""
    told = json.loads(session.labels).get(LABEL)
    if isinstance(told, list):
        return dict.fromkeys(map(str, told))
    if not isinstance(told, dict):
        return None
    return {test: numbers if isinstance(numbers, list) else None for test, numbers in told.items()}


def _named_after(session: Session, chosen: Settings) -> frozenset[str]:
    """The test that has recorded a cassette without a label; nobody, if no test has."""
    if chosen.is_own:
        return frozenset({chosen.test})
    return frozenset({session.name}) if session.source == SOURCE else frozenset()


def _given_up(parts: Sequence[_Part], session: Session, chosen: Settings, taped: Sequence[Episode]) -> list[_Part]:
    """What stays when a test records anew: what this run has recorded, and what is of other tests.

    What is of nobody is replaced, as long as no test has recorded anything beside it.
    """
    keeps_unknown = _told(session) is not None or not taped
    left = []
    for part in parts:
        others = part.tests - chosen.names
        if is_of_this_run(part.began_ns, chosen) or (not part.tests and keeps_unknown):
            left.append(part)
        elif others:
            left.append(part._replace(tests=others))
    return left


def _marked(parts: Sequence[_Part], used: Set[str], taped: Sequence[Episode], chosen: Settings) -> list[_Part]:
    """With this test at what it was answered from; a cassette of another day is not written for that alone."""
    return [
        part._replace(tests=part.tests | {chosen.test})
        if part.episode[0].exchange_id in used
        and not part.tests & chosen.names
        and (taped or is_of_this_run(part.began_ns, chosen))
        else part
        for part in parts
    ]


def _added(parts: list[_Part], known: Set[str], taped: Sequence[Episode], chosen: Settings) -> list[_Part]:
    """With what a test has recorded: in place of an older answer to the same request, or at the end.

    What another test of this run, or another process, has recorded the same, as often, stays as it is.
    """
    parts = list(parts)
    places = [n for n, part in enumerate(parts) if part.episode[0].exchange_id not in known]
    made = [chosen.redactions.recorded(recorded(*parts[n].episode)) for n in places]
    number_of = {id(each): n for n, each in zip(places, made, strict=True)}
    matcher = Matcher(made, Rules(chosen.rules.rules, "exact" if chosen.rules.until == "exact" else "noise"))
    for each in taped:
        found = matcher.match(chosen.redactions.request(request_of(recorded(*each))))
        if not isinstance(found, Match):
            parts.append(_Part(each, frozenset({chosen.test})))
            continue
        number = number_of[id(found.recorded)]
        standing = parts[number]
        is_old = chosen.mode in ANEW and not is_of_this_run(standing.began_ns, chosen)
        tests = standing.tests if standing.tests & chosen.names else standing.tests | {chosen.test}
        parts[number] = _Part(each if is_old else standing.episode, tests)
    return parts


def _labelled(session: Session, parts: Sequence[_Part], chosen: Settings) -> Session:
    """A session that says whose its exchanges are, unless all are of the one test whose cassette it is."""
    tests = sorted({test for part in parts for test in part.tests})
    labels = json.loads(session.labels)
    labels.pop(LABEL, None)
    if not chosen.is_own or set(tests) - chosen.names:
        labels[LABEL] = {test: [n for n, part in enumerate(parts, 1) if test in part.tests] for test in tests}
    return msgspec.structs.replace(session, labels=json.dumps(labels, ensure_ascii=False))


def is_of_this_run(at_ns: int, chosen: Settings) -> bool:
    """Whether a time is after this run of pytest began; cassettes keep times to the microsecond."""
    return chosen.began_ns // 1000 <= at_ns // 1000 <= time.time_ns() // 1000


def is_only_of(there: Contents, chosen: Settings) -> bool:
    """Whether this test is known to be the one that asks for what is in it."""
    return all(part.tests and part.tests <= chosen.names for part in _parts(there, chosen))


def is_shared(there: Contents, chosen: Settings) -> bool:
    """Whether other tests ask for a part of it, which this one need not ask for.

    A test that only reads what a single other test, or none, has recorded is to ask for all of it.
    """
    if chosen.records or _told(there.session) is None:
        return chosen.records and not is_only_of(there, chosen)
    parts = _parts(there, chosen)
    return len({test for part in parts for test in part.tests}) > 1 or not all(part.tests for part in parts)


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """With a lock on a directory, which needs no file of its own, and which a process that dies lets go of."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
