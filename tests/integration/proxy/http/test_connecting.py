"""New connections over real sockets: through a proxy's tunnel, over TLS of one's own authority, to
a Unix socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from recorder.errors import UpstreamError
from recorder.proxy.http import connecting
from recorder.proxy.http.network import DIRECT, Network, exemptions_of, proxy_of
from tests.support.event_loop import both_loops, on_uvloop
from tests.support.forward_proxy import OPEN, Authority, ForwardProxy, answering
from tests.support.proxy import Listener, get, proxied, request_for, switched, upstream_transport
from tests.support.sockets import ScriptedUpstream, answer, listening

LOGIN = "me:s3cr3t-password"
NAME = "api.corp.test"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def by(url: str, **options: Any) -> Network:
    proxy = proxy_of(url, "upstream-proxy")
    return Network({"http": proxy, "https": proxy}, **options)


async def ask(network: Network, url: str, times: int = 1) -> bytes:
    """The body of the last answer."""
    async with upstream_transport(network) as client:
        for _ in range(times):
            response = await client.handle_async_request(request_for("GET", url))
            body = b"".join([chunk async for chunk in response.stream])
            await response.stream.aclose()
    return body


async def refusal(network: Network, url: str) -> str:
    """The sentence of the error, with the outcome of an upstream that was not reached."""
    with pytest.raises(UpstreamError) as raised:
        await ask(network, url)
    assert (raised.value.outcome, raised.value.status) == ("upstream_unreachable", 502)
    assert not any(secret in str(raised.value) for secret in LOGIN.split(":")[1:])
    return str(raised.value)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)


@asynccontextmanager
async def company(authority: Authority, *, login: str | None = None) -> AsyncIterator[ForwardProxy]:
    """An upstream over TLS, whose name only the proxy knows."""
    async with listening(serve, authority.server(NAME)) as base:
        async with ForwardProxy({NAME: int(base.rpartition(":")[2])}, login=login) as proxy:
            yield proxy


@both_loops
async def test_tls_goes_through_a_tunnel(authority: Authority) -> None:
    async with company(authority) as proxy:
        assert (
            await ask(by(proxy.url, ca_file=authority.file), f"https://{NAME}/v1", times=2) == b"ok"
        )
    assert proxy.asked == [b"CONNECT api.corp.test:443 HTTP/1.1\r\nHost: api.corp.test:443\r\n\r\n"]
    assert proxy.tunnels == ["api.corp.test:443"]  # which the second request went through, too


@on_uvloop
async def test_plain_http_goes_through_a_tunnel_unchanged() -> None:
    async with (
        ScriptedUpstream(answer(b"ok")) as upstream,
        ForwardProxy({NAME: upstream.port}) as proxy,
    ):
        assert await ask(by(proxy.url), f"http://{NAME}:8080/v1?x=%2f") == b"ok"
    assert proxy.tunnels == ["api.corp.test:8080"]
    assert upstream.requests[0].startswith(b"GET /v1?x=%2f HTTP/1.1\r\n")


@on_uvloop
async def test_a_websocket_goes_through_a_tunnel(tmp_path: Path) -> None:
    async with Listener() as listener:
        port = int(listener.base.rpartition(":")[2])
        async with ForwardProxy({NAME: port}) as forward:
            async with proxied(tmp_path, f"http://{NAME}", network=by(forward.url)) as proxy:
                tunnel = await switched(proxy, listener)
                async with tunnel.client, tunnel.upstream:
                    await tunnel.client.send(b"\x81\x00")
                    assert await tunnel.upstream.read() == b"\x81\x00"


@on_uvloop
async def test_only_the_proxy_gets_the_login(authority: Authority) -> None:
    async with ScriptedUpstream(answer(b"ok")) as upstream:
        async with ForwardProxy({NAME: upstream.port}, login=LOGIN) as proxy:
            url = proxy.url.replace("http://", f"http://{LOGIN}@")
            assert await ask(by(url), f"http://{NAME}/v1") == b"ok"
    assert b"\r\nProxy-Authorization: Basic bWU6czNjcjN0LXBhc3N3b3Jk\r\n" in proxy.asked[0]
    assert b"proxy-authorization" not in upstream.requests[0].lower()


@on_uvloop
async def test_an_address_of_ipv6_is_in_brackets() -> None:
    async with (
        ScriptedUpstream(answer(b"ok")) as upstream,
        ForwardProxy({"fd00::1": upstream.port}) as proxy,
    ):
        assert await ask(by(proxy.url), "http://[fd00::1]:8080/") == b"ok"
    assert proxy.asked[0].startswith(b"CONNECT [fd00::1]:8080 HTTP/1.1\r\nHost: [fd00::1]:8080\r\n")


@on_uvloop
async def test_a_name_beyond_ascii_goes_as_its_code() -> None:
    async with (
        ScriptedUpstream(answer(b"ok")) as upstream,
        ForwardProxy({"xn--bcher-kva.test": upstream.port}) as proxy,
    ):
        assert await ask(by(proxy.url), "http://xn--bcher-kva.test/") == b"ok"


@on_uvloop
async def test_exceptions_and_this_machine_are_reached_without_the_proxy() -> None:
    async with ScriptedUpstream(answer(b"ok")) as upstream, ForwardProxy({}) as proxy:
        for host in ("127.0.0.1", "localhost"):
            assert await ask(by(proxy.url), f"http://{host}:{upstream.port}/") == b"ok"
        excepted = by(proxy.url, exemptions=exemptions_of("nobody.invalid", "no-proxy"))
        assert (
            await refusal(excepted, "http://api.nobody.invalid/") == "its name cannot be resolved"
        )
    assert proxy.asked == []


@on_uvloop
async def test_a_login_that_lacks_is_asked_for_and_a_wrong_one_is_said(
    authority: Authority,
) -> None:
    async with company(authority, login=LOGIN) as proxy:
        lacking = await refusal(by(proxy.url), f"https://{NAME}/")
        wrong = await refusal(by(proxy.url.replace("//", "//me:another@")), f"https://{NAME}/")
    wanted = "wants a user and a password (407): write http://USER:PASSWORD@HOST:PORT"
    assert lacking == f"the proxy 127.0.0.1:{proxy.port} {wanted}"
    assert "does not accept this user and password (407)" in wrong


NTLM = b"HTTP/1.1 407 X\r\nProxy-Authenticate: Negotiate\r\nproxy-authenticate:  NTLM\r\n\r\n"
PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"
EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"


NO_TUNNELS = [
    (
        NTLM,
        False,
        "wants Negotiate or NTLM (407), and there is only Basic here: put a local proxy in between",
    ),
    (b"HTTP/1.1 407 X\r\n\r\n", False, "wants a user and a password (407)"),
    (b"HTTP/1.1 403 Go \x1b[31m away\r\n\r\n", False, "refused to connect to it: 403 Forbidden"),
    (
        b"HTTP/1.0 502 X\r\nContent-Length: 3\r\n\r\nabc",
        True,
        "refused to connect to it: 502 Bad Gateway",
    ),
    (b"HTTP/1.1 599 X\r\n\r\n", False, "refused to connect to it: 599"),
    (b"HTTP/1.1 302 Found\nLocation: http://x\n\n", False, "refused to connect to it: 302 Found"),
    (
        EARLY_HINTS + b"HTTP/1.1 503 X\r\n\r\n",
        False,
        "refused to connect to it: 503 Service Unavailable",
    ),
    (PAGE, False, "answered CONNECT with a page in place of a tunnel"),
    (
        b"SSH-2.0-OpenSSH_9.2\r\n",
        False,
        "did not answer in HTTP: its port may be that of another service",
    ),
    (b"\x15\x03\x03\x00\x02\x02F", False, "did not answer in HTTP"),
    (b"HTTP/1.1 200 ", True, "closed the connection before it answered"),
    (b"", True, "closed the connection before it answered"),
    (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000, False, "answered with a head over 64 KiB"),
]


@on_uvloop
async def test_a_proxy_that_opens_no_tunnel_is_said_in_a_sentence() -> None:
    for said, ends, sentence in NO_TUNNELS:
        async with answering(said, ends=ends) as port:
            found = await refusal(by(f"http://127.0.0.1:{port}"), f"https://{NAME}/")
        assert found.startswith(f"the proxy 127.0.0.1:{port} {sentence}")
        assert found.isprintable()


@on_uvloop
async def test_a_hint_before_the_tunnel_is_skipped() -> None:
    async with answering(EARLY_HINTS + OPEN + b"", ends=True) as port:
        with pytest.raises(
            UpstreamError, match="the upstream closed the connection before it answered"
        ):
            await ask(by(f"http://127.0.0.1:{port}"), f"http://{NAME}/")


@both_loops
async def test_a_silent_proxy_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "CONNECT_TIMEOUT_S", 0.2)
    async with answering(b"HTTP/1.1 200 Connec") as port:
        found = await refusal(by(f"http://127.0.0.1:{port}"), f"https://{NAME}/")
    assert found == f"no connection through the proxy 127.0.0.1:{port} within 0.2 s"


@both_loops
async def test_a_proxy_that_cannot_be_reached_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    said = await refusal(by(f"http://127.0.0.1:{port}"), f"https://{NAME}/")
    assert said == f"the proxy 127.0.0.1:{port} could not be reached: Connection refused"
    said = await refusal(by("http://proxy.invalid:3128"), f"https://{NAME}/")
    assert said == "the proxy proxy.invalid:3128 has a name that cannot be resolved"


@both_loops
async def test_what_hangs_up_in_the_tunnel_is_said(authority: Authority) -> None:
    async with answering(OPEN, ends=True) as port:
        found = await refusal(by(f"http://127.0.0.1:{port}"), f"https://{NAME}/")
    assert f"through the proxy 127.0.0.1:{port}" in found


@both_loops
async def test_an_unknown_authority_is_said_with_what_adds_it(authority: Authority) -> None:
    async with company(authority) as proxy:
        found = await refusal(by(proxy.url), f"https://{NAME}/")
    assert found == (
        f"its TLS certificate through the proxy 127.0.0.1:{proxy.port} was not accepted: no known authority has signed "
        "it; the setting ca-file adds one"
    )


@both_loops
async def test_an_upstream_with_a_certificate_of_nobody_is_told_nothing(
    authority: Authority,
) -> None:
    told = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told.append(await reader.readline())

    async with listening(hear, authority.server("localhost")) as base:
        said = await refusal(DIRECT, base.replace("127.0.0.1", "localhost"))
    assert said.startswith("its TLS certificate was not accepted: no known authority has signed it")
    assert told == []


@both_loops
async def test_a_certificate_for_another_host_is_said(authority: Authority) -> None:
    async with listening(serve, authority.server("other.test")) as base:
        said = await refusal(
            Network(ca_file=authority.file), base.replace("127.0.0.1", "localhost")
        )
    assert said == "its TLS certificate was not accepted: it is for another host"


@both_loops
async def test_a_port_without_tls_is_said() -> None:
    async def answer_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(9)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()

    async with listening(answer_plainly) as base:
        said = await refusal(DIRECT, base.replace("http://127.0.0.1", "https://localhost"))
    assert said == "its TLS handshake failed: there is no TLS on that port"


@pytest.fixture(scope="module")
def hashed(authority: Authority) -> Path:
    """A folder of authorities, as OpenSSL has them: by a hash of their names."""
    command = ["openssl", "x509", "-noout", "-subject_hash", "-in", str(authority.file)]
    name = subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
    folder = authority.file.parent / "hashed"
    folder.mkdir()
    shutil.copy(authority.file, folder / f"{name}.0")
    return folder


@on_uvloop
async def test_authorities_of_the_environment_are_honoured(
    authority: Authority, hashed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening(serve, authority.server("localhost")) as base:
        url = base.replace("127.0.0.1", "localhost")
        for variable, value in (("SSL_CERT_FILE", authority.file), ("SSL_CERT_DIR", hashed)):
            with monkeypatch.context() as patched:
                for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
                    patched.setenv(name, "/nonexistent")
                patched.setenv(variable, str(value))
                assert await ask(DIRECT, url) == b"ok"


@asynccontextmanager
async def wanting_clients(context: ssl.SSLContext) -> AsyncIterator[int]:
    """The port of a server whose refusals arrive: it closes after its client."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            connection, _ = listener.accept()
            with context.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            ) as tls:
                try:
                    tls.do_handshake()
                except ssl.SSLError:
                    with contextlib.suppress(OSError):
                        while os.read(tls.fileno(), 4096):
                            pass
                else:
                    tls.recv(4096)
                    tls.sendall(ANSWER)
                    tls.recv(4096)

        serving = asyncio.ensure_future(asyncio.to_thread(run))
        yield listener.getsockname()[1]
        await serving


@both_loops
async def test_a_client_certificate_is_shown_to_who_asks_for_it(authority: Authority) -> None:
    certificate, key = authority.client()
    network = Network(ca_file=authority.file, client_cert=certificate, client_key=key)
    async with wanting_clients(authority.server("localhost", wants_clients=True)) as port:
        assert await ask(network, f"https://localhost:{port}/") == b"ok"


@on_uvloop
async def test_a_server_that_wants_a_client_certificate_is_understood(authority: Authority) -> None:
    async with wanting_clients(authority.server("localhost", wants_clients=True)) as port:
        with pytest.raises(
            UpstreamError,
            match="it asks for a client certificate; the setting client-cert gives one",
        ):
            await ask(Network(ca_file=authority.file), f"https://localhost:{port}/")


@on_uvloop
async def test_a_client_certificate_of_nobody_is_said(authority: Authority, tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).client()
    network = Network(ca_file=authority.file, client_cert=certificate, client_key=key)
    async with wanting_clients(authority.server("localhost", wants_clients=True)) as port:
        with pytest.raises(UpstreamError, match="it did not accept the client certificate"):
            await ask(network, f"https://localhost:{port}/")


@on_uvloop
async def test_an_upstream_may_be_a_unix_socket(tmp_path: Path) -> None:
    path, heads = tmp_path / "An LLM.sock", list[bytes]()

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(ANSWER)
        writer.close()
        left.set()

    left, quoted = asyncio.Event(), str(path).replace("/", "%2F").replace(" ", "%20")
    async with await asyncio.start_unix_server(note, path):
        async with proxied(tmp_path, f"http+unix://{quoted}/v1") as proxy:
            for _ in range(2):
                response = await proxy.ask(get("/v1/models?x=%2f"))
                assert (response.status, response.body) == (b"200 OK", b"ok")
        await left.wait()
    assert [each.split(b"\r\n")[:2] for each in heads] == [
        [b"GET /v1/models?x=%2f HTTP/1.1", b"host: localhost"]
    ] * 2


@both_loops
async def test_a_socket_that_is_not_there_is_said(tmp_path: Path) -> None:
    async with proxied(tmp_path, "http+unix://%2Fnowhere%2Fllm.sock") as proxy:
        response = await proxy.ask(get("/v1/models"))
    assert response.status == b"502 Bad Gateway"
    assert (
        b"(http+unix://%2Fnowhere%2Fllm.sock) could not be reached: No such file or directory."
        in response.body
    )
    assert proxy.tapes()[0].outcome == "upstream_unreachable"
