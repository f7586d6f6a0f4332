"""Ends a server and removes its folder when the process that owns them is gone.

`python watchdog.py PID FOLDER COMMAND…`: a killed test runs none of its own code any more, so this
is a process of its own, which imports the standard library alone.

It asks for its parent, since the kernel gives an orphan another one at once, on Linux and on macOS.
A pipe from the owner does not end as long as a child that the owner forked holds it, too;
PR_SET_PDEATHSIG is of Linux alone, belongs to the thread that started the process, and is cleared
by a change of user.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

PAUSE_S = 0.5
TRIES = 120  # a minute: a server that was just starting leaves by itself once its folder is gone


def watch(owner: int, folder: Path, stop: list[str]) -> None:
    """Wait for the end of `owner`, then stop its server and remove the folder, which the server may
    still write to.
    """
    while os.getppid() == owner:
        time.sleep(PAUSE_S)
    for _ in range(TRIES):
        if not folder.exists():
            return
        subprocess.run(stop, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    watch(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
