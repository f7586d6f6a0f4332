"""What is asked and said, for readers: Markdown and JSON that keep all characters, pictures, the
cost of a miss.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from tests.support.browser import IN_A_BROWSER, NARROW, PLAYER, THEMES, WIDE, Tab, opened
from tests.support.conversations import (
    USAGE,
    Conversations,
    answering,
    asking,
    call,
    message,
    response,
)
from tests.support.html_file import exported
from tests.support.pictures import drawn, png, shown
from tests.support.rows import put_prices
from tests.support.viewer import Viewer, viewing

pytestmark = IN_A_BROWSER

SAID = """## Findings

Run `make` in **two** *steps*, never **<b>four</b>**:

```sh
make check
```

- [a link](https://example.com/x.png)
> done
"""
ARGUMENTS = json.dumps(
    {
        "city": "Zürich",
        "days": [{"hour": n} for n in range(24)],
        "note": "a line\nand another, so that this note is long enough to be broken where its lines end",
    }
)
RULES = "Be **brief**. " * 400
TOOL = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "required": ["city"]},
}
NODES = (
    "(element) => [...element.querySelectorAll('*')].map((each) => "
    "each.localName).filter((name) => !%s.includes(name))"
)
SELECT = """
([element, from, to]) => {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  for (let node = walker.nextNode(), at = 0; node; at += node.length, node = walker.nextNode()) {
    if (from >= at && from < at + node.length) range.setStart(node, from - at);
    if (to > at && to <= at + node.length) range.setEnd(node, to - at);
  }
  getSelection().removeAllRanges();
  getSelection().addRange(range);
}
"""
"""Selects characters of an element, counted over all that is in it."""


@pytest.fixture(scope="module")
def readable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """A viewer on a session with Markdown, JSON, pictures, and a prompt that changed."""
    path: Path = tmp_path_factory.mktemp("readable") / "readable.db"
    log = Conversations(path)
    session = log.session("readable")
    words = [SAID[at : at + 5] for at in range(0, len(SAID), 5)]
    asked = [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "What is **it**?"}, shown(png())],
        }
    ]
    body = {
        "model": "gpt-5",
        "stream": True,
        "instructions": RULES,
        "tools": [TOOL],
        "input": asked,
    }
    session.exchange(response(*message(*words), *call("weather", ARGUMENTS, 1)), body=body)
    stale = {**USAGE, "input_tokens_details": {"cached_tokens": 0}}
    again = {
        **body,
        "tools": [{**TOOL, "description": "Tell it."}],
        "input": [*asked, *answering('{"error": "no city"}')],
    }
    session.exchange(response(*drawn(png(64)), id="resp_2", usage=stale), body=again, at_s=20)
    renewed = log.session("renewed")
    for number, (day, usage) in enumerate([("Monday", USAGE), ("Tuesday", stale)]):
        rules = {"role": "developer", "content": f"{RULES}It is {day}."}
        renewed.exchange(
            response(*message("Yes."), id=f"resp_{number}", usage=usage),
            body={
                "model": "gpt-5",
                "stream": True,
                "input": [rules, *asked, *asking("Sure?") * number],
            },
            at_s=20.0 * number,
        )
    put_prices(path, input="1.25", cache_read="0.125", output="10")
    with viewing(path) as viewer:
        yield viewer


@pytest_asyncio.fixture(loop_scope="session")
async def tab(chromium: Browser, readable: Viewer) -> AsyncIterator[Tab]:
    """A tab of that viewer."""
    async with opened(chromium, readable.url) as one:
        yield one


def text(tab: Tab, *path: object, exchange: int = 1) -> Locator:
    """A text of the conversation by its place in the document."""
    written = json.dumps(path, separators=(",", ":"))
    return tab.page.locator(f"section[data-number='{exchange}'] [data-path='{written}']")


async def select(tab: Tab, element: Locator, part: str) -> None:
    whole = await element.text_content() or ""
    begin = whole.index(part)
    await tab.page.evaluate(SELECT, [await element.element_handle(), begin, begin + len(part)])


async def test_markdown_is_text_with_a_light_style(tab: Tab) -> None:
    await tab.open("#/s/readable/x/1")
    said = text(tab, "items", 0, "text")
    await expect(said).to_have_text(SAID, use_inner_text=False)
    assert await said.text_content() == SAID
    await expect(said.locator("strong")).to_have_text(["Findings\n", "two", "<b>four</b>"])
    await expect(said.locator("em")).to_have_text("steps")
    await expect(said.locator("code")).to_have_text("make")
    await expect(said.locator(".md-block")).to_have_text("make check\n")
    assert await said.evaluate(NODES % ["div", "span", "strong", "em", "code"]) == []


async def test_styled_words_lead_to_the_events_that_wrote_them(tab: Tab) -> None:
    await tab.open("#/s/readable/x/1")
    for part in ("`make` in", "<b>four", "make check", "> done"):
        begin = SAID.index(part)
        first, last = begin // 5, (begin + len(part) - 1) // 5
        await select(tab, text(tab, "items", 0, "text"), part)
        # Before the words come the request, the heads and what opens the message.
        place = f"{first + 6} to {last + 6}" if first != last else f"event {first + 6}"
        await expect(tab.page.get_by_text("selected text:")).to_contain_text(place)


async def test_arguments_fold_and_keep_their_characters(tab: Tab) -> None:
    await tab.open("#/s/readable/x/1")
    arguments = text(tab, "items", 1, "arguments")
    assert await arguments.text_content() == ARGUMENTS
    days = arguments.locator("details", has_text="days").last
    await expect(days).to_have_attribute("class", "json-fold")
    await expect(days.locator("> .json-members")).to_be_hidden()
    await days.locator("> summary").press("Enter")
    await expect(days.locator("> .json-members > .json-line")).to_have_count(24)
    await expect(arguments.locator("br")).to_have_count(1)
    await select(tab, arguments, '"hour": 7')
    await expect(tab.page.get_by_text("selected text:")).to_be_visible()


async def test_what_still_comes_becomes_a_tree_at_its_end(tab: Tab) -> None:
    await tab.open("#/s/readable/x/1/e/0")
    added = len(SAID) // 5 + 10
    await tab.open(f"#/s/readable/x/1/e/{added}")
    arguments = text(tab, "items", 1, "arguments")
    await expect(arguments).to_have_text(ARGUMENTS)
    await expect(arguments.locator("details")).to_have_count(0)
    await tab.open("#/s/readable/x/1")
    await expect(arguments.locator("details")).to_have_count(2)
    await tab.open(f"#/s/readable/x/1/e/{added}")
    await expect(arguments.locator("details")).to_have_count(0)
    assert await arguments.text_content() == ARGUMENTS


async def test_a_payload_folds(tab: Tab) -> None:
    await tab.open("#/s/readable/x/1/e/1")
    payload = tab.page.locator(".inspector .json .text")
    await expect(
        payload.locator("> .json-tree > details > .json-members > *").first
    ).to_contain_text("model")
    assert json.loads(await payload.text_content() or "")["instructions"] == RULES


async def test_pictures_are_drawn_from_the_log(tab: Tab) -> None:
    await tab.open("#/s/readable/x/2")
    made = tab.page.locator("section[data-number='2'] .item img")
    await expect(made).to_have_js_property("naturalWidth", 64)
    asked = tab.page.locator("section[data-number='1'] details.asked")
    await tab.open("#/s/readable/x/1")
    await asked.locator("> summary").click()
    await expect(asked.locator("img")).to_have_js_property("naturalWidth", 16)
    button = asked.get_by_role("button", name="Image: image/png")
    await button.press("Enter")
    await expect(button).to_have_attribute("aria-pressed", "true")


async def test_a_request_says_what_its_change_cost(tab: Tab) -> None:
    await tab.open("#/s/readable/x/2")
    asked = tab.page.locator("section[data-number='2'] details.asked")
    await expect(asked.locator("> summary .missed")).to_contain_text(
        "tokens read again uncached, $0.00"
    )
    await asked.locator("> summary").click()
    note = asked.locator(".note", has_text="uncached")
    await expect(note).to_contain_text("prefix changed since exchange 1 at tools[0].description")
    await expect(note.locator("+ details > summary")).to_contain_text("tools")
    before = asked.get_by_role("link", name="exchange 1")
    await expect(before).to_have_attribute("href", re.compile(r"^#/diff\?a=[^&]+%3A1&b=[^&]+%3A2$"))


async def test_a_system_prompt_that_is_a_message_is_marked_where_it_is_told(tab: Tab) -> None:
    await tab.open("#/s/renewed/x/2")
    asked = tab.page.locator("section[data-number='2'] details.asked")
    await asked.locator("> summary").click()
    note = asked.locator(".note", has_text="uncached")
    await expect(note.locator("del")).to_have_text("Mon")
    await expect(note.locator("ins")).to_have_text("Tues")
    await expect(note.locator("+ details.is-new > summary")).to_have_text(
        re.compile("^system .* changed$")
    )


async def test_a_request_with_results_begins_with_their_names_and_shows_them(tab: Tab) -> None:
    await tab.open("#/s/readable/x/2")
    section = tab.page.locator("section[data-number='2']")
    whole = await tab.page.get_by_role("region", name="Conversation at the playhead").bounding_box()
    begin = await section.bounding_box()
    assert whole is not None
    assert begin is not None
    assert round(begin["y"]) == round(whole["y"])
    await section.get_by_role("button", name="weather failed").click()
    await expect(section.locator(".asked-message.is-new")).to_contain_text("no city")


async def test_the_conversation_stays_where_the_tab_key_led_the_reader(tab: Tab) -> None:
    await tab.open("#/s/readable/x/2")
    link = tab.page.locator("section[data-number='1'] .raw-link a")
    await expect(link).not_to_be_in_viewport()
    await link.focus()
    await tab.page.evaluate("document.querySelector('.player').player.invalidate()")
    await tab.settle()
    await expect(link).to_be_in_viewport()


async def test_a_session_says_its_tokens_and_its_cost(tab: Tab) -> None:
    await tab.open("#/s/readable")
    await expect(tab.page.locator(".player-head")).to_contain_text(re.compile(r"tokens · \$0\.0"))


async def test_a_word_over_several_deltas_is_found_and_leads_to_the_first_of_them(tab: Tab) -> None:
    await tab.open("#/s/readable/x/1/e/0")
    await look_for_a_word(tab)


async def test_a_file_finds_words_and_draws_pictures_by_itself(
    chromium: Browser, readable: Viewer, tmp_path: Path
) -> None:
    path = tmp_path / "run.html"
    path.write_text(exported(readable.db, "readable"))
    async with opened(chromium, path.as_uri(), offline=True) as tab:
        await tab.open("#x=2")
        await expect(tab.page.locator("section[data-number='2'] .item img")).to_have_js_property(
            "naturalWidth", 64
        )
        await tab.page.keyboard.press("Home")
        await look_for_a_word(tab)


async def look_for_a_word(tab: Tab) -> None:
    """Find a word that no event has by itself, and go to it."""
    search = tab.page.get_by_label("Text in the session")
    await search.fill("RUN `MAKE` IN")
    rows = tab.page.get_by_role("grid", name="Events").locator(".virtual-row .event-type")
    begin = SAID.index("Run")
    pieces = (begin + len("Run `make` in") - 1) // 5 - begin // 5 + 1
    whole = ["response.output_text.done", "response.output_item.done"]
    await expect(rows).to_have_text(["response.output_text.delta"] * pieces + whole)
    await search.press("Enter")
    await expect(tab.page.locator(f"{PLAYER}[data-pos='{begin // 5 + 6}']")).to_be_visible()


async def test_readable_requests_are_accessible(chromium: Browser, readable: Viewer) -> None:
    for theme in THEMES:
        for size in (WIDE, NARROW):
            async with opened(chromium, readable.url, size=size, theme=theme) as tab:
                await tab.open("#/s/readable/x/2")
                asked = tab.page.locator("section[data-number='2'] details.asked")
                await asked.locator("> summary").click()
                await asked.locator("details > summary").first.wait_for()
                await asked.evaluate(
                    "(element) => element.querySelectorAll('details').forEach((e) => (e.open = true))"
                )
                await tab.settle()
                assert await tab.violations() == []
                await tab.picture(f"readable-{theme}-{size[0]}")


async def test_the_list_of_turns_says_what_failed_and_what_the_cache_missed(tab: Tab) -> None:
    await tab.open("#/s/readable")
    turn = tab.page.get_by_role("navigation", name="Turns").locator(".turn").last
    await expect(turn.locator(".turn-words .error")).to_have_text("weather failed")
    await expect(turn.locator(".turn-missed")).to_contain_text("cache missed")
    await turn.click()
    await expect(tab.page.locator("section[data-number='1'] .item-facts .error")).to_have_text(
        "failed "
    )
