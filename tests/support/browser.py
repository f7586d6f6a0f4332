"""A real browser: the Chromium of this machine, driven by playwright without a browser of its own.

    pytestmark = IN_A_BROWSER

    async def test_…(tab: Tab) -> None:
        await tab.open("#/sessions")
        assert await tab.violations() == []

Starting one takes a second, so a process of tests has one, and each test a context of its own:
cookies, theme, size. Playwright lives on the event loop that started it: tests and fixtures with a
browser use the loop of the session.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    Request,
    async_playwright,
    expect,
)

VARIABLE = "RECORDER_TEST_CHROMIUM"
PROGRAMS = ("/usr/bin/chromium", "chromium", "chromium-browser", "google-chrome")
MISSING = f"There is no Chromium to test with: install one (Debian: chromium), or set {VARIABLE} to the path of one."

ARGUMENTS = (
    *(
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-sync",
    ),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)

REBOUND = "rebound.example"
"""A name of another site that resolves to this machine, in these browsers."""

TIMEOUT_S = 60.0  # for what a page waits for, on a machine that has other things to do

expect.set_options(timeout=TIMEOUT_S * 1e3)

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
WIDE, NARROW = (1440, 900), (390, 800)

WCAG = ("wcag2a", "wcag2aa", "wcag22aa")


def program() -> str | None:
    """Return the path of the browser, or None if there is none."""
    chosen = os.environ.get(VARIABLE)
    return next(filter(None, map(shutil.which, [chosen] if chosen else PROGRAMS)), None)


IN_A_BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(program() is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="session"),
]


@asynccontextmanager
async def launched() -> AsyncIterator[Browser]:
    """Yield a browser, and end it."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program(),
            args=[*ARGUMENTS, f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"],
            timeout=TIMEOUT_S * 1e3,
        )
        try:
            yield browser
        finally:
            await browser.close()


@cache
def axe() -> str:
    """Return the source of axe-core."""
    found = importlib.util.find_spec("axe_playwright_python")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).with_name("axe.min.js").read_text()


SCREENSHOTS = "RECORDER_SCREENSHOTS"
"""The variable that names a folder for pictures that people look at after a run. Without it none is
taken.
"""


PLAYER = "main [data-page=player] > .player"

_GO = """
(route) => new Promise((resolve) => {
  if (location.hash === route) return resolve();
  addEventListener("hashchange", () => resolve(), { once: true });
  location.hash = route;
})
"""
"""Returns when the listeners of the viewer, which are older, have taken the last page away."""


# at requests, each after two frames: what has come is drawn, and has asked for more
QUIET_LOOKS = 5
_DRAWN = "() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"


class Fault(NamedTuple):
    """Something a page must not do: an error on the console (a violation of the CSP is one), or an
    uncaught one.
    """

    kind: Literal["console", "page", "crash"]
    text: str


class Tab:
    """A page in a context of its own that remembers its faults."""

    def __init__(self, page: Page, url: str) -> None:
        """`url` is the address of the viewer with its token, or of a file; routes are added to it."""
        self.page, self.url = page, url
        self.faults: list[Fault] = []
        self._expected: list[str] = []
        page.set_default_timeout(TIMEOUT_S * 1e3)
        page.on("console", self._hear)
        page.on(
            "pageerror",
            lambda error: self.faults.append(Fault("page", f"{error.message}\n{error.stack}")),
        )
        page.on("crash", lambda _: self.faults.append(Fault("crash", "")))
        self._open: set[Request] = set()
        page.on(
            "request",
            lambda request: None if request.url.endswith("/follow") else self._open.add(request),
        )
        page.on("requestfinished", lambda request: self._open.discard(request))
        page.on("requestfailed", lambda request: self._open.discard(request))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not any(
            re.search(each, message.text) for each in self._expected
        ):
            self.faults.append(Fault("console", f"{message.text} ({message.location.get('url')})"))

    def expect(self, pattern: str) -> None:
        """Let errors on the console pass that match: a test that makes the server refuse something
        has one.
        """
        self._expected.append(pattern)

    async def open(self, route: str = "#/") -> None:
        """Go to a page of the viewer, until it has drawn.

        Raises `AssertionError` if it shows an error instead.
        """
        await self.enter(route)
        error = await self.page.locator("main .page > p.error").all_inner_texts()
        assert not error, f"{self.page.url}: {error}"

    async def enter(self, route: str) -> None:
        """Go to a page of the viewer, until it has drawn or failed; the first time by the address
        with the token.
        """
        if self.page.url.startswith(self.origin):
            await self.page.evaluate(_GO, route)
        else:
            await self.page.goto(self.url + route)
        await self.page.wait_for_selector("main .page[data-ready]", state="attached")
        if await self.page.locator(PLAYER).count():
            await self.page.wait_for_selector(f"{PLAYER}[data-ready=true]", state="attached")

    async def settle(self) -> None:
        """Wait until the page has what it asked for.

        A stream that it follows has no end, so it is never idle.
        """
        async with asyncio.timeout(TIMEOUT_S):
            quiet = 0
            while quiet < QUIET_LOOKS:
                await self.page.evaluate(_DRAWN)
                quiet = 0 if self._open else quiet + 1

    @property
    def origin(self) -> str:
        """The address without path, token and route; of a file its whole path."""
        return re.sub(r"(?<=\w)/?\?.*", "", self.url)

    async def show(self, size: tuple[int, int] = WIDE, theme: Theme = "light") -> None:
        """Change the size of the window and the theme of the system."""
        await self.page.set_viewport_size({"width": size[0], "height": size[1]})
        await self.page.emulate_media(color_scheme=theme)

    async def violations(self, tags: Sequence[str] = WCAG) -> list[str]:
        """Return what axe-core finds, one line for each element."""
        faults, session = list(self.faults), await self.page.context.new_cdp_session(self.page)
        if not await self.page.evaluate("() => 'axe' in window"):
            # the CSP would forbid a script element
            await session.send("Runtime.evaluate", {"expression": axe()})
        found: dict[str, Any] = await self.page.evaluate(
            "tags => axe.run(document, { runOnly: { type: 'tag', values: tags }, resultTypes: ['violations'] })",
            list(tags),
        )
        await session.detach()
        self.faults[:] = faults  # it tries inline styles of its own, which the CSP forbids
        return [
            f"{violation['id']}: {node['html'][:160]}: {' '.join(node['failureSummary'].split())}"
            for violation in found["violations"]
            for node in violation["nodes"]
        ]

    async def shoot(self, path: Path) -> None:
        """Write a picture of the window; playwright would hide the caret by a style that the CSP
        forbids.
        """
        await self.page.screenshot(path=path, caret="initial")

    async def picture(self, name: str) -> None:
        """Write a picture of the window into the folder for people to look at, if there is one."""
        if SCREENSHOTS in os.environ:
            folder = Path(os.environ[SCREENSHOTS])
            folder.mkdir(parents=True, exist_ok=True)
            await self.shoot(folder / f"{name}.png")


@asynccontextmanager
async def opened(
    browser: Browser,
    url: str,
    *,
    size: tuple[int, int] = WIDE,
    theme: Theme = "light",
    **options: Any,
) -> AsyncIterator[Tab]:
    """Yield a tab in a new context. Raises `AssertionError` at the end if it had faults."""
    context: BrowserContext = await browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme=theme,
        reduced_motion="reduce",
        **options,
    )
    try:
        tab = Tab(await context.new_page(), url)
        yield tab
        assert tab.faults == [], "\n".join(map(str, tab.faults))
    finally:
        try:
            await context.close()
        except Error:
            pass  # the browser has gone, and what it was doing says why
