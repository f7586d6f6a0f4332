"""What is measured: each a process between client and upstream, or nothing."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks import machine
from recorder.journal.reader import segment_name, segment_numbers

START_S, SETTLE_S, STOP_S = 15.0, 60.0, 15.0
POLL_S = 0.02
PEERS = Path(__file__).parent / "peers"

_NGINX = """
worker_processes 1; daemon off; master_process off; error_log stderr error; pid {folder}/nginx.pid;
events {{ worker_connections 4096; }}
http {{
  access_log off; tcp_nodelay on; keepalive_requests 1000000;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream api {{ server 127.0.0.1:{upstream_port}; keepalive 512; }}
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    location / {{
      proxy_pass http://api; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_read_timeout 1h;
    }}
  }}
}}
"""


class Subject:
    """A process under measurement, or none: `direct`."""

    def __init__(
        self,
        port: int,
        process: subprocess.Popen[bytes] | None = None,
        database: Path | None = None,
    ) -> None:
        self.port = port
        self._process, self._database = process, database
        self._idle_bytes = self._resident_bytes()

    def cpu_s(self) -> float:
        """User and system time of the process; not a number if there is none."""
        return machine.cpu_s(self._process.pid) if self._process else math.nan

    def grown_bytes(self) -> float:
        """How much more it has in memory than before its first stream; not a number if there is no
        process.
        """
        return self._resident_bytes() - self._idle_bytes

    def _resident_bytes(self) -> float:
        return machine.resident_bytes(self._process.pid) if self._process else math.nan

    def children_cpu_s(self) -> float:
        """The same of the ingester, which only a recorder has."""
        if self._process is None or self._database is None:
            return math.nan
        return sum(map(machine.cpu_s, machine.children(self._process.pid)))

    def settle(self) -> None:
        """Wait until all that was journaled is in the log: it would be ingested during the next
        measurement.
        """
        until_s = time.monotonic() + SETTLE_S
        while (
            self._database is not None
            and time.monotonic() < until_s
            and not _is_ingested(self._database)
        ):
            time.sleep(POLL_S)  # nothing else runs meanwhile


class _Program(NamedTuple):
    arguments: list[str]
    port: int | None = None  # else it prints its port
    database: Path | None = None
    environment: dict[str, str] | None = None  # besides that of this process


def _relay(upstream_port: int, folder: Path) -> _Program:
    return _Program([sys.executable, "-m", "benchmarks.relay", str(upstream_port)])


def _proxy(upstream_port: int, folder: Path) -> _Program:
    return _Program([sys.executable, "-m", "benchmarks.ours", str(upstream_port)])


def _recording(upstream_port: int, folder: Path) -> _Program:
    database = folder / "recorder.db"
    return _Program(
        [sys.executable, "-m", "benchmarks.ours", str(upstream_port), str(database)],
        database=database,
    )


def _strict(upstream_port: int, folder: Path) -> _Program:
    return _recording_as("strict", upstream_port, folder)


def _shape(upstream_port: int, folder: Path) -> _Program:
    return _recording_as("shape", upstream_port, folder)


def _recording_as(form: str, upstream_port: int, folder: Path) -> _Program:
    program = _recording(upstream_port, folder)
    return program._replace(arguments=[*program.arguments, form])


def _nginx(upstream_port: int, folder: Path) -> _Program:
    port = _free_port()
    configuration = folder / "nginx.conf"
    configuration.write_text(_NGINX.format(folder=folder, upstream_port=upstream_port, port=port))
    return _Program(
        [shutil.which("nginx") or "nginx", "-p", str(folder), "-c", str(configuration)], port
    )


def _mitmproxy(upstream_port: int, folder: Path) -> _Program:
    """As it is set up to pass streams on, with the addon that keeps their events."""
    port = _free_port()
    arguments = [shutil.which("mitmdump") or "mitmdump", "--quiet", "--set", f"confdir={folder}"]
    arguments += ["--mode", f"reverse:http://127.0.0.1:{upstream_port}", "--listen-port", str(port)]
    arguments += ["--listen-host", "127.0.0.1", "--scripts", str(PEERS / "mitmproxy_sqlite.py")]
    return _Program(arguments, port, environment={"PEER_DATABASE": str(folder / "events.db")})


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


_PROGRAMS: dict[str, Callable[[int, Path], _Program]] = {
    "nginx": _nginx,
    "mitmproxy": _mitmproxy,
    "relay": _relay,
    "proxy": _proxy,
    "recording": _recording,
    "shape": _shape,
    "strict": _strict,
}

DIRECT = "direct"
_IF_INSTALLED = {"nginx": "nginx", "mitmproxy": "mitmdump"}  # by the name of their programs


def names(*, few: bool = False) -> list[str]:
    """What can be measured here, in the order of the table."""
    if few:
        return [DIRECT, "relay", "proxy", "recording", "shape"]
    return [
        DIRECT,
        *(name for name in _PROGRAMS if shutil.which(_IF_INSTALLED.get(name, sys.executable))),
    ]


@contextlib.asynccontextmanager
async def running(name: str, upstream_port: int, folder: Path) -> AsyncIterator[Subject]:
    """The subject of that name in front of the upstream, on the core for what is measured."""
    if name == DIRECT:
        yield Subject(upstream_port)
        return
    folder.mkdir()
    program = _PROGRAMS[name](upstream_port, folder)
    process = _start(program)
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        try:
            if program.port is not None:
                await _listens(program.port)
            yield Subject(program.port or int(process.stdout.readline()), process, program.database)
        finally:
            process.stdin.close()
            if program.port is not None:
                process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
    shutil.rmtree(folder)


def _start(program: _Program) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **(program.environment or {})}
    with machine.on_core(machine.MEASURED_CORE):
        return subprocess.Popen(
            program.arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )


async def _listens(port: int) -> None:
    async with asyncio.timeout(START_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(POLL_S)
                continue
            writer.close()
            await writer.wait_closed()
            return


def _is_ingested(database: Path) -> bool:
    """Whether the place of the journal in the log is its end."""
    journal = next(Path(f"{database}.journal").iterdir())
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        place = connection.execute('SELECT segment, "offset" FROM ingest_offsets').fetchone()
    last = segment_numbers(journal)[-1]
    return place is not None and place == (last, (journal / segment_name(last)).stat().st_size)
