"""The report of a linter, as lines for a person and as rows for a program.

Pure: recorded text is in the lines unchanged, and the caller that prints them must escape it.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple, get_args

from msgspec.structs import asdict

from recorder.lint.linter import PROFILES, Finding, lint, profile_of
from recorder.lint.rule import Hit, Profile, Rule, Severity
from recorder.model.events import Exchange, Recording
from recorder.model.text import counted
from recorder.wire.dialects import by_name

WIDTH = 100  # characters of a line of prose
PLACES_SHOWN = 3  # of what a finding says of its places: the first show what is wrong
POSITIONS_SHOWN = 5  # of the events that it says that of

_INDENT = " " * 18  # as far as the meaning of a rule
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


class Lenience(NamedTuple):
    """What of the findings somebody minds."""

    ignored: frozenset[str] = frozenset()  # ids of rules
    fail_on: Severity = "warning"  # the least severity that is a fault

    def minded(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the findings without those of ignored rules."""
        return [each for each in findings if each.rule not in self.ignored]

    def is_fault(self, finding: Finding) -> bool:
        """Return whether a finding is severe enough to fail."""
        return SEVERITIES.index(finding.severity) <= SEVERITIES.index(self.fail_on)


STRICT = Lenience()


class Judged(NamedTuple):
    """One exchange, and what was found in it; nothing was looked for if no profile is about it."""

    name: str  # of its session or file
    number: int
    exchange: Exchange
    profile: Profile | None
    findings: Sequence[Finding]
    derived: str | None = None  # from what: there are no bytes to judge


def judged(
    name: str, recording: Recording, profile: Profile | None, lenience: Lenience = STRICT
) -> Judged:
    """Judge an exchange by the rules of a profile, else of its API's own."""
    number, exchange, derived = recording.number, recording.exchange, recording.request.derived
    if isinstance(derived, str):
        return Judged(name, number, exchange, None, (), derived)
    chosen = profile or profile_of(exchange.api)
    if chosen is None or chosen not in by_name(exchange.api).profiles:
        return Judged(name, number, exchange, None, ())
    return Judged(name, number, exchange, chosen, lenience.minded(lint(recording, chosen)))


def unjudged(skipped: Judged, profile: Profile | None) -> str:
    """Return why an exchange was not judged."""
    api = skipped.exchange.api
    if skipped.derived is not None:
        return f"it was derived from {skipped.derived}, which has no byte of a response"
    if by_name(api).name != api:
        return (
            f"it was recorded as {api}, which no [dialect.{api}] declares here any more: it "
            f"is read as any other stream"
        )
    if profile is not None and api != "other":
        formats = " and ".join(sorted(PROFILES[profile])) or "declared formats"
        return f"it speaks {api}, and the profile {profile} is of {formats}"
    known = ", ".join(sorted(frozenset().union(*PROFILES.values())))
    return f"there are no rules for its API, only for {known}; `recorder import --dialect NAME` gives a file its API"


def lines(found: Judged, width: int = WIDTH) -> Iterable[str]:
    """Yield an exchange and its findings.

    The first line is a heading; the first of each finding begins with two spaces."""
    exchange = found.exchange
    heading = f"{found.name}:{found.number}  {exchange.method} {exchange.target}  by profile {found.profile}"
    yield heading if found.findings else f"{heading}: no finding"
    for finding in found.findings:
        yield from paragraphs(
            finding, [*_places(finding), f"why: {finding.why}"], width, margin="  "
        )
    if found.findings:
        yield ""


def paragraphs(
    finding: Finding, texts: Iterable[str], width: int, margin: str = ""
) -> Iterable[str]:
    """Yield the lines of a finding: what is wrong after its rule, then further texts below that."""
    first = f"{margin}{finding.severity:<7}  {finding.rule}  "
    yield from textwrap.wrap(
        finding.meaning, width, initial_indent=first, subsequent_indent=" " * len(first)
    )
    for text in texts:
        yield from textwrap.wrap(
            text, width, initial_indent=_INDENT, subsequent_indent=_INDENT + "  "
        )


def _places(finding: Finding) -> Iterable[str]:
    """Return the texts of hits with their places; equal texts are joined."""
    by_detail: dict[str, list[Hit]] = {}
    for place in finding.places:
        by_detail.setdefault(place.said, []).append(place)
    shown = 0
    for detail, places in list(by_detail.items())[:PLACES_SHOWN]:
        positions = [str(each.pos) for each in places if each.pos is not None][:POSITIONS_SHOWN]
        shown += len(positions) or len(places)
        where = f"event {', '.join(positions)}" if positions else ""
        if where or detail:
            yield ": ".join(part for part in (where, detail) if part)
    if finding.count > shown:
        yield f"and {finding.count - shown} more"


def summary(found: Iterable[Judged]) -> str:
    """Return the last line: `2 errors, 1 warning in 3 exchanges`."""
    exchanges = [each for each in found if each.profile is not None]
    findings = chain.from_iterable(exchange.findings for exchange in exchanges)
    return f"{tally(findings) or 'No finding'} in {counted(len(exchanges), 'exchange')}"


def tally(findings: Iterable[Finding], severities: Sequence[Severity] = SEVERITIES) -> str:
    """Return how many findings there are of each severity: `2 errors, 1 warning`."""
    counts = Counter(finding.severity for finding in findings)
    return ", ".join(
        counted(counts[severity], severity) for severity in severities if counts[severity]
    )


def is_faulty(found: Iterable[Judged], lenience: Lenience = STRICT) -> bool:
    """Return whether there is a finding that is a fault: without lenience an error or a warning."""
    return any(map(lenience.is_fault, chain.from_iterable(exchange.findings for exchange in found)))


def rows(found: Judged) -> Iterable[dict[str, Any]]:
    """Return a row for each finding."""
    for finding in found.findings:
        yield {
            "session": found.name,
            "exchange": found.number,
            "exchange_id": found.exchange.exchange_id,
            "profile": found.profile,
            **finding_row(finding),
        }


def finding_row(finding: Finding) -> dict[str, Any]:
    """Return a finding as data."""
    return {**asdict(finding), "places": [place._asdict() for place in finding.places]}


def rule_row(rule: Rule) -> dict[str, Any]:
    """Return a rule as data: all of it but its walk."""
    profiles = [profile for profile in PROFILES if profile in rule.profiles]
    fields = {field: value for field, value in asdict(rule).items() if field != "walk"}
    return {**fields, "profiles": profiles}
