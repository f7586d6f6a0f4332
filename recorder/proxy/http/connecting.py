"""A new connection to an upstream: directly, through the tunnel of a forward proxy, or to a Unix
socket.

Rules of this file:

* A proxy is asked for a tunnel, for `http` as for `https`: then it neither reads nor changes what
  passes, keeps no answer, lets a switch to WebSocket through, and an error of its own is not taken
  for the upstream's. The absolute form of a request (RFC 9112 section 3.2.2) would allow all of
  these.
* The credentials of a proxy go to it in its CONNECT, and nowhere else.
* What goes wrong becomes an `UpstreamError`, whose sentence says which of the two it was, the proxy
  or the upstream. It has no text of a peer in it.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import re
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

from aiohappyeyeballs import start_connection

from recorder.errors import UpstreamError
from recorder.proxy.http.client_connection import ClientConnection
from recorder.proxy.http.network import UNIX, Endpoint, UpstreamProxy, tls_failure

CONNECT_TIMEOUT_S = 30.0  # the only timeout: a model may think for an hour, a TCP handshake may not
# for the first address of a name to answer before the next is tried too (RFC 8305)
SECOND_ADDRESS_S = 0.25
PROXY_HEAD_BYTES = 65_536  # of a proxy's answer: those of logins by Kerberos take some 16 KiB

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE})  # no descriptor is left

_HEAD = re.compile(rb"HTTP/1\.[01] +(\d{3})[^\n]*\n(?:[^\r\n][^\n]*\n)*\r?\n")
_SCHEME = re.compile(rb"^proxy-authenticate: *([a-z]+)", re.IGNORECASE | re.MULTILINE)
_LOGINS = {b"negotiate": "Negotiate", b"ntlm": "NTLM", b"digest": "Digest"}

_CERTIFICATES = {  # X509_V_ERR_… of OpenSSL
    9: "it is not valid yet, or the clock of this machine is wrong",
    10: "it has expired, or the clock of this machine is wrong",
    **dict.fromkeys(
        (18, 19, 20, 21), "no known authority has signed it; the setting ca-file adds one"
    ),
    62: "it is for another host",
    64: "it is for another address",
}


async def connect(
    endpoint: Endpoint, proxy: UpstreamProxy | None, tls: ssl.SSLContext | None
) -> ClientConnection:
    """Return a connection that is ready for its first request.

    Raises `OSError` or `UnicodeError` as the system does (see `unreachable`), `UpstreamError` for
    what a proxy does.
    """
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        if endpoint.scheme == UNIX:
            return await _on_unix_socket(endpoint.host)
        if proxy is None:
            connected = await _connected(endpoint.host, endpoint.port)
        else:
            connected = await _tunnelled(endpoint, proxy)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        options = {"ssl": tls, "server_hostname": endpoint.host if tls else None}
        return await _begun(connected, asyncio.get_running_loop().create_connection, options)


def unreachable(error: Exception, proxy: UpstreamProxy | None) -> UpstreamError:
    """Translate an error of connecting, without its text: it may have whole URLs in it."""
    by = "" if proxy is None else f" through the proxy {proxy.name}"
    match error:
        case TimeoutError():
            message = f"no connection{by} within {CONNECT_TIMEOUT_S:g} s"
        case socket.gaierror() | UnicodeError():
            message = "its name cannot be resolved"
        case ssl.SSLCertVerificationError(verify_code=code):
            message = f"its TLS certificate{by} was not accepted: {_CERTIFICATES.get(code, 'it is not valid')}"
        case ssl.SSLError():
            message = f"its TLS handshake{by} failed: {tls_failure(error)}"
        case OSError(errno=number) if number in EXHAUSTED:
            return UpstreamError(
                f"{os.strerror(number)}: raise ulimit -n", "upstream_unreachable", status=503
            )
        case OSError(errno=int(number)):
            message = f"{os.strerror(number)}{by}"
        case _:
            message = f"connection failed{by}"
    return UpstreamError(message, "upstream_unreachable")


async def _begun(
    connected: socket.socket, create: Callable[..., Any], options: dict[str, Any]
) -> ClientConnection:
    """Return the connection over a connected socket, which is closed if that fails."""
    try:
        _, connection = await create(
            partial(ClientConnection, connected), sock=connected, **options
        )
    except BaseException:
        connected.close()
        raise
    assert isinstance(connection, ClientConnection)
    return connection


async def _on_unix_socket(path: str) -> ClientConnection:
    loop = asyncio.get_running_loop()
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.setblocking(False)
        await loop.sock_connect(connected, path)
    except BaseException:
        connected.close()
        raise
    return await _begun(connected, loop.create_unix_connection, {})


async def _connected(host: str, port: int) -> socket.socket:
    return await start_connection(
        await _addresses(host, port), happy_eyeballs_delay=SECOND_ADDRESS_S, interleave=1
    )


async def _addresses(host: str, port: int) -> Sequence[Any]:
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
    except ValueError:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]


async def _tunnelled(endpoint: Endpoint, proxy: UpstreamProxy) -> socket.socket:
    """Return a socket whose other end is the upstream.

    Raises `UpstreamError` for a proxy that opens no tunnel.
    """
    asking = _asking(endpoint, proxy)
    try:
        connected = await _connected(proxy.host, proxy.port)
    except (socket.gaierror, UnicodeError):
        raise _of_proxy(proxy, "has a name that cannot be resolved") from None
    except OSError as error:
        if error.errno in EXHAUSTED or isinstance(error, TimeoutError) or not error.errno:
            raise
        raise _of_proxy(proxy, f"could not be reached: {os.strerror(error.errno)}") from None
    try:
        await asyncio.get_running_loop().sock_sendall(connected, asking)
        _require_tunnel(await _answer(connected, proxy), proxy)
    except ConnectionError as error:
        connected.close()
        raise _of_proxy(
            proxy, f"broke the connection: {os.strerror(error.errno or errno.ECONNRESET)}"
        ) from None
    except BaseException:
        connected.close()
        raise
    return connected


def _asking(endpoint: Endpoint, proxy: UpstreamProxy) -> bytes:
    host = (
        endpoint.host.encode("idna") if endpoint.host.isascii() is False else endpoint.host.encode()
    )
    place = b"%b:%d" % (b"[%b]" % host if b":" in host else host, endpoint.port)
    login = b"Proxy-Authorization: %b\r\n" % proxy.authorization if proxy.authorization else b""
    return b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (place, place, login)


async def _answer(connected: socket.socket, proxy: UpstreamProxy) -> re.Match[bytes]:
    """Return the head of the proxy's final answer, in what came with it.

    A 1xx before it is skipped.
    """
    received = b""
    while True:
        data = await asyncio.get_running_loop().sock_recv(connected, 4096)
        if not data:
            raise _of_proxy(proxy, "closed the connection before it answered")
        received += data
        while (head := _HEAD.match(received)) is not None and head[1].startswith(b"1"):
            received = received[head.end() :]
        if head is not None:
            return head
        if not b"HTTP/1.".startswith(received[:7]):
            raise _of_proxy(
                proxy, "did not answer in HTTP: its port may be that of another service"
            )
        if len(received) > PROXY_HEAD_BYTES:
            raise _of_proxy(proxy, f"answered with a head over {PROXY_HEAD_BYTES // 2**10} KiB")


def _require_tunnel(head: re.Match[bytes], proxy: UpstreamProxy) -> None:
    """Raise `UpstreamError` unless that is a tunnel.

    A length in a 2xx is ignored, as RFC 9110 section 9.3.6 wants.
    """
    status = int(head[1])
    if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        raise _of_proxy(proxy, _login(head[0], proxy))
    if not 200 <= status < 300:
        known = {each.value: each.phrase for each in HTTPStatus}
        raise _of_proxy(
            proxy, f"refused to connect to it: {status} {known.get(status, '')}".rstrip()
        )
    if head.end() < len(head.string):
        raise _of_proxy(
            proxy, "answered CONNECT with a page in place of a tunnel: it may be a web server"
        )


def _login(head: bytes, proxy: UpstreamProxy) -> str:
    """Return what to do about a 407."""
    offered = {scheme.lower() for scheme in _SCHEME.findall(head)}
    if offered and b"basic" not in offered:
        names = (
            " or ".join(_LOGINS[each] for each in sorted(offered) if each in _LOGINS)
            or "another login"
        )
        return f"wants {names} (407), and there is only Basic here: put a local proxy in between that logs in"
    if proxy.authorization is None:
        return "wants a user and a password (407): write http://USER:PASSWORD@HOST:PORT"
    return "does not accept this user and password (407): characters such as @ and : must be percent-encoded"


def _of_proxy(proxy: UpstreamProxy, what: str) -> UpstreamError:
    return UpstreamError(f"the proxy {proxy.name} {what}", "upstream_unreachable")
