"""The tests of a user, and what the ini file of their project says to record from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.projects import Project, Upstream


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    return Project(pytester)


@pytest.fixture
def upstream(pytester: pytest.Pytester) -> Iterator[Upstream]:
    upstream = Upstream()
    pytester.makeini(f"[pytest]\nrecorder_upstream = openai={upstream.base}")
    yield upstream
    upstream.close()
