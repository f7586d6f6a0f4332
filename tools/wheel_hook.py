"""What the build adds to a wheel: the man pages, made of what `--help` says, and a bill of
materials.

hatchling runs it, as pyproject.toml says, with what the program needs to be imported. An editable
install has neither. The bill of materials is the file that a release has made before, see
`.github/workflows/release.yml`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MAN_PAGES = "build/man"
BILL = "build/sse-recorder.cdx.json"


class WheelHook(BuildHookInterface[Any]):
    """Adds to a wheel what is not in git."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files, unless the install is editable."""
        if version != "editable":
            add(Path(self.root), build_data)


def add(root: Path, build_data: dict[str, Any]) -> None:
    """Write the man pages of a checkout, and name for its wheel what git does not have."""
    subprocess.run([sys.executable, "-m", "tools.man_pages", MAN_PAGES], cwd=root, check=True)
    build_data["shared_data"][MAN_PAGES] = "share/man/man1"
    if (root / BILL).exists():
        build_data["sbom_files"].append(BILL)
