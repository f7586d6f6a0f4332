"""The viewer's door, tried by a real browser: other origins and ports, frames, no token."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from playwright.async_api import Browser

from recorder.proxy.http.server import Server
from recorder.proxy.http.server_exchange import ServerExchange
from tests.support.browser import IN_A_BROWSER, PLAYER, REBOUND, Tab, opened
from tests.support.viewer import Viewer

pytestmark = IN_A_BROWSER

REFUSED = "Failed to load resource|CORS policy|frame|Refused|ERR_BLOCKED|violates"


class Site(NamedTuple):
    """A server at another port of this machine, with one page, and what it received."""

    url: str
    received: list[tuple[bytes, bytes]]  # target and headers of each request, in one text each

    def has_seen(self, secret: str) -> bool:
        return any(secret.encode() in part for request in self.received for part in request)


@asynccontextmanager
async def another_site() -> AsyncIterator[Site]:
    received: list[tuple[bytes, bytes]] = []

    async def answer(incoming: ServerExchange) -> None:
        headers = b"\n".join(b": ".join(header) for header in incoming.headers)
        received.append((incoming.path + b"?" + incoming.query, headers))
        incoming.respond(
            200, [(b"content-type", b"text/html")], b"<!doctype html><title>evil</title><p>hello"
        )

    server = Server(answer, "127.0.0.1", 0, on_drain=lambda: None)
    await server.start()
    try:
        yield Site(f"http://127.0.0.1:{server.port}/", received)
    finally:
        await server.stop(0)


async def test_a_server_at_another_port_sees_nothing_that_opens_the_viewer(
    tab: Tab, viewer: Viewer
) -> None:
    """A browser sends cookies to all ports of a host, and an origin has its own storage."""
    tab.expect(REFUSED)
    await tab.open("#/sessions")
    assert tab.page.url == f"{viewer.base}#/sessions", "the token is not in the address any more"
    assert await tab.page.context.cookies() == []
    async with another_site() as site:
        beside = await tab.page.context.new_page()
        await beside.goto(site.url)
        await beside.evaluate(
            "url => fetch(url, { credentials: 'include' }).then((got) => got.text())", site.url
        )
        held = await beside.evaluate(
            "() => [document.cookie, localStorage.length, sessionStorage.length]"
        )
        assert held == ["", 0, 0]
        await tab.page.evaluate("url => { location.href = url }", site.url)
        await tab.page.wait_for_url(site.url)
        assert len(site.received) >= 3
        assert not site.has_seen(viewer.token)
        assert not any(b"cookie:" in headers for _, headers in site.received)


async def test_a_page_is_there_again_and_in_another_tab(tab: Tab, viewer: Viewer) -> None:
    """As long as the viewer runs: after a reload, by a link in a new tab, and by an address that
    somebody typed.
    """
    await tab.open("#/sessions")
    await tab.page.reload()
    await tab.page.get_by_role("link", name="agent", exact=True).first.wait_for()
    async with tab.page.context.expect_page() as appeared:
        await tab.page.get_by_role("link", name="agent", exact=True).first.click(
            modifiers=["Control"]
        )
    typed = await tab.page.context.new_page()
    await typed.goto(f"{viewer.base}#/s/agent")
    for page in (await appeared.value, typed):
        await page.wait_for_selector(f"{PLAYER}[data-ready=true]", state="attached")


async def test_without_the_token_a_page_says_what_to_do(chromium: Browser, viewer: Viewer) -> None:
    for url in (viewer.base, f"{viewer.base}?token=wrong", f"{viewer.base}?token=%F0%9F%90%B1"):
        async with opened(chromium, url) as tab:
            tab.expect("status of 401")
            await tab.page.goto(url)
            alert = tab.page.get_by_role("alert").filter(
                has_text="open the URL that `recorder ui` printed"
            )
            await alert.first.wait_for()
            answer = await tab.page.goto(f"{viewer.base}api/sessions")
            assert answer is not None
            assert answer.status == 401


async def test_a_token_in_the_fragment_is_taken_out_of_the_address(
    chromium: Browser, viewer: Viewer
) -> None:
    """It is typed behind the address that a page has, which alone loads nothing."""
    async with opened(chromium, viewer.base) as tab:
        tab.expect("status of 401")
        await tab.page.goto(viewer.base)
        await tab.page.get_by_role("alert").first.wait_for()
        await tab.page.goto(f"{viewer.base}#token={viewer.token}")
        await tab.page.get_by_role("heading", name="Latest sessions").wait_for()
        assert tab.page.url == viewer.base


async def test_another_site_reads_nothing(tab: Tab, viewer: Viewer) -> None:
    tab.expect(REFUSED)
    await tab.open("#/sessions")
    async with another_site() as site:
        await tab.page.goto(site.url)
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
        await tab.page.goto(site.url)
        async with tab.page.expect_event("framenavigated"):
            await tab.page.evaluate(LOAD, ["iframe", viewer.url])
        frame = tab.page.frames[-1]
        assert frame.url.startswith("chrome-error:"), frame.url
        async with tab.page.context.expect_page() as appeared:
            await tab.page.evaluate("url => { window.held = window.open(url) }", viewer.url)
        window = await appeared.value
        await window.wait_for_selector("main .page")
        assert await tab.page.evaluate("() => window.held.closed"), (
            "the other site has no hold of the window"
        )


async def test_a_name_that_resolves_to_this_machine_is_refused(
    chromium: Browser, viewer: Viewer
) -> None:
    """A site may let its own name point at 127.0.0.1 (DNS rebinding): the Host gives it away, even
    with the token.
    """
    async with opened(chromium, viewer.base) as tab:
        tab.expect("status of 403|Cross-Origin-Opener-Policy")
        answer = await tab.page.goto(viewer.url.replace("127.0.0.1", REBOUND))
        assert answer is not None
        assert answer.status == 403


async def test_the_policy_lets_no_script_of_a_page_run(tab: Tab) -> None:
    await tab.open("#/sessions")
    tab.expect("Content Security Policy")
    ran = await tab.page.evaluate(INJECT)
    assert ran == {
        "script": False,
        "handler": False,
        "timer": False,
        "style": False,
        "fetch": "TypeError",
    }


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
