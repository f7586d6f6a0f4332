"""The summary of each exchange in one row, with models, first words, status and error; and what its request has."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import msgspec

from recorder.model.facts import ErrorReported
from recorder.model.text import storable, storable_json
from recorder.projections.exchange_facts import ExchangeFacts
from recorder.projections.rows import ExchangeRow, ParametersRow, UserTextRow
from recorder.wire.dialects.json_values import as_json

WORDS_LIMIT = 200  # characters of what a person asked: a title
DIGEST_LENGTH = 32  # hex digits: no two texts of a session have the same 128 bits


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


def parameter_rows(facts: ExchangeFacts) -> Iterable[ParametersRow]:
    """Yield the settings of a request, what is in it by kind, and the service tier that its response had."""
    request = facts.request
    is_retrieved = facts.exchange.resumes_response_id is not None and facts.tier is not None
    if request.model is None and not request.items and not is_retrieved:
        return  # nothing is to be generated
    columns = msgspec.structs.asdict(request.parameters)
    names = columns["tool_names"]
    for name, value in columns.items():
        if isinstance(value, str):
            columns[name] = storable(value)
    if names is not None:
        columns["tool_names"] = storable_json(as_json(names))
    yield ParametersRow(
        *facts.ids,
        **columns,
        response_service_tier=storable(facts.tier),
        tools=None if names is None else len(names),
        new_user_text=storable(request.text) if request.is_turn else None,
    )


def user_text_rows(facts: ExchangeFacts) -> Iterable[UserTextRow]:
    """Yield the text of a user with which a request ends.

    A request that is sent again repeats it, and so does a user. As of results of tools (`results`), the store keeps the
    earliest row of each: in whatever order exchanges are folded, the rows are the same.
    """
    text, exchange = storable(facts.request.text), facts.exchange
    if not text or not facts.request.is_turn or facts.placed.purpose not in (None, "turn"):
        return
    yield UserTextRow(
        session_id=exchange.session_id,
        digest=sha256(text.encode()).hexdigest()[:DIGEST_LENGTH],
        exchange_id=exchange.exchange_id,
        started_ns=exchange.started_ns,
        text=text,
    )


def _title(text: str | None) -> str | None:
    """Return a text on one line, with an ellipsis where it is cut."""
    words = " ".join((storable(text) or "")[: 8 * WORDS_LIMIT].split())
    cut = words if len(words) <= WORDS_LIMIT else f"{words[: WORDS_LIMIT - 1]}…"
    return cut or None
