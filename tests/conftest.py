"""What several test modules need and takes seconds to make."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.serving import run


@pytest.fixture(scope="session")
def demo_recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database that `recorder demo` leaves. Not to be written: `demo_db` is a copy."""
    path = tmp_path_factory.mktemp("demo") / "recorder.db"
    assert run(path, "demo").code == 0
    return path


@pytest.fixture
def demo_db(demo_recording: Path, tmp_path: Path) -> Path:
    """A database with the recording of the demo, for one test."""
    return Path(shutil.copy(demo_recording, tmp_path / "demo.db"))
