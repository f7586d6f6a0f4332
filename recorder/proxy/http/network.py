"""The network that upstreams are reached through: a forward proxy, its exceptions, and the TLS of
this machine.

Rules of this file:

* No environment is read and no connection is made: what a user has set is an argument here.
* User and password of a proxy are in one field, which is in no `repr`; no message has them, or a
  URL that may.
* Upstreams on this machine are always reached directly: no proxy knows what `localhost` means to
  us.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from recorder.errors import UsageError

# the scheme of an upstream on a Unix socket: its path, percent-encoded, stands for the host
UNIX = "http+unix"
PORTS = {"http": 80, "https": 443, UNIX: 0}

_Block = ipaddress.IPv4Network | ipaddress.IPv6Network


class Endpoint(NamedTuple):
    """The address of a server. With the scheme `http+unix`, `host` is the path of its socket."""

    scheme: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class UpstreamProxy:
    """A forward proxy that opens tunnels (CONNECT, RFC 9110 section 9.3.6)."""

    host: str
    port: int
    # the value of Proxy-Authorization
    authorization: bytes | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Return host and port, for a message."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Exemption:
    """Hosts that are reached without the proxy: a domain with all below it, a block of addresses,
    or `*`.
    """

    domain: str = ""
    block: _Block | None = None
    port: int | None = None

    def covers(self, endpoint: Endpoint) -> bool:
        """Return whether this host is one of them. No name is looked up."""
        if self.port not in (None, endpoint.port):
            return False
        host = endpoint.host.lower().rstrip(".")
        if self.block is not None:
            address = _address(host)
            return (
                address is not None
                and address.version == self.block.version
                and address in self.block
            )
        return self.domain in ("*", host) or host.endswith(f".{self.domain}")


@dataclass(frozen=True, slots=True)
class Network:
    """How connections to upstreams are made.

    `proxies` are those for the schemes `http` and `https`. `ca_file` has authorities beside those
    of the system. `client_cert` is shown to upstreams that ask for one; its key may be in the same
    file.
    """

    proxies: Mapping[str, UpstreamProxy] = field(default_factory=dict)
    exemptions: tuple[Exemption, ...] = ()
    ca_file: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None

    def proxy_for(self, endpoint: Endpoint) -> UpstreamProxy | None:
        """Return the proxy that leads to an endpoint; None if it is reached directly."""
        proxy = self.proxies.get(endpoint.scheme)
        if (
            proxy is None
            or _is_here(endpoint.host)
            or any(each.covers(endpoint) for each in self.exemptions)
        ):
            return None
        return proxy

    @property
    def has_files(self) -> bool:
        """Return whether TLS needs files that a user has named."""
        return any((self.ca_file, self.client_cert, self.client_key))

    def tls(self) -> ssl.SSLContext:
        """Return a new context for upstreams. Raises `UsageError` for a file that cannot be used.

        The authorities are those of the system, or of SSL_CERT_FILE and SSL_CERT_DIR, which `ssl`
        reads itself.
        """
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        _require(self.ca_file, self.client_cert, self.client_key)
        if self.ca_file is not None:
            try:
                context.load_verify_locations(self.ca_file)
            except ssl.SSLError:  # what OpenSSL says of it helps nobody
                raise UsageError(
                    f"{self.ca_file} cannot be used: it must hold certificates in PEM."
                ) from None
        if self.client_cert is not None:
            try:
                context.load_cert_chain(
                    self.client_cert, self.client_key, password=_refuse_password
                )
            except ssl.SSLError:
                raise UsageError(
                    f"{self.client_cert} cannot be used: it must hold a certificate in PEM, and its key or "
                    "client-key the key that belongs to it."
                ) from None
        return context

    def describe(self) -> str:
        """Return one line on the settings, without a password."""
        ways: list[str] = []
        for proxy in dict.fromkeys(self.proxies.values()):
            schemes = [scheme for scheme, its in self.proxies.items() if its == proxy]
            login = "" if proxy.authorization is None else " (with user and password)"
            only = f" for {schemes[0]}" if len(schemes) == 1 else ""
            ways.append(f"by the proxy {proxy.name}{login}{only}")
        parts = [", ".join(ways) or "directly"]
        parts += [f"authorities also from {self.ca_file}"] if self.ca_file else []
        parts += [f"client certificate {self.client_cert}"] if self.client_cert else []
        return "; ".join(parts)


DIRECT = Network()
"""No proxy, and the TLS of the system."""


def proxy_of(text: str, where: str) -> UpstreamProxy:
    """Return the proxy of a URL.

    Raises `UsageError`, which names `where` it was given and never repeats it.
    """
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UsageError(f"{where} is not the URL of a proxy: write http://HOST:PORT.") from None
    if parts.scheme != "http":
        why = "that is not the URL of a proxy"
        if parts.scheme.startswith("socks"):
            why = "SOCKS is not supported"
        elif parts.scheme == "https":
            why = "TLS to the proxy itself is not supported"
        raise UsageError(f"{where} is a proxy with HTTP, http://HOST:PORT: {why}.")
    if not host or port == 0 or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise UsageError(
            f"{where} is not the URL of a proxy: write http://HOST:PORT, or http://USER:PASSWORD@HOST:PORT."
        )
    if not re.fullmatch(r"[\x21-\x7e]+", url):
        raise UsageError(f"{where} must be plain ASCII without spaces: percent-encode the others.")
    return UpstreamProxy(
        host, port or PORTS["http"], _authorization(parts.username, parts.password)
    )


def proxies_of(environment: Mapping[str, str]) -> dict[str, UpstreamProxy]:
    """Return the proxies that variables name, by scheme: the small name first, as with curl.

    Raises `UsageError`.
    """
    found: dict[str, UpstreamProxy] = {}
    for scheme in ("http", "https"):
        for variable in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY"):
            if text := environment.get(variable):
                found[scheme] = proxy_of(text, variable)
                break
    return found


def exemptions_of(text: str, where: str) -> tuple[Exemption, ...]:
    """Return the hosts of a list with commas or spaces, as NO_PROXY has it. Raises `UsageError`."""
    return tuple(_exemption(entry, where) for entry in re.split(r"[,\s]+", text) if entry)


def socket_path(netloc: str) -> str | None:
    """Return the path in the host of an `http+unix` URL; None if it is none."""
    path = unquote(netloc)
    return path if path.startswith("/") and "\0" not in path else None


def tls_failure(error: ssl.SSLError) -> str:
    """Return why TLS ended, from the constants of OpenSSL: its text has more than one of them."""
    reason = error.reason or ""
    if "CERTIFICATE_REQUIRED" in reason:
        return "it asks for a client certificate; the setting client-cert gives one"
    if "ALERT" in reason and (
        "CERTIFICATE" in reason or "UNKNOWN_CA" in reason or "ACCESS_DENIED" in reason
    ):
        return "it did not accept the client certificate"
    if "WRONG_VERSION_NUMBER" in reason:
        return "there is no TLS on that port"
    return reason.replace("_", " ").lower() or "no reason is known"


def _exemption(entry: str, where: str) -> Exemption:
    if "/" in entry:
        try:
            return Exemption(block=ipaddress.ip_network(entry, strict=False))
        except ValueError:
            raise UsageError(
                f"{where}: {entry!r} is not a block of addresses such as 10.0.0.0/8."
            ) from None
    host, port = entry.strip("[]"), None
    if _address(host) is None and (found := re.fullmatch(r"\[?([^\]]+?)\]?:(\d{1,5})", entry)):
        host, port = found[1], int(found[2])
    address = _address(host)
    if address is not None:
        return Exemption(block=ipaddress.ip_network(address), port=port)
    return Exemption(host if host == "*" else host.lower().removeprefix("*").strip("."), port=port)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_here(host: str) -> bool:
    """Return whether a host is this machine: `localhost`, what is below it (RFC 6761), or a
    loopback address.
    """
    name, address = host.lower().rstrip("."), _address(host)
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    if address is not None:
        return address.is_loopback
    return name == "localhost" or name.endswith(".localhost")


def _authorization(user: str | None, password: str | None) -> bytes | None:
    """Return user and password as RFC 7617 has them."""
    if user is None:
        return None
    both = f"{unquote(user)}:{unquote(password or '')}"
    return b"Basic " + b64encode(both.encode())


def _require(*paths: Path | None) -> None:
    """Raise `UsageError` for a file that cannot be read."""
    for path in filter(None, paths):
        try:
            path.open("rb").close()
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}.") from None


def _refuse_password() -> str:
    raise UsageError("The key of the client certificate has a password: give a key without one.")
