"""Logical requests, compared: all that the model saw, where a request has only what is new since an earlier response.

A client over WebSocket sends only what is new with almost every request, the same client over HTTP sends the whole
history: both are the same request here. `recorder.wire.logical_request` puts requests together; this file adds the
prewarms that were answered without a recording. Pure, and never raises.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from recorder.model.recording import Recording
from recorder.replay.matching.once import Once
from recorder.wire.dialects import by_path
from recorder.wire.dialects.dialect import Links
from recorder.wire.dialects.json_values import as_json, request_object
from recorder.wire.logical_request import LogicalRequest, LogicalRequests, links_in

MADE_LIMIT = 256
"""Prewarms without a recording that are remembered, the oldest forgotten first: one for each open connection, and
nobody replays to so many at once."""


class History:
    """What requests continue: the recordings, and prewarms that have none."""

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self._recordings = recordings
        self._prewarms = OrderedDict[str, bytes]()

    def add_prewarm(self, id: str, body: bytes) -> None:
        """Add a prewarm by the id of the response that was made for it."""
        self._prewarms[id] = body
        while len(self._prewarms) > MADE_LIMIT:
            self._prewarms.popitem(last=False)

    def is_linked(self, target: str, body: bytes) -> bool:
        """Return whether a POST has only what is new since a response that is known here. Most bodies are only
        searched for that."""
        return links_in(target, body) != Links() and self.of_request(target, body).depth > 0

    def of_recorded(self, recorded: Recording) -> LogicalRequest:
        """Return the logical request of one of the recordings."""
        return self._requests.of(recorded)

    def of_request(self, target: str, body: bytes) -> LogicalRequest:
        """Return the logical request of a POST that goes on from the recordings, or from a prewarm."""
        whole = self._with_prewarm(target, body)
        found = self._requests.of_body(target, whole)
        return found if whole is body else msgspec.structs.replace(found, depth=found.depth + 1)

    def _with_prewarm(self, target: str, body: bytes) -> bytes:
        """Return a request with the items of the prewarm that it continues, if that was made here."""
        continuation = by_path("POST", target.partition("?")[0]).continuation
        if continuation is None or not self._prewarms:
            return body
        request = request_object(body)
        prewarm = self._prewarms.get(continuation.links(request).response_id or "")
        if prewarm is None:
            return body
        items = [*continuation.input(request_object(prewarm)), *continuation.input(request)]
        kept = {name: each for name, each in request.items() if name not in continuation.fields}
        return as_json({**kept, continuation.items: items}).encode()

    @Once
    def _requests(self) -> LogicalRequests:
        return LogicalRequests(self._recordings, compared=True)


def encoded(request: LogicalRequest) -> bytes:
    """Return a logical request as a body."""
    fields = as_json(dict(request.fields)).encode()
    if request.items is None:
        return fields
    items = b",".join(bytes(item) for part in request.parts for item in part.items)
    return b'%b%b"%b":[%b]}' % (fields[:-1], b"," if request.fields else b"", request.items.encode(), items)
