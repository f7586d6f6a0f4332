"""SQL of the user's own: what each engine's connection for it offers, and the rules that are the
same for all.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from threading import Event, Thread
from typing import Any, NamedTuple, Protocol

from recorder.errors import RecorderError

TIMEOUT_S = 60.0  # without a row: the views answer in seconds from a log of any usual size
LOOK_S = 0.1  # between two looks at whether somebody stops the statement
STOP_S = 5.0  # for a server to hear of a cancel
# before the next, then twice as long: one that comes before its statement has begun does nothing
AGAIN_S = 0.01

Value = int | float | str | None
Row = tuple[Any, ...]

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+")
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(\w*)", re.DOTALL)


NO_SQL = "There is no SQL to run: `recorder query --list` names the views."
STOPPED = "The statement was stopped."


class QueryResult(NamedTuple):
    """The columns of a result, each name once, and its rows as they are read."""

    columns: list[str]
    rows: Iterator[Row]


class Query(Protocol):
    """A connection for the user's own SQL, which can do nothing but read."""

    def is_stale(self) -> bool:
        """Return whether projections are still to be computed: views then show less than the log
        holds.
        """

    def ask(
        self, sql: str, values: Mapping[str, Value] | None = None, timeout_s: float = TIMEOUT_S
    ) -> QueryResult:
        """Run one statement.

        Raise `RecorderError` with the engine's objection, here or while rows are read.

        It may compute for `timeout_s` before the first row and between two; what is done with a row
        takes its time.
        """

    def stop(self) -> None:
        """Stop the statement, and each later one: `ask` or the next row raises `RecorderError`.

        For another thread.
        """


class WatchedQuery:
    """A `Query` whose statement a thread of its own interrupts when it gives no row in time, or
    somebody stops it.
    """

    def __init__(self) -> None:
        self._until_s = inf
        self._is_stopped = False
        self._open_rows: Generator[Row] | None = None

    def ask(
        self, sql: str, values: Mapping[str, Value] | None = None, timeout_s: float = TIMEOUT_S
    ) -> QueryResult:
        # an argument of a command line may be any bytes
        sql = sql.encode("utf-8", "replace").decode()
        self.let_go()
        self._open_rows = rows = self._watched(self._answer(sql, dict(values or {}), timeout_s))
        return QueryResult(distinct([str(name) for name in next(rows)]), rows)

    def stop(self) -> None:
        self._is_stopped = True

    def let_go(self) -> None:
        """Close an answer that was not read to its end: it has the connection, and closing that
        would wait for it.
        """
        if self._open_rows is not None:
            self._open_rows.close()

    def _answer(self, sql: str, values: dict[str, Value], timeout_s: float) -> Generator[Row]:
        """Yield the names of the columns, then the rows; what gives them is done `_in_time`."""
        raise NotImplementedError

    def _interrupt(self) -> None:
        """Interrupt the statement. Called in another thread, and again until it ends."""
        raise NotImplementedError

    @contextmanager
    def _in_time(self, timeout_s: float) -> Iterator[None]:
        """Give a step of the statement so long. What is done with a row takes its time."""
        self._until_s = time.monotonic() + timeout_s
        try:
            yield
        finally:
            self._until_s = inf

    def _interrupted(self, timeout_s: float) -> RecorderError:
        """Return the error of a statement that was interrupted."""
        return RecorderError(STOPPED if self._is_stopped else too_late(timeout_s))

    def _watched(self, rows: Generator[Row]) -> Generator[Row]:
        ended = Event()

        def watch() -> None:
            again_s = AGAIN_S
            while not ended.wait(max(again_s, min(LOOK_S, self._until_s - time.monotonic()))):
                if self._is_stopped or time.monotonic() >= self._until_s:
                    again_s = min(2 * again_s, STOP_S)
                    self._interrupt()

        watcher = Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield from rows
        finally:
            ended.set()
            watcher.join()


def too_late(timeout_s: float) -> str:
    """Return what is said of a statement that its limit of time ended."""
    return f"The statement gave no row for {timeout_s:g} s: --timeout gives it more."


def value_of(text: str) -> Value:
    """Return a parameter as a number if it is written as one: in SQLite every text is greater than
    every number.
    """
    if _INTEGER.fullmatch(text) and -(2**63) <= int(text) < 2**63:
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text.encode("utf-8", "replace").decode()


def values_of(params: Mapping[str, Value]) -> dict[str, Value]:
    """Return the values of parameters, of which texts are read by `value_of`."""
    values = dict(params)
    for name, value in params.items():
        if isinstance(value, str):
            values[name] = value_of(value)
    return values


def first_word(sql: str) -> str:
    """Return the verb of a statement, in capital letters."""
    word = _FIRST_WORD.match(sql)
    return word[1].upper() if word else ""


def distinct(names: list[str]) -> list[str]:
    """Return names as they are, but the second `text` as `text_2`."""
    distinct: list[str] = []
    for name in names:
        number, candidate = 1, name
        while candidate in distinct or (candidate != name and candidate in names):
            number += 1
            candidate = f"{name}_{number}"
        distinct.append(candidate)
    return distinct
