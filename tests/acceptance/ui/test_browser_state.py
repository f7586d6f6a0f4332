"""The state that the player draws is that of `recorder show --at-event N --json`: compared through
the page.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.support.browser import IN_A_BROWSER, PLAYER, Tab, opened
from tests.support.corpus import corpus_index, needs_corpus
from tests.support.server import run
from tests.support.viewer import OF_EACH_API, Viewer, hang, viewing

pytestmark = IN_A_BROWSER

TEXTS = ("summary", "text", "refusal", "arguments", "output")
POSITIONS = 6  # of each stream, in a random order: the first, the last, and others
GROUPS = 20  # of the streams, so that one that differs does not hide all others

Document = dict[str, Any]
Shown = list[tuple[int, Document]]

SEEK = "async (player, [exchange, pos]) => { await player.player.seek(exchange, pos); return player.player.document() }"
DRAWN = """
(player, number) => Object.fromEntries(
  [...player.querySelectorAll(`section[data-number="${number}"] [data-path]`)]
    .filter((each) => !each.closest("[hidden]"))
    .map((each) => [each.dataset.path, each.textContent]))
"""


def shown(db: Path, session: str, exchange: int = 1, count: int = POSITIONS) -> Shown:
    """Return what the command shows after some events, in a random order."""
    last = len(run(db, "events", session, "--exchange", exchange, "--jsonl").out.splitlines()) - 1
    chosen = [0, last, *random.sample(range(last + 1), min(last + 1, count - 2))]
    return [(pos, at(db, session, exchange, pos)) for pos in random.sample(chosen, len(chosen))]


def at(db: Path, session: str, exchange: int, pos: int) -> Document:
    """Return the document of an exchange after an event."""
    ran = run(db, "show", session, exchange, "--at-event", pos, "--json")
    assert ran.code == 0, ran.err
    (found,) = json.loads(ran.out)["exchanges"]
    return dict(found)


def texts(document: Document) -> dict[str, str]:
    """Return the texts of a document that are drawn, by the path that their elements have."""
    return {
        json.dumps(["items", number, *path], separators=(",", ":")): value
        for number, item in enumerate(document.get("items", ()))
        for path, value in strings(item)
        if value
    }


def strings(item: Document) -> Iterator[tuple[list[str | int], str]]:
    """Yield the texts of an item with their paths: strings, and lists of strings."""
    for key in TEXTS:
        value = item.get(key)
        if isinstance(value, str):
            yield [key], value
        elif isinstance(value, list):
            for place, part in enumerate(value):
                if isinstance(part, str):
                    yield [key, place], part


def lines(document: Document) -> list[str]:
    """Return a document as lines, so that a failure shows which of them differ."""
    return json.dumps(
        json.loads(json.dumps(document), parse_float=_number), indent=1, sort_keys=True
    ).splitlines()


def _number(text: str) -> float | int:
    """Return a number as a browser has it, for which 10.0 is 10."""
    return int(value) if (value := float(text)).is_integer() else value


async def compare(tab: Tab, session: str, exchange: int, expected: Shown) -> None:
    """Assert that the page has the same document at each position, and draws its texts."""
    await tab.open(f"#/s/{session}/x/{exchange}/e/{expected[0][0]}")
    player = tab.page.locator(PLAYER)
    for pos, document in expected:
        assert lines(await player.evaluate(SEEK, [exchange, pos])) == lines(document), (
            f"{session} at event {pos}"
        )
        drawn = await player.evaluate(DRAWN, exchange)
        assert {path: text for path, text in drawn.items() if text} == texts(document), (
            f"{session} at event {pos}"
        )


async def test_the_player_draws_what_the_command_shows(tab: Tab, gallery: Path) -> None:
    for session, exchange in (
        ("agent", 1),
        ("agent", 2),
        ("broken", 1),
        ("broken", 2),
        ("long", 1),
    ):
        await compare(tab, session, exchange, shown(gallery, session, exchange))


@needs_corpus
async def test_the_player_draws_a_stream_of_each_api(tab: Tab, gallery: Path) -> None:
    for name in OF_EACH_API:
        await compare(tab, Path(name).stem, 1, shown(gallery, Path(name).stem))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """A viewer on a database with all streams of the corpus."""
    path = tmp_path_factory.mktemp("corpus") / "corpus.db"
    hang(path, [entry["file"] for entry in corpus_index()])
    with viewing(path) as viewer:
        yield viewer


@pytest_asyncio.fixture(loop_scope="session")
async def corpus_tab(chromium: Browser, corpus: Viewer) -> AsyncIterator[Tab]:
    """A tab of that viewer."""
    async with opened(chromium, corpus.url) as one:
        yield one


@needs_corpus
@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
async def test_the_player_draws_all_streams_of_the_corpus(
    corpus_tab: Tab, corpus: Viewer, group: int
) -> None:
    for entry in corpus_index()[group::GROUPS]:
        name = Path(entry["file"]).stem
        await compare(corpus_tab, name, 1, shown(corpus.db, name))
