"""The viewer's door, tried by a real browser: other origins, frames, no token, and scripts that look for the cookie."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser

from recorder.proxy.http.server import Server
from recorder.proxy.http.server_exchange import ServerExchange
from tests.browser import IN_A_BROWSER, REBOUND, Tab, opened
from tests.viewing import Viewer

pytestmark = IN_A_BROWSER

REFUSED = "Failed to load resource|CORS policy|frame|Refused|ERR_BLOCKED|violates"


@asynccontextmanager
async def another_site() -> AsyncIterator[str]:
    """Yield the address of a site on another port of this machine, with one page."""

    async def answer(incoming: ServerExchange) -> None:
        incoming.respond(200, [(b"content-type", b"text/html")], b"<!doctype html><title>evil</title><p>hello")

    server = Server(answer, "127.0.0.1", 0, on_drain=lambda: None)
    await server.start()
    try:
        yield f"http://127.0.0.1:{server.port}/"
    finally:
        await server.stop(0)


async def test_the_token_becomes_a_cookie_that_no_script_sees(tab: Tab, viewer: Viewer) -> None:
    await tab.open("#/sessions")
    assert tab.page.url == f"{viewer.base}#/sessions", "the token is not in the address any more"
    assert await tab.page.evaluate("() => document.cookie") == ""
    (cookie,) = await tab.page.context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == (f"recorder_ui_{viewer.port}", True, "Strict")
    assert viewer.token not in cookie["value"]


async def test_without_the_token_a_page_says_what_to_do(chromium: Browser, viewer: Viewer) -> None:
    async with opened(chromium, viewer.base) as tab:
        tab.expect("status of 401")
        for url in (viewer.base, f"{viewer.base}?token=wrong", f"{viewer.base}static/app.js"):
            answer = await tab.page.goto(url)
            assert answer is not None
            assert answer.status == 401
            assert "recorder ui" in await tab.page.inner_text("body")
        answer = await tab.page.goto(f"{viewer.base}api/sessions")
        assert answer is not None
        assert answer.status == 401


async def test_another_site_reads_nothing_with_the_cookie(tab: Tab, viewer: Viewer) -> None:
    tab.expect(REFUSED)
    await tab.open("#/sessions")
    async with another_site() as site:
        await tab.page.goto(site)
        for how in ("cors", "no-cors"):
            for path in ("api/sessions", "api/about", "static/app.js", ""):
                got = await tab.page.evaluate(FETCH, [f"{viewer.base}{path}", how])
                assert got == "TypeError", f"{how} {path}"
        assert await tab.page.evaluate(LOAD, ["script", f"{viewer.base}static/app.js"]) == "error"
        assert await tab.page.evaluate(LOAD, ["img", f"{viewer.base}static/icon.svg"]) == "error"
        assert await tab.page.evaluate(STREAM, f"{viewer.base}api/follow") == "error"


async def test_another_site_neither_frames_nor_holds_the_viewer(tab: Tab, viewer: Viewer) -> None:
    tab.expect(REFUSED)
    await tab.open("#/sessions")
    async with another_site() as site:
        await tab.page.goto(site)
        async with tab.page.expect_event("framenavigated"):
            await tab.page.evaluate(LOAD, ["iframe", viewer.url])
        frame = tab.page.frames[-1]
        assert frame.url.startswith("chrome-error:"), frame.url
        async with tab.page.context.expect_page() as appeared:
            await tab.page.evaluate("url => { window.held = window.open(url) }", viewer.url)
        window = await appeared.value
        await window.wait_for_selector("main .page")
        assert await tab.page.evaluate("() => window.held.closed"), "the other site has no hold of the window"


async def test_a_name_that_resolves_to_this_machine_is_refused(chromium: Browser, viewer: Viewer) -> None:
    """A site may let its own name point at 127.0.0.1 (DNS rebinding): the Host gives it away, even with the token."""
    async with opened(chromium, viewer.base) as tab:
        tab.expect("status of 403|Cross-Origin-Opener-Policy")
        answer = await tab.page.goto(viewer.url.replace("127.0.0.1", REBOUND))
        assert answer is not None
        assert answer.status == 403


async def test_the_policy_lets_no_script_of_a_page_run(tab: Tab) -> None:
    await tab.open("#/sessions")
    tab.expect("Content Security Policy")
    ran = await tab.page.evaluate(INJECT)
    assert ran == {"script": False, "handler": False, "timer": False, "style": False, "fetch": "TypeError"}


FETCH = """
([url, mode]) => fetch(url, { mode, credentials: "include" }).then((got) => `${got.type} ${got.status}`, (e) => e.name)
"""
LOAD = """
([tag, url]) => new Promise((resolve) => {
  const element = document.createElement(tag);
  element.onload = () => resolve("load");
  element.onerror = () => resolve("error");
  element.src = url;
  document.body.append(element);
})
"""
STREAM = """
(url) => new Promise((resolve) => {
  const stream = new EventSource(url, { withCredentials: true });
  stream.onopen = () => resolve("open");
  stream.onerror = () => { stream.close(); resolve("error"); };
})
"""
INJECT = """
async () => {
  window.ran = { script: false, handler: false, timer: false };
  const script = document.createElement("script");
  script.textContent = "window.ran.script = true";
  document.body.append(script);
  const place = document.createElement("div");
  place.innerHTML = '<img src="x:" onerror="window.ran.handler = true"><p style="position: fixed">x</p>';
  document.body.append(place);
  const style = getComputedStyle(place.querySelector("p")).position === "fixed";
  setTimeout("window.ran.timer = true");
  const fetched = await fetch("https://example.com/").then(() => "sent", (error) => error.name);
  await new Promise((resolve) => setTimeout(resolve, 50));
  return { ...window.ran, style, fetch: fetched };
}
"""
