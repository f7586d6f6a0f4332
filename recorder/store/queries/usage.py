"""The sums of `recorder usage`: tokens by hour, model, client, tool, outcome, … (`By`), or by
several of them.

SQL sums the rows of one key. Days are added up to weeks and months here: no two engines count those
in the same way. Hours and days are those of UTC. Numbers and shares are those of the views
`usage_by_day` and `usage_by_model` (`SHARES`).
"""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Context, Decimal, localcontext
from itertools import chain
from typing import Any, Literal

import msgspec
from sqlalchemy import TextClause, bindparam, text

from recorder.model.facts import Usage
from recorder.projections.rows import SHARES, TABLES
from recorder.projections.views.parts import (
    COUNTED,
    DAILY_KEYS,
    DAILY_SUMS,
    REQUESTED,
    Either,
    same_exchange,
    written,
)
from recorder.store.queries.reader import LogReader
from recorder.store.schema import ID
from recorder.store.sql import struct_of

By = Literal[
    "hour",
    "day",
    "week",
    "month",
    "model",
    "session",
    "client",
    "owner",
    "team",
    "tag",
    "tool",
    "outcome",
    "effort",
    "tier",
    "tools",
]
OVERLAPPING = frozenset[By]({"tool", "tag"})
"""Keys of which an exchange may have several: it counts for each."""

DAY_NS = 86_400_000_000_000
HOUR_NS = DAY_NS // 24

_EPOCH = datetime.date(1970, 1, 1)
_DATES: Mapping[str, Callable[[datetime.date, int], str]] = {
    "hour": lambda day, hour: f"{day.isoformat()} {hour:02}",
    "day": lambda day, _: day.isoformat(),
    "week": lambda day, _: "{}-W{:02}".format(*day.isocalendar()),
    "month": lambda day, _: f"{day:%Y-%m}",
}

_CALLS = ("calls", "answered", "failed")
_TOKENS = Usage.__struct_fields__

COSTS = ("cost_usd", "reported_cost_usd", "priced", "partial")
"""The columns of `recorder usage --cost`."""

_BILLION = 10**9
# of reported costs: nine digits before the point, 30 after it, any number of exchanges
_EXACT = Context(prec=64)


class Tally(msgspec.Struct, frozen=True):
    """The sums over some exchanges; a sum of tokens is None where none of them reported any."""

    key: tuple[Any, ...]
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
    # Of a tool.
    calls: int | None = None
    answered: int | None = None
    failed: int | None = None

    @property
    def reasoning_share(self) -> float | None:
        return _share(self.reasoned, self.reasoned_of)

    @property
    def cached_share(self) -> float | None:
        return _share(self.cached, self.cached_of)

    def row(self, by: Sequence[By]) -> dict[str, Any]:
        """Return the row of a table of usage, by the names of its columns."""
        row = dict(zip(keys(by), self.key, strict=True))
        for name in numbers(by):
            row[name] = getattr(self, name)
        return row


_NUMBERS = Tally.__struct_fields__[1:]
_SUMS = _NUMBERS[: -len(_CALLS)]


class CostTally(msgspec.Struct, frozen=True):
    """The cost of some exchanges; None where none of them has any."""

    cost_picousd: int | None = None
    priced: int = 0  # exchanges that have a cost
    partial: int = 0  # of those, streams that broke off: they may have cost more
    reported_usd: Decimal | None = None  # the sum of what providers and gateways report themselves

    def row(self) -> dict[str, Any]:
        """Return the columns after those of the tokens: amounts in USD are exact decimals, as text."""
        cost = None if self.cost_picousd is None else Decimal(self.cost_picousd).scaleb(-12)
        return {
            "cost_usd": _decimal_text(cost),
            "reported_cost_usd": _decimal_text(self.reported_usd),
            "priced": self.priced,
            "partial": self.partial,
        }


class Unpriced(msgspec.Struct, frozen=True):
    """A model without a cost, and why: see `no_price` of the view `costs`."""

    provider: str
    model: str | None
    reason: str
    exchanges: int


class Summed(msgspec.Struct, frozen=True):
    """The exchanges that are summed up: those that began in a span, but for those of some sessions."""

    since_ns: int | None = None
    until_ns: int | None = None
    without: Collection[str] = ()
    exchange_ids: Collection[str] | None = None  # None: whatever they are

    def where(self, rows: str) -> str:
        """Return the conditions on rows that have `started_ns` and `session_id`."""
        conditions = []
        if self.since_ns is not None:
            conditions.append(f"{rows}.started_ns >= {self.since_ns}")
        if self.until_ns is not None:
            conditions.append(f"{rows}.started_ns < {self.until_ns}")
        if self.without:
            conditions.append(f"{rows}.session_id NOT IN :session_ids")
        if self.exchange_ids is not None:
            conditions.append(f"{rows}.exchange_id IN :exchange_ids")
        return f"WHERE {' AND '.join(conditions)}" if conditions else ""

    def statement(self, sql: str) -> TextClause:
        """Return the statement that has such conditions."""
        statement = text(sql)
        for name, ids in (
            ("session_ids", self.without or None),
            ("exchange_ids", self.exchange_ids),
        ):
            if ids is not None:
                statement = statement.bindparams(
                    bindparam(name, list(ids), type_=ID, expanding=True)
                )
        return statement


EVERYTHING = Summed()


def keys(by: Sequence[By]) -> tuple[str, ...]:
    """Return the columns of the key, which say what the tokens of a row were used for."""
    names: list[str] = []
    for name in by:
        names += ("session_id", "session_name") if name == "session" else (name,)
    return tuple(names)


def numbers(by: Sequence[By]) -> tuple[str, ...]:
    """Return the columns after the key."""
    calls = _CALLS if "tool" in by else ()
    return (*calls, "exchanges", "reported", *_TOKENS, *SHARES)


# -- the questions


async def usage(log: LogReader, by: Sequence[By], summed: Summed = EVERYTHING) -> list[Tally]:
    """Return the tokens of ended exchanges, summed by some keys."""

    async def sums_in(part: LogReader) -> list[Tally]:
        mine = msgspec.structs.replace(summed, without=await log.repeated_in(part))
        sums = []
        for row in await part.rows(_sums_by(by, mine, part.engine)):
            columns = row._mapping
            counts = {name: columns[name] for name in _NUMBERS if name in columns}
            sums.append(Tally(_key(by, columns), **counts))
        return sums

    return _added_up(by, chain.from_iterable(await log.of_each(sums_in)))


async def usage_costs(
    log: LogReader, by: Sequence[By], summed: Summed = EVERYTHING
) -> tuple[dict[tuple[Any, ...], CostTally], list[Unpriced]]:
    """Return the costs of ended exchanges by the same keys, and the models of them that have no
    price.
    """
    costs: defaultdict[tuple[Any, ...], list[CostTally]] = defaultdict(list)
    unpriced: defaultdict[tuple[str, str, str], list[Unpriced]] = defaultdict(list)

    async def add_costs_of(part: LogReader) -> None:
        mine = msgspec.structs.replace(summed, without=await log.repeated_in(part))
        rows = await part.rows(_costs_by(by, mine, part.engine))
        for row in await part.rows(_unpriced(mine)):
            model = struct_of(Unpriced, row)
            unpriced[model.provider, model.model or "", model.reason].append(model)
        for row in rows:
            costs[_key(by, row._mapping)].append(_cost_of(row))

    await log.of_each(add_costs_of)
    models = []
    for key in sorted(unpriced):
        exchanges = sum(model.exchanges for model in unpriced[key])
        models.append(msgspec.structs.replace(unpriced[key][-1], exchanges=exchanges))
    return {key: costs_together(several) for key, several in costs.items()}, models


def costs_together(several: Iterable[CostTally]) -> CostTally:
    """Return the sum of costs."""
    return CostTally(**_sums([CostTally(), *several], CostTally.__struct_fields__))


def _cost_of(row: Any) -> CostTally:
    reported = cost = None
    if row.reported_usd is not None:
        reported = _EXACT.multiply(Decimal(row.reported_usd), Decimal(row.reports))
    if row.priced:
        cost = int(row.billions) * _BILLION + int(row.rest)
    return CostTally(cost, row.priced, row.partial, reported)


def _key(by: Sequence[By], columns: Mapping[Any, Any]) -> tuple[Any, ...]:
    """Return the key of a row, with names of hours, days, weeks and months in place of their
    numbers.
    """
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


def _added_up(by: Sequence[By], parts: Iterable[Tally]) -> list[Tally]:
    """Return one sum for each key: times in their order, other keys by most used.

    No exchange is in two parts.
    """
    of_keys: defaultdict[tuple[Any, ...], list[Tally]] = defaultdict(list)
    for part in parts:
        of_keys[part.key].append(part)
    sums = [together(several, key) for key, several in of_keys.items()]
    names = keys(by)
    # Of two keys, a pair stands where all stands that has the first of them.
    tokens, exchanges = Counter[Any](), Counter[Any]()
    for tally in sums:
        for end in range(1, len(names) + 1):
            tokens[tally.key[:end]] += tally.total_tokens or 0
            exchanges[tally.key[:end]] += tally.exchanges

    def place(tally: Tally) -> list[Any]:
        order: list[Any] = []
        for end, name in enumerate(names, 1):
            start = tally.key[:end]
            if name not in _DATES:
                order += (-tokens[start], -exchanges[start])
            order.append(str(start[-1]))
        return order

    return sorted(sums, key=place)


def together(several: Iterable[Tally], key: tuple[Any, ...] = ()) -> Tally:
    """Return the sum of sums that have no exchange in common."""
    return Tally(key, **_sums(list(several), _NUMBERS))


def _sums(parts: Sequence[msgspec.Struct], names: Iterable[str]) -> dict[str, Any]:
    with localcontext(_EXACT):
        return {name: _sum([getattr(part, name) for part in parts]) for name in names}


def _sum(values: Iterable[Any]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _share(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else part / whole


def _decimal_text(value: Decimal | None) -> str | None:
    """Return a decimal without an exponent and without zeros at its end."""
    return None if value is None else f"{value.normalize(_EXACT):f}"


# -- the statements

_OF_REQUEST = ("effort", "tier", "tools")
_OF_ENDED: Mapping[str, str] = {
    "outcome": "ended.status",
    "owner": "ended.owner",
    "team": "ended.team",
    "tag": "tagged.value",
}
_ENDED = TABLES["exchanges"]
_TAGGED = Either(
    " LEFT JOIN json_each(ended.tags) AS tagged ON true",
    " LEFT JOIN LATERAL json_array_elements_text(ended.tags::json) AS tagged (value) ON true",
    """ LEFT JOIN LATERAL (SELECT unnest(from_json(ended.tags, '["VARCHAR"]')) AS value) AS tagged ON true""",
)
_IN_INDEX = frozenset[By]({"day", "week", "month", "model", "client", "outcome"})
_USAGE, _COSTS = "counted", "costs"
"""The rows that are summed: of tokens, those of `COUNTED`; of money, those of the view."""


def _sums_by(by: Sequence[By], summed: Summed, engine: str) -> TextClause:
    """Return the statement for the sums by key, for an engine (`engine_name`); times are grouped by
    hour or day.
    """
    named = zip(_SUMS, DAILY_SUMS.values(), strict=True)
    sums = [f"{value} AS {name}" for name, value in named]
    rows = written(COUNTED, engine)
    if _IN_INDEX.issuperset(by):
        return _of_days(by, summed, rows, sums, engine)
    counts = [f"sum(called.{name}) AS {name}" for name in _CALLS]
    return _grouped(
        by, summed, _USAGE, rows, [*counts, *sums] if "tool" in by else sums, engine=engine
    )


def _of_days(
    by: Sequence[By], summed: Summed, rows: str, sums: Sequence[str], engine: str
) -> TextClause:
    """Return the statement for sums of the sums of each day, model, client and outcome: an index
    has those in order.
    """
    values = {name: written(value, engine) for name, value in DAILY_KEYS.items()}
    columns = ", ".join([*(f"{value} AS {name}" for name, value in values.items()), *sums])
    daily = (
        f"SELECT {columns} FROM {rows} {summed.where(_USAGE)} GROUP BY {', '.join(values.values())}"
    )
    days = dict.fromkeys(_DATES, "days")
    keys = [days.get(name, name) for name in by]
    totals = [f"sum({name}) AS {name}" for name in _SUMS]
    selected = ", ".join([*_numbered(keys), *totals])
    return summed.statement(f"SELECT {selected} FROM ({daily}) AS daily GROUP BY {', '.join(keys)}")


def _costs_by(by: Sequence[By], summed: Summed, engine: str) -> TextClause:
    """Return the statement for the costs by the keys of `_sums_by`, and by reported costs: those
    are decimal texts, which no two engines add up in the same way.
    """
    sums = [
        "count(costs.reported_cost_usd) AS reports",
        # Two halves: a sum of the whole may be too large.
        f"sum(costs.cost_picousd / {_BILLION}) AS billions",
        f"sum(costs.cost_picousd % {_BILLION}) AS rest",
        "count(costs.cost_picousd) AS priced",
        "count(CASE WHEN costs.cost_picousd IS NOT NULL AND costs.partial = 1 THEN 1 END) AS partial",
        "costs.reported_cost_usd AS reported_usd",
    ]
    return _grouped(by, summed, _COSTS, _COSTS, sums, "costs.reported_cost_usd", engine=engine)


def _unpriced(summed: Summed) -> TextClause:
    """Return the statement for what reported tokens but has no cost, by the reason."""
    rows = f"SELECT provider, model, no_price AS reason FROM costs {summed.where(_COSTS)}"
    return summed.statement(f"""SELECT provider, model, reason, count(*) AS exchanges FROM ({rows}) AS unpriced
WHERE reason IN ('subscription', 'provider', 'model', 'counts') GROUP BY provider, model, reason""")


def _grouped(
    by: Sequence[By],
    summed: Summed,
    source: str,
    rows: str,
    sums: Sequence[str],
    *more_keys: str,
    engine: str,
) -> TextClause:
    """Return the statement for sums of rows, which have a name as a source; by tool, an exchange
    counts once for each tool that it called.
    """
    joined, where, once = rows, summed.where(source), source
    if "tool" in by:
        joined = (
            f"{_called(summed)} AS called LEFT JOIN {rows} ON {same_exchange(source, 'called')}"
        )
        where, once = "", "called"
    ended = _of_ended(by, source, once)
    if ended:
        joined += f" LEFT JOIN {_ENDED} AS ended ON {same_exchange('ended', once)}"
    if "tag" in by:
        joined += written(_TAGGED, engine)
    if not set(by).isdisjoint(_OF_REQUEST):
        joined += f" LEFT JOIN ({REQUESTED}) AS requested ON {same_exchange('requested', once)}"
    columns = _columns(by, source, ended)
    # The name of a session is looked up once for each.
    grouping = [
        column for name, column in zip(keys(by), columns, strict=True) if name != "session_name"
    ]
    selected = ", ".join([*_numbered(columns), *sums])
    grouped = ", ".join([*grouping, *more_keys])
    return summed.statement(f"SELECT {selected} FROM {joined} {where} GROUP BY {grouped}")


def _called(summed: Summed) -> str:
    """Return the select of the tools that each exchange called, with the counts of calls."""
    where = summed.where("x")
    began = f"JOIN exchanges AS x ON {same_exchange('x', 't')} {where}" if where else ""
    return f"""(SELECT t.session_id, t.exchange_id, coalesce(t.name, t.type) AS tool, count(*) AS calls,
    count(t.output) AS answered, count(CASE WHEN t.failed = 1 THEN 1 END) AS failed
FROM tool_calls AS t {began} GROUP BY t.session_id, t.exchange_id, coalesce(t.name, t.type))"""


def _of_ended(by: Sequence[By], source: str, once: str) -> dict[str, str]:
    """Return the columns of the key that are in the rows of ended exchanges; those of tokens have
    the outcome, too.
    """
    columns = {name: column for name, column in _OF_ENDED.items() if name in by}
    if (source, once) == (_USAGE, _USAGE):
        columns.pop("outcome", None)
    return columns


def _columns(by: Sequence[By], source: str, ended: Mapping[str, str]) -> list[str]:
    """Return the columns of the key."""
    columns: list[str] = []
    for name in by:
        if name in _DATES:
            columns.append(f"{source}.started_ns / {HOUR_NS if name == 'hour' else DAY_NS}")
        elif name == "session":
            named = f"(SELECT s.name FROM sessions AS s WHERE s.session_id = {source}.session_id)"
            columns += (f"{source}.session_id", named)
        elif name == "tool":
            columns.append("called.tool")
        elif name in _OF_REQUEST:
            columns.append(f"requested.{name}")
        elif name in ended:
            columns.append(ended[name])
        else:
            columns.append(f"{source}.{name}")
    return columns


def _numbered(columns: Sequence[str]) -> list[str]:
    """Return columns of a key, each under a distinct name."""
    return [f"{column} AS key_{number}" for number, column in enumerate(columns)]
