"""What journals may still hold of sessions that are purged: overwritten where it stands, or told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from recorder.commands.ops.journals import journals
from recorder.commands.ui.output import echo
from recorder.errors import RecorderError
from recorder.journal.format import START, Position
from recorder.journal.scrub import scrub_exchanges
from recorder.model.text import safe_text
from recorder.store.writer import Store


class Late:
    """The exchanges that journals may still hold, by recorder."""

    def __init__(self) -> None:
        self._ids: dict[str, set[str]] = {}

    def add(self, late: Mapping[str, Sequence[str]]) -> None:
        for recorder_id, exchange_ids in late.items():
            self._ids.setdefault(recorder_id, set()).update(exchange_ids)

    def blank(self, store: Store, root: Path) -> bool:
        """Overwrite them; returns whether none is left."""
        there = [directory for directory in journals(root) if directory.name in self._ids]
        return all([self._blank(store, directory) for directory in there])

    def tell_elsewhere(self, root: Path) -> None:
        """Journals of other machines are theirs to delete, as they do when they are done with a segment."""
        elsewhere = self._ids.keys() - {directory.name for directory in journals(root)}
        if elsewhere:
            count = "a journal" if len(elsewhere) == 1 else f"{len(elsewhere):,} journals"
            echo(f"What {count} on other machines may still hold of it, their recorders delete.")

    def _blank(self, store: Store, directory: Path) -> bool:
        with store.transaction():
            place = store.offset(directory.name)
        try:
            return scrub_exchanges(directory, Position(*place) if place else START, self._ids[directory.name])
        except (OSError, RecorderError) as error:
            echo(safe_text(f"The journal {directory} cannot be overwritten: {error}"))
            return False
