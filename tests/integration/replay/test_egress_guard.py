"""The proxy that lets nobody out, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from recorder.replay.egress_guard import HEAD_BYTES, Refused, RefusingProxy
from tests.support.event_loop import DEADLINE_S, eventually, on_uvloop
from tests.support.sockets import ScriptedUpstream, Stall, answer


@asynccontextmanager
async def refusing() -> AsyncIterator[RefusingProxy]:
    proxy = RefusingProxy([("gateway.internal", "openai"), ("gateway.internal", "gemini")])
    await proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()


@pytest.fixture
async def proxy() -> AsyncIterator[RefusingProxy]:
    async with refusing() as proxy:
        yield proxy


async def talk(proxy: RefusingProxy, said: bytes) -> bytes:
    """What comes back until the proxy closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
    writer.write(said)
    writer.write_eof()
    try:
        return await asyncio.wait_for(reader.read(), DEADLINE_S)
    finally:
        writer.close()


async def test_a_tunnel_to_elsewhere_is_refused_and_its_host_named(proxy: RefusingProxy) -> None:
    said = await talk(
        proxy, b"CONNECT API.openai.com:443 HTTP/1.1\r\nHost: api.openai.com:443\r\n\r\n"
    )
    assert said.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert b"this is a replay, and api.openai.com is not asked in it" in said
    assert proxy.refused() == Refused(["api.openai.com"], {"api.openai.com": frozenset({"openai"})})


async def test_of_a_request_only_the_host_is_kept(proxy: RefusingProxy) -> None:
    line = b"POST http://user:canary@gateway.internal:8080/canary?key=canary HTTP/1.1"
    said = await talk(
        proxy,
        line + b"\r\nHost: gateway.internal\r\nX-Key: canary\r\nContent-Length: 6\r\n\r\ncanary",
    )
    assert said.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert b"canary" not in said
    assert proxy.refused() == Refused(
        ["gateway.internal"], {"gateway.internal": frozenset({"openai", "gemini"})}
    )
    assert "canary" not in repr(vars(proxy))


@on_uvloop
async def test_what_is_for_this_machine_passes() -> None:
    async with ScriptedUpstream(answer(b"here")) as upstream, refusing() as proxy:
        host = f"127.0.0.1:{upstream.port}".encode()
        plain = await talk(proxy, b"GET http://%b/x HTTP/1.1\r\nHost: %b\r\n\r\n" % (host, host))
        through = await talk(
            proxy, b"CONNECT %b HTTP/1.1\r\n\r\nGET /x HTTP/1.1\r\nHost: %b\r\n\r\n" % (host, host)
        )
    assert plain.endswith(b"\r\n\r\nhere")
    assert through.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert through.endswith(b"\r\n\r\nhere")
    assert [each.split(b" ")[1] for each in upstream.requests] == [b"http://%b/x" % host, b"/x"]
    assert proxy.refused() == Refused([], {})


async def test_a_connection_is_for_one_host(proxy: RefusingProxy) -> None:
    """As one of urllib3, which keeps a connection to a proxy for all hosts."""
    async with ScriptedUpstream(answer(b"here")) as upstream:
        host = f"127.0.0.1:{upstream.port}".encode()
        await talk(
            proxy,
            b"GET http://%b/x HTTP/1.1\r\nHost: %b\r\nConnection: Keep-Alive\r\n\r\n"
            % (host, host),
        )
        upgrade = b"Upgrade: x\r\nConnection: Upgrade\r\n"
        await talk(proxy, b"GET http://%b/y HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (host, host, upgrade))
    plain, upgraded = upstream.requests
    assert plain.endswith(b"Host: %b\r\nConnection: close\r\n\r\n" % host)
    assert upgraded.endswith(b"\r\n%b\r\n" % upgrade)


@on_uvloop
async def test_whoever_is_connected_when_it_stops_is_cut_off() -> None:
    async with ScriptedUpstream([Stall()]) as upstream:
        async with refusing() as proxy:
            line = b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n" % upstream.port
            talking = asyncio.ensure_future(
                talk(proxy, line + b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            )
            await eventually(lambda: bool(upstream.requests))
        with suppress(ConnectionResetError):
            assert (await talking).startswith(b"HTTP/1.1 200 ")
        await asyncio.wait_for(upstream.gone.wait(), DEADLINE_S)


async def test_a_port_of_this_machine_on_which_nobody_listens_is_a_502(
    proxy: RefusingProxy,
) -> None:
    assert (await talk(proxy, b"CONNECT localhost:1 HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 502 ")


NO_REQUESTS = [
    b"GET / HTTP/1.1\r\nHost: api.openai.com\r\n\r\n",
    b"CONNECT /x HTTP/1.1\r\n\r\n",
    b"CONNECT [x]:443 HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x02\x00\r\n\r\n",
    b"CONNECT api.openai.com:443 HTTP/1.1\r\n",
    b"CONNECT a.b:443 HTTP/1.1\r\nX: " + b"x" * HEAD_BYTES + b"\r\n\r\n",
]


async def test_what_is_no_request_to_a_proxy_goes_nowhere(proxy: RefusingProxy) -> None:
    for said in NO_REQUESTS:
        heard = await talk(proxy, said)
        assert heard == b"" or heard.startswith(b"HTTP/1.1 400 ")
    assert proxy.refused() == Refused([], {})


APIS = [
    *(
        "api.anthropic.com",
        "generativelanguage.googleapis.com",
        "cloudcode-pa.googleapis.com",
        "openrouter.ai",
    ),
    *("aiplatform.googleapis.com", "us-central1-aiplatform.googleapis.com", "x.openai.azure.com"),
    *("bedrock-runtime.us-east-1.amazonaws.com", "api.groq.com"),
]


async def test_hosts_of_apis_are_told_from_others(proxy: RefusingProxy) -> None:
    others = ["registry.npmjs.org", "chatgpt.com"]  # which Codex asks with any login
    others += [f"{host}.evil.test" for host in APIS]
    for name in (*APIS, *others):
        await talk(proxy, f"CONNECT {name}:443 HTTP/1.1\r\n\r\n".encode())
    assert proxy.refused().hosts == [*APIS, *others]
    assert proxy.refused().past(()) == APIS


async def test_an_api_that_was_asked_here_too_was_not_gone_past(proxy: RefusingProxy) -> None:
    for name in ("x.test", "api.anthropic.com", "openrouter.ai", "gateway.internal"):
        await talk(proxy, f"CONNECT {name}:443 HTTP/1.1\r\n\r\n".encode())
    assert proxy.refused().past({"chatgpt"}) == [
        "api.anthropic.com",
        "openrouter.ai",
        "gateway.internal",
    ]
    assert proxy.refused().past({"anthropic", "gemini"}) == ["openrouter.ai"]


@on_uvloop
async def test_a_name_below_localhost_is_this_machine_without_being_looked_up() -> None:
    async with ScriptedUpstream(answer(b"here")) as upstream, refusing() as proxy:
        host = f"nowhere.localhost:{upstream.port}".encode()
        said = await talk(proxy, b"GET http://%b/x HTTP/1.1\r\nHost: %b\r\n\r\n" % (host, host))
    assert said.endswith(b"\r\n\r\nhere")


def test_other_proxies_are_replaced_and_their_exceptions_kept() -> None:
    given = {"HTTPS_PROXY": "http://corporate:3128", "NO_PROXY": "other", "no_proxy": "internal"}
    found = {**given, **RefusingProxy().variables(given)}
    assert "corporate" not in json.dumps(found)
    assert found["NO_PROXY"] == found["no_proxy"] == "other,internal,127.0.0.1,localhost,::1"
