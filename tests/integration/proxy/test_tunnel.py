"""WebSocket through a recorder: the bytes of both directions, how each ends, and what the journal
has of them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from recorder.journal.format import Gap, Mark
from recorder.proxy.tunnel import SERVICE_RESTART
from tests.support.event_loop import DEADLINE_S, POLL_S, both_loops, on_uvloop, turns
from tests.support.proxy import (
    OFFER,
    SWITCHED,
    Listener,
    Proxied,
    get,
    proxied,
    switched,
    tunnelled,
)
from tests.support.sockets import (
    KERNEL_BYTES,
    Action,
    Close,
    RawClient,
    Reset,
    ScriptedUpstream,
    Send,
    Serve,
    answer,
    listening,
    reset,
)

TEXT = b"\x81\x05hello"
MASKED = b"\x81\x85abcd\x09\x07\x0f\x08\x0e"


@pytest.mark.parametrize("strict", [False, True])
@both_loops
async def test_both_directions_pass_and_are_in_the_journal(tmp_path: Path, strict: bool) -> None:
    async with tunnelled(tmp_path, strict=strict) as tunnel:
        await tunnel.client.send(MASKED)
        assert await tunnel.upstream.exactly(len(MASKED)) == MASKED
        await tunnel.upstream.send(TEXT)
        assert await tunnel.client.exactly(len(TEXT)) == TEXT
        tunnel.client.socket.shutdown(1)
        assert await tunnel.upstream.rest() == b""
        await tunnel.upstream.send(TEXT)
        tunnel.upstream.socket.close()
        assert await tunnel.client.rest() == TEXT
        tape = await tunnel.tape()
    assert (tape.sent, tape.body, tape.outcome) == (MASKED, TEXT * 2, "eof")
    assert tape.fins == [Mark.CLIENT_CHUNK, Mark.CHUNK]
    assert tape.marks[:4] == [Mark.REQUEST, Mark.REQUEST_END, Mark.RESPONSE, Mark.CLIENT_CHUNK]
    assert tape.marks[-1] == Mark.END


@on_uvloop
async def test_the_handshake_passes_both_ways_with_its_headers(tmp_path: Path) -> None:
    async with tunnelled(tmp_path) as tunnel:
        lines = tunnel.head.lower().split(b"\r\n")
        assert lines[0] == b"get /v1/responses http/1.1"
        for line in (
            b"connection: upgrade",
            b"upgrade: websocket",
            *(each.lower() for each in OFFER[2:]),
        ):
            assert lines.count(line) == 1
        tape = tunnel.proxy.tapes()[0]
    response = tape.json[Mark.RESPONSE]
    assert (response["status"], response["reason"]) == (101, "Fine")
    assert ["Upgrade", "websocket"] in response["headers"]


@both_loops
async def test_what_came_with_the_heads_passes_too(tmp_path: Path) -> None:
    async with tunnelled(tmp_path, early=MASKED, first=TEXT) as tunnel:
        assert await tunnel.client.exactly(len(TEXT)) == TEXT
        assert await tunnel.upstream.exactly(len(MASKED)) == MASKED
        reset(tunnel.client.socket)
        tape = await tunnel.tape()
    assert (tape.sent, tape.body) == (MASKED, TEXT)


@on_uvloop
async def test_no_byte_goes_up_before_the_101(tmp_path: Path) -> None:
    async with (
        Listener() as listener,
        proxied(tmp_path, listener.base) as proxy,
        await proxy.connect() as client,
    ):
        await client.send(get("/v1/responses", *OFFER) + MASKED)
        async with await listener.accept() as upstream:
            await upstream.read_until(b"\r\n\r\n")
            await turns()
            assert upstream.is_silent()
            await upstream.send(SWITCHED)
            assert await upstream.exactly(len(MASKED)) == MASKED


@pytest.mark.parametrize("strict", [False, True])
@both_loops
async def test_the_upstream_may_end_its_direction_first(tmp_path: Path, strict: bool) -> None:
    async with tunnelled(tmp_path, strict=strict) as tunnel:
        await tunnel.upstream.send(TEXT)
        tunnel.upstream.socket.shutdown(1)
        assert await tunnel.client.rest() == TEXT
        await tunnel.client.send(MASKED)
        assert await tunnel.upstream.exactly(len(MASKED)) == MASKED
        assert tunnel.proxy.tapes()[0].outcome is None, "the other direction goes on"
        tunnel.client.socket.close()
        assert await tunnel.upstream.rest() == b""
        tape = await tunnel.tape()
    assert (tape.sent, tape.fins, tape.outcome) == (MASKED, [Mark.CHUNK, Mark.CLIENT_CHUNK], "eof")


@pytest.mark.parametrize("strict", [False, True])
@both_loops
async def test_a_reset_of_the_upstream_is_one_for_the_client(tmp_path: Path, strict: bool) -> None:
    async with tunnelled(tmp_path, strict=strict) as tunnel:
        await tunnel.upstream.send(TEXT)
        assert await tunnel.client.exactly(len(TEXT)) == TEXT
        reset(tunnel.upstream.socket)
        with pytest.raises(ConnectionResetError):
            await tunnel.client.read()
        tape = await tunnel.tape()
    assert (tape.body, tape.fins, tape.outcome) == (TEXT, [], "upstream_reset")


@both_loops
async def test_an_upstream_that_has_closed_and_resets_then_is_a_reset_for_the_client(
    tmp_path: Path,
) -> None:
    async with tunnelled(tmp_path) as tunnel:
        tunnel.upstream.socket.shutdown(1)
        assert await tunnel.client.rest() == b""
        reset(tunnel.upstream.socket)
        with pytest.raises(ConnectionError):
            await _until_it_breaks(tunnel.client)
        tape = await tunnel.tape()
    assert (tape.fins, tape.outcome) == ([Mark.CHUNK], "upstream_reset")


async def _until_it_breaks(client: RawClient) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            await client.send(MASKED)
            await asyncio.sleep(POLL_S)


@both_loops
async def test_a_reset_of_the_client_is_one_for_the_upstream(tmp_path: Path) -> None:
    async with tunnelled(tmp_path) as tunnel:
        await tunnel.client.send(MASKED)
        assert await tunnel.upstream.exactly(len(MASKED)) == MASKED
        reset(tunnel.client.socket)
        with pytest.raises(ConnectionResetError):
            await tunnel.upstream.read()
        tape = await tunnel.tape()
    assert (tape.sent, tape.fins, tape.outcome) == (MASKED, [], "client_disconnect")


@both_loops
async def test_what_is_not_taken_yet_is_not_lost_at_the_end(tmp_path: Path) -> None:
    size = 3_000_000
    async with tunnelled(tmp_path) as tunnel, asyncio.TaskGroup() as tasks:
        tasks.create_task(_send_and_end(tunnel.client, bytes(size)))
        tasks.create_task(_send_and_end(tunnel.upstream, b"x" * size))
        await turns(200)  # until both sides have as much as fits on the way
        assert [len(await peer.rest()) for peer in (tunnel.upstream, tunnel.client)] == [size, size]
        tape = await tunnel.tape()
    assert (len(tape.sent), len(tape.body), tape.outcome) == (size, size, "eof")


async def _send_and_end(peer: RawClient, data: bytes) -> None:
    await peer.send(data)
    peer.socket.shutdown(1)


# -- no tunnel


@on_uvloop
async def test_another_answer_passes_as_it_is_and_the_connections_go_on(tmp_path: Path) -> None:
    refusal = answer(b"no", b"X-Why: full", status=b"429 Too Many Requests")
    async with (
        ScriptedUpstream(refusal, answer(b"yes")) as upstream,
        proxied(tmp_path, upstream.base) as proxy,
    ):
        async with await proxy.connect() as client:
            await client.send(get("/v1/responses", *OFFER))
            response = await client.response()
            assert (response.status, response.header(b"x-why"), response.body) == (
                *(b"429 Too Many Requests", b"full"),
                b"no",
            )
            await client.send(get("/v1/models"))
            assert (await client.response()).body == b"yes"
        assert upstream.connections == 1, "it was kept: nothing was switched"
        first, second = proxy.tapes()
    assert (first.body, first.outcome, second.body, second.outcome) == (b"no", "eof", b"yes", "eof")


@pytest.mark.parametrize("end", [Reset(), Close()])
@on_uvloop
async def test_an_upstream_that_goes_before_its_101_is_a_502(
    tmp_path: Path, end: Reset | Close
) -> None:
    async with ScriptedUpstream([end]) as upstream, proxied(tmp_path, upstream.base) as proxy:
        response = await proxy.ask(get("/v1/responses", *OFFER))
        assert response.status == b"502 Bad Gateway"


@on_uvloop
async def test_a_101_that_nobody_asked_for_passes_and_what_the_upstream_sends_after_it(
    tmp_path: Path,
) -> None:
    script: list[Action] = [Send(SWITCHED + b"raw"), Send(b" bytes"), Close()]
    async with ScriptedUpstream(script) as upstream, proxied(tmp_path, upstream.base) as proxy:
        async with await proxy.connect() as client:
            await client.send(get("/v1/models"))
            assert await client.rest() == SWITCHED + b"raw bytes"
        tape = await proxy.ended()
        assert upstream.connections == 1
    assert (tape.json[Mark.RESPONSE]["status"], tape.body, tape.outcome) == (
        101,
        b"raw bytes",
        "eof",
    )


@pytest.mark.parametrize("framing", [b"Content-Length: 8", b"Transfer-Encoding: chunked"])
@on_uvloop
async def test_what_follows_a_101_that_nobody_asked_for_does_not_go_up_as_the_rest_of_a_body(
    tmp_path: Path, framing: bytes
) -> None:
    begun, rest = (b"4\r\nbody\r\n", b"0\r\n\r\n") if b"chunked" in framing else (b"body", b"rest")
    async with (
        Listener() as listener,
        proxied(tmp_path, listener.base) as proxy,
        await proxy.connect() as client,
    ):
        await client.send(get("/v1/responses", framing, method="POST") + begun)
        async with await listener.accept() as upstream:
            await upstream.read_until(begun)
            await upstream.send(SWITCHED + TEXT)
            assert await client.exactly(len(SWITCHED + TEXT)) == SWITCHED + TEXT
            await client.send(rest + get("/next", b"Authorization: Bearer next"))
            await turns()
            assert upstream.is_silent()


@on_uvloop
async def test_a_101_of_a_stranger_protocol_is_passed_on(tmp_path: Path) -> None:
    wrong = SWITCHED.replace(b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", b"wrong").replace(
        b"Upgrade: websocket", b"Upgrade: foo"
    )
    async with (
        Listener() as listener,
        proxied(tmp_path, listener.base) as proxy,
        await proxy.connect() as client,
    ):
        await client.send(get("/v1/responses", *OFFER))
        async with await listener.accept() as upstream:
            await upstream.read_until(b"\r\n\r\n")
            await upstream.send(wrong + b"\xff\xff not a frame")
            assert await client.read_until(b"not a frame") == wrong + b"\xff\xff not a frame"


@pytest.mark.parametrize(
    "header",
    [
        b"Origin: https://evil.example",
        b"Sec-Fetch-Site: cross-site",
        b"Origin: null",
        b"Host: evil.example",
    ],
)
@on_uvloop
async def test_a_browser_is_refused_before_any_upstream_hears_of_it(
    tmp_path: Path, header: bytes
) -> None:
    async with Listener() as listener, proxied(tmp_path, listener.base) as proxy:
        request = get("/v1/responses", *OFFER, header)
        if header.startswith(b"Host"):
            request = request.replace(b"Host: 127.0.0.1:8787\r\n", b"")
        response = await proxy.ask(request)
        assert response.status == b"403 Forbidden"
        assert listener.is_silent()
        assert proxy.tapes() == []


# -- pressure


@on_uvloop
async def test_a_connection_is_never_used_again_after_a_tunnel(tmp_path: Path) -> None:
    async with Listener() as listener, proxied(tmp_path, listener.base) as proxy:
        for _ in range(2):
            tunnel = await switched(proxy, listener)
            async with tunnel.client, tunnel.upstream:
                await tunnel.end()


@pytest.mark.long
@pytest.mark.parametrize("slow", ["client", "upstream"])
@both_loops
async def test_a_slow_side_holds_the_other_back_and_delays_nobody_else(
    tmp_path: Path, slow: str
) -> None:
    async with Listener() as listener, proxied(tmp_path, listener.base) as proxy:
        stuck, other = await switched(proxy, listener), await switched(proxy, listener)
        async with stuck.client, stuck.upstream, other.client, other.upstream:
            fast = stuck.upstream if slow == "client" else stuck.client
            assert await fast.flood(2 * KERNEL_BYTES) < KERNEL_BYTES, (
                "more than the kernel holds is somewhere"
            )
            for _ in range(20):
                await other.upstream.send(TEXT)
                assert await other.client.exactly(len(TEXT)) == TEXT
                await other.client.send(MASKED)
                assert await other.upstream.exactly(len(MASKED)) == MASKED
            tape = proxy.tapes()[0]
            assert len(tape.body) + len(tape.sent) < KERNEL_BYTES


# -- the end of the recorder


BIG = b"\x82\x7f" + (200_000).to_bytes(8) + b"x" * 200_000
FRAGMENTS = b"\x01\x03one" + b"\x89\x00" + b"\x00\x03two"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b""),
        (TEXT, b""),
        (FRAGMENTS, b""),
        (TEXT + BIG[:1], BIG[1:]),
        (BIG[:9], BIG[9:]),
        (BIG[:100_000], BIG[100_000:]),
        (TEXT + BIG[:10], BIG[10:] + TEXT),
    ],
)
@on_uvloop
async def test_a_client_is_asked_to_close_between_two_frames(
    tmp_path: Path, before: bytes, after: bytes
) -> None:
    frame = after.removesuffix(TEXT)
    async with tunnelled(tmp_path) as tunnel, asyncio.TaskGroup() as tasks:
        await tunnel.upstream.send(before)
        assert await tunnel.client.exactly(len(before)) == before
        tunnel.proxy.proxy.stop()
        if after:
            tasks.create_task(tunnel.upstream.send(after))
            assert await tunnel.client.exactly(len(frame)) == frame
        assert await tunnel.client.exactly(len(SERVICE_RESTART)) == SERVICE_RESTART
        close = b"\x88\x82\0\0\0\0\x03\xf4"
        await tunnel.client.send(close)
        assert await tunnel.upstream.exactly(len(close)) == close
        await tunnel.upstream.send(TEXT)
        tunnel.upstream.socket.shutdown(1)
        assert await tunnel.client.rest() == b"", "nothing follows our Close frame"
        tunnel.client.socket.shutdown(1)
        tape = await tunnel.tape()
    assert (tape.body, tape.sent, tape.outcome) == (before + after + TEXT, close, "eof")


@on_uvloop
async def test_a_client_that_the_upstream_has_told_to_close_is_told_so_once(tmp_path: Path) -> None:
    async with tunnelled(tmp_path) as tunnel:
        close = b"\x88\x02\x03\xe8"
        await tunnel.upstream.send(close)
        assert await tunnel.client.exactly(len(close)) == close
        tunnel.proxy.proxy.stop()
        tunnel.upstream.socket.shutdown(1)
        assert await tunnel.client.rest() == b""


@on_uvloop
async def test_a_tunnel_that_outlives_the_grace_ends_as_a_shutdown(tmp_path: Path) -> None:
    async with tunnelled(tmp_path) as tunnel:
        await tunnel.proxy.server.stop(0.05)
        assert await tunnel.client.exactly(len(SERVICE_RESTART)) == SERVICE_RESTART
        with pytest.raises(ConnectionResetError):
            await tunnel.client.read()
        assert (await tunnel.tape()).outcome == "recorder_shutdown"


@pytest.mark.parametrize("had_its_turn", [True, False])
@on_uvloop
async def test_a_tunnel_that_opens_while_the_recorder_stops_is_closed_at_once(
    tmp_path: Path, had_its_turn: bool
) -> None:
    async with (
        Listener() as listener,
        proxied(tmp_path, listener.base) as proxy,
        await proxy.connect() as client,
    ):
        if not had_its_turn:
            proxy.proxy.stop()
        await client.send(get("/v1/responses", *OFFER))
        async with await listener.accept() as upstream:
            if had_its_turn:
                proxy.proxy.stop()
            await upstream.send(SWITCHED)
            whole = SWITCHED + SERVICE_RESTART
            assert await client.exactly(len(whole)) == whole


# -- beside requests


@on_uvloop
async def test_the_limit_of_bodies_is_none_of_tunnels(tmp_path: Path) -> None:
    async with tunnelled(tmp_path, body_limit_bytes=1000) as tunnel, asyncio.TaskGroup() as tasks:
        tasks.create_task(tunnel.client.send(bytes(5000)))
        assert await tunnel.upstream.exactly(5000) == bytes(5000)


@on_uvloop
async def test_a_full_journal_costs_neither_side_anything_and_is_a_counted_gap_of_each(
    tmp_path: Path,
) -> None:
    async with tunnelled(tmp_path, journal_bytes=100_000) as tunnel:
        for _ in range(40):
            for sender, receiver in (
                (tunnel.client, tunnel.upstream),
                (tunnel.upstream, tunnel.client),
            ):
                await sender.send(bytes(5_000))
                assert await receiver.exactly(5_000) == bytes(5_000)
        await tunnel.end()
        tape = await tunnel.tape()
        reader, gaps = tunnel.proxy.reader(), list[Gap]()
        while records := reader.read(2**24):
            gaps += [
                msgspec.json.decode(record.payload, type=Gap)
                for record in records
                if record.mark == Mark.GAP
            ]
    lost = {
        mark: sum(gap.size_bytes for gap in gaps if gap.mark == mark)
        for mark in (Mark.CHUNK, Mark.CLIENT_CHUNK)
    }
    assert min(lost.values()) > 0
    assert len(tape.body) + lost[Mark.CHUNK] == len(tape.sent) + lost[Mark.CLIENT_CHUNK] == 200_000
    assert len(gaps) == 2, "one of each direction, however they take turns"
    assert tape.outcome == "eof"


# -- upstreams over TLS, which ends both directions at once


@asynccontextmanager
async def over_tls(
    folder: Path, certificate: Path, serve: Serve
) -> AsyncIterator[tuple[Proxied, RawClient]]:
    """A tunnel to an upstream that shakes hands, and serves then."""

    async def switch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(SWITCHED)
        await serve(reader, writer)

    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    async with (
        listening(switch, tls) as base,
        proxied(folder, base) as proxy,
        await proxy.connect() as client,
    ):
        await client.send(get("/v1/responses", *OFFER))
        assert await client.read_until(b"\r\n\r\n") == SWITCHED
        yield proxy, client


@both_loops
async def test_over_tls_the_end_of_the_client_is_that_of_the_connection(
    tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    heard = []

    async def answer_it(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(-1))

    async with over_tls(tmp_path, certificate, answer_it) as (proxy, client):
        await client.send(MASKED)
        client.socket.shutdown(1)
        assert await client.rest() == b""
        tape = await proxy.ended()
    assert heard == [MASKED]
    assert (tape.sent, tape.outcome, tape.fins[0]) == (MASKED, "eof", Mark.CLIENT_CHUNK)


@both_loops
async def test_over_tls_what_a_client_sends_after_the_upstreams_end_is_recorded(
    tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    async def answer_it(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(TEXT)

    async with over_tls(tmp_path, certificate, answer_it) as (proxy, client):
        assert await client.rest() == TEXT
        await client.send(MASKED)
        client.socket.shutdown(1)
        tape = await proxy.ended()
    assert (tape.sent, tape.body, tape.fins) == (MASKED, TEXT, [Mark.CHUNK, Mark.CLIENT_CHUNK])
