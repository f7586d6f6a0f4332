"""Clients of the server, one connection at a time: what HTTP/1.1 asks of it besides what the proxy
does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from pathlib import Path

import pytest

from recorder.journal.format import Mark
from recorder.proxy.http import server_connection
from recorder.proxy.http.server_exchange import Headers, ServerExchange
from tests.support.event_loop import (
    DEADLINE_S,
    Clock,
    both_loops,
    eventually,
    on_uvloop,
    settled,
    turns,
)
from tests.support.proxy import client_of, get, proxied, rss_bytes, served
from tests.support.sockets import (
    LAST_CHUNK,
    STREAM_HEAD,
    Action,
    Close,
    RawClient,
    ScriptedUpstream,
    Send,
    Wait,
    answer,
    chunked,
)

OLD = b"GET /v1/x HTTP/1.0\r\nHost: localhost\r\n\r\n"


async def reads(client: RawClient) -> list[bytes]:
    """What comes until the connection is closed, read by read."""
    found = []
    while data := await client.read():
        found.append(data)
    return found


async def path_back(incoming: ServerExchange) -> None:
    """An app that answers with the path of the request."""
    incoming.respond(200, [], incoming.path)


# -- the end of a body, for whoever knows no chunks


@on_uvloop
async def test_a_client_of_http_1_0_gets_a_body_that_ends_with_the_connection(
    tmp_path: Path,
) -> None:
    script = [
        Send(STREAM_HEAD + chunked(b"data: 1\n\n")),
        Send(chunked(b"data: 2\n\n") + LAST_CHUNK),
    ]
    async with ScriptedUpstream(script) as upstream, proxied(tmp_path, upstream.base) as proxy:
        async with await proxy.connect() as client:
            await client.send(OLD)
            head, _, body = b"".join(await reads(client)).partition(b"\r\n\r\n")
    assert (b"transfer-encoding" in head.lower(), b"\r\nconnection: close" in head.lower()) == (
        False,
        True,
    )
    assert body == b"data: 1\n\ndata: 2\n\n"


@on_uvloop
async def test_a_client_of_http_1_0_sees_that_a_body_broke_off(tmp_path: Path) -> None:
    script: list[Action] = [Send(STREAM_HEAD + chunked(b"data: 1\n\n")), Close()]
    async with ScriptedUpstream(script) as upstream, proxied(tmp_path, upstream.base) as proxy:
        async with await proxy.connect() as client:
            await client.send(OLD)
            with pytest.raises(ConnectionResetError):
                await reads(client)


# -- writes: a head goes with what there is of the body, an end with the last of it


@on_uvloop
async def test_an_answer_that_comes_at_once_goes_on_in_one_piece(tmp_path: Path) -> None:
    whole = STREAM_HEAD + chunked(b"data: 1\n\n") + LAST_CHUNK
    async with (
        ScriptedUpstream([Send(whole)]) as upstream,
        proxied(tmp_path, upstream.base) as proxy,
    ):
        async with await proxy.connect() as client:
            await client.send(get())
            began = await client.read()
            # the end is a turn of the loop later
            rest = b"" if began.endswith(LAST_CHUNK) else await client.read()
        (tape,) = proxy.tapes()
    assert began.partition(b"\r\n\r\n")[2] + rest == chunked(b"data: 1\n\n") + LAST_CHUNK
    assert rest in (b"", LAST_CHUNK)
    assert tape.marks == [Mark.REQUEST, Mark.REQUEST_END, Mark.RESPONSE, Mark.CHUNK, Mark.END]


@on_uvloop
async def test_the_last_event_goes_on_with_the_end(tmp_path: Path) -> None:
    end = asyncio.Event()
    script: list[Action] = [
        Send(STREAM_HEAD + chunked(b"data: 1\n\n")),
        Wait(end),
        Send(chunked(b"data: 2\n\n") + LAST_CHUNK),
    ]
    async with ScriptedUpstream(script) as upstream, proxied(tmp_path, upstream.base) as proxy:
        async with await proxy.connect() as client:
            await client.send(get())
            await client.read_until(chunked(b"data: 1\n\n"))
            end.set()
            assert await client.read() == chunked(b"data: 2\n\n") + LAST_CHUNK
        (tape,) = proxy.tapes()
    assert (tape.body, tape.outcome) == (b"data: 1\n\ndata: 2\n\n", "eof")


# -- the next request


@pytest.mark.parametrize("size", [0, 70_000, 3_000_000])
@on_uvloop
async def test_a_body_that_nobody_took_is_not_in_the_way_of_the_next_request(size: int) -> None:
    async with client_of(path_back) as client, asyncio.TaskGroup() as tasks:
        tasks.create_task(client.send(get("/a", method="POST", body=b"x" * size) + get("/b")))
        assert [(await client.response()).body for _ in range(2)] == [b"/a", b"/b"]


@pytest.mark.parametrize("what", ["body", "requests"])
@on_uvloop
async def test_what_nobody_takes_is_held_back(what: str) -> None:
    asked, go = [], asyncio.Event()

    async def app(incoming: ServerExchange) -> None:
        asked.append(incoming)
        await go.wait()
        while await incoming.read():
            pass
        incoming.respond(200, [], incoming.path)

    requests = {"body": get("/a", method="POST", body=b"x" * 2**23), "requests": get("/a") * 5_000}
    async with client_of(app) as client, asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(client.send(requests[what]))
        await eventually(lambda: bool(asked) and not asked[0].flow.transport.is_reading())
        assert (len(asked), asked[0].held_bytes < 2**20) == (1, True)
        go.set()  # and from then on it is read again
        for _ in range(1 if what == "body" else 5_000):
            assert (await client.response()).body == b"/a"
        await sending


# -- a client that asks and does not listen: what it is sent is bounded, and so is what is asked for
# on its behalf

ASKED = 3_000
LARGE = b"x" * 140_000  # as long as a list of models


@pytest.mark.long
@both_loops
async def test_requests_wait_until_the_client_takes_the_answers_before_them() -> None:
    asked: list[ServerExchange] = []

    async def app(incoming: ServerExchange) -> None:
        asked.append(incoming)
        incoming.respond(200, [], incoming.path + LARGE)

    async with client_of(app) as client, asyncio.TaskGroup() as tasks:
        tasks.create_task(client.send(b"".join(get(f"/{number}") for number in range(ASKED))))
        await eventually(lambda: bool(asked) and asked[-1].flow.write_paused)
        await settled(lambda: len(asked))
        held_bytes = asked[0].flow.transport.get_write_buffer_size()
        # what it may have before it is full, and one answer
        assert held_bytes <= 64 * 2**10 + len(LARGE) + 1000
        assert len(asked) < ASKED / 10, "the kernel holds some"
        for number in range(ASKED):
            assert (await client.response()).body == b"/%d" % number + LARGE


@both_loops
async def test_a_request_that_comes_while_the_client_takes_nothing_waits() -> None:
    asked: list[ServerExchange] = []

    async def app(incoming: ServerExchange) -> None:
        asked.append(incoming)
        incoming.respond(200, [], incoming.path + LARGE)

    def has_come(path: bytes) -> bool:
        return bool(asked) and asked[-1].path == path

    async with client_of(app) as client:
        while not (asked and asked[-1].flow.write_paused):
            path = f"/{len(asked)}"
            await client.send(get(path))
            await eventually(partial(has_come, path.encode()))
        before = len(asked)
        for number in range(before, before + 10):
            await client.send(get(f"/{number}"))
        await settled(lambda: len(asked))
        assert len(asked) == before
        for number in range(before + 10):
            assert (await client.response()).body == b"/%d" % number + LARGE


@both_loops
async def test_what_waits_when_the_server_stops_is_not_asked_any_more() -> None:
    asked: list[ServerExchange] = []

    async def app(incoming: ServerExchange) -> None:
        asked.append(incoming)
        incoming.respond(200, [], LARGE * 100)

    async with served(app) as server, await RawClient.connect(server.port) as client:
        await client.send(get("/a") + get("/b"))
        await eventually(lambda: bool(asked) and asked[0].flow.write_paused)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(server.stop(DEADLINE_S))
            assert len((await client.response()).body) == len(LARGE) * 100
            assert await client.read() == b""
    assert [incoming.path for incoming in asked] == [b"/a"]


async def test_a_client_that_takes_its_time_over_an_answer_is_not_late_with_what_it_asked_already(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, asked = Clock(monkeypatch), list[ServerExchange]()

    async def app(incoming: ServerExchange) -> None:
        asked.append(incoming)
        await incoming.read()
        incoming.respond(200, [], LARGE * 100)

    async with client_of(app) as client:
        await client.send(get("/a") + get("/b", method="POST", body=b"{}") + b"GET /c HTTP/1.1\r\n")
        await eventually(lambda: bool(asked) and asked[0].flow.write_paused)
        await clock.forward(1000)
        for _ in range(2):
            assert len((await client.response()).body) == len(LARGE) * 100


async def test_an_idle_client_is_kept_for_a_minute_and_not_for_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    async with client_of(path_back) as client:
        for _ in range(3):
            await clock.forward(60)
            await client.send(get())
            assert (await client.response()).status == b"200 OK"
        await clock.forward(120)
        assert await client.read() == b""


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="Only Linux says there what a process takes."
)
@on_uvloop
async def test_a_client_that_asks_and_does_not_listen_takes_little_memory_and_leaves_none_behind(
    tmp_path: Path,
) -> None:
    async with (
        ScriptedUpstream(answer(LARGE)) as upstream,
        proxied(tmp_path, upstream.base) as proxy,
    ):
        for _ in range(20):
            await proxy.ask(get())
        before = rss_bytes()
        async with await proxy.connect(receive_buffer=4096) as client, asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(client.send(get() * ASKED))
            await eventually(lambda: upstream.sent_bytes > 21 * len(LARGE))
            await settled(lambda: upstream.sent_bytes)
            assert upstream.sent_bytes < ASKED * len(LARGE) / 10
            assert rss_bytes() - before < 16 * 2**20
            sending.cancel()
        assert (await proxy.ask(get())).body == LARGE
        assert rss_bytes() - before < 16 * 2**20


@on_uvloop
async def test_who_is_answered_before_the_body_was_asked_for_is_let_go() -> None:
    """It was told nothing: it may send the body after all, or the next request."""

    async def app(incoming: ServerExchange) -> None:
        incoming.respond(403, [], b"no")

    async with client_of(app) as client:
        await client.send(get("/a", b"Expect: 100-Continue", b"Content-Length: 4", method="POST"))
        response = await client.response()
        assert (response.status[:3], response.header(b"connection")) == (b"403", b"close")
        assert await client.read() == b""


@pytest.mark.parametrize("coding", ["length", "chunked"])
@on_uvloop
async def test_an_offer_of_http_2_is_declined_and_the_request_answered(coding: str) -> None:
    """Java's client makes it with each first request.

    To httptools all that follows is that other protocol.
    """

    async def app(incoming: ServerExchange) -> None:
        body = b""
        while piece := await incoming.read():
            body += piece
        incoming.respond(200, [], b"%b %b" % (incoming.path, body))

    offer = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAEAAEAA")
    framed = (
        chunked(b"{") + chunked(b"}") + b"0\r\nTrailer: x\r\n\r\n" if coding == "chunked" else b"{}"
    )
    framing = b"Transfer-Encoding: chunked" if coding == "chunked" else b"Content-Length: 2"
    request = get("/a", *offer, framing, method="POST") + framed
    for cut in (len(request), len(request) - len(framed), len(request) - 3):
        async with client_of(app) as client:
            await client.send(request[:cut])
            await turns()
            await client.send(request[cut:] + get("/b") + request)
            assert [(await client.response()).body for _ in range(3)] == [
                b"/a {}",
                b"/b ",
                b"/a {}",
            ]


@on_uvloop
async def test_offers_in_a_row_are_all_declined() -> None:
    """As many as one read takes, and more than Python has frames."""
    async with client_of(path_back) as client, asyncio.TaskGroup() as tasks:
        tasks.create_task(client.send(get("/a", b"Connection: Upgrade", b"Upgrade: h2c") * 3_000))
        for _ in range(3_000):
            assert (await client.response()).body == b"/a"


@on_uvloop
async def test_nothing_is_answered_behind_a_connection_that_closes() -> None:
    async with client_of(path_back) as client:
        await client.send(get("/a", b"Connection: close") + get("/b"))
        assert (await client.response()).body == b"/a"
        assert await client.read() == b""


# -- apps that go wrong


@on_uvloop
async def test_an_app_that_fails_is_a_500_or_breaks_off(caplog: pytest.LogCaptureFixture) -> None:
    async def app(incoming: ServerExchange) -> None:
        if incoming.path == b"/late":
            incoming.start(200, [], first=b"begun")
        raise ZeroDivisionError

    for path, expected in (
        ("/early", (b"500 Internal Server Error", "complete")),
        ("/late", (b"200 OK", "closed")),
    ):
        async with client_of(app) as client:
            await client.send(get(path))
            response = await client.response()
            assert (response.status, response.ending) == expected
    assert [
        record.getMessage() for record in caplog.records if record.levelno == logging.ERROR
    ] == ["a request could not be answered: ZeroDivisionError"] * 2


@pytest.mark.parametrize("said", [4, 6])
@on_uvloop
async def test_a_body_of_another_length_than_was_said_is_cut_off(said: int) -> None:
    async def app(incoming: ServerExchange) -> None:
        incoming.start(200, [(b"content-length", b"%d" % said)])
        incoming.write(b"12345")
        incoming.finish()

    async with client_of(app) as client:
        await client.send(get())
        response = await client.response()
        assert (response.ending, len(response.body) < said) == ("closed", True)


@pytest.mark.parametrize(
    "header",
    [(b"x-a", b"1\r\nX-B: 2"), (b"x\n", b"1"), (b"x-a: 1", b"2"), (b"", b"1"), (b"x", b"\0")],
)
@on_uvloop
async def test_no_header_is_sent_that_is_read_as_something_else(
    header: tuple[bytes, bytes],
) -> None:
    headers: Headers = [(b"x-good", b"1"), header]

    async def app(incoming: ServerExchange) -> None:
        with pytest.raises(ValueError, match="none can have"):
            incoming.start(200, headers)
        incoming.respond(502, [], b"")

    async with client_of(app) as client:
        await client.send(get())
        assert (await client.response()).status == b"502 Bad Gateway"


@on_uvloop
async def test_an_app_ends_when_its_client_has_gone() -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def app(incoming: ServerExchange) -> None:
        asked.set()
        try:
            await incoming.read()
        finally:
            ended.set()

    async with client_of(app) as client:
        await client.send(get("/a", b"Content-Length: 4", method="POST"))
        await asked.wait()
        client.socket.close()
        await asyncio.wait_for(ended.wait(), DEADLINE_S)


@pytest.mark.parametrize("state", ["uploading", "pipelining"])
@on_uvloop
async def test_a_client_that_leaves_while_it_is_not_read_is_seen_to_have_gone(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server_connection.LOOK_S <= 1, "D1: within a second"
    monkeypatch.setattr(server_connection, "LOOK_S", 0.05)
    asked, ended = asyncio.Event(), asyncio.Event()

    async def app(incoming: ServerExchange) -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with client_of(app) as client:
        request = get("/a", b"Content-Length: 1000000", method="POST") + b"x" * 80_000
        await client.send(request if state == "uploading" else get("/a") * 20)
        await asked.wait()
        await settled(ended.is_set)  # for two looks
        assert not ended.is_set()
        client.socket.close()
        await asyncio.wait_for(ended.wait(), DEADLINE_S)


# -- heads


@on_uvloop
async def test_trailers_are_no_headers() -> None:
    async def app(incoming: ServerExchange) -> None:
        await incoming.read()
        incoming.respond(200, [], b" ".join(name for name, _ in incoming.headers))

    trailers = b"0\r\nAuthorization: x\r\nContent_Length: 3\r\n\r\n"
    async with client_of(app) as client:
        await client.send(
            get("/a", b"Transfer-Encoding: chunked", method="POST")
            + chunked(b"{}")
            + trailers
            + get("/b")
        )
        assert [(await client.response()).body for _ in range(2)] == [
            b"host transfer-encoding",
            b"host",
        ]


ENDLESS = {
    "header": b"GET / HTTP/1.1\r\nX-A: ",
    "target": b"GET /",
    "trailer": get("/", b"Transfer-Encoding: chunked", method="POST") + b"0\r\nX-A: ",
    "chunk extension": get("/", b"Transfer-Encoding: chunked", method="POST") + b"1;x=",
    "header behind another request": get("/") + b"GET / HTTP/1.1\r\nX-A: ",
}


@pytest.mark.parametrize("what", ENDLESS)
@on_uvloop
async def test_nothing_without_an_end_is_kept(what: str) -> None:
    async def app(incoming: ServerExchange) -> None:
        await asyncio.Event().wait()

    async with client_of(app) as client:
        await client.send(ENDLESS[what])
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                await client.send(b"x" * 8_000)
                await turns(3)
            pytest.fail("it took 1.6 MB")
