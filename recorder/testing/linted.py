"""Recordings judged in a test."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from recorder.errors import UsageError
from recorder.lint import PROFILES, RULES, Profile
from recorder.lint.report import Judged, is_faulty, judged, lines, summary, unjudged
from recorder.testing.compared import called
from recorder.testing.subjects import episodes


def assert_lints(subject: Any, profile: Profile | None = None, *, ignore: Collection[str] = ()) -> None:
    """Raises `AssertionError`, which says what `recorder lint` says, if there is an error or a warning.

    `subject` is what the fixture `recorder_replay` gives, what its `session` is, the path of a file or the name of a
    session; without `profile` each exchange is judged by that of its API. Rules in `ignore` do not count. Raises
    `UsageError` if there is no such rule or nothing to judge, `RecorderError` if something cannot be read.
    """
    if profile is not None and profile not in PROFILES:
        raise UsageError(f"There is no profile {profile!r}: the profiles are {', '.join(PROFILES)}.")
    __tracebackhide__ = True
    _check_rules(ignore)
    found = [judged(called(subject), *episode, profile) for episode in episodes(subject)]
    kept = [_less(each, ignore) for each in found if each.profile is not None]
    if not kept:
        why = unjudged(found[0].exchange.api, profile) if found else "it has no exchange"
        raise UsageError(f"There is nothing to judge in {called(subject)}: {why}.")
    if is_faulty(kept):
        raise AssertionError(failure(kept))


def failure(found: Sequence[Judged]) -> str:
    """What is wrong, to be read under the name of a test."""
    from recorder.model.text import safe_text

    told = [line for each in found if each.findings for line in lines(each)]
    return "\n".join([f"{summary(found)}:", *map(safe_text, told)]).rstrip()


def _check_rules(ids: Collection[str]) -> None:
    """A rule that is misspelt would be ignored in vain."""
    __tracebackhide__ = True
    if isinstance(ids, str):
        raise UsageError(f'ignore={ids!r} is one text: give a list, ignore=["{ids}"].')
    unknown = sorted(set(ids).difference(rule.id for rule in RULES))
    if unknown:
        raise UsageError(f"There is no rule {' nor '.join(unknown)} to be ignored: docs/lint.md names them.")


def _less(found: Judged, ignore: Collection[str]) -> Judged:
    return found._replace(findings=[each for each in found.findings if each.rule not in ignore])
