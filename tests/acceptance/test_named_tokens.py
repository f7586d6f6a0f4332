"""A recorder that several people use, as it runs: a token that is taken away, and where none is
found.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import httpx
import pytest

from tests.support.event_loop import on_uvloop
from tests.support.logbook import entries
from tests.support.proxy import OFFER, SWITCHED, Listener, get
from tests.support.server import everywhere, run, serving
from tests.support.sockets import (
    STREAM_HEAD,
    Action,
    RawClient,
    ScriptedUpstream,
    Send,
    Stall,
    answer,
    chunked,
)

EVENT = b"data: 1\n\n"
STREAM: list[Action] = [Send(STREAM_HEAD + chunked(EVENT)), Stall()]
# of an agent that a provider hosts: open for hours
SESSION = "/anthropic/v1/sessions/sesn_1/events/stream"

REVOKED_S = 5.0


def made(tokens: Path, name: str) -> str:
    return run(tokens, "token", "add", name, "--file", tokens).text.strip()


async def streaming(port: int, target: str, *lines: bytes, method: str = "GET") -> RawClient:
    """A client that has the first event of a stream which does not end."""
    client = await RawClient.connect(port)
    await client.send(get(target, *lines, method=method))
    await client.read_until(EVENT + b"\r\n")
    return client


async def talking(port: int, target: str, upstream: Listener) -> tuple[RawClient, RawClient]:
    """A client with a WebSocket, and its upstream."""
    client = await RawClient.connect(port)
    await client.send(get(target, *OFFER))
    server = await upstream.accept()
    await server.read_until(b"\r\n\r\n")
    await server.send(SWITCHED)
    await client.read_until(b"\r\n\r\n")
    return client, server


async def is_cut_off(client: RawClient) -> bool:
    """Whether a client sees that its response, which has no end, ends."""
    try:
        return await client.read() == b""
    except ConnectionResetError:
        return True


@pytest.mark.timed
@on_uvloop
async def test_what_is_open_of_a_token_ends_when_that_is_revoked(tmp_path: Path) -> None:
    tokens, db = tmp_path / "tokens.json", tmp_path / "log.db"
    ann, bob = made(tokens, "ann"), made(tokens, "bob")
    async with ScriptedUpstream(STREAM) as streams, Listener() as sockets:
        at = ("--upstream", f"anthropic={streams.base}", "--upstream", f"openai={sockets.base}")
        with serving(db, "--tokens", str(tokens), *at) as serve:
            shown = b"X-Recorder-Token: " + ann.encode()
            of_ann = [
                await streaming(serve.port, "/anthropic/v1/messages", shown, method="POST"),
                await streaming(serve.port, f"/t/{ann}{SESSION}"),
            ]
            client, server = await talking(serve.port, f"/t/{ann}/openai/v1/responses", sockets)
            of_bob = await streaming(serve.port, f"/t/{bob}{SESSION}")
            began_s = time.monotonic()
            assert run(tokens, "token", "revoke", "ann", "--file", tokens).code == 0
            for each in (*of_ann, client):
                assert await is_cut_off(each)
            assert time.monotonic() - began_s < REVOKED_S
            assert of_bob.is_silent()
            for each in (*of_ann, client, server, of_bob):
                each.socket.close()
    statuses = sorted(entry.end["status"] for entry in entries(db))
    assert statuses == ["client_disconnect", *["token_revoked"] * 3]


TARGETS = (
    *("/v1/responses", "/v1/sessions/sesn_1/events", "/s/run/v1/models?a=/t/"),
    *("/nowhere", "/v1/../x", "//x", "/_recorder/nothing"),  # errors, which may quote the path
)


@on_uvloop
async def test_a_token_in_a_path_is_found_nowhere(tmp_path: Path) -> None:
    """The whole folder of the recorder is searched, and all that it says."""
    tokens, db = tmp_path / "tokens.json", tmp_path / "log.db"
    ann, bob = made(tokens, "ann"), made(tokens, "bob")
    async with ScriptedUpstream(answer(b"{}")) as upstream, Listener() as sockets:
        at = (*everywhere(upstream.base), "--upstream", f"live={sockets.base}", "--admin-port", "0")
        with serving(
            db, "--tokens", str(tokens), *at, variables={"XDG_DATA_HOME": str(tmp_path / "data")}
        ) as serve:
            answers = b""
            for target in TARGETS:
                async with await RawClient.connect(serve.port) as client:
                    await client.send(get(f"/t/{ann}{target}"))
                    answers += (await client.response()).body
            client, server = await talking(serve.port, f"/t/{bob}/live/v1/realtime", sockets)
            [admin] = re.findall(r"Metrics and health on (\S+)", serve.said)
            async with httpx.AsyncClient() as http:
                answers += (await http.get(f"{admin}/metrics")).content + (
                    await http.get(f"{admin}/healthz")
                ).content
            upstream_saw = b"".join(upstream.requests)
            # with its journal
            kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
            client.socket.close()
            server.socket.close()
        kept += b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert len(entries(db)) == len(upstream.requests) + 1 == 4
    for token in (ann, bob):
        for place in (kept, serve.said.encode(), answers, upstream_saw):
            assert token.encode() not in place
