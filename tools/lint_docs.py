"""The reference of the rules of lint, made of the rules; `tools.reference` writes it."""

from __future__ import annotations

from recorder.lint.linter import PROFILES, RULES
from recorder.lint.report import rule_row
from recorder.lint.rule import Rule

INTRO = """\
# Rules of lint

`recorder lint --list` prints these rules; [Lint](../lint.md) explains profiles and severities. `HT` is HTTP, `ST` the
stream as such, `RS` Responses, `CH` Chat Completions, `AN` Anthropic Messages, `GE` Gemini.
"""


def page() -> str:
    """Return the page, with a section for each rule."""
    return "\n".join([INTRO, *map(_section, RULES)])


def _section(rule: Rule) -> str:
    row = rule_row(rule)
    profiles = (
        "all profiles"
        if len(rule.profiles) == len(PROFILES)
        else ", ".join(f"`{p}`" for p in row["profiles"])
    )
    return f"## {rule.id}\n\n**{rule.meaning}** ({rule.severity}; {profiles})\n\n{rule.why}\n\n*{rule.source}*\n"
