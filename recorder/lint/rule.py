"""A rule: what a stream must be, who breaks if it is not, and how that is seen. Data, but for what looks.

Rules are written as text, with an empty line between two; a line that begins with a space continues the one before:

    RS050 warning openai codex sdk
    A completed response reports no tokens.
    Codex counts 0 tokens, so its context meter does not move, and it does not compact before the
     window is full.
    OpenAI API reference, Responses: ResponseUsage

The first line has its id, its severity and, if it is not for all, its profiles. Then follow what is wrong, which client
breaks and how that looks there, and where it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

import msgspec

from recorder.lint.stream import StreamView
from recorder.wire.dialects import DIALECTS

Severity = Literal["error", "warning", "note"]
"""error: a client of that profile fails or loses content. warning: some do, or it is against the specification.
note: worth knowing."""

Profile = str
"""The name of a client, or of an API, whose rules an exchange is judged by: one of `Dialect.profiles`."""


def profiles_of(rule: str) -> frozenset[Profile]:
    """Return the profiles that a general rule is for: those of all dialects that have no special rule for it."""
    return frozenset().union(*(dialect.profiles for dialect in DIALECTS if rule not in dialect.own_rules))


class Hit(NamedTuple):
    """One place where a rule is broken."""

    pos: int | None  # of the event; None for the exchange as a whole
    said: str = ""  # what stands there, where the rule's meaning does not say it all; no final point


Hits = Iterable[Hit]

Check = Callable[[StreamView], Hits]


def at_end(check: Check, *following: Callable[[StreamView], object]) -> Check:
    """Return a check of a stream as a whole, made once at its last window; `following` look at each window before."""

    def checked(stream: StreamView) -> Hits:
        for follow in following:
            follow(stream)
        return check(stream) if stream.is_last else ()

    return checked


class RuleTexts(msgspec.Struct, frozen=True):
    """A rule as it is written."""

    id: str  # never given to another rule: RS… Responses, CH… Chat, AN… Anthropic, GE… Gemini, ST… the stream, HT… HTTP
    severity: Severity
    meaning: str  # what is wrong, one sentence
    why: str  # which client breaks, and how that looks there
    source: str  # where that is written: a specification and section, or a client's source
    profiles: frozenset[Profile]


class Rule(RuleTexts, frozen=True):
    """A rule with its check, which is made of one window after the other."""

    check: Check


def rule_texts(text: str) -> Iterator[RuleTexts]:
    """Yield the rules of a text."""
    for block in text.strip().split("\n\n"):
        head, meaning, why, source = block.replace("\n ", " ").splitlines()
        id, severity, *profiles = head.split()
        yield RuleTexts(id, msgspec.convert(severity, Severity), meaning, why, source, frozenset(profiles))


def rules(text: str, check_of: Callable[[str], Check], *profiles: Profile) -> tuple[Rule, ...]:
    """Return the rules of a text, each with its check by its id.

    One without profiles of its own is for `profiles`; without those it is a general rule.
    """
    found = []
    for each in rule_texts(text):
        chosen = each.profiles or frozenset(profiles) or profiles_of(each.id)
        found.append(Rule(each.id, each.severity, each.meaning, each.why, each.source, chosen, check_of(each.id)))
    return tuple(found)
