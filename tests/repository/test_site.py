"""`make docs` makes a site of README and docs/ without a warning, and all in it leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.support.console import INDEX, PAGES, name_of
from tests.support.corpus import ROOT

# Of MyST, as no other reader of Markdown knows it: directives, roles, targets, blocks of its own.
ONLY_MYST = re.compile(r"^[`~:]{3,}\{|(?:^|\s)\{[a-z:-]+\}`|^\([\w-]+\)=$|^:::", re.MULTILINE)
LINK = re.compile(
    r'<(?:a|iframe|img|link|script|source)\b[^>]*?\b(?:href|src|srcset)="([^"]+)"', re.DOTALL
)
PLAYED = "demo.html"  # a recorded session: its fragments are places in it
LOADED = re.compile(
    r'<(?:img|link|script|source)\b[^>]*?\b(?:href|src|srcset)="(https?:|//)', re.DOTALL
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, made as the Makefile makes it, but in another folder."""
    pytest.importorskip("sphinx", reason="no sphinx: pip install '.[docs]'")
    shown = subprocess.run(
        ["make", "-n", "docs"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    folder = tmp_path_factory.mktemp("site")
    for module in ("tools.reference", "sphinx"):
        command = next(line for line in shown.splitlines() if f" -m {module}" in line)
        arguments = command.replace("build/", f"{folder}/").split()[1:]
        made = subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True
        )
        assert (made.returncode, made.stderr) == (0, "")
    return folder / "docs"


@cache
def anchors(page: Path) -> set[str]:
    return set(re.findall(r'\bid="([^"]+)"', page.read_text()))


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    lost = []
    for page in site.rglob("*.html"):
        if page.name == PLAYED:
            continue
        for link in LINK.findall(page.read_text()):
            to = urlsplit(link)
            target = page.parent / unquote(to.path) if to.path else page
            has_anchors = (
                target.suffix == ".html" and target.name != PLAYED and page.name != "search.html"
            )
            missing = not target.exists() or (to.fragment and has_anchors)
            if (
                not to.scheme
                and missing
                and to.fragment not in (anchors(target) if target.exists() else ())
            ):
                lost.append((page.relative_to(site).as_posix(), link))
    assert not lost


def test_a_page_has_a_session_that_plays(site: Path) -> None:
    [frame] = re.findall(r'<iframe src="([^"]+)"', (site / "docs" / "viewer.html").read_text())
    file = (site / "docs" / frame.partition("#")[0]).read_text()
    assert "play=1" in frame
    assert 'id="data"' in file
    assert "gpt-demo" in file


def test_the_site_loads_nothing_from_the_network(site: Path) -> None:
    assert not [page for page in site.rglob("*.html") if LOADED.search(page.read_text())]


def test_the_first_page_leads_to_every_page(site: Path) -> None:
    first = site / "docs" / "index.html"
    links = {
        (first.parent / urlsplit(link).path).resolve() for link in LINK.findall(first.read_text())
    }
    assert not [
        name_of(page)
        for page in PAGES
        if (site / name_of(page)).with_suffix(".html").resolve() not in links
    ]


def test_pages_are_plain_markdown() -> None:
    assert INDEX not in PAGES
    assert [name_of(page) for page in PAGES if ONLY_MYST.search(page.read_text())] == []
