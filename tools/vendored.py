"""Fetches the libraries of the viewer's pages, by their manifest: `python -m tools.vendored`. Needs
npm.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.corpus import ROOT

FOLDER = ROOT / "recorder" / "ui" / "vendor"
MANIFEST = FOLDER / "vendor.toml"


class VendoredFile(NamedTuple):
    """A file of the folder, its place in the package, and the digest of both."""

    file: str
    source: str
    sha256: str


def packages() -> list[dict[str, Any]]:
    """Return the packages of the manifest."""
    found: list[dict[str, Any]] = tomllib.loads(MANIFEST.read_text())["package"]
    return found


def files_of(package: Mapping[str, Any]) -> list[VendoredFile]:
    return [VendoredFile(**each) for each in package["files"]]


def differences() -> Iterator[str]:
    """Yield a sentence for each file of the folder that is not as the manifest says."""
    named = {each.file: each.sha256 for package in packages() for each in files_of(package)}
    found = {
        path.name: _digest("sha256", path.read_bytes())
        for path in FOLDER.iterdir()
        if path != MANIFEST
    }
    for name in sorted(named.keys() | found.keys()):
        if named.get(name) != found.get(name):
            yield f"{name}: the manifest has {named.get(name)}, the folder {found.get(name)}"


def fetch(package: Mapping[str, Any]) -> None:
    """Write the files of a package.

    If a digest is not that of the manifest, write nothing and exit.
    """
    name = f"{package['name']}@{package['version']}"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["npm", "pack", "--silent", "--pack-destination", folder, name], check=True, cwd=folder
        )
        [tarball] = Path(folder).glob("*.tgz")
        _require(name, package["sha512"], _digest("sha512", tarball.read_bytes()))
        with tarfile.open(tarball) as opened:
            contents = {each.file: _read(opened, each) for each in files_of(package)}
    for file, content in contents.items():
        (FOLDER / file).write_bytes(content)


def _read(tarball: tarfile.TarFile, wanted: VendoredFile) -> bytes:
    member = tarball.extractfile(f"package/{wanted.source}")
    content = member.read() if member else b""
    _require(wanted.source, wanted.sha256, _digest("sha256", content))
    return content


def _require(name: str, expected: str, found: str) -> None:
    if found != expected:
        sys.exit(
            f"{name} has the digest {found}, but vendor.toml {expected}: compare it with the registry's."
        )


def _digest(algorithm: str, content: bytes) -> str:
    return hashlib.new(algorithm, content).hexdigest()


if __name__ == "__main__":
    for each in packages():
        fetch(each)
        sys.stdout.write(f"{each['name']} {each['version']}: {len(files_of(each))} files\n")
