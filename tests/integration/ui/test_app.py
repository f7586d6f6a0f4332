"""The viewer's files, and what becomes of failures and of streams that are open when it stops."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from pathlib import Path

import msgspec
import pytest

from recorder.ui import api, app
from tests.support.server import child_running, children, halt, runs, wait_until
from tests.support.sockets import RawClient
from tests.support.viewer_api import Viewing, request, viewing

STATIC = app.HERE / "static"


async def test_the_page_and_its_modules_have_their_own_types(db: Path) -> None:
    async with viewing(db) as viewer:
        for path, type in (
            ("/", b"text/html; charset=utf-8"),
            ("/static/index.html", b"text/html; charset=utf-8"),
            ("/static/app.js", b"text/javascript; charset=utf-8"),
            ("/static/style.css", b"text/css; charset=utf-8"),
        ):
            answer = await viewer.get(path)
            name = "index.html" if path == "/" else path.removeprefix("/static/")
            assert (answer.status[:3], answer.body) == (b"200", (STATIC / name).read_bytes())
            assert answer.header(b"content-type") == type


async def test_a_file_that_the_browser_has_is_not_sent_again(db: Path) -> None:
    async with viewing(db) as viewer:
        tag = (await viewer.get("/static/app.js")).header(b"etag") or b""
        again = await viewer.get("/static/app.js", b"If-None-Match: " + tag)
        assert (again.status[:3], again.body, again.header(b"content-length")) == (
            b"304",
            b"",
            None,
        )
        assert (await viewer.get("/static/app.js", b'If-None-Match: "other"')).status[:3] == b"200"


TRAVERSALS = (
    *(
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static//app.js",
        "//static/app.js",
    ),
    *(
        "/static/./app.js",
        "/static",
        "/static/",
        "/app.py",
        "/etc/passwd",
        "/static/app.js%00",
        "/static\\app.js",
    ),
    *(
        "/static/jsconfig.json",
        "/static/types.d.ts",
        "/vendor/vendor.toml",
        "/static/app.js/",
        "/..",
        "/%2e%2e",
    ),
)


async def test_nothing_else_of_the_disk_can_be_had(db: Path) -> None:
    async with viewing(db) as viewer:
        for path in TRAVERSALS:
            assert (await viewer.get(path)).status[:3] in (b"404", b"400"), path


async def test_a_failure_is_one_sentence_in_json(db: Path) -> None:
    async with viewing(db) as viewer:
        for path, status, type in (
            ("/api/sessions/none", b"404", "not_found"),
            ("/api/sessions/demo/exchanges/7/events", b"404", "not_found"),
            ("/api/nothing", b"404", "not_found"),
            ("/api/", b"404", "not_found"),
            ("/api/sessions/demo/exchanges/1/events?limit=0", b"400", "usage"),
            ("/api/sessions/demo/exchanges/1/events/one", b"400", "usage"),
            ("/api/sessions?sort=name", b"400", "usage"),
            ("/api/sessions?limit=1&limit=2", b"400", "usage"),
            ("/api/sessions?before=x", b"400", "usage"),
        ):
            answer = await viewer.get(path)
            error = msgspec.json.decode(answer.body)["error"]
            assert (answer.status[:3], error["type"]) == (status, type), path
            assert error["message"].strip(), path
            assert answer.header(b"cache-control") == b"no-store"


async def test_a_database_that_is_damaged_or_not_there_yet_does_not_end_the_viewer(
    db: Path,
) -> None:
    async with viewing(db, is_open=False) as viewer:
        assert (await viewer.json("/api/about", b"503"))["error"]["type"] == "store"
        assert (await viewer.get("/")).status[:3] == b"200", "the page can say so"
    async with viewing(db) as viewer:
        with db.open("r+b") as file:
            file.truncate(0)
        assert (await viewer.json("/api/about", b"503"))["error"]["message"]


async def test_an_error_of_the_program_is_a_500_and_the_next_request_is_answered(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with viewing(db) as viewer:
        with monkeypatch.context() as patched:
            patched.setattr(viewer.viewer, "_context", object())
            answer = await viewer.get("/api/about")
        error = msgspec.json.decode(answer.body)["error"]
        assert (answer.status[:3], error["type"]) == (b"500", "internal")
        assert "Traceback" not in error["message"]
        assert (await viewer.get("/static/app.js")).status[:3] == b"200"


async def follow(viewer: Viewing) -> RawClient:
    """A client that reads a stream, which has begun."""
    client = await RawClient.connect(viewer.port)
    await client.send(request("/api/follow", viewer.token))
    await client.read_until(b"retry: 2000\n\n")
    return client


@pytest.mark.timed
async def test_it_stops_at_once_with_open_streams_and_a_statement_that_runs(db: Path) -> None:
    async with viewing(db) as viewer:
        clients = [await follow(viewer) for _ in range(3)]
        asking = await RawClient.connect(viewer.port)
        body = msgspec.json.encode({"sql": ENDLESS})
        await asking.send(
            request(
                "/api/query",
                viewer.token,
                b"Content-Type: application/json",
                method="POST",
                body=body,
            )
        )
        began = time.monotonic()
        await viewer.server.stop(grace_s=0)
        assert viewer.server.open == 0
        assert time.monotonic() - began < 10, "not the thirty seconds that a statement has"
        for client in (*clients, asking):
            client.socket.close()


async def test_the_process_for_findings_ends_with_the_client_that_has_left(db: Path) -> None:
    async with viewing(db) as viewer:
        client = await RawClient.connect(viewer.port)
        await client.send(request("/api/sessions/demo/marks", viewer.token))
        pid = await asyncio.to_thread(child_running, os.getpid(), "recorder.ui.marks")
        halt(pid)  # it would have an answer soon
        client.socket.close()
        await asyncio.to_thread(wait_until, lambda: pid not in children(os.getpid()))


async def test_findings_are_looked_for_by_two_processes_at_most(db: Path) -> None:
    def looking() -> set[int]:
        return {pid for pid in children(os.getpid()) if runs(pid, "recorder.ui.marks")}

    def are_looking(count: int) -> bool:
        return len(looking()) == count

    async with viewing(db) as viewer:
        clients: list[RawClient] = []
        for count in range(1, api.JUDGED + 2):
            clients.append(await RawClient.connect(viewer.port))
            await clients[-1].send(request("/api/sessions/demo/marks", viewer.token))
            if count <= api.JUDGED:
                await asyncio.to_thread(wait_until, partial(are_looking, count))
                for pid in looking():
                    halt(pid)
        await viewer.get("/api/sessions/demo")
        halted = looking()
        assert len(halted) == api.JUDGED
        clients.pop(0).socket.close()
        await asyncio.to_thread(wait_until, lambda: looking() - halted)
        for client in clients:
            client.socket.close()


ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"


async def test_there_is_a_limit_of_streams_and_one_that_ends_makes_room(db: Path) -> None:
    async with viewing(db) as viewer:
        clients = [await follow(viewer) for _ in range(app.STREAMS)]
        refused = await viewer.get("/api/follow")
        assert refused.status[:3] == b"503"
        assert b"close some pages" in refused.body
        clients.pop().socket.close()
        while (client := await RawClient.connect(viewer.port)) is not None:
            await client.send(request("/api/follow", viewer.token))
            head = await client.read_until(b"\r\n\r\n")
            client.socket.close()
            if head.startswith(b"HTTP/1.1 200"):
                break
        for client in clients:
            client.socket.close()
