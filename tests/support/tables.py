"""Tables of cases, each run in one test: to collect a test takes longer than most of these cases."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest

Test = Callable[..., None]
Row = tuple[Any, ...]


class Table(NamedTuple):
    """The names of a test's arguments, rows of them, and the test itself."""

    names: tuple[str, ...]
    rows: list[Row]
    test: Test


def table(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test for each case, all of them, and fail with a list of those that fail.

    It reads as `pytest.mark.parametrize` does, above a test that needs no fixture of its own for
    each case. That one is for cases which are worth a line in the report.
    """
    own = (names,) if isinstance(names, str) else names
    rows: list[Row] = [(case,) if isinstance(names, str) else tuple(case) for case in cases]

    def decorate(test: Test) -> Test:
        below: Table = vars(test).get("table", Table((), [()], test))
        whole = Table(
            own + below.names, [outer + inner for outer in rows for inner in below.rows], below.test
        )
        signature = inspect.signature(below.test)

        @functools.wraps(below.test)
        def run(*bound: Any, **given: Any) -> None:
            run_all(
                lambda *row: whole.test(
                    *bound, **dict(zip(whole.names, row, strict=True)), **given
                ),
                whole.rows,
            )

        fixtures = [each for name, each in signature.parameters.items() if name not in whole.names]
        vars(run).update(
            vars(test), table=whole, __signature__=signature.replace(parameters=fixtures)
        )
        return run

    return decorate


def run_all(test: Test, rows: Iterable[Row]) -> None:
    """Run a test with each row of arguments; fail with all that failed, each with its row."""
    failed: list[BaseException] = []
    count = 0
    for row in rows:
        count += 1
        try:
            test(*row)
        except (Exception, pytest.fail.Exception) as error:
            error.add_note("of the case " + ", ".join(repr(value)[:200] for value in row))
            failed.append(error)
    if not count:
        pytest.skip("the table has no case")
    if failed:
        group = BaseExceptionGroup("cases", failed)
        if group.split((AssertionError, pytest.fail.Exception))[1] is not None:
            raise group
        raise AssertionError(f"{len(failed)} of {count} cases fail") from group
