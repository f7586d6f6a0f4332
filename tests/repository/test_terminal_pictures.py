"""The pictures of a terminal show what the commands print today, and need no network."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.console import PAGES
from tools.terminal_pictures import FOLDER, LIMIT_BYTES, PICTURES, drawn, path_of, record, texts_of


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    record(folder)
    return folder


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_what_is_printed_today(name: str, recording: Path) -> None:
    shown, printed = texts_of(path_of(name).read_text()), texts_of(drawn(name, recording))
    assert shown == printed, "`make pictures` draws it again"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_small_and_loads_nothing(name: str) -> None:
    svg = path_of(name).read_text()
    assert len(svg.encode()) < LIMIT_BYTES
    assert "url(http" not in svg
    assert "@import" not in svg


def test_every_picture_is_on_a_page() -> None:
    pages = "\n".join(page.read_text() for page in PAGES)
    assert {path.name for path in FOLDER.iterdir()} == {path_of(name).name for name in PICTURES}
    assert [name for name in PICTURES if f"pictures/{name}.svg" not in pages] == []
