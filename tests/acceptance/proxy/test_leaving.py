"""Clients that leave behind the last event of the protocol, over real sockets: recorded again, and replayed whole.

The upstream sends the end of its body some time later, as the providers do; the clients do not wait for it.
"""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import openai

from recorder.cassettes.sse_jsonl import read_cassette
from tests.acceptance.commands.test_run import in_thread, run
from tests.support.event_loop import eventually
from tests.support.logbook import entries
from tests.support.proxy import get
from tests.support.server import Ran, bring_in, run_apart, serving
from tests.support.sockets import (
    LAST_CHUNK,
    STREAM_HEAD,
    Action,
    RawClient,
    ScriptedUpstream,
    Send,
    Sleep,
    Stall,
    chunked,
    head,
)
from tests.unit.wire.test_conclusion import DONE

TARGETS = {
    "openai-responses": ("/v1/responses", "OPENAI_BASE_URL", "/responses"),
    "openai-chat": ("/v1/chat/completions", "OPENAI_BASE_URL", "/chat/completions"),
    "anthropic": ("/v1/messages", "ANTHROPIC_BASE_URL", "/v1/messages"),
    "gemini": (
        "/v1beta/models/g:streamGenerateContent?alt=sse",
        "GOOGLE_GEMINI_BASE_URL",
        "/v1beta/models/g:streamGenerateContent?alt=sse",
    ),
}
STREAMS = {
    api: b"".join(DONE[case][1])
    for api, case in {
        "openai-responses": "completed",
        "openai-chat": "[DONE]",
        "anthropic": "message_stop",
        "gemini": "finishReason",
    }.items()
}
CUT = 3  # bytes: the blank line, and the last of an event
LATE_S = 0.02  # between the last event and the end of the body: Codex needs half a millisecond to leave

# Asks each address it is given, and leaves as soon as so many bytes of the body are there; or reads to the end.
CLIENT = """
import http.client, os, sys
from urllib.parse import urlsplit
for variable, path, size in zip(*[iter(sys.argv[1:])] * 3):
    url = urlsplit(os.environ[variable] + path)
    connection = http.client.HTTPConnection(url.hostname, url.port)
    target = url.path + ("?" + url.query if url.query else "")
    connection.request("POST", target, b'{"stream": true}', {"Content-Type": "application/json"})
    response = connection.getresponse()
    sys.stdout.buffer.write(response.read(int(size)) if int(size) else response.read())
    connection.close()
"""


def asking(*, whole: bool, short_by: int = 0) -> list[str]:
    """A command that asks all four APIs, and waits for the end of the body or leaves when it has the events."""
    words = [sys.executable, "-c", CLIENT]
    for api, (_, variable, path) in TARGETS.items():
        words += [variable, path, "0" if whole else str(len(STREAMS[api]) - short_by)]
    return words


def scripts(end: Action, *, cut: int = 0) -> list[list[Action]]:
    bodies = (stream[: len(stream) - cut] for stream in STREAMS.values())
    return [[Send(STREAM_HEAD), Send(chunked(body)), end, Send(LAST_CHUNK)] for body in bodies]


def everywhere(base: str) -> list[str]:
    return [word for name in ("openai", "anthropic", "gemini") for word in ("--upstream", f"{name}={base}")]


def outcomes(db: Path) -> list[str]:
    return [entry.end["outcome"] for entry in entries(db)]


async def recorded_by(db: Path, cassette: Path, command: list[str], *played: list[Action]) -> Ran:
    async with ScriptedUpstream(*played) as upstream:
        return await in_thread(db, "--cassette", cassette, *everywhere(upstream.base), "--", *command)


async def test_clients_that_leave_behind_the_last_event_are_recorded_again_and_replayed(tmp_path: Path) -> None:
    db, cassette = tmp_path / "recorder.db", tmp_path / "four.sse.jsonl"
    for _ in range(2):
        ran = await recorded_by(db, cassette, asking(whole=False), *scripts(Stall()))
        assert (ran.code, ran.out) == (0, b"".join(STREAMS.values()))
        assert "Written to" in ran.err
        assert "broke off" not in ran.err
    assert outcomes(db) == ["client_done"] * 8
    assert [entry.end["status"] for entry in entries(db)] == ["completed"] * 8
    assert run_apart(db, "verify").code == 0
    assert run_apart(db, "cassette", "check", cassette).code == 0
    for source in ("latest", cassette):
        for _ in range(2):
            again = run(db, "--replay", source, "--speed", "max", "--", *asking(whole=True))
            assert (again.code, again.out) == (0, b"".join(STREAMS.values()))
            assert "broke off" not in again.err


async def test_clients_that_leave_before_it_have_broken_off(tmp_path: Path) -> None:
    db, cassette = tmp_path / "recorder.db", tmp_path / "four.sse.jsonl"
    good = await recorded_by(db, cassette, asking(whole=True), *scripts(Sleep(LATE_S)))
    assert "Written to" in good.err
    kept = cassette.read_bytes()
    broken = await recorded_by(db, cassette, asking(whole=False, short_by=CUT), *scripts(Stall(), cut=CUT))
    assert "stays as it was: 4 of 4 exchanges broke off" in broken.err
    assert cassette.read_bytes() == kept
    assert outcomes(db) == ["eof"] * 4 + ["client_disconnect"] * 4
    again = run(db, "--replay", "latest", "--speed", "max", "--", *asking(whole=True))
    assert "IncompleteRead" in again.err
    assert "broke off" in again.err


async def test_a_cassette_of_before_is_replayed_to_its_end(tmp_path: Path) -> None:
    """Those that say `client_disconnect` of a whole stream stand in many repositories."""
    db, cassette = tmp_path / "recorder.db", tmp_path / "four.sse.jsonl"
    await recorded_by(db, cassette, asking(whole=False), *scripts(Stall()))
    written = cassette.read_bytes().replace(b"client_done", b"client_disconnect")
    *three, gemini = written.split(b'"status":"completed"')
    cassette.write_bytes(b'"status":"completed"'.join(three) + b'"status":"client_disconnect"' + gemini)
    ran = run(db, "--replay", cassette, "--speed", "max", "--", *asking(whole=True))
    assert (ran.code, ran.out) == (0, b"".join(STREAMS.values()))
    assert len(read_cassette(cassette)) == 4
    assert run_apart(db, "diff", "latest", cassette).code == 0
    assert run_apart(db, "import", cassette).code == 0
    played = run_apart(db, "replay", "latest", "--speed", "max")
    assert (played.code, played.out, played.err) == (0, b"".join(STREAMS.values()), "")


@asynccontextmanager
async def recording(db: Path, script: list[Action]) -> AsyncIterator[RawClient]:
    """A connection to a recorder before an upstream."""
    async with ScriptedUpstream(script) as upstream:
        with serving(db, *everywhere(upstream.base)) as serve:
            async with await RawClient.connect(serve.port) as client:
                yield client
            await eventually(lambda: upstream.gone.is_set())
            assert serve.stop() == 0
            bring_in(db, serve)


async def test_a_coded_body_whose_end_did_not_come_is_played_decoded(tmp_path: Path) -> None:
    db, body = tmp_path / "recorder.db", STREAMS["openai-responses"]
    coder = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    events = coder.compress(body) + coder.flush(zlib.Z_SYNC_FLUSH)
    coded = head(b"Content-Type: text/event-stream", b"Transfer-Encoding: chunked", b"Content-Encoding: gzip")
    async with recording(db, [Send(coded), Send(chunked(events)), Stall()]) as client:
        await client.send(get("/v1/responses", method="POST", body=b"{}"))
        await client.read_until(chunked(events))
    assert outcomes(db) == ["client_done"]
    assert run_apart(db, "verify").code == 0
    [variable, path] = TARGETS["openai-responses"][1:]
    ask = [sys.executable, "-c", CLIENT.replace('{"stream": true}', "{}"), variable, path, "0"]
    for _ in range(2):
        again = run(db, "--replay", "latest", "--speed", "max", "--", *ask)
        assert (again.code, again.out) == (0, body)


async def test_a_body_of_a_length_that_was_not_all_there_was_cut(tmp_path: Path) -> None:
    db, body = tmp_path / "recorder.db", STREAMS["openai-responses"]
    length = head(b"Content-Type: text/event-stream", b"Content-Length: %d" % (len(body) + 1))
    async with recording(db, [Send(length), Send(body), Stall()]) as client:
        await client.send(get("/v1/responses", method="POST", body=b"{}"))
        await client.read_until(body)
    assert outcomes(db) == ["client_disconnect"]


async def test_the_openai_sdk_breaks_nothing_off(tmp_path: Path) -> None:
    """It leaves after `[DONE]`, and does not look whether the body ends there."""
    db, frames = tmp_path / "recorder.db", STREAMS["openai-chat"]
    script: list[Action] = [Send(STREAM_HEAD), Send(chunked(frames)), Sleep(LATE_S), Send(LAST_CHUNK)]
    async with ScriptedUpstream(script) as upstream:
        with serving(db, *everywhere(upstream.base)) as serve:
            said = await asyncio.to_thread(_completion, f"{serve.base}/s/sdk/v1")
            assert serve.stop() == 0
            bring_in(db, serve)
    assert said == "HiHi"
    assert set(outcomes(db)) <= {"eof", "client_done"}
    assert [entry.end["status"] for entry in entries(db)] == ["completed"]


def _completion(url: str) -> str:
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        chunks = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
