"""Resend: the requests of a recording as they are sent once more.

Rules of this file:

* A request is what was recorded, byte for byte, but for its model if another one is wanted. The log
  has no keys: one is put where the recorded client had its own. Other headers whose values were not
  kept are left out.
* A request is known by its method, its target and its body. So what a session has already is told
  from the log alone, whatever order it came in, and nothing has to be written down beside it.
* What went out may have been paid for. It is asked again only if the answer says that nothing was
  done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from recorder.model.attribution import Attribution
from recorder.model.events import ENDED_HERE, WHOLE, Recording
from recorder.proxy.routing import Routes
from recorder.replay.fork import in_body, in_path
from recorder.wire.redaction.headers import REDACTED, redact_target

NOT_DONE = frozenset({401, 403, 408, 409, 429})
"""Statuses of answers that cost nothing and may be others later, besides those from 500 on."""

_KEYS: Mapping[str, str] = {
    "authorization": "Bearer {}",
    "x-api-key": "{}",
    "api-key": "{}",
    "x-goog-api-key": "{}",
}
"""Headers that have the key of a company, and how."""

_KEY_PARAMETER = f"key={REDACTED}"  # of Google's APIs, in a query
_OF_THE_CONNECTION = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "te",
        "transfer-encoding",
    }
)
_OF_THE_SESSION = "x-recorder-session"

Identity = tuple[str, str, bytes]
"""What two requests have in common that are the same: method, target, body."""


class Resend(NamedTuple):
    """A request that is to be sent, and the recording that it is from."""

    recorded: Recording
    target: str  # with the name of the upstream, where nothing else names it
    headers: Sequence[tuple[str, str]]  # without the key
    body: bytes
    key_header: str | None  # that had the key

    @property
    def upstream(self) -> str:
        return self.recorded.request.upstream

    @property
    def identity(self) -> Identity:
        return self.recorded.request.method, redact_target(self.target), self.body

    @property
    def has_key(self) -> bool:
        """Return whether the recorded client sent a key."""
        return self.key_header is not None or _KEY_PARAMETER in self.target

    def sent(self, key: str) -> tuple[str, list[tuple[str, str]]]:
        """Return the target and the headers with a key in them."""
        headers = [*self.headers]
        if self.key_header is not None:
            headers.append((self.key_header, _KEYS[self.key_header.lower()].format(key)))
        return self.target.replace(_KEY_PARAMETER, f"key={key}"), headers


def why_not(recording: Recording) -> str | None:
    """Return why a request is not sent again; None if it is."""
    if recording.request.method != "POST":
        return "not a POST over HTTP"
    if not recording.request.complete or recording.request.undecoded is not None:
        return "its body is not in the log as a whole"
    attribution = recording.request.attribution
    if isinstance(attribution, Attribution) and attribution.content is not None:
        return "its texts are filler"
    response, end = recording.response, recording.end
    if response is None or response.status >= 400 or end is None or end.outcome not in WHOLE:
        return "not answered, or not to the end"
    return None


def resend_of(recording: Recording, model: str | None, routes: Routes) -> Resend:
    """Return a request as it is sent again, with another model if one is given."""
    request = recording.request
    target, body = request.target, recording.request_body
    if model is not None:
        target = in_path(target, model)
        body = in_body(body, model) or body
    headers: list[tuple[str, str]] = []
    key_header = None
    for name, value in request.headers:
        if name.lower() in _KEYS:
            key_header = name
        elif (
            name.lower() not in _OF_THE_CONNECTION
            and name.lower() != _OF_THE_SESSION
            and REDACTED not in value
        ):
            headers.append((name, value))
    known = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    if key_header is not None:
        known.append((key_header.lower().encode("latin-1"), b"none"))
    if routes.route(target, known).upstream != request.upstream:
        target = f"/{request.upstream}{target}"
    return Resend(recording, target, headers, body, key_header)


def missing(wanted: Sequence[Resend], times: int, there: Iterable[Recording]) -> list[Resend]:
    """Return the requests that are still to be sent, so that each was sent `times`."""
    done = Counter(identity_of(each) for each in there if is_done(each))
    found: list[Resend] = []
    for _ in range(times):
        for request in wanted:
            if done[request.identity] > 0:
                done[request.identity] -= 1
            else:
                found.append(request)
    return found


def identity_of(recording: Recording) -> Identity:
    """Return by what a recorded request is known."""
    return recording.request.method, recording.request.target, recording.request_body


def is_done(recording: Recording) -> bool:
    """Return whether a request was answered, or may have been: it was on its way when the recorder
    ended.
    """
    if recording.response is not None:
        return not is_refusal(recording.response.status)
    return recording.end is None or recording.end.outcome in ENDED_HERE


def is_refusal(status: int) -> bool:
    """Return whether an answer of this status is not one to the request: it may be another one
    later.
    """
    return status in NOT_DONE or status >= 500


def answered(
    wanted: Iterable[Resend], there: Iterable[Recording]
) -> list[tuple[Recording, Recording]]:
    """Return pairs: what was recorded, and what a session has as an answer to the same request.

    Answers that broke off here are left out: that says nothing about a model.
    """
    recorded: dict[Identity, Recording] = {}
    for request in wanted:
        recorded.setdefault(request.identity, request.recorded)
    pairs = []
    for answer in there:
        first = recorded.get(identity_of(answer))
        is_cut = answer.end is None or answer.end.outcome in ENDED_HERE - WHOLE
        if first is not None and answer.response is not None and is_done(answer) and not is_cut:
            pairs.append((first, answer))
    return pairs
