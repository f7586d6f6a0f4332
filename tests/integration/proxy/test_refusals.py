"""What the proxy answers itself, over real sockets: no such request reaches an upstream."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from recorder.journal.format import Mark
from recorder.proxy.routing import Upstream
from tests.support.event_loop import DEADLINE_S, on_uvloop
from tests.support.proxy import get, proxied
from tests.support.sockets import ScriptedUpstream, Stall, answer, chunked


@on_uvloop
async def test_websocket_that_is_turned_off_is_answered_426_without_the_upstream(
    tmp_path: Path,
) -> None:
    upgrade = (
        b"Connection: Upgrade",
        b"Upgrade: websocket",
        b"Sec-WebSocket-Key: x",
        b"Sec-WebSocket-Version: 13",
    )
    async with (
        ScriptedUpstream(answer(b"")) as upstream,
        proxied(tmp_path, upstream.base, websocket=False) as proxy,
    ):
        response = await proxy.ask(get("/v1/responses", *upgrade))
        assert response.status == b"426 Upgrade Required"
        assert b"SSE" in response.body
        assert (upstream.connections, proxy.tapes()) == (0, [])


@on_uvloop
async def test_a_body_over_the_limit_is_a_413_that_says_what_to_do(tmp_path: Path) -> None:
    async with ScriptedUpstream(answer(b"")) as upstream:
        async with proxied(tmp_path, upstream.base, body_limit_bytes=2**20) as proxy:
            response = await proxy.ask(get("/v1/x", b"Content-Length: 1048577", method="POST"))
            assert response.status.startswith(b"413 ")  # Python 3.13 has another name for it
            assert b"1 MiB" in response.body
            assert b"setting max-body" in response.body
            assert upstream.connections == 0


@on_uvloop
async def test_an_upload_that_passes_the_limit_on_its_way_is_a_413(tmp_path: Path) -> None:
    async with ScriptedUpstream([Stall()], read_request=False) as upstream:
        async with proxied(tmp_path, upstream.base, body_limit_bytes=2**20) as proxy:
            request = get("/v1/x", b"Transfer-Encoding: chunked", method="POST")
            response = await proxy.ask(request + chunked(b"x" * (2**20 + 1)))
            assert response.status.startswith(b"413")
            await asyncio.wait_for(upstream.gone.wait(), DEADLINE_S)
            (tape,) = proxy.tapes()
            assert tape.json[Mark.REQUEST_END] == {"complete": False}
            error = "The request body is over the limit of 1 MiB; see the setting max-body."
            assert tape.json[Mark.END] == {"outcome": "client_disconnect", "error": error}
            assert error.encode() in response.body


@on_uvloop
async def test_a_probe_of_a_path_that_no_api_has_is_a_404_and_no_exchange(tmp_path: Path) -> None:
    """Claude Code asks HEAD /api/hello when it starts: that is not affair of the upstream that
    others are sent to.
    """
    async with ScriptedUpstream(answer(b"")) as upstream, proxied(tmp_path, upstream.base) as proxy:
        assert (await proxy.ask(get("/api/hello", method="HEAD"))).status.startswith(b"404")
        assert (upstream.connections, proxy.tapes()) == (0, [])


@on_uvloop
async def test_health_is_ours(tmp_path: Path) -> None:
    async with ScriptedUpstream(answer(b"")) as upstream, proxied(tmp_path, upstream.base) as proxy:
        assert (await proxy.ask(get("/_recorder/healthz"))).body == b'{"status":"ok"}'
        assert (await proxy.ask(get("/_recorder/x"))).status.startswith(b"404")
        assert upstream.connections == 0


@pytest.mark.parametrize(
    "target", ["/locl/v1/responses", "/s/run/locl/v1/responses", "/api/hello", "/favicon.ico"]
)
@on_uvloop
async def test_a_path_that_belongs_to_nobody_is_a_404_that_lists_the_names(
    tmp_path: Path, target: str
) -> None:
    """D15."""
    async with ScriptedUpstream(answer(b"")) as upstream:
        more = [Upstream("local", upstream.base), Upstream("anthropic", upstream.base)]
        async with proxied(tmp_path, upstream.base, more=more) as proxy:
            key = (b"Authorization: Bearer sk-canary", b"anthropic-version: 2023-06-01")
            response = await proxy.ask(
                get(target, *key, method="POST", body=b'{"input": "a secret"}')
            )
            assert response.status.startswith(b"404")
            error = msgspec.json.decode(response.body)["error"]
            assert error["type"] == "unknown_path"
            assert "/openai, /anthropic, /gemini, /chatgpt, /local" in error["message"]
            assert (upstream.connections, proxy.tapes()) == (0, [])


@on_uvloop
async def test_a_browser_is_told_what_listens_here(tmp_path: Path) -> None:
    async with ScriptedUpstream(answer(b"")) as upstream, proxied(tmp_path, upstream.base) as proxy:
        async with await proxy.connect() as client:
            for method in ("HEAD", "GET"):
                await client.send(
                    get("/", b"Accept: text/html", b"Sec-Fetch-Site: none", method=method)
                )
                response = await client.response(to_head=method == "HEAD")
                assert response.status == b"200 OK"
                assert response.header(b"content-type") == b"text/plain; charset=utf-8"
        assert b"This is recorder" in response.body
        assert (upstream.connections, proxy.tapes()) == (0, [])


@on_uvloop
async def test_methods_of_other_kinds_of_proxy_are_not_forwarded(tmp_path: Path) -> None:
    async with ScriptedUpstream(answer(b"")) as upstream, proxied(tmp_path, upstream.base) as proxy:
        address = str(upstream.port).encode()
        for start in (
            b"CONNECT 127.0.0.1:" + address,
            b"CONNECT /v1/x",
            b"OPTIONS /v1/x",
            b"TRACE /v1/x",
        ):
            response = await proxy.ask(start + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert response.status[:3] in (b"400", b"405"), start
        assert upstream.connections == 0


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "begin its base URL with http://"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", "set it to HTTP/1.1"),
        (
            get("/v1/x", b"Origin: http://localhost:5173"),
            "let it in with --allow-origin http://localhost:5173.",
        ),
        (get("/v1/x", b"Origin: null"), "let it in with --allow-origin ORIGIN."),
        (get("/v1/x", b"Sec-Fetch-Site: cross-site"), "let it in with --allow-origin ORIGIN."),
        (
            get(
                "/v1/x",
                b"Origin: http://a.test",
                b"Access-Control-Request-Method: POST",
                method="OPTIONS",
            ),
            "let it in with --allow-origin http://a.test.",
        ),
        (b"nonsense\r\n\r\n", None),
        (get("/_recorder/healthz"), None),
    ],
)
@on_uvloop
async def test_what_a_client_does_not_show_is_said_here_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sent: bytes, words: str | None
) -> None:
    async with proxied(tmp_path, "http://127.0.0.1:1") as proxy:
        for _ in range(3):
            async with await proxy.connect() as client:
                await client.send(sent)
                await client.read()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == (0 if words is None else 1)
    assert words is None or words in said[0]
