"""Tables in a browser: heads that sort them, and names that lead to what they name."""

from __future__ import annotations

from urllib.parse import quote

from playwright.async_api import Locator, expect

from tests.support.browser import IN_A_BROWSER, PLAYER, Tab

pytestmark = IN_A_BROWSER

PAINTED = ["long", "broken", "agent-again", "agent"]  # the latest first


async def names(links: Locator) -> list[str]:
    """Return the painted sessions in the order in which links name them."""
    texts = [await link.inner_text() for link in await links.all()]
    return [text for text in texts if text in PAINTED]


async def test_a_click_on_a_head_sorts_the_sessions(tab: Tab) -> None:
    await tab.open("#/sessions")
    links = tab.page.locator(".cell-name a")
    await links.get_by_text("agent-again").wait_for()
    head = tab.page.get_by_role("columnheader", name="Name")
    for direction, order in (
        ("ascending", sorted(PAINTED)),
        ("descending", sorted(PAINTED)[::-1]),
        (None, PAINTED),
    ):
        await head.get_by_role("button").click()
        await tab.settle()
        assert await head.get_attribute("aria-sort") == direction
        assert await names(links) == order


async def test_rows_of_sql_sort_and_lead_to_their_exchange(tab: Tab) -> None:
    sql = "SELECT session_name, exchange_id, total_tokens FROM exchange_summary WHERE session_name LIKE 'agent%'"
    await tab.open(f"#/sql?sql={quote(sql)}")
    rows = tab.page.locator(".sql-result .virtual-row")
    await tab.page.get_by_role("columnheader", name="session_name").get_by_role("button").click()
    await expect(rows.first).to_contain_text("agent")
    await tab.page.get_by_role("columnheader", name="session_name").get_by_role("button").click()
    await expect(rows.first).to_contain_text("agent-again")
    await rows.first.get_by_role("link").last.click()
    await tab.page.wait_for_selector(f"{PLAYER}[data-ready=true]", state="attached")
    assert await tab.page.title() == "Weather in Lyon? · recorder"


async def test_home_begins_with_the_latest_session_and_leads_to_it(tab: Tab) -> None:
    await tab.open("#/")
    first = tab.page.locator(".panel").first
    await expect(first.get_by_role("heading")).to_have_text("Latest sessions")
    links = first.get_by_role("link")
    assert await names(links) == [name for name in PAINTED if name in await links.all_inner_texts()]
    await links.last.click()
    await tab.page.wait_for_selector(f"{PLAYER}[data-ready=true]", state="attached")


async def test_an_example_runs_and_what_was_run_is_in_the_history_of_the_browser(tab: Tab) -> None:
    await tab.open("#/sql")
    await tab.page.get_by_role("tab", name="Examples").click()
    await tab.page.get_by_role("button", name="Which tools fail most?").click()
    await expect(tab.page.locator(".sql-result")).to_contain_text("get_weather")
    await tab.open("#/")
    await tab.open("#/sql")
    await tab.page.get_by_role("tab", name="History").click()
    await tab.page.locator(".sql-statement", has_text="FROM tool_stats").click()
    await expect(tab.page.locator(".sql-result")).to_contain_text("get_weather")
    assert await tab.violations() == []


async def test_a_click_on_a_head_of_the_lanes_puts_the_longest_time_first(tab: Tab) -> None:
    await tab.open("#/s/agent")
    await tab.page.get_by_role("button", name="Table", exact=True).click()
    lanes = tab.page.get_by_role("region", name="Lanes as a table")
    await expect(lanes.locator("tbody tr").first).to_contain_text("connection")
    await lanes.get_by_role("button", name="Length").click()
    await expect(lanes.locator("tbody tr").first.locator("td").nth(1)).to_have_text("client")
