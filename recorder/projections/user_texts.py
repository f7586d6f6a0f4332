"""Texts of users, each once in a session: from the first request that ends with it.

A request that is sent again repeats its text, and so does a user. As of results of tools (`results`), the store keeps
the earliest row of each: in whatever order exchanges are folded, the rows are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from recorder.model.text import storable
from recorder.projections.exchange_facts import ExchangeFacts
from recorder.projections.rows import UserTextRow

DIGEST_LENGTH = 32  # hex digits: no two texts of a session have the same 128 bits


def user_text_rows(facts: ExchangeFacts) -> Iterable[UserTextRow]:
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
