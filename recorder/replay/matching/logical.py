"""Logical requests as they are matched: all that the model saw, where a request has only what is new.

A client over WebSocket names the response before it with almost every request, the same client over HTTP sends the
whole history: both are the same request here. How it is put together says `recorder.wire.logical_request`. A link that
leads to no recording stays as it is: then the ids are compared.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from recorder.model.recording import Recording
from recorder.replay.matching.fingerprint import MatchRequest, without_secrets
from recorder.replay.matching.noise import Rules
from recorder.wire.dialects import DIALECTS
from recorder.wire.logical_request import LogicalRequests, links_in

MADE_LIMIT = 256
"""Prewarms without a recording that are remembered, the oldest forgotten first: one for each open connection, and
nobody replays to so many at once."""

_ITEMS = frozenset(each.continuation.items for each in DIALECTS if each.continuation is not None)
"""The members of requests that have the items."""


class History:
    """The conversations that responses end, by the id of the response."""

    def __init__(self, recordings: Sequence[Recording], rules: Rules) -> None:
        """Take the recordings, of which nothing is decoded before the first link is followed."""
        self._rules = rules
        self._made = OrderedDict[str, tuple[str, bytes]]()
        self._requests = LogicalRequests(recordings, compared=True, unrecorded=self._made.get)

    def add(self, id: str, request: MatchRequest) -> None:
        """Add a response without output that answered a request."""
        self._made[id] = request.target, request.body
        while len(self._made) > MADE_LIMIT:
            self._made.popitem(last=False)

    def is_linked(self, request: MatchRequest) -> bool:
        """Return whether a request goes on from a response that is known here."""
        return self._requests.is_known(links_in(request.target, request.body))

    def logical(self, request: MatchRequest, recorded: Recording | None = None) -> MatchRequest:
        """Return a request with all its items, in the form in which they are compared; `recorded` is its recording."""
        if recorded is not None:
            found = self._requests.of(recorded)
        else:
            found = self._requests.of_body(request.target, request.body)
        if found.items is None:
            return request
        return without_secrets(msgspec.structs.replace(request, body=found.encoded()), self._rules)

    def length(self, request: MatchRequest, recorded: Recording | None = None) -> int:
        """Return a number that is equal for requests whose logical requests are: of their items, if those count."""
        if any(map(self._rules.is_field, _ITEMS)):
            return 0
        if recorded is not None:
            return self._requests.length(recorded)
        return self._requests.length_of_body(request.target, request.body)
