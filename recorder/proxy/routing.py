"""Routing: the path and headers of a request → a session's name, an upstream, a URL.

Rules of this file:

* An address comes from the table of upstreams and from nowhere else. Host, absolute form, userinfo,
  query and path of a request can choose an entry of that table; none of them can make one.
* A path is data: its percent-encoding, repeats and order stay as they came.
* Pure: no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import ClassVar, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from recorder.errors import NotFoundError, UsageError
from recorder.model.attribution import Attribution
from recorder.model.events import LATEST
from recorder.proxy.http.network import UNIX, socket_path
from recorder.proxy.http.server_exchange import Bearer
from recorder.wire.content import Level
from recorder.wire.dialects import told_by_server
from recorder.wire.providers import BY_NAME, PROVIDERS
from recorder.wire.upstreams import (
    ENDPOINTS,
    HOSTS,
    KNOWN,
    OTHER_PATHS,
    UPSTREAMS,
    VERSION,
    VERSIONLESS,
    join,
)

SESSION_HEADER = b"x-recorder-session"
TAGS_HEADER = b"x-recorder-tags"
SOCKET_BYTES = 107  # of a path: `sun_path` of Linux, with its NUL (unix(7)); macOS has four less
# characters: a session's name is typed and shown, it is not a place to keep things
SESSION_LIMIT = 200
TAGS_LIMIT = 16  # of a request: each is a row of `usage --by tag`
TAG_LIMIT = 64  # characters: a name in a table

Headers = list[tuple[bytes, bytes]]

_API_PATH = re.compile(
    rf"(?:/upload)?/v\d+(?:alpha|beta)?\d*(?:/|$)|/(?:{'|'.join((*ENDPOINTS, *OTHER_PATHS))})(?:[/:]|$)"
)
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_SHOWN = 80  # characters of a path in a sentence
_TARGET = re.compile(r"/(?!/)[\x21-\x7e]*|/")
_TWICE = re.compile(r"/+(v\d+(?:alpha|beta)?\d*)/+\1(?=[/?]|$)")
_SESSION = re.compile(r"/s/([^/?]*)(?=[/?]|$)")
_DOTS = re.compile(r"/(?:\.|%2e){1,2}(?=[/?]|$)", re.IGNORECASE)

_DEFAULT, *_OTHERS = PROVIDERS
_GUESSED = (*_OTHERS, _DEFAULT)  # its paths are all those that no other provider has


class SessionPlaces(NamedTuple):
    """The places where clients of the user name their sessions: `[sessions]` in recorder.toml."""

    headers: tuple[bytes, ...] = ()  # in lower case
    fields: tuple[str, ...] = ()  # of request bodies, with dots between the names of nested ones


NO_PLACES = SessionPlaces()


class Upstream(NamedTuple):
    """An entry of the table: `/NAME/…` goes to `base`."""

    name: str
    # an http, https or http+unix URL without query or userinfo; if it ends in a slash, see `join`
    base: str


class Origin(msgspec.Struct, frozen=True):
    """A request before it was forwarded: `extensions["recorder"]` of the request that a transport
    gets.
    """

    upstream: str
    target: str  # path and query as the client sent them, without the session prefix
    headers: Headers
    session: str | None = None
    session_source: str | None = None
    session_fields: tuple[str, ...] = ()
    base: str | None = None  # of the upstream
    attribution: Attribution | None = None
    content: Level = "full"  # what of it may be kept, at most


class Route(Origin, frozen=True, kw_only=True):
    """A request and its destination. `url` and `target` may hold a key: they are not for logs."""

    base: str
    url: str

    @property
    def url_target(self) -> str:
        """Return path and query of `url`, as they are."""
        return self.url[self.url.index("/", self.url.index("//") + 2) :]


class Routes:
    """The table of upstreams."""

    _public: ClassVar[Mapping[str, str]] = UPSTREAMS

    def __init__(
        self,
        upstreams: Iterable[Upstream] = (),
        *,
        any_path: bool = False,
        session_places: SessionPlaces = NO_PLACES,
    ) -> None:
        """Hold the public APIs, with `upstreams` added to them or standing in their place.

        With `any_path`, a path that no API has is taken too: for replays, which send nothing to
        anybody.
        """
        self._bases = {**self._public, **dict(upstreams)}
        self._guessed = [provider for provider in _GUESSED if provider.name in self._bases]
        self._any_path = any_path
        self._session_places = session_places

    @property
    def upstreams(self) -> list[Upstream]:
        return [Upstream(*item) for item in self._bases.items()]

    def route(self, target: str, headers: Headers, bearer: Bearer | None = None) -> Route:
        """Return the route of an origin-form target.

        Names in `headers` are in lower case. `bearer` has shown a token.

        Raises `UsageError` for a target that cannot be one, `NotFoundError` for a path that belongs
        to no upstream and no API: it may be a mistyped name, and its request must not go to another
        upstream.
        """
        if not _TARGET.fullmatch(target) or _DOTS.search(target):
            rule = "The path of the request must begin with one slash and have no dot segments."
            raise UsageError(rule + _of_base_url(target))
        known = dict(headers)
        target, session = _split_session(target)
        source = "path" if session is not None else None
        if session is None and SESSION_HEADER in known:
            session, source = _clean(known[SESSION_HEADER].decode("utf-8", "replace")), "header"
        if session is None:
            session = self._named(known)
            source = None if session is None else "header"
        if session == LATEST:
            raise UsageError(
                "A session called latest would never be found by that name, which means the one that was used last: "
                "give another name."
            )
        upstream, rest = self._choose(target, known)
        if not self._any_path:
            _refuse_version_twice(upstream, rest)
        return Route(
            upstream=upstream.name,
            target=target,
            headers=headers,
            session=session,
            session_source=source,
            session_fields=self._session_places.fields,
            base=upstream.base,
            url=join(upstream.base, rest),
            attribution=_attribution(headers, bearer),
            content="full" if bearer is None else bearer.content,
        )

    def _named(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Return the name in a header of the user's own.

        It is of another program: what is not a name is left alone.
        """
        for header in self._session_places.headers:
            name = headers.get(header, b"").decode("utf-8", "replace").strip()
            if name and len(name) <= SESSION_LIMIT and name != LATEST:
                return name
        return None

    def _choose(self, target: str, headers: Mapping[bytes, bytes]) -> tuple[Upstream, str]:
        name = target[1:].partition("?")[0].partition("/")[0]
        if name in self._bases:
            rest = target[1 + len(name) :]
            return Upstream(name, self._bases[name]), rest if rest.startswith("/") else f"/{rest}"
        if told_by_server("POST", target):
            return self._where_told(), target
        path = target.partition("?")[0]
        if not self._any_path and not _API_PATH.match(path):
            names = ", ".join(f"/{name}" for name in self._bases) + f".{_of_base_url(path)}"
            raise NotFoundError(
                f"No API has the path {path[:_SHOWN]}, and no upstream has that name: a path is that of an API, as "
                "/v1/responses is, after the name of an upstream or without it. `recorder serve --upstream NAME=URL` "
                f"adds an upstream, of any protocol. There are {names}"
            )
        name = self._guess(target, headers)
        return Upstream(name, self._bases[name]), target

    def _where_told(self) -> Upstream:
        """Return the upstream of a target that its server told the client, who adds no name of an
        upstream to it.

        It is a whole path: nothing of the base comes before it.
        """
        added = [name for name in self._bases if name not in self._public]
        if len(added) == 1:
            parts = urlsplit(self._bases[added[0]])
            return Upstream(added[0], f"{parts.scheme}://{parts.netloc}/")
        raise NotFoundError(
            "The path is one that a server of MCP told its client, without the name of an upstream. Give the recorder "
            "that server alone as --upstream NAME=URL, or use streamable HTTP (/mcp)."
        )

    def _guess(self, target: str, headers: Mapping[bytes, bytes]) -> str:
        """Return the name of the upstream for a path that does not name one."""
        path, _, query = target.partition("?")
        for provider in self._guessed:
            if provider.paths and provider.paths.match(path):
                return provider.name
        for provider in self._guessed:
            if any(header in headers for header in provider.headers):
                return provider.name
        for provider in self._guessed:
            if provider.query and provider.query.search(query):
                return provider.name
        return _DEFAULT.name


class HostRoutes(Routes):
    """The table for clients whose connections lead here whatever they ask: the Host names the
    upstream, not the path.

    Of several at one host the path chooses. With `any_path` it does for a host that no upstream
    has, too.
    """

    # Not those of servers of one's own: at their ports anything may be.
    _public: ClassVar[Mapping[str, str]] = {
        name: KNOWN[name] for name in KNOWN if KNOWN[name].startswith("https:")
    }

    def _choose(self, target: str, headers: Mapping[bytes, bytes]) -> tuple[Upstream, str]:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        there = [
            name for name, base in self._bases.items() if urlsplit(base).netloc.lower() == host
        ]
        if not there and host in HOSTS:  # a provider that the user has put elsewhere
            return Upstream(HOSTS[host], self._bases[HOSTS[host]]), target
        guessed = self._guess(target, headers)
        if not there and not self._any_path:
            raise NotFoundError(
                f"No upstream is at {host[:_SHOWN]}: name it as NAME=URL, in the ini file of pytest with "
                "recorder_upstream."
            )
        # those of the user come last
        name = guessed if guessed in there or not there else there[-1]
        scheme = urlsplit(self._bases[name]).scheme if there else "https"
        return Upstream(name, f"{scheme}://{host}/"), target


def parse_upstream(text: str) -> Upstream:
    """Return `NAME=URL` as an entry of the table, or the `NAME` of a known company.

    Raises `UsageError`.
    """
    name, equals, url = text.partition("=")
    if not equals:
        return _known(text)
    if not _NAME.fullmatch(name) or name == "s":
        raise UsageError(
            f"{name!r} cannot name an upstream: use a-z, 0-9 and '-', a letter first, and not just 's'."
        )
    if VERSION.fullmatch(f"/{name}") or VERSIONLESS.match(f"/{name}"):
        raise UsageError(f"{name!r} cannot name an upstream: it is a path of the APIs themselves.")
    return Upstream(name, _base(name, url))


def _known(name: str) -> Upstream:
    if name in KNOWN:
        return Upstream(name, KNOWN[name])
    if name in BY_NAME:
        raise UsageError(f"Each customer of {name} has another address: write {name}=URL.")
    example = f"{_DEFAULT.name}={_DEFAULT.base_url}"
    raise UsageError(
        f"{name!r} is not an upstream: write NAME=URL, for example {example}, or one of {', '.join(sorted(KNOWN))}."
    )


def recorded_upstreams(names: Iterable[str]) -> Iterator[Upstream]:
    """Yield an entry for each name that only the recorder knew: `/NAME/…` is matched, and nothing
    is sent there.

    The names come from files: what cannot name an upstream is left away.
    """
    for name in sorted({*names} - UPSTREAMS.keys()):
        with suppress(UsageError):
            yield parse_upstream(f"{name}=http://{name}.invalid")


def _of_base_url(path: str) -> str:
    """Return a hint on a base URL that ends in a slash, with a space before it, if that explains a
    path.
    """
    return (
        " The base URL of the client ends in a slash: leave that out."
        if path.startswith("//")
        else ""
    )


def _refuse_version_twice(upstream: Upstream, path: str) -> None:
    """Raise `NotFoundError` for a path that no API has.

    A base that ends in a slash is a client's own, see `join`.
    """
    twice = _TWICE.match(path)
    if twice is not None and not upstream.base.endswith("/"):
        shown = path.partition("?")[0][:_SHOWN]
        raise NotFoundError(
            f"The path {shown} has {twice[1]} twice: the base URL of the client ends in it, and the client adds it as "
            "well. Leave it out of the base URL."
        )


def _base(name: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"The URL of upstream {name!r} cannot be read: {error}.") from None
    if parts.scheme == UNIX:
        _require_socket(name, parts.netloc)
    elif parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise UsageError(
            f"The URL of upstream {name!r} must begin with http:// or https:// and name a host."
        )
    if parts.username is not None or parts.password is not None or "?" in url or "#" in url:
        raise UsageError(
            f"The URL of upstream {name!r} must have no user, password, query or fragment."
        )
    if not re.fullmatch(r"[\x21-\x7e]+", url) or _DOTS.search(parts.path):
        raise UsageError(
            f"The URL of upstream {name!r} must be plain ASCII without spaces and dot segments."
        )
    return url.rstrip("/")


def _require_socket(name: str, netloc: str) -> None:
    path = socket_path(netloc)
    if path is None:
        raise UsageError(
            f"The URL of upstream {name!r} must have the whole path of a socket in place of a host, with %2F for each "
            "slash: http+unix://%2Frun%2Fllm.sock/v1."
        )
    if len(path.encode()) > SOCKET_BYTES:
        raise UsageError(
            f"The socket of upstream {name!r} has a path over {SOCKET_BYTES} bytes, which no system takes."
        )


def _split_session(target: str) -> tuple[str, str | None]:
    match = _SESSION.match(target)
    if match is None:
        return target, None
    rest = target[match.end() :]
    return rest if rest.startswith("/") else f"/{rest}", _clean(unquote(match[1], errors="replace"))


def _attribution(headers: Headers, bearer: Bearer | None) -> Attribution | None:
    """Return whom a request counts for, with the tags of its token before its own; None if nothing
    says so.
    """
    lines = [value.decode("utf-8", "replace") for name, value in headers if name == TAGS_HEADER]
    tags = parse_tags(",".join(lines))
    if bearer is None:
        return Attribution(tags=tuple(tags)) if tags else None
    return Attribution(bearer.owner, bearer.team, tuple(dict.fromkeys((*bearer.tags, *tags))))


def parse_tags(text: str) -> list[str]:
    """Return tags that commas separate, each once.

    Raises `UsageError` for too many, and for one that is too long.
    """
    tags = [*dict.fromkeys(tag for tag in map(str.strip, text.split(",")) if tag)]
    if not all(tag.isprintable() for tag in tags):
        raise UsageError("A tag has characters that can be printed: change X-Recorder-Tags.")
    if len(tags) > TAGS_LIMIT or any(len(tag) > TAG_LIMIT for tag in tags):
        raise UsageError(
            f"A request has at most {TAGS_LIMIT} tags of at most {TAG_LIMIT} characters, separated by commas: shorten "
            "X-Recorder-Tags."
        )
    return tags


def _clean(name: str) -> str:
    if not name.strip() or len(name) > SESSION_LIMIT:
        raise UsageError(f"The name of a session has 1 to {SESSION_LIMIT} characters.")
    return name
