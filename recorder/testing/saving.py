"""Cassettes written by tests: whole or not at all, by one test at a time, in whatever process it
runs.

Rules of this file:

* A cassette that tests share names the tests that used each exchange. A test that records again
  removes what it alone used before; what another test used stays, or is replaced by a newer answer
  to the same request.
* A request that several tests of a run send is in a cassette once. A test adds to what is there by
  then.
* What is recorded again and did not change stays as it was, with its ids and times: a review shows
  what changed.
* All that is written is redacted (`recorder.testing.clearing`), what was there before included.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from recorder.cassettes.sse_jsonl.writer import cassette_lines
from recorder.diff import DEFAULT, Terms, diff
from recorder.errors import RecorderError
from recorder.files import save
from recorder.model.events import WEBSOCKET, Recording, Session
from recorder.model.text import counted
from recorder.recordings.files import load_cassette
from recorder.recordings.session import RecordedSession
from recorder.replay.matching import Match, Matcher, request_of
from recorder.replay.matching.noise import Rules
from recorder.testing.clearing import redacted_rows
from recorder.testing.settings import Settings
from recorder.wire.logical_request import links_of
from recorder.wire.recording import recording_of

SOURCE = "test"  # of a session that a test has recorded
# of the session in a shared cassette: each test with the numbers of the exchanges that it used
LABEL = "tests"
SAME = tuple(level for level in DEFAULT if level != "timing")  # no two runs are equally fast
AGAIN = ("all", "rewrite")  # the modes that replace what there was


class _Part(NamedTuple):
    """An exchange of a cassette, and the tests that are known to use it."""

    recording: Recording
    tests: frozenset[str]

    @property
    def exchange_id(self) -> str:
        return self.recording.exchange.exchange_id

    @property
    def began_ns(self) -> int:
        return self.recording.exchange.started_ns


def save_recorded(
    chosen: Settings, loaded: RecordedSession, recorded: Sequence[Recording], used: Set[str]
) -> str | None:
    """Write what a test has recorded; return a remark, if there is one. Raises `RecorderError`.

    `loaded` is what the test was answered from, `used` has the ids of the exchanges of it that
    answered.
    """
    path = chosen.cassette
    try:
        if not recorded and not path.exists():
            return None
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.parent):
            return _save(chosen, loaded, recorded, used)
    except OSError as error:
        raise RecorderError(f"The cassette {path} cannot be written: {error.strerror}.") from None


def _save(
    chosen: Settings, loaded: RecordedSession, recorded: Sequence[Recording], used: Set[str]
) -> str | None:
    there = _current(chosen, loaded)
    before = _parts(there, chosen)
    left = _without_own(before, there.session, chosen, recorded) if chosen.mode in AGAIN else before
    known = {each.exchange.exchange_id for each in loaded.recordings}
    parts = _with_recorded(_with_uses(left, used, recorded, chosen), known, recorded, chosen)
    if chosen.mode in AGAIN:
        parts = _with_unchanged(there, parts, chosen)
    if parts == before:
        return (
            f"{chosen.shown} stays as it is: nothing differs."
            if chosen.mode in AGAIN and parts
            else None
        )
    if not parts:
        chosen.cassette.unlink(missing_ok=True)
        return f"{chosen.shown} was removed: {chosen.test} asked for nothing."
    ids = {part.exchange_id for part in before}
    stays = any(part.exchange_id in ids for part in parts)
    session = _labelled(there.session if stays else loaded.session, parts, chosen)
    rows = redacted_rows(session, [part.recording for part in parts], chosen.redactions)
    save(chosen.cassette, cassette_lines(session, rows))
    added = sum(part.exchange_id not in ids for part in parts)
    return f"{chosen.shown} was written: {counted(len(parts), 'exchange')}, {added} of them new."


def _current(chosen: Settings, loaded: RecordedSession) -> RecordedSession:
    """Return the cassette as it is now: another process may have written it since the test began."""
    if not chosen.cassette.exists():
        return loaded
    try:
        return load_cassette(chosen.cassette)
    except RecorderError:
        if chosen.mode == "new_episodes":
            raise
        return loaded  # a cassette that cannot be read is replaced


def _parts(there: RecordedSession, chosen: Settings) -> list[_Part]:
    """Return the exchanges with their tests: without a label, the test that the cassette is named
    after.
    """
    label = _label(there.session)
    tests = _named_after(there.session, chosen)
    parts = []
    for number, each in enumerate(there.recordings, 1):
        if label is not None:
            tests = frozenset(
                test for test, numbers in label.items() if numbers is None or number in numbers
            )
        parts.append(_Part(each, tests))
    return parts


def _tests(parts: Iterable[_Part]) -> Set[str]:
    """Return the tests that use parts."""
    return frozenset().union(*(part.tests for part in parts))


def _label(session: Session) -> dict[str, list[int] | None] | None:
    """Return the exchanges of each test by the label; None for tests that share all of the
    cassette.
    """
    label = json.loads(session.labels).get(LABEL)
    if isinstance(label, list):
        return dict.fromkeys(map(str, label))
    if not isinstance(label, dict):
        return None
    return {test: _numbers(numbers) for test, numbers in label.items()}


def _numbers(numbers: object) -> list[int] | None:
    return numbers if isinstance(numbers, list) else None


def _named_after(session: Session, chosen: Settings) -> frozenset[str]:
    """Return the test that has recorded a cassette without a label; nothing if no test has."""
    if chosen.is_own:
        return frozenset({chosen.test})
    return frozenset({session.name}) if session.source == SOURCE else frozenset()


def _without_own(
    parts: Sequence[_Part], session: Session, chosen: Settings, recorded: Sequence[Recording]
) -> list[_Part]:
    """Return the parts that stay when a test records again: what this run has recorded, and what
    other tests use.

    A part that no test uses is replaced, as long as no test has recorded anything beside it.
    """
    keeps_unknown = _label(session) is not None or not recorded
    left = []
    for part in parts:
        others = part.tests - chosen.names
        if is_of_this_run(part.began_ns, chosen) or (not part.tests and keeps_unknown):
            left.append(part)
        elif others:
            left.append(part._replace(tests=others))
    return left


def _with_uses(
    parts: Sequence[_Part], used: Set[str], recorded: Sequence[Recording], chosen: Settings
) -> list[_Part]:
    """Return the parts with this test at those that answered it; an older cassette is not written
    for that alone.
    """
    marked = []
    for part in parts:
        is_unmarked = part.exchange_id in used and not part.tests & chosen.names
        if is_unmarked and (recorded or is_of_this_run(part.began_ns, chosen)):
            part = part._replace(tests=part.tests | {chosen.test})
        marked.append(part)
    return marked


def _with_recorded(
    parts: list[_Part], known: Set[str], recorded: Sequence[Recording], chosen: Settings
) -> list[_Part]:
    """Return the parts with what a test has recorded: in place of an older answer to the same
    request, or at the end.

    An answer that another test of this run, or another process, has recorded as often stays as it
    is.
    """
    parts = list(parts)
    made: list[Recording] = []
    number_of: dict[int, int] = {}
    for number, part in enumerate(parts):
        if part.exchange_id not in known:
            made.append(chosen.redactions.recording(part.recording))
            number_of[id(made[-1])] = number
    matcher = Matcher(
        made, Rules(chosen.rules.rules, "exact" if chosen.rules.until == "exact" else "noise")
    )
    for each in recorded:
        found = matcher.match(chosen.redactions.request(request_of(each)))
        if not isinstance(found, Match):
            parts.append(_Part(each, frozenset({chosen.test})))
            continue
        number = number_of[id(found.recorded)]
        old = parts[number]
        is_old = chosen.mode in AGAIN and not is_of_this_run(old.began_ns, chosen)
        tests = old.tests if old.tests & chosen.names else old.tests | {chosen.test}
        parts[number] = _Part(each if is_old else old.recording, tests)
    return parts


def _with_unchanged(there: RecordedSession, parts: list[_Part], chosen: Settings) -> list[_Part]:
    """Return the parts, with what is there in place of each answer in which `recorder diff` finds
    no difference.

    All of them or none, if one continues another: the id that it names may be gone.
    """
    old = _compared(there.session, there.recordings, chosen)
    new = _compared(there.session, [part.recording for part in parts], chosen)
    report = diff(old, new, SAME, Terms(rules=chosen.rules))
    number_of = {pair.b.number: pair.a.number for pair in report.pairs if not pair.count}
    if not report.is_equal and any(_continues(part.recording) for part in parts):
        return parts
    mixed = []
    for number, part in enumerate(parts, 1):
        if number in number_of:
            part = part._replace(recording=there.recordings[number_of[number] - 1])
        mixed.append(part)
    if report.is_equal:  # in whatever order the answers came now
        in_order = sorted(enumerate(mixed, 1), key=lambda numbered: number_of[numbered[0]])
        return [part for _, part in in_order]
    return mixed


def _compared(
    session: Session, recordings: Sequence[Recording], chosen: Settings
) -> list[Recording]:
    """Return recordings as they may be written, numbered from 1."""
    rows = redacted_rows(session, recordings, chosen.redactions)
    return [recording_of(*row, number=number) for number, row in enumerate(rows, 1)]


def _continues(recording: Recording) -> bool:
    return recording.exchange.method == WEBSOCKET or any(links_of(recording))


def _labelled(session: Session, parts: Sequence[_Part], chosen: Settings) -> Session:
    """Return the session with the tests of its exchanges, unless all are of the one test whose
    cassette it is.
    """
    tests = _tests(parts)
    labels = json.loads(session.labels)
    labels.pop(LABEL, None)
    if not chosen.is_own or tests - chosen.names:
        labels[LABEL] = {
            test: [n for n, part in enumerate(parts, 1) if test in part.tests]
            for test in sorted(tests)
        }
    return msgspec.structs.replace(session, labels=json.dumps(labels, ensure_ascii=False))


def is_of_this_run(at_ns: int, chosen: Settings) -> bool:
    """Return True if a time is after this run of pytest began; cassettes keep times to the
    microsecond.
    """
    return chosen.began_ns // 1000 <= at_ns // 1000 <= time.time_ns() // 1000


def is_only_of(there: RecordedSession, chosen: Settings) -> bool:
    """Return True if this test is known to be the only one that uses the cassette."""
    return all(part.tests and part.tests <= chosen.names for part in _parts(there, chosen))


def is_shared(there: RecordedSession, chosen: Settings) -> bool:
    """Return True if other tests use a part of the cassette, which this one need not use.

    A test that only reads what a single other test, or none, has recorded is to use all of it.
    """
    if chosen.records or _label(there.session) is None:
        return chosen.records and not is_only_of(there, chosen)
    parts = _parts(there, chosen)
    return len(_tests(parts)) > 1 or not all(part.tests for part in parts)


def of_test(there: RecordedSession, chosen: Settings) -> list[Recording]:
    """Return what a test is known to use of a cassette; all of it if nothing is known to be its
    own.
    """
    own = [part.recording for part in _parts(there, chosen) if part.tests & chosen.names]
    return own or list(there.recordings)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold a lock on a directory: it needs no separate file, and ends with the process."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
