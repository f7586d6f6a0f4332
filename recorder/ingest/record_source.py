"""The records of an open exchange, read again from its journal, and what of a journal is put aside."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from recorder.errors import StoreError
from recorder.ingest.pending import RecordSource
from recorder.journal import unreadable
from recorder.journal.format import START, Position, Record, encode
from recorder.journal.reader import DamagedStretch, JournalReader, read_carried
from recorder.store.write.retry import Stopped, Uncommitted

log = logging.getLogger(__name__)

READ_BYTES = 4 * 2**20  # at a time


class JournalRecordSource(RecordSource):
    """The journal of an ingester, which sets its place: open exchanges began there or later, or are
    carried to it.
    """

    refusals = (StoreError, Stopped, Uncommitted, MemoryError)

    def __init__(self, directory: Path) -> None:
        self._directory, self._root = directory, directory.parent
        self.place = START
        self.writer_is_dead = False

    def records(self, number: int, start: Position) -> Iterator[Record]:
        """Yield the records of an open exchange; there may be more by now than were ingested."""
        if start <= self.place:
            yield from (
                record
                for record in read_carried(self._directory, self.place)
                if record.exchange == number
            )
        yield from (
            record for record in self._from(max(start, self.place)) if record.exchange == number
        )

    def records_of_open(self, numbers: Collection[int], until: Position) -> Iterator[Record]:
        """Yield the records of all open exchanges, as far as they were ingested."""
        for record in read_carried(self._directory, self.place):
            if record.exchange in numbers:
                yield record
        for record in self._from(self.place):
            if record.position > until:
                return
            if record.exchange in numbers:
                yield record

    def _from(self, place: Position) -> Iterator[Record]:
        return JournalReader(self._directory, place).records(
            READ_BYTES, writer_is_dead=self.writer_is_dead
        )

    def keep(self, name: str, session_id: str | None, records: Iterable[Record]) -> None:
        file_name = f"{session_id or unreadable.UNKNOWN}.{name}.seg"
        self._keep(f"what the journal has of exchange {name}", file_name, encode(records))

    def keep_stretch(self, stretch: DamagedStretch) -> None:
        """Move a damaged part of a segment into a file."""
        file_name = f"{unreadable.UNKNOWN}.{self._directory.name}-{stretch.path.stem}-{stretch.offset}.damaged"
        self._keep(
            f"{stretch.path} from byte {stretch.offset} on", file_name, unreadable.bytes_of(stretch)
        )

    def _keep(self, name: str, file_name: str, pieces: Iterable[bytes]) -> None:
        """Put something aside before its segment is deleted, if there is room for it."""
        place = unreadable.folder(self._root)
        try:
            is_stored = unreadable.keep(self._root, file_name, pieces)
        except OSError as error:
            log.error("%s cannot be kept in %s: %s", name, place, error.strerror)
            return
        if is_stored:
            log.error("%s is kept in %s", name, place)
        else:
            log.error(
                "%s is not kept: %s has reached %d MiB",
                name,
                place,
                unreadable.LIMIT_BYTES // 2**20,
            )
