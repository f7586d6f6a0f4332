"""Which requests count as the same in a test: the `[match]` table of the project, and what a marker says of it.

The table is that of `recorder.toml` in pytest's root directory, which `recorder mock` reads when it is run there, or of
the file that the ini key `recorder_match` names. A user's own settings do not count: a test is the same for everybody.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from recorder.errors import UsageError
from recorder.replay.matching.noise import Rules, rules_from

FILE_NAME = "recorder.toml"


def rules(config: pytest.Config, told: Any) -> Rules:
    """Those of a marker; of a table, the keys that it does not have are those of the project. Raises `UsageError`."""
    if isinstance(told, Rules):
        return told
    if not isinstance(told, Mapping):
        raise UsageError(
            f"match={told!r} of the recorder marker is no [match] table: write a dict like "
            '{"fields": ["metadata.run"]}, or recorder.replay.matching.noise.Rules.'
        )
    where, table = _of_the_project(config)
    found = _checked(where, table)
    return _checked("The recorder marker", {**table, **told}) if told else found


def shown(path: Path, root: Path) -> str:
    """A path as a person calls it."""
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def _checked(where: str, table: Mapping[str, Any]) -> Rules:
    try:
        return rules_from(table)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None


def _of_the_project(config: pytest.Config) -> tuple[str, Mapping[str, Any]]:
    """The file, and its table."""
    named = config.getini("recorder_match")
    path = config.rootpath / (named or FILE_NAME)
    where = shown(path, config.rootpath)
    if not named and not path.is_file():
        return where, {}
    table = _read(path, where).get("match")
    if isinstance(table, dict):
        return where, table
    if table is None and not named:
        return where, {}
    raise UsageError(f"{where} has no table [match], where recorder_match looks for one.")


def _read(path: Path, where: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"recorder_match: {where} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise UsageError(f"{where} is not valid TOML ({error}): mend it.") from None
