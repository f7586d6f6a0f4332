"""A forward proxy that lets no request leave this machine, and reports the requested hosts: a
replay sets it for its clients.

Rules of this file:

* Nothing leaves: no name is looked up, no connection is opened but to this machine itself.
* Of a request only the host is kept, never its path, query, headers or body.
* What is for this machine passes byte for byte: some clients send everything to a proxy, whatever
  `NO_PROXY` contains. The only addition is that it is the last on its connection: the next one may
  be for another host.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from recorder.proxy.admission import is_local
from recorder.wire.upstreams import API_HOSTS, HOSTS

HOST = "127.0.0.1"
HEAD_BYTES = 64 * 2**10  # of a request's line and headers, as of any client of ours
HEAD_S = 10.0  # for them to come, in which clients send them in one piece
READ_BYTES = 64 * 2**10
# hosts that are remembered: no client has as many, and what is beyond is refused all the same
HOSTS_LIMIT = 1000

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_VARIABLES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
_EXCEPTIONS = ("NO_PROXY", "no_proxy")
_OF_NODE = "NODE_USE_ENV_PROXY"  # without which its `fetch` looks at none of the others

_OF_CONNECTION = frozenset({b"connection", b"proxy-connection", b"keep-alive"})
_LINE = re.compile(rb"(?P<method>[A-Z]+) (?P<target>\S+) HTTP/1\.[01]\r\n")
# https: axios asks for no tunnel
_ABSOLUTE = re.compile(r"https?://(?P<authority>[^/?#]*)", re.IGNORECASE)
_AUTHORITY = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::(?P<port>\d{1,5}))?"
)


class Refused(NamedTuple):
    """The hosts that clients requested, in order."""

    hosts: Sequence[str]
    # those of them that are hosts of model APIs → the upstreams that stand for them
    apis: Mapping[str, frozenset[str]]

    def past(self, used: Collection[str]) -> list[str]:
        """Return the APIs that clients tried to reach directly, without any request to an upstream
        that replaces them (`used`). A client that sends requests to both is not an error: its other
        requests to the provider are statistics (Claude Code), and the content of a tunnel is
        unknown.
        """
        return [host for host, upstreams in self.apis.items() if upstreams.isdisjoint(used)]


class _Place(NamedTuple):
    """The host and port that a client wants to reach."""

    host: str
    port: int
    is_tunnel: bool


class RefusingProxy:
    """The proxy, on a free port of this machine from `start` to `stop`."""

    def __init__(self, apis: Iterable[tuple[str, str]] = ()) -> None:
        """`apis` are further hosts of model APIs, each with the upstream that replaces it."""
        self._apis = {(host, name) for host, name in (*HOSTS.items(), *apis)}
        self._hosts: dict[str, None] = {}
        self._clients: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.url = ""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, 0, limit=HEAD_BYTES)
        self.url = f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        """Stop; open connections are cut."""
        if self._server is not None:
            self._server.close()
            for writer in list(self._clients):
                writer.transport.abort()

    def refused(self) -> Refused:
        """Return the hosts that were requested so far."""
        hosts = list(self._hosts)
        named = {host: frozenset(name for of, name in self._apis if of == host) for host in hosts}
        return Refused(
            hosts,
            {host: names for host, names in named.items() if names or API_HOSTS.fullmatch(host)},
        )

    def variables(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that send clients here in place of other proxies.

        Exceptions in the environment hold.
        """
        had = dict.fromkeys(value for name in _EXCEPTIONS if (value := given.get(name)))
        exceptions = ",".join([*had, *LOOPBACK])
        return {
            **dict.fromkeys(_VARIABLES, self.url),
            **dict.fromkeys(_EXCEPTIONS, exceptions),
            _OF_NODE: "1",
        }

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        try:
            with contextlib.suppress(OSError):
                await self._answer(reader, writer)
        finally:
            self._clients.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            return
        place = _place(head)
        if place is None:
            await _say(
                writer,
                "400 Bad Request",
                "This is a proxy that refuses: name a host to be refused.",
            )
        elif is_local(f"[{place.host}]".encode() if ":" in place.host else place.host.encode(), ()):
            await _pass(place, head, reader, writer)
        else:
            if len(self._hosts) < HOSTS_LIMIT:
                self._hosts[place.host] = None
            await _say(
                writer,
                "403 Forbidden",
                f"recorder: this is a replay, and {place.host} is not asked in it.",
            )


def _place(head: bytes) -> _Place | None:
    """Return where a request wants to go; `None` if no proxy goes there."""
    line = _LINE.match(head)
    if line is None:
        return None
    target = line["target"].decode("latin-1")
    is_tunnel = line["method"] == b"CONNECT"
    absolute = _ABSOLUTE.match(target)
    if not is_tunnel:
        target = absolute["authority"].rpartition("@")[2] if absolute else ""
    authority = _AUTHORITY.fullmatch(target)
    if authority is None:
        return None
    port = int(authority["port"] or (443 if is_tunnel else 80))
    return _Place((authority["ipv6"] or authority["name"]).lower().rstrip("."), port, is_tunnel)


async def _pass(
    place: _Place, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Pass a connection on to this machine: bytes of either side go to the other."""
    try:
        # whatever a resolver makes of it
        host = "localhost" if place.host.endswith(".localhost") else place.host
        back, there = await asyncio.open_connection(host, place.port)
    except (OSError, OverflowError):
        await _say(
            writer,
            "502 Bad Gateway",
            f"recorder: nothing listens on port {place.port} of this machine.",
        )
        return
    try:
        if place.is_tunnel:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            # the absolute form, which every server takes (RFC 9112 section 3.2.2)
            there.write(_last(head))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_flow(reader, there))
            tasks.create_task(_flow(back, writer))
    finally:
        there.close()


def _last(head: bytes) -> bytes:
    """Make a request the last one on its connection, unless it asks to switch the protocol."""
    line, *headers = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    names = [header.partition(b":")[0].strip().lower() for header in headers]
    if b"upgrade" in names:
        return head
    forwarded = [
        header for name, header in zip(names, headers, strict=True) if name not in _OF_CONNECTION
    ]
    return b"\r\n".join([line, *forwarded, b"Connection: close", b"", b""])


async def _flow(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):  # either side may leave
        while data := await source.read(READ_BYTES):
            sink.write(data)
            await sink.drain()
        if not sink.is_closing():
            sink.write_eof()


async def _say(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = f"{text}\n".encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
