"""Credentials among the parameters of requests: sent through a live recorder, they are in no file
and in no export.
"""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.acceptance.commands.test_mock import mocking
from tests.acceptance.test_realtime import upstream as websocket_upstream
from tests.acceptance.test_secrets import inflated
from tests.support.event_loop import eventually
from tests.support.logbook import all_ended, entries
from tests.support.secret_shapes import REQUESTS
from tests.support.server import Serving, everywhere, run, serving, wait_until
from tests.support.sockets import STREAM_HEAD, ScriptedUpstream, Send, answer

READ = (
    "I wrote \"authorization\": \"mine\", headers = {'X-Api-Key': 'mine'} and API_KEY = "
    "os.environ['KEY_1'] by myself."
)
CANARY = re.compile(rb"CANARY-[a-z-]+-\d{4}")
FORMATS = ("jsonl", "cassette", "payloads", "har", "vcr", "html", "perfetto", "otlp-json", "chat")

# By the beginning of a request's name: where it is sent, and the member that a model reads.
PLACES: Mapping[str, tuple[str, Any]] = {
    "responses": ("/v1/responses", {"input": READ}),
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": READ}]}),
    "anthropic, a vault": ("/v1/vaults/vlt_1/credentials", {"description": READ}),
    "anthropic, a batch": ("/v1/messages/batches", {"description": READ}),
    "anthropic": ("/v1/messages", {"messages": [{"role": "user", "content": READ}]}),
    "gemini": (
        "/v1beta/models/m:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": READ}]}]},
    ),
    "interactions": ("/v1beta/interactions", {"input": READ}),
    "": ("/v1/responses", {"input": READ}),
}


def _request(name: str) -> tuple[str, bytes]:
    """Return the target and the body of a request, its parameters before and behind what a model
    reads.
    """
    path, read = next(place for begins, place in PLACES.items() if name.startswith(begins))
    return path, json.dumps(
        {**REQUESTS[name], **read, "z": {"headers": {"X-Last": f"CANARY-last-{len(name):04}"}}}
    ).encode()


def _files(db: Path) -> dict[str, bytes]:
    """All that is beside the database, with what is compressed in it."""
    files = {path: path.read_bytes() for path in db.parent.rglob("*") if path.is_file()}
    return {
        str(path.relative_to(db.parent)): b"\n".join([data, *inflated(data)])
        for path, data in files.items()
    }


def _left(written: Mapping[str, bytes]) -> dict[str, list[bytes]]:
    wide = {name: data.replace(b"\0", b"") for name, data in written.items()}
    return {
        name: found for name, data in wide.items() if (found := sorted({*CANARY.findall(data)}))
    }


def _exported(db: Path, home: Path) -> dict[str, bytes]:
    sessions = json.loads(run(db, "sessions", "--json").out)
    made = {}
    for session in sessions:
        for format in FORMATS:
            ran = run(
                db,
                "export",
                session["session_id"],
                "--format",
                format,
                *(["--content"] * ("otlp" in format)),
            )
            assert ran.code in (0, 3), ran.err  # 3: it has nothing of that format
            made[f"{session['session_id']} {format}"] = b"\n".join([ran.out, *inflated(ran.out)])
    assert run(db, "export", home / "parquet", "--format", "parquet", "--events").code == 0
    return made


async def _send(serve: Serving, bodies: list[tuple[str, bytes]]) -> None:
    async with httpx.AsyncClient(timeout=60) as client:
        for path, body in bodies:
            await client.post(
                f"{serve.base}{path}", content=body, headers={"content-type": "application/json"}
            )


@pytest.mark.timeout(600)
def test_no_credential_of_a_parameter_is_in_any_file_or_export(tmp_path: Path) -> None:
    """E1. And the upstream gets every byte, and what a model reads is recorded as it is."""
    db = tmp_path / "data" / "recorder.db"
    bodies = [_request(name) for name in REQUESTS]
    bodies += [(path, body.decode().encode("utf-16")) for path, body in bodies[:2]]
    assert len({canary for _, body in bodies for canary in CANARY.findall(body)}) >= 60

    async def play() -> list[bytes]:
        async with ScriptedUpstream(answer(b"{}")) as upstream:
            with serving(db, *everywhere(upstream.base)) as serve:
                await _send(serve, bodies)
                await eventually(lambda: all_ended(db, len(bodies)), 120)
                await eventually(lambda: not _left(_files(db)), 60)
                serve.stop()
            return upstream.requests

    got = b"".join(asyncio.run(play()))
    assert [body for _, body in bodies if body not in got] == []
    assert _left(_files(db)) == {}
    written = _exported(db, tmp_path / "data")
    assert _left({**written, **_files(db)}) == {}
    recorded = [entry.request_body for entry in entries(db)]
    said = json.dumps(READ).encode()
    assert [body for body in recorded if said not in body.replace(b"\0", b"")] == []
    assert run(db, "verify").code == 0


def test_no_credential_of_a_message_over_websocket_is_in_any_file_or_export(tmp_path: Path) -> None:
    db = tmp_path / "data" / "recorder.db"
    asked = {
        name: json.dumps({**REQUESTS[name], "instructions": READ})
        for name in REQUESTS
        if "websocket" in name
    }
    asked["session"] = json.dumps(REQUESTS["realtime"])
    got: list[str] = []

    def take(connection: Any, message: dict[str, Any]) -> None:
        got.append(json.dumps(message))
        done = {
            "type": "response.completed",
            "response": {"id": f"resp_{len(got)}", "object": "response", "output": []},
        }
        connection.send(json.dumps(done))

    with (
        websocket_upstream(take) as base,
        serving(db, *everywhere(base.replace("ws://", "http://"))) as serve,
    ):
        for path in ("/v1/responses", "/v1/realtime?model=m"):
            with connect(f"{serve.base.replace('http', 'ws', 1)}{path}") as client:
                for message in asked.values():
                    client.send(message)
                    client.recv()
        wait_until(lambda: entries(db) and all(entry.end for entry in entries(db)), 60)
        wait_until(lambda: not _left(_files(db)), 60)
        serve.stop()
    assert got == [*asked.values()] * 2
    assert _left({**_exported(db, tmp_path / "data"), **_files(db)}) == {}
    assert run(db, "verify").code == 0


ECHO: dict[str, Any] = {
    "type": "response.created",
    "response": {"id": "r", "object": "response", **REQUESTS["responses"], "output": []},
}


def test_what_a_response_repeats_is_in_the_log_and_in_no_file_for_others(tmp_path: Path) -> None:
    db = tmp_path / "data" / "recorder.db"
    done = {**ECHO, "type": "response.completed"}
    stream = b"".join(
        b"event: %b\ndata: %b\n\n" % (each["type"].encode(), json.dumps(each).encode())
        for each in (ECHO, done)
    )
    document = answer(json.dumps(ECHO["response"]).encode(), b"Content-Type: application/json")
    body = json.dumps(REQUESTS["responses"]).encode()

    async def play() -> None:
        chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(stream), stream)
        async with ScriptedUpstream([Send(STREAM_HEAD + chunk)], document) as upstream:
            with serving(db, *everywhere(upstream.base)) as serve:
                await _send(serve, [("/v1/responses", body)] * 2)
                await eventually(lambda: all_ended(db, 2), 60)
                serve.stop()

    asyncio.run(play())
    with closing(sqlite3.connect(db)) as connection:
        frames = b"".join(
            raw
            for (raw,) in connection.execute(
                "SELECT raw FROM events WHERE kind = 'frame' ORDER BY pos"
            )
        )
    assert frames == stream
    session = json.loads(run(db, "sessions", "--json").out)[0]["session_id"]
    for format in ("html", "cassette"):
        ran = run(db, "export", session, "--format", format)
        assert ran.code == 0, ran.err
        assert _left({format: b"\n".join([ran.out, *inflated(ran.out)])}) == {}
    cassette = tmp_path / "run.sse.jsonl"
    cassette.write_bytes(run(db, "export", session, "--format", "cassette").out)
    assert run(db, "lint", "--cassette", cassette).code == 0
    others = body.replace(b"CANARY-", b"CANARY-of-somebody-else-")
    for options in ((session, "--strict"), ("--cassette", cassette, "--strict")):
        with mocking(db, *options) as mock:
            replayed = httpx.post(f"{mock.base}/v1/responses", content=others, timeout=60)
        assert (replayed.status_code, '"id": "r"' in replayed.text) == (200, True)
