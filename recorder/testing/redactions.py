"""The rules of a project for its cassettes, besides those of every recording: `recorder_redact` of the ini file.

    recorder_redact =
        fields:metadata.email
        headers:x-request-id
        parameters:api-version

Rules of this file:

* The same is done to what is being recorded (`recorder.testing.clearing`), to recordings and to requests: a redacted
  value never distinguishes two requests, and is in no message.
* No request is refused, whatever a client sent; what cannot be redacted is not written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote, unquote_plus

import msgspec

from recorder.errors import UsageError
from recorder.model.payloads import Header
from recorder.model.recording import Recording
from recorder.replay.matching import MatchRequest, request_of
from recorder.testing.bodies import UnreadableError, seems_json, without
from recorder.wire.redaction.headers import REDACTED

KINDS = ("fields", "headers", "parameters")  # as in the `[match]` table

Found = list[tuple[str, Any]]  # a line, and a value that it has taken out


class Redactions:
    """The lines of `recorder_redact`, each `KIND:WHAT`. Raises `UsageError` for a line that is no such."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        rules = [_rule(line) for line in lines]
        self.are_none = not rules
        self._fields = [what for kind, what in rules if kind == "fields"]
        self._paths = [what.split(".") for what in self._fields]
        self._headers = [what.lower() for kind, what in rules if kind == "headers"]
        self._parameters = [what for kind, what in rules if kind == "parameters"]

    @property
    def are_of_bodies(self) -> bool:
        """Return True if there are fields among them."""
        return bool(self._fields)

    def request(self, request: MatchRequest) -> MatchRequest:
        """Return a request as it is matched. JSON that cannot be read is dropped: it could hold fields anywhere."""
        try:
            return self.cleared(request)[0]
        except UnreadableError:
            body = REDACTED.encode() if seems_json(request.body) else request.body
            return msgspec.structs.replace(self._cleared_head(request)[0], body=body)

    def recording(self, recording: Recording) -> Recording:
        """Return a recording as it is matched."""
        request = self.request(request_of(recording))
        head = msgspec.structs.replace(recording.request, target=request.target, headers=request.headers)
        return msgspec.structs.replace(recording, request=head, request_body=request.body)

    def cleared(self, request: MatchRequest) -> tuple[MatchRequest, Found]:
        """Return a request as it is written, and what was taken out of it. Raises `UnreadableError`."""
        head, found = self._cleared_head(request)
        type_ = next((value for name, value in request.headers if name.lower() == "content-type"), "")
        body, taken = without(request.body, type_, self._paths)
        found += [(f"fields:{self._fields[number]}", value) for number, value in taken]
        return msgspec.structs.replace(head, body=body), found

    def values(self, headers: list[Header]) -> tuple[list[Header], Found]:
        """Return headers as they are written, and what was taken out of them."""
        redacted: list[Header] = []
        found: Found = []
        for name, value in headers:
            line = next((what for what in self._headers if fnmatchcase(name.lower(), what)), None)
            if line is None or value.startswith(REDACTED):
                redacted.append((name, value))
            else:
                redacted.append((name, f"{REDACTED} ({len(value)} bytes)"))
                found.append((f"headers:{line}", value))
        return redacted, found

    def _cleared_head(self, request: MatchRequest) -> tuple[MatchRequest, Found]:
        headers, found = self.values(request.headers)
        path, mark, query = request.target.partition("?")
        parameters = [self._parameter(given, found) for given in re.split("([&;])", query)]
        return msgspec.structs.replace(request, target=path + mark + "".join(parameters), headers=headers), found

    def _parameter(self, given: str, found: Found) -> str:
        name, equals, value = given.partition("=")
        line = next((what for what in self._parameters if fnmatchcase(unquote(name), what)), None)
        if not equals or line is None or value == REDACTED:
            return given
        found.append((f"parameters:{line}", unquote_plus(value)))
        return f"{name}={REDACTED}"


def _rule(line: str) -> tuple[str, str]:
    kind, _, what = (part.strip() for part in line.partition(":"))
    if kind not in KINDS or not what or (kind == "fields" and not all(what.split("."))):
        raise UsageError(
            f"recorder_redact: {line!r} names nothing: write fields:PATH (as in fields:metadata.user_id), "
            "headers:NAME or parameters:NAME."
        )
    return kind, what
