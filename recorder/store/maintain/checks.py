"""The results of checks of `recorder doctor`, and how checks of a log are run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

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
