"""The places where clients of the user name their sessions, from the tables `[sessions]` of `recorder.toml`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from recorder.commands.terminal.settings import PLACES, SESSIONS, refusal, settings_files
from recorder.errors import UsageError
from recorder.proxy.routing import SessionPlaces
from recorder.wire.redaction.headers import is_secret_header

_PLACE = re.compile(r"[\w!#$%&'*+.^`|~-]{1,100}", re.ASCII)  # the characters of a header's name; dots go into a field


def session_places() -> SessionPlaces:
    """Return where clients of the user name their sessions, from the `[sessions]` tables of both files.

    Such a name is kept as it came, of a header whose value is not kept otherwise, too: a project's file needs trust for
    it, and no file may name a header that has a secret.
    """
    found: dict[str, list[str]] = {name: [] for name in PLACES}
    for file in reversed([*settings_files()]):
        table = file.given.get(SESSIONS, {})
        for name in PLACES:
            found[name] += _place_names(file.path, name, table.get(name, []))
        places = {name: table[name] for name in PLACES if name in table}
        if names := file.refused(SESSIONS, places):
            raise UsageError(refusal(file.path, f"in [{SESSIONS}]", names))
    headers = tuple(header.lower().encode() for header in found["headers"])
    return SessionPlaces(headers, tuple(found["fields"]))


def _place_names(path: Path, name: str, given: Any) -> list[str]:
    names = given if isinstance(given, list) else [given]
    for each in names:
        if not isinstance(each, str) or _PLACE.fullmatch(each) is None:
            example = '["X-Run-Id"]' if name == "headers" else '["metadata.run"]'
            raise UsageError(f"{path}: `{name}` in [{SESSIONS}] is a list of names: {name} = {example}.")
        if name == "headers" and is_secret_header(each):
            raise UsageError(f"{path}: `headers` in [{SESSIONS}]: the value of {each} is a secret, and no name.")
    return names
