"""The options by which a command that judges leaves rules out, and says what fails."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, get_args

import click

from recorder.errors import UsageError
from recorder.lint.linter import RULES
from recorder.lint.report import Lenience
from recorder.lint.rule import Severity
from recorder.probe.rules import RULES as PROBE_RULES

_IDS = frozenset({*(rule.id for rule in RULES), *(rule.id for rule in PROBE_RULES)})


def lenience_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--ignore` and `--fail-on`, which the command gets as `lenience`."""

    @click.option("--ignore", metavar="RULE", multiple=True, help="Leave out the findings of this rule. Repeatable.")
    @click.option(
        "--fail-on",
        type=click.Choice(get_args(Severity)),
        default="warning",
        show_default=True,
        help="The least severity of a finding for which the exit code is 4.",
    )
    @functools.wraps(function)
    def command(*arguments: Any, ignore: Sequence[str], fail_on: Severity, **options: Any) -> Any:
        unknown = [rule for rule in ignore if rule not in _IDS]
        if unknown:
            raise UsageError(f"There is no rule {unknown[0]}: `recorder lint --list` and docs/probe.md name them.")
        return function(*arguments, lenience=Lenience(frozenset(ignore), fail_on), **options)

    return command
