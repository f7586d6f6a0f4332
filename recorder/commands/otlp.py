"""`recorder otlp`: the log as traces and metrics, for a collector of OpenTelemetry."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from hashlib import sha256
from typing import Any, NamedTuple

import click
import httpx
import msgspec
from sqlalchemy import URL

from recorder.archive.opening import open_log
from recorder.archive.place import database_name
from recorder.commands.terminal.catch_up import current_url, wait_option
from recorder.commands.terminal.database import database_option
from recorder.commands.terminal.format import json_options
from recorder.commands.terminal.output import echo, write_json
from recorder.commands.terminal.selection import say_if_stale
from recorder.commands.terminal.times import Instant
from recorder.errors import RecorderError, StoreBusyError, UsageError
from recorder.exports.otlp.collector import (
    ATTEMPTS,
    TIMEOUT,
    Collector,
    CollectorUrl,
    endpoint_of,
    headers_of,
    headers_of_environment,
)
from recorder.exports.otlp.conventions import CONVENTIONS, NEWEST, Convention, convention_of
from recorder.exports.otlp.cursor import ExportCursor, Signal
from recorder.exports.otlp.push import BUSY_S, Pusher, PushReport
from recorder.model.text import counted, safe_text
from recorder.store.engine import writing_of
from recorder.store.write.writer import Store

LOCK_S = 2.0  # a server lets go of the lock of a push that was killed when it sees the end of its connection
LOCK_POLL_S = 0.05
ENDPOINT, HEADERS = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"


@click.group()
def command() -> None:
    """Send the log to a collector of OpenTelemetry: a trace for each session, a span for each exchange and tool."""


@command.command()
@click.argument("url", required=False)
@click.option(
    "--header",
    metavar="NAME=VALUE",
    multiple=True,
    help=f"Send this header too. Other users of the machine may see it; {HEADERS} is not shown to them.",
)
@click.option("--follow", is_flag=True, help="Go on with what is recorded, until interrupted.")
@click.option("--content", is_flag=True, help="Also send what was asked and answered: messages, and what tools got.")
@click.option(
    "--convention",
    type=click.Choice([*CONVENTIONS]),
    default=NEWEST,
    show_default=True,
    help="The version of the semantic conventions whose names are used.",
)
@click.option(
    "--since",
    type=Instant(),
    metavar="7d|DATE",
    help="Only what began since then: an age (7d), a date, or a date and time (local if it has no zone).",
)
@click.option(
    "--metrics/--no-metrics", default=True, show_default=True, help="Also send the metrics of tokens and times."
)
@json_options("What was sent, as JSON: an array with one object.", "What was sent, as one line of JSON.")
@wait_option
@database_option
def push(
    db: str | None,
    url: str | None,
    header: tuple[str, ...],
    follow: bool,
    content: bool,
    convention: str,
    since: int | None,
    metrics: bool,
    output: str,
) -> None:
    """Send what was recorded to the collector at URL, by OTLP over HTTP: once, however often this is called.

    URL is as in OTEL_EXPORTER_OTLP_ENDPOINT, which is the default. The database has what the collector took; each
    convention, and spans with content, are sent for themselves. A fragment of URL is not sent: it tells collectors
    apart which only a header does.

    \b
    recorder otlp push http://127.0.0.1:4318
    recorder otlp push https://otlp.example --header "authorization=$KEY" --follow
    recorder otlp push http://127.0.0.1:4318 --since 7d --content --no-metrics
    """
    if follow and output != "table":
        raise UsageError("--follow does not end, so there is nothing to be written as JSON: leave one of them out.")
    given = _Given(*_target(url, header), convention_of(convention), content, metrics, since)
    try:
        row = asyncio.run(_push(current_url(db), given, follow=follow))
    except asyncio.CancelledError as error:  # a supervisor has stopped it
        if follow:
            return
        raise SystemExit(128 + signal.SIGTERM) from error  # as a shell gives it: not everything was sent
    if output != "table":
        write_json([row], output)


class _Given(NamedTuple):
    """The options of a push."""

    endpoint: CollectorUrl
    headers: Mapping[str, str]
    convention: Convention
    content: bool
    metrics: bool
    since_ns: int | None

    @property
    def form(self) -> str:
        """Return the form of the spans: a collector may have them in several."""
        return f"{self.convention.version}{' content' if self.content else ''}"


def _target(url: str | None, header: tuple[str, ...]) -> tuple[CollectorUrl, Mapping[str, str]]:
    """Return the collector, and the headers for it. Those of the environment are for no other than it names."""
    default, headers = os.environ.get(ENDPOINT, ""), os.environ.get(HEADERS, "")
    if not (url or default):
        raise UsageError(f"Give the URL of a collector, such as http://127.0.0.1:4318, or set {ENDPOINT}.")
    endpoint = endpoint_of(url or default)
    is_meant = not url or not default or endpoint.base == endpoint_of(default).base
    return endpoint, {**(headers_of_environment(headers) if is_meant else {}), **headers_of(header)}


async def _push(db: URL, given: _Given, *, follow: bool) -> dict[str, Any]:
    signals: list[Signal] = ["traces", "metrics"] if given.metrics else ["traces"]
    async with await open_log(db) as log:
        async with _lock(db, given), httpx.AsyncClient(timeout=TIMEOUT, follow_redirects=False) as client:
            await say_if_stale(log)
            with Store(db) as store:
                collector = Collector(
                    client,
                    given.endpoint,
                    given.headers,
                    attempts=None if follow else ATTEMPTS,
                    sleep=asyncio.sleep,
                    chance=random.random,
                    now_s=time.time,
                    say=_say,
                )
                cursor = ExportCursor(log, store, given.endpoint.name, given.form, signals, given.since_ns)
                busy_s = None if follow else BUSY_S
                pusher = Pusher(
                    log, cursor, collector, given.convention, has_content=given.content, busy_s=busy_s, say=_say
                )
                _end_when_stopped()
                if follow:
                    echo("Following; Ctrl-C ends it.")
                    await pusher.follow()
                await pusher.push()
    _sum_up(given.endpoint.name, pusher.report)
    return {"target": given.endpoint.name, "form": given.form, **msgspec.structs.asdict(pusher.report)}


@asynccontextmanager
async def _lock(db: URL, given: _Given) -> AsyncIterator[None]:
    """Hold the lock of a collector: two pushes at once would send everything twice."""
    task = f"otlp-{sha256(given.endpoint.name.encode()).hexdigest()[:16]}"
    until_s = time.monotonic() + LOCK_S
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(writing_of(db).task_lock(db, task))
                break
            except StoreBusyError as error:
                if error.__cause__ is not None:  # the server is away, or has no connection to spare
                    raise
                if time.monotonic() >= until_s:
                    name = safe_text(given.endpoint.name)
                    raise RecorderError(
                        f"Another `recorder otlp push` sends {database_name(db)} to {name}: wait until it has ended."
                    ) from error
            await asyncio.sleep(LOCK_POLL_S)
        yield


def _end_when_stopped() -> None:
    """End in order at SIGTERM, with which supervisors stop a process: an answer that is under way is recorded."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def _say(sentence: str) -> None:
    echo(safe_text(sentence))


def _sum_up(name: str, report: PushReport) -> None:
    points = f" and {counted(report.points, 'point')} of metrics" if report.points else ""
    sent = f"{counted(report.spans, 'span')}{points}"
    of = f"{counted(report.exchanges, 'exchange')} in {counted(report.sessions, 'session')}"
    text = f"{sent}, of {of}, sent to {name} ({counted(report.bytes, 'byte')})."
    _say(text if report.exchanges else f"Nothing new to be sent to {name}.")
