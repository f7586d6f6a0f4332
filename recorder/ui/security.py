"""The viewer's door: who may ask it, and what every answer of it says about itself. Pure.

Rules of this file:

* A port on localhost is open to every web page of the user's browser, and to other users of the machine. So the API
  wants a token always, and Host and the browser's own headers are checked before it. The pages are those of the
  package: they have nothing to hide, and show nothing without the API.
* There is no cookie: a browser sends it to every port of the machine, and so to whoever else listens on one.
* A GET leaks here, for all of the API reads: reading is checked as strictly as anything else.
* No answer ever has a CORS header, and no redirect has a target from a request.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from hmac import compare_digest

from recorder.proxy.admission import TOKEN_HEADER, Refusal, is_local

TOKEN_BYTES = 24  # of chance, which nobody guesses
SITES = (b"none", b"same-origin")  # Sec-Fetch-Site of a request that no other page caused
BODY_LIMIT_BYTES = 2**20  # of a POST: SQL that somebody typed

HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
"""Headers of every answer, errors too."""

NO_TOKEN = Refusal(
    401,
    "token_required",
    "This viewer wants its token: open the URL that `recorder ui` printed, or send X-Recorder-Token.",
)


class Guard:
    """The token of a viewer, and the check of a request."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self.port = 0  # where the viewer listens; nobody has the token before it is known

    def refusal(self, method: str, path: bytes, headers: list[tuple[bytes, bytes]]) -> Refusal | None:
        """Return why a request is refused before anybody asks for its token, or None. Names are in lower case."""
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1:
            return Refusal(400, "bad_request", "A request needs exactly one Host header.")
        if not is_local(hosts[0], ()):
            return Refusal(403, "host_not_allowed", "This Host is not one of ours: use 127.0.0.1 or localhost.")
        origins = {value for name, value in headers if name == b"origin"}
        if not origins <= {b"http://" + hosts[0]}:
            return Refusal(403, "origin_not_allowed", "Requests from other web pages are refused.")
        sites = {value for name, value in headers if name == b"sec-fetch-site"}
        if path != b"/" and not sites <= set(SITES):  # a link to the page itself may be anywhere
            return Refusal(403, "origin_not_allowed", "Requests from other web pages are refused.")
        return _size_refusal(method, headers)

    def is_admitted(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return whether a request shows the token of this viewer."""
        shown = [value for name, value in headers if name == TOKEN_HEADER]
        return len(shown) == 1 and compare_digest(shown[0], self.token.encode())


def _size_refusal(method: str, headers: Iterable[tuple[bytes, bytes]]) -> Refusal | None:
    """Return why a request is refused for its method or its body."""
    if method not in ("GET", "HEAD", "POST"):
        return Refusal(405, "method_not_allowed", "The viewer is for reading: use GET or HEAD.")
    known = dict(headers)
    if method != "POST":
        has_body = b"transfer-encoding" in known or known.get(b"content-length", b"0") != b"0"
        return Refusal(400, "bad_request", f"A {method} has no body here.") if has_body else None
    if known.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
        return Refusal(415, "not_json", "The body must be JSON: send content-type: application/json.")
    length = known.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > BODY_LIMIT_BYTES:
        return Refusal(413, "request_too_large", f"The body is over the limit of {BODY_LIMIT_BYTES >> 20} MiB.")
    return None
