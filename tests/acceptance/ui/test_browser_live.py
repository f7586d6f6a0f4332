"""A session that is open in the viewer while it is recorded: its page grows with it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path

import httpx
from playwright.async_api import Browser, expect

from tests.support.browser import IN_A_BROWSER, opened
from tests.support.conversations import Conversations, message, response
from tests.support.server import serving
from tests.support.sockets import (
    LAST_CHUNK,
    STREAM_HEAD,
    Action,
    Script,
    ScriptedUpstream,
    Send,
    Wait,
    chunked,
)
from tests.support.viewer import viewing

pytestmark = IN_A_BROWSER


async def test_an_open_session_grows_on_the_page(chromium: Browser, tmp_path: Path) -> None:
    first, second, third = asyncio.Event(), asyncio.Event(), asyncio.Event()
    frames = response(*message("The first half, ", "and the second."))
    half = next(number for number, frame in enumerate(frames) if b"and the second" in frame)
    script: Script = [
        Send(STREAM_HEAD),
        Send(chunked(*frames[:half])),
        Wait(first),
        Send(chunked(*frames[half:]) + LAST_CHUNK),
    ]
    again = response(*message("And ", "once more."), id="resp_2")
    more: list[Action] = [
        Send(STREAM_HEAD),
        Wait(second),
        Send(chunked(*again[:4])),
        Wait(third),
        Send(chunked(*again[4:])),
    ]
    path = tmp_path / "recorder.db"
    async with (
        ScriptedUpstream(script, [*more, Send(LAST_CHUNK)]) as upstream,
        asyncio.TaskGroup() as tasks,
    ):
        with serving(path, "--upstream", f"openai={upstream.base}") as serve:
            asking = tasks.create_task(ask(serve.base))
            with viewing(path) as viewer:
                async with opened(chromium, viewer.url) as tab:
                    await tab.open("#/sessions")
                    await tab.page.get_by_text("live", exact=True).first.click()
                    conversation = tab.page.get_by_role("region", name="Conversation")
                    await conversation.get_by_text("The first half,").wait_for()
                    assert await conversation.get_by_text("and the second").count() == 0
                    first.set()
                    await conversation.get_by_text("The first half, and the second.").wait_for()
                    assert b"resp_1" in await asking
                    asking = tasks.create_task(ask(serve.base))
                    second.set()
                    await conversation.get_by_text("And", exact=True).wait_for()
                    third.set()
                    await conversation.get_by_text("And once more.").wait_for()
                    assert b"resp_2" in await asking
                    await tab.picture("live")


async def test_a_lost_connection_is_shown_until_it_is_there_again(
    chromium: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "recorder.db"
    Conversations(path).session("live").exchange(message("Half")[:3], ended=False)
    with contextlib.ExitStack() as stack:
        viewer = stack.enter_context(viewing(path))
        async with opened(chromium, viewer.url) as tab:
            tab.expect("Failed to load resource")
            await tab.open("#/s/live")
            live = tab.page.get_by_role("button", name="live", exact=True)
            await expect(live).to_have_class(re.compile("is-live"))
            stack.close()
            behind = tab.page.locator(".behind")
            await expect(behind).to_have_text("connection lost, trying again")
            await expect(live).not_to_have_class(re.compile("is-live"))
            await expect(live).to_have_attribute("title", re.compile("does not answer"))
            stream = {"content_type": "text/event-stream", "body": ":\n\n"}
            await tab.page.route("**/follow", lambda route: route.fulfill(**stream))
            await expect(behind).not_to_have_text("connection lost, trying again")
            await expect(live).to_have_class(re.compile("is-live"))


async def ask(base: str) -> bytes:
    """Ask through the recorder, in the session `live`, and return the body."""
    async with httpx.AsyncClient(timeout=60) as client:
        headers = {"x-recorder-session": "live"}
        answer = await client.post(
            f"{base}/v1/responses", json={"model": "m", "stream": True}, headers=headers
        )
        return answer.content
