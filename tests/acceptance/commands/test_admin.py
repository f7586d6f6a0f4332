"""The admin port of `recorder serve`: who may ask, and that what it says follows what happens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, Self

import pytest
from sqlalchemy import URL

from recorder.commands.serving.admin import Admin, Look, administered
from recorder.commands.serving.health_snapshot import LAG_S, HealthSnapshot, exposition, reasons
from recorder.commands.serving.meter import Meter
from recorder.errors import RecorderError
from recorder.proxy.admission import ANY_HOST
from recorder.proxy.http.server import Server
from tests.support.event_loop import on_uvloop
from tests.support.postgres import conninfo
from tests.support.proxy import get
from tests.support.server import PROGRAM, Serving, environment, everywhere, halt, serving
from tests.support.sockets import (
    LAST_CHUNK,
    STREAM_HEAD,
    Action,
    RawClient,
    RawResponse,
    ScriptedUpstream,
    Send,
    Wait,
    chunked,
)
from tests.unit.commands.test_metrics import WELL, parsed

CHUNK = b"data: 1\n\n"
BYTES_OF_ONE = len(CHUNK)


async def ask(port: int, request: bytes) -> RawResponse:
    async with await RawClient.connect(port) as client:
        await client.send(request)
        return await client.response(to_head=request.startswith(b"HEAD"))


class Asked:
    """The admin port of a running recorder."""

    def __init__(self, serve: Serving) -> None:
        found = re.search(
            r"^Metrics and health on http://127\.0\.0\.1:(\d+)$", serve.said, re.MULTILINE
        )
        assert found, serve.said
        self.port = int(found[1])

    async def metrics(self) -> dict[str, float]:
        return parsed((await ask(self.port, get("/metrics"))).body.decode())

    async def health(self) -> tuple[int, Any]:
        response = await ask(self.port, get("/healthz"))
        return int(response.status[:3]), json.loads(response.body)

    async def until(
        self, condition: Callable[[dict[str, float]], bool], within_s: float = 30.0
    ) -> dict[str, float]:
        """The metrics, as soon as they are like this."""
        async with asyncio.timeout(within_s):
            while True:
                if condition(found := await self.metrics()):
                    return found
                await asyncio.sleep(0.05)

    async def until_health(self, status: int, words: str = "", within_s: float = 30.0) -> Any:
        """What it says of its health, as soon as it has that status and says these words."""
        async with asyncio.timeout(within_s):
            while True:
                found, said = await self.health()
                if found == status and words in str(said):
                    return said
                await asyncio.sleep(0.05)


@contextlib.contextmanager
def recorder_at(folder: Path, base: str) -> Iterator[tuple[Serving, Asked]]:
    with serving(
        folder / "recorder.db", "--admin-port", "0", *everywhere(base), program=PROGRAM
    ) as serve:
        yield serve, Asked(serve)


# -- who may ask

OUR_HOSTS = (b"127.0.0.1:9187", b"localhost", b"[::1]:9187", b"a.localhost", b"box.test")
OTHER_HOSTS = (b"evil.example", b"127.0.0.1.evil.example", b"169.254.169.254", b"0.0.0.0", b"")
OF_PROGRAMS = ((), (b"Sec-Fetch-Site: none",), (b"Sec-Fetch-Site: same-origin",))
OF_PAGES = (
    *((b"Sec-Fetch-Site: cross-site",), (b"Sec-Fetch-Site: same-site",)),
    *((b"Origin: http://127.0.0.1",), (b"Origin: null",)),
)


@contextlib.asynccontextmanager
async def admin(health: HealthSnapshot = WELL) -> AsyncIterator[int]:
    async def now() -> Look:
        return Look(exposition(health), reasons(health))

    server = Server(Admin(now, ["Box.test", ANY_HOST]), "127.0.0.1", 0, on_drain=lambda: None)
    await server.start()
    try:
        yield server.port
    finally:
        await server.stop(0)


@on_uvloop
async def test_only_programs_on_this_machine_are_answered() -> None:
    async with admin() as port:
        for host, headers in product(OUR_HOSTS + OTHER_HOSTS, OF_PROGRAMS + OF_PAGES):
            response = await ask(
                port, b"\r\n".join([b"GET /metrics HTTP/1.1", b"Host: " + host, *headers, b"", b""])
            )
            may_ask = host in OUR_HOSTS and headers in OF_PROGRAMS
            assert response.status[:3] == (b"200" if may_ask else b"403"), (host, headers)
            assert (b"recorder_" in response.body) == may_ask
            assert response.header(b"access-control-allow-origin") is None


@on_uvloop
async def test_a_request_names_its_host_once() -> None:
    async with admin() as port:
        for hosts in ([], [b"Host: localhost", b"Host: localhost"]):
            response = await ask(port, b"\r\n".join([b"GET /metrics HTTP/1.1", *hosts, b"", b""]))
            assert response.status[:3] == b"400"


@on_uvloop
async def test_two_pages_are_there_and_only_to_be_read() -> None:
    async with admin() as port:
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"):
            assert (await ask(port, get("/metrics", method=method))).status[:3] in (
                b"405",
                b"400",
            ), method
        for target in (
            "/",
            "/v1/models",
            "/metrics/",
            "/_recorder/healthz",
            "//healthz",
            "http://h/x",
        ):
            assert (await ask(port, get(target))).status[:3] == b"404", target


@on_uvloop
async def test_head_is_get_without_a_body() -> None:
    async with admin() as port:
        asked, told = [
            await ask(port, get("/healthz", method=method)) for method in ("HEAD", "GET")
        ]
        assert (asked.status, asked.headers, asked.body) == (told.status, told.headers, b"")


@on_uvloop
async def test_who_is_unwell_says_why() -> None:
    async with admin(HealthSnapshot(journal_is_full=True)) as port:
        response = await ask(port, get("/healthz"))
        assert response.status[:3] == b"503"
        assert len(json.loads(response.body)["reasons"]) == 2, (
            "no ingester, and a journal at its bound"
        )


@on_uvloop
async def test_a_taken_port_names_the_option_that_chooses_another() -> None:
    async with admin() as port:
        with pytest.raises(RecorderError, match="--admin-port"):
            async with administered(Meter(Path("none")), port, ()):
                pass


# -- what it says of a recorder


@on_uvloop
async def test_the_figures_follow_what_passes_and_no_scrape_reaches_the_upstream(
    tmp_path: Path,
) -> None:
    go_on = asyncio.Event()
    script: list[Action] = [
        Send(STREAM_HEAD + chunked(CHUNK)),
        Wait(go_on),
        Send(chunked(CHUNK) + LAST_CHUNK),
    ]
    async with ScriptedUpstream(script) as upstream:
        with recorder_at(tmp_path, upstream.base) as (serve, admin):
            async with (
                await RawClient.connect(serve.port) as stays,
                await RawClient.connect(serve.port) as leaves,
            ):
                for client in (stays, leaves):
                    await client.send(get("/v1/responses"))
                    await client.read_until(CHUNK)
                assert (await admin.metrics())['recorder_streams_open{upstream="openai"}'] == 2
                leaves.socket.close()
                await admin.until(lambda now: now['recorder_streams_open{upstream="openai"}'] == 1)
                go_on.set()
                await stays.read_until(LAST_CHUNK)
            found = await admin.until(
                lambda now: now["recorder_response_bytes_total"] == 3 * BYTES_OF_ONE
            )
            outcomes = {
                key: value
                for key, value in found.items()
                if key.startswith("recorder_exchanges_total")
            }
            assert outcomes == {
                'recorder_exchanges_total{upstream="openai",outcome="eof"}': 1,
                'recorder_exchanges_total{upstream="openai",outcome="client_disconnect"}': 1,
            }
            assert found["recorder_response_chunks_total"] == 3
            assert (
                found["recorder_gap_chunks_total"] == found["recorder_database_errors_total"] == 0
            )
            assert (found["recorder_ingester_up"], found["recorder_journal_full"]) == (1, 0)
            assert found['recorder_process_resident_memory_bytes{process="recorder"}'] > 2**24
            assert found['recorder_process_open_fds{process="ingester"}'] > 3
            # a busy machine may hold the ingester up
            assert await admin.until_health(200) == {"status": "ok"}
            assert len(upstream.requests) == 2


@on_uvloop
async def test_an_ingester_that_was_killed_is_said_and_so_is_its_return(tmp_path: Path) -> None:
    with recorder_at(tmp_path, "http://127.0.0.1:9") as (serve, admin):
        await admin.until_health(200)
        os.kill(serve.ingesters()[0], signal.SIGKILL)
        await admin.until_health(503, "ended with code -9")  # and not only that none runs
        await admin.until_health(200)
        assert (await admin.metrics())["recorder_ingester_restarts_total"] == 1


@on_uvloop
async def test_a_journal_that_was_deleted_is_said(tmp_path: Path) -> None:
    with recorder_at(tmp_path, "http://127.0.0.1:9") as (serve, admin):
        await admin.until_health(200)
        shutil.rmtree(f"{serve.db}.journal")
        await admin.until_health(503, "they are put back, 0 bytes are lost")
        found = await admin.metrics()
        assert (
            found["recorder_journal_restored_total"],
            found["recorder_journal_lost_bytes_total"],
        ) == (1, 0)


@pytest.mark.slow
@on_uvloop
async def test_a_locked_database_is_said_after_a_while_and_so_is_its_release(
    tmp_path: Path,
) -> None:
    script = [Send(STREAM_HEAD + chunked(CHUNK) + LAST_CHUNK)]
    async with ScriptedUpstream(script) as upstream:
        with recorder_at(tmp_path, upstream.base) as (serve, admin):
            await ask(serve.port, get("/v1/responses"))
            await admin.until(lambda now: now["recorder_response_chunks_total"] == 1)
            holder = sqlite3.connect(serve.db, isolation_level=None)
            holder.execute("BEGIN IMMEDIATE")
            await ask(serve.port, get("/v1/responses"))
            told = await admin.until_health(503, within_s=2 * LAG_S + 5)
            locked = await admin.metrics()
            holder.execute("ROLLBACK")
            holder.close()
            await admin.until_health(200)
            freed = await admin.until(lambda now: now["recorder_response_chunks_total"] == 2)
    assert "the database is locked, full or slow" in told["reasons"][0]
    assert locked["recorder_ingest_lag_seconds"] > LAG_S
    assert locked["recorder_ingest_lag_bytes"] > BYTES_OF_ONE
    assert freed["recorder_ingest_lag_seconds"] == freed["recorder_ingest_lag_bytes"] == 0


@pytest.mark.slow
@on_uvloop
async def test_a_stopped_ingester_is_named(tmp_path: Path) -> None:
    async with ScriptedUpstream([Send(STREAM_HEAD + chunked(CHUNK) + LAST_CHUNK)]) as upstream:
        with recorder_at(tmp_path, upstream.base) as (serve, admin):
            await admin.until_health(200)
            ingester = serve.ingesters()[0]
            halt(ingester)
            await ask(serve.port, get("/v1/responses"))
            told = await admin.until_health(503, within_s=2 * LAG_S + 5)
            os.kill(ingester, signal.SIGCONT)
            await admin.until_health(200)
    assert f"process {ingester}) is stopped" in told["reasons"][0]


# how a server ends its answer to a login, and to each question outside of a transaction
IS_READY = b"Z\0\0\0\5I"


def socket_of(database: URL) -> str:
    return f"{database.query['host']}/.s.PGSQL.5432"


class DeafRelay:
    """A way to a server on which nothing comes through while it does not hear, and nothing is
    closed.

    `answers` says after how many answers it stops to hear, `lose` has it never hear again who is
    connected now.
    """

    def __init__(self, path: str, answers: int = 2**31) -> None:
        self._path, self._answers = path, answers
        self._tasks: list[asyncio.Task[Any]] = []
        self.hears, self.is_deaf = asyncio.Event(), asyncio.Event()
        self.hears.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # for the loop to close what was aborted

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            self._tasks.append(task)
        server_reader, server_writer = await asyncio.open_unix_connection(self._path)
        try:
            await asyncio.gather(
                self._pass_on(reader, server_writer), self._pass_on(server_reader, writer)
            )
        except OSError:
            pass
        finally:
            for each in (writer, server_writer):
                each.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hears = self.hears
        while data := await reader.read(2**16):
            await hears.wait()
            writer.write(data)
            await writer.drain()
            if data.endswith(IS_READY):
                self._answer()
        raise ConnectionResetError

    def _answer(self) -> None:
        self._answers -= 1
        if self._answers == 0:
            self.hears.clear()
            self.is_deaf.set()

    def to(self, database: URL) -> URL:
        return database.set(query={}, host="127.0.0.1", port=self.port)

    def lose(self) -> None:
        self.hears.clear()
        self.hears = asyncio.Event()
        self.hears.set()


@contextlib.asynccontextmanager
async def recorder_by(
    relay: DeafRelay, database: URL, folder: Path, base: str
) -> AsyncIterator[tuple[Serving, Asked]]:
    """A recorder whose database is behind a relay of this event loop."""
    options = ("--admin-port", "0", "--db", conninfo(relay.to(database)), *everywhere(base))
    with contextlib.ExitStack() as stack:
        starting = serving(folder / "none", *options, program=PROGRAM)
        serve = await asyncio.to_thread(stack.enter_context, starting)
        yield serve, Asked(serve)


@pytest.mark.parametrize("returns", [False, True], ids=["for good", "for a while"])
@on_uvloop
async def test_a_server_that_hangs_is_said_and_keeps_nobody(
    tmp_path: Path, postgres_database: URL, returns: bool
) -> None:
    async with DeafRelay(socket_of(postgres_database)) as relay:
        async with recorder_by(relay, postgres_database, tmp_path, "http://127.0.0.1:9") as (
            serve,
            admin,
        ):
            await admin.until_health(200, within_s=60)
            relay.hears.clear()
            await admin.until_health(503, "has not answered for", 60)
            assert (await admin.health())[0] == 503, "it is not waited for again"
            if returns:
                relay.hears.set()
                await admin.until_health(200, within_s=60)
            assert await asyncio.to_thread(serve.stop) == 0


@pytest.mark.slow
@pytest.mark.parametrize("answers", [1, 15, 45])
@on_uvloop
async def test_a_recorder_starts_although_the_server_hangs(
    tmp_path: Path, postgres_database: URL, answers: int
) -> None:
    async with DeafRelay(socket_of(postgres_database), answers) as relay:
        async with recorder_by(relay, postgres_database, tmp_path, "http://127.0.0.1:9") as (
            serve,
            admin,
        ):
            await admin.until_health(503, within_s=60)
            relay.lose()
            await admin.until_health(200, within_s=60)
            relay.hears.clear()
            assert await asyncio.to_thread(serve.stop) == 0
    assert "the journal keeps what passes: The database postgresql://127.0.0.1" in serve.said


@on_uvloop
async def test_a_start_ends_by_a_signal_while_the_server_hangs(
    tmp_path: Path, postgres_database: URL
) -> None:
    async with DeafRelay(socket_of(postgres_database), 1) as relay:
        command = [*PROGRAM, "serve", "--port", "0", "--db", conninfo(relay.to(postgres_database))]
        process = await asyncio.create_subprocess_exec(*command, env=environment(tmp_path))
        try:
            async with asyncio.timeout(60):
                await relay.is_deaf.wait()
                process.terminate()
                assert await process.wait() == -signal.SIGTERM
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("is_told", [True, False], ids=["by a signal", "by itself"])
@on_uvloop
async def test_an_ingester_gives_a_server_up_that_says_nothing(
    tmp_path: Path, postgres_database: URL, is_told: bool
) -> None:
    script = [Send(STREAM_HEAD + chunked(CHUNK) + LAST_CHUNK)]
    async with (
        DeafRelay(socket_of(postgres_database)) as relay,
        ScriptedUpstream(script) as upstream,
    ):
        async with recorder_by(relay, postgres_database, tmp_path, upstream.base) as (serve, admin):
            await ask(serve.port, get("/v1/responses"))
            await admin.until(lambda now: now["recorder_response_chunks_total"] == 1, 60)
            ingester = serve.ingesters()[0]
            relay.lose()
            await ask(serve.port, get("/v1/responses"))
            await admin.until_health(503, within_s=60)
            if is_told:
                os.kill(ingester, signal.SIGTERM)
            found = await admin.until(lambda now: now["recorder_response_chunks_total"] == 2, 120)
            assert await asyncio.to_thread(serve.stop) == 0
    assert (found["recorder_ingester_restarts_total"] == 1) == is_told
    assert ("no answer for 30 s" in serve.said) != is_told
