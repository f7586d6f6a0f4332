"""A browser, databases and a viewer on them, once for a process of tests, and a tab for each test."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.support.browser import Tab, launched, opened
from tests.support.corpus import CORPUS
from tests.support.viewer import SAMPLE, Viewer, hang, paint, poison, viewing


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """A browser that has started."""
    async with launched() as browser:
        yield browser


@pytest.fixture(scope="session")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with sessions of agents, and streams of the corpus where there is one.

    It is not to be written.
    """
    path = tmp_path_factory.mktemp("gallery") / "gallery.db"
    paint(path, time.time_ns())
    if CORPUS.exists():
        hang(path, SAMPLE)
    return path


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database in which every text is hostile. It is not to be written."""
    path = tmp_path_factory.mktemp("hostile") / "hostile.db"
    poison(path)
    return path


@pytest.fixture(scope="session")
def viewer(gallery: Path) -> Iterator[Viewer]:
    """A viewer on the gallery."""
    with viewing(gallery) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="session")
async def tab(chromium: Browser, viewer: Viewer) -> AsyncIterator[Tab]:
    """A tab that has the address of the viewer on the gallery, with its token."""
    async with opened(chromium, viewer.url) as one:
        yield one
