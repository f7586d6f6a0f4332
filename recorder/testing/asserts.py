"""Assertions about recordings: one keeps to its protocol, its prompts stay in the cache, two are
the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

from recorder.diff import DEFAULT, EXACT, TOLERANCE, Level, Terms, diff
from recorder.diff.report import Rendering, levels_in, stat_lines
from recorder.errors import UsageError
from recorder.lint.linter import PROFILES, RULES
from recorder.lint.report import Lenience, is_faulty, judged, lines, summary, unjudged
from recorder.lint.rule import Profile
from recorder.model.text import safe_text
from recorder.projections.rows import AVOIDABLE
from recorder.recordings.cache import cache_of_recordings, cache_summary, difference_lines
from recorder.replay.matching.noise import DEFAULT_RULES, Rules
from recorder.testing.subject import Subject, in_thread, name_of, session_of


def assert_lints(
    subject: Subject, profile: Profile | None = None, *, ignore: Collection[str] = ()
) -> None:
    """Raise `AssertionError` with the report of `recorder lint`, if there is an error or a warning.

    `subject` is what the fixture `recorder_replay` gives, what its `session` is, the path of a file
    or the name of a session; without `profile` each exchange is judged by that of its API. Rules in
    `ignore` do not count. Raises `UsageError` if there is no such rule or nothing to judge,
    `RecorderError` if something cannot be read.
    """
    __tracebackhide__ = True
    if profile is not None and profile not in PROFILES:
        raise UsageError(
            f"There is no profile {profile!r}: the profiles are {', '.join(PROFILES)}."
        )
    _check_rules(ignore)
    session = session_of(subject)
    name = name_of(subject, session)
    lenience = Lenience(frozenset(ignore))
    found = [judged(name, each, profile, lenience) for each in session.recordings]
    with_profile = [each for each in found if each.profile is not None]
    if not with_profile:
        first = next(iter(found), None)
        why = "it has no exchange" if first is None else unjudged(first, profile)
        raise UsageError(f"There is nothing to judge in {name}: {why}.")
    if is_faulty(with_profile):
        shown = [f"{summary(with_profile)}:"]
        for judgement in with_profile:
            if judgement.findings:
                shown += map(safe_text, lines(judgement))
        raise AssertionError("\n".join(shown).rstrip())


def assert_cached(subject: Subject, *, ignore: Collection[str] = ()) -> None:
    """Raise `AssertionError` with the report of `recorder show --cache`, if the prompt cache missed
    without need.

    `subject` is what the fixture `recorder_replay` gives, what its `session` is, the path of a file
    or the name of a session. Classes in `ignore` do not count. Raises `UsageError` if there is no
    such class or no request that a model answered, `RecorderError` if something cannot be read.
    """
    __tracebackhide__ = True
    if isinstance(ignore, str) or not set(ignore) <= set(AVOIDABLE):
        raise UsageError(
            f"ignore={ignore!r}: give a list of classes, out of {', '.join(AVOIDABLE)}."
        )
    session = session_of(subject)
    turns = in_thread(lambda: cache_of_recordings(session))
    if not turns:
        raise UsageError(f"{name_of(subject, session)} has no request that a model answered.")
    missed = [each for each in turns if each.is_avoidable and each.row.cache_class not in ignore]
    if missed:
        shown = [f"{cache_summary(turns)}:"]
        for turn in missed:
            shown += difference_lines(turn)
        raise AssertionError("\n".join(shown))


def assert_same_stream(
    a: Subject,
    b: Subject,
    only: Level | Sequence[Level] | None = None,
    *,
    exact: bool = False,
    tolerance: float = TOLERANCE,
    rules: Rules = DEFAULT_RULES,
) -> None:
    """Raise `AssertionError` with how B differs from A, as `recorder diff` shows it, if it does.

    Each is what the fixture `recorder_replay` gives, what its `session` is, the path of a file, or
    a session's name. `only` is a level or several of `recorder diff --only`; without it all are
    compared but `bytes`, `shape` and `timing`, since no run is as fast as another one. Raises
    `UsageError` if there is no such level, `RecorderError` if something cannot be read.
    """
    __tracebackhide__ = True
    levels = _levels(only, exact)
    one, other = session_of(a), session_of(b)
    continued = (one.continued, other.continued)
    report = diff(
        one.recordings, other.recordings, levels, Terms(exact, tolerance, rules), continued
    )
    if not report.is_equal:
        head = f"{name_of(b, other)} (B) differs from {name_of(a, one)} (A):"
        shown = [line.plain for line in chain(stat_lines(report), Rendering().lines(report))]
        raise AssertionError("\n".join(map(safe_text, [head, *shown])))


def _levels(only: Level | Sequence[Level] | None, exact: bool) -> Sequence[Level]:
    __tracebackhide__ = True
    if only is None:
        compared = EXACT if exact else DEFAULT
        return [level for level in compared if level != "timing"]
    return levels_in(only if isinstance(only, str) else ",".join(map(str, only)))


def _check_rules(ids: Collection[str]) -> None:
    """Raise `UsageError` for a rule that does not exist: misspelt, it would be ignored in vain."""
    __tracebackhide__ = True
    if isinstance(ids, str):
        raise UsageError(f'ignore={ids!r} is one text: give a list, ignore=["{ids}"].')
    unknown = sorted(set(ids).difference(rule.id for rule in RULES))
    if unknown:
        raise UsageError(
            f"There is no rule {' nor '.join(unknown)} to be ignored: docs/lint.md names them."
        )
