"""What the tests of the viewer look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.empty_log import empty
from tests.support.viewer_api import fill


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A log with one session, called demo."""
    fill(empty(tmp_path / "log.db"))
    return tmp_path / "log.db"
