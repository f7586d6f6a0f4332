"""Which of several exchanges with one response has most of it.

A response may be retrieved again, as a whole or from where a stream was cut. The exchange that has most of it
supersedes the others. Each rule stands here twice, for rows in memory and for SQL, and a test holds the two together.
"""

from __future__ import annotations

from recorder.projections.rows import ExchangeRow

NOT_FINISHED = "cancelled"  # the reason to finish of a response that has more to come, or nothing


def is_same_response(one: ExchangeRow, other: ExchangeRow) -> bool:
    """Return whether two exchanges of a session have one response, because one of them retrieved it."""
    is_retrieved = one.is_retrieval or other.is_retrieval
    return one.response_id is not None and one.response_id == other.response_id and is_retrieved


def completeness(row: ExchangeRow) -> tuple[bool, int, str]:
    """Return the rank of an exchange among those with its response: the highest has most of it."""
    is_finished = row.finish_reason not in (None, NOT_FINISHED)
    return is_finished, -1 if row.last_number is None else row.last_number, row.exchange_id


def same_response_sql(one: str, other: str) -> str:
    """Return `is_same_response` as a condition on two tables of rows."""
    ids = f"{one}.session_id = {other}.session_id AND {one}.response_id = {other}.response_id"
    return f"{ids}\n        AND ({one}.is_retrieval = 1 OR {other}.is_retrieval = 1)"


def completeness_sql(table: str) -> tuple[str, str, str]:
    """Return `completeness` as expressions on a table of rows."""
    is_finished = f"({table}.finish_reason IS NOT NULL AND {table}.finish_reason <> '{NOT_FINISHED}')"
    return is_finished, f"coalesce({table}.last_number, -1)", f"{table}.exchange_id"
