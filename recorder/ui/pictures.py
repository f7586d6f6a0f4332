"""A picture that a request has or a model drew: its bytes out of the log, by the digest that
documents have of it.

Rules of this file:

* A browser gets few types, each only of bytes that begin so. SVG, which is a program, is not among
  them.
* What is not in the log is not there: no address in a request is ever asked for anything.
* A payload is decoded only if it may have a picture: a stream has one among thousands of events.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any

from recorder.errors import NotFoundError, UsageError
from recorder.model.events import BODY_KINDS, payload_of
from recorder.recordings.requests import load_requests, request_json
from recorder.recordings.selection import Numbered, select_exchanges
from recorder.store.queries.reader import LogReader
from recorder.wire.dialects import by_name
from recorder.wire.dialects.json_values import decoded_or_none
from recorder.wire.dialects.media import decoded, picture_type

LIMIT_BYTES = 16 * 2**20
"""Of a picture: those that models draw have up to 8 MiB. A page holds several, each as it comes and
as it is drawn.
"""

_CODED_BYTES = LIMIT_BYTES * 3 // 2  # of its base64, with line breaks and what is around it
_SIGNS = (b"iVBOR", b"9j", b"R0lGO", b"UklGR")  # that base64 begins with; a slash may be escaped


async def picture(
    log: LogReader, ref: str, exchange: str, which: str | None, digest: str | None
) -> tuple[bytes, bytes]:
    """Return the type and the bytes of a picture by their SHA-256 in hex.

    `which` is as of a body: `model`, the request as the model saw it, or None for the response.

    Raises `NotFoundError` if it is not there, `RecorderError` if the request is too large.
    """
    if which not in (None, "response", "model"):
        raise UsageError(f"There are no pictures of {which!r}: there are response, model.")
    session, chosen = await select_exchanges(log, ref, exchange)
    if which == "model":
        bodies = [request_json(request) for _, request in await load_requests(log, session, chosen)]
        found = _found(decoded_or_none(bodies[0] or b"") if bodies else None, digest)
    else:
        found = await _in_response(_documents(log, chosen[0]), digest)
    if found is None:
        limit = f"{LIMIT_BYTES >> 20} MiB"
        raise NotFoundError(
            f"This exchange has no such picture (PNG, JPEG, GIF or WebP, up to {limit})."
        )
    return found


async def _in_response(
    documents: AsyncIterator[Any], digest: str | None
) -> tuple[bytes, bytes] | None:
    async for each in documents:
        found = _found(each, digest)
        if found is not None:
            return found
    return None


async def _documents(log: LogReader, numbered: Numbered) -> AsyncIterator[Any]:
    """Yield the JSON in a response that may have a picture: payloads of events, or the body if it
    is no stream.
    """
    _, row = numbered
    dialect, body = by_name(row.api), bytearray()
    async for event in log.events(row.session_id, row.exchange_id, kinds=BODY_KINDS):
        payload = payload_of(event)
        if payload is not None:
            if any(sign in payload for sign in _SIGNS):
                yield decoded_or_none(dialect.unwrapped(payload))
        elif event.kind == "body" and len(body) < _CODED_BYTES:
            body += event.raw
    yield decoded_or_none(bytes(body))


def _found(value: Any, digest: str | None) -> tuple[bytes, bytes] | None:
    """Return the type and the bytes of a picture in any JSON."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
        elif isinstance(each, str):
            data = each.partition(";base64,")[2] if each.startswith("data:") else each
            type = picture_type(data)
            if type is not None and len(data) <= _CODED_BYTES:
                content = decoded(data)
                if sha256(content).hexdigest() == digest and len(content) <= LIMIT_BYTES:
                    return type.encode(), content
    return None
