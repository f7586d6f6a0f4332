"""The options by which a command that judges leaves rules out, and says what fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import click

from recorder.commands.terminal.options import joined_options
from recorder.errors import UsageError
from recorder.lint.linter import RULES
from recorder.lint.report import Lenience
from recorder.lint.rule import Severity
from recorder.probe.rules import RULES as PROBE_RULES

_IDS = frozenset({*(rule.id for rule in RULES), *(rule.id for rule in PROBE_RULES)})


def _lenience(ignore: Sequence[str], fail_on: Severity) -> Lenience:
    unknown = [rule for rule in ignore if rule not in _IDS]
    if unknown:
        raise UsageError(
            f"There is no rule {unknown[0]}: `recorder lint --list` and docs/probe.md name them."
        )
    return Lenience(frozenset(ignore), fail_on)


lenience_options = joined_options(
    "lenience",
    _lenience,
    click.option(
        "--ignore",
        metavar="RULE",
        multiple=True,
        help="Leave out the findings of this rule. Repeatable.",
    ),
    click.option(
        "--fail-on",
        type=click.Choice(get_args(Severity)),
        default="warning",
        help="The least severity of a finding for which the exit code is 4.",
    ),
)
"""Add `--ignore` and `--fail-on`, which the command gets as `lenience`."""
