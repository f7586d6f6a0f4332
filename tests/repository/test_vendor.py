"""The libraries of the viewer's pages are exactly those of the manifest."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools import vendored


def test_each_file_is_as_the_manifest_says() -> None:
    assert list(vendored.differences()) == []


def test_a_changed_and_an_unknown_file_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "vendor"
    shutil.copytree(vendored.FOLDER, folder)
    with (folder / "uPlot.esm.js").open("ab") as file:
        file.write(b"\n")
    (folder / "new.js").write_text("")
    monkeypatch.setattr(vendored, "FOLDER", folder)
    monkeypatch.setattr(vendored, "MANIFEST", folder / "vendor.toml")
    assert [each.partition(":")[0] for each in vendored.differences()] == ["new.js", "uPlot.esm.js"]


def test_each_package_names_its_licence_and_has_its_text() -> None:
    for package in vendored.packages():
        assert package["licence"] in {"MIT"}
        assert "LICENSE" in {each.file for each in vendored.files_of(package)}
        assert len(package["sha512"]) == 128
