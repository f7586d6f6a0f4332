"""The sums of `recorder usage`: tokens by hour, model, client, tool, outcome, … (`By`), or by several of them.

SQL sums the rows of one key. Days are added up to weeks and months here: no two engines count those in the same way.
Hours and days are those of UTC. Numbers and shares are those of the views `usage_by_day` and `usage_by_model`
(`SHARES`).
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal

import msgspec
from sqlalchemy import Select, and_, case, column, func, literal, literal_column, select, table, text

from recorder.model.facts import Usage
from recorder.projections.usage import SHARES
from recorder.projections.views.requests import REQUESTED
from recorder.store.schema import exchanges, tables_of

By = Literal["hour", "day", "week", "month", "model", "session", "client", "tool", "outcome", "effort", "tier", "tools"]

KEYS: Mapping[By, tuple[str, ...]] = {
    "hour": ("hour",),
    "day": ("day",),
    "week": ("week",),
    "month": ("month",),
    "model": ("model",),
    "session": ("session_id", "session_name"),
    "client": ("client",),
    "tool": ("tool",),
    "outcome": ("outcome",),
    "effort": ("effort",),
    "tier": ("tier",),
    "tools": ("tools",),
}
"""The columns that say what the tokens of a row were used for."""

DAY_NS = 86_400_000_000_000
HOUR_NS = DAY_NS // 24

_EPOCH = datetime.date(1970, 1, 1)
_DATES: Mapping[str, Callable[[datetime.date, int], str]] = {
    "hour": lambda day, hour: f"{day.isoformat()} {hour:02}",
    "day": lambda day, _: day.isoformat(),
    "week": lambda day, _: "{}-W{:02}".format(*day.isocalendar()),
    "month": lambda day, _: f"{day:%Y-%m}",
}


class Tally(msgspec.Struct, frozen=True):
    """The sums over some exchanges; a sum of tokens is None where none of them reported any."""

    key: tuple[Any, ...]
    calls: int | None  # of a tool, as the two after it
    answered: int | None
    failed: int | None
    exchanges: int
    reported: int  # of so many exchanges there is a report
    input_tokens: int | None
    cache_read_input_tokens: int | None
    cache_write_input_tokens: int | None
    output_tokens: int | None
    reasoning_output_tokens: int | None
    total_tokens: int | None
    # Of each of `SHARES`, the part and the whole, over the exchanges that report both.
    reasoned: int | None
    reasoned_of: int | None
    cached: int | None
    cached_of: int | None

    @property
    def reasoning_share(self) -> float | None:
        return _share(self.reasoned, self.reasoned_of)

    @property
    def cached_share(self) -> float | None:
        return _share(self.cached, self.cached_of)

    def row(self, by: Sequence[By]) -> dict[str, Any]:
        """Return the row of a table of usage, by the names of its columns."""
        return {**dict(zip(keys(by), self.key, strict=True)), **{name: getattr(self, name) for name in numbers(by)}}


_NUMBERS = Tally.__struct_fields__[1:]
_CALLS = ("calls", "answered", "failed")
_COUNTS = _NUMBERS[_NUMBERS.index("exchanges") : _NUMBERS.index("reasoned")]
_TOKENS = Usage.__struct_fields__


def keys(by: Sequence[By]) -> tuple[str, ...]:
    """Return the columns of the key."""
    return tuple(name for each in by for name in KEYS[each])


def numbers(by: Sequence[By]) -> tuple[str, ...]:
    """Return the columns after the key."""
    return (*(_CALLS if "tool" in by else ()), *_COUNTS, *SHARES)


_OF_EXCHANGE = ("session_id", "session_name", "exchange_id", "started_ns", "client", "model", "usage_raw")
_usage = table("usage", *map(column, (*_OF_EXCHANGE, *_TOKENS)))
_calls = table("tool_calls", *map(column, ("session_id", "exchange_id", "name", "type", "output", "failed")))

_ended = tables_of["exchanges"]
_requested = (
    text(REQUESTED)
    .columns(*map(column, ("session_id", "exchange_id", "effort", "tier", "tools")))
    .subquery("requested")
)
_BY_REQUEST = frozenset({"effort", "tier", "tools"})

_DAY = _usage.c.started_ns.op("/")(literal_column(str(DAY_NS)))
_SOURCES: Mapping[By, tuple[Any, ...]] = {
    "hour": (_usage.c.started_ns.op("/")(literal_column(str(HOUR_NS))),),
    "model": (_usage.c.model,),
    "session": (_usage.c.session_id, _usage.c.session_name),
    "client": (_usage.c.client,),
    "outcome": (_ended.c.status,),
    "effort": (_requested.c.effort,),
    "tier": (_requested.c.tier,),
    "tools": (_requested.c.tools,),
}


def sums_by(by: Sequence[By], since_ns: int | None = None, until_ns: int | None = None) -> Select[Any]:
    """Return the statement for the sums by key, of the exchanges that began in a span; times are grouped by hour or
    day.
    """
    if "tool" in by:
        return _of_tools(by, since_ns, until_ns)
    columns = _columns(by)
    nothing = [literal(None).label(name) for name in _CALLS]
    summed = select(*columns, *nothing, func.count(), *_sums())
    return (
        summed.select_from(_with_keys(by, _usage, _usage))
        .where(*_within(_usage.c.started_ns, since_ns, until_ns))
        .group_by(*columns)
    )


def _with_keys(by: Sequence[By], source: Any, rows: Any) -> Any:
    """Return a source joined with the ends and the requests of its rows, if a key is of those."""
    if "outcome" in by:
        source = source.outerjoin(_ended, _is_of(_ended, rows))
    return source if _BY_REQUEST.isdisjoint(by) else source.outerjoin(_requested, _is_of(_requested, rows))


def _columns(by: Sequence[By], tool: Any = None) -> list[Any]:
    """Return the columns to group by, each under a distinct name."""
    found = [column for each in by for column in ((tool,) if each == "tool" else _SOURCES.get(each, (_DAY,)))]
    return [column.label(f"key_{number}") for number, column in enumerate(found)]


def tallies(by: Sequence[By], rows: Iterable[Any]) -> list[Tally]:
    """Return the rows of the statement as sums: times in their order, other keys by most used."""
    width = len(keys(by))
    named = [_named(by, Tally(tuple(row[:width]), *row[width:])) for row in rows]
    named.sort(key=lambda each: str(each.key))
    made = [together(group, key) for key, group in groupby(named, attrgetter("key"))]
    tokens, counts = Counter[Any](), Counter[Any]()
    for each in made:
        for end in range(1, width + 1):
            tokens[each.key[:end]] += each.total_tokens or 0
            counts[each.key[:end]] += each.exchanges

    def place(tally: Tally) -> list[Any]:
        starts = [(name, tally.key[: n + 1]) for n, name in enumerate(keys(by))]
        return [
            (str(start[-1]),) if name in _DATES else (-tokens[start], -counts[start], str(start[-1]))
            for name, start in starts
        ]

    return sorted(made, key=place)


def together(several: Iterable[Tally], key: tuple[Any, ...] = ()) -> Tally:
    """Return the sum of sums that have no exchange in common."""
    parts = list(several)
    return Tally(key, *(_sum(getattr(part, name) for part in parts) for name in _NUMBERS))


def _named(by: Sequence[By], tally: Tally) -> Tally:
    """Replace the numbers of days and hours by the names of hours, days, weeks and months."""
    key = (
        _date(name, value) if name in _DATES and value is not None else value
        for name, value in zip(keys(by), tally.key, strict=True)
    )
    return msgspec.structs.replace(tally, key=tuple(key))


def _date(name: str, number: int) -> str:
    day, hour = divmod(number, 24) if name == "hour" else (number, 0)
    return _DATES[name](_EPOCH + datetime.timedelta(day), hour)


def _sum(values: Iterable[int | None]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _share(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else part / whole


def _sums() -> list[Any]:
    columns = _usage.c
    return [
        func.count(columns.usage_raw),
        *(func.sum(columns[name]) for name in _TOKENS),
        *(each for part, whole in SHARES.values() for each in _both(columns[part], columns[whole])),
    ]


def _both(part: Any, whole: Any) -> list[Any]:
    """Return the sums of two columns over the rows that have both."""
    has_both = and_(part.is_not(None), whole.is_not(None))
    return [func.sum(case((has_both, value))) for value in (part, whole)]


def _is_of(one: Any, other: Any) -> Any:
    """Return the condition that rows of two tables are of one exchange."""
    return and_(one.c.session_id == other.c.session_id, one.c.exchange_id == other.c.exchange_id)


def _within(started_ns: Any, since_ns: int | None, until_ns: int | None) -> list[Any]:
    return [
        *([started_ns >= since_ns] if since_ns is not None else []),
        *([started_ns < until_ns] if until_ns is not None else []),
    ]


def _of_tools(by: Sequence[By], since_ns: int | None, until_ns: int | None) -> Select[Any]:
    """Return the statement for the sums by tool: an exchange counts once for each tool that it called."""
    tool = func.coalesce(_calls.c.name, _calls.c.type).label("tool")
    ids = (_calls.c.session_id, _calls.c.exchange_id)
    failed = func.count(case((_calls.c.failed == 1, 1)))
    counts = [
        count.label(name)
        for name, count in zip(_CALLS, (func.count(), func.count(_calls.c.output), failed), strict=True)
    ]
    called = select(tool, *ids, *counts).join_from(_calls, exchanges, _is_of(exchanges, _calls))
    called = called.where(*_within(exchanges.c.started_ns, since_ns, until_ns)).group_by(tool, *ids)
    once = called.subquery("called")
    columns = _columns(by, once.c.tool)
    summed = select(*columns, *(func.sum(once.c[name]) for name in _CALLS), func.count(), *_sums())
    source = _with_keys(by, once.outerjoin(_usage, _is_of(_usage, once)), once)
    return summed.select_from(source).group_by(*columns)
