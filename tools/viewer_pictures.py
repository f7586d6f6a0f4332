"""The moving pictures of the viewer in README: `python -m tools.viewer_pictures`, or
`make pictures`.

They show the player at one event after the other of an answer of the demo upstream, whose answers
and times are always the same, so that they change when the player does and not otherwise. Fonts are
those of the machine.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from PIL import Image

from recorder.ingest.capture import Capture
from recorder.model.chain import row_root
from recorder.model.events import Exchange, ExchangeEnd, RequestHead, ResponseHead, Session
from recorder.store.write.writer import Store
from recorder.wire.dialects import by_name
from tests.support.browser import MISSING, THEMES, Tab, launched, opened, program
from tests.support.conversations import MS, asking
from tests.support.corpus import ROOT
from tests.support.provider.app import App
from tests.support.provider.reply import DemoRequest
from tests.support.rows import START_NS, make_id
from tests.support.viewer import viewing

SIZE = (1180, 740)
LIMIT_BYTES = 900_000  # of a picture, in a repository
SESSION = "trip-planner"
ROUTE = f"#/s/{SESSION}/x/3/e/"
EVENTS = (*range(8, 100, 3), 101)  # at which the player is shown, one frame for each
FRAME_MS, LAST_FRAME_MS = 160, 2_500
QUALITY = 60  # of 100; text is still sharp
PAUSE_MS = 900  # of the client, while its tools run

QUESTION = "What is the weather like in Paris and in Zürich?"
RESULTS = ("18 °C, clear", "11 °C, rain from noon")


def picture(theme: str) -> Path:
    """Return where the picture of a theme is."""
    return ROOT / "docs" / f"player-{theme}.webp"


def draw_session(path: Path) -> None:
    """Record a question with two calls, the answer to their results, and another question."""
    session = Session(make_id(1), START_NS, SESSION, "header", "{}", "live")
    upstream = App(lambda: 0.0, 1.0)
    with Store(path) as store:
        with store.transaction():
            store.add_session(session)
        told: list[dict[str, Any]] = asking(QUESTION)
        end_ms, calls = add_exchange(store, upstream, session, 1, 0, told)
        outputs = zip(calls, RESULTS, strict=True)
        told += [*calls, *({**_output(call), "output": result} for call, result in outputs)]
        end_ms, _ = add_exchange(store, upstream, session, 2, end_ms + PAUSE_MS, told)
        add_exchange(
            store, upstream, session, 3, end_ms + 5 * PAUSE_MS, asking("Hello! What is a stream?")
        )


def _output(call: dict[str, Any]) -> dict[str, str]:
    return {"type": "function_call_output", "call_id": call["call_id"]}


def add_exchange(
    store: Store,
    upstream: App,
    session: Session,
    number: int,
    at_ms: int,
    asked: list[dict[str, Any]],
) -> tuple[int, list[dict[str, Any]]]:
    """Add an exchange that begins so long after the session.

    Return when it ends, and the calls in its answer.
    """
    at_ns = session.created_ns + at_ms * MS
    ids = (session.session_id, make_id(number, at_ns))
    exchange = Exchange(
        *ids, at_ns, "r", "openai", "openai-responses", "POST", "/v1/responses", "codex"
    )
    capture = Capture(*ids, by_name(exchange.api), 0, row_root(exchange))
    body = json.dumps({"model": "gpt-demo", "stream": True, "input": asked}).encode()
    events = capture.request(
        RequestHead(ids[1], ids[0], at_ns, "POST", exchange.target, "openai", []), body, wire=body
    )
    reply = upstream.reply(
        DemoRequest("POST", exchange.target, (("content-type", "application/json"),), body)
    )
    events += capture.response(
        90 * MS, ResponseHead(200, "OK", [("content-type", "text/event-stream")])
    )
    answer, t_ns = b"", 0
    for step in reply.steps:
        payload, t_ns = step.take(), round(step.at_s * 1e9) + 95 * MS
        answer += payload
        events += capture.chunk(t_ns, payload)
    with store.transaction():
        store.add_exchange(exchange)
        store.append(events + capture.end(t_ns + MS, ExchangeEnd("eof")))
        store.projector.project(*ids)
    completed = json.loads(answer.strip().rpartition(b"data: ")[2])
    items = completed["response"]["output"]
    return at_ms + t_ns // MS, [item for item in items if item["type"] == "function_call"]


async def draw() -> None:
    """Write both pictures."""
    with tempfile.TemporaryDirectory(prefix="recorder-pictures-") as name:
        folder = Path(name)
        database = folder / "recorder.db"
        draw_session(database)
        with viewing(database) as viewer:
            async with launched() as browser:
                for theme in THEMES:
                    async with opened(
                        browser, viewer.url, size=SIZE, theme=theme, timezone_id="UTC"
                    ) as tab:
                        frames = [
                            await frame(tab, event, folder / f"{theme}-{event}.png")
                            for event in EVENTS
                        ]
                    write(frames, picture(theme))
                    click.echo(
                        f"{picture(theme).relative_to(ROOT)}: {picture(theme).stat().st_size:,} bytes"
                    )


async def frame(tab: Tab, event: int, path: Path) -> Path:
    """Write the player as it is at an event, and return the path."""
    await tab.open(f"{ROUTE}{event}")
    await tab.settle()
    await tab.shoot(path)
    return path


def write(frames: Sequence[Path], path: Path) -> None:
    """Write frames as one picture that moves."""
    first, *others = [Image.open(each).convert("RGB") for each in frames]
    durations = [FRAME_MS] * len(others) + [LAST_FRAME_MS]
    first.save(
        path,
        save_all=True,
        append_images=others,
        duration=durations,
        loop=0,
        quality=QUALITY,
        method=6,
    )


if __name__ == "__main__":
    if program() is None:
        sys.exit(MISSING)
    asyncio.run(draw())
