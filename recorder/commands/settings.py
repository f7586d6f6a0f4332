"""Where settings come from: flags, then `RECORDER_*`, then `./recorder.toml`, then the user's own `recorder.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import click
import platformdirs

from recorder.commands.verbs import VERBS
from recorder.errors import UsageError

FILE_NAME = "recorder.toml"


def defaults() -> dict[str, Any]:
    """The settings of the configuration files: a table for each command, with the names of its long options.

    `db = "…"` outside of any table is for all commands.
    """
    merged: dict[str, Any] = {}
    for path in (platformdirs.user_config_path("recorder") / FILE_NAME, Path(FILE_NAME)):
        for name, value in _read(path).items():
            merged[name] = {**merged.get(name, {}), **value} if isinstance(value, dict) else value
    database = merged.pop("db", None)
    if database is None:
        return merged
    return {verb: {"db": database, **merged.get(verb, {})} for verb in VERBS}


def by_parameter(verb: str, command: click.Command, given: dict[str, Any]) -> dict[str, Any]:
    """Settings of a command by the names of its options → by the names of its parameters, as click wants them."""
    if isinstance(command, click.Group):
        return {name: by_parameter(verb, sub, given) for name, sub in command.commands.items()}
    names = {option.lstrip("-"): param.name or "" for param in command.params for option in param.opts}
    unknown = [name for name in given if name not in names and name not in names.values()]
    if unknown:
        raise UsageError(f"{FILE_NAME}: `recorder {verb}` has no option --{unknown[0]}.")
    return {names.get(name, name): value for name, value in given.items()}


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML ({error}): mend it or move it away.") from error
