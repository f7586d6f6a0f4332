"""A log in a file, with a lock file and journals beside it: a `recorder.store.engine.Address`.

Its URL has the absolute path and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import URL

from recorder.errors import StoreError, UsageError
from recorder.store.engine import nothing_in

is_local = True
purged_from = "file or its WAL"
purge_notice: str | None = None


def normalize(url: URL) -> URL:
    if url.query:
        raise UsageError("The URL of a database file takes no options: recorder sets them itself.")
    if (url.database or "") in ("", ".", ":memory:"):
        raise UsageError("The log needs a database file: give a path, or sqlite:///PATH.")
    return URL.create("sqlite", database=str(Path(url.database or "").expanduser().absolute()))


def display_name(url: URL) -> str:
    return url.database or ""


def path(url: URL) -> Path:
    return Path(url.database or "")


def lock_path(file: Path) -> Path:
    """Return the path of the lock file of a database."""
    return Path(f"{file}.lock")


def journal_root(url: URL) -> Path:
    return Path(f"{url.database}.journal")


def verified_path(url: URL) -> Path:
    return Path(f"{url.database}.verified")


def files(url: URL) -> Sequence[Path]:
    file = path(url)
    return (file, *(Path(f"{file}{end}") for end in ("-wal", "-shm")), lock_path(file))


def is_missing(url: URL) -> bool:
    return not path(url).exists()


def require(url: URL) -> None:
    if path(url).is_dir():
        raise StoreError(f"{url.database} is a directory: the database needs the path of a file.")
    if is_missing(url):
        raise nothing_in(url)


def is_same(url: URL, other: URL) -> bool:
    paths = path(url), path(other)
    return paths[0] == paths[1] or (
        all(each.exists() for each in paths) and paths[0].samefile(paths[1])
    )
