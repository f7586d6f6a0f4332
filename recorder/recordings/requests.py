"""Requests of a session as the model saw them: loaded with all that they continue, and as the JSON
of `show --request`.

Items of earlier exchanges stand in the request that continues them, with the exchange that each is
from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from recorder.model.events import MemoryBudget, Recording, Session
from recorder.model.text import safe_text, storable
from recorder.recordings.loader import load_continued, load_exchanges
from recorder.recordings.selection import Numbered
from recorder.recordings.session import budget_of
from recorder.store.queries.reader import LogReader
from recorder.wire.logical_request import LogicalRequest, LogicalRequests

Shown = Sequence[tuple[Recording, LogicalRequest]]


async def load_requests(log: LogReader, session: Session, exchanges: Sequence[Numbered]) -> Shown:
    """Return the requests of some exchanges of a session; those without a body are left out.

    Raises `RecorderError` if they and what they continue are too large together.
    """
    budget = budget_of(safe_text(session.name))
    recordings = await load_exchanges(log, session, exchanges, budget, keeps_events=False)
    continued = await load_continued(log, session, recordings, budget)
    requests = LogicalRequests(sorted([*recordings, *continued], key=lambda each: each.number))
    return [(each, requests.of(each)) for each in recordings if each.request_body]


def request_document(session: Session, shown: Shown) -> dict[str, Any]:
    """Return the object of `recorder show --request --json`; its keys are in docs/formats.md.

    Raises `RecorderError` if it would be too large: each request repeats what it continues.
    """
    budget = MemoryBudget("These requests take", "name one exchange, by its number or id")
    for _, request in shown:
        budget.add(request.size_bytes, 0)
    requests = []
    for recording, request in shown:
        encoded = request_json(request)
        body = None if encoded is None else msgspec.Raw(encoded)
        requests.append({**request_head(recording, request), "request": body})
    return {
        "session": {"session_id": session.session_id, "name": session.name},
        "requests": requests,
    }


def request_head(recording: Recording, request: LogicalRequest) -> dict[str, Any]:
    """Return what the object of `recorder show --request --json` has of a request, without the
    request itself.
    """
    exchange = recording.exchange
    parts = [
        {
            "source": part.source,
            "exchange_id": part.exchange_id,
            "number": part.number,
            "items": len(part.items),
        }
        for part in request.parts
    ]
    missing = {"missing_id": request.missing_id, "reason": request.reason}
    return {
        "exchange_id": exchange.exchange_id,
        "number": recording.number,
        "api": exchange.api,
        "method": exchange.method,
        "target": exchange.target,
        "depth": request.depth,
        "is_complete": request.is_complete,
        **{name: storable(each) for name, each in missing.items() if each is not None},
        "parts": parts,
    }


def request_json(request: LogicalRequest) -> bytes | None:
    """Return a request as JSON; None if its body is not a JSON object."""
    return request.encoded() if request.fields or request.parts else None
