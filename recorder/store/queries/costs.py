"""The costs of the sessions that somebody looks at, and of no others.

Rules of this file:

* The view `costs` reads all usage of a log, to find its distinct models. Here the same query has in
  place of what it reads the part of the named sessions: it takes as long in a log of any size.
* Whoever has no prices is not made to wait: `HAS_PRICES` comes first.
* An amount is exact: a sum of picodollars, shown as decimal text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec
from sqlalchemy import TextClause, bindparam, text

from recorder.model.ids import first_id
from recorder.model.prices import usd
from recorder.projections.rows import TABLES
from recorder.projections.views.cost import COSTS
from recorder.projections.views.parts import same_exchange, written
from recorder.store.queries.reader import LogReader
from recorder.store.schema import ID
from recorder.store.sql import HAS_PRICES, of_named, struct_of

_MODELS = text(
    f"""SELECT provider, model FROM usage WHERE model IS NOT NULL
UNION SELECT u.provider, i.model FROM {TABLES["iterations"]} AS i JOIN usage AS u ON {same_exchange("u", "i")}
WHERE i.model IS NOT NULL"""
)
PICO = 12
"""Decimal places of a picodollar."""

_UNCACHED = "uncached_token_picousd"
_KINDS = tuple(name for name in COSTS.columns if name.endswith("_picousd") and name != _UNCACHED)
_OF_EXCHANGE = (
    "exchange_id",
    *_KINDS,
    "partial",
    "no_price",
    "price_source",
    "price_model",
    _UNCACHED,
)
# by the name of what is read, its part
_READ = {"usage": "named_usage", TABLES["iterations"]: "named_iterations"}


class ExchangeCost(msgspec.Struct, frozen=True):
    """The cost of an exchange, by kind of tokens, or the reason why it is not known."""

    # by kind, the total with them as `cost`; empty if the cost is not known
    picousd: Mapping[str, int]
    partial: bool  # the stream broke off: there may be more
    no_price: str | None
    price_source: str | None
    price_model: str | None
    # what a token of the input costs more than one from the cache
    uncached_picousd: int | None = None

    def missed_usd(self, tokens: int | None) -> str | None:
        """Return what some tokens cost more than if they had come from the cache, as decimal text."""
        return (
            None
            if tokens is None or self.uncached_picousd is None
            else usd(tokens * self.uncached_picousd, PICO)
        )

    @property
    def usd(self) -> str | None:
        """Return the total as decimal text."""
        return usd(self.picousd.get("cost"), PICO)

    def document(self) -> dict[str, Any]:
        """Return the cost as it is in JSON."""
        if self.no_price is not None or not self.picousd:
            return {"no_price": self.no_price}
        amounts = {f"{kind}_usd": usd(picousd, PICO) for kind, picousd in self.picousd.items()}
        source = {"price_source": self.price_source, "price_model": self.price_model}
        return {**amounts, "cost_partial": self.partial, **source}


class CostSum(msgspec.Struct, frozen=True):
    """The cost of some exchanges together."""

    usd: str | None  # decimal text; None if the cost of none of them is known
    # one of them has no known cost, or its stream broke off: there may be more
    partial: bool | None


def sum_of(costs: Iterable[ExchangeCost]) -> CostSum:
    """Return the sum of known costs."""
    costs = list(costs)
    known = [each.picousd["cost"] for each in costs if each.picousd]
    if not known:
        return CostSum(None, None)
    return CostSum(
        usd(sum(known), PICO), len(known) < len(costs) or any(each.partial for each in costs)
    )


@cache
def _source(engine: str) -> str:
    source = written(COSTS.source, engine).strip()
    for name, part in _READ.items():
        source = re.sub(rf"\b(FROM|JOIN) {name} AS", rf"\1 {part} AS", source)
    return source


def _named(statement: str) -> TextClause:
    parts = [
        f"{part} AS (SELECT * FROM {name} WHERE session_id IN :session_ids)"
        for name, part in _READ.items()
    ]
    return of_named(f"WITH {', '.join(parts)} {statement}")


@cache
def costs_by_exchange(engine: str) -> TextClause:
    """Return the statement for the costs of the exchanges of the sessions in `session_ids`."""
    columns = ", ".join(f"{COSTS.columns[name]} AS {name}" for name in _OF_EXCHANGE)
    return _named(f"SELECT {columns} {_source(engine)}")


@cache
def session_costs(engine: str) -> TextClause:
    """Return the statement for the sums of the sessions in `session_ids`, as `by_session` reads
    them.

    A request that the provider refused costs nothing: that its cost is not known makes no sum
    partial.
    """
    return _named(
        f"""SELECT c.session_id, CAST(sum(c.cost_picousd) AS BIGINT) AS picousd,
    max(CASE WHEN (c.partial = 1 OR c.cost_picousd IS NULL) AND coalesce(p.http_status, 0) < 400 THEN 1 ELSE 0 END)
        AS partial
FROM (SELECT c.session_id, c.exchange_id, c.partial, c.cost_picousd {_source(engine)}) AS c
LEFT JOIN {TABLES["exchanges"]} AS p ON {same_exchange("p", "c")}
GROUP BY c.session_id"""
    )


class Spent(msgspec.Struct, frozen=True):
    """The costs of an owner and a team since a time."""

    owner: str
    team: str | None
    picousd: int
    unpriced: int  # exchanges whose cost is not known


@cache
def _by_owner(engine: str) -> TextClause:
    """Return the statement for the costs of the exchanges that showed a token since a time."""
    statement = f"""WITH named_usage AS (SELECT * FROM usage WHERE started_ns >= :since_ns AND owner IS NOT NULL),
named_iterations AS (SELECT * FROM {TABLES["iterations"]} WHERE exchange_id >= :since_id)
SELECT c.owner, c.team, CAST(coalesce(sum(c.cost_picousd), 0) AS BIGINT) AS picousd,
    count(CASE WHEN c.no_price IN ('provider', 'model', 'counts') THEN 1 END) AS unpriced
FROM (SELECT c.owner, c.team, c.cost_picousd, c.no_price {_source(engine)}) AS c GROUP BY c.owner, c.team"""
    return text(statement).bindparams(bindparam("since_id", type_=ID))


async def spent_since(log: LogReader, since_ns: int) -> list[Spent]:
    """Return what owners have spent since a time, by team."""
    rows = await log.rows(_by_owner(log.engine), since_ns=since_ns, since_id=first_id(since_ns))
    return [struct_of(Spent, row) for row in rows]


async def has_prices(log: LogReader) -> bool:
    """Return whether there is any price: without one, no cost is known."""
    [(has_prices,)] = await log.rows(HAS_PRICES)
    return bool(has_prices)


async def priced_models(log: LogReader) -> set[tuple[str, str]]:
    """Return the upstreams and models that have costs."""
    models: set[tuple[str, str]] = set()
    for rows in await log.of_each(lambda part: part.rows(_MODELS)):
        models.update((row.provider, row.model) for row in rows)
    return models


async def exchange_costs(log: LogReader, session_id: str) -> dict[str, ExchangeCost]:
    """Return the costs of the exchanges of a session that have ended; none if there are no prices."""

    async def costs_in(part: LogReader) -> dict[str, ExchangeCost]:
        if not await has_prices(part):
            return {}
        rows = await part.rows(costs_by_exchange(part.engine), session_ids=[session_id])
        return {str(row.exchange_id): _exchange_cost(row) for row in rows}

    return await log.of_session(session_id, costs_in)


def _exchange_cost(row: Any) -> ExchangeCost:
    picousd: dict[str, int] = {}
    if row.cost_picousd is not None:
        picousd = {name.removesuffix("_picousd"): row._mapping[name] for name in _KINDS}
    return ExchangeCost(
        picousd=picousd,
        partial=bool(row.partial),
        no_price=row.no_price,
        price_source=row.price_source,
        price_model=row.price_model,
        uncached_picousd=row.uncached_token_picousd,
    )


def by_session(rows: Iterable[Any]) -> dict[str, CostSum]:
    """Return the sums by session, from the rows of `session_costs`; without those that have no
    known cost.
    """
    known = {str(row.session_id): row for row in rows if row.picousd is not None}
    return {
        session_id: CostSum(usd(row.picousd, PICO), bool(row.partial))
        for session_id, row in known.items()
    }
