"""The program: `recorder`, `python -m recorder` and `cli.py` run this.

Ctrl-C ends it with 130 and without a word, also while it is still being loaded: nothing is begun
yet that would have to be ended. So nothing is imported here that takes time, and
`recorder.commands` takes over when the verb is loaded, with the garbage collector on again.
"""

from __future__ import annotations

import gc
import os
import signal

from recorder.program import load

INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit."""
    # not what a shell told it to ignore
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    gc.disable()  # what is imported stays: to look for garbage in it takes a tenth of the start
    load("recorder.commands:main")()


if __name__ == "__main__":
    main()
