"""A viewer that follows a live session: whether it costs the streams through the proxy anything.

`python -m benchmarks.followed URL` is the browser. At a line `watch` on its standard input it opens
the page, at `leave` it leaves it. It answers each line with the number of updates that the page has
fetched since the last.

The viewer's process shares the core of the proxy, as the ingester does. The browser shares the core
of upstream and client, at the lowest priority: it is another program of the same machine.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import machine
from benchmarks.figures import Column, Round, Row, percentile
from benchmarks.load import Load, Run
from benchmarks.paces import Timed
from benchmarks.settings import Settings
from benchmarks.subjects import Subject, running
from recorder.proxy.http import server
from tests.support.browser import MISSING, launched, program
from tests.support.viewer import Viewer, viewing

EVENTS_S = 500
NICE = 19

ALONE, FOLLOWED = "no viewer", "a viewer follows"
COLUMNS = (
    Column("p50 µs", "p50_us"),
    Column("x alone", "p50_us", "/", ALONE),
    Column("p99 µs", "p99_us"),
    Column("x alone", "p99_us", "/", ALONE),
    Column("updates/s", "updates_s"),
)


def rounds(settings: Settings) -> list[Round]:
    """Measure one stream through the recording proxy with nobody looking, and with a browser on its
    session.
    """
    if program() is None:
        print(MISSING, file=sys.stderr)
        return [{} for _ in range(settings.rounds)]
    with machine.on_core(machine.LOAD_CORE):
        return server.run(_rounds(settings))


async def _rounds(settings: Settings) -> list[Round]:
    found: list[Round] = []
    load = Load()
    port = await load.start()
    with tempfile.TemporaryDirectory(prefix="recorder-bench-") as folder:
        database = Path(folder) / "recording" / "recorder.db"
        async with running("recording", port, database.parent) as subject:
            await _measure(load, subject, settings)  # so that there is a session to look at
            with _viewing(database) as viewer, _browser(f"{viewer.url}#/s/benchmark") as browser:
                for _ in range(settings.rounds):
                    rows: dict[str, Row] = {}
                    for name in random.sample((ALONE, FOLLOWED), 2):
                        rows[name] = await _measure(
                            load, subject, settings, browser if name == FOLLOWED else None
                        )
                    found.append({name: rows[name] for name in (ALONE, FOLLOWED)})
    load.close()
    return found


@contextmanager
def _viewing(database: Path) -> Iterator[Viewer]:
    with machine.on_core(machine.MEASURED_CORE):
        viewer = viewing(database)
        started = viewer.__enter__()
    try:
        yield started
    finally:
        viewer.__exit__(None, None, None)


@contextmanager
def _browser(url: str) -> Iterator[subprocess.Popen[str]]:
    arguments = [sys.executable, "-m", "benchmarks.followed", url]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.communicate()


def _tell(browser: subprocess.Popen[str], line: str) -> int:
    assert browser.stdin is not None
    assert browser.stdout is not None
    print(line, file=browser.stdin, flush=True)
    return int(browser.stdout.readline())


async def _measure(
    load: Load, subject: Subject, settings: Settings, browser: subprocess.Popen[str] | None = None
) -> Row:
    """Measure one stream; its session is open in the browser meanwhile, if there is one."""
    if browser is not None:
        await asyncio.to_thread(_tell, browser, "watch")
    run = Run(load, subject.port, 1, Timed(EVENTS_S))
    async with asyncio.TaskGroup() as tasks:
        await run.open(tasks)
        run.go()
        await asyncio.sleep(settings.warm_up_s)
        run.reset()
        began_s = time.perf_counter()
        await asyncio.sleep(settings.viewer_s)
        row = {
            "p50_us": percentile(run.latencies_ns, 0.50) / 1e3,
            "p99_us": percentile(run.latencies_ns, 0.99) / 1e3,
        }
        if browser is not None:
            updates = await asyncio.to_thread(_tell, browser, "leave")
            row["updates_s"] = updates / (time.perf_counter() - began_s + settings.warm_up_s)
        await run.stop()
    await asyncio.to_thread(subject.settle)
    return row


async def main(url: str) -> None:
    """Serve the lines of standard input."""
    os.nice(NICE)
    async with launched() as browser:
        page = await browser.new_page(viewport={"width": 1440, "height": 900})
        await page.goto(url)
        fetched: list[str] = []
        page.on(
            "request",
            lambda request: fetched.append(request.url) if "after=" in request.url else None,
        )
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            if line == "watch":
                await page.goto("about:blank")
                await page.goto(url.replace(url[url.index("?") : url.index("#")], ""))
                await page.wait_for_selector('[data-page="player"] [data-ready="true"]')
                fetched.clear()
                print(0, flush=True)
            else:
                print(len(fetched), flush=True)
                await page.goto("about:blank")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
