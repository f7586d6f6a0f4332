"""The wheel of this checkout, and environments that have it.

built(folder)                  the wheel, or the one that RECORDER_TEST_WHEEL names, of a release
with_libraries(variables)      the libraries of this environment for another one, without what is
editable here
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import TRUSTED
from tests.support.corpus import ROOT

VARIABLE = "RECORDER_TEST_WHEEL"

# Without hatchling at hand, build makes an environment for it, which needs a network.
ISOLATION = ["--no-isolation"] if importlib.util.find_spec("hatchling") else []


def built(folder: Path, source: Path = ROOT) -> Path:
    """Build the wheel of a checkout into a folder."""
    if source == ROOT and (given := os.environ.get(VARIABLE)):
        return Path(given)
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        *ISOLATION,
        "--outdir",
        str(folder),
        str(source),
    ]
    # it may need a registry
    env = {name: value for name, value in os.environ.items() if name != TRUSTED}
    with open(source / "pyproject.toml", "rb") as project:
        # two builds of a checkout make the same manual pages in its folder
        fcntl.flock(project, fcntl.LOCK_EX)
        done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    [found] = folder.glob("*.whl")
    return found


def with_libraries(variables: Mapping[str, str]) -> dict[str, str]:
    """Add the libraries of this environment to the variables, `recorder` excepted; pip asks no
    registry.
    """
    # a .pth file in them is not read
    libraries = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return {**variables, **offline, "PYTHONPATH": os.pathsep.join(sorted(libraries))}
