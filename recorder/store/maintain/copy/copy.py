"""A log copied into another one, whatever engine each of them is on.

Rules of this file:

* The source is only read, and may be recorded into meanwhile.
* Events are verified before they are written: an event that does not fit its chain is not written, and nothing after
  it. An exchange that was recorded with contradicting sums is reported, and copied.
* A copy may break off anywhere, and the next one continues: of an exchange that the target has, its last event shows
  whether it is the same.
* The places of journals in the log (`ingest_offsets`) are not copied: they belong to the recorders of the source. The
  cursors of exports (`export_cursors`) are not copied either: a push of the copy sends everything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby

from recorder.errors import StoreBusyError, StoreError, StoreLostError, UsageError
from recorder.model.events import Event
from recorder.store.maintain.copy.source import FIRST_ID, LAST_ID, BulkReader, Extent, Span
from recorder.store.maintain.copy.target import Batch, CopyReport, CopyTarget, ExchangeCopy
from recorder.store.maintain.purge.delete import bury
from recorder.store.write.writer import Store

Progress = Callable[[int, int], None]
"""Called with the number of exchanges that are done, and of all."""


async def copy(
    source: BulkReader, target: BulkReader, store: Store, progress: Progress, session_ids: Collection[str] | None = None
) -> list[CopyReport]:
    """Copy all sessions, or some, in order of their ids, which is that of their beginning.

    `target` and `store` are the same database. Raises `UsageError` if `source` is it too, `StoreError` if one of them
    fails; what was copied until then stays.
    """
    here = await source.server()
    if here and here == await target.server():
        raise same_database(source.name, target.name)
    entry = CopyTarget(target, store)
    await _bury(source, entry, store, of_source=session_ids is None)
    spans = [(FIRST_ID, LAST_ID)] if session_ids is None else [(each, each) for each in sorted(set(session_ids))]
    await _Copying(source, entry, progress, await source.count(session_ids)).copy(spans)
    return list(entry.copied.values())


def same_database(source: str, target: str) -> UsageError:
    return UsageError(f"{source} and {target} are the same database: there is nothing to copy.")


async def _bury(source: BulkReader, entry: CopyTarget, store: Store, *, of_source: bool) -> None:
    """Add the source's tombstones to the target. A session that the target still has is for its owner to purge."""
    entry.closed = {each.session_id for each in await entry.side.tombstones()}
    new = [each for each in await source.tombstones() if each.session_id not in entry.closed]
    if not (of_source and new):
        return
    with store.transaction(alone=True):  # else somebody may add such a session at this moment
        alive = [each.session_id for each in new if not bury(store, each)]
    for session_id in alive:
        message = f"it was purged in {source.name}, but not in {entry.side.name}: purge it there too"
        entry.of(session_id).find(None, "purge", message)


class _Copying:
    """One copy, from its beginning to its end."""

    def __init__(self, source: BulkReader, entry: CopyTarget, progress: Progress, total: int) -> None:
        self._source, self._entry, self._progress = source, entry, progress
        self._done, self._total = 0, total

    async def copy(self, spans: Iterable[Span]) -> None:
        for span in spans:
            async for page in self._source.extents(span):
                await self._copy(page)
        await self._commit()

    async def _copy(self, page: Sequence[Extent]) -> None:
        """Copy what the target lacks of a page of exchanges; neighbours are read together."""
        there = await self._entry.side.extents_of([each.exchange.exchange_id for each in page if each.exchange])
        for is_new, some in groupby(page, lambda each: self._is_new(each, there.get(each.key))):
            if is_new:
                await self._follow(
                    [ExchangeCopy(each, each.exchange, there.get(each.key)) for each in some if each.exchange]
                )
        self._progress(self._done, self._total)

    def _is_new(self, extent: Extent, there: Extent | None) -> bool:
        """Return whether events of an exchange are to be read; else it is done."""
        session_id = extent.session.session_id
        copied = self._entry.of(session_id, extent.session.name)
        copied.purged = session_id in self._entry.closed
        if extent.exchange is None:
            self._entry.add(Batch(extent.session, None, []))
            return False
        if not copied.purged and extent != there:
            return True
        if not copied.purged:
            copied.standing += 1
            copied.open += [] if extent.has_ended else [extent.exchange.exchange_id]
        self._done += 1
        return False

    async def _follow(self, run: Sequence[ExchangeCopy]) -> None:
        """Read neighbours together; if that fails, one by one, so that a damaged one does not cost the others."""
        error = await self._read(run)
        if error is not None and len(run) > 1:
            for each in run:
                each.begin()
                await self._follow([each])
        else:
            for each in run:
                self._end(each, error)

    async def _read(self, run: Sequence[ExchangeCopy]) -> StoreError | None:
        """Read neighbours to their ends; return the error that prevented it."""
        going = {each.key: each for each in run}
        pages = self._source.events_between(run[0].key, run[-1].key)
        while True:
            try:
                page = await anext(pages, None)
            except (StoreBusyError, StoreLostError):
                raise
            except StoreError as error:
                return error
            if page is None:
                return None
            for key, some in groupby(page, lambda event: (event.session_id, event.exchange_id)):
                if key in going:  # else it has begun since
                    self._take(going[key], some)
            if self._entry.is_full():
                await self._commit()

    def _take(self, going: ExchangeCopy, events: Iterable[Event]) -> None:
        taken = [event for event in events if going.takes(event)]
        if taken:
            self._entry.add(Batch(going.session, going, taken))

    def _end(self, going: ExchangeCopy, error: StoreError | None) -> None:
        """Report an exchange that was read to the end that it has now."""
        self._done += 1
        if going.is_refused or going.key[0] in self._entry.closed:
            return
        copied, verifier, exchange_id = self._entry.of(going.key[0]), going.verifier, going.exchange.exchange_id
        if error is not None:
            going.is_broken = True
            copied.find(exchange_id, "file", f"the rest cannot be read: {error}")
        is_whole = not going.is_broken
        if is_whole and (verifier.end_pos is not None or not verifier.events):
            verifier.close()
        for pos, check, message in verifier.findings:
            copied.find(exchange_id, check, message, pos)
        if is_whole and verifier.end_pos is None:
            copied.open.append(exchange_id)
        if going.last is None:
            self._entry.add(Batch(going.session, going if is_whole else None, []))
        self._entry.end(going)

    async def _commit(self) -> None:
        await self._entry.commit()
        self._progress(self._done, self._total)
