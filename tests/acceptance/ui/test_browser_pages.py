"""Each page in a browser with recordings: without a fault, usable by everybody (axe-core), wide and
narrow, light and dark. Their pictures are for people to look at, where
`tests.support.browser.SCREENSHOTS` says.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.async_api import Browser, expect

from tests.support.browser import IN_A_BROWSER, NARROW, THEMES, WIDE, Tab, Theme, opened
from tests.support.conversations import Conversations, message, response
from tests.support.empty_log import empty
from tests.support.rows import put_prices
from tests.support.viewer import viewing

pytestmark = IN_A_BROWSER


class Look(NamedTuple):
    """A page: its name, its route, and a text that it shows when its data has come."""

    name: str
    route: str
    shows: str


LOOKS = (
    Look("home", "#/", "SELECT"),
    Look("sessions", "#/sessions", "agent-again"),
    Look("player", "#/s/agent", "get_weather"),
    Look("player-broken", "#/s/broken/x/2/e/6", "This will"),
    Look("diff", "#/diff?a=agent&b=agent-again", "Lyon"),
    Look(
        "sql",
        "#/sql?sql=SELECT%20session_name%2C%20total_tokens%20FROM%20session_summary",
        "session_name",
    ),
    Look("raw", "#/raw/agent/1", "/v1/responses"),
)
SIZES = {"wide": WIDE, "narrow": NARROW}


# One view of each page is quick, the player's in both themes: `test_style` computes the contrast of
# all colours, and axe-core takes most of the time of this module. The slow tests look at all of
# them.
QUICK = {
    (look.name, THEMES[number % 2], ("wide", "narrow")[number // 2 % 2])
    for number, look in enumerate(LOOKS)
}
QUICK |= {("player", "light", "wide"), ("player", "dark", "narrow")}
VIEWS = [
    pytest.param(
        look,
        theme,
        size,
        id=f"{look.name}-{theme}-{size}",
        marks=[] if (look.name, theme, size) in QUICK else [pytest.mark.slow],
    )
    for look in LOOKS
    for theme in THEMES
    for size in SIZES
]


@pytest.mark.parametrize(("look", "theme", "size"), VIEWS)
async def test_a_page_is_for_everybody(tab: Tab, look: Look, theme: Theme, size: str) -> None:
    await tab.show(WIDE, theme)
    await tab.open(look.route)
    await tab.page.get_by_text(look.shows).first.wait_for(state="attached")
    assert (await tab.page.title()).endswith(" · recorder")
    assert await tab.page.locator("main h1").count() == 1
    for each in SIZES:
        await tab.show(SIZES[each], theme)
        await expect(tab.page.get_by_text("Loading")).to_have_count(0)
        assert await tab.page.evaluate(OVERFLOW) <= 0, (
            f"{look.name}, {each}: the window scrolls sideways"
        )
    await tab.show(SIZES[size], theme)
    await tab.picture(f"{look.name}-{theme}-{size}")
    assert await tab.violations() == [], f"{look.name}, {theme}, {size}"


async def test_what_is_not_there_is_said_in_words(tab: Tab) -> None:
    tab.expect("status of 404")
    await tab.open("#/sessions")
    for route in (
        "#/s/nobody",
        "#/s/agent/x/99",
        "#/raw/nobody/1",
        "#/diff?a=nobody&b=agent",
        "#/nowhere",
    ):
        await tab.page.evaluate("route => { location.hash = route }", route)
        alert = tab.page.locator("main [role=alert], #status:not(:empty)")
        await alert.first.wait_for()
        assert len((await alert.first.inner_text()).split()) > 3, route
        await tab.open("#/sessions")


async def test_the_list_of_sessions_has_costs_if_there_are_prices(
    chromium: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "recorder.db"
    Conversations(path).session("priced").exchange(response(*message("Hi")))
    put_prices(path, input="1.25", cache_read="0.125", output="10")
    with viewing(path) as viewer:
        async with opened(chromium, viewer.url) as tab:
            await tab.open("#/sessions")
            await expect(tab.page.get_by_role("columnheader", name="Cost")).to_be_visible()
            for size in SIZES.values():
                await tab.show(size, "light")
                await expect(tab.page.locator(".cell-cost")).to_have_text("$0.00495")
            assert await tab.violations() == []


async def test_an_empty_database_says_how_to_record(chromium: Browser, tmp_path: Path) -> None:
    with viewing(empty(tmp_path / "empty.db")) as viewer:
        async with opened(chromium, viewer.url) as tab:
            for route in ("#/", "#/sessions"):
                await tab.open(route)
                await (
                    tab.page.get_by_text("recorder serve")
                    .or_(tab.page.get_by_text("recorder demo"))
                    .first.wait_for()
                )
            await expect(tab.page.get_by_role("columnheader", name="Cost")).to_have_count(0)
            assert await tab.violations() == []


async def test_a_page_that_writes_its_place_into_the_address_takes_no_page_away(tab: Tab) -> None:
    """The player does so at intervals, and may in the moment between a click on a link and the
    event of it.
    """
    await tab.open("#/s/agent")
    await tab.page.evaluate(
        "() => { location.hash = '#/sql'; history.replaceState(null, '', '#/s/agent/x/1/e/3') }"
    )
    await tab.page.wait_for_selector("main .page[data-page=sql][data-ready]", state="attached")
    assert tab.page.url.endswith("#/sql")


OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
