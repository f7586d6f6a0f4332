"""The stores that most of these tests write to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL

from recorder.store.write.writer import Store
from tests.support.empty_log import empty


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store in a file: `test_contract.py` has on each engine what all of this comes to."""
    with Store(empty(tmp_path / "log.db")) as opened:
        yield opened


@pytest.fixture
def either(database: URL) -> Iterator[Store]:
    """A store of each engine, where the claim is about its transactions, its rows or its index of
    words.
    """
    with Store(database) as opened:
        yield opened
