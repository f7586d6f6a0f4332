"""The summary of each exchange in one row: models, first words, status, error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from recorder.model.events import Event, Exchange
from recorder.model.facts import Ended, Fact, Failed, Finished, Placed, Purpose, RequestFacts, Responded, Started
from recorder.model.text import storable
from recorder.projections.projection import Handler, Projection, Witness

WORDS_LIMIT = 200  # characters of what a person asked: a title


class ExchangeRow(msgspec.Struct, frozen=True):
    """One exchange."""

    session_id: str
    exchange_id: str
    response_id: str | None
    request_model: str | None
    response_model: str | None
    stream: bool | None  # whether the client asked for one
    status: str | None  # of the `end` event; `NULL` while it is open
    http_status: int | None
    finish_reason: str | None  # in the provider's word: the last one given
    error_type: str | None
    error_code: str | None
    error: str | None  # the provider's message, else what went wrong with the connection
    user_text: str | None  # the last that a person says in the request, cut to a title
    is_turn: bool  # whether the request ends with that: else it goes on with a turn
    lossless: bool | None
    is_retrieval: bool  # whether it asks for a response that another one began
    last_number: int | None  # the highest sequence number: of two cut streams of one response, who has more
    error_param: str | None  # what of the request is wrong, in the provider's word
    last_response_id: str | None  # the last that was said: of ids that rotate, the one that a client goes on with
    purpose: Purpose | None  # what the request is for; `NULL` if nobody here knows
    parent_thread_id: str | None  # the client's: of the thread that began this one


class _Exchanges:
    def __init__(self, exchange: Exchange, witness: Witness) -> None:
        self._ids = (exchange.session_id, exchange.exchange_id)
        self._is_retrieval = exchange.resumes_response_id is not None
        self._last_number = witness.last_number
        self._request, self._placed = RequestFacts(), Placed()
        self._response_id: str | None = exchange.resumes_response_id
        self._last_response_id: str | None = None
        self._response_model: str | None = None
        self._http_status: int | None = None
        self._finish_reason: str | None = None
        self._failed: Failed | None = None
        self._ended: Ended | None = None

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {
            RequestFacts: self._on_request,
            Placed: self._on_placed,
            Responded: self._on_responded,
            Started: self._on_started,
            Finished: self._on_finished,
            Failed: self._on_failed,
            Ended: self._on_ended,
        }

    def _on_request(self, fact: RequestFacts, event: Event) -> None:
        self._request = fact

    def _on_placed(self, fact: Placed, event: Event) -> None:
        self._placed = fact

    def _on_responded(self, fact: Responded, event: Event) -> None:
        self._http_status = fact.http_status

    def _on_started(self, fact: Started, event: Event) -> None:
        self._response_id = self._response_id or fact.response_id
        self._last_response_id = fact.response_id or self._last_response_id
        self._response_model = fact.model or self._response_model

    def _on_finished(self, fact: Finished, event: Event) -> None:
        self._finish_reason = fact.reason or self._finish_reason

    def _on_failed(self, fact: Failed, event: Event) -> None:
        self._failed = self._failed or fact  # what follows repeats it, mostly with less

    def _on_ended(self, fact: Ended, event: Event) -> None:
        self._ended = fact

    def rows(self) -> Iterable[ExchangeRow]:
        request, failed, ended = self._request, self._failed or Failed(), self._ended
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


# -- which of several exchanges with one response has most of it

# A response may be retrieved again, as a whole or from where a stream was cut. The exchange that has most of it
# supersedes the others. Each rule stands here twice, for rows in memory and for SQL, and a test holds the two together.

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


PROJECTION = Projection("exchanges", 1, ExchangeRow, ("session_id", "exchange_id"), _Exchanges)
