"""The time of the last full verification, in a small file beside the database:
`<database>.verified`.

Not in the database: who only proves something does not write to what he proves.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from sqlalchemy import URL

from recorder.archive.place import database_of, database_url
from recorder.commands.terminal.output import echo
from recorder.files import save
from recorder.store.engine import address_of


class LastVerify(msgspec.Struct, frozen=True):
    """The result of a `recorder verify` of everything."""

    began_ns: int
    ended_ns: int
    sessions: int
    exchanges: int
    events: int
    findings: int


def verified_path(database: Path | URL) -> Path:
    url = database_of(database_url(database))
    return address_of(url).verified_path(url)


def keep(database: Path | URL, last: LastVerify) -> None:
    """Replace the file. It cannot be written beside a read-only database."""
    path = verified_path(database)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        save(path, [msgspec.json.encode(last), b"\n"])
    except OSError as error:
        echo(
            f"The time of this verification cannot be saved for `recorder doctor`: {path}: {error.strerror}."
        )


def last_verify(database: Path | URL) -> LastVerify | None:
    """Return the last result, None if there is none.

    Raise `ValueError` or `OSError` if the file cannot be read.
    """
    try:
        return msgspec.json.decode(verified_path(database).read_bytes(), type=LastVerify)
    except FileNotFoundError:
        return None
