"""The summary of each exchange in one row: models, first words, status, error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from recorder.model.events import Event, Exchange
from recorder.model.facts import (
    ErrorReported,
    ExchangeEnded,
    Fact,
    HeadReceived,
    RequestFacts,
    RequestPurpose,
    ResponseFinished,
    ResponseStarted,
)
from recorder.model.text import storable
from recorder.projections.projection import FoldContext, Handler
from recorder.projections.rows import ExchangeRow

WORDS_LIMIT = 200  # characters of what a person asked: a title


class Exchanges:
    def __init__(self, exchange: Exchange, context: FoldContext) -> None:
        self._ids = (exchange.session_id, exchange.exchange_id)
        self._is_retrieval = exchange.resumes_response_id is not None
        self._last_number = context.last_number
        self._request, self._placed = RequestFacts(), RequestPurpose()
        self._response_id: str | None = exchange.resumes_response_id
        self._last_response_id: str | None = None
        self._response_model: str | None = None
        self._http_status: int | None = None
        self._finish_reason: str | None = None
        self._failed: ErrorReported | None = None
        self._ended: ExchangeEnded | None = None

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {
            RequestFacts: self._on_request,
            RequestPurpose: self._on_placed,
            HeadReceived: self._on_responded,
            ResponseStarted: self._on_started,
            ResponseFinished: self._on_finished,
            ErrorReported: self._on_failed,
            ExchangeEnded: self._on_ended,
        }

    def _on_request(self, fact: RequestFacts, event: Event) -> None:
        self._request = fact

    def _on_placed(self, fact: RequestPurpose, event: Event) -> None:
        self._placed = fact

    def _on_responded(self, fact: HeadReceived, event: Event) -> None:
        self._http_status = fact.http_status

    def _on_started(self, fact: ResponseStarted, event: Event) -> None:
        self._response_id = self._response_id or fact.response_id
        self._last_response_id = fact.response_id or self._last_response_id
        self._response_model = fact.model or self._response_model

    def _on_finished(self, fact: ResponseFinished, event: Event) -> None:
        self._finish_reason = fact.reason or self._finish_reason

    def _on_failed(self, fact: ErrorReported, event: Event) -> None:
        self._failed = self._failed or fact  # what follows repeats it, mostly with less

    def _on_ended(self, fact: ExchangeEnded, event: Event) -> None:
        self._ended = fact

    def rows(self) -> Iterable[ExchangeRow]:
        request, failed, ended = self._request, self._failed or ErrorReported(), self._ended
        yield ExchangeRow(
            *self._ids,
            response_id=storable(self._response_id),
            request_model=storable(request.model),
            response_model=storable(self._response_model),
            stream=request.stream,
            status=ended.status if ended else None,
            http_status=self._http_status,
            finish_reason=storable(self._finish_reason),
            error_type=storable(failed.type),
            error_code=storable(failed.code),
            error=storable(failed.message or (ended.error if ended else None)),
            user_text=_title(request.text),
            is_turn=request.is_turn,
            lossless=ended.lossless if ended else None,
            is_retrieval=self._is_retrieval,
            last_number=self._last_number(),
            error_param=storable(failed.param),
            last_response_id=storable(self._last_response_id),
            purpose=self._placed.purpose,
            parent_thread_id=storable(self._placed.parent_thread_id),
        )


def _title(text: str | None) -> str | None:
    """Return a text on one line, with an ellipsis where it is cut."""
    words = " ".join((storable(text) or "")[: 8 * WORDS_LIMIT].split())
    cut = words if len(words) <= WORDS_LIMIT else f"{words[: WORDS_LIMIT - 1]}…"
    return cut or None
