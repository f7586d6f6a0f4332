"""An archive of what the demo recorded, for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import URL

from tests.support.archives import archive


@pytest.fixture(scope="session")
def demo_archive(demo_recording: Path, tmp_path_factory: pytest.TempPathFactory) -> URL:
    """The archive, which no test changes."""
    folder = tmp_path_factory.mktemp("archive")
    return archive(demo_recording, f"ducklake:{folder / 'catalog'}", folder / "data")
