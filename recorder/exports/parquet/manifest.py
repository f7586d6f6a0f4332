"""`manifest.json` of an export: the digest of each file, and the last hash of each exchange that
the files are of.

Rules of this file:

* The last hash proves all events of an exchange, and the export holds what these events gave. So an
  export is covered by the log's own proof: `recorder verify --against DIR` compares the hashes, and
  the digests of the files.
* It names every file that belongs to the export. It is written last: after a crash between the
  files and the manifest some files are not those of the manifest, and the next export writes them
  again.
* A log that has grown since is not a finding. An exchange that the export has and the log has not
  is one, unless its session was purged: then the export holds what was to be deleted, and a
  sentence says so.
* It takes 110 bytes for an exchange, and is read whole: 11 MB for 10^5 exchanges, of some 10^7
  events.
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
from recorder.model.text import counted
from recorder.store.maintain.verify.log import SessionReport

NAME = "manifest.json"
SUFFIX = ".parquet"
_CHECK = "export"  # of a finding

Digests = dict[str, str]
"""Files by their path in the export, and the SHA-256 of each."""


class ExportedDay(msgspec.Struct, frozen=True):
    """A day of UTC: its files, and the last hash of each exchange that began on it; none of one
    that was open.
    """

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
        every = dict(self.files)
        for day in self.days.values():
            every |= day.files
        return every

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
    except FileNotFoundError as error:
        raise UsageError(
            f"{folder} has no {NAME}: give a manifest, or the folder of `recorder export --format parquet`."
        ) from error
    except OSError as error:
        raise refused(path, error) from error
    except msgspec.MsgspecError as error:
        raise UsageError(
            f"{path} is not a manifest of `recorder export --format parquet`: {error}."
        ) from error


def write_manifest(folder: Path, manifest: ParquetManifest) -> None:
    """Write a manifest under another name, then rename it: a reader finds the old or the new one,
    whole.
    """
    temporary = folder / f".{NAME}"
    # of an export that broke off, or a link, which would be written through
    temporary.unlink(missing_ok=True)
    with temporary.open("xb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
    os.replace(temporary, folder / NAME)


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


class ExportedFolder:
    """An export, to which the sessions of a log are compared one after another."""

    def __init__(self, folder: Path) -> None:
        """Read the manifest. Raise `UsageError` if the folder has none."""
        self._folder, self._manifest = folder, read_manifest(folder)
        self.sessions = self._manifest.exchanges()
        """The last hash of each exchange, or None of one that was open, by session."""
        self._new = self._purged = 0

    def changed_files(self) -> Iterator[str]:
        """Yield a sentence for each file that is not the one that was written."""
        folder, expected, there = self._folder, self._manifest.all_files, set[str]()
        for name, digest in sorted(expected.items()):
            try:
                found = digest_of(folder / name)
            except OSError as error:
                yield f"{folder / name} cannot be read: {error.strerror}"
            else:
                if found != digest:
                    yield f"{folder / name} is not the file that was exported: it was changed, or an export broke off"
        for path in folder.rglob(f"*{SUFFIX}"):
            place = path.relative_to(folder)
            if not any(part.startswith(".") for part in place.parts):
                there.add(str(place))
        for name in sorted(there - expected.keys()):
            yield f"{folder / name} is not in the manifest: it was added, or an export broke off"

    def compare(self, verified: SessionReport) -> None:
        """Add findings to the report of a session: exchanges that differ from the export, or are
        missing in the log.
        """
        exported = self.sessions.get(verified.session_id, {})
        if verified.archived is not None:
            return  # its archive has it, and is compared where it is attached
        if verified.purged:
            self._purged += bool(exported)
            return
        there = {
            *verified.heads,
            *verified.open,
            *(found.exchange_id for found in verified.findings),
        }
        for exchange_id, last in sorted(exported.items()):
            head = verified.heads.get(exchange_id)
            if exchange_id not in there:
                verified.find(
                    exchange_id, _CHECK, "the export has it, and the log does not: it was removed"
                )
            elif last is not None and head is not None and head.hex() != last:
                verified.find(
                    exchange_id,
                    _CHECK,
                    "its last hash is not that of the export: one of them was changed",
                )
        if self._manifest.session_id in (None, verified.session_id):
            self._new += sum(exported.get(exchange_id) is None for exchange_id in verified.heads)

    def remarks(self) -> Iterator[str]:
        """Yield sentences on differences that are not findings."""
        if self._new:
            yield f"The export lacks {counted(self._new, 'exchange')} that ended since or began before: export again."
        if self._purged:
            purged = counted(self._purged, "session")
            yield f"The export still has {purged} that the log has purged: export again without --since."
