"""The log as traces and metrics, sent to a collector of OpenTelemetry: `recorder export --to`."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from typing import Any, NamedTuple

import httpx
import msgspec
from sqlalchemy import URL

from recorder.archive.opening import open_log
from recorder.archive.place import database_name
from recorder.commands.terminal.options import current_url
from recorder.commands.terminal.output import echo, write_json
from recorder.commands.terminal.recordings import say_if_stale
from recorder.errors import UsageError
from recorder.exports.otlp.collector import (
    ATTEMPTS,
    TIMEOUT,
    Collector,
    CollectorUrl,
    endpoint_of,
    headers_of,
    headers_of_environment,
)
from recorder.exports.otlp.cursor import ExportCursor, Signal
from recorder.exports.otlp.push import BUSY_S, Pusher, PushReport
from recorder.exports.otlp.telemetry import Convention, convention_of
from recorder.model.text import counted, safe_text
from recorder.store.engine import writing_of
from recorder.store.write.writer import Store

# a server lets go of the lock of a push that was killed when it sees the end of its connection
LOCK_S = 2.0
ENDPOINT, HEADERS = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"


def push(
    db: str | None,
    url: str,
    headers: Sequence[str],
    output: str,
    *,
    content: bool,
    convention: str | None,
    metrics: bool | None,
    since: int | None,
    follow: bool,
) -> None:
    """Send what the collector does not have yet, and write what was sent."""
    if follow and output != "table":
        raise UsageError(
            "--follow does not end, so there is nothing to be written as JSON: leave one of them out."
        )
    terms = _Terms(
        *_target(url, headers), convention_of(convention), content, metrics is not False, since
    )
    try:
        row = asyncio.run(_push(current_url(db), terms, follow=follow))
    except asyncio.CancelledError as error:  # a supervisor has stopped it
        if follow:
            return
        # as a shell gives it: not everything was sent
        raise SystemExit(128 + signal.SIGTERM) from error
    if output != "table":
        write_json([row], output)


class _Terms(NamedTuple):
    """Where to and what of it is sent."""

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


def _target(url: str, header: Sequence[str]) -> tuple[CollectorUrl, Mapping[str, str]]:
    """Return the collector, and the headers for it.

    Those of the environment are for no other than it names.
    """
    default, headers = os.environ.get(ENDPOINT, ""), os.environ.get(HEADERS, "")
    if not (url or default):
        raise UsageError(
            f"Give the URL of a collector, such as http://127.0.0.1:4318, or set {ENDPOINT}."
        )
    endpoint = endpoint_of(url or default)
    is_meant = not url or not default or endpoint.base == endpoint_of(default).base
    return endpoint, {**(headers_of_environment(headers) if is_meant else {}), **headers_of(header)}


async def _push(db: URL, terms: _Terms, *, follow: bool) -> dict[str, Any]:
    signals: list[Signal] = ["traces", "metrics"] if terms.metrics else ["traces"]
    async with (
        await open_log(db) as log,
        httpx.AsyncClient(timeout=TIMEOUT, follow_redirects=False) as client,
    ):
        with _lock(db, terms), Store(db) as store:
            await say_if_stale(log)
            collector = Collector(
                client,
                terms.endpoint,
                terms.headers,
                attempts=None if follow else ATTEMPTS,
                sleep=asyncio.sleep,
                chance=random.random,
                now_s=time.time,
                say=_say,
            )
            cursor = ExportCursor(
                log, store, terms.endpoint.name, terms.form, signals, terms.since_ns
            )
            busy_s = None if follow else BUSY_S
            pusher = Pusher(
                log,
                cursor,
                collector,
                terms.convention,
                has_content=terms.content,
                busy_s=busy_s,
                say=_say,
            )
            _end_when_stopped()
            if follow:
                echo("Following; Ctrl-C ends it.")
                await pusher.follow()
            await pusher.push()
    _sum_up(terms.endpoint.name, pusher.report)
    return {
        "target": terms.endpoint.name,
        "form": terms.form,
        **msgspec.structs.asdict(pusher.report),
    }


def _lock(db: URL, terms: _Terms) -> AbstractContextManager[None]:
    """Return the lock of a collector: two pushes at once would send everything twice."""
    task = f"otlp-{sha256(terms.endpoint.name.encode()).hexdigest()[:16]}"
    name = safe_text(terms.endpoint.name)
    refusal = f"Another `recorder export --to` sends {database_name(db)} to {name}: wait until it has ended."
    return writing_of(db).task_lock(db, task, LOCK_S, refusal)


def _end_when_stopped() -> None:
    """End in order at SIGTERM, with which supervisors stop a process: an answer that is under way
    is recorded.
    """
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
