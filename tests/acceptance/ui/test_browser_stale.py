"""What comes late, or not at all: answers for a page that was left, streams that are refused,
questions that fail.
"""

from __future__ import annotations

import asyncio
import json

from playwright.async_api import Route, expect

from tests.support.browser import IN_A_BROWSER, Tab

pytestmark = IN_A_BROWSER

REFUSAL = json.dumps({"error": {"message": "Too many pages follow.", "type": "busy"}})
ONE_MESSAGE = "retry: 600000\n\nevent: grew\ndata: %s\n\n"


class Late:
    """A route whose answer is held back until `go_on`."""

    def __init__(self) -> None:
        self.go_on, self.is_asked = asyncio.Event(), asyncio.Event()

    async def answer(self, route: Route) -> None:
        self.is_asked.set()
        await self.go_on.wait()
        await route.continue_()


async def test_a_page_that_was_left_changes_nothing_of_the_next(tab: Tab) -> None:
    late = Late()
    await tab.open("#/sql")
    await tab.page.route("**/api/sessions/long/lanes", late.answer)
    await tab.page.evaluate("() => { location.hash = '#/s/long' }")
    await late.is_asked.wait()
    await tab.open("#/sql")
    title = await tab.page.title()
    async with tab.page.expect_response("**/api/sessions/*/lanes"):
        late.go_on.set()
    await tab.page.evaluate("() => new Promise((resume) => setTimeout(resume, 100))")
    assert await tab.page.title() == title == "SQL · recorder"


async def test_a_statement_of_a_page_that_was_left_is_given_up(tab: Tab) -> None:
    late = Late()
    await tab.open("#/sessions")
    await tab.page.route("**/api/query", late.answer)
    await tab.page.evaluate("() => { location.hash = '#/sql?sql=select+1' }")
    await late.is_asked.wait()
    async with tab.page.expect_event(
        "requestfailed", lambda request: request.url.endswith("/api/query")
    ):
        await tab.page.evaluate("() => { location.hash = '#/sessions' }")
    await tab.page.unroute("**/api/query")
    late.go_on.set()


async def test_the_choice_of_sessions_comes_too_late_for_a_comparison(tab: Tab) -> None:
    late = Late()
    await tab.open("#/sql")
    await tab.page.route("**/api/sessions?limit=*", late.answer)
    await tab.page.evaluate("() => { location.hash = '#/diff' }")
    await late.is_asked.wait()
    await tab.page.evaluate("() => { location.hash = '#/diff?a=agent&b=agent-again' }")
    await tab.page.get_by_role("heading", name="agent-again").wait_for()
    late.go_on.set()
    await tab.page.wait_for_selector("#recent-sessions option", state="attached")
    await expect(tab.page.get_by_role("heading", name="agent-again")).to_be_visible()
    # The styles of the player are loaded on this page too.
    asked = tab.page.locator(".diff-pair h2 .asked")
    assert await asked.evaluate("(element) => getComputedStyle(element).display") == "inline"


async def test_a_stream_that_is_refused_says_why_and_is_asked_for_again(tab: Tab) -> None:
    tab.expect("status of 503")
    comes = asyncio.Event()

    async def refuse(route: Route) -> None:
        if comes.is_set():
            await route.fulfill(content_type="text/event-stream", body="retry: 600000\n\n")
        else:
            await route.fulfill(status=503, content_type="application/json", body=REFUSAL)

    await tab.page.route("**/api/follow", refuse)
    await tab.open("#/sessions")
    await expect(tab.page.locator("#status")).to_have_text("Too many pages follow.")
    async with tab.page.expect_response(
        lambda answer: answer.url.endswith("/api/follow") and answer.ok
    ):
        comes.set()


async def test_what_is_new_is_asked_for_until_it_comes(tab: Tab) -> None:
    """The last news of an exchange is that it has ended: nothing follows that would make the page
    ask again.
    """
    tab.expect("Failed to load resource")
    news = {"number": 4, "exchange_id": "0", "last_pos": 3, "has_ended": False}
    body = ONE_MESSAGE % json.dumps({"exchanges": [news]})
    await tab.page.route("**/agent/follow", lambda route: route.abort())
    await tab.page.route(
        "**/follow", lambda route: route.fulfill(content_type="text/event-stream", body=body)
    )
    await tab.page.route("**/lanes?exchange=4*", lambda route: route.abort(), times=1)
    async with tab.page.expect_response("**/lanes?exchange=4*"):
        await tab.open("#/s/agent")


PART = 4 * 2**20
"""Bytes of a body that the page asks for at once."""
MORE = "(view) => { for (let times = 0; times < 100; times++) view.querySelector('.more button')?.click() }"


async def test_a_part_of_a_body_is_read_once_and_again_if_it_did_not_come(tab: Tab) -> None:
    tab.expect("Failed to load resource")
    asked: list[str] = []

    async def part(route: Route) -> None:
        asked.append(route.request.url)
        if f"from={PART}&" not in route.request.url:
            await route.fulfill(
                body=f"{'a line of the body ':->99}\n" * (PART // 100) + "-" * (PART % 100)
            )
        elif len(asked) == 2:
            await route.abort()
        else:
            await route.fulfill(body="the end")

    await tab.page.route("**/body?of=request*", lambda route: route.fulfill(body="{}"))
    await tab.page.route("**/body?of=response*", part)
    await tab.open("#/raw/agent/1")
    view = tab.page.locator(".raw-sides > :last-child .body-view")
    await view.get_by_role("button", name="More").wait_for()
    await view.evaluate(MORE)
    await expect(view.get_by_role("alert")).to_contain_text("does not answer")
    assert len(asked) == 2
    await view.evaluate(MORE)
    await expect(view.locator("pre")).to_contain_text("the end")
    assert len(asked) == 3
    assert str(await view.locator("pre").text_content()).count("the end") == 1


async def test_a_form_that_is_not_submitted_changes_no_address(tab: Tab) -> None:
    await tab.open("#/diff?a=agent&b=agent-again")
    await tab.page.get_by_label("A: session").fill("broken")
    await tab.page.get_by_role("button", name="Show pair 2 and 2").click()
    assert tab.page.url.endswith("#/diff?a=agent&b=agent-again&pair=2")
