"""The moving pictures of README are there, small, and of a session that their command can make
again.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.browser import THEMES
from tests.support.corpus import ROOT
from tests.support.server import run
from tools.viewer_pictures import EVENTS, LIMIT_BYTES, ROUTE, SESSION, draw_session, picture


@pytest.mark.parametrize("theme", THEMES)
def test_readme_shows_a_small_moving_picture_of_each_theme(theme: str) -> None:
    path = picture(theme)
    assert path.read_bytes()[8:12] == b"WEBP"
    assert path.read_bytes().count(b"ANMF") == len(EVENTS), "its frames"
    assert path.stat().st_size < LIMIT_BYTES
    assert str(path.relative_to(ROOT)) in (ROOT / "README.md").read_text()


def test_the_session_of_the_pictures_is_in_the_middle_of_a_text_there(tmp_path: Path) -> None:
    path = tmp_path / "recorder.db"
    draw_session(path)
    session, _, exchange, _, _ = ROUTE.split("/")[2:]
    assert session == SESSION
    middle = str(EVENTS[-6])
    shown = json.loads(run(path, "show", session, exchange, "--at-event", middle, "--json").out)
    item = shown["exchanges"][0]["items"][-1]
    assert item["text"].startswith("A stream is a letter")
    assert item["status"] == "in_progress"
