"""Where settings come from: flags, then `RECORDER_*`, then `./recorder.toml`, then the user's own `recorder.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import platformdirs

from recorder.errors import UsageError

FILE_NAME = "recorder.toml"


def defaults() -> dict[str, Any]:
    """The settings of the configuration files, by command, as click takes them.

    A file has `db = "…"` for all commands and a table per command, with the names of its long options.
    """
    merged: dict[str, Any] = {}
    for path in (platformdirs.user_config_path("recorder") / FILE_NAME, Path(FILE_NAME)):
        for name, value in _read(path).items():
            if isinstance(value, dict):
                merged[name] = {**merged.get(name, {}), **{key.replace("-", "_"): v for key, v in value.items()}}
            else:
                merged[name] = value
    database = merged.pop("db", None) if not isinstance(merged.get("db"), dict) else None
    if database is None:
        return merged
    return {verb: {"database": database, **merged.get(verb, {})} for verb in _verbs(merged)}


def _verbs(merged: dict[str, Any]) -> set[str]:
    from recorder.commands import VERBS

    return {*VERBS, *merged}


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML ({error}): mend it or move it away.") from error
