"""The one HTML file in a browser, from the disk and with the network off: it shows what
`recorder show` says.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.async_api import Browser, expect

from tests.acceptance.ui.test_browser_state import SEEK, Shown, compare, lines, shown
from tests.support.browser import IN_A_BROWSER, NARROW, PLAYER, THEMES, WIDE, Tab, opened
from tests.support.conversations import Conversations, answering, asking, call, message, response
from tests.support.corpus import needs_corpus
from tests.support.html_file import exported
from tests.support.secret_shapes import made
from tests.support.server import run
from tests.support.viewer import OF_EACH_API

pytestmark = IN_A_BROWSER

EVENTS = """
async (player, [exchange, count]) => {
  const { source } = player.player.app;
  const positions = [...Array(count).keys()];
  return {
    details: await Promise.all(positions.map((pos) => source.event("any", exchange, pos))),
    found: (await source.find("any", "Weather in ")).events[exchange],
    rows: (await source.events("any", exchange, 0, count)).events,
  };
}
"""
KEYS = ("pos", "kind", "type", "t_ns", "sequence_number", "item_id", "output_index")
THOUGHTS = ("**Checking the weather**\n\n", "One city was named", ", so one call will do.")


class Given(NamedTuple):
    """An exported file, and what the commands say of one exchange in it."""

    path: Path
    session: str
    exchange: int
    states: Shown
    events: list[dict[str, Any]]


def given(db: Path, folder: Path, session: str, exchange: int, *options: object) -> Given:
    path = folder / "a run.html"
    path.write_text(exported(db, session, *options))
    rows = json.loads(run(db, "events", session, "--exchange", exchange, "--json").out)
    return Given(path, session, exchange, shown(db, session, exchange), rows)


@pytest.fixture(scope="module")
def file(gallery: Path, tmp_path_factory: pytest.TempPathFactory) -> Given:
    """The file of a session."""
    return given(gallery, tmp_path_factory.mktemp("file"), "agent", 1)


@asynccontextmanager
async def off_line(chromium: Browser, path: Path) -> AsyncIterator[Tab]:
    async with opened(chromium, path.as_uri(), offline=True) as tab:
        await tab.open("")
        yield tab


async def assert_events(tab: Tab, file: Given) -> None:
    """Assert that the file has the events of the log, byte for byte, with what the API says of
    them.
    """
    found = await tab.page.locator(PLAYER).evaluate(EVENTS, [file.exchange, len(file.events)])
    previous = None
    for row, details in zip(file.events, found["details"], strict=True):
        assert details["event"] == row
        start, length = row["data_start"], row["data_length"]
        payload = None if start is None else row["raw"].encode()[start : start + length].decode()
        assert details["payload"] == payload
        assert details["chain"] == {"hash": row["hash"], "previous": previous, "holds": True}
        previous = row["hash"]
    assert [[row[key] for key in KEYS] for row in found["rows"]] == [
        [row[key] for key in KEYS] for row in file.events
    ]
    assert found["found"] == [
        row["pos"] for row in file.events if "weather in " in row["raw"].lower()
    ]
    assert [row["size_bytes"] for row in found["rows"]] == [
        len(row["raw"].encode()) for row in file.events
    ]


async def assert_same(chromium: Browser, file: Given) -> None:
    async with off_line(chromium, file.path) as tab:
        await compare(tab, file.session, file.exchange, file.states)
        await assert_events(tab, file)


@needs_corpus
async def test_the_player_in_a_file_draws_what_the_command_shows_of_each_api(
    gallery: Path, tmp_path: Path, chromium: Browser
) -> None:
    for each in OF_EACH_API:
        await assert_same(chromium, given(gallery, tmp_path, Path(each).stem, 1))


async def test_a_session_or_one_exchange_of_it_opens(
    gallery: Path, tmp_path: Path, chromium: Browser
) -> None:
    await assert_same(chromium, given(gallery, tmp_path, "agent", 2, "--exchange", 2))
    await assert_same(chromium, given(gallery, tmp_path, "broken", 2))


async def test_a_long_file_is_inflated_and_sought_in_segments(
    tmp_path: Path, chromium: Browser
) -> None:
    log = Conversations(tmp_path / "log.db")
    words = [f"</script>{made('abcdefghij ', 1500, number)}" for number in range(700)]
    log.session("long").exchange(response(*message(*words)), asking("Count."))
    long = given(log.path, tmp_path, "long", 1)
    assert 'data-coding="deflate"' in long.path.read_text()
    async with off_line(chromium, long.path) as tab:
        for pos, document in long.states:
            assert lines(await tab.page.locator(PLAYER).evaluate(SEEK, [1, pos])) == lines(document)
        await assert_events(tab, long)


async def test_previews_are_what_events_add(file: Given, chromium: Browser) -> None:
    async with off_line(chromium, file.path) as tab:
        found = await tab.page.locator(PLAYER).evaluate(EVENTS, [1, len(file.events)])
        deltas = [
            row["preview"]
            for row in found["rows"]
            if row["type"] == "response.reasoning_summary_text.delta"
        ]
        assert deltas == [json.dumps(text) for text in THOUGHTS]


async def test_hostile_texts_run_nothing(hostile: Path, tmp_path: Path, chromium: Browser) -> None:
    sessions = json.loads(run(hostile, "sessions", "--json").out)
    assert sessions
    for row in sessions:
        path = tmp_path / f"{row['session_id']}.html"
        path.write_text(exported(hostile, row["session_id"]))
        async with off_line(chromium, path) as tab:
            assert await tab.page.evaluate(
                "() => !('pwned' in window) && document.scripts.length === 1"
            )


async def test_it_has_the_player_alone_and_says_what_is_in_it(
    file: Given, chromium: Browser
) -> None:
    async with off_line(chromium, file.path) as tab:
        assert await tab.page.locator("body > header nav").count() == 0
        note = tab.page.locator("details.note")
        assert "no secret was found" in await note.locator("summary").inner_text()
        await note.locator("summary").click()
        assert "Not in this file" in await note.inner_text()
        await tab.enter("#/sql")
        assert "is not in the file" in await tab.page.locator("main [role=alert]").inner_text()
        await tab.page.locator(".brand").click()
        await tab.page.locator(PLAYER).wait_for()


async def test_a_link_to_a_place_opens_there_and_the_address_follows_the_playhead(
    gallery: Path, tmp_path: Path, chromium: Browser
) -> None:
    path = tmp_path / "run.html"
    path.write_text(exported(gallery, "agent"))
    async with opened(chromium, path.as_uri(), offline=True) as tab:
        await tab.open("#x=2&e=5")
        await tab.page.wait_for_selector(
            f"{PLAYER}[data-exchange='2'][data-pos='5'][data-ready=true]"
        )
        await tab.page.keyboard.press("ArrowRight")
        await tab.page.wait_for_url("**/run.html#x=2&e=6")
        await tab.page.evaluate("() => { location.hash = '#x=3&e=1' }")
        await tab.page.wait_for_selector(
            f"{PLAYER}[data-exchange='3'][data-pos='1'][data-ready=true]"
        )


async def test_a_link_may_play_but_for_those_who_want_no_motion(
    gallery: Path, tmp_path: Path, chromium: Browser
) -> None:
    path = tmp_path / "run.html"
    path.write_text(exported(gallery, "agent"))
    async with opened(chromium, path.as_uri(), offline=True) as tab:
        await tab.open("#x=1&e=0&play=1")
        await tab.page.wait_for_selector(
            f"{PLAYER}[data-exchange='1'][data-pos='0'][data-ready=true]"
        )
        await tab.page.emulate_media(reduced_motion="no-preference")
        await tab.page.evaluate("() => { location.hash = '#x=1&e=1&play=1' }")
        await tab.page.wait_for_selector(f"{PLAYER}[data-exchange='3'][data-ready=true]")


async def test_it_is_for_everybody(file: Given, chromium: Browser) -> None:
    """`test_style` computes the contrast of all colours, of both themes."""
    async with off_line(chromium, file.path) as tab:
        await tab.page.locator("details.note summary").click()
        for theme, size in zip(THEMES, (WIDE, NARROW), strict=True):
            await tab.show(size, theme)
            await tab.picture(f"html-file-{theme}-{size[0]}")
            assert await tab.violations() == []


async def test_requests_unfold_and_say_what_is_new(tmp_path: Path, chromium: Browser) -> None:
    session = Conversations(tmp_path / "log.db").session("asked")
    weather = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
    body = {"model": "gpt-5", "stream": True, "instructions": "Be brief.", "tools": [weather]}
    session.exchange(
        response(*call("weather", "{}")), body={**body, "input": asking("Is it warm?")}
    )
    again = [*asking("Is it warm?"), *answering("18 °C")]
    session.exchange(response(*message("Yes."), id="resp_2"), body={**body, "input": again}, at_s=1)
    path = tmp_path / "run.html"
    path.write_text(exported(session.path, "asked"))
    async with opened(chromium, path.as_uri(), offline=True) as tab:
        await tab.open("#x=2")
        asked = tab.page.locator("section[data-number='2'] .asked")
        line = asked.locator("summary").first
        await expect(line).to_have_text(
            "asked: system 9 characters · 1 tool · 2 items, 1 of them new"
        )
        await line.click()
        await expect(asked.locator(".asked-message.is-new")).to_contain_text("18 °C")
        await asked.get_by_text("system 9", exact=True).click()
        await expect(asked.get_by_text("Be brief.")).to_be_visible()
