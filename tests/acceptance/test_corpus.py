"""Every recorded stream goes through proxy, log and replay, however it is cut, and stays itself."""

from __future__ import annotations

import asyncio
import json
import random
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from recorder.model.events import EndRecord
from tests.support.corpus import CORPUS, corpus_index, needs_corpus
from tests.support.facts import PATHS
from tests.support.logbook import Entry, assert_chained, entries
from tests.support.server import everywhere, run, serving
from tests.support.sockets import LAST_CHUNK, RawClient, RawResponse, head
from tests.support.upstreams import Answer, Upstream, asked, request

pytestmark = needs_corpus

CLIENTS = 8
# bytes that go out singly, from either end of a body: beyond them it is more of the same
ONE_BY_ONE = 600
TWICE = "vendor_field:error"  # a chunk that is an error too is counted as both in the index

Cuts = Callable[[bytes, random.Random], list[int]]


def _singly(body: bytes, dice: random.Random) -> list[int]:
    return [
        *range(1, min(ONE_BY_ONE, len(body))),
        *range(max(ONE_BY_ONE, len(body) - ONE_BY_ONE), len(body)),
    ]


def _anywhere(body: bytes, dice: random.Random) -> list[int]:
    return (
        sorted(dice.sample(range(1, len(body)), k=min(100, len(body) // 3)))
        if len(body) > 3
        else []
    )


def _in_characters(body: bytes, dice: random.Random) -> list[int]:
    """Before every byte that continues a character of UTF-8."""
    return [at for at, byte in enumerate(body) if at and byte & 0xC0 == 0x80][:2_000]


def _in_line_ends(body: bytes, dice: random.Random) -> list[int]:
    """Between the two line ends of every blank line, and within every CRLF."""
    return [match.start() + 1 for match in re.finditer(rb"(?=\r\n|\n\n|\n\r)", body)][:2_000]


class Way(NamedTuple):
    """How a body is sent."""

    cuts: Cuts
    framing: str
    coding: str | None = None


WAYS = {
    "singly": Way(_singly, "chunked"),
    "anywhere": Way(_anywhere, "close"),
    "in characters": Way(_in_characters, "length"),
    "in line ends": Way(_in_line_ends, "chunked"),
    "whole": Way(lambda body, dice: [], "length"),
    "gzip singly": Way(_singly, "chunked", "gzip"),
    "gzip anywhere": Way(_anywhere, "close", "gzip"),
}


class Case(NamedTuple):
    """One file, sent in one way."""

    file: dict[str, Any]
    way: str

    @property
    def key(self) -> str:
        return f"{self.way}: {self.file['file']}"

    @property
    def path(self) -> str:
        """The path that was asked, as far as it is known, else the usual one of its API.

        Gateways have an API behind a prefix of their own; such a path must name its upstream.
        """
        parts = urlsplit(self.file["url"] or "")
        known = parts.path.startswith("/") and parts.path + (
            f"?{parts.query}" if parts.query else ""
        )
        path = known or PATHS.get(self.file["provider"], "/v1/unknown")
        return path if path.startswith("/v1") else f"/openai{path}"

    @property
    def body(self) -> bytes:
        return Path(CORPUS, self.file["file"]).read_bytes()

    @property
    def wire(self) -> bytes:
        return _gzipped(self.body) if WAYS[self.way].coding else self.body

    @property
    def content_type(self) -> str:
        return (self.file["response_headers"] or {}).get("content-type") or "text/event-stream"

    def answer(self) -> Answer:
        way, wire = WAYS[self.way], self.wire
        headers = [f"Content-Type: {self.content_type}".encode()]
        headers += [b"Content-Encoding: gzip"] if way.coding else []
        headers += _FRAMINGS[way.framing](len(wire))
        pieces = list(_pieces(wire, way.cuts(wire, random.Random(self.key))))
        if way.framing == "chunked":
            pieces = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces] + [LAST_CHUNK]
        status = f"{self.file['status'] or 200} Whatever".encode()
        return Answer([head(*headers, status=status), *pieces], close=way.framing == "close")


_FRAMINGS: dict[str, Callable[[int], list[bytes]]] = {
    "chunked": lambda size: [b"Transfer-Encoding: chunked"],
    "length": lambda size: [b"Content-Length: %d" % size],
    "close": lambda size: [b"Connection: close"],
}


def _pieces(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        if end > start:
            yield data[start:end]


def _gzipped(body: bytes) -> bytes:
    """As a streaming API codes: flushed after every event."""
    coder = zlib.compressobj(wbits=31)
    events = re.split(rb"(?<=\n\n)|(?<=\r\n\r\n)", body)
    return (
        b"".join(coder.compress(event) + coder.flush(zlib.Z_SYNC_FLUSH) for event in events)
        + coder.flush()
    )


async def _ask(port: int, case: Case) -> RawResponse:
    path = f"/s/{case.way.replace(' ', '-')}{case.path}"
    async with await RawClient.connect(port) as client:
        await client.send(request(path, case.key, method=(case.file["method"] or "POST").upper()))
        return await client.response()


async def _through(db: Path, cases: list[Case]) -> list[RawResponse]:
    """Every case through a real recorder, several at a time."""
    by_key = {case.key: case for case in cases}
    turns = asyncio.Semaphore(CLIENTS)

    async def ask(port: int, case: Case) -> RawResponse:
        async with turns:
            return await _ask(port, case)

    async with Upstream(lambda key: by_key[key].answer()) as upstream:
        with serving(db, *everywhere(upstream.base)) as serve:
            responses = await asyncio.gather(*(ask(serve.port, case) for case in cases))
    # what the end of a recorder has no time for
    assert (await asyncio.to_thread(run, db, "db", "recover")).code == 0
    return responses


def _described(entry: Entry) -> list[tuple[object, ...]]:
    """The events of a body, but for when they came and what they are chained to."""
    return [
        (
            *(
                event.kind,
                event.type,
                event.sequence_number,
                event.item_id,
                event.output_index,
                event.raw,
            ),
            *(event.data_start, event.data_length),
        )
        for event in entry.events
        if event.kind not in ("request", "response", "reads", "end")
    ]


def _assert_keys_are_sane(case: Case, entry: Entry) -> None:
    for event in entry.events:
        if event.data_start is not None and event.data_length is not None:
            payload = json.loads(event.raw[event.data_start :][: event.data_length])
            if isinstance(payload, dict) and entry.exchange.api == "openai-responses":
                assert (event.type, event.sequence_number) == (
                    payload.get("type"),
                    payload.get("sequence_number"),
                )
    provider = case.file["provider"]
    if case.path == PATHS.get(provider):
        assert entry.exchange.api == provider
    if provider == entry.exchange.api and TWICE not in case.file["oddities"]:
        types = Counter(
            event.type or "(no object)" for event in entry.events if event.data_length is not None
        )
        assert types == Counter({**case.file["event_types"], "[DONE]": 0}), case.key


def _assert_ended(case: Case, entry: Entry) -> None:
    end = EndRecord(**entry.end)
    assert end.lossless
    assert (end.outcome, end.undecoded, end.error) == ("eof", None, None)
    assert (end.body_bytes, end.wire_bytes) == (len(case.body), len(case.wire))
    assert end.http_status == (case.file["status"] or 200)


async def _assert_corpus_stays_itself(db: Path, cases: list[Case]) -> None:
    responses = await _through(db, cases)
    for case, response in zip(cases, responses, strict=True):
        assert (response.body, response.ending) == (case.wire, "complete"), case.key
    found = entries(db)
    by_key = {case.key: case for case in cases}
    assert sorted(asked(entry.request_body) for entry in found) == sorted(by_key)
    described: dict[str, list[tuple[object, ...]]] = {}
    for entry in found:
        case = by_key[asked(entry.request_body)]
        assert entry.body == case.body, case.key
        _assert_ended(case, entry)
        _assert_keys_are_sane(case, entry)
        first = described.setdefault(case.file["file"], _described(entry))
        assert _described(entry) == first, f"{case.key}: other events, because it was cut otherwise"
    assert_chained(found)
    for way in {case.way for case in cases}:
        name = way.replace(" ", "-")
        replayed = await asyncio.to_thread(
            run, db, "replay", name, "--speed", "max", "--format", "sse"
        )
        assert (replayed.code, replayed.err) == (0, "")
        assert replayed.out == b"".join(entry.body for entry in found if entry.session == name)


async def test_core_streams_stay_themselves_however_they_are_cut(tmp_path: Path) -> None:
    """Every fifth of them, each in two ways, one after the other of all there are."""
    core = [file for file in corpus_index() if file["core"]][::5]
    ways = list(WAYS)
    turns = [
        (file, ways[(number + turn) % len(ways)])
        for turn in (0, 3)
        for number, file in enumerate(core)
    ]
    await _assert_corpus_stays_itself(
        tmp_path / "recorder.db", [Case(file, way) for file, way in turns]
    )


@pytest.mark.slow
async def test_all_streams_stay_themselves_however_they_are_cut(tmp_path: Path) -> None:
    cases = [Case(file, way) for way in WAYS for file in corpus_index()]
    await _assert_corpus_stays_itself(tmp_path / "recorder.db", cases)
