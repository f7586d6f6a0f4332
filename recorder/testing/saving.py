"""Cassettes written by tests: whole or not at all, by one test at a time, in whatever process it runs.

Rules of this file:

* The first test of a run that records a cassette anew replaces it, the others add to it. So tests that share one lose
  nothing, and what several of them asked is in it once.
* A test that adds to a cassette adds to what is there by then.
* All that is written is redacted (`recorder.testing.clearing`), what was there before included.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from recorder.cassettes.writing import cassette, save
from recorder.errors import RecorderError
from recorder.events import Session
from recorder.matching import Match, Matcher, request_of
from recorder.matching.noise import Rules
from recorder.recorded import recorded
from recorder.testing.clearing import cleared
from recorder.testing.contents import Contents, Episode, in_cassette
from recorder.testing.marked import Settings

LABEL = "tests"  # of the session in a cassette that several tests have recorded: their names


def keep(chosen: Settings, held: Contents, taped: Sequence[Episode]) -> str | None:
    """Write what a test has recorded besides what it held; what should be known of that. Raises `RecorderError`."""
    path = chosen.cassette
    try:
        if not taped and not path.exists():
            return None
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(path.parent):
            return _kept(chosen, held, taped)
    except OSError as error:
        raise RecorderError(f"The cassette {path} cannot be written: {error.strerror}.") from None


def _kept(chosen: Settings, held: Contents, taped: Sequence[Episode]) -> str | None:
    there = _there(chosen)
    if not taped:
        if there is not None or chosen.mode not in ("all", "rewrite"):
            return None
        chosen.cassette.unlink(missing_ok=True)
        return f"{chosen.shown} was removed: {chosen.test} asked for nothing."
    base = there or held
    known = {exchange.exchange_id for exchange, _ in held.episodes}
    others = [each for each in base.episodes if each[0].exchange_id not in known]
    if fresh := _not_in(others, taped, chosen):
        session = _of_several(base.session, chosen) if base.episodes else base.session
        episodes = cleared(session, [*base.episodes, *fresh], chosen.redactions)
        save(chosen.cassette, cassette(session, episodes))
    return None


def _there(chosen: Settings) -> Contents | None:
    """What is to be added to: anything if the test was answered from it, else what this run has recorded."""
    if not chosen.cassette.exists():
        return None
    if chosen.mode == "new_episodes":
        return in_cassette(chosen.cassette)
    try:
        there = in_cassette(chosen.cassette)
    except RecorderError:  # that is to be replaced
        return None
    return there if _is_of_this_run(there.session, chosen) else None


def _is_of_this_run(session: Session, chosen: Settings) -> bool:
    """Its time is that of the test that was the first to record it, kept to the microsecond."""
    return chosen.began_ns // 1000 <= session.created_ns // 1000 <= time.time_ns() // 1000


def is_shared(session: Session, chosen: Settings) -> bool:
    """Whether other tests have recorded a part of it, which this one need not ask for."""
    others = {*_tests(session)} - {chosen.name}
    return len(_tests(session)) > 1 or bool(others and chosen.records and _is_of_this_run(session, chosen))


def _tests(session: Session) -> list[str]:
    """The names of the tests that have recorded a cassette."""
    told = json.loads(session.labels).get(LABEL)
    return [str(each) for each in told] if isinstance(told, list) else [session.name]


def _of_several(session: Session, chosen: Settings) -> Session:
    """A session that says so, if this test adds to what another one has recorded in the same run."""
    tests = _tests(session)
    if chosen.name in tests or not _is_of_this_run(session, chosen):
        return session
    labels = {**json.loads(session.labels), LABEL: [*tests, chosen.name]}
    return msgspec.structs.replace(session, labels=json.dumps(labels, ensure_ascii=False))


def _not_in(others: Sequence[Episode], taped: Sequence[Episode], chosen: Settings) -> list[Episode]:
    """Those of which other tests have not recorded the same, as often."""
    made = [chosen.redactions.recorded(recorded(*each)) for each in others]
    rules = chosen.rules
    matcher = Matcher(made, Rules(rules.rules, "exact" if rules.until == "exact" else "noise"))
    asked = [chosen.redactions.request(request_of(recorded(*each))) for each in taped]
    return [each for each, request in zip(taped, asked, strict=True) if not isinstance(matcher.match(request), Match)]


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """With a lock on a directory, which needs no file of its own, and which a process that dies lets go of."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
