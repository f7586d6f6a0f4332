"""How an exchange ends, over real sockets, and what the journal says of it. Each branch of
`proxy.py` by its name.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from recorder.ingest.ingester import recover
from recorder.journal.format import Mark
from recorder.store.write.writer import Store
from recorder.wire.dialects import declare
from recorder.wire.dialects.declared import parse
from tests.support.aws_messages import aws_event
from tests.support.bedrock import Json, chunk
from tests.support.event_loop import eventually, on_uvloop, settled, turns
from tests.support.logbook import entries
from tests.support.proxy import get, proxied, rss_bytes
from tests.support.sockets import (
    KERNEL_BYTES,
    LAST_CHUNK,
    STREAM_HEAD,
    Action,
    Close,
    Flood,
    Reset,
    ScriptedUpstream,
    Send,
    Sleep,
    Stall,
    Wait,
    answer,
    chunked,
    head,
    listening,
    reset,
)
from tests.unit.wire.test_conclusion import DONE

EVENT = b"data: 1\n\n"
WHOLE = [Mark.REQUEST, Mark.REQUEST_END, Mark.RESPONSE, Mark.CHUNK, Mark.END]

# client leaves


@pytest.mark.parametrize("how", ["closes", "resets"])
@pytest.mark.parametrize("upstream_is", ["busy", "idle", "silent"])
@on_uvloop
async def test_client_leaves(tmp_path: Path, upstream_is: str, how: str) -> None:
    """The upstream is closed, and what the client got is in the journal."""
    scripts: dict[str, list[Action]] = {
        "busy": [Send(STREAM_HEAD), Flood(chunked(EVENT))],
        "idle": [Send(STREAM_HEAD + chunked(EVENT)), Stall()],
        "silent": [Stall()],
    }
    async with (
        ScriptedUpstream(scripts[upstream_is]) as upstream,
        proxied(tmp_path, upstream.base) as proxy,
    ):
        async with await proxy.connect() as client:
            await client.send(get())
            if upstream_is == "silent":
                await eventually(lambda: len(upstream.requests) == 1)
            else:
                await client.read_until(EVENT)
            if how == "resets":
                reset(client.socket)
        await eventually(upstream.gone.is_set)
        tape = await proxy.ended()
        assert tape.outcome == "client_disconnect"
        assert tape.body.startswith(EVENT) or upstream_is == "silent"


@pytest.mark.parametrize("size", [0, 60_000, 70_000, 3_000_000])
@pytest.mark.parametrize("coding", ["length", "chunked"])
@on_uvloop
async def test_client_leaves_after_a_request_of_any_size(
    tmp_path: Path, size: int, coding: str
) -> None:
    """The server stops reading at 64 KiB, and would not know."""
    body, head = b"x" * size, b"Content-Length: %d" % size
    if coding == "chunked":
        body, head = chunked(body) * bool(size) + LAST_CHUNK, b"Transfer-Encoding: chunked"
    async with ScriptedUpstream([Stall()]) as upstream, proxied(tmp_path, upstream.base) as proxy:
        async with await proxy.connect() as client:
            await client.send(get("/v1/x", head, method="POST") + body)
            await eventually(lambda: len(upstream.requests) == 1)
        await eventually(upstream.gone.is_set)
        tape = await proxy.ended()
        assert (tape.outcome, len(tape.request_body)) == ("client_disconnect", size)


@on_uvloop
async def test_a_client_that_leaves_with_requests_waiting_harms_nobody_else(tmp_path: Path) -> None:
    """Its connection knows the request that came last; the one that is being answered is to hear of
    it.
    """
    tick: list[Action] = [Send(chunked(EVENT)), Sleep(0.001)]
    script: list[Action] = [Send(STREAM_HEAD), *tick * 50, Send(LAST_CHUNK)]
    async with ScriptedUpstream(script) as upstream, proxied(tmp_path, upstream.base) as proxy:

        async def leave(after_s: float) -> None:
            async with await proxy.connect() as client:
                await client.send(get() * 3)
                await client.read_until(EVENT)
                await asyncio.sleep(after_s)
                reset(client.socket)

        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(proxy.ask(get())) for _ in range(5)]
            for number in range(30):
                tasks.create_task(leave(number / 1000))
        assert [task.result().body for task in asked] == [EVENT * 50] * 5
        await eventually(lambda: all(tape.outcome is not None for tape in proxy.tapes()))
        outcomes = Counter(tape.outcome for tape in proxy.tapes())
        assert outcomes == {"client_disconnect": 30, "eof": 5}


@on_uvloop
async def test_the_openai_sdk_breaks_nothing_off(tmp_path: Path) -> None:
    """It leaves after `[DONE]`, and does not look whether the body ends there."""
    frames = b"".join(DONE["[DONE]"][1])
    script: list[Action] = [Send(STREAM_HEAD + chunked(frames)), Stall()]
    async with ScriptedUpstream(script) as upstream, proxied(tmp_path, upstream.base) as proxy:
        url = f"http://127.0.0.1:{proxy.server.port}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            said: Any = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
            async with await client.chat.completions.create(**said, stream=True) as stream:
                texts = [chunk.choices[0].delta.content async for chunk in stream]
        await eventually(lambda: proxy.tapes()[0].outcome is not None)
    assert "".join(map(str, texts)) == "HiHi"
    with Store(tmp_path / "log.db") as store:
        recover(store, tmp_path / "journal", lambda seconds: False)
    (entry,) = entries(tmp_path / "log.db")
    assert (entry.end["outcome"], entry.end["status"]) == ("client_done", "completed")


def line(payload: Json) -> bytes:
    return json.dumps(payload).encode() + b"\n"


SAID = {
    "candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}],
    "usageMetadata": {"a": 1},
}
LAST_OF_ALL: dict[str, tuple[str, str, list[bytes]]] = {
    "ollama": (
        "/api/chat",
        "application/x-ndjson",
        [line({"message": {"content": "Hi"}}), line({"done": True})],
    ),
    "openai-chat": (
        "/v1/chat/completions",
        "application/x-ndjson",
        [
            line({"choices": [{"finish_reason": "stop"}]}),
            line({"choices": [], "usage": {"total_tokens": 9}}),
        ],
    ),
    "declared": (
        "/mine",
        "application/x-ndjson",
        [line({"kind": "say", "words": "Hi"}), line({"kind": "over"})],
    ),
    "gemini": (
        "/v1beta/models/gemini-3:streamGenerateContent",
        "application/json",
        [b"[" + line(SAID)],
    ),
    "bedrock-converse": (
        "/model/m/converse-stream",
        "application/vnd.amazon.eventstream",
        [
            aws_event("messageStop", {"stopReason": "end_turn"}),
            aws_event("metadata", {"usage": {}}),
        ],
    ),
    "bedrock-invoke": (
        "/model/claude/invoke-with-response-stream",
        "application/vnd.amazon.eventstream",
        [chunk({"type": "message_delta"}), chunk({"type": "message_stop"})],
    ),
    "bedrock-models": (
        "/model/meta.llama/invoke-with-response-stream",
        "application/vnd.amazon.eventstream",
        [
            chunk({"generation": "Hi"}),
            chunk({"generation": "", "amazon-bedrock-invocationMetrics": {}}),
        ],
    ),
}
MINE = {"routes": ["POST /mine"], "type": "kind", "text": {"say": "words"}, "end": {"over": ""}}


@pytest.fixture
def own_dialect() -> Iterator[None]:
    declare({"declared": parse("declared", MINE, [])})
    yield
    declare({})


@pytest.mark.usefixtures("own_dialect")
@pytest.mark.parametrize("api", LAST_OF_ALL)
@on_uvloop
async def test_who_leaves_after_the_last_event_of_any_framing_is_done(
    tmp_path: Path, api: str
) -> None:
    target, kind, events = LAST_OF_ALL[api]
    opening = head(b"Content-Type: " + kind.encode(), b"Transfer-Encoding: chunked")
    outcomes: list[tuple[str, str]] = []
    for sent in (events, [*events[:-1], events[-1][:-9]]):
        script: list[Action] = [Send(opening + chunked(*sent)), Stall()]
        folder = tmp_path / str(len(outcomes))
        async with ScriptedUpstream(script) as upstream, proxied(folder, upstream.base) as proxy:
            async with await proxy.connect() as client:
                await client.send(get(f"/openai{target}", method="POST", body=b"{}"))
                await client.read_until(sent[-1])
            await proxy.ended()
        with Store(folder / "log.db") as store:
            recover(store, folder / "journal", lambda seconds: False)
        (entry,) = entries(folder / "log.db")
        assert entry.exchange.api == api
        outcomes.append((entry.end["outcome"], entry.end["status"]))
    assert outcomes == [("client_done", "completed"), ("client_disconnect", "client_disconnect")]


@on_uvloop
async def test_client_leaves_in_mid_upload(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([Stall()], read_request=False) as upstream,
        proxied(tmp_path, upstream.base) as proxy,
    ):
        async with await proxy.connect() as client:
            await client.send(get("/v1/x", b"Content-Length: 100", method="POST") + b"part")
            await eventually(lambda: upstream.connections == 1)
        await eventually(upstream.gone.is_set)
        tape = await proxy.ended()
        assert (tape.outcome, tape.json[Mark.REQUEST_END]) == (
            "client_disconnect",
            {"complete": False},
        )


@on_uvloop
async def test_after_300_cancels_nothing_is_leaked_and_requests_succeed(tmp_path: Path) -> None:
    chance = random.Random(7)
    tick: list[Action] = [Send(chunked(EVENT)), Sleep(0.002)]
    slow: list[Action] = [Send(STREAM_HEAD), *tick * 20, Send(LAST_CHUNK)]
    async with ScriptedUpstream(slow) as upstream, proxied(tmp_path, upstream.base) as proxy:

        async def cancel_one() -> None:
            async with await proxy.connect() as client:
                await client.send(get()[: chance.choice([20, None, None, None])])
                await asyncio.sleep(chance.random() * 0.05)
                if chance.random() < 0.5:
                    reset(client.socket)

        async def ask_one() -> bytes:
            return (await proxy.ask(get())).body

        await ask_one()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(10):
            await asyncio.gather(*(cancel_one() for _ in range(30)))
        assert await asyncio.gather(*(ask_one() for _ in range(50))) == [EVENT * 20] * 50
        kept = 2 * 50  # connections that are kept for the next request, at both their ends
        await eventually(lambda: len(os.listdir("/proc/self/fd")) <= before + kept)
        assert all(tape.outcome in ("eof", "client_disconnect") for tape in proxy.tapes())


# upstream breaks


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ([Send(STREAM_HEAD + chunked(EVENT)), Sleep(0.02), Reset()], "upstream_reset"),
        ([Send(STREAM_HEAD + chunked(EVENT)), Close()], "truncated"),
        ([Send(head(b"Content-Length: 99") + EVENT), Close()], "truncated"),
        ([Send(head(b"X: 1") + EVENT), Sleep(0.02), Reset()], "upstream_reset"),
        ([Send(STREAM_HEAD + chunked(EVENT)), Sleep(0.02), Send(b"zz\r\n")], "truncated"),
    ],
    ids=["reset", "no last chunk", "short length", "reset, no length", "bad chunk"],
)
@on_uvloop
async def test_upstream_breaks(tmp_path: Path, script: list[Action], outcome: str) -> None:
    """The client sees a broken response, never an end, with all that came before."""
    async with ScriptedUpstream(script) as upstream, proxied(tmp_path, upstream.base) as proxy:
        response = await proxy.ask(get())
        assert (response.body, response.ending) == (EVENT, "closed")
        (tape,) = proxy.tapes()
        assert (tape.body, tape.outcome, tape.marks) == (EVENT, outcome, WHOLE)
        assert len(upstream.requests) == 1


@on_uvloop
async def test_an_unreachable_upstream_is_a_502_that_names_it_and_is_recorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with ScriptedUpstream([Close()]) as upstream:
        base = upstream.base
    async with proxied(tmp_path, base) as proxy:
        response = await proxy.ask(
            get("/v1/responses?key=canary", b"Authorization: canary", method="POST", body=b"{}")
        )
        (tape,) = proxy.tapes()
    assert response.status == b"502 Bad Gateway"
    assert b"'openai'" in response.body
    assert base.encode() in response.body
    assert (tape.outcome, tape.marks[-1]) == ("upstream_unreachable", Mark.END)
    assert "canary" not in caplog.text
    assert [record.levelno for record in caplog.records if record.name == "recorder.proxy.app"] == [
        logging.WARNING
    ]


@pytest.mark.parametrize("framing", [b"Content-Length: 9", b"Transfer-Encoding: chunked"])
@pytest.mark.parametrize("begun", [[], [b"beau"]], ids=["nothing", "a part"])
@pytest.mark.parametrize("is_there", [False, True], ids=["refused", "closed at once"])
@on_uvloop
async def test_the_body_of_a_request_that_no_upstream_takes_is_recorded(
    tmp_path: Path, framing: bytes, begun: list[bytes], is_there: bool
) -> None:
    """It is on its way when the upstream is found to be away, or to close: a container that is
    starting.
    """
    rest = [b"tiful"] if begun else [b"beau", b"tiful"]
    frame: Callable[[bytes], bytes] = chunked if framing.startswith(b"Transfer") else bytes

    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    async with (
        listening(leave) as base,
        proxied(tmp_path, base if is_there else "http://127.0.0.1:1") as proxy,
        await proxy.connect() as client,
    ):
        await client.send(
            get("/v1/responses", framing, method="POST") + b"".join(map(frame, begun))
        )
        await eventually(lambda: len(proxy.tapes()) == 1)
        # enough for the upstream to be found away; if it is not, the test claims less
        await turns()
        for piece in rest:
            await client.send(frame(piece))
        if frame is chunked:
            await client.send(LAST_CHUNK)
        response = await client.response()
        (tape,) = proxy.tapes()
    assert response.status == b"502 Bad Gateway"
    assert (tape.request_body, tape.json.get(Mark.REQUEST_END)) == (
        b"beautiful",
        {"complete": True},
    )


@on_uvloop
async def test_a_body_that_does_not_come_is_waited_for_no_longer_than_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recorder.proxy.upstream.REST_S", 0.05)
    async with proxied(tmp_path, "http://127.0.0.1:1") as proxy, await proxy.connect() as client:
        await client.send(get("/v1/responses", b"Content-Length: 9", method="POST") + b"begun")
        response = await client.response()
        (tape,) = proxy.tapes()
    assert response.status == b"502 Bad Gateway"
    assert (tape.request_body, tape.json[Mark.REQUEST_END]) == (b"begun", {"complete": False})
    assert tape.outcome == "upstream_unreachable"


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5",
        b"Content-Length: 50000\r\nTransfer-Encoding: chunked",
    ],
)
@on_uvloop
async def test_chunks_count_and_not_a_length_beside_them(tmp_path: Path, head: bytes) -> None:
    script: list[Action] = [
        Send(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n" + chunked(EVENT) + LAST_CHUNK),
        Stall(),
    ]
    async with (
        ScriptedUpstream(script, answer(b"next")) as upstream,
        proxied(tmp_path, upstream.base) as proxy,
    ):
        async with await proxy.connect() as client:
            await client.send(get())
            response = await client.response()
            await client.send(get())
            following = await client.response()
        tape, _ = proxy.tapes()
    assert (response.body, response.ending, following.body) == (EVENT, "complete", b"next")
    assert response.header(b"content-length") is None
    assert (tape.body, tape.outcome) == (EVENT, "eof")
    names = {name.lower() for name, _ in tape.json[Mark.RESPONSE]["headers"]}
    assert {"content-length", "transfer-encoding"} <= names, "lint says so"
    assert upstream.connections == 2, "a connection with two ends is not used again"


@on_uvloop
async def test_an_upstream_that_answers_nonsense_is_a_502(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([Send(b"SSH-2.0\r\n"), Stall()]) as upstream,
        proxied(tmp_path, upstream.base) as proxy,
    ):
        response = await proxy.ask(get())
    assert response.status == b"502 Bad Gateway"
    assert b"did not answer in HTTP" in response.body


@pytest.mark.parametrize("bad", [b"X-A: a\x01b", b"X-A: a\x7fb"])
@on_uvloop
async def test_a_header_that_cannot_be_passed_on_is_a_502(tmp_path: Path, bad: bytes) -> None:
    async with (
        ScriptedUpstream(answer(b"body", bad)) as upstream,
        proxied(tmp_path, upstream.base) as proxy,
    ):
        response = await proxy.ask(get())
        (tape,) = proxy.tapes()
    assert (response.status[:3], response.ending) == (b"502", "complete")
    assert b"has a character that none can have" in response.body
    assert (tape.body, tape.outcome) == (b"body", "upstream_reset")


# store is slow, store fails (`test_recording.test_store_fails` has the rest)


@on_uvloop
async def test_store_is_slow(tmp_path: Path) -> None:
    """Nobody takes records out of the journal and it is full: the client gets all, and the gap is
    counted.
    """
    chunks = [b"%04d" % number * 500 for number in range(100)]
    script: list[Action] = [
        Send(STREAM_HEAD),
        *(Send(chunked(chunk)) for chunk in chunks),
        Send(LAST_CHUNK),
    ]
    async with (
        ScriptedUpstream(script) as upstream,
        proxied(tmp_path, upstream.base, journal_bytes=20_000) as proxy,
    ):
        response = await proxy.ask(get())
        (tape,) = proxy.tapes()
    assert (response.body, response.ending) == (b"".join(chunks), "complete")
    assert response.body.startswith(tape.body)
    assert len(tape.body) + tape.json[Mark.GAP]["size_bytes"] == len(response.body)


# client is slow


@pytest.mark.parametrize("strict", [False, True], ids=["journal", "strict"])
@on_uvloop
async def test_a_slow_client_slows_the_upstream_and_not_our_memory(
    tmp_path: Path, strict: bool
) -> None:
    flood: list[Action] = [Send(STREAM_HEAD), Flood(chunked(b"x" * 65536))]
    async with (
        ScriptedUpstream(flood) as upstream,
        proxied(tmp_path, upstream.base, strict=strict) as proxy,
    ):
        async with await proxy.connect(receive_buffer=4096) as client:
            await client.send(get())
            await client.read(1024)
            rss_before = rss_bytes()
            # what the kernel holds on two loopback connections, and 0.2 MB of ours
            limit = 24 * 2**20
            await settled(lambda: min(upstream.sent_bytes, limit))
            assert 0 < upstream.sent_bytes < limit
            assert rss_bytes() - rss_before < 8 * 2**20
        await eventually(upstream.gone.is_set)


@on_uvloop
async def test_a_slow_upstream_slows_the_upload(tmp_path: Path) -> None:
    never = [Wait(asyncio.Event())]
    async with ScriptedUpstream(never, read_request=False) as upstream:
        async with (
            proxied(tmp_path, upstream.base, body_limit_bytes=2**30) as proxy,
            await proxy.connect() as client,
        ):
            await client.send(get("/v1/files", b"Content-Length: 1000000000", method="POST"))
            assert await client.flood(2 * KERNEL_BYTES) < KERNEL_BYTES


# The end.


@on_uvloop
async def test_shutdown_ends_open_streams_as_incomplete(tmp_path: Path) -> None:
    async with ScriptedUpstream([Send(STREAM_HEAD + chunked(EVENT)), Stall()]) as upstream:
        async with proxied(tmp_path, upstream.base) as proxy, await proxy.connect() as client:
            await client.send(get())
            await client.read_until(EVENT + b"\r\n")
            await proxy.server.stop(0)
            assert await client.read() == b""  # and no last chunk before
            assert proxy.tapes()[0].outcome == "recorder_shutdown"
            await eventually(upstream.gone.is_set)
