"""An archive read as a log, for an event loop.

Rules of this file:

* A statement with the value `session_id` is about one session, and is asked of that session as a
  log. Every other is asked of DuckDB, which reads the tables of all sessions.
* DuckDB runs in one thread, in which the archive is opened. It understands almost every statement
  of recorder as it is written for SQLite. What it does not is changed by a dialect, and only if
  some statement has it. It only reads, so it begins and ends no transaction: each statement sees
  the archive as it is.
* Of more than `SESSIONS` unpacked ones, or more than `LIMIT_BYTES`, the least recently used are
  removed; the session in use stays, however large it is. Whoever reads a session that is not as it
  was recorded is told so, and reads it: most of it is as it was.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from typing import Any, NamedTuple, Self, TypeVar

from sqlalchemy import URL
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler, SQLiteDialect
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData
from sqlalchemy.sql import Executable

from recorder.archive.lake import translated
from recorder.archive.place import DIALECT, database_name
from recorder.archive.unpack import Archive, UnpackedLog, open_archive
from recorder.model.text import counted
from recorder.store.engine import AnyRow, ReadRows, ReadSource
from recorder.store.queries.reader import LogReader
from recorder.store.search import INDEXES, SearchIndex


class DuckdbCompiler(SQLiteCompiler):
    """The compiler of statements."""

    def visit_empty_set_expr(self, element_types: Any, **options: Any) -> str:
        """Write the list of an `IN` that is empty: a NULL has the type of whatever it is compared
        with.
        """
        return f"SELECT {', '.join('NULL' for _ in element_types or [None])} WHERE 1 <> 1"


class DuckdbDialect(SQLiteDialect):
    """The dialect, with values by position: `$1`, `$2`."""

    name = DIALECT
    statement_compiler = DuckdbCompiler
    default_paramstyle = "numeric_dollar"


_DIALECT = DuckdbDialect()


def _sessions(words: str) -> tuple[str, dict[str, str]]:
    """Select the sessions with a row that has all words somewhere: an archive has no index of
    words.
    """
    values = {
        f"word_{number}": word.removesuffix("*")
        for number, word in enumerate(words.replace("\0", " ").split())
    }
    parts = []
    for index in INDEXES:
        texts = f"concat_ws(' ', {index.columns})"
        contained = [f"contains({_PLAIN(texts)}, {_PLAIN(f':{name}')})" for name in values]
        parts.append(
            f"SELECT session_id FROM {index.projection.table} WHERE {' AND '.join(['true', *contained])}"
        )
    return " UNION ALL ".join(parts), values


_PLAIN = "lower(strip_accents({}))".format
SEARCH = SearchIndex((), _sessions)


COMMAND = "--db ducklake:…"
"""The part of a command that needs the extra, in the sentence for a user who does not have it."""

SESSIONS = 4  # two that are compared, and those that a viewer looks at besides
LIMIT_BYTES = 512 * 2**20  # of all files together: eight sessions of 100,000 events

T = TypeVar("T")

_log = logging.getLogger(__name__)
_NOT_AS_RECORDED = (
    "Session %s in %s is not as it was recorded (%s with another last hash): "
    "`recorder verify` finds the places."
)


class _Unpacked(NamedTuple):
    """A session as a log, and its reader."""

    log: UnpackedLog
    reader: LogReader

    async def close(self) -> None:
        await self.reader.close()
        self.log.close()


class ArchiveReader(LogReader):
    """An archive, open for reading. `await ArchiveReader.open_with(url, prices)`."""

    def __init__(self, url: URL, prices: Sequence[Sequence[Any]]) -> None:
        self._archive = _InThread(url, prices)
        source = ReadSource(
            dialect=DIALECT,
            name=database_name(url),
            pool=self._archive,
            translated=translated,
            search=lambda: SEARCH,
            of_bodies="sqlite",  # a session's own log
        )
        super().__init__(url, source)
        self._unpacking = asyncio.Lock()
        # the last is the one that was used last
        self._unpacked: OrderedDict[str, _Unpacked] = OrderedDict()

    @classmethod
    async def open_with(cls, url: URL, prices: Sequence[Sequence[Any]] = ()) -> Self:
        """Open an archive with the prices of a log.

        Raise `NotFoundError` or `StoreError` if it cannot be read.
        """
        archive = cls(url, prices)
        try:
            await archive._archive.open()
        except BaseException:
            await archive.close()
            raise
        return archive

    async def close(self) -> None:
        while self._unpacked:
            await self._unpacked.popitem()[1].close()
        await super().close()

    async def rows(self, statement: Executable, **values: Any) -> Sequence[AnyRow]:
        if "session_id" not in values:
            return await super().rows(statement, **values)
        async with self._unpacking:  # whoever reads one session does not remove it for another
            session = await self._session_log(values["session_id"])
            return await session.rows(statement, **values)

    async def _session_log(self, session_id: str) -> LogReader:
        known = self._unpacked.pop(session_id, None)
        if known is None:
            log = await self._archive.unpack(session_id)
            if log.unchained:
                _log.warning(
                    _NOT_AS_RECORDED, session_id, self.name, counted(len(log.unchained), "exchange")
                )
            known = _Unpacked(log, await LogReader.open(log.url))
        self._unpacked[session_id] = known
        while len(self._unpacked) > 1 and self._is_full():
            await self._unpacked.popitem(last=False)[1].close()
        return known.reader

    def _is_full(self) -> bool:
        size_bytes = sum(each.log.size_bytes for each in self._unpacked.values())
        return len(self._unpacked) > SESSIONS or size_bytes > LIMIT_BYTES


class _InThread:
    """An archive in a thread, for questions about all sessions: a `recorder.store.engine.ReadPool`,
    and the connection of that.
    """

    def __init__(self, url: URL, prices: Sequence[Sequence[Any]]) -> None:
        self._url, self._prices = url, prices
        self._rest = ExitStack()
        self._archive: Archive | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="archive")

    def connect(self) -> nullcontext[Self]:
        return nullcontext(self)

    async def open(self) -> None:
        await self._run(self._open)

    async def execute(
        self, statement: Executable, values: Mapping[str, Any] | None = None
    ) -> ReadRows:
        """Return all rows of a statement. Raise the errors of the driver."""
        return await self._run(self._rows, statement, dict(values or {}))

    async def unpack(self, session_id: str) -> UnpackedLog:
        assert self._archive is not None
        return await self._run(self._archive.unpack, session_id)

    async def dispose(self) -> None:
        """Close everything. A statement that still runs is ended."""
        if self._archive is not None:
            self._archive.connection.interrupt()
        await self._run(self._rest.close)
        self._thread.shutdown(wait=False)

    async def _run(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    def _open(self) -> None:
        with ExitStack() as opening:
            self._archive = opening.enter_context(open_archive(self._url, COMMAND, self._prices))
            # as in the other engines
            self._archive.connection.execute("SET integer_division = true")
            self._rest.push(opening.pop_all())

    def _rows(self, statement: Any, values: dict[str, Any]) -> ReadRows:
        assert self._archive is not None
        compiled = statement.compile(dialect=_DIALECT).construct_expanded_state(values)
        result = self._archive.connection.execute(
            compiled.statement, compiled.positional_parameters
        )
        names = [name for name, *_ in result.description]
        return IteratorResult(SimpleResultMetaData(names), iter(result.fetchall()))
