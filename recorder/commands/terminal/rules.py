"""The tables of `recorder.toml` that are of no verb: how is matched, what is taken out of bodies,
which formats are.
"""

from __future__ import annotations

import os
from typing import Any

from recorder.commands.terminal.settings import DIALECT, MATCH, REDACT, settings_files
from recorder.errors import UsageError
from recorder.replay.matching.noise import Rules, rules_from
from recorder.replay.matching.rules import How
from recorder.wire.dialects import DIALECTS, Dialect, declare
from recorder.wire.dialects.declared import parse
from recorder.wire.redaction.bodies import Redactor, redactor_from


def match_rules(until: How = "noise") -> Rules:
    """Return the noise rules: the `[match]` table of the first file that has one, else the
    defaults; and `redactor`.

    `until` is the last rung if no file names one.
    """
    rules = Rules(until=until)
    for file in settings_files():
        if (table := file.given.get(MATCH)) is not None:
            try:
                rules = rules_from({"until": until, **table})
            except ValueError as error:
                raise UsageError(f"{file.path}: {error}") from None
    return Rules(rules.rules, rules.until, redactor())


def redactor() -> Redactor:
    """Return the redactor of request bodies, from the `[redact]` tables of both files: each only
    adds to the other.
    """
    made = Redactor()
    tables: list[dict[str, Any]] = []
    for file in settings_files():
        tables.append(file.given.get(REDACT, {}))
        try:
            made = redactor_from(tables, os.environ)
        except ValueError as error:
            raise UsageError(f"{file.path}: {error}") from None
    return made


def declare_dialects() -> None:
    """Take the dialects of `[dialect.NAME]` in both files; of one name, that of the project's
    counts.
    """
    declared: dict[str, Dialect] = {}
    taken = [dialect.name for dialect in DIALECTS]
    for file in settings_files():
        for name, table in file.given.get(DIALECT, {}).items():
            try:
                declared[name] = parse(name, table, taken)
            except ValueError as error:
                raise UsageError(f"{file.path}: {error}") from None
    declare(declared)
