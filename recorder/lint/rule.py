"""A rule: what a stream must be, who breaks if it is not, and how that is seen. Data, but for what
looks.

Rules are written as text, with an empty line between two; a line that begins with a space continues
the one before:

    RS050 warning openai codex sdk
    A completed response reports no tokens.
    Codex counts 0 tokens, so its context meter does not move, and it does not compact before the
     window is full.
    OpenAI API reference, Responses: ResponseUsage

The first line has its id, its severity and, if it is not for all, its profiles. Then follow what is
wrong, which client breaks and how that looks there, and where it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, Protocol

import msgspec

from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects import DIALECTS

Severity = Literal["error", "warning", "note"]
"""error: a client of that profile fails or loses content. warning: some do, or it is against the
specification. note: worth knowing."""

Profile = str
"""The name of a client, or of an API, whose rules an exchange is judged by: one of
`Dialect.profiles`.
"""


def profiles_of(rule: str) -> frozenset[Profile]:
    """Return the profiles that a general rule is for: those of all dialects that have no special
    rule for it.
    """
    return frozenset().union(
        *(dialect.profiles for dialect in DIALECTS if rule not in dialect.own_rules)
    )


class Hit(NamedTuple):
    """One place where a rule is broken."""

    pos: int | None  # of the event; None for the exchange as a whole
    # what stands there, where the rule's meaning does not say it all; no final point
    said: str = ""


Fault = tuple[str, int | None, str]
"""The id of a rule, and where it is broken: what a `Hit` has."""

Faults = Iterable[Fault]


class StreamWalk(Protocol):
    """What follows one stream, block by block, and reports each fault by the id of the one rule
    that names it.

    Rules whose faults follow from each other share a walk, so that a fault is named by one of them.
    """

    def feed(self, block: StreamBlock) -> Faults:
        """Yield the faults of the next block."""

    def end(self) -> Faults:
        """Yield the faults of the stream as a whole, when all its blocks were fed."""


MakeWalk = Callable[[StreamView], StreamWalk]


class _WholeStream:
    """A walk that looks at nothing before the end."""

    def __init__(
        self, stream: StreamView, checks: Mapping[str, Callable[[StreamView], Iterable[str]]]
    ) -> None:
        self._stream, self._checks = stream, checks

    def feed(self, block: StreamBlock) -> Faults:
        return ()

    def end(self) -> Faults:
        for id, check in self._checks.items():
            for said in check(self._stream):
                yield id, None, said


def of_whole(checks: Mapping[str, Callable[[StreamView], Iterable[str]]]) -> MakeWalk:
    """Return a walk of checks that each look at the exchange as a whole, by the ids of their rules.

    A check yields in words what is wrong.
    """
    return lambda stream: _WholeStream(stream, checks)


class RuleTexts(msgspec.Struct, frozen=True):
    """A rule as it is written."""

    id: str
    """Never given to another rule: RS… Responses, CH… Chat, AN… Anthropic, GE… Gemini, GI…
    Interactions, AS… Managed Agents, OA… OpenAI's hosted agents, OL… Ollama, BR… Bedrock's
    Converse, BI… its InvokeModel, MC… MCP, AC… ACP, SJ… stream-json, A2… A2A, UM… UI messages, AG…
    AG-UI, DE… a declared format, ST… the stream, HT… HTTP."""
    severity: Severity
    meaning: str  # what is wrong, one sentence
    why: str  # which client breaks, and how that looks there
    source: str  # where that is written: a specification and section, or a client's source
    profiles: frozenset[Profile]


class Rule(RuleTexts, frozen=True):
    """A rule with the walk that finds what breaks it."""

    walk: MakeWalk


def rule_texts(text: str) -> Iterator[RuleTexts]:
    """Yield the rules of a text."""
    for block in text.strip().split("\n\n"):
        head, meaning, why, source = block.replace("\n ", " ").splitlines()
        id, severity, *profiles = head.split()
        yield RuleTexts(
            id, msgspec.convert(severity, Severity), meaning, why, source, frozenset(profiles)
        )


def rules(text: str, walk: MakeWalk, *profiles: Profile) -> tuple[Rule, ...]:
    """Return the rules of a text, which share a walk.

    One without profiles of its own is for `profiles`; without those it is a general rule.
    """
    found = []
    for each in rule_texts(text):
        chosen = each.profiles or frozenset(profiles) or profiles_of(each.id)
        found.append(
            Rule(each.id, each.severity, each.meaning, each.why, each.source, chosen, walk)
        )
    return tuple(found)
