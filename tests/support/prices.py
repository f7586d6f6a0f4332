"""Prices in a database, for tests of what shows costs."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import msgspec
from sqlalchemy import URL

from recorder.model.prices import PriceRow
from recorder.prices.catalog import DAY_S
from tests.support.superuser import connected, execute


def put_prices(database: Path | URL, model: str = "gpt-5", provider: str = "openai", **usd_per_million: str) -> None:
    """Give a model prices that are always valid."""
    with connected(database) as connection:
        for unit, usd in usd_per_million.items():
            picousd = int(Decimal(usd) * 10**6)
            row = PriceRow(provider, 0, model, unit, "", 0, 0, DAY_S, 0, None, usd, picousd, "prices.toml", "1")
            values = msgspec.structs.astuple(row)
            execute(connection, f"INSERT INTO prices VALUES ({', '.join('?' * len(values))})", *values)
        connection.commit()
