"""The exchange that has most of a response is the same one for SQL as for rows in memory."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import permutations, product

import msgspec

from recorder.projections.rows import (
    ExchangeRow,
    completeness,
    completeness_sql,
    is_same_response,
    same_response_sql,
)

COLUMNS = (
    "session_id",
    "exchange_id",
    "response_id",
    "finish_reason",
    "last_number",
    "is_retrieval",
)


def row(exchange_id: str, values: tuple[str | None, str | None, int | None, bool]) -> ExchangeRow:
    fields = dict.fromkeys(ExchangeRow.__struct_fields__) | dict(
        zip(COLUMNS[2:], values, strict=True)
    )
    return msgspec.convert(
        {**fields, "session_id": "s", "exchange_id": exchange_id, "is_turn": False}, ExchangeRow
    )


def test_sql_and_memory_agree_which_exchange_supersedes_which() -> None:
    values = product(
        [None, "resp_1"], [None, "cancelled", "stop", ""], [None, -1, 0, 7], [False, True]
    )
    rows = [row(f"x{number:02}", each) for number, each in enumerate(values)]
    better = {
        (one.exchange_id, other.exchange_id)
        for one, other in permutations(rows, 2)
        if is_same_response(one, other) and completeness(one) > completeness(other)
    }
    ranks = [f"({', '.join(completeness_sql(table))})" for table in ("o", "p")]
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(f"CREATE TABLE rows ({', '.join(COLUMNS)})")
        db.executemany(
            "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)",
            [[getattr(each, name) for name in COLUMNS] for each in rows],
        )
        found = db.execute(
            f"SELECT o.exchange_id, p.exchange_id FROM rows AS o, rows AS p WHERE o.exchange_id <> p.exchange_id "
            f"AND {same_response_sql('o', 'p')} AND {ranks[0]} > {ranks[1]}"
        ).fetchall()
    assert set(found) == better
    assert better
