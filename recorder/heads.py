"""What a recording says of a request, a response and an ending: the JSON of the journal's control records.

Headers and URLs in here are already redacted (`recorder.redaction`): these structs reach the disk.
"""

from __future__ import annotations

import msgspec

from recorder.events import Outcome

Header = tuple[str, str]  # name as sent, value; latin-1 decoded, so that every byte survives


class RequestHead(msgspec.Struct, frozen=True):
    """A request as the client sent it, before it is forwarded."""

    exchange_id: str
    session_id: str  # the session's id if grouping finds no session that exists
    started_ns: int  # wall time
    method: str
    target: str  # path and redacted query, as the client sent them, without the `/s/<session>` prefix
    upstream: str  # the name of the upstream it goes to
    headers: list[Header]
    session: str | None = None  # from the path prefix or `X-Recorder-Session`
    session_source: str | None = None  # which of the two


class RequestEnd(msgspec.Struct, frozen=True):
    """Whether the whole request body was seen."""

    complete: bool


class ResponseHead(msgspec.Struct, frozen=True):
    """A response head as the upstream sent it."""

    status: int
    reason: str
    headers: list[Header]
    http_version: str = "1.1"


class ExchangeEnd(msgspec.Struct, frozen=True):
    """How the transport of an exchange ended; `error` is one sentence, if there is something to say."""

    outcome: Outcome
    error: str | None = None
