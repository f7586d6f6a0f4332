"""A command in a process of its own, and the most memory that it took."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

# What `getrusage` says of a process contains the one that it was forked from; `VmHWM` is of the program alone.
_PROGRAM = """
import sys
from recorder.commands import main
try:
    main()
finally:
    print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1], file=sys.stderr)
"""


def peak(*arguments: object, env: Mapping[str, str] | None = None) -> tuple[subprocess.CompletedProcess[str], int]:
    """Run `recorder`; return how it ended, and KiB. Raises `TimeoutExpired`."""
    command = [sys.executable, "-c", _PROGRAM, *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=600)
    return ran, int(ran.stderr.split()[-1])
