"""Texts of users, each once in a session: from the first request that ends with it.

A request that is sent again repeats its text, and so does a user. As of results of tools (`results`), the store keeps
the earliest row of each: in whatever order exchanges are folded, the rows are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

from recorder.model.events import Event, Exchange
from recorder.model.facts import Fact, RequestFacts, RequestPurpose
from recorder.model.text import storable
from recorder.projections.projection import FoldContext, Handler
from recorder.projections.rows import UserTextRow

DIGEST_LENGTH = 32  # hex digits: no two texts of a session have the same 128 bits


class UserTexts:
    def __init__(self, exchange: Exchange, _: FoldContext) -> None:
        self._exchange = exchange
        self._request, self._placed = RequestFacts(), RequestPurpose()

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {RequestFacts: self._on_request, RequestPurpose: self._on_placed}

    def _on_request(self, fact: RequestFacts, event: Event) -> None:
        self._request = fact

    def _on_placed(self, fact: RequestPurpose, event: Event) -> None:
        self._placed = fact

    def rows(self) -> Iterable[UserTextRow]:
        text, exchange = storable(self._request.text), self._exchange
        if not text or not self._request.is_turn or self._placed.purpose not in (None, "turn"):
            return
        yield UserTextRow(
            session_id=exchange.session_id,
            digest=sha256(text.encode()).hexdigest()[:DIGEST_LENGTH],
            exchange_id=exchange.exchange_id,
            started_ns=exchange.started_ns,
            text=text,
        )
