"""Processes of the program: how a module of it is started in another interpreter.

Rules of this file:

* No module comes from the working directory, which may be a repository of somebody else: `-P`, and never `-m`.
* The process runs the same program as its parent, also one that is not installed, or is installed elsewhere too.
* The folder of the program is the last on the path: what stands beside it hides no module of Python.
"""

from __future__ import annotations

import sys
from pathlib import Path

_FOLDER = str(Path(__file__).parents[1])
_START = (
    f"import sys; sys.path.insert(0, {_FOLDER!r}); import recorder; sys.path.append(sys.path.pop(0)); "
    "from {module} import main; main(*sys.argv[1:])"
)


def command_of(module: str, *arguments: str) -> list[str]:
    """Return the command line of a process that calls `main` of a module with these arguments."""
    return [sys.executable, "-P", "-c", _START.replace("{module}", module), *arguments]
