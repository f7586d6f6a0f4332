"""`manifest.json` of an export: the digest of each file, and the last hash of each exchange that the files are of.

Rules of this file:

* The last hash proves all events of an exchange, and the export holds what these events gave. So an export is covered
  by the log's own proof: `recorder verify --against DIR` compares the hashes, and the digests of the files.
* It names every file that belongs to the export. It is written last: after a crash between the files and the manifest
  some files are not those of the manifest, and the next export writes them again.
* It takes 110 bytes for an exchange, and is read whole: 11 MB for 10^5 exchanges, of some 10^7 events.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import file_digest
from pathlib import Path
from typing import Literal

import msgspec

from recorder.cassettes import refused
from recorder.errors import UsageError

NAME = "manifest.json"
SUFFIX = ".parquet"

Digests = dict[str, str]
"""Files by their path in the export, and the SHA-256 of each."""


class ExportedDay(msgspec.Struct, frozen=True):
    """A day of UTC: its files, and the last hash of each exchange that began on it; none of one that was open."""

    is_complete: bool
    """The day was over, and each of its exchanges had ended."""
    files: Digests
    exchanges: dict[str, dict[str, str | None]]
    """By session, by exchange."""


class ParquetManifest(msgspec.Struct, frozen=True):
    """Everything that an export consists of."""

    session_id: str | None
    """The session that it is of; none if it is of all."""
    events: bool
    """It has the events besides the views."""
    format: Literal["recorder parquet 1"] = "recorder parquet 1"
    exported_ns: int = 0
    files: Digests = msgspec.field(default_factory=dict)
    """Those that are of no day: sums, and sessions."""
    days: dict[str, ExportedDay] = msgspec.field(default_factory=dict)

    @property
    def all_files(self) -> Digests:
        return {**self.files, **{path: digest for day in self.days.values() for path, digest in day.files.items()}}

    def exchanges(self) -> dict[str, dict[str, str | None]]:
        """Return the last hash of each exchange, by session."""
        found: dict[str, dict[str, str | None]] = {}
        for day in self.days.values():
            for session_id, exchanges in day.exchanges.items():
                found.setdefault(session_id, {}).update(exchanges)
        return found


def read_manifest(folder: Path) -> ParquetManifest:
    """Return the manifest of an export. Raise `UsageError` if the folder has none."""
    path = folder / NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=ParquetManifest)
    except OSError as error:
        raise refused(path, error) from error
    except msgspec.MsgspecError as error:
        raise UsageError(f"{path} is not a manifest of `recorder export --format parquet`: {error}.") from error


def write_manifest(folder: Path, manifest: ParquetManifest) -> None:
    """Write a manifest under another name, then rename it: a reader finds the old or the new one, whole."""
    temporary = folder / f".{NAME}"
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
    os.replace(temporary, folder / NAME)


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def changed_files(folder: Path, manifest: ParquetManifest) -> Iterator[str]:
    """Yield a sentence for each file of an export that is not the one that was written."""
    expected = manifest.all_files
    for name, digest in sorted(expected.items()):
        try:
            found = digest_of(folder / name)
        except OSError as error:
            yield f"{folder / name} cannot be read: {error.strerror}"
        else:
            if found != digest:
                yield f"{folder / name} is not the file that was exported: it was changed, or an export broke off"
    there = {str(path.relative_to(folder)) for path in folder.rglob(f"*{SUFFIX}") if not _is_hidden(path, folder)}
    for name in sorted(there - expected.keys()):
        yield f"{folder / name} is not in the manifest: it was added, or an export broke off"


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)
