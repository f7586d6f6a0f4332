"""Installations of pinned packages in a cache: by npm and pip as they are configured here, a folder
for each set.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from recorder.errors import RecorderError
from tests.support.corpus import ROOT

CACHE = "RECORDER_CLIENTS"
"""The variable that names another folder for the cache than `.clients` of the checkout."""

NODE = "node@26.10.0"  # several clients want 22 or newer, and this one is from npm as they are
INSTALL_S = 900.0  # aider has a hundred dependencies


def cache() -> Path:
    return Path(os.environ.get(CACHE) or ROOT / ".clients")


def folder(packages: Sequence[str]) -> Path:
    """Where a set of packages is installed: readable, and another one for other pins."""
    digest = hashlib.sha256("\n".join(packages).encode()).hexdigest()[:8]
    first = re.sub(r"[^a-z0-9]+", "-", packages[0].lower()).strip("-") if packages else "nothing"
    return cache() / f"{first}-{digest}"


def is_python(packages: Sequence[str]) -> bool:
    """Whether pip installs them; npm's pins have an `@`.

    What needs no package is a Python program, too.
    """
    return all("==" in package for package in packages)


def path(packages: Sequence[str]) -> str:
    """The PATH of a client: its own programs first, then Node if it is of Node, then what the
    system has.
    """
    if is_python(packages):
        return os.pathsep.join([str(folder(packages) / "bin"), os.defpath])
    return os.pathsep.join([str(_programs(packages)), str(_programs((NODE,))), os.defpath])


def _programs(packages: Sequence[str]) -> Path:
    return folder(packages) / "node_modules" / ".bin"


def install(packages: Sequence[str]) -> None:
    """Install a set of packages, unless it is there; RecorderError if that fails."""
    place = folder(packages)
    if (place / "complete").exists():
        return
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    if is_python(packages):
        _run(sys.executable, "-m", "venv", str(place))
        if packages:
            pip = (
                str(place / "bin" / "python"),
                "-m",
                "pip",
                "--quiet",
                "--disable-pip-version-check",
            )
            _run(*pip, "install", *packages)
    else:
        node = str(_programs((NODE,))) if tuple(packages) != (NODE,) else ""
        path = os.pathsep.join([node, os.environ.get("PATH", os.defpath)])
        words = ("install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(place))
        _run("npm", *words, *packages, path=path)
    (place / "complete").touch()


def _run(*words: str, path: str | None = None) -> None:
    env = {**os.environ, **({"PATH": path} if path else {})}
    try:
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=INSTALL_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RecorderError(f"{words[0]} did not install {words[-1]}: {error}") from error
    if done.returncode:
        raise RecorderError(f"{words[0]} did not install {words[-1]}: {done.stderr.strip()[-500:]}")
