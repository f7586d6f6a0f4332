"""The player's own movements: dragging, playing, findings, silences, the JSON view, long texts, a
narrow window.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Route, expect

from recorder.store.location import database_url
from tests.integration.ingest.test_websocket_log import ingested
from tests.support.browser import IN_A_BROWSER, NARROW, PLAYER, Tab, opened
from tests.support.conversations import Conversations, asking, call, message, response
from tests.support.live import REALTIME, spoken
from tests.support.live import response as spoken_response
from tests.support.server import child_running, halt
from tests.support.viewer import Viewer, team, viewing
from tests.support.websocket import Connection

pytestmark = IN_A_BROWSER

LINE = "A line of a long text.\n"
ODD = 150  # events of which a rule complains: more than the places that `recorder lint` lists
LINES = 15_000  # 345,000 characters: more than are drawn at first

SEEN = "async (player) => (await player.player.seek(2, 9), player.player.document().items[0].text)"
REACHED = "([player, least, most]) => player.dataset.pos >= least && player.dataset.pos <= most"
NAMED = """
({ player }) => new Promise((done) => {
  const [wrong, shown] = [[], new Set()];
  const look = () => {
    const { details, title } = player.inspector;
    if (details) shown.add(details.event.pos);
    if (details && !title.textContent.startsWith(`1:${details.event.pos} `)) wrong.push(title.textContent);
    if (shown.size < 4) requestAnimationFrame(look);
    else done([wrong, shown.size]);
  };
  look();
})
"""
"""Returns the names in the inspector that were not those of what it showed, while it showed four
events.
"""
DOCUMENT = "(player) => player.player.document()"
SHORTER = "([player, length]) => player.player.document().items[0].text.length < length"
SHOWN = "([element, text]) => element.textContent === text"
GAPS = "(player) => player.player.lanes.axis.gaps.length"


@pytest.fixture(scope="module")
def lengthy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """A viewer on a session with a long text and a long silence, and on one with an event that is
    not text.
    """
    path: Path = tmp_path_factory.mktemp("lengthy") / "lengthy.db"
    conversations = Conversations(path)
    session = conversations.session("lengthy")
    session.exchange(response(*message(*[LINE * 1000] * (LINES // 1000))), asking("Write."))
    session.exchange(response(*message("Short."), id="resp_2"), asking("Again."), at_s=900.0)
    conversations.session("odd").exchange(
        response(*message(*["word "] * ODD)), asking("Say words.")
    )
    searches = conversations.session("searches")
    calls = [
        frame
        for number in range(16)
        for frame in call("web_search", "{}", number, f"call_{number}")
    ]
    searches.exchange(response(*calls), asking("Search."))
    searches.exchange(response(*call("shell", "{}"), id="resp_2"), asking("List."), at_s=1.0)
    team(conversations.session("team"))
    conversations.session("bytes").exchange([b"event: x\ndata: \xff\xfe\n\n"])
    with viewing(path) as viewer:
        yield viewer


@pytest_asyncio.fixture(loop_scope="session")
async def lengthy_tab(chromium: Browser, lengthy: Viewer) -> AsyncIterator[Tab]:
    """A tab of that viewer."""
    async with opened(chromium, lengthy.url) as one:
        yield one


async def reach(tab: Tab, least: int, most: int) -> None:
    """Wait until the playhead is at one of these positions."""
    player = await tab.page.query_selector(PLAYER)
    await tab.page.wait_for_function(REACHED, arg=[player, least, most])


async def document(tab: Tab) -> dict[str, Any]:
    """Return the document that the playhead's exchange is drawn from."""
    return dict(await tab.page.locator(PLAYER).evaluate(DOCUMENT))


async def test_a_drag_over_the_lanes_moves_the_playhead(tab: Tab) -> None:
    await tab.open("#/s/long")
    slider = tab.page.get_by_role("slider")
    box = await slider.bounding_box()
    assert box is not None
    mouse, y = tab.page.mouse, box["y"] + box["height"] - 6
    await mouse.move(box["x"] + box["width"] * 0.9, y)
    await mouse.down()
    for share in (0.8, 0.6, 0.5):
        await mouse.move(box["x"] + box["width"] * share, y)
    await mouse.up()
    await reach(tab, 400, 800)
    await tab.page.wait_for_selector(f"{PLAYER}[data-ready=true]", state="attached")
    said = str((await document(tab))["items"][0]["text"])
    position = len(said.split()) + 5  # after the request, the heads and what opens the message
    await expect(slider).to_have_attribute("aria-valuenow", str(position))


async def test_play_goes_on_and_a_pause_holds(tab: Tab) -> None:
    await tab.open("#/s/long/x/1/e/10")
    await tab.page.get_by_role("combobox", name="Speed").select_option("16")
    await tab.page.get_by_role("button", name="Play").click()
    await reach(tab, 20, 2_000)
    await tab.page.get_by_role("button", name="Pause").click()
    held = await tab.page.locator(PLAYER).get_attribute("data-pos")
    await tab.page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    assert await tab.page.locator(PLAYER).get_attribute("data-pos") == held


async def test_keys_go_from_finding_to_finding(tab: Tab) -> None:
    await tab.open("#/s/broken/x/1/e/0")
    await expect(tab.page.get_by_title("List the findings")).to_be_visible()
    await tab.page.keyboard.press("n")
    await expect(tab.page.locator(".finding").first).to_be_visible()
    first = await tab.page.locator(PLAYER).get_attribute("data-pos")
    await tab.page.keyboard.press("End")
    for _ in range(30):
        await tab.page.keyboard.press("p")
    place = f"{PLAYER}[data-exchange='1'][data-pos='{first}']"
    await tab.page.wait_for_selector(place, state="attached")


async def test_lanes_say_their_exchange_and_outputs_one_after_another_share_one(
    lengthy_tab: Tab,
) -> None:
    labels = lengthy_tab.page.locator(".lane-label")
    await lengthy_tab.open("#/s/searches")
    await expect(labels).to_have_text(["1 gpt-5", "output", "2 gpt-5", "output"])
    await expect(labels.first).to_have_attribute("title", "1 POST /v1/responses gpt-5")
    await lengthy_tab.open("#/s/team")
    await expect(labels).to_have_text(["1 – 5", "output", "client", "client 2"])
    titles = await labels.first.get_attribute("title") or ""
    assert titles.splitlines()[2] == "3 Galileo POST /v1/responses gpt-5"


async def test_events_are_filtered_by_text_and_kind_and_sorted_by_silence(lengthy_tab: Tab) -> None:
    await lengthy_tab.open("#/s/team")
    page = lengthy_tab.page
    events, shown = page.get_by_role("grid", name="Events"), page.get_by_role("tab", name="Events")
    await page.get_by_label("Text in the session").fill("galileo")
    await expect(shown).to_contain_text("1 of ")
    await events.locator(".virtual-row").click()
    await expect(page.get_by_role("heading", name="5:1 body")).to_be_visible()
    await page.get_by_label("Text in the session").fill("")
    await page.get_by_label("Kind or type").select_option("Kinds:response")
    await expect(shown).to_contain_text("5 of ")
    await page.get_by_label("Exchange", exact=True).select_option("2")
    await expect(events.locator(".event-pos")).to_have_text(["2:2"])
    for label in ("Kind or type", "Exchange"):
        await page.get_by_label(label, exact=True).select_option("")
    await events.get_by_role("button", name="Silence").click()
    await expect(events.locator(".event-silence").first).to_have_text("+100.0 ms")
    assert await lengthy_tab.violations() == []


async def test_the_inspector_never_shows_an_event_below_the_name_of_another(tab: Tab) -> None:
    await tab.open("#/s/long/x/1/e/10")
    await tab.page.get_by_role("combobox", name="Speed").select_option("4")
    await tab.page.get_by_role("button", name="Play").click()
    wrong, shown = await tab.page.locator(PLAYER).evaluate(NAMED)
    assert wrong == []
    assert shown > 1


async def test_all_findings_are_listed_and_each_leads_to_its_event(lengthy_tab: Tab) -> None:
    await lengthy_tab.open("#/s/odd/x/1/e/0")
    page = lengthy_tab.page
    await page.get_by_title("List the findings").click()
    findings = page.get_by_role("listbox", name="Findings")
    await findings.press("End")
    last = findings.locator("[aria-selected=true]")
    total = int(await last.get_attribute("aria-setsize") or 0)
    assert total > ODD
    await expect(page.get_by_title("List the findings")).to_have_text(
        f"{total} of {total} findings"
    )
    await expect(page.locator(".inspector .finding").first).to_be_visible()
    rule = findings.get_by_role("option").filter(has_text="RS022").last
    place = (await rule.locator(".num").inner_text()).removeprefix("1:")
    await rule.click()
    await reach(lengthy_tab, int(place), int(place))
    await expect(findings.locator("[aria-selected=true]")).to_contain_text("openai-java")
    assert await lengthy_tab.violations() == []


async def test_the_json_view_is_the_document(tab: Tab) -> None:
    await tab.open("#/s/agent/x/1/e/9")
    await tab.page.keyboard.press("v")
    shown = tab.page.locator("section[data-number='1'] .json .text")
    await expect(shown).to_be_visible()
    assert await shown.evaluate("(element) => JSON.parse(element.textContent)") == await document(
        tab
    )


async def test_each_exchange_begins_with_what_the_person_said(tab: Tab) -> None:
    await tab.open("#/s/agent/x/3")
    said = tab.page.locator("section.exchange .user-text")
    await expect(said.locator("visible=true")).to_have_text(["userWeather in Paris?", "userThanks"])
    await expect(said.first.locator("[dir=auto]")).to_have_text("Weather in Paris?")


async def test_a_long_text_is_cut_until_all_is_wanted(lengthy_tab: Tab) -> None:
    await lengthy_tab.open("#/s/lengthy/x/1")
    text = lengthy_tab.page.locator('[data-path=\'["items",0,"text"]\']').first
    assert len(await text.text_content() or "") == 200_000
    await lengthy_tab.page.get_by_role("button", name="Show all:").click()
    assert await text.text_content() == LINE * LINES
    for _ in range(8):
        await lengthy_tab.page.keyboard.press("ArrowLeft")
    player = await lengthy_tab.page.query_selector(PLAYER)
    await lengthy_tab.page.wait_for_function(SHORTER, arg=[player, len(LINE) * LINES])
    written = (await document(lengthy_tab))["items"][0]["text"]
    await lengthy_tab.page.wait_for_function(SHOWN, arg=[await text.element_handle(), written])


async def test_bytes_that_are_no_text_are_shown_too(lengthy_tab: Tab) -> None:
    await lengthy_tab.open("#/s/bytes/x/1/e/3")
    await lengthy_tab.page.get_by_role("tab", name="Bytes").click()
    await expect(lengthy_tab.page.locator(".dump")).to_contain_text("fe 0a 0a")


async def test_the_model_stays_when_the_session_grows(tab: Tab) -> None:
    await tab.open("#/s/agent/x/1")
    about = tab.page.locator("section[data-number='1'] .about")
    await expect(about).to_contain_text("gpt-5")
    await tab.page.locator(PLAYER).evaluate(
        "(element) => element.player.conversation.setExchanges(element.player.header.exchanges)"
    )
    await expect(about).to_contain_text("gpt-5")


async def test_long_silences_between_exchanges_are_drawn_shorter(lengthy_tab: Tab) -> None:
    await lengthy_tab.open("#/s/lengthy")
    player = lengthy_tab.page.locator(PLAYER)
    assert await player.evaluate(GAPS) == 1
    await lengthy_tab.page.keyboard.press("z")
    await expect(lengthy_tab.page.get_by_role("button", name="Shorten silences")).to_have_attribute(
        "aria-pressed", "false"
    )
    assert await player.evaluate(GAPS) == 0


async def test_a_narrow_window_shows_one_panel_at_a_time(tab: Tab) -> None:
    await tab.show(NARROW)
    await tab.open("#/s/agent/x/2/e/6")
    events = tab.page.get_by_role("grid", name="Events")
    await expect(events).to_be_hidden()
    await tab.page.get_by_role("button", name="Events", exact=True).click()
    await expect(events.locator("[aria-selected=true]")).to_be_in_viewport()
    await expect(tab.page.get_by_role("region", name="Conversation at the playhead")).to_be_hidden()


async def test_turns_are_listed_by_what_was_asked_and_those_of_a_sub_agent_below_its_name(
    lengthy_tab: Tab,
) -> None:
    await lengthy_tab.open("#/s/team")
    turns = lengthy_tab.page.get_by_role("navigation", name="Turns")
    current = turns.locator("[aria-current=true] .turn-words")
    await expect(current).to_have_text("Fix the tests that fail on a busy machine")
    await expect(turns.locator(".is-background")).to_contain_text("title Generate a title")
    await lengthy_tab.page.keyboard.press("j")
    await expect(current).to_have_text("Say which tests fail on a busy machine")
    await lengthy_tab.page.keyboard.press("j")
    await expect(turns.locator(".turn-agent [aria-current=true]")).to_contain_text("↳ shell")
    await turns.get_by_role("button", name="Galileo").click()
    await expect(turns.locator(".turn")).to_have_count(3)
    await turns.get_by_role("button", name="Background").click()
    await expect(turns.locator(".turn")).to_have_count(2)
    await lengthy_tab.page.keyboard.press("j")
    await expect(current).to_have_text("↳ spawn_agent")
    assert await lengthy_tab.violations() == []


async def test_a_request_is_readable_under_its_exchange(lengthy_tab: Tab) -> None:
    await lengthy_tab.open("#/s/lengthy/x/2")
    asked = lengthy_tab.page.locator('.exchange[data-number="2"] details.asked')
    line = asked.locator("> summary")
    await expect(line).to_have_text("asked: 1 item, 1 of them new · 1 earlier item not repeated")
    await line.click()
    await expect(asked.locator(".asked-message.is-new .text")).to_have_text("Again.")


async def test_a_sound_says_how_long_it_is(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "spoken.db"
    made = (
        Connection(REALTIME)
        .client({"type": "response.create"})
        .server(*spoken_response("resp_1", *spoken("Hello.")))
    )
    ingested(database_url(path), tmp_path / "journal", made.close().steps)
    with viewing(path) as viewer:
        async with opened(chromium, viewer.url) as tab:
            await tab.open("#/s/latest/x/2/e/24")
            sound = tab.page.locator(".item", has=tab.page.get_by_text("audio", exact=True))
            await expect(sound.locator(".item-facts")).to_have_text("1.02 s, 48.0 KiB")


async def test_a_seek_does_not_wait_for_the_findings(chromium: Browser, tmp_path: Path) -> None:
    """The process that looks for them stands still here: a large session takes it long."""
    path = tmp_path / "log.db"
    session = Conversations(path).session("s")
    frames = response(*message("It is ", "18 °C"))
    session.exchange(frames, asking("?"))
    session.exchange([*frames[:3], *frames[4:]], asking("?"), at_s=2.0)
    wanted, asked = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        await wanted.wait()
        await route.continue_()
        asked.set()

    with viewing(path) as viewer:
        async with opened(chromium, viewer.url) as tab:
            await tab.page.route("**/marks", hold)
            await tab.enter("#/s/s")
            wanted.set()
            await asked.wait()
            pid = child_running(viewer.pid, "recorder.ui.marks")
            halt(pid)
            findings = tab.page.get_by_role("tab", name="Findings")
            assert await tab.page.locator(PLAYER).evaluate(SEEN) == "It is 18 °C"
            assert await findings.inner_text() == "Findings"
            os.kill(pid, signal.SIGCONT)
            await expect(findings).to_have_text(re.compile(r"Findings \d"))
