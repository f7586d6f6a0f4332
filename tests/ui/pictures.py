"""The pictures of the viewer in README: `python -m tests.ui.pictures`, or `make pictures`.

They show one session, made here with fixed times, so that they change when the player does and not otherwise. Fonts are
those of the machine.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from recorder.ingest.capture import Capture
from recorder.model.chain import row_root
from recorder.model.events import Exchange, Session
from recorder.model.payloads import ExchangeEnd, RequestHead, ResponseHead
from recorder.store.writer import Store
from recorder.wire.dialects import by_name
from tests.browser import MISSING, THEMES, launched, opened, program
from tests.conversations import MS, answering, asking, call, message, response, thought
from tests.corpus import ROOT
from tests.log_rows import START_NS, make_id
from tests.viewing import viewing

SIZE = (1280, 800)
LIMIT_BYTES = 250_000  # of a picture, in a repository
ROUTE = "#/s/trip-planner/x/2/e/75"

SAID = """Both cities are fine tomorrow, with one difference:

- Paris: 18 °C and clear all day. A light jacket is enough.
- Zürich: 11 °C, with rain from noon. Take an umbrella.

The train at 07:34 arrives in Zürich before the rain does, so the morning is for the lake and the afternoon for the
museum."""
PLAN = """**Checking both places**

The question names two cities, so both can be looked up at once. The train decides which of them comes first."""

LATER = "Yes: at 08:34 and 09:34, both direct. With the later one you arrive at 13:38, in the rain."


def picture(theme: str) -> Path:
    """Return where the picture of a theme is."""
    return ROOT / "docs" / f"player-{theme}.png"


def words(text: str) -> list[str]:
    """Cut a text as a model does, every few characters."""
    dice, found = random.Random(1), [""]
    for part in text.split(" "):
        found.append(f"{part} ")
        if dice.random() < 0.3:
            found[-2:] = ["".join(found[-2:])]
    return [*filter(None, found[:-1]), found[-1].rstrip()]


def times(count: int, seed: int) -> list[int]:
    """Return times of events, ns: mostly quick, at times a silence."""
    dice, at, found = random.Random(seed), 380 * MS, []
    for _ in range(count):
        found.append(at)
        at += round(dice.choice((8, 15, 20, 25, 30, 30, 40, 40, 60, 60, 300)) * dice.uniform(0.7, 1.3)) * MS
        at += 1400 * MS * (dice.random() < 0.02)
    return found


def draw_session(path: Path) -> None:
    """Make the session: a thought, two calls at once, an answer, and a question after it."""
    session = Session(make_id(1), START_NS, "trip-planner", "header", "{}", "live")
    question = asking("What is the weather like in Paris and in Zürich tomorrow, and which one should I visit first?")
    calls = [
        *call("get_weather", '{"city":"Paris","day":"tomorrow"}', 1, "call_1"),
        *call("get_weather", '{"city":"Zürich","day":"tomorrow"}', 2, "call_2"),
    ]
    results = [*answering("18 °C, clear", "call_1"), *answering("11 °C, rain from noon", "call_2")]
    thanks = asking("Thanks! Is there a later train?")
    hurried = [
        *thought("**Looking at the timetable**\n\n", "The next one leaves at 08:34."),
        *message(*words(LATER), index=1),
    ]
    turns = [
        (0, response(*thought(*words(PLAN)), *calls), question),
        (5_200, response(*message(*words(SAID)), id="resp_2"), [*question, *results]),
        (14_000, response(*hurried, id="resp_3"), thanks),
    ]
    with Store(path) as store:
        with store.transaction():
            store.add_session(session)
        for number, (at_ms, frames, asked) in enumerate(turns, 1):
            add_exchange(store, session, number, at_ms, frames, asked)


def add_exchange(
    store: Store, session: Session, number: int, at_ms: int, frames: Sequence[bytes], asked: object
) -> None:
    """Add an exchange that begins so long after the session."""
    at_ns = session.created_ns + at_ms * MS
    ids = (session.session_id, make_id(number, at_ns))
    exchange = Exchange(*ids, at_ns, "r", "openai", "openai-responses", "POST", "/v1/responses", "codex")
    capture = Capture(*ids, by_name(exchange.api), 0, row_root(exchange))
    body = json.dumps({"model": "gpt-5", "stream": True, "input": asked}).encode()
    head = RequestHead(ids[1], ids[0], at_ns, "POST", exchange.target, "openai", [])
    events = capture.request(head, body, wire=body)
    events += capture.response(210 * MS, ResponseHead(200, "OK", [("content-type", "text/event-stream")]))
    at = times(len(frames), number)
    for t_ns, frame in zip(at, frames, strict=True):
        events += capture.chunk(t_ns, frame)
    with store.transaction():
        store.add_exchange(exchange)
        store.append(events + capture.end(at[-1] + 3 * MS, ExchangeEnd("eof")))
        store.projector.project(*ids)


async def draw() -> None:
    """Write both pictures."""
    with tempfile.TemporaryDirectory(prefix="recorder-pictures-") as folder:
        path = Path(folder) / "recorder.db"
        draw_session(path)
        with viewing(path) as viewer:
            async with launched() as browser:
                for theme in THEMES:
                    async with opened(browser, viewer.url, size=SIZE, theme=theme, timezone_id="UTC") as tab:
                        await tab.open(ROUTE)
                        await tab.page.wait_for_load_state("networkidle")
                        await tab.shoot(picture(theme))
                    click.echo(f"{picture(theme).relative_to(ROOT)}: {picture(theme).stat().st_size:,} bytes")


if __name__ == "__main__":
    if program() is None:
        sys.exit(MISSING)
    asyncio.run(draw())
