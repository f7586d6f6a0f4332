"""The settings of a network as values: what a URL of a proxy says, which hosts it is not for, what
TLS trusts.
"""

from __future__ import annotations

import re
import ssl
from base64 import b64encode
from http import HTTPStatus
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from recorder.errors import UsageError
from recorder.proxy.http.network import (
    Endpoint,
    Network,
    UpstreamProxy,
    exemptions_of,
    proxies_of,
    proxy_of,
)
from tests.support.corpus import ROOT
from tests.support.forward_proxy import Authority

PASSWORD = "s3cr3t-password"
PROXY = UpstreamProxy("proxy.corp.test", 3128)


def proxied(no_proxy: str, host: str, port: int = 443, scheme: str = "https") -> bool:
    network = Network({"http": PROXY, "https": PROXY}, exemptions_of(no_proxy, "no-proxy"))
    return network.proxy_for(Endpoint(scheme, host, port)) is not None


PROXIES = [
    ("http://proxy.corp.test:3128", "proxy.corp.test", 3128, None),
    ("http://proxy.corp.test/", "proxy.corp.test", 80, None),
    ("proxy.corp.test:3128", "proxy.corp.test", 3128, None),
    ("http://[::1]:3128", "::1", 3128, None),
    ("http://me:secret@proxy:1", "proxy", 1, b"me:secret"),
    ("http://corp%5Cme:p%40ss%3A@proxy:1", "proxy", 1, b"corp\\me:p@ss:"),
    ("me:secret@proxy:1", "proxy", 1, b"me:secret"),
    ("http://me@proxy:1", "proxy", 1, b"me:"),
    ("3", "3", 80, None),
]
NO_PROXIES = {
    "socks5h://me:{}@proxy:1": "SOCKS is not supported",
    "https://me:{}@proxy:1": "TLS to the proxy itself is not supported",
    "ftp://me:{}@proxy:1": "is a proxy with HTTP",
    "http://me:{}@:1": "write http://HOST:PORT",
    "http://me:{}@proxy:99999": "write http://HOST:PORT",
    "http://me:{}@proxy:0": "write http://HOST:PORT",
    "http://me:{}@[proxy:1": "write http://HOST:PORT",
    "http://me:{}@proxy:1/path": "write http://HOST:PORT",
    "http://me:{} x@proxy:1": "percent-encode",
    "http://mé:{}@proxy:1": "percent-encode",
}


def test_a_proxy_is_a_url_with_or_without_a_login() -> None:
    for text, host, port, login in PROXIES:
        proxy = proxy_of(text, "upstream-proxy")
        authorization = None if login is None else b"Basic " + b64encode(login)
        assert (proxy.host, proxy.port, proxy.authorization) == (host, port, authorization)


def test_what_is_no_proxy_is_said_without_its_password() -> None:
    for text, sentence in NO_PROXIES.items():
        with pytest.raises(UsageError, match=sentence) as raised:
            proxy_of(text.format(PASSWORD), "upstream-proxy")
        assert str(raised.value).startswith("upstream-proxy ")
        assert PASSWORD not in str(raised.value)


def test_a_login_is_in_no_text_of_a_network() -> None:
    proxy = proxy_of(f"http://me:{PASSWORD}@proxy:1", "upstream-proxy")
    network = Network({"http": proxy, "https": proxy})
    secrets = (PASSWORD, "me:", str(proxy.authorization))
    assert proxy.authorization is not None
    for text in (repr(network), str(network), network.describe(), proxy.name):
        assert not any(secret in text for secret in (*secrets, proxy.authorization.decode()[6:]))
    assert network.describe() == "by the proxy proxy:1 (with user and password)"


EXCEPTIONS = [
    ("", "api.corp.test", True),
    ("corp.test", "corp.test", False),
    ("corp.test", "api.corp.test", False),
    (".corp.test", "api.corp.test", False),
    (".corp.test", "corp.test", False),
    ("*.corp.test", "api.corp.test", False),
    ("Corp.Test.", "API.corp.test.", False),
    ("corp.test", "mycorp.test", True),
    ("other, api.corp.test  more", "api.corp.test", False),
    ("*", "api.corp.test", False),
    ("*", "10.1.2.3", False),
    ("10.0.0.0/8", "10.1.2.3", False),
    ("10.0.0.0/8", "11.1.2.3", True),
    ("10.0.0.0/8", "ten.corp.test", True),
    ("10.1.2.3", "10.1.2.3", False),
    ("10.1.2.3", "110.1.2.3", True),
    ("fd00::/8", "fd00::1", False),
    ("[fd00::1]", "fd00::1", False),
    ("fd00::1", "fd00::2", True),
    ("corp.test:443", "corp.test", False),
    ("corp.test:80", "corp.test", True),
    ("10.1.2.3:443", "10.1.2.3", False),
    ("[fd00::1]:80", "fd00::1", True),
]


def test_exceptions_are_domains_addresses_and_blocks() -> None:
    found = [(no_proxy, host, proxied(no_proxy, host)) for no_proxy, host, _ in EXCEPTIONS]
    assert found == EXCEPTIONS


def test_this_machine_is_reached_directly() -> None:
    for host in ("localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.9.9.9", "::1"):
        assert not proxied("", host)
        assert not proxied("", host, 80, "http")
    assert not proxied("", "/run/llm.sock", 0, "http+unix")


@pytest.mark.parametrize(
    ("environment", "http", "https"),
    [
        ({}, None, None),
        ({"HTTPS_PROXY": "http://a:1"}, None, "a:1"),
        ({"HTTP_PROXY": "http://b:2", "https_proxy": "c:3"}, "b:2", "c:3"),
        ({"ALL_PROXY": "http://d:4", "HTTPS_PROXY": "http://a:1"}, "d:4", "a:1"),
        ({"HTTPS_PROXY": "http://a:1", "https_proxy": "http://c:3"}, None, "c:3"),
        ({"HTTPS_PROXY": "", "all_proxy": "http://d:4"}, "d:4", "d:4"),
    ],
)
def test_variables_name_a_proxy_by_scheme(
    environment: dict[str, str], http: str | None, https: str | None
) -> None:
    found = proxies_of(environment)
    expected = {scheme: name for scheme, name in (("http", http), ("https", https)) if name}
    assert {scheme: proxy.name for scheme, proxy in found.items()} == expected


def test_a_wrong_variable_is_named() -> None:
    with pytest.raises(
        UsageError, match=r"^ALL_PROXY is a proxy with HTTP, .* SOCKS is not supported"
    ):
        proxies_of({"ALL_PROXY": "socks5://x:1"})
    with pytest.raises(UsageError, match=r"^NO_PROXY: '10.0.0.0/33' is not a block of addresses"):
        exemptions_of("10.0.0.0/33", "NO_PROXY")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def subjects(context: ssl.SSLContext) -> int:
    return len(context.get_ca_certs())


def test_an_authority_is_added_to_those_of_the_system(authority: Authority) -> None:
    assert subjects(Network(ca_file=authority.file).tls()) == subjects(Network().tls()) + 1 > 1


def test_files_that_cannot_be_used_are_named(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.client()
    encrypted, empty = tmp_path / "encrypted.key", tmp_path / "empty.pem"
    empty.write_text("nothing")
    made = serialization.load_pem_private_key(key.read_bytes(), None)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    encrypted.write_bytes(made.private_bytes(*form, serialization.BestAvailableEncryption(b"x")))
    for network, sentence in (
        (Network(ca_file=tmp_path / "none.pem"), "none.pem cannot be read: No such file"),
        (Network(ca_file=tmp_path), "cannot be read: Is a directory"),
        (Network(ca_file=empty), "empty.pem cannot be used: it must hold certificates in PEM"),
        (
            Network(client_cert=certificate, client_key=tmp_path / "none.key"),
            "none.key cannot be read",
        ),
        (Network(client_cert=certificate), "client.pem cannot be used"),
        (Network(client_cert=certificate, client_key=empty), "client.pem cannot be used"),
        (
            Network(client_cert=certificate, client_key=encrypted),
            "has a password: give a key without one",
        ),
    ):
        with pytest.raises(UsageError, match=sentence):
            network.tls()


def test_the_messages_of_the_page_are_those_of_the_program() -> None:
    """As far as they are not the system's own: the pieces between what hangs on the case."""
    page = (ROOT / "docs" / "network.md").read_text().partition("## What a message means")[2]
    cells = [cell.split(" of `")[0] for cell in re.findall(r"^\| (`.+?) \| ", page, re.MULTILINE)]
    folder = ROOT / "recorder" / "proxy" / "http"
    source = "".join(path.read_text() for path in folder.glob("*.py"))
    source = re.sub(r"\{[^{}\n]*\}", "…", source)  # what an f-string fills in
    pieces = [
        piece.strip()
        for text in re.findall(r"`([^`]+)`", " ".join(cells))
        for piece in re.split("[…:]|(?= through)", text)
    ]
    systems = {"No such file or directory", "Connection refused", "within 30 s", "503", "504"}
    systems |= {f"{each.value} {each.phrase}" for each in HTTPStatus}
    said = [piece for piece in pieces if piece and piece not in systems]
    assert len(said) > 20
    assert [piece for piece in said if piece not in source] == []
