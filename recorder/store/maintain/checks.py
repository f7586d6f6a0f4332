"""The checks of `recorder doctor`: their results, how those of a log are run, and those that every engine has.

An engine opens the log for reading only and runs these checks among its own (`Upkeep.checks`). All questions together
take some seconds at most: a table that is too long for that is not counted, and that is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from recorder.errors import StoreError
from recorder.projections.rows import TABLES
from recorder.store.maintain.migrate import require_known
from recorder.store.schema import REBUILD_IS_DUE, require_head

State = Literal["ok", "warn", "bad"]


class CheckResult(NamedTuple):
    """A result of a check: its state, and one sentence with the finding or the remedy."""

    state: State
    check: str
    message: str


class Ask:
    """The questions to a log that is open: one statement without values at a time."""

    def __init__(self, rows: Callable[[str], Sequence[Any]]) -> None:
        """`rows` returns the rows of a statement; it raises the driver's errors."""
        self.rows = rows

    def __call__(self, sql: str) -> Any:
        """Return the first value of the first row, or None."""
        return (self.rows(sql) or [(None,)])[0][0]


Check = Callable[[Ask], Iterator[CheckResult]]


def run_checks(checks: Mapping[str, Check], ask: Ask, is_timeout: Callable[[Exception], bool]) -> Iterator[CheckResult]:
    """Yield the results of checks by name. `is_timeout` knows the error with which the driver gives up a statement."""
    for name, check in checks.items():
        try:
            yield from check(ask)
        except Exception as error:
            if not is_timeout(error):
                raise
            yield CheckResult("ok", name, "The log is too long for a quick check: run `recorder verify`.")


# -- the checks that are the same on every engine

LIMIT_S = 2.0  # for what an engine is asked: `recorder doctor` is for people who wait
AHEAD_NS = 300 * 10**9  # clocks of machines differ, but not by five minutes
NOT_WHOLE = "select session_name, exchange_id, status from exchange_summary where lossless = 0"


def _projections(ask: Ask) -> Iterator[CheckResult]:
    if ask(REBUILD_IS_DUE):
        yield CheckResult("warn", "projections", "The projections are not up to date: run `recorder db rebuild`.")
    else:
        yield CheckResult("ok", "projections", "Messages, usage and all other projections are up to date.")


def _dead_letters(ask: Ask) -> Iterator[CheckResult]:
    count = ask("SELECT count(*) FROM dead_letters")
    if count:
        what = "one exchange" if count == 1 else f"{count:,} exchanges"
        message = f"Of {what} recorder can make no sense: run `recorder db rebuild`, and report what it says."
        yield CheckResult("bad", "projections", message)


def _gaps(ask: Ask) -> Iterator[CheckResult]:
    count = ask(f"SELECT count(*) FROM {TABLES['exchanges']} WHERE lossless = 0")
    if count:
        what = "1 exchange is" if count == 1 else f"{count:,} exchanges are"
        message = f'{what} not whole, which was noted when it happened: `recorder query "{NOT_WHOLE}"` lists them.'
        yield CheckResult("warn", "gaps", message)
    else:
        yield CheckResult("ok", "gaps", "Every exchange that has ended is complete.")


def _newest(ask: Ask) -> Iterator[CheckResult]:
    newest = ask(
        "SELECT CAST(exchange_id AS TEXT) FROM exchanges WHERE substr(CAST(exchange_id AS TEXT), 15, 1) = '7' "
        "ORDER BY exchange_id DESC LIMIT 1"
    )
    if newest is not None and int(newest[:13].replace("-", ""), 16) * 10**6 > time.time_ns() + AHEAD_NS:
        yield CheckResult(
            "warn", "clock", "The newest exchange is from the future: the clock was set back, here or where it was."
        )


CHECKS: Mapping[str, Check] = {
    "projections": _projections,
    "dead_letters": _dead_letters,
    "gaps": _gaps,
    "newest": _newest,
}


def of_schema(name: object, revision: str | None) -> CheckResult | None:
    """Return the result for a schema that is not the one of this program, else None."""
    state: State = "bad"  # of a newer recorder, or of one that nobody has any more
    try:
        require_known(name, revision)
        state = "warn"
        require_head(name, revision)
    except StoreError as error:
        return CheckResult(state, "schema", str(error))
    return None
