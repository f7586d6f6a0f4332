"""The sums of `recorder usage`: tokens by hour, model, client, tool, outcome, … (`By`), or by several of them.

SQL sums the rows of one key. Days are added up to weeks and months here: no two engines count those in the same way.
Hours and days are those of UTC. Numbers and shares are those of the views `usage_by_day` and `usage_by_model`
(`SHARES`).
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Context, Decimal
from functools import cache, reduce
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal

import msgspec
from sqlalchemy import Select, and_, case, column, func, literal, literal_column, select, table, text

from recorder.model.facts import Usage
from recorder.projections.rows import SHARES
from recorder.projections.views.parts import COUNTED, DAILY_KEYS, DAILY_SUMS
from recorder.projections.views.requests import REQUESTED
from recorder.projections.views.view import written
from recorder.store.schema import exchanges, sessions, tables_of

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


class CostTally(msgspec.Struct, frozen=True):
    """The cost of some exchanges; None where none of them has any."""

    cost_picousd: int | None = None
    priced: int = 0  # exchanges that have a cost
    partial: int = 0  # of those, streams that broke off: they may have cost more
    reported_usd: Decimal | None = None  # the sum of what providers and gateways report themselves

    def __add__(self, other: CostTally) -> CostTally:
        cost = _sum(each.cost_picousd for each in (self, other))
        reports = [each.reported_usd for each in (self, other) if each.reported_usd is not None]
        reported = reduce(_EXACT.add, reports) if reports else None
        return CostTally(cost, self.priced + other.priced, self.partial + other.partial, reported)

    def row(self) -> dict[str, Any]:
        """Return the columns after those of the tokens: amounts in USD are exact decimals, as text."""
        cost = None if self.cost_picousd is None else Decimal(self.cost_picousd).scaleb(-12)
        usd = (self.reported_usd if name == "reported" else cost for name in ("cost", "reported"))
        values = (None if each is None else decimal_text(each) for each in usd)
        return dict(zip(COSTS, (*values, self.priced, self.partial), strict=True))


class Unpriced(msgspec.Struct, frozen=True):
    """A model without a cost, and why: see `no_price` of the view `costs`."""

    provider: str
    model: str | None
    reason: str
    exchanges: int


def decimal_text(value: Decimal) -> str:
    """Return a decimal without an exponent and without zeros at its end."""
    text = f"{value:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


COSTS = ("cost_usd", "reported_cost_usd", "priced", "partial")
"""The columns of `recorder usage --cost`."""

_BILLION = 10**9
_EXACT = Context(prec=64)  # of reported costs: nine digits before the point, 30 behind it, any number of exchanges
_NUMBERS = Tally.__struct_fields__[1:]
_CALLS = ("calls", "answered", "failed")
_SUMS = _NUMBERS[len(_CALLS) :]
_COUNTS = _NUMBERS[_NUMBERS.index("exchanges") : _NUMBERS.index("reasoned")]
_TOKENS = Usage.__struct_fields__


def keys(by: Sequence[By]) -> tuple[str, ...]:
    """Return the columns of the key."""
    return tuple(name for each in by for name in KEYS[each])


def numbers(by: Sequence[By]) -> tuple[str, ...]:
    """Return the columns after the key."""
    return (*(_CALLS if "tool" in by else ()), *_COUNTS, *SHARES)


_ID = exchanges.c.session_id.type
_OF_EXCHANGE = ("exchange_id", "started_ns", "client", "model")
_OF_USAGE = (*_OF_EXCHANGE, "outcome", "reported", *_TOKENS)
_calls = table("tool_calls", *map(column, ("session_id", "exchange_id", "name", "type", "output", "failed")))

_ended = tables_of["exchanges"]
_requested = (
    text(REQUESTED)
    .columns(*map(column, ("session_id", "exchange_id", "effort", "tier", "tools")))
    .subquery("requested")
)
_BY_REQUEST = frozenset({"effort", "tier", "tools"})

_OF_COST = ("provider", "no_price", "cost_picousd", "partial", "reported_cost_usd")
_costs = table("costs", column("session_id", _ID), *map(column, (*_OF_EXCHANGE, *_OF_COST)))


@cache
def _usage(engine: str) -> Any:
    """Return what is summed, as a part of statements for an engine (`engine_name`)."""
    rows = text(f"SELECT * FROM {written(COUNTED, engine)}")
    return rows.columns(column("session_id", _ID), *map(column, _OF_USAGE)).subquery("usage")


class Summed(msgspec.Struct, frozen=True):
    """The exchanges that are summed up: those that began in a span, but for those of some sessions."""

    since_ns: int | None = None
    until_ns: int | None = None
    without: Collection[str] = ()

    def conditions(self, rows: Any) -> list[Any]:
        """Return the conditions on rows that have `started_ns` and `session_id`."""
        return [
            *([rows.started_ns >= self.since_ns] if self.since_ns is not None else []),
            *([rows.started_ns < self.until_ns] if self.until_ns is not None else []),
            *([rows.session_id.not_in(self.without)] if self.without else []),
        ]


EVERYTHING = Summed()


def sums_by(by: Sequence[By], summed: Summed, engine: str) -> Select[Any]:
    """Return the statement for the sums by key, for an engine (`engine_name`); times are grouped by hour or day."""
    usage = _usage(engine)
    sums = [func.count().label("exchanges"), *_sums(usage.c)]
    if "tool" in by:
        return _of_tools(by, summed, usage, sums)
    nothing = [literal(None).label(name) for name in _CALLS]
    if _OF_DAYS.issuperset(by):
        return _of_days(by, summed, usage, nothing, engine)
    return _grouped(by, summed, usage, [*nothing, *sums])


_OF_DAYS = frozenset[By]({"day", "week", "month", "model", "client", "outcome"})


def _of_days(by: Sequence[By], summed: Summed, usage: Any, nothing: Any, engine: str) -> Select[Any]:
    """Return the statement for sums of the sums of each day, model, client and outcome: an index has those in order."""
    sums: list[Any] = [literal_column(value).label(name) for name, value in DAILY_SUMS.items()]
    keys: list[Any] = [literal_column(written(value, engine)).label(name) for name, value in DAILY_KEYS.items()]
    grouped = select(*keys, *sums).select_from(usage).where(*summed.conditions(usage.c)).group_by(*keys)
    daily = grouped.subquery("daily").c
    columns = [daily["days" if name in _DATES else name].label(f"key_{number}") for number, name in enumerate(by)]
    totals = [func.sum(daily[name]).label(field) for name, field in zip(DAILY_SUMS, _SUMS, strict=True)]
    return select(*columns, *nothing, *totals).group_by(*columns)


def costs_by(by: Sequence[By], summed: Summed) -> Select[Any]:
    """Return the statement for the costs by the keys of `sums_by`, and by reported costs: those are decimal texts,
    which no two engines add up in the same way.
    """
    cost, reported = _costs.c.cost_picousd, _costs.c.reported_cost_usd
    billion: Any = literal_column(str(_BILLION))
    halves = [  # a sum of the whole may be too large
        func.sum(cost.op("/")(billion)).label("billions"),
        func.sum(cost.op("%")(billion)).label("rest"),
    ]
    partial = func.count(case((and_(cost.is_not(None), _costs.c.partial == 1), 1)))
    sums = [
        reported.label("reported_usd"),
        func.count(reported).label("reports"),
        *halves,
        func.count(cost).label("priced"),
        partial.label("partial"),
    ]
    grouped = _of_tools(by, summed, _costs, sums) if "tool" in by else _grouped(by, summed, _costs, sums)
    return grouped.group_by(reported)


def _grouped(by: Sequence[By], summed: Summed, source: Any, sums: Any) -> Select[Any]:
    columns = _columns(by, source)
    return (
        select(*columns, *sums)
        .select_from(_with_keys(by, source, source))
        .where(*summed.conditions(source.c))
        .group_by(*_grouping(by, columns))
    )


_UNPRICED = ("subscription", "provider", "model", "counts")


def unpriced(summed: Summed) -> Select[Any]:
    """Return the statement for what reported tokens but has no cost, by the reason."""
    key = [_costs.c.provider, _costs.c.model, _costs.c.no_price.label("reason")]
    reasons = _costs.c.no_price.in_([literal_column(f"'{reason}'") for reason in _UNPRICED])
    return (
        select(*key, func.count().label("exchanges"))
        .where(reasons, *summed.conditions(_costs.c))
        .group_by(*key)
        .order_by(*key)
    )


def _with_keys(by: Sequence[By], source: Any, rows: Any) -> Any:
    """Return a source joined with the ends and the requests of its rows, if a key is of those."""
    if "outcome" in by and "outcome" not in rows.c:
        source = source.outerjoin(_ended, _is_of(_ended, rows))
    return source if _BY_REQUEST.isdisjoint(by) else source.outerjoin(_requested, _is_of(_requested, rows))


def _columns(by: Sequence[By], source: Any, tool: Any = None) -> list[Any]:
    """Return the columns of the key, each under a distinct name."""
    of = source.c
    name = select(sessions.c.name).where(sessions.c.session_id == of.session_id).scalar_subquery()
    columns: Mapping[By, tuple[Any, ...]] = {
        "model": (of.model,),
        "session": (of.session_id, name),
        "client": (of.client,),
        "tool": (tool,),
        "outcome": (of.outcome if tool is None and "outcome" in of else _ended.c.status,),
        "effort": (_requested.c.effort,),
        "tier": (_requested.c.tier,),
        "tools": (_requested.c.tools,),
        "hour": (of.started_ns.op("/")(literal_column(str(HOUR_NS))),),
    }
    day = of.started_ns.op("/")(literal_column(str(DAY_NS)))
    found = [column for each in by for column in columns.get(each, (day,))]
    return [column.label(f"key_{number}") for number, column in enumerate(found)]


def _grouping(by: Sequence[By], columns: Sequence[Any]) -> list[Any]:
    """Return the columns to group by: the name of a session is looked up once for each."""
    return [column for name, column in zip(keys(by), columns, strict=True) if name != "session_name"]


def tallies(by: Sequence[By], rows: Iterable[Any]) -> list[Tally]:
    """Return the rows of the statement as sums, in the order of `added_up`."""
    parts = []
    for row in rows:
        columns = row._mapping
        parts.append(Tally(_key(by, columns), **{name: columns[name] for name in _NUMBERS}))
    return added_up(by, parts)


def added_up(by: Sequence[By], parts: Iterable[Tally]) -> list[Tally]:
    """Return one sum for each key: times in their order, other keys by most used. No exchange is in two parts."""
    width = len(keys(by))
    named = sorted(parts, key=lambda each: str(each.key))
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


def costs(by: Sequence[By], rows: Iterable[Any]) -> dict[tuple[Any, ...], CostTally]:
    """Return the rows of the statement for costs as sums, by their keys."""
    found: dict[tuple[Any, ...], CostTally] = {}
    for row in rows:
        reported = cost = None
        if row.reported_usd is not None:
            reported = _EXACT.multiply(Decimal(row.reported_usd), Decimal(row.reports))
        if row.priced:
            cost = int(row.billions) * _BILLION + int(row.rest)
        key = _key(by, row._mapping)
        found[key] = found.get(key, CostTally()) + CostTally(cost, row.priced, row.partial, reported)
    return found


def _key(by: Sequence[By], columns: Mapping[Any, Any]) -> tuple[Any, ...]:
    """Return the key of a row, with names of hours, days, weeks and months in place of their numbers."""
    key = []
    for number, name in enumerate(keys(by)):
        value = columns[f"key_{number}"]
        if name in _DATES and value is not None:
            value = _date(name, value)
        key.append(value)
    return tuple(key)


def _date(name: str, number: int) -> str:
    day, hour = divmod(number, 24) if name == "hour" else (number, 0)
    return _DATES[name](_EPOCH + datetime.timedelta(day), hour)


def _sum(values: Iterable[Any]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _share(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else part / whole


def _sums(columns: Any) -> list[Any]:
    """Return the sums of a row but for the number of its exchanges, by the names of `Tally`."""
    sums: list[Any] = [func.count(case((columns.reported == 1, 1)))]
    sums += [func.sum(columns[name]) for name in _TOKENS]
    for part, whole in SHARES.values():
        sums += _both(columns[part], columns[whole])
    return [each.label(name) for each, name in zip(sums, _SUMS[1:], strict=True)]


def _both(part: Any, whole: Any) -> list[Any]:
    """Return the sums of two columns over the rows that have both."""
    has_both = and_(part.is_not(None), whole.is_not(None))
    return [func.sum(case((has_both, value))) for value in (part, whole)]


def _is_of(one: Any, other: Any) -> Any:
    """Return the condition that rows of two tables are of one exchange."""
    return and_(one.c.session_id == other.c.session_id, one.c.exchange_id == other.c.exchange_id)


def _of_tools(by: Sequence[By], summed: Summed, source: Any, sums: Any) -> Select[Any]:
    """Return the statement for the sums by tool: an exchange counts once for each tool that it called."""
    tool = func.coalesce(_calls.c.name, _calls.c.type).label("tool")
    ids = (_calls.c.session_id, _calls.c.exchange_id)
    failed = func.count(case((_calls.c.failed == 1, 1)))
    counts = [
        count.label(name)
        for name, count in zip(_CALLS, (func.count(), func.count(_calls.c.output), failed), strict=True)
    ]
    called = select(tool, *ids, *counts).select_from(_calls).group_by(*ids, tool)
    if conditions := summed.conditions(exchanges.c):
        called = called.join(exchanges, _is_of(exchanges, _calls)).where(*conditions)
    once = called.subquery("called")
    columns = _columns(by, source, once.c.tool)
    calls = [] if source is _costs else [func.sum(once.c[name]).label(name) for name in _CALLS]
    joined = _with_keys(by, once.outerjoin(source, _is_of(source, once)), once)
    return select(*columns, *calls, *sums).select_from(joined).group_by(*_grouping(by, columns))
