"""Admission: only requests that a program on this machine meant for us are let in.

A port on localhost is open to every web page that the user's browser shows. Two things distinguish
such a page from a client: the name it used for us (DNS rebinding needs a name that an attacker can
point here), and the headers that a browser adds and a client does not. Both are checked before any
upstream hears of the request. A server that other machines can reach wants a token besides. Pages
of an origin that the user named are let in: they get the headers of CORS (Fetch Standard, section
3.3) from us where the upstream sends none. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple

from recorder.errors import UsageError

_HOST = re.compile(rb"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::\d{1,5})?")

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
"""The methods of APIs. CONNECT is for forward proxies; OPTIONS is how a web page asks for
permission.
"""


ANY_HOST = "*"
"""The name that allows every name: for a server whose clients show a token, which no web page has.
"""

TOKEN_HEADER = b"x-recorder-token"
_TOKEN_PATH = re.compile(rb"/t/([^/?]*)(?=/|$)")

PREFLIGHT_S = 600
"""For how long a browser keeps our answer to a preflight: Chromium keeps none for longer than two
hours, and a recorder that was started again without the origin should be believed soon."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
BROWSER_REFUSED = "browser_refused"
_ORIGIN = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?"
)

Headers = list[tuple[bytes, bytes]]  # names in lower case


class Refusal(NamedTuple):
    """The reason why we answer a request, and no upstream."""

    status: int
    type: str
    message: str


def refusal(
    method: str,
    came: Headers,
    names: Collection[str],
    body_limit_bytes: int,
    *,
    websocket: bool = True,
    origins: Collection[bytes] = (),
) -> Refusal | None:
    """Return why a request is not forwarded, or None.

    `names` are the host names that the user allowed, in lower case. Without `websocket` an offer to
    switch to it is refused. Of web pages, those of `origins` are let in.
    """
    headers = dict(came)
    if [name for name, _ in came].count(b"host") != 1:
        return Refusal(400, "bad_request", "A request needs exactly one Host header.")
    if not is_local(headers[b"host"], names):
        message = "This Host is not one of ours: use localhost or 127.0.0.1, or allow it with the setting allow-host."
        return Refusal(403, "host_not_allowed", message)
    if _is_of_page(headers) and headers.get(b"origin") not in origins:
        return Refusal(403, BROWSER_REFUSED, "Requests from web pages are not forwarded.")
    if method not in METHODS and not is_preflight(method, headers):
        return Refusal(405, "method_not_allowed", f"{method} is not forwarded.")
    if not websocket and headers.get(b"upgrade", b"").strip().lower() == b"websocket":
        return Refusal(
            426,
            "websocket_not_supported",
            "WebSocket is not recorded here: use the same URL with HTTP and SSE, in the OpenAI SDKs "
            "responses.create(stream=True) in place of responses.connect().",
        )
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > body_limit_bytes:
        return too_large(body_limit_bytes)
    return None


def _is_of_page(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a browser sent a request for a page of another origin."""
    return b"origin" in headers or headers.get(b"sec-fetch-site", b"none") not in (
        b"none",
        b"same-origin",
    )


def page_hint(headers: Mapping[bytes, bytes]) -> str:
    """Return what to do so that the page of a refused request is let in: its browser shows that
    only in its console.
    """
    origin = headers.get(b"origin", b"").decode("latin-1")
    # what is none may be anything, a line break too
    known = origin if _ORIGIN.fullmatch(origin) else "ORIGIN"
    return f"A request of a web page was refused: if the page is yours, let it in with --allow-origin {known}."


def parse_origin(text: str) -> bytes:
    """Return an origin as browsers send it. Raises `UsageError` with what is wrong with it."""
    match = _ORIGIN.fullmatch(text.lower())
    if text in ("*", "null"):
        raise UsageError(
            f"{text!r} would let pages of anybody in: name the origin of the page, as http://localhost:5173."
        )
    if match is None:
        raise UsageError(
            f"{text!r} is not an origin: write scheme://host:port without a path or a slash at the end, as the page's "
            "location.origin has it, for example http://localhost:5173."
        )
    if match["port"] is not None and int(match["port"]) == _DEFAULT_PORTS.get(match["scheme"]):
        raise UsageError(
            f"{text!r} has the default port of its scheme, which browsers leave out: leave it out, too."
        )
    return text.lower().encode("ascii")


def is_preflight(method: str, headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a browser asks if a page may send a request. That is never forwarded."""
    return (
        method == "OPTIONS" and b"origin" in headers and b"access-control-request-method" in headers
    )


def shared_with(headers: Mapping[bytes, bytes], origins: Collection[bytes]) -> Headers:
    """Return the headers that let a page of one of `origins` read the response; none for any other
    request.

    Credentials of the browser are not allowed: keys are in headers that the page sets itself.
    """
    origin = headers.get(b"origin")
    if origin is None or origin not in origins:
        return []
    return [
        (b"access-control-allow-origin", origin),
        (b"vary", b"Origin"),
        (b"access-control-expose-headers", b"*"),
    ]


def preflight_answer(headers: Mapping[bytes, bytes]) -> Headers:
    """Return the headers that answer a preflight of an allowed origin, besides those of
    `shared_with`.
    """
    answer = [
        (b"access-control-allow-methods", ", ".join(sorted(METHODS)).encode()),
        (b"access-control-max-age", b"%d" % PREFLIGHT_S),
    ]
    # `*` would not stand for Authorization
    if wanted := headers.get(b"access-control-request-headers"):
        answer.append((b"access-control-allow-headers", wanted))
    # of a page that is not on this machine
    if headers.get(b"access-control-request-private-network") == b"true":
        answer.append((b"access-control-allow-private-network", b"true"))
    return answer


BUDGET_HEADER = b"x-recorder-budget"


class Overspent(NamedTuple):
    """A budget of which nothing is left, for a request that counts for it."""

    note: bytes  # of the header of each answer
    sentence: str
    refuses: bool  # requests, instead of only saying so


TOKEN_REQUIRED = Refusal(
    401, "token_required", "This recorder wants its token: as X-Recorder-Token, or as /t/TOKEN/…."
)


class Shown(NamedTuple):
    """A request without the token that it shows: no upstream and no record shall have that."""

    token: bytes | None  # None: it shows none, or several
    path: bytes
    headers: Headers


def shown_token(path: bytes, headers: Headers) -> Shown:
    """Take the token out of a request, which shows it in the header `X-Recorder-Token` or as
    `/t/TOKEN/…`.

    The header is for clients that can be configured to send one. A path is in the settings and logs
    of a client, but every client has a base URL.
    """
    given = [value for name, value in headers if name == TOKEN_HEADER]
    rest = [(name, value) for name, value in headers if name != TOKEN_HEADER]
    in_path = None if given else _TOKEN_PATH.match(path)
    if in_path is not None:
        given, path = [in_path[1]], path[in_path.end() :] or b"/"
        # a Referer, which is an address with that path
        rest = [(name, value) for name, value in rest if b"/t/" + in_path[1] not in value]
    return Shown(given[0] if len(given) == 1 else None, path, rest)


def too_large(limit_bytes: int) -> Refusal:
    size = f"{limit_bytes / 2**20:g} MiB"
    return Refusal(
        413,
        "request_too_large",
        f"The request body is over the limit of {size}; see the setting max-body.",
    )


def is_local(host: bytes, names: Collection[str]) -> bool:
    """Return whether a Host header names this machine in a way that no other party can arrange."""
    name, is_loopback = _named(host)
    return is_loopback or (name is not None and (name in names or ANY_HOST in names))


@lru_cache(maxsize=64)  # a client sends the same with each request
def _named(host: bytes) -> tuple[str | None, bool]:
    """Return the name in a Host header, None if it is malformed, and whether it is a loopback name."""
    match = _HOST.fullmatch(host)
    if match is None:
        return None, False
    name = (match["ipv6"] or match["name"]).decode().lower()
    if name == "localhost" or name.endswith(".localhost"):
        return name, True
    try:
        return name, ip_address(name).is_loopback
    except ValueError:
        return name, False
