"""Everything by keyboard: from the home page to an event and its bytes, and on to a comparison; and
what marks what.
"""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import expect

from tests.support.browser import IN_A_BROWSER, PLAYER, Tab

pytestmark = IN_A_BROWSER

FIRST = "Skip to content"
TABS = 80  # more stops than any page has before the one that is wanted

FOCUSED = """
() => {
  const at = document.activeElement;
  const box = at.getBoundingClientRect();
  const style = getComputedStyle(at);
  return {
    name: (at.getAttribute("aria-label") || at.textContent || "").trim().slice(0, 80),
    isSeen: box.width > 0 && (style.outlineStyle !== "none" || style.boxShadow !== "none"),
  };
}
"""
PLACE = "(player) => [Number(player.dataset.exchange), Number(player.dataset.pos)]"


async def tab_to(tab: Tab, name: str) -> None:
    """Press Tab until the focus is on the control of that name; on the way each has a visible
    focus.
    """
    for _ in range(TABS):
        await tab.page.keyboard.press("Tab")
        focused: dict[str, Any] = await tab.page.evaluate(FOCUSED)
        if focused["name"] and not focused["isSeen"]:
            raise AssertionError(f"the focus on {focused['name']!r} is not visible")
        if name in focused["name"]:
            return
    raise AssertionError(f"Tab does not reach {name!r}")


async def at(tab: Tab, exchange: int, pos: int) -> None:
    """Wait until the playhead is there."""
    where = f"{PLAYER}[data-exchange='{exchange}'][data-pos='{pos}'][data-ready=true]"
    await tab.page.wait_for_selector(where, state="attached")


async def test_from_home_to_an_event_and_to_a_comparison(tab: Tab) -> None:
    keys = tab.page.keyboard
    await tab.open("#/")
    await tab_to(tab, "Sessions")
    await keys.press("Enter")
    await tab.page.get_by_text("agent-again").first.wait_for()
    await keys.press("/")
    await keys.type("Paris")
    await keys.press("Enter")
    await expect(tab.page.get_by_text("agent-again")).to_have_count(0)
    sessions = tab.page.get_by_role("grid")
    await expect(sessions).to_be_focused()
    await keys.press("Enter")
    await tab.page.wait_for_selector(f"{PLAYER}[data-ready=true]", state="attached")
    await keys.press("Home")
    await at(tab, 1, 0)
    for _ in range(6):
        await keys.press("ArrowRight")
    await at(tab, 1, 6)
    await expect(tab.page.get_by_role("heading", name="1:6")).to_be_visible()
    await tab_to(tab, "Payload")
    await keys.press("ArrowRight")
    await expect(tab.page.get_by_role("tab", name="Bytes")).to_be_focused()
    await expect(tab.page.get_by_role("tabpanel", name="Bytes")).to_contain_text(
        "of the decoded body"
    )
    await keys.press("ArrowRight")
    await expect(tab.page.get_by_role("tabpanel", name="Origin")).to_contain_text("holds")
    await keys.press("j")
    await at(tab, 2, 14)
    await keys.press("End")
    await at(tab, 3, 12)
    await keys.press("g")
    await keys.press("s")
    await expect(tab.page.get_by_role("row").filter(has_text="broken")).to_have_count(1)
    await keys.press("/")
    await keys.type("Weather")
    await keys.press("Enter")
    await expect(tab.page.get_by_role("row").filter(has_text="broken")).to_have_count(0)
    await expect(sessions).to_be_focused()
    for key in ("x", "j", "x", "d"):
        await keys.press(key)
    await tab.page.wait_for_selector("main .page[data-page=diff][data-ready]", state="attached")
    await expect(tab.page.locator("main")).to_contain_text("Weather in Lyon?")


SLOW = [
    pytest.param(route, marks=pytest.mark.slow)
    for route in ("#/", "#/diff?a=agent&b=agent-again", "#/raw/agent/1")
]


@pytest.mark.parametrize("route", ["#/sessions", "#/s/agent", "#/sql", *SLOW])
async def test_no_page_keeps_the_focus(tab: Tab, route: str) -> None:
    """Tab leaves each part of a page, in both directions, and each stop is visible."""
    await tab.open(route)
    await tab.settle()
    for key in ("Tab", "Shift+Tab"):
        names: list[str] = []
        while names.count(FIRST) < 2:  # once around
            assert len(names) < 2 * TABS, names
            await tab.page.keyboard.press(key)
            focused: dict[str, Any] = await tab.page.evaluate(FOCUSED)
            assert focused["isSeen"] or await tab.page.evaluate(
                "() => document.activeElement === document.body"
            ), focused
            names.append(focused["name"])


async def test_the_help_names_the_keys(tab: Tab) -> None:
    await tab.open("#/s/agent")
    await tab.page.keyboard.press("?")
    dialog = tab.page.get_by_role("dialog")
    await expect(dialog).to_contain_text("next event")
    assert await tab.violations() == []
    await tab.page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)


async def test_the_table_says_what_the_lanes_draw(tab: Tab) -> None:
    await tab.open("#/s/agent")
    await tab.page.keyboard.press("t")
    table = tab.page.get_by_role("table").first
    for each in ("get_weather", "reasoning", "message", "client"):
        await expect(table).to_contain_text(each)
    assert await tab.violations() == []


async def test_selected_text_marks_the_events_that_wrote_it(tab: Tab) -> None:
    """In `long` each word is a delta: word 3 is the delta of event 9, after request, head, and two
    that begin.
    """
    await tab.open("#/s/long")
    await tab.page.evaluate(SELECT, ["word3 word4 ", 0])
    await expect(tab.page.get_by_text("2 events, 9 to 10")).to_be_visible()
    await expect(tab.page.locator(".is-writer")).to_have_count(2)
    await tab.page.evaluate("() => getSelection().removeAllRanges()")
    await expect(tab.page.locator(".is-writer")).to_have_count(0)


async def test_an_event_marks_the_text_that_it_wrote(tab: Tab) -> None:
    await tab.open("#/s/long/x/1/e/9")
    assert await tab.page.evaluate(WROTE) == ["word3 "]
    await tab.page.keyboard.press("ArrowRight")
    await at(tab, 1, 10)
    assert await tab.page.evaluate(WROTE) == ["word4 "]


SELECT = """
([words]) => {
  for (const place of document.querySelectorAll("[data-path]")) {
    const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const start = node.data.indexOf(words);
      if (start >= 0) return getSelection().setBaseAndExtent(node, start, node, start + words.length);
    }
  }
  throw new Error("no such text");
}
"""
WROTE = "() => [...CSS.highlights.get('wrote')].map(String)"
