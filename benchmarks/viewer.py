"""The viewer in a browser: how long a large session takes to open, and how frames come while one
drags along it.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page

from benchmarks import traffic
from benchmarks.figures import Column, Round, Row, percentile
from benchmarks.settings import Settings
from recorder.ingest.capture import Capture
from recorder.model.chain import row_root
from recorder.model.events import Event, Exchange, Session
from recorder.model.ids import uuid7
from recorder.store.write.writer import Store
from recorder.wire.dialects import by_name
from tests.support.browser import MISSING, launched, program
from tests.support.conversations import call, message, response, thought
from tests.support.viewer import viewing

EVENT_NS = 10_000_000  # 100 events a second, as a quick model writes
PAUSE_NS = 2_000_000_000  # between two exchanges
DRAG_STEPS = 240

COLUMNS = (
    Column("open ms", "open_ms"),
    Column("frame p50 ms", "frame_p50_ms"),
    Column("frame p99 ms", "frame_p99_ms"),
    Column("work p50 ms", "work_p50_ms"),
    Column("work p99 ms", "work_p99_ms"),
    Column("heap MB", "heap_mb"),
)

# When the page says that it has drawn the session, since the navigation began.
_OPENED = """
new MutationObserver((_, observer) => {
  if (document.querySelector('[data-page="player"] [data-ready="true"]')) {
    window.openedAt = performance.now();
    observer.disconnect();
  }
}).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-ready"] });
"""
# The time between frames, and of a frame from its first callback until the page is free again.
_FRAMES = """
() => {
  const frames = (window.frames_ = { gaps: [], work: [], last: 0, stopped: false });
  const { port1, port2 } = new MessageChannel();
  let began = 0;
  port1.onmessage = () => frames.work.push(performance.now() - began);
  const frame = (now) => {
    if (frames.stopped) return;
    began = performance.now();
    if (frames.last) frames.gaps.push(now - frames.last);
    frames.last = now;
    port2.postMessage(null);
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}
"""


def rounds(settings: Settings) -> list[Round]:
    """Open and drag sessions of the same number of events, in one exchange and in many."""
    if program() is None:
        print(MISSING, file=sys.stderr)
        return [{} for _ in range(settings.rounds)]
    with tempfile.TemporaryDirectory(prefix="recorder-bench-") as folder:
        path = Path(folder) / "recorder.db"
        shapes = {
            f"{many:,} x {events:,}": (many, events)
            for many, events in _shapes(settings.viewer_events)
        }
        with Store(path) as store:
            for number, (name, (exchanges, events)) in enumerate(shapes.items()):
                load(store, number, name, exchanges, events)
        with viewing(path) as viewer:
            return asyncio.run(_rounds(viewer.url, list(shapes), settings))


def _shapes(events: int) -> Iterator[tuple[int, int]]:
    yield max(1, events // 1_000), min(events, 1_000)
    yield 1, events


def load(store: Store, number: int, name: str, exchanges: int, events: int) -> None:
    """Put a session into a log: so many exchanges of so many events, each with a thought, a call
    and a text.
    """
    at_ns = traffic.STARTED_NS + number * 86_400 * 10**9
    session = Session(uuid7(at_ns, number.to_bytes(10, "big")), at_ns, name, "header", "{}", "live")
    with store.transaction():
        store.add_session(session)
    for count in range(exchanges):
        with store.transaction():
            exchange, rows = _exchange(session, count, events)
            store.add_exchange(exchange)
            store.append(rows)
            store.projector.project(exchange.session_id, exchange.exchange_id)


def _exchange(session: Session, number: int, count: int) -> tuple[Exchange, list[Event]]:
    at_ns = session.created_ns + number * (count * EVENT_NS + PAUSE_NS)
    ids = (session.session_id, uuid7(at_ns, (number + 1).to_bytes(10, "big")))
    head = traffic.request_head(number)
    exchange = Exchange(
        *ids, at_ns, "bench", "openai", "openai-responses", "POST", head.target, "codex"
    )
    capture = Capture(*ids, by_name(exchange.api), 0, row_root(exchange))
    events = capture.request(head, traffic.BODY, wire=traffic.BODY)
    events += capture.response(EVENT_NS, traffic.RESPONSE_HEAD)
    for turn, frame in enumerate(frames(count - 5), 2):  # besides request, head, reads and the end
        events += capture.chunk(turn * EVENT_NS, frame)
    return exchange, events + capture.end((count + 2) * EVENT_NS, traffic.END)


def frames(count: int) -> Sequence[bytes]:
    """Return about so many frames of a response: a fifth of them a thought, then a call, then a
    text.
    """
    thoughts, called = (
        thought(*["Hm, so. "] * (count // 5)),
        call("get_weather", '{"city":"Paris"}', 1),
    )
    words = (
        f"word{number}{'.' if number % 12 == 11 else ''} "
        for number in range(count - count // 5 - 12)
    )
    return response(*thoughts, *called, *message(*words, index=2))


async def _rounds(url: str, names: list[str], settings: Settings) -> list[Round]:
    found: list[Round] = []
    for _ in range(settings.rounds):
        rows = {
            name: await _measure(url, name, settings) for name in random.sample(names, len(names))
        }
        found.append({name: rows[name] for name in names})
    return found


async def _measure(url: str, name: str, settings: Settings) -> Row:
    """Open the session in a new browser that has seen another page of the viewer, and drag along
    it.
    """
    async with launched() as browser:
        page = await _seen(browser, url)
        await page.add_init_script(_OPENED)
        await page.goto("about:blank")
        await page.goto(f"{url.partition('?')[0]}#/s/{name.replace(' ', '%20')}")
        await page.wait_for_function("() => window.openedAt")
        row = {"open_ms": float(await page.evaluate("() => window.openedAt"))}
        devtools = await page.context.new_cdp_session(page)
        await devtools.send("Performance.enable")
        await page.evaluate(_FRAMES)
        await _drag(page)
        taken = await page.evaluate(
            "() => { window.frames_.stopped = true; return window.frames_ }"
        )
        for figure, key in (("frame", "gaps"), ("work", "work")):
            row[f"{figure}_p50_ms"] = percentile(taken[key], 0.50)
            row[f"{figure}_p99_ms"] = percentile(taken[key], 0.99)
        metrics: list[dict[str, Any]] = (await devtools.send("Performance.getMetrics"))["metrics"]
        row["heap_mb"] = (
            next(each["value"] for each in metrics if each["name"] == "JSHeapUsedSize") / 1e6
        )
    return row


async def _seen(browser: Browser, url: str) -> Page:
    """Return a page that has the cookie, and the viewer's files in its cache."""
    page = await browser.new_page(viewport={"width": 1440, "height": 900})
    await page.goto(url + "#/sessions")
    await page.wait_for_selector("main .page")
    return page


async def _drag(page: Page) -> None:
    """Drag the playhead from the begin of the session to its end and back."""
    box = await page.locator('[data-page="player"] .lanes-plot').bounding_box()
    assert box is not None
    left, y, width = (
        box["x"] + box["width"] * 0.1,
        box["y"] + box["height"] / 2,
        box["width"] * 0.85,
    )
    await page.mouse.move(left, y)
    await page.mouse.down()
    for step in range(DRAG_STEPS + 1):
        share = 2 * step / DRAG_STEPS
        await page.mouse.move(left + width * (share if share <= 1 else 2 - share), y)
    await page.mouse.up()
