"""Secrets pass through and are found nowhere: not in the database, not in the journal, not in what
is said.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import logging
import re
import secrets
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from recorder.proxy import recording
from recorder.proxy.routing import Upstream
from tests.support.event_loop import eventually, on_uvloop
from tests.support.logbook import entries
from tests.support.proxy import get, proxied
from tests.support.server import Serving, everywhere, run, serving
from tests.support.sockets import (
    LAST_CHUNK,
    STREAM_HEAD,
    Action,
    RawClient,
    Reset,
    ScriptedUpstream,
    Send,
    Stall,
    answer,
    chunked,
    head,
)
from tests.support.upstreams import SERVERS

MARKER = b"this is not a secret"
DEAD = "http://127.0.0.1:1"  # nothing listens there

HEADERS = (
    *(
        "Authorization",
        "authorization",
        "AUTHORIZATION",
        "x-api-key",
        "X-Api-Key",
        "api-key",
        "x-goog-api-key",
    ),
    *(
        "Cookie",
        "OpenAI-Organization",
        "OpenAI-Project",
        "ChatGPT-Account-ID",
        "Proxy-Authorization",
    ),
    *("X-Nobody-Knows-This", "X-Auth-Token", "Referer"),
)
QUERIES = (
    "?key={}",
    "?alt=sse&key={}",
    "?KEY={}&beta=true",
    "?alt=sse;key={}",
    "?access_token={}",
    "&key={}",
    "?{}",
)


class Canaries:
    """Secrets, one for each place, and every form in which one could have got out."""

    def __init__(self) -> None:
        self.by_place: dict[str, str] = {}

    def make(self, place: str) -> str:
        self.by_place[place] = f"sk-{secrets.token_hex(12)}"
        return self.by_place[place]

    def found(self, data: bytes) -> list[str]:
        lower = b"\n".join([data, *inflated(data)]).lower()
        return [
            place
            for place, secret in self.by_place.items()
            if any(form in lower for form in forms(secret))
        ]


def forms(secret: str) -> Iterator[bytes]:
    """In lower case: the search is."""
    core = secret.encode()
    yield core
    yield core[3:]  # without the `sk-`: half a secret is one too
    yield "".join(f"%{byte:02x}" for byte in core).encode()
    yield core.hex().encode()
    for offset in range(3):  # whatever stands before it
        coded = base64.b64encode(b"\0" * offset + core)
        yield coded[4 if offset else 0 : -4].lower()


def inflated(data: bytes) -> Iterator[bytes]:
    """What is compressed in it."""
    for match in re.finditer(rb"\x1f\x8b\x08|\x78[\x01\x5e\x9c\xda]", data):
        with contextlib.suppress(zlib.error):
            yield zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data[match.start() :], 2**24)


@pytest.fixture
def canaries() -> Canaries:
    return Canaries()


LEAKS: Sequence[Callable[[str], bytes]] = (
    str.encode,
    lambda secret: secret.upper().encode(),
    lambda secret: "".join(f"%{ord(character):02X}" for character in secret).encode(),
    lambda secret: base64.b64encode(f"Bearer {secret}".encode()),
    lambda secret: base64.b64encode(f"user:{secret}!".encode()),
    lambda secret: b"x" + gzip.compress(secret.encode()),
    lambda secret: b"x" + zlib.compress(f"a {secret}".encode()),
    lambda secret: secret.encode().hex().encode(),
)


def test_the_search_finds_what_is_there(canaries: Canaries) -> None:
    secret = canaries.make("here")
    for leak in LEAKS:
        assert canaries.found(b"..." + leak(secret) + b"...") == ["here"]
        assert canaries.found(b"..." + leak("sk-another") + b"...") == []


class Asked(NamedTuple):
    """A request that fails or not, with secrets in its head."""

    path: str = "/v1/responses"
    start: str = "POST {} HTTP/1.1"
    host: str = "localhost"
    length: int = 2


OUTPUTS = [
    ("sessions", "--json"),
    ("events", "latest", "--json"),
    ("show", "latest", "--json"),
    ("query", "--jsonl", "SELECT * FROM exchanges"),
    *(("export", "latest", "--format", format) for format in ("jsonl", "cassette", "har", "vcr")),
]

# Ways for a request to end, each with a code path of its own.
FATES = {
    "answered": Asked(),
    "unreachable": Asked("/dead/v1/responses"),
    "not found": Asked("/missing/v1/nothing"),
    "too large": Asked(length=2**40),
    "another host": Asked(host="evil.example"),
    "dot segments": Asked("/v1/../v1/responses"),
    "malformed": Asked(start="POST {} HTTP/9.9 nonsense"),
}


def _with_secrets(canaries: Canaries, fate: str) -> list[bytes]:
    """Requests with a secret in each header at once, and another in each kind of query."""
    asked = FATES[fate]
    lines = [f"{name}: {canaries.make(f'{name}, {fate}')}" for name in HEADERS]
    basic = base64.b64encode(f"user:{canaries.make(f'basic, {fate}')}".encode()).decode()
    fixed = [
        f"Host: {asked.host}",
        f"Content-Length: {asked.length}",
        f"X-Basic: Basic {basic}",
        "Connection: close",
    ]
    paths = [
        asked.path,
        *(asked.path + query.format(canaries.make(f"{query}, {fate}")) for query in QUERIES),
    ]
    starts = [asked.start.format(path) for path in paths]
    return ["\r\n".join([start, *fixed, *lines, "", ""]).encode() + b"{}" for start in starts]


def _assert_nowhere(canaries: Canaries, serve: Serving) -> dict[str, bytes]:
    """No secret in any file, nor in what was said; returns the files."""
    folder = serve.db.parent
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    for name, data in {**files, "what was said": serve.said.encode()}.items():
        assert canaries.found(data) == [], name
    assert any(MARKER in data for data in files.values()), "the search looks in the wrong place"
    return files


async def _send(port: int, request: bytes) -> None:
    async with await RawClient.connect(port) as client:
        await client.send(request)
        with contextlib.suppress(ConnectionResetError):
            while await client.read():
                pass


def _secret_headers(canaries: Canaries) -> list[bytes]:
    """Of a response."""
    names = (
        "Set-Cookie",
        "X-Internal-Token",
        "OpenAI-Organization",
        "X-Unheard-Of",
        "WWW-Authenticate",
    )
    location = (
        f"https://user:{canaries.make('location user')}@host/?key={canaries.make('location key')}"
    )
    values = [f"{name}: {canaries.make(f'response {name}')}" for name in names]
    return [line.encode() for line in (*values, f"Location: {location}")]


async def test_secrets_are_found_nowhere(tmp_path: Path, canaries: Canaries) -> None:
    headers = _secret_headers(canaries)
    start = STREAM_HEAD.removesuffix(b"\r\n") + b"\r\n".join([*headers, b"", b""])
    body = chunked(b"data: " + MARKER + b"\n\n")
    missing = [Send(head(*headers, b"Content-Length: 2", status=b"404 Not Here") + b"no")]
    db = tmp_path / "data" / "recorder.db"
    async with (
        ScriptedUpstream([Send(start + body + LAST_CHUNK)]) as upstream,
        ScriptedUpstream(missing) as nothing,
        ScriptedUpstream([Send(start + body), Stall()]) as endless,
    ):
        bases = {
            "openai": upstream.base,
            "missing": nothing.base,
            "endless": endless.base,
            "dead": DEAD,
        }
        options = [word for item in bases.items() for word in ("--upstream", "=".join(item))]
        with serving(db, *options) as serve:
            for request in [request for fate in FATES for request in _with_secrets(canaries, fate)]:
                await _send(serve.port, request)
            async with await RawClient.connect(serve.port) as client:
                secret = f"Authorization: Bearer {canaries.make('while it streams')}".encode()
                await client.send(get("/endless/v1/responses", secret))
                await client.read_until(MARKER)
                files = _assert_nowhere(canaries, serve)
                assert any(name.endswith(".seg") and MARKER in data for name, data in files.items())
            await eventually(
                lambda: "client_disconnect" in {entry.end.get("status") for entry in entries(db)}
            )
            _assert_nowhere(canaries, serve)
            serve.stop()
            _assert_nowhere(canaries, serve)
        passed_on = b"".join([*upstream.requests, *nothing.requests, *endless.requests])
    assert len(canaries.found(passed_on)) > 2 * len(HEADERS), "they were not even sent"
    statuses = {entry.end["status"] for entry in entries(db)}
    assert statuses >= {"upstream_unreachable", "error_status", "client_disconnect", "incomplete"}
    assert re.search(rb"REDACTED \(\d+ bytes\)", entries(db)[0].events[0].raw)
    for command in OUTPUTS:
        ran = await asyncio.to_thread(run, db, *command)
        assert ran.code == 0
        assert canaries.found(ran.out + ran.err.encode()) == [], command


@pytest.mark.parametrize("broken", ["redact_headers", "redact_target", None])
@on_uvloop
async def test_no_log_line_at_any_level_has_a_secret(
    tmp_path: Path,
    canaries: Canaries,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    broken: str | None,
) -> None:
    """Of ours or of a library, of what fails or of what succeeds, with the traceback that it may
    have.
    """
    caplog.set_level(1)
    if broken is not None:
        monkeypatch.setattr(recording, broken, _raise)
    cut: list[Action] = [Send(STREAM_HEAD + chunked(b"data: x\n\n")), Reset()]
    async with (
        ScriptedUpstream(answer(b"{}", *_secret_headers(canaries))) as upstream,
        ScriptedUpstream(cut) as cutting,
        ScriptedUpstream([Stall()]) as silent,
    ):
        more = [
            Upstream("dead", DEAD),
            Upstream("missing", upstream.base),
            Upstream("cut", cutting.base),
        ]
        more.append(Upstream("silent", silent.base))
        async with proxied(tmp_path, upstream.base, more=more) as proxy:
            for fate in FATES:
                for request in _with_secrets(canaries, fate):
                    await _send(proxy.server.port, request)
            for request in _with_secrets(canaries, "answered"):
                await _send(proxy.server.port, request.replace(b" /v1/", b" /cut/v1/"))
                async with await proxy.connect() as client:  # which leaves
                    await client.send(request.replace(b" /v1/", b" /silent/v1/"))
            await eventually(lambda: proxy.server.open == 0)
    assert {record.levelno for record in caplog.records} >= {logging.DEBUG, logging.WARNING}
    assert canaries.found(caplog.text.encode()) == []
    for path in tmp_path.rglob("*.seg"):
        assert canaries.found(path.read_bytes()) == []


def _raise(*_: object) -> Any:
    raise ZeroDivisionError


async def test_the_page_of_a_mock_and_what_it_says_have_no_secret(
    canaries: Canaries, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async with (
        ScriptedUpstream(answer(b"{}")) as upstream,
        SERVERS["mock"](tmp_path, upstream.base) as port,
    ):
        for request in _with_secrets(canaries, "answered"):
            await _send(port, request)
        async with await RawClient.connect(port) as client:
            await client.send(get("/_recorder/requests"))
            page = (await client.response()).body
    assert b"/v1/responses" in page
    assert canaries.found(page) == []
    assert canaries.found(caplog.text.encode()) == []


def test_an_upstream_with_a_password_is_refused_without_repeating_it(
    tmp_path: Path, canaries: Canaries
) -> None:
    url = f"https://user:{canaries.make('userinfo')}@api.openai.com"
    refused = run(tmp_path / "recorder.db", "serve", "--port", "0", "--upstream", f"openai={url}")
    assert (refused.code, refused.out) == (2, b"")
    assert "must have no user, password" in refused.err
    assert canaries.found(refused.err.encode()) == []
    assert not list(tmp_path.iterdir())


async def test_every_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    db = tmp_path / "new" / "folder" / "recorder.db"
    async with ScriptedUpstream([Send(STREAM_HEAD + chunked(b"data: x\n\n")), Stall()]) as upstream:
        with serving(db, *everywhere(upstream.base), umask=0) as serve:
            async with await RawClient.connect(serve.port) as client:
                await client.send(get("/v1/responses"))
                await client.read_until(b"data: x")
                await eventually(lambda: bool(entries(db)))
                while_it_streams = _modes(tmp_path / "new")
            serve.stop()
            afterwards = _modes(tmp_path / "new")
    assert {"recorder.db", "recorder.db-wal", "recorder.db-shm", "recorder.db.lock"} <= set(
        while_it_streams
    )
    assert any(name.endswith(".seg") for name in while_it_streams)
    for modes in (while_it_streams, afterwards):
        assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}


def _modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}
