"""Web pages and forward-proxy requests: answered by us, over real sockets, and no upstream hears of
them.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from recorder.commands.serving.listening import refuse_itself
from recorder.errors import UsageError
from recorder.proxy.routing import Upstream
from tests.support.event_loop import on_uvloop
from tests.support.proxy import proxied
from tests.support.sockets import RawClient, RawResponse, ScriptedUpstream, answer
from tests.support.upstreams import SERVERS

# -- DNS rebinding and cross-site requests

OURS = ("127.0.0.1:8787", "localhost", "[::1]:8787")
THEIRS = (
    "evil.test",
    "localhost.evil.test",
    "127.0.0.1.evil.test",
    "169.254.169.254",
    "0.0.0.0",
    "10.0.0.1:8787",
)
ORIGINS = (None, "null", "http://localhost", "http://127.0.0.1:8787", "https://evil.test")
SITES = (None, "none", "same-origin", "same-site", "cross-site", "nonsense")
METHODS = ("GET", "POST", "DELETE")


async def ask(port: int, method: str, target: str, *lines: str, body: bytes = b"") -> RawResponse:
    head = [f"{method} {target} HTTP/1.1", *lines, f"Content-Length: {len(body)}", "", ""]
    async with await RawClient.connect(port) as client:
        await client.send("\r\n".join(head).encode() + body)
        return await client.response(to_head=method == "HEAD")


@pytest.mark.long
@pytest.mark.parametrize("server", SERVERS)
@on_uvloop
async def test_only_what_no_web_page_can_send_gets_through(tmp_path: Path, server: str) -> None:
    wrong = {}
    async with (
        ScriptedUpstream(answer(b"{}")) as upstream,
        SERVERS[server](tmp_path, upstream.base) as port,
    ):
        for cell in product(METHODS, (*OURS, *THEIRS), ORIGINS, SITES):
            method, host, origin, site = cell
            lines = [f"Host: {host}", *([f"Origin: {origin}"] if origin else []), *_site(site)]
            before = upstream.connections
            response = await ask(port, method, "/openai/v1/x", *lines)
            is_client = host in OURS and origin is None and site in (None, "none", "same-origin")
            status = b"200" if is_client else b"403"
            if response.status[:3] != status or (upstream.connections > before and not is_client):
                wrong[cell] = response.status
            assert not any(name.startswith(b"access-control-") for name, _ in response.headers)
        assert len(upstream.requests) == len(METHODS) * len(OURS) * 3
    assert wrong == {}


def _site(site: str | None) -> list[str]:
    return [] if site is None else [f"Sec-Fetch-Site: {site}", "Sec-Fetch-Mode: cors"]


PAGES = ("/_recorder/healthz", "/_recorder/requests", "/_recorder/x")


@pytest.mark.parametrize("server", SERVERS)
@on_uvloop
async def test_no_web_page_reads_our_own_pages_or_gets_leave_to(
    tmp_path: Path, server: str
) -> None:
    attacks = [
        ["Host: evil.test"],
        ["Host: localhost", "Origin: https://evil.test"],
        ["Host: localhost", *_site("cross-site")],
    ]
    leave = ["Access-Control-Request-Method: POST", "Access-Control-Request-Private-Network: true"]
    async with (
        ScriptedUpstream(answer(b"{}")) as upstream,
        SERVERS[server](tmp_path, upstream.base) as port,
    ):
        for target, lines, method in product(PAGES, attacks, ("GET", "HEAD", "POST")):
            assert (await ask(port, method, target, *lines)).status[:3] == b"403", (
                method,
                target,
                lines,
            )
        for target, lines in product(("/v1/x", *PAGES), attacks):
            response = await ask(port, "OPTIONS", target, *lines, *leave)
            assert response.status[:3] in (b"403", b"405")
            assert not any(name.startswith(b"access-control-") for name, _ in response.headers)
        assert upstream.connections == 0


CLIENTS = {
    "openai-python": (
        "Host: 127.0.0.1:8787",
        "User-Agent: OpenAI/Python 3.51.0",
        "X-Stainless-Lang: python",
    ),
    "anthropic-node": (
        *(
            "Host: localhost:8787",
            "anthropic-version: 2023-06-01",
            "anthropic-dangerous-direct-browser-access: true",
        ),
        *("Accept-Language: *", "Sec-Fetch-Mode: cors", "X-Stainless-Runtime: node"),
    ),
    "google-genai": (
        "Host: localhost:8787",
        "x-goog-api-key: k",
        "x-goog-api-client: google-genai-sdk/3.3",
    ),
    "codex": (
        "Host: 127.0.0.1:8787",
        "originator: codex_exec",
        "session_id: 0",
        "chatgpt-account-id: a",
    ),
    "curl": ("Host: localhost:8787", "Accept: */*", "User-Agent: curl/8.5.0"),
    "a typed address": (
        "Host: 127.0.0.1:8787",
        "Sec-Fetch-Site: none",
        "Sec-Fetch-Mode: navigate",
        "Cookie: a=b",
    ),
}


@pytest.mark.parametrize("server", SERVERS)
@on_uvloop
async def test_clients_get_through(tmp_path: Path, server: str) -> None:
    async with (
        ScriptedUpstream(answer(b"{}")) as upstream,
        SERVERS[server](tmp_path, upstream.base) as port,
    ):
        statuses = {
            name: (await ask(port, "POST", "/openai/v1/x", *lines)).status
            for name, lines in CLIENTS.items()
        }
    assert statuses == dict.fromkeys(CLIENTS, b"200 OK")


# -- no open proxy

TARGETS = r"""
http://{there}/ http://{there}/v1/x https://{there}/v1/x http://localhost@{there}/v1/x
//{there}/v1/x ///{there}/v1/x /%2F%2F{there}/v1/x /%2f{there}/v1/x /\\{there}/v1/x /\{there}/x
/@{there}/v1/x /v1/@{there}/x /openai@{there}/v1/x /openai:80@{there}/v1/x /.{there}/v1/x
/openai/@{there}/x /openai/http://{there}/x /http://{there}/v1/x /http:%2f%2f{there}/v1/x
/v1/../{there}/x /openai/../../{there}/x /openai/..%2f..%2f{there}/x /%2e%2e/{there}/x
/..;/{there}/x /openai/..//{there}/x /s/x/http://{there}/v1/x /s/@{there}/v1/x /s/%2F%2F{there}/v1/x
/s//{there}/v1 /openai//{there}/v1/x /openai?url=http://{there}/ /v1/x?base_url=http://{there}
/v1/x#@{there}/ /{there}/v1/x {there} {there}/v1/x /v1/x%0d%0aHost:%20{there} /v1/x%00@{there}
/openai%00.{there}/x
"""
LINES = """\
X-Forwarded-Host: {there}
X-Forwarded-Server: {there}
Forwarded: host={there}
X-Original-URL: http://{there}/
X-Rewrite-URL: http://{there}/
X-Host: {there}
Referer: http://{there}/
X-Upstream: http://{there}
X-Recorder-Session: http://{there}/
X-Recorder-Upstream: http://{there}
Destination: http://{there}/
Refresh: 0; url=http://{there}/
Proxy-Authorization: Basic eDp5
Via: 1.1 {there}
""".splitlines()


@on_uvloop
async def test_no_request_reaches_an_address_that_is_not_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = TARGETS.split()
    async with ScriptedUpstream(answer(b"")) as canary, ScriptedUpstream(answer(b"")) as upstream:
        for variable in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(variable, canary.base)
        there = f"127.0.0.1:{canary.port}"
        async with proxied(
            tmp_path,
            upstream.base,
            more=[Upstream("anthropic", upstream.base), Upstream("gemini", upstream.base)],
        ) as proxy:
            for target, method in product(targets, ("GET", "POST", "CONNECT")):
                await ask(proxy.server.port, method, target.format(there=there), "Host: localhost")
            for line in LINES:
                await ask(
                    proxy.server.port, "GET", "/v1/x", "Host: localhost", line.format(there=there)
                )
            assert (await ask(proxy.server.port, "CONNECT", there, f"Host: {there}")).status[
                :3
            ] in (
                b"400",
                b"403",
                b"405",
            )
            assert (await ask(proxy.server.port, "GET", "/v1/x", f"Host: {there[:-1]}x")).status[
                :3
            ] in (b"400", b"403")
    assert canary.connections == 0
    assert len(upstream.requests) > len(targets), "the search looks in the wrong place"


@pytest.mark.parametrize("status", [b"302 Found", b"308 Permanent"])
@on_uvloop
async def test_a_redirect_is_the_client_s_to_follow(tmp_path: Path, status: bytes) -> None:
    async with ScriptedUpstream(answer(b"")) as canary:
        location = f"Location: {canary.base}/v1/x".encode()
        async with ScriptedUpstream(answer(b"", location, status=status)) as upstream:
            async with proxied(tmp_path, upstream.base) as proxy:
                response = await ask(
                    proxy.server.port, "POST", "/v1/x", "Host: localhost", body=b"{}"
                )
        assert (response.status, response.header(b"location")) == (
            status,
            location.partition(b": ")[2],
        )
        assert (canary.connections, len(upstream.requests)) == (0, 1)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "LOCALHOST", "127.9.9.9", "[::1]", "a.localhost", "box.lan"]
)
def test_an_upstream_that_is_this_recorder_itself_is_refused(host: str) -> None:
    with pytest.raises(UsageError, match="itself"):
        refuse_itself([Upstream("openai", f"http://{host}:8787/v1")], 8787, {"box.lan"})
    refuse_itself([Upstream("openai", f"http://{host}:8788/v1")], 8787, {"box.lan"})
