"""The way from the recorder to its upstreams: straight to the configured address, and to nobody who only claims it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.event_loop import on_uvloop
from tests.support.proxy import get, proxied
from tests.support.sockets import ScriptedUpstream, answer

IMPOSTOR = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgbvSMcGOFx1oH1XmA
wJHgHW2hk4Xj524NbngPmWGXdc+hRANCAAQakozVJnc1UTholwLyMqfAFvEWkv5q
8FtIvw3G4st7+PEL3y2YMIbZZ1XT7eGEhxJAeBdN/HBN8ZHXFpm+GXxU
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBmjCCAUGgAwIBAgIUUQATvmSyh9yNkDUP9LllXJ5B6wswCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMjAxMDkxMFoYDzIxMjYxMDI5
MDEwOTEwWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQakozVJnc1UTholwLyMqfAFvEWkv5q8FtIvw3G4st7+PEL3y2YMIbZ
Z1XT7eGEhxJAeBdN/HBN8ZHXFpm+GXxUo28wbTAdBgNVHQ4EFgQUoIWTcnDYWoSv
zXnCbBEXRIAg2UEwHwYDVR0jBBgwFoAUoIWTcnDYWoSvzXnCbBEXRIAg2UEwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDRwAwRAIgDy4qgUXVevma8fW5WsuxIIE3a8c7UOpvMqoRwCH5AU0CIBR3
wLeE6w72lJhiwNUJT/IDTUYgxTsLPtqZt3EG+cqT
-----END CERTIFICATE-----
"""
"""For localhost and 127.0.0.1, made for this test, signed by nobody that anybody trusts."""


@asynccontextmanager
async def behind_tls(folder: Path) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server whose certificate is not to be believed: its port, and what it was told."""
    told: list[bytes] = []
    (folder / "impostor.pem").write_text(IMPOSTOR)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "impostor.pem")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with listener:
        yield listener.sockets[0].getsockname()[1], told


@on_uvloop
async def test_an_upstream_with_a_certificate_of_nobody_is_told_nothing(tmp_path: Path) -> None:
    async with behind_tls(tmp_path) as (port, told):
        async with proxied(tmp_path, f"https://localhost:{port}") as proxy:
            response = await proxy.ask(get("/v1/x", b"Authorization: Bearer canary", method="POST", body=b"{}"))
        assert (response.status[:3], told) == (b"502", [])
        trusting = ssl.create_default_context(cafile=tmp_path / "impostor.pem")
        reader, writer = await asyncio.open_connection("localhost", port, ssl=trusting)
        writer.write(get())
        assert (await reader.readline()).startswith(b"HTTP/1.1 200"), "it answers who believes it"
        writer.close()


VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


@on_uvloop
async def test_no_variable_of_the_environment_leads_elsewhere(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        async with ScriptedUpstream(answer(b"")) as canary, ScriptedUpstream(answer(b"")) as upstream:
            for name in VARIABLES:
                patched.setenv(name, canary.base)
            patched.delenv("NO_PROXY", raising=False)
            patched.delenv("no_proxy", raising=False)
            async with proxied(tmp_path, upstream.base) as proxy:
                assert (await proxy.ask(get())).status == b"200 OK"
            assert (canary.connections, len(upstream.requests)) == (0, 1)
