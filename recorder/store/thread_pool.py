"""The connections of a reader to a database, for an event loop: each is used in a thread.

Rules of this file:

* It is a `recorder.store.engine.ReadPool` over any engine of SQLAlchemy. `sqlalchemy.ext.asyncio` would be another, but
  loads the ORM, which takes longer than all else that a command needs.
* There are at most so many connections, and a thread for each: who wants one more waits.
* The statement of a task that is cancelled is ended, and its connection closed: a late cancel would end the next one.
* The threads are no reason for a process to go on: a server that does not answer the login keeps nobody from leaving.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, CursorResult, Engine, Row
from sqlalchemy.sql import Executable

T = TypeVar("T")
AnyRow = Row[*tuple[Any, ...]]
Interrupt = Callable[[Any], None]
"""End the statement that a connection of the driver runs, if it runs one. Called in another thread."""

AGAIN_S = 0.1  # a statement that had not begun when it was to end is ended then


class Rows:
    """A `recorder.store.engine.ReadRows`."""

    def __init__(self, rows: Sequence[AnyRow]) -> None:
        self._rows = rows

    def all(self) -> Sequence[AnyRow]:
        return self._rows

    def scalar_one(self) -> Any:
        [row] = self._rows
        return row[0]


class Worker:
    """A thread that does one thing after another, for an event loop."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._work, name="reader", daemon=True)
        self.thread.start()

    def submit(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Do something; return its result to the loop that runs, if that still runs then."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def do() -> None:
            try:
                found = work()
            except BaseException as error:
                _deliver(loop, _fail, future, error)
            else:
                _deliver(loop, _finish, future, found)

        self._tasks.put(do)
        return future

    def stop(self, last: Callable[[], None] | None = None) -> None:
        """End the thread after what it has to do, and after `last`. Nobody waits for that."""
        if last is not None:
            self._tasks.put(last)
        self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            del task  # else the last rows stay in memory until there is something else to do


def _deliver(loop: asyncio.AbstractEventLoop, set: Callable[..., None], *values: Any) -> None:
    try:
        loop.call_soon_threadsafe(set, *values)
    except RuntimeError:  # the loop is closed: nobody waits any more
        pass


def _finish(future: asyncio.Future[Any], found: object) -> None:
    if not future.done():
        future.set_result(found)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


class ThreadPool:
    """The connections of an engine; `limit` of them at most."""

    def __init__(self, engine: Engine, limit: int, interrupt: Interrupt) -> None:
        self.engine, self.interrupt = engine, interrupt
        self._idle: list[Worker] = []
        self._free = asyncio.Semaphore(limit)
        self._is_closed = False

    def connect(self) -> ThreadConnection:
        return ThreadConnection(self)

    async def take(self) -> Worker:
        """Return a thread that no other connection uses; the one used last, so that few are started."""
        await self._free.acquire()
        return self._idle.pop() if self._idle else Worker()

    def give_back(self, worker: Worker) -> None:
        if self._is_closed:
            worker.stop()
        else:
            self._idle.append(worker)
        self._free.release()

    async def dispose(self) -> None:
        """Close the connections that nobody uses; others when they are given back."""
        self._is_closed = True
        worker = self._idle.pop() if self._idle else Worker()
        try:
            await worker.submit(self.engine.dispose)
        finally:
            for each in (worker, *self._idle):
                each.stop()
            self._idle.clear()

    @property
    def is_closed(self) -> bool:
        return self._is_closed


class ThreadConnection:
    """A connection in a transaction, which ends with the block: a `recorder.store.engine.ReadConnection`."""

    def __init__(self, pool: ThreadPool) -> None:
        self._pool = pool
        self._worker: Worker | None = None
        self._connection: Connection | None = None
        self._driver: Any = None  # its connection, which another thread may interrupt
        self._is_cancelled = False  # a statement of it

    async def __aenter__(self) -> Self:
        self._worker = worker = await self._pool.take()
        opening = worker.submit(self._open)
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:  # a login may take long, and nothing ends it: its thread closes what it gets
            opening.cancel()
            closing = worker.submit(self._close)
            closing.add_done_callback(lambda _: self._pool.give_back(worker))
            raise
        except BaseException:
            self._pool.give_back(worker)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._worker is not None
        closing = self._worker.submit(self._close)
        is_cancelled = await _settled(closing)
        self._pool.give_back(self._worker)
        if is_cancelled:
            raise asyncio.CancelledError
        closing.result()

    async def execute(self, statement: Executable, values: Any = None, /) -> Rows:
        """Return all rows of a statement. Raise the errors of the driver, or of SQLAlchemy."""

        def work() -> Sequence[AnyRow]:
            return self._opened.execute(statement, values).all()

        return Rows(await self._run(work))

    async def pages(
        self, statement: Executable, values: Mapping[str, Any], size: int
    ) -> AsyncIterator[Sequence[AnyRow]]:
        """Yield the rows of a statement as they come, so many at a time."""

        def begin() -> CursorResult[*tuple[Any, ...]]:
            return self._opened.execute(statement, values, execution_options={"stream_results": True})

        def more() -> Sequence[AnyRow]:
            return rows.fetchmany(size)

        rows = await self._run(begin)
        while page := await self._run(more):
            yield page

    @property
    def _opened(self) -> Connection:
        assert self._connection is not None, "used before its beginning or after its end"
        return self._connection

    def _open(self) -> None:
        self._connection = self._pool.engine.connect()
        self._driver = self._connection.connection.driver_connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:  # it could not be opened
            return
        if self._is_cancelled or self._pool.is_closed:
            connection.invalidate()
        connection.close()

    async def _run(self, work: Callable[[], T]) -> T:
        """Do something in the thread. If the task is cancelled, end the statement that runs, and wait for its end."""
        assert self._worker is not None
        done = self._worker.submit(work)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            self._is_cancelled = True
            await self._ended(done)
            raise

    async def _ended(self, done: asyncio.Future[Any]) -> None:
        """End a statement. One that has not begun is not ended by an interrupt, so there may be more of them."""
        ending: asyncio.Future[None] | None = None
        while not done.done():
            if ending is None or ending.done():
                ending = asyncio.get_running_loop().run_in_executor(None, self._pool.interrupt, self._driver)
            await _settled(done, AGAIN_S)
        done.exception()  # it is of no use to anybody


async def _settled(done: asyncio.Future[Any], timeout_s: float | None = None) -> bool:
    """Wait for the end of something, however often the task is cancelled; return whether it was."""
    is_cancelled = False
    while not done.done():
        try:
            await asyncio.wait([done], timeout=timeout_s)
        except asyncio.CancelledError:
            is_cancelled = True
        if timeout_s is not None:
            break
    return is_cancelled
