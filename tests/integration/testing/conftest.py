"""The tests of a user, who has the pytest plugin."""

from __future__ import annotations

import pytest

from tests.support.projects import Project


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    return Project(pytester)
