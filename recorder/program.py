"""Parts of the program that are loaded when they are needed, and modules that are started in
another interpreter.

Rules of this file, for processes:

* No module comes from the working directory, which may be a repository of somebody else: `-P`, and
  never `-m`.
* The process runs the same program as its parent, also one that is not installed, or is installed
  elsewhere too.
* The folder of the program is the last on the path: what stands beside it hides no module of
  Python.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

_FOLDER = str(Path(__file__).parents[1])
_START = (
    f"import sys; sys.path.insert(0, {_FOLDER!r}); import recorder; sys.path.append(sys.path.pop(0)); "
    "from {module} import main; main(*sys.argv[1:])"
)


def command_of(module: str, *arguments: str) -> list[str]:
    """Return the command line of a process that calls `main` of a module with these arguments."""
    return [sys.executable, "-P", "-c", _START.replace("{module}", module), *arguments]


def load(place: str) -> Any:
    """Return what `MODULE:NAME` names, or a `MODULE`: a part that few uses need, and that would
    slow the others' start.

    Nothing else imports modules of the program late. Each place is written as one text, in which a
    test finds it.
    """
    module, _, name = place.partition(":")
    loaded = import_module(module)
    return getattr(loaded, name) if name else loaded
