"""The tests of a user, who has the pytest plugin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.projects import Project, Upstream


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    return Project(pytester)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    upstream = Upstream()
    yield upstream
    upstream.close()


@pytest.fixture
def held(project: Project) -> Project:
    """A project whose cassette answers "hi"."""
    return project.holds("hi")
