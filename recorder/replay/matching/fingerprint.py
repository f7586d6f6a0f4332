"""Fingerprints of requests, by which two are the same: where they go, and their bodies at four
depths.

`exact` is the body as JSON means it: order of keys, whitespace and escapes do not count, nor `1.0`
for `1`; a body that is not JSON is its bytes. `quiet` is that without noise. `stamped` is that
without the times and UUIDs in what the model reads. `shape` is what is left where even the words of
the instructions may differ: the parameters, the roles of the messages, the last text, the answered
calls.

Pure, and never raises: what cannot be read is compared as bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import unquote
from zlib import crc32

import msgspec

from recorder.model.events import WEBSOCKET, Header, Recording, header
from recorder.replay.matching.noise import TEXT_LIMIT, QuietBody, Rules
from recorder.wire.dialects import DIALECTS, by_path
from recorder.wire.dialects.canonical import canonical
from recorder.wire.dialects.json_values import Object, array, decoded_or_none, object_, too_deep
from recorder.wire.dialects.user_text import without_outer_elements
from recorder.wire.redaction.headers import REDACTED
from recorder.wire.turns import as_post, is_connection, is_turn

T = TypeVar("T")


class Once(Generic[T]):
    """A method as an attribute that keeps what it was at first, without a lock.

    `functools.cached_property` of Python 3.11 has one, for all instances together: while one thread
    computes the value of a large body, every other match would wait. Here two threads may compute
    the same thing, and get the same.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, instance: Any, owner: type) -> T:
        # which is found before this from now on
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


OUTLINE_LIMIT = 4096
"""Elements of a list that are compared one by one: no conversation is near it, lists of numbers are
above it.
"""


class MatchRequest(msgspec.Struct, frozen=True):
    """A request as it is matched: its content coding undone, its session prefix taken off."""

    method: str
    target: str  # path and query as sent
    upstream: str
    headers: list[Header]
    body: bytes
    upstream_is_known: bool = True  # else its path and headers alone say which it may be


def request_of(recorded: Recording) -> MatchRequest:
    """Return the request of a recorded exchange: of a turn over WebSocket the POST that requests
    the same.

    A handshake has a method of its own, so that it is neither the answer to a GET nor answered by
    one.
    """
    head, body, method = recorded.request, recorded.request_body, recorded.request.method
    if is_turn(recorded):
        method, body = "POST", as_post(body)
    elif is_connection(recorded):
        method = WEBSOCKET
    return MatchRequest(method, head.target, head.upstream, head.headers, body)


def without_secrets(request: MatchRequest, rules: Rules) -> MatchRequest:
    """Return a request with its body redacted as in a recording."""
    body, counts = rules.redactor.redact(request.body)
    return msgspec.structs.replace(request, body=body) if counts else request


class Place(NamedTuple):
    """The destination of a request. Requests to different places are never the same."""

    method: str
    upstream: str
    path: str  # without version 1 and the upstream's name in front, decoded
    query: tuple[tuple[str, str], ...]  # sorted, without secrets and noise

    def __str__(self) -> str:
        method, upstream, path, query = self.words
        return f"{method} {path}{'?' if query else ''}{query} ({upstream})"

    @property
    def words(self) -> tuple[str, str, str, str]:
        """Its fields, to be shown."""
        return (
            self.method,
            self.upstream,
            self.path,
            "&".join(f"{name}={value}" for name, value in self.query),
        )


_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
_FIRST_VERSION = re.compile(r"/v1(?=/)")


def place(request: MatchRequest, rules: Rules) -> Place:
    """Return the place of a request, the same for all spellings that reach the same endpoint."""
    path, _, query = _ORIGIN.sub("", request.target, count=1).partition("#")[0].partition("?")
    path = (
        path.removeprefix(f"/{request.upstream}")
        if path.startswith(f"/{request.upstream}/")
        else path
    )
    return Place(
        request.method.upper(),
        request.upstream,
        unquote(_FIRST_VERSION.sub("", path, count=1)),
        _query(query, rules),
    )


def _query(query: str, rules: Rules) -> tuple[tuple[str, str], ...]:
    """Return the parameters that are compared: not those whose value is not kept in a recording."""
    return tuple(
        sorted((name, value) for name, value in parameters(query, rules) if value != REDACTED)
    )


def parameters(query: str, rules: Rules) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a query that are not noise.

    The value of one that is not kept is `REDACTED`.
    """
    for parameter in query.split("&"):
        name, _, value = parameter.partition("=")
        name, value = unquote(name), unquote(value.replace("+", " "))
        if name and name != REDACTED and not rules.is_parameter(name):
            yield name, value


# Whoever replays has a key of another length than whoever recorded. Of bodies that were not decoded
# the size is all.
_SIZED = re.compile(rb"<REDACTED ((?!coded,)[a-z-]{1,30}), [0-9]{1,12} bytes>")


class Fingerprint:
    """One request, compared. Each value is computed once, and no copy of the body is held."""

    def __init__(
        self, request: MatchRequest, rules: Rules, others: Mapping[str, int] | None = None
    ) -> None:
        """`others` are directories that are noise in it, besides those that it names itself."""
        self.request = request
        self._body = (
            _SIZED.sub(rb"<REDACTED \1>", request.body)
            if b"<REDACTED " in request.body
            else request.body
        )
        self._rules = rules
        self._others = others

    @Once
    def exact(self) -> bytes:
        """Return a text that is the same for bodies that mean the same."""
        value = json_value(self._body)
        return sha256(self._body if value is NO_JSON else b"JSON" + canonical(value)).digest()

    @Once
    def quiet(self) -> bytes:
        """Return a text that is the same for bodies that mean the same but for noise."""
        return self._parts[0]

    @Once
    def outline(self) -> Mapping[str, int]:
        """Return a checksum of each part of the quiet body: the number that differs is the distance
        of two requests.
        """
        return self._parts[1]

    @Once
    def directories(self) -> Mapping[str, int]:
        """Return the directories that the body names as the client's own."""
        return self._parts[2]

    @Once
    def stamped(self) -> bytes | None:
        """Return a value that is the same for conversations that differ only in times and UUIDs;
        `None` for requests of no conversation."""
        return self._resemblances[0]

    @Once
    def shape(self) -> bytes | None:
        """Return a value that is the same at the same position of conversations; `None` for
        requests of no conversation."""
        return self._resemblances[1]

    @Once
    def _resemblances(self) -> tuple[bytes | None, bytes | None]:
        value = self.value()
        if value is NO_JSON:
            return None, None
        body = without_stamps(object_(value))
        shape = _shape(self.request, body)
        return (None if shape is None else sha256(canonical(body)).digest()), shape

    @Once
    def client_ids(self) -> Mapping[str, int]:
        """Return the ids that the client made, numbered: `recorder.replay.matching.client_ids`
        defines them.
        """
        return self._parts[3]

    def value(self) -> Any:
        """Return the quiet body as JSON; `NO_JSON` if it is none."""
        return self._read().value

    def _read(self) -> QuietBody:
        value = json_value(self._body)
        return (
            QuietBody(NO_JSON, {}, {})
            if value is NO_JSON
            else self._rules.quiet(value, self._others)
        )

    @Once
    def _parts(self) -> tuple[bytes, Mapping[str, int], Mapping[str, int], Mapping[str, int]]:
        value, directories, client_ids = self._read()
        whole, outline = sha256(), {}
        pieces = [("", _without_boundary(self.request))] if value is NO_JSON else _outlined(value)
        for path, piece in pieces:
            outline[path] = crc32(piece)
            whole.update(
                b"%d %d " % (len(path), len(piece)) + path.encode("utf-8", "surrogatepass") + piece
            )
        return whole.digest(), outline, directories, client_ids


NO_JSON = object()


def _number(digits: str) -> Any:
    """Return a number with a point or an exponent; a whole one as if it had none."""
    number = float(digits)
    if number - number != 0:
        return digits  # infinite
    return int(number) if number.is_integer() else number


_decode = msgspec.json.Decoder(float_hook=_number).decode


def json_value(body: bytes) -> Any:
    """Decode a body as JSON, or return `NO_JSON`."""
    if too_deep(body):
        return NO_JSON
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = decoded_or_none(body)
        return NO_JSON if value is None else value


def _outlined(value: Any) -> Iterator[tuple[str, bytes]]:
    """Yield the parts of a body: its members, and the elements of those that are lists."""
    for name, member in sorted(value.items()) if isinstance(value, dict) else [("", value)]:
        if isinstance(member, list) and len(member) <= OUTLINE_LIMIT:
            yield name, b"[]"
            yield from (
                (f"{name}[{number}]", canonical(each)) for number, each in enumerate(member)
            )
        else:
            yield name, canonical(member)


_BOUNDARY = re.compile(r"multipart/.*?;\s*boundary=\"?([^\s\";]{8,70})", re.IGNORECASE)


def boundary_of(request: MatchRequest) -> bytes | None:
    """Return what separates the parts of a form."""
    match = _BOUNDARY.match(header(request.headers, "content-type"))
    return match[1].encode("latin-1", "replace") if match else None


def _without_boundary(request: MatchRequest) -> bytes:
    """Return a form without its boundary, which is drawn again for each."""
    boundary = boundary_of(request)
    return request.body if boundary is None else request.body.replace(boundary, b"boundary")


_PROMPTS = [dialect.prompt for dialect in DIALECTS if dialect.prompt is not None]
_PARTS = list(chain.from_iterable(prompt.parts for prompt in _PROMPTS))
_WRAPPERS = frozenset(chain.from_iterable(prompt.wrappers for prompt in _PROMPTS))

CONVERSATIONS = tuple(dict.fromkeys(part.path for part in _PARTS if part.kind == "conversation"))
SPOKEN = frozenset(part.path for part in _PARTS if part.kind != "parameter")
"""The members of a request that the model reads, in any format; the others are parameters."""

_TIME = (
    r"(?<![\d-])\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:[Zz]|[+-]\d\d:?\d\d)?(?![\d:])"
)
"""A time of RFC 3339, with or without its zone, to a second at least: a date alone may be what is
asked about.
"""

_UUID = r"(?<![0-9A-Fa-f-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Fa-f-])"

_STAMP = re.compile(f"{_TIME}|{_UUID}")
"""What is made again in each run, whoever writes it."""


def without_stamps(body: Object) -> Object:
    """Return a body with the same text in place of each time and each UUID in what the model reads."""
    found = {}
    for name, member in body.items():
        if name in SPOKEN:
            found[name] = _hushed(member)
        else:
            is_wrapper = name in _WRAPPERS and isinstance(member, dict)
            found[name] = without_stamps(member) if is_wrapper else member
    return found


def _hushed(value: Any) -> Any:
    if isinstance(value, str):
        return _STAMP.sub("<stamp>", value) if "-" in value and len(value) <= TEXT_LIMIT else value
    if isinstance(value, dict):
        return {name: _hushed(member) for name, member in value.items()}
    return [_hushed(each) for each in value] if isinstance(value, list) else value


def _shape(request: MatchRequest, body: Object) -> bytes | None:
    inner = next(filter(None, (object_(body, name) for name in _WRAPPERS)), body)
    spoken = next((inner[name] for name in CONVERSATIONS if name in inner), None)
    if spoken is None or len(array(spoken)) > OUTLINE_LIMIT:
        return None
    path = request.target.partition("?")[0]
    facts = by_path(request.method, path).request_facts(path, canonical(body))
    if facts.text is None and not facts.results:
        return None
    parameters = {
        name: value for name, value in {**body, **inner}.items() if name not in SPOKEN | _WRAPPERS
    }
    roles = [_role(each) for each in array(spoken)]
    answered = [result.call_id or result.name for result in facts.results]
    words = None if facts.text is None else without_outer_elements(facts.text)
    return sha256(canonical([parameters, roles, words, answered])).digest()


def _role(spoken: Any) -> list[Any]:
    return [object_(spoken).get("role"), object_(spoken).get("type")]
