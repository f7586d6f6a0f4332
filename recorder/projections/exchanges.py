"""The summary of each exchange in one row: models, first words, status, error."""

from __future__ import annotations

from collections.abc import Iterable

from recorder.model.facts import ErrorReported
from recorder.model.text import storable
from recorder.projections.exchange_facts import ExchangeFacts
from recorder.projections.rows import ExchangeRow

WORDS_LIMIT = 200  # characters of what a person asked: a title


def exchange_rows(facts: ExchangeFacts) -> Iterable[ExchangeRow]:
    request, failed, ended = facts.request, facts.failed or ErrorReported(), facts.ended
    yield ExchangeRow(
        *facts.ids,
        response_id=storable(facts.response_id),
        request_model=storable(request.model),
        response_model=storable(facts.response_model),
        stream=request.stream,
        status=ended.status if ended else None,
        http_status=facts.http_status,
        finish_reason=storable(facts.finish_reason),
        error_type=storable(failed.type),
        error_code=storable(failed.code),
        error=storable(failed.message or (ended.error if ended else None)),
        user_text=_title(request.text),
        is_turn=request.is_turn,
        lossless=ended.lossless if ended else None,
        is_retrieval=facts.exchange.resumes_response_id is not None,
        last_number=facts.anomalies.last_number(),
        error_param=storable(failed.param),
        last_response_id=storable(facts.last_response_id),
        purpose=facts.placed.purpose,
        parent_thread_id=storable(facts.placed.parent_thread_id),
    )


def _title(text: str | None) -> str | None:
    """Return a text on one line, with an ellipsis where it is cut."""
    words = " ".join((storable(text) or "")[: 8 * WORDS_LIMIT].split())
    cut = words if len(words) <= WORDS_LIMIT else f"{words[: WORDS_LIMIT - 1]}…"
    return cut or None
