"""What several test modules need and takes seconds to make."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.serving import run


class Demo(NamedTuple):
    """A run of `recorder demo --db PATH`: what it left, and what it said."""

    path: Path
    said: str


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The demo, once for all tests. Its database is not to be written: `demo_db` is a copy."""
    path = tmp_path_factory.mktemp("demo") / "a demo.db"
    ran = run(path, "demo", "--db", path)
    assert ran.code == 0
    return Demo(path, ran.err)


@pytest.fixture(scope="session")
def demo_recording(demo: Demo) -> Path:
    """The database that the demo left."""
    return demo.path


@pytest.fixture
def demo_db(demo_recording: Path, tmp_path: Path) -> Path:
    """A database with the recording of the demo, for one test."""
    return Path(shutil.copy(demo_recording, tmp_path / "demo.db"))
