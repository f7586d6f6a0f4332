"""Pages of recordings whose texts attack a browser: they run nothing, break nothing, and are shown
as they are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.support.browser import IN_A_BROWSER, Tab, opened
from tests.support.viewer import HOSTILE, HUGE_BYTES, Viewer, viewing

pytestmark = IN_A_BROWSER

SESSION, OTHER = "01a0c450-6c01", "01a0c450-6c02"  # the beginnings of their ids
COLUMNS = (
    'session_name, text, name, arguments, \'<img src=x onerror="window.pwned = 1">\' AS "<b>b</b>"'
)
ROUTES = {
    "home": "#/",
    "sessions": "#/sessions",
    "player": f"#/s/{SESSION}",
    "player-event": f"#/s/{SESSION}/x/1/e/18",
    "player-unknown": f"#/s/{SESSION}/x/2/e/4",
    "player-failed": f"#/s/{SESSION}/x/3",
    "diff": f"#/diff?a={SESSION}&b={OTHER}",
    "sql": f"#/sql?sql={quote(f'SELECT {COLUMNS} FROM messages LEFT JOIN tool_calls USING (session_name)')}",
    "raw": f"#/raw/{SESSION}/1",
    "raw-failed": f"#/raw/{SESSION}/3",
    "hostile-route": f"#/s/{quote(HOSTILE[1], safe='')}",
    "hostile-sql": f"#/sql?sql={quote(HOSTILE[0], safe='')}",
}
CLEAN = """
() => ({
  pwned: "pwned" in window,
  scripts: [...document.scripts].filter((each) => !each.src.startsWith(location.origin + "/static/")).length,
  images: document.querySelectorAll("img[src=x], svg[onload], [onerror], [onload], a[href^='javascript:']").length,
  bold: document.querySelectorAll("main b > b, main td b, main th b").length,
  at: location.pathname,
})
"""


@pytest.fixture(scope="module")
def poisoned(hostile: Path) -> Iterator[Viewer]:
    """A viewer on hostile recordings."""
    with viewing(hostile) as viewer:
        yield viewer


@pytest_asyncio.fixture(loop_scope="session")
async def tab(chromium: Browser, poisoned: Viewer) -> AsyncIterator[Tab]:
    """A tab of that viewer."""
    async with opened(chromium, poisoned.url) as one:
        yield one


NOTHING_RAN = {"pwned": False, "scripts": 0, "images": 0, "bold": 0, "at": "/"}


async def test_hostile_texts_run_nothing(tab: Tab) -> None:
    """One page after the other in one tab: to load the viewer for each again takes most of the slow
    test.
    """
    tab.expect("status of 40[04]")
    for name, route in ROUTES.items():
        await tab.enter(route)
        await expect(tab.page.get_by_text("Loading")).to_have_count(0)
        assert await tab.page.evaluate(CLEAN) == NOTHING_RAN, name


async def test_hostile_texts_are_shown_as_they_are(tab: Tab) -> None:
    await tab.open(f"#/s/{SESSION}/x/1/e/37")
    text = tab.page.locator("main section[data-number='1'] [data-path]").last
    await text.get_by_text("alone").first.wait_for()
    shown = await tab.page.locator("main section[data-number='1'] [data-path]").all_inner_texts()
    for each in HOSTILE[:4]:
        assert any(each in part for part in shown), each


async def test_a_line_of_ten_megabytes_keeps_the_page_alive(tab: Tab) -> None:
    tab.page.set_default_timeout(60_000)
    await tab.open("#/s/huge")
    for key in ("Home", "End", ".", ","):
        await tab.page.keyboard.press(key)
    await tab.page.get_by_text("before").first.wait_for(state="attached")
    assert await tab.page.evaluate("() => document.body.innerText.length") < HUGE_BYTES / 4, (
        "cut, with a button for more"
    )
    await tab.picture("huge-player")
    await tab.open("#/raw/huge/1")
    await tab.settle()
    assert await tab.page.evaluate("() => document.body.innerText.length") < HUGE_BYTES / 4
    assert (await tab.page.evaluate(CLEAN))["pwned"] is False
