"""Comparison of an export with the log that it was made of, and with the digests of its own files.

A log that has grown since is no finding. An exchange that the export has and the log has not is one, unless its session
was purged: then the export holds what was to be deleted, and a sentence says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recorder.exports.parquet.manifest import changed_files, read_manifest
from recorder.model.text import counted
from recorder.store.verify.log import SessionReport

_CHECK = "export"


class ExportedFolder:
    """An export, to which the sessions of a log are compared one after another."""

    def __init__(self, folder: Path) -> None:
        """Read the manifest. Raise `UsageError` if the folder has none."""
        self._folder, self._manifest = folder, read_manifest(folder)
        self.sessions = self._manifest.exchanges()
        """The last hash of each exchange, or None of one that was open, by session."""
        self._since = min(self._manifest.days, default="")
        self._new = self._purged = 0

    def changed_files(self) -> list[str]:
        """Return a sentence for each file that is not as it was written."""
        return list(changed_files(self._folder, self._manifest))

    def compare(self, verified: SessionReport) -> None:
        """Add findings to the report of a session: exchanges that differ from the export, or are missing in the log."""
        exported = self.sessions.get(verified.session_id, {})
        if verified.archived is not None:
            return  # its archive has it, and is compared where it is attached
        if verified.purged:
            self._purged += bool(exported)
            return
        there = {*verified.heads, *verified.open, *(found.exchange_id for found in verified.findings)}
        for exchange_id, last in sorted(exported.items()):
            head = verified.heads.get(exchange_id)
            if exchange_id not in there:
                verified.find(exchange_id, _CHECK, "the export has it, and the log does not: it was removed")
            elif last is not None and head is not None and head.hex() != last:
                verified.find(exchange_id, _CHECK, "its last hash is not that of the export: one of them was changed")
        if self._manifest.session_id in (None, verified.session_id):
            self._new += sum(exported.get(exchange_id) is None for exchange_id in verified.heads)

    def remarks(self) -> Iterator[str]:
        """Yield sentences on differences that are no findings."""
        if self._new:
            yield f"The export lacks {counted(self._new, 'exchange')} that ended since or began before: export again."
        if self._purged:
            purged = counted(self._purged, "session")
            yield f"The export still has {purged} that the log has purged: export again without --since."
