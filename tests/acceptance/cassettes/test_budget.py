"""What a file of another program expands to is counted before it is in memory."""

from __future__ import annotations

from pathlib import Path

from tests.support.server import peak
from tests.unit.cassettes.test_budget import bundle


def test_a_bundle_that_expands_takes_little_memory(tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_bytes(bundle(500, 1))
    ran, kib = peak("import", tmp_path / "bundle.json", "--db", tmp_path / "log.db")
    assert ran.returncode == 1
    assert "its bodies are over 256 MiB together: split it" in ran.stderr
    assert kib < 2**19
