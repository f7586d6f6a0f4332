"""The panes of the player: their borders are moved by mouse and keyboard, and stay; its controls
are on one line.
"""

from __future__ import annotations

from playwright.async_api import expect

from tests.support.browser import IN_A_BROWSER, Tab

pytestmark = IN_A_BROWSER

LAPTOP = (1280, 800)
TURNS = "[data-page=player] .turns-panel"
BOX = "(element) => element.getBoundingClientRect().toJSON()"
LINES = """
(toolbar) => new Set([...toolbar.children].filter((each) => each.offsetWidth).map(
  (each) => Math.round(each.getBoundingClientRect().top + each.offsetHeight / 2))).size
"""
FULL = "(place) => { place.textContent = 'exchange 1,000 of 1,000 · event 500,000 of 500,000 · 12:34:56.789' }"


async def width(tab: Tab, pane: str) -> float:
    return float((await tab.page.locator(pane).evaluate(BOX))["width"])


async def test_the_border_of_a_pane_is_dragged_and_moved_by_keys_and_stays(tab: Tab) -> None:
    await tab.show(LAPTOP)
    await tab.open("#/s/agent")
    border = tab.page.get_by_role("separator", name="Width of the turns")
    usual = await width(tab, TURNS)
    box = await border.evaluate(BOX)
    await tab.page.mouse.move(box["x"] + 5, box["y"] + 60)
    await tab.page.mouse.down()
    await tab.page.mouse.move(320, box["y"] + 60)
    await tab.page.mouse.up()
    assert abs(await width(tab, TURNS) - 320) < 4
    await border.press("ArrowLeft")
    await expect(border).to_have_attribute("aria-valuenow", "23")
    moved = await width(tab, TURNS)
    assert moved < 320
    await tab.page.reload()
    await expect(border).to_have_attribute("aria-valuenow", "23")
    assert await width(tab, TURNS) == moved
    await border.press("Enter")
    assert await width(tab, TURNS) == usual


async def test_the_controls_of_a_long_session_are_on_one_line_of_a_laptop(tab: Tab) -> None:
    await tab.show(LAPTOP)
    await tab.open("#/s/agent")
    await tab.page.locator(".transport .place").evaluate(FULL)
    await tab.page.locator(".transport .live").evaluate("(live) => { live.hidden = false }")
    assert await tab.page.locator(".transport").evaluate(LINES) == 1


async def test_a_badge_has_its_text_inside_of_its_border(tab: Tab) -> None:
    await tab.open("#/s/broken")
    badge = tab.page.locator(".section-head .badge.error").first
    await expect(badge).to_have_css("padding", "0px 6px")
