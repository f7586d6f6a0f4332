"""SQL of the user's own, asked in a process of its own.

Rules of this file:

* One step of an engine may take hours and gigabytes, and nothing interrupts it: SQLite and DuckDB
  compare two large values in one. A thread cannot be ended from outside, a process can, at any
  point: it only reads.
* The engine's own limit of time comes first, for it leaves an answer and a connection that is in
  order. A process that is silent for `GRACE_S` longer is killed.
* It answers one request after another, and sends rows when they are asked for: so no row waits
  anywhere but in a batch.
* It ends when its stdin does, and so with the process that asked, however that one ends.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from logging.handlers import QueueHandler
from queue import SimpleQueue
from threading import Thread, Timer
from typing import Any, NamedTuple, NoReturn

from sqlalchemy import URL

from recorder.errors import RecorderError
from recorder.program import command_of, load
from recorder.store.engine import querying_of
from recorder.store.queries.query import (
    STOPPED,
    TIMEOUT_S,
    Query,
    QueryResult,
    Row,
    Value,
    too_late,
)

# between a limit of time and the kill: an engine that can be interrupted has ended long before
GRACE_S = 2.0
# of a process: the largest value that SQLite makes, copied into a row and sent
MEMORY_BYTES = 2**30
FILE_BYTES = 2 * 2**30  # of one temporary file, of sorting
ANSWER_BYTES = 256 * 2**20  # of a row, as it is sent: the one who asked holds all of it too
BATCH_ROWS = 256  # that are sent at once
BATCH_BYTES = 2**20
BATCH_S = 0.1

_Call = tuple[str, tuple[Any, ...]]

TOO_MUCH = f"This takes more than the {MEMORY_BYTES >> 20} MiB of memory that a statement has: ask for less at once."
TOO_WIDE = f"A row is over {ANSWER_BYTES >> 20} MiB: take a part of it with substr(…)."

OWN_ENGINE = "recorder.store.queries.query_process:own_engine"
"""What opens a log for questions, as `recorder.program.load` takes it: the process calls it with
the URL.
"""


def own_engine(url: URL) -> AbstractContextManager[Query]:
    """Open a log for questions to its own engine, without its archives."""
    return querying_of(url).query(url)


class QueryProcess:
    """A `Query` whose statements another process runs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._is_stopped = self._is_late = False

    def is_stale(self) -> bool:
        return bool(self.call("is_stale"))

    def ask(
        self, sql: str, values: Mapping[str, Value] | None = None, timeout_s: float = TIMEOUT_S
    ) -> QueryResult:
        columns = self.call("ask", (sql, dict(values or {}), timeout_s), timeout_s)
        return QueryResult(columns, self._rows(timeout_s))

    def stop(self) -> None:
        self._is_stopped = True
        self._close_stdin()

    def _rows(self, timeout_s: float) -> Iterator[Row]:
        while batch := self.call("more", timeout_s=timeout_s):
            yield from batch

    def call(
        self, name: str, arguments: tuple[Any, ...] = (), timeout_s: float | None = None
    ) -> Any:
        """Have the process call a method of `_Service`, and return its value.

        Raise `RecorderError` if it failed, or if the process has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        deadline = Timer((timeout_s or 0.0) + GRACE_S, self._kill)
        if timeout_s is not None:
            deadline.start()
        try:
            pickle.dump((name, arguments), self._process.stdin)
            self._process.stdin.flush()
            answer: _Answer = pickle.load(self._process.stdout)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError) as error:
            raise RecorderError(self._why_ended(timeout_s)) from error
        finally:
            deadline.cancel()
        for record in answer.warnings:
            logging.getLogger(record.name).handle(record)
        if answer.error is not None:
            raise answer.error
        return answer.value

    def _why_ended(self, timeout_s: float | None) -> str:
        if self._is_stopped:
            return STOPPED
        return too_late(timeout_s or 0.0) if self._is_late else TOO_MUCH

    def _kill(self) -> None:
        self._is_late = True
        self._process.kill()

    def _close_stdin(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended, or is just being written to
            self._process.stdin.close()

    def end(self) -> None:
        self._close_stdin()
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()


@contextmanager
def open_query(url: URL, opener: str = OWN_ENGINE) -> Iterator[Query]:
    """Open a log for questions, in a process of its own.

    Raise `NotFoundError` or `StoreError` if there is none that can be read here.
    """
    with _scratch() as folder, _started(folder) as process:
        query = QueryProcess(process)
        try:
            query.call("open", (url, opener))
            yield query
        finally:
            query.end()


@contextmanager
def _scratch() -> Iterator[str | None]:
    """Make a folder for temporary files, which is removed however the process ends; None where none
    can be made.

    The process removes it too, in case that the one who asked is killed.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="recorder-query-", ignore_cleanup_errors=True)
    except OSError:  # all is read-only: most statements need none
        yield None
        return
    with folder as path:
        yield path


def _started(folder: str | None) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "TMPDIR": folder} if folder else None
    try:
        return subprocess.Popen(
            command_of(__name__, *([folder] if folder else [])),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the one who asks
        )
    except OSError as error:
        raise RecorderError(
            f"A process for the statement could not be started: {error.strerror}."
        ) from error


# -- the process


class _Answer(NamedTuple):
    """What a call gave, or its error, and the warnings that came with it."""

    value: Any
    error: RecorderError | None
    warnings: list[logging.LogRecord]


class _Service:
    """A query in its process; each public method is one call of the parent."""

    def __init__(self) -> None:
        self.query: Query | None = None
        self._open = contextlib.ExitStack()
        self._rows: Iterator[Row] = iter(())
        self._error: RecorderError | None = None

    def open(self, url: URL, opener: str) -> None:
        self.query = self._open.enter_context(load(opener)(url))

    def is_stale(self) -> bool:
        assert self.query is not None
        return self.query.is_stale()

    def ask(self, sql: str, values: dict[str, Value], timeout_s: float) -> list[str]:
        assert self.query is not None
        self._error = None
        columns, self._rows = self.query.ask(sql, values, timeout_s)
        return columns

    def more(self) -> list[Row]:
        """Return the next rows, of which there are none after the last.

        An error comes after the rows before it.
        """
        if self._error is not None:
            raise self._error
        batch: list[Row] = []
        size_bytes = 0
        until_s = time.monotonic() + BATCH_S
        try:
            for row in self._rows:
                batch.append(row)
                size_bytes += sum(len(value) for value in row if isinstance(value, str | bytes))
                if (
                    len(batch) == BATCH_ROWS
                    or size_bytes > BATCH_BYTES
                    or time.monotonic() > until_s
                ):
                    break
        except RecorderError as error:
            if not batch:
                raise
            self._error = error
        return batch

    def broken(self, failure: Exception) -> RecorderError:
        """Close the query for an exception of its driver, and return what its connection makes of
        that.
        """
        try:
            self._open.__exit__(type(failure), failure, failure.__traceback__)
        except RecorderError as error:
            return error
        raise failure

    def close(self) -> None:
        self._open.close()


def main(folder: str = "") -> None:
    """Answer the calls that come on stdin, on stdout, until there are no more.

    Then remove the temporary files.
    """
    # the address space of DuckDB is larger than what it uses
    _limit(resource.RLIMIT_DATA, MEMORY_BYTES)
    _limit(resource.RLIMIT_FSIZE, FILE_BYTES)
    _limit(resource.RLIMIT_CORE, 0)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed
    warnings: SimpleQueue[logging.LogRecord] = SimpleQueue()
    logging.basicConfig(handlers=[QueueHandler(warnings)], level=logging.WARNING)
    calls: SimpleQueue[_Call | None] = SimpleQueue()
    service = _Service()
    Thread(target=_read, args=(calls, service, folder), daemon=True).start()
    code = 1
    try:
        for name, arguments in iter(calls.get, None):
            answers.write(_answered(service, name, arguments, warnings))
            answers.flush()
        service.close()
        code = 0
    except BrokenPipeError:  # nobody waits for the answer any more
        pass
    except Exception:
        traceback.print_exc()
    finally:
        # the thread that reads may wait for stdin, and nothing else is left to do
        _end(folder, code)


def _limit(kind: int, most: int) -> None:
    """Set a limit of the system for this process, where it has that limit and none that is lower."""
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(kind, (most, most))


def _end(folder: str, code: int) -> NoReturn:
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(code)


def _read(calls: SimpleQueue[_Call | None], service: _Service, folder: str) -> None:
    """Pass on the calls.

    When there are no more, nobody waits for an answer: end, in whatever step an engine is.
    """
    with contextlib.suppress(EOFError, OSError):
        while True:
            calls.put(pickle.load(sys.stdin.buffer))
    calls.put(None)
    if service.query is not None:
        service.query.stop()
    time.sleep(GRACE_S / 2)
    _end(folder, 1)


def _answered(
    service: _Service,
    name: str,
    arguments: tuple[Any, ...],
    warnings: SimpleQueue[logging.LogRecord],
) -> bytes:
    value, error = None, None
    try:
        value = getattr(service, name)(*arguments)
    except RecorderError as failure:
        error = failure
    except MemoryError:
        error = RecorderError(TOO_MUCH)
    except Exception as failure:
        error = service.broken(failure)
    said = [warnings.get() for _ in range(warnings.qsize())]
    try:
        answer = pickle.dumps(_Answer(value, error, said), pickle.HIGHEST_PROTOCOL)
        if len(answer) <= ANSWER_BYTES:
            return answer
    except MemoryError:
        pass
    return pickle.dumps(_Answer(None, RecorderError(TOO_WIDE), said))
