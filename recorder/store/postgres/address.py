"""A log in a schema of a database on a server, which other machines record into too: an `Address`.

Its URL names the driver; journals are in the data directory.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from platformdirs import user_data_path
from sqlalchemy import URL

from recorder.errors import UsageError

is_local = False
purged_from = "tables"
purge_notice: str | None = (
    "Nobody reads it any more. Its bytes go when the server uses their room again; its WAL and backups have them."
)


def normalize(url: URL) -> URL:
    if not url.database:
        raise UsageError("The URL names no database: give postgresql://USER@HOST/DATABASE.")
    return url.set(drivername="postgresql+psycopg")


def display_name(url: URL) -> str:
    host = url.query.get("host", url.host or "")
    port = f":{url.port}" if url.port else ""
    return f"postgresql://{host if isinstance(host, str) else ','.join(host)}{port}/{url.database}"


def path(url: URL) -> NoReturn:
    raise UsageError(
        f"{display_name(url)} is not a file: this works with a database of SQLite only."
    )


def journal_root(url: URL) -> Path:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", display_name(url).removeprefix("postgresql://")).strip(
        "-"
    )
    return user_data_path("recorder", appauthor=False) / "journals" / name


def verified_path(url: URL) -> Path:
    return Path(f"{journal_root(url)}.verified")


def files(_url: URL) -> Sequence[Path]:
    return ()


def is_missing(_url: URL) -> bool:
    return False


def require(_url: URL) -> None:
    """Do nothing: only the server knows."""


def is_same(url: URL, other: URL) -> bool:
    return url == other
