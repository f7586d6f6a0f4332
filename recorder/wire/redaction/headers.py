"""Redaction of all that surrounds a body: names are kept always, values only where they are known
to be harmless.

Everything that reaches a disk, a log line or an error message goes through here first. An unknown
header or parameter is a secret until this file, a provider's row or a dialect lists it as harmless;
a name on the never-list is always one. What has the shape of a secret
(`recorder.wire.redaction.shapes`) is one in any place: `redact_text` takes it out of all that is
kept, `redact_record` out of a whole record of the journal, whatever fields it has. Never raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

import msgspec

from recorder.wire.dialects import DIALECTS
from recorder.wire.grouping import session as grouping
from recorder.wire.providers import PROVIDERS
from recorder.wire.redaction.shapes import PRIVATE_KEY, find, find_in_any_case, may_hold_one, merged
from recorder.wire.redaction.unescape import Unescaped, spliced

REDACTED = "REDACTED"

NEVER = re.compile(
    r"authori[sz]ation|cookie|token|secret|passw|credential|signature"
    r"|api[-_]?key"  # x-api-key, api-key, x-goog-api-key, xi-api-key
    r"|account[-_]id"
    + "".join(f"|{each.secret_headers}" for each in PROVIDERS if each.secret_headers)
)
"""Header names, in lower case, whose values are never kept."""

COUNTS = re.compile(
    r"x-ratelimit-[a-z-]*tokens[a-z_-]*"
    + "".join(f"|{each.count_headers}" for each in PROVIDERS if each.count_headers)
)
"""The only names with `token` in them that are kept: how many are left, as in
x-ratelimit-remaining-tokens.
"""

HARMLESS = re.compile(
    r"""
    # of HTTP
    accept(-[a-z]+)? | age | allow | alt-svc | cache-control | connection | content-(encoding|language|length|type)
    | date | etag | expect | expires | host | if-(none-)?match | keep-alive | last-modified | pragma | range
    | retry-after(-ms)? | sec-websocket-(accept|extensions|key|version)
    | server | server-timing | te | trailer | transfer-encoding | upgrade
    | vary | via | x-accel-buffering | x-content-type-options
    # which request it was
    | (x-|x-client-|x-ms-|x-ms-client-|apim-)?request-id | x-amzn-requestid | x-correlation-id | cf-ray
    | tracestate
    # of gateways
    | x-litellm-response-cost | x-ms-region | x-envoy-upstream-service-time | x-should-retry
    | x-ratelimit-[a-z_-]+ | x-codex-(primary|secondary)-[a-z-]+
    # of clients
    | version | x-app | x-stainless-[a-z-]+ | x-recorder-session | x-codex-(window-id|beta-features)
    """
    + "".join(f"|{each.harmless_headers}" for each in PROVIDERS if each.harmless_headers)
    + "".join(f"|{each.harmless_headers}" for each in DIALECTS if each.harmless_headers),
    re.VERBOSE,
)
"""Header names, in lower case, whose values are kept, besides those that grouping looks at."""

COUNTED = re.compile(rf"{REDACTED} \(\d+ bytes\)")
"""What stands in place of a header's value. It is not redacted again when it is read from a file.
"""

VALUE_LIMIT = 4 * 2**10
"""Bytes of a header's value, of a URL, of a target's path and of its query: what is longer is not
kept.

The longest that are of use here are lists of beta features, of proxies, of timings; and a response
head full of Locations of this length is still redacted in 0.05 s. Of x-codex-turn-metadata ids are
kept, whatever its length.
"""

USUAL_LENGTH = 100

Header = tuple[bytes, bytes]


def redact_headers(raw: Iterable[Header]) -> list[tuple[str, str]]:
    """Return every header, in order, its name as it was, its value kept or replaced by
    `REDACTED (51 bytes)`.
    """
    redacted: list[tuple[str, str]] = []
    for name_bytes, value_bytes in raw:
        name, part = _named(name_bytes)
        value = value_bytes.decode("latin-1")
        harmless = part(value)
        redacted.append((name, _counted(value) if harmless is None else harmless))
    if not _may_hold_one("\n".join([value for _, value in redacted])):
        return redacted
    return [(name, redact_text(value)) for name, value in redacted]


@lru_cache(maxsize=1024)
def _named(name: bytes) -> tuple[str, Callable[[str], str | None]]:
    """Return a header's name, and the function that gives the harmless part of its value."""
    text = name.decode("latin-1")
    return _redact_name(text), _PARTS.get(text.lower(), _all if keeps(text) else _nothing)


def _redact_name(name: str) -> str:
    """Redact the name of a header, whose letters are small by now: HTTP does not tell them apart."""
    hits = list(find_in_any_case(name.encode("latin-1")))
    for hit in reversed(list(merged(hits)) if hits else []):
        name = (
            name[: hit.start]
            + _name(hit.kind, name[hit.start : hit.end].encode())
            + name[hit.end :]
        )
    return redact_text(name)


@lru_cache(maxsize=1024)
def keeps(name: str) -> bool:
    """Return whether the value of a header of that name, in any case, is kept."""
    name = name.lower()
    if is_secret_header(name):
        return False
    return name in grouping.HEADERS or HARMLESS.fullmatch(name) is not None


def is_secret_header(name: str) -> bool:
    """Return whether the value of a header of that name, in any case, is a secret wherever it
    stands.
    """
    name = name.lower()
    return NEVER.search(name) is not None and COUNTS.fullmatch(name) is None


def _counted(value: str) -> str:
    return value if COUNTED.fullmatch(value) else f"{REDACTED} ({len(value)} bytes)"


def _all(value: str) -> str | None:
    return value if len(value) <= VALUE_LIMIT else None


def _nothing(value: str) -> str | None:
    return None


_METADATA = re.compile(
    r"(session|thread|turn|root_turn|parent_turn|parent_thread|forked_from_thread|window)_id"
    r"|request_kind|turn_trigger|thread_source|subagent_kind"
)
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


def _ids(value: str) -> str | None:
    """Return the ids in x-codex-turn-metadata.

    Its `workspaces` name git remotes, and those may carry credentials.
    """
    try:
        metadata = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(metadata, dict):
        return None
    ids = {
        name: value
        for name, value in metadata.items()
        if _METADATA.fullmatch(name) and isinstance(value, str) and _ID.fullmatch(value)
    }
    return json.dumps(ids, separators=(",", ":"))


_SESSION = re.compile(rf"{REDACTED}-session-[0-9a-f]{{32}}")


def _session(value: str) -> str:
    """Return what stands for the id of a session: the same for the same id, so that it groups; 128
    bits of a digest.

    The six digits of other secrets would put two of some thousand sessions together.
    """
    # it is not redacted again when it is read from a file, or sent by a replayed client
    if _SESSION.fullmatch(value):
        return value
    return f"{REDACTED}-session-{sha256(value.encode('latin-1')).hexdigest()[:32]}"


_PARTS: Mapping[str, Callable[[str], str | None]] = {
    **{name: _session for dialect in DIALECTS for name in dialect.session_headers},
    "x-codex-turn-metadata": _ids,
    "location": lambda value: redact_url(value),
    "content-location": lambda value: redact_url(value),
}
"""Headers of which a part is kept."""

PARAMETERS = re.compile(
    "stream|after|before|limit|order|api-version"
    + "".join(f"|{each.harmless_parameters}" for each in DIALECTS if each.harmless_parameters)
    + "".join(f"|{each.response_routes.after}" for each in DIALECTS if each.response_routes)
)
"""Query parameters whose values are kept."""

_NAME = re.compile(r"[A-Za-z_%][\w.\[\]%-]{0,39}")  # what is not a name may be a value without one
_HARMLESS = re.compile(r"[\w.,:~+/ \[\]-]{0,200}")  # nothing that could hide a further parameter

# The second form is a password with an unencoded slash: what stands after the colon is not a port.
# Looking for the `@` first makes it linear: without one, each colon would be followed to the end.
_AUTHORITY = re.compile(
    r"(\s*(?:[A-Za-z][A-Za-z0-9+.-]*:(?=[/\\]))?[/\\]*)"
    r"(?:[^/\\?#]*@|(?=[^?#]*@)[^/\\?#@\[]*:(?![0-9]*(?:[/\\?#]|$))[^?#]*@)?"
)
_EMBEDDED_USERINFO = re.compile(r"([/\\]{2})[^/\\?#]*@")
# the `?` forgotten: /v1/models/x:generateContent&key=…
_MISPLACED = re.compile(r"([;&][^/;&=]*=)[^/;&]*")
_ENCODED_QUERY = re.compile(r"(%3[Ff]).*", re.DOTALL)  # the `?` taken for part of the path


def redact_target(raw: str) -> str:
    """Return a request target that may be kept: the path, and the query with the values of known
    parameters only.

    Order, repeats and percent-encoding of what is kept are unchanged.
    """
    if not raw.startswith("/"):
        return redact_url(raw)
    return (
        _usual_path(raw)
        if "?" not in raw and len(raw) <= USUAL_LENGTH
        else redact_text(_path_and_query(raw))
    )


def redact_url(raw: str) -> str:
    """Return a whole URL for a log line or an error message: as `redact_target`, and without user
    and password.
    """
    if len(raw) > VALUE_LIMIT:
        return _counted(raw)
    match = _AUTHORITY.match(raw)
    return redact_text(match[1] + _path_and_query(raw[match.end() :])) if match else REDACTED


def _path_and_query(raw: str) -> str:
    rest, hash_sign, fragment = raw.partition("#")
    path, question_mark, query = rest.partition("?")
    return _path(path) + question_mark + _query(query) + hash_sign + (REDACTED if fragment else "")


# a client asks for the same few, again and again; what has a query may have a key
@lru_cache(maxsize=256)
def _usual_path(raw: str) -> str:
    return redact_text(_path_and_query(raw))


def _path(path: str) -> str:
    if len(path) > VALUE_LIMIT:
        return f"/{REDACTED}"
    path = _EMBEDDED_USERINFO.sub(r"\1", path)
    return _ENCODED_QUERY.sub(rf"\1{REDACTED}", _MISPLACED.sub(rf"\1{REDACTED}", path))


def _query(query: str) -> str:
    return (
        "".join(map(_parameter, re.split("([&;])", query)))
        if len(query) <= VALUE_LIMIT
        else REDACTED
    )


def _parameter(given: str) -> str:
    """Redact one parameter of a query, or the sign between two.

    Some servers separate by `;`, so a value never holds one.
    """
    name, _, value = given.partition("=")
    if given in ("", "&", ";") or is_harmless_parameter(name, value):
        return given
    return f"{name}={REDACTED}" if _NAME.fullmatch(name) and value.strip("=") else REDACTED


def is_harmless_parameter(name: str, value: str) -> bool:
    """Return whether the value of a parameter, both percent-encoded as in a query, may be kept."""
    return (
        PARAMETERS.fullmatch(unquote(name)) is not None
        and _HARMLESS.fullmatch(unquote(value)) is not None
    )


# -- what has the shape of a secret

# a key may be percent-encoded that often over itself: a URL in a parameter of a URL has two
CODED_TIMES = 3

_CODE = re.compile(rb"%[0-9A-Fa-f]{2}")
_BETWEEN = re.compile(r"([/?&;=#,\s])")

_encode = msgspec.json.Encoder().encode


def redact_record(record: msgspec.Struct) -> bytes:
    """Encode a record about an exchange as JSON, without a secret in any of its texts."""
    encoded = _encode(record)
    return _encode(_without(msgspec.to_builtins(record))) if _may_hold_one(encoded) else encoded


def _without(value: Any) -> Any:
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, list | tuple):
        return [_without(each) for each in value]
    return (
        {name: _without(each) for name, each in value.items()} if isinstance(value, dict) else value
    )


def redact_text(raw: str) -> str:
    """Replace each secret in a text by a name for it, as `REDACTED-api-key-3f9a2c`.

    The same secret has the same name, so that a session keeps its name and a recording is found by
    its target. The digest in it is short: it distinguishes secrets, and confirms no guess.
    """
    if "%" in raw:
        raw = _percent_decoded(raw)
    data = raw.encode("utf-8", "surrogatepass")
    view = Unescaped(data)
    hits = list(find(view.text))
    if not hits:
        return raw
    names = (
        (*view.place(hit), _name(hit.kind, view.text[hit.start : hit.end]).encode())
        for hit in merged(hits)
    )
    return spliced(data, names).decode("utf-8", "surrogatepass")


def _percent_decoded(raw: str) -> str:
    """Replace what is a secret when its percent codes are undone: a part between two signs as a
    whole.
    """
    whole = _decoded(raw)
    if not may_hold_one(whole.replace(b"+", b" ")):
        return raw
    if b"PRIVATE" in whole and any(
        hit.kind == PRIVATE_KEY for hit in find(whole.replace(b"+", b" "))
    ):
        return raw[: raw.startswith("/")] + _name(PRIVATE_KEY, whole)
    return "".join(map(_part, _BETWEEN.split(raw)))


def _part(part: str) -> str:
    if "%" not in part:
        return part
    decoded = _decoded(part)
    for hit in find(decoded):
        return _name(hit.kind, decoded)
    return part


def _decoded(part: str) -> bytes:
    decoded = part.encode("utf-8", "surrogatepass")
    for _ in range(CODED_TIMES):
        if not _CODE.search(decoded):
            break
        decoded = unquote_to_bytes(decoded)
    return decoded


def _name(kind: str, secret: bytes) -> str:
    return f"{REDACTED}-{kind}-{sha256(secret).hexdigest()[:6]}"


def _may_hold_one(text: str | bytes) -> bool:
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return b"%" in data or b"\\u00" in data or may_hold_one(data)
