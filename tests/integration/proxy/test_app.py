"""The whole forwarding path over real sockets: raw client, server, proxy, recording, raw upstream,
journal.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import tempfile
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.journal.format import Mark
from tests.support.event_loop import on_uvloop
from tests.support.proxy import get, proxied
from tests.support.sockets import (
    LAST_CHUNK,
    STREAM_HEAD,
    Action,
    Close,
    ScriptedUpstream,
    Send,
    Wait,
    answer,
    chunked,
    head,
)

WHOLE = [Mark.REQUEST, Mark.REQUEST_END, Mark.RESPONSE, Mark.CHUNK, Mark.END]


def stream(*chunks: bytes, headers: tuple[bytes, ...] = ()) -> list[Action]:
    start = head(b"Content-Type: text/event-stream", b"Transfer-Encoding: chunked", *headers)
    return [Send(start), *(Send(chunked(chunk)) for chunk in chunks), Send(LAST_CHUNK)]


# What passes, passes as it is.


@given(
    body=st.binary(max_size=3000),
    cuts=st.lists(st.integers(1, 2999), max_size=8),
    coding=st.sampled_from(["chunked", "length", "close", "gzip"]),
)
@settings(max_examples=60, deadline=None)
def test_no_byte_is_changed_in_any_chunking(body: bytes, cuts: list[int], coding: str) -> None:
    wire = gzip.compress(body) if coding == "gzip" else body
    edges = [0, *sorted(cut for cut in set(cuts) if cut < len(wire)), len(wire)]
    pieces = [wire[start:end] for start, end in pairwise(edges) if start < end]
    scripts: dict[str, list[Action]] = {
        "chunked": stream(*pieces),
        "gzip": stream(*pieces, headers=(b"Content-Encoding: gzip",)),
        "length": [Send(head(b"Content-Length: %d" % len(wire))), *map(Send, pieces)],
        "close": [Send(b"HTTP/1.0 200 OK\r\n\r\n"), *map(Send, pieces), Close()],
    }

    @on_uvloop
    async def scenario() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with (
                ScriptedUpstream(scripts[coding]) as upstream,
                proxied(Path(folder), upstream.base) as proxy,
            ):
                response = await proxy.ask(get())
                assert (response.body, response.ending) == (wire, "complete")
                (tape,) = proxy.tapes()
                assert tape.body == wire
                assert [mark for mark in WHOLE if mark is not Mark.CHUNK or wire] == tape.marks
                assert tape.outcome == "eof"

    scenario()


@on_uvloop
async def test_status_reason_and_headers_keep_value_order_and_repeats(tmp_path: Path) -> None:
    lines = [
        b"X-B: 1",
        b"Set-Cookie: a=1; Path=/",
        b"x-a: \xe4 \xc3\xa4",
        b"Set-Cookie: b=2",
        b"Date: today",
    ]
    script = answer(b"no", *lines, status=b"429 Slow Down, Please")
    async with ScriptedUpstream(script) as upstream, proxied(tmp_path, upstream.base) as proxy:
        response = await proxy.ask(get())
    sent = [(name.lower(), value) for name, _, value in (line.partition(b": ") for line in lines)]
    assert response.status == b"429 Slow Down, Please"
    assert response.headers == [(b"content-length", b"2"), *sent]


@on_uvloop
async def test_a_429_is_passed_on_and_asked_for_once(tmp_path: Path) -> None:
    script = answer(b'{"error":{}}', b"Retry-After: 17", status=b"429 Too Many Requests")
    async with ScriptedUpstream(script) as upstream, proxied(tmp_path, upstream.base) as proxy:
        response = await proxy.ask(get("/v1/responses", method="POST", body=b"{}"))
        assert (response.header(b"retry-after"), response.body) == (b"17", b'{"error":{}}')
        assert (len(upstream.requests), proxy.tapes()[0].json[Mark.RESPONSE]["status"]) == (1, 429)


@on_uvloop
async def test_the_request_goes_up_as_it_came_but_for_its_connection(tmp_path: Path) -> None:
    request = get(
        "/s/my%20run/v1/responses?x=%2F&x=1",
        *(
            b"User-Agent: test",
            b"Accept-Encoding: zstd, br",
            b"X-Two: a",
            b"X-Two: b",
            b"X-Named: gone",
        ),
        *(
            b"Connection: keep-alive, X-Named",
            b"Keep-Alive: 5",
            b"TE: trailers",
            b"X-Recorder-Session: other",
        ),
        *(b"Proxy-Authorization: x", b"Authorization: Bearer sk-canary"),
        method="POST",
        body=b'{"a": 1}',
    )
    async with ScriptedUpstream(answer(b"")) as upstream, proxied(tmp_path, upstream.base) as proxy:
        await proxy.ask(request)
        (tape,) = proxy.tapes()
    lines = [
        *(
            b"POST /v1/responses?x=%2F&x=1 HTTP/1.1",
            f"host: 127.0.0.1:{upstream.port}".encode(),
            b"user-agent: test",
        ),
        *(
            b"accept-encoding: zstd, br",
            b"x-two: a",
            b"x-two: b",
            b"authorization: Bearer sk-canary",
        ),
        b"content-length: 8",
    ]
    assert upstream.requests[0].replace(b"Host:", b"host:") == b"\r\n".join(
        [*lines, b"", b'{"a": 1}']
    )
    assert (tape.request_body, tape.json[Mark.REQUEST_END]) == (b'{"a": 1}', {"complete": True})
    record = tape.json[Mark.REQUEST]
    assert (record["session"], record["session_source"], record["upstream"]) == (
        "my run",
        "path",
        "openai",
    )
    assert record["target"].startswith("/v1/responses?x=")
    assert "canary" not in str(record)


@on_uvloop
async def test_head_and_304_have_the_length_but_no_body(tmp_path: Path) -> None:
    scripts = (
        [Send(head(b"Content-Length: 99"))],
        [Send(head(b"Content-Length: 99", status=b"304 Not Modified"))],
    )
    async with ScriptedUpstream(*scripts) as upstream, proxied(tmp_path, upstream.base) as proxy:
        async with await proxy.connect() as client:
            for method, to_head in (("HEAD", True), ("GET", False), ("GET", False)):
                await client.send(get(method=method))
                response = await client.response(to_head=to_head)
                assert (response.header(b"content-length"), response.ending) == (b"99", "complete")


@on_uvloop
async def test_a_chunked_upload_of_5_mb_arrives_whole(tmp_path: Path) -> None:
    body = os.urandom(5 * 2**20)
    pieces = [body[start : start + 50_000] for start in range(0, len(body), 50_000)]
    request = get("/v1/files", b"Transfer-Encoding: chunked", method="POST")
    async with (
        ScriptedUpstream(answer(b"ok")) as upstream,
        proxied(tmp_path, upstream.base) as proxy,
    ):
        response = await proxy.ask(request + chunked(*pieces) + LAST_CHUNK)
        assert response.body == b"ok"
        received = upstream.requests[0]
        assert b"\r\ntransfer-encoding: chunked\r\n" in received.lower()
        assert len(received) > len(body)
        (tape,) = proxy.tapes()
        assert tape.request_body == body
        assert tape.json[Mark.REQUEST_END] == {"complete": True}


@on_uvloop
async def test_a_client_that_expects_100_gets_it_and_the_upstream_does_not_hear_of_it(
    tmp_path: Path,
) -> None:
    async with (
        ScriptedUpstream(answer(b"ok")) as upstream,
        proxied(tmp_path, upstream.base) as proxy,
    ):
        async with await proxy.connect() as client:
            await client.send(
                get("/v1/x", b"Expect: 100-continue", b"Content-Length: 4", method="POST")
            )
            assert await client.read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            await client.send(b"body")
            assert (await client.response()).body == b"ok"
    assert b"expect" not in upstream.requests[0].lower()


@on_uvloop
async def test_each_chunk_is_passed_on_before_the_next_one_comes(tmp_path: Path) -> None:
    seen = [asyncio.Event(), asyncio.Event()]
    script: list[Action] = [
        Send(STREAM_HEAD),
        Send(chunked(b"1")),
        Wait(seen[0]),
        Send(chunked(b"2")),
        Wait(seen[1]),
    ]
    async with (
        ScriptedUpstream([*script, Send(LAST_CHUNK)]) as upstream,
        proxied(tmp_path, upstream.base) as proxy,
    ):
        async with await proxy.connect() as client:
            await client.send(get())
            for mark, event in zip((b"1\r\n1\r\n", b"1\r\n2\r\n"), seen, strict=True):
                await client.read_until(mark)
                event.set()
            await client.read_until(LAST_CHUNK)


@on_uvloop
async def test_an_answer_that_does_not_wait_for_the_upload_is_passed_on(tmp_path: Path) -> None:
    script = answer(b"no key", status=b"401 Unauthorized")
    async with (
        ScriptedUpstream(script, read_request=False) as upstream,
        proxied(tmp_path, upstream.base) as proxy,
    ):
        response = await proxy.ask(
            get("/v1/files", b"Content-Length: 1000", method="POST") + b"the beginning"
        )
        assert (response.status, response.body, response.ending) == (
            b"401 Unauthorized",
            b"no key",
            "complete",
        )
        (tape,) = proxy.tapes()
        assert (tape.json[Mark.REQUEST_END], tape.outcome) == ({"complete": False}, "eof")
