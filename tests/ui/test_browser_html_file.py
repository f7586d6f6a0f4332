"""The one HTML file in a browser, from the disk and with the network off: what it shows is what `recorder show` says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser

from tests.browser import IN_A_BROWSER, NARROW, THEMES, WIDE, Tab, opened
from tests.conversations import Conversations, asking, message, response
from tests.corpus import needs_corpus
from tests.html_files import exported
from tests.secret_shapes import made
from tests.serving import run_apart
from tests.viewing import SAMPLE, poison

pytestmark = IN_A_BROWSER

STATE = """
async ([exchange, pos]) => {
  const { player } = document.querySelector(".player");
  await player.seek(exchange, pos);
  return player.document();
}
"""
EVENT = """
async ([exchange, pos]) => {
  const { player } = document.querySelector(".player");
  return await player.app.source.event("any", exchange, pos);
}
"""
ROWS = """
async ([exchange, from, limit]) => {
  const { player } = document.querySelector(".player");
  return (await player.app.source.events("any", exchange, from, limit)).events;
}
"""

Open = Callable[..., AbstractAsyncContextManager[Tab]]


@pytest.fixture
def open_file(chromium: Browser, tmp_path: Path) -> Open:
    """Opens the exported file of a session."""

    @asynccontextmanager
    async def open_one(db: Path, session: str, *options: object) -> AsyncIterator[Tab]:
        path = tmp_path / "run.html"
        path.write_text(exported(db, session, *options))
        async with opened(chromium, path.as_uri(), offline=True) as tab:
            await tab.open("")
            yield tab

    return open_one


def answered(db: Path, *arguments: object) -> Any:
    return json.loads(run_apart(db, *arguments, "--json").out)


async def assert_states(tab: Tab, db: Path, session: str, number: int, positions: list[int]) -> None:
    for pos in positions:
        shown = answered(db, "show", session, number, "--at-event", pos)["exchanges"][0]
        assert await tab.page.evaluate(STATE, [number, pos]) == shown, (session, number, pos)


@needs_corpus
@pytest.mark.parametrize("name", SAMPLE)
async def test_the_state_at_an_event_is_that_of_show(name: str, gallery: Path, open_file: Open) -> None:
    session = Path(name).name.removesuffix(".sse")
    last = len(answered(gallery, "events", session)) - 1
    async with open_file(gallery, session) as tab:
        await assert_states(tab, gallery, session, 1, [last, 0, last // 3, last // 2, last - 1])


async def test_events_are_those_of_the_log(gallery: Path, open_file: Open) -> None:
    rows = [row for row in answered(gallery, "events", "agent") if row["exchange_id"]]
    first = [row for row in rows if row["exchange_id"] == rows[0]["exchange_id"]]
    async with open_file(gallery, "agent") as tab:
        for pos in range(len(first)):
            details = await tab.page.evaluate(EVENT, [1, pos])
            assert details["event"] == first[pos]
            start, length = first[pos]["data_start"], first[pos]["data_length"]
            payload = None if start is None else first[pos]["raw"].encode()[start : start + length].decode()
            assert details["payload"] == payload
            assert details["chain"]["holds"] is True
            assert details["chain"]["previous"] == (first[pos - 1]["hash"] if pos else None)
        listed = await tab.page.evaluate(ROWS, [1, 0, 500])
        keys = ("pos", "kind", "type", "t_ns", "sequence_number", "item_id", "output_index")
        assert [[row[key] for key in keys] for row in listed] == [[row[key] for key in keys] for row in first]
        assert [row["preview"] for row in listed if row["type"] == "response.reasoning_summary_text.delta"] == [
            json.dumps(text)
            for text in ("**Checking the weather**\n\n", "One city was named", ", so one call will do.")
        ]


async def test_a_long_deflated_session_is_sought_in_segments(tmp_path: Path, open_file: Open) -> None:
    log = Conversations(tmp_path / "log.db")
    words = [made("abcdefghij ", 900, number) + "</script>" for number in range(1000)]
    log.session("long").exchange(response(*message(*words)), asking("Count."))
    async with open_file(log.path, "long") as tab:
        await assert_states(tab, log.path, "long", 1, [700, 10, 1000, 255, 256])
        details = await tab.page.evaluate(EVENT, [1, 700])
        assert details["event"]["raw"] == answered(log.path, "events", "long")[700]["raw"]


async def test_one_exchange_opens_alone(gallery: Path, open_file: Open) -> None:
    async with open_file(gallery, "agent", "--exchange", 2) as tab:
        await assert_states(tab, gallery, "agent", 2, [5])
        await tab.page.get_by_text("Lyon").or_(tab.page.get_by_text("A light jacket")).first.wait_for(state="attached")


async def test_hostile_texts_run_nothing(tmp_path: Path, open_file: Open) -> None:
    poison(tmp_path / "log.db")
    for row in answered(tmp_path / "log.db", "sessions"):
        async with open_file(tmp_path / "log.db", row["session_id"]) as tab:
            assert await tab.page.evaluate("() => !('pwned' in window) && document.scripts.length === 1")


async def test_it_has_the_player_alone_and_says_what_is_in_it(gallery: Path, open_file: Open) -> None:
    async with open_file(gallery, "agent") as tab:
        assert await tab.page.locator("nav").count() == 0
        note = tab.page.locator("details.note")
        assert "no secret was found" in await note.locator("summary").inner_text()
        await note.locator("summary").click()
        assert "Not in this file" in await note.inner_text()
        await tab.page.locator(".brand").click()
        await tab.until_ready()
        await tab.page.evaluate("location.hash = '#/sql'")
        await tab.page.get_by_text("This page is not in the file").wait_for()


@pytest.mark.parametrize("theme", THEMES)
async def test_it_is_for_everybody(theme: Any, gallery: Path, open_file: Open) -> None:
    async with open_file(gallery, "agent") as tab:
        await tab.page.locator("details.note summary").click()
        for size in (WIDE, NARROW):
            await tab.show(size, theme)
            await tab.picture(f"html-file-{theme}-{size[0]}")
            assert await tab.violations() == []
