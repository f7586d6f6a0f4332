"""The names that are written, against the page that documents them."""

from __future__ import annotations

import re

from recorder.exports.otlp.spans import INSTRUMENTS
from recorder.exports.otlp.telemetry import CONVENTIONS, NEWEST
from tests.support.corpus import ROOT

PAGE = (ROOT / "docs" / "opentelemetry.md").read_text()
SOURCES = [ROOT / "recorder" / "exports" / "otlp" / f"{name}.py" for name in ("spans", "source")]
NAME = r"(?:gen_ai|recorder|error|http|url|server)\.[a-z0-9_]+(?:\.[a-z0-9_]+)*"
NOT_WRITTEN = {"gen_ai.client.operation.time_per_output_chunk"}  # the page says so


def written() -> set[str]:
    """The names in the source, in quotes."""
    return {name for path in SOURCES for name in re.findall(f'"({NAME})"', path.read_text())}


def test_each_name_that_is_written_is_documented_and_no_other_is() -> None:
    assert len(written()) > 60
    assert set(re.findall(f"`({NAME})`", PAGE)) - NOT_WRITTEN == written()


def test_what_a_convention_lacks_is_written_under_the_newest() -> None:
    assert not CONVENTIONS[NEWEST].absent
    for convention in CONVENTIONS.values():
        assert convention.absent <= written()
        assert f"| `{convention.version}` |" in PAGE
        assert convention.schema_url == f"https://opentelemetry.io/schemas/{convention.version}"


def test_metrics_have_the_units_and_bounds_of_the_convention() -> None:
    """Source: docs/gen-ai/gen-ai-metrics.md of the convention."""
    tokens, duration, first_chunk = (list(each.bounds) for each in INSTRUMENTS)
    assert tokens == [
        1,
        4,
        16,
        64,
        256,
        1024,
        4096,
        16384,
        65536,
        262144,
        1048576,
        4194304,
        16777216,
        67108864,
    ]
    seconds = [
        0.01,
        0.02,
        0.04,
        0.08,
        0.16,
        0.32,
        0.64,
        1.28,
        2.56,
        5.12,
        10.24,
        20.48,
        40.96,
        81.92,
    ]
    assert duration == first_chunk == seconds
    assert [each.unit for each in INSTRUMENTS] == ["{token}", "s", "s"]
    assert not any(each.name.startswith("gen_ai.server") for each in INSTRUMENTS)
