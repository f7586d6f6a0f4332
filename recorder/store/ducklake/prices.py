"""The prices of a log for the sessions of its archive, which has none.

They are in the memory of a connection, in front of the archive's own: no reader writes to an archive.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from recorder.projections.views.cost import COSTS
from recorder.store.ducklake.connection import LAKE
from recorder.store.ducklake.schema import PRICES
from recorder.store.engine import Prices

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def priced(connection: DuckDBPyConnection, prices: Prices) -> str:
    """Give a connection the table `prices` and the view `costs` over it; return the search path that finds them."""
    path = f"memory.main,{LAKE}.main"
    types = {name: type.removesuffix(" NOT NULL") for name, type in PRICES.columns.items()}
    rows = [dict(zip(types, row, strict=True)) for row in prices]
    cursor = connection.cursor()
    cursor.execute(f"SET search_path = '{path}'")
    cursor.execute(f"CREATE TABLE {PRICES.name} ({', '.join(f'{name} {type}' for name, type in types.items())})")
    cursor.execute(
        f"INSERT INTO {PRICES.name} SELECT {', '.join(f'r.{name}' for name in types)} "
        "FROM (SELECT unnest(from_json(CAST(? AS JSON), CAST(? AS VARCHAR))) AS r)",
        [json.dumps(rows), json.dumps([types])],
    )
    cursor.execute(COSTS.statement("duckdb"))
    return path
