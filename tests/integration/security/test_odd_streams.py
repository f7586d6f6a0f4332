"""Streams that no decoder, no JSON reader and no clock is at ease with: the client has them, and so
has the log.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from recorder.commands import main
from recorder.journal.format import Mark
from recorder.journal.reader import JournalReader
from recorder.model.events import BODY_KINDS
from recorder.projections.views.contract import VIEWS
from recorder.store.location import database_url
from recorder.store.sqlite.query import SqliteQuery
from tests.support.conversations import Recorded
from tests.support.event_loop import eventually, on_uvloop
from tests.support.proxy import get, proxied
from tests.support.server import PROGRAM, everywhere, serving
from tests.support.sockets import (
    LAST_CHUNK,
    STREAM_HEAD,
    Action,
    RawClient,
    ScriptedUpstream,
    Send,
    Sleep,
    chunked,
    head,
)
from tests.unit.wire.test_content_coding import CODERS, raw_deflate

# -- codings

TEXT = b"".join(b'data: {"n":%d}\n\n' % number for number in range(500))
BOMB = bytes(20 * 2**20)
LABELLED: dict[str, tuple[bytes | None, Callable[[bytes], bytes]]] = {
    **{name: (name.encode(), coder) for name, coder in CODERS.items()},
    "bare deflate": (b"deflate", raw_deflate),
    "unlabelled gzip": (None, gzip.compress),
    "unlabelled zstd": (None, CODERS["zstd"]),
    "unknown": (b"rot13", lambda data: data[::-1]),
    "lie": (b"gzip", lambda data: data),
}
FAULTS: dict[str, Callable[[bytes], bytes]] = {
    "whole": lambda wire: wire,
    "cut": lambda wire: wire[: len(wire) // 2],
    "damaged": lambda wire: wire[: len(wire) // 2] + b"\0\xff" * 40 + wire[len(wire) // 2 :],
}


@pytest.mark.long
@on_uvloop
async def test_the_client_has_every_coded_body_as_it_was_sent(tmp_path: Path) -> None:
    for name, (label, coder) in LABELLED.items():
        coded = {
            **{fault: damage(coder(TEXT)) for fault, damage in FAULTS.items()},
            "bomb": coder(BOMB)[: 2**21],
        }
        for fault, wire in coded.items():
            lines = [b"Content-Type: text/event-stream", b"Content-Length: %d" % len(wire)]
            if label is not None:
                lines.append(b"Content-Encoding: " + label)
            with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
                script: list[Action] = [Send(head(*lines) + wire)]
                async with (
                    ScriptedUpstream(script) as upstream,
                    proxied(Path(folder), upstream.base) as proxy,
                ):
                    response = await proxy.ask(get())
                    assert (response.body == wire, response.ending) == (True, "complete"), (
                        name,
                        fault,
                    )
                    assert [tape.body == wire for tape in proxy.tapes()] == [True], (name, fault)


# -- contents

USAGE = b'data: {"type":"response.completed","response":{"usage":{"input_tokens":%b}}}\n\n'
NASTY = {
    "every byte": b"data: " + bytes(byte for byte in range(256) if byte not in b"\r\n") + b"\n\n",
    "every byte as JSON": b"data: "
    + json.dumps({"type": "".join(map(chr, range(256)))}).encode()
    + b"\n\n",
    "NUL": b'data: {"type":"response.output_text.delta","delta":"a\\u0000b","item_id":"\\u0000"}\n\n',
    "lone surrogates": b'data: {"type":"response.output_text.delta","delta":"\\ud800","item_id":"\\udfff\\ud800"}\n\n',
    "a megabyte": b'data: {"type":"response.output_text.delta","delta":"'
    + b"x" * 2**20
    + b'"}\n\n',
    "deep": b'data: {"type":"response.completed","response":'
    + b"[" * 2000
    + b"]" * 2000
    + b"}\n\n",
    "a long number": USAGE % (b"9" * 5000),
    "no number": USAGE % b'NaN,"output_tokens":1e999',
    "twice": b'data: {"type":"response.created","type":"response.failed","response":{"id":1,"id":null}}\n\n',
    "no JSON": b"data: {\n\ndata: \xff\xfe\n\ndata:\n\nevent\n\n: \0\n\n",
}


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    recorded = Recorded(tmp_path_factory.mktemp("nasty") / "recorder.db")
    recorded.session("nasty", *([stream] for stream in NASTY.values()))
    return recorded.path


def test_every_view_answers_whatever_was_recorded(nasty: Path) -> None:
    with SqliteQuery.open(database_url(nasty)) as query:
        for view in VIEWS:
            list(query.ask(f"SELECT * FROM {view.name}").rows)


def test_what_was_recorded_comes_out_as_it_came_in(
    nasty: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with SqliteQuery.open(database_url(nasty)) as query:
        asked = (
            f"SELECT raw FROM events WHERE kind IN {tuple(BODY_KINDS)} ORDER BY exchange_id, pos"
        )
        rows = [row[0] for row in query.ask(asked).rows]
        assert b"".join(rows) == b"".join(NASTY.values())
        json_of = "SELECT count(json_extract(raw, '$.type')) FROM events WHERE json_valid(raw)"
        assert list(query.ask(json_of).rows)
    for verb in (
        ["show", "latest"],
        ["events", "latest", "--json"],
        ["verify"],
        ["lint", "latest"],
        ["usage"],
    ):
        with pytest.raises(SystemExit) as ended:
            main([*verb, "--db", str(nasty)])
        assert (ended.value.code or 0) == (4 if verb[0] == "lint" else 0), (
            verb,
            capfdbinary.readouterr(),
        )


# -- clocks


@on_uvloop
async def test_times_are_those_of_the_clock_that_nobody_can_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the clock that `serve` takes, while the wall clock is set back by an hour with each look
    at it.
    """
    hours = count()
    monkeypatch.setattr(time, "time_ns", lambda: (500_000 - next(hours)) * 3600 * 10**9)
    before_ns = time.monotonic_ns()
    script: list[Action] = [
        Send(STREAM_HEAD + chunked(b": 1\n\n")),
        Send(chunked(b": 2\n\n")),
        Send(LAST_CHUNK),
    ]
    async with ScriptedUpstream(script) as upstream, proxied(tmp_path, upstream.base) as proxy:
        assert (await proxy.ask(get())).body == b": 1\n\n: 2\n\n"
        records = JournalReader(tmp_path / "journal" / "recorder").read(2**20, writer_is_dead=True)
    after_ns = time.monotonic_ns()
    assert Mark.CHUNK in {record.mark for record in records}
    times = [record.t_ns for record in records]
    assert [before_ns, *times, after_ns] == sorted([before_ns, *times, after_ns])


# -- size


@pytest.mark.slow
async def test_an_event_of_100_mb_passes_in_bounded_memory_and_is_not_held_back(
    tmp_path: Path,
) -> None:
    piece, db = b"x" * 2**16, tmp_path / "recorder.db"
    size = len(b"data: ") + 1600 * len(piece) + len(b"\n\n")
    sends = [Send(chunked(piece)) for _ in range(1600)]
    small: list[Action] = [Send(STREAM_HEAD + chunked(b": 1\n\n") + LAST_CHUNK)]
    large: list[Action] = [
        Send(STREAM_HEAD + chunked(b"data: ")),
        *sends,
        Send(chunked(b"\n\n") + LAST_CHUNK),
    ]
    async with ScriptedUpstream(small, large) as upstream:
        with serving(db, *everywhere(upstream.base), program=PROGRAM) as serve:
            async with await RawClient.connect(serve.port) as client:
                await client.send(get("/v1/responses"))
                await client.read_until(LAST_CHUNK)
                await _until_stored(db, [5])
                before = {pid: _peak_mib(pid) for pid in (serve.process.pid, *serve.ingesters())}
                await client.send(get("/v1/responses"))
                await client.read_until(b"data: ")
                assert upstream.sent_bytes < 50 * 2**20, "it was held back until its end"
                assert len(
                    (await client.read_until(LAST_CHUNK)).replace(b"\r\n10000\r\n", b"")
                ) > 1600 * len(piece)
            await _until_stored(db, [5, size])
            grown = {pid: _peak_mib(pid) - peak for pid, peak in before.items()}
            assert max(grown.values()) < 64


async def _until_stored(db: Path, sizes: list[int]) -> None:
    async with asyncio.timeout(900):
        while True:
            if _stored(db) == sizes:
                return
            # the ingester is nice, and this process must leave it something
            await asyncio.sleep(0.5)


def _stored(db: Path) -> list[int]:
    """How many bytes of each body are in the log, of exchanges that have ended."""
    with SqliteQuery.open(database_url(db)) as query:
        ended = "exchange_id IN (SELECT exchange_id FROM events WHERE kind = 'end')"
        body = f"kind IN {tuple(BODY_KINDS)}"
        asked = (
            f"SELECT sum(length(raw)) FROM events WHERE {body} AND {ended} GROUP BY "
            f"exchange_id ORDER BY exchange_id"
        )
        return [row[0] for row in query.ask(asked).rows]


def _peak_mib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


# longer than each timer of the server, of the connections to upstreams, and of most proxies
SILENT_S = 100.0


@pytest.mark.slow
@on_uvloop
async def test_a_stream_that_is_silent_is_not_cut(tmp_path: Path) -> None:
    start, end = Send(STREAM_HEAD + chunked(b": 1\n\n")), Send(chunked(b": 2\n\n") + LAST_CHUNK)
    script: list[Action] = [start, Sleep(SILENT_S), end]
    async with ScriptedUpstream(script) as upstream, proxied(tmp_path, upstream.base) as proxy:
        async with await proxy.connect() as client:
            await client.send(get())
            await client.read_until(b": 1\n\n")
            await eventually(lambda: upstream.sent_bytes > len(STREAM_HEAD) + 20, SILENT_S + 10)
            assert (await client.read_until(LAST_CHUNK)).endswith(LAST_CHUNK)
        assert [tape.body for tape in proxy.tapes()] == [b": 1\n\n: 2\n\n"]
