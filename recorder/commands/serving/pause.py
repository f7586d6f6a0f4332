"""The wait of a process beside a recorder: on its standard input, a pipe that closes when the
recorder ends.
"""

from __future__ import annotations

import os
import select
import signal
import sys

from recorder.commands.ops import niceness

TERMINATE_S = 7  # from SIGTERM to the end: whoever stops processes kills after ten
DYING_S = 2.0  # for the kernel to end a process of any size


class Pause:
    """A wait on the pipe, which ends at once when the recorder ends."""

    def __init__(self) -> None:
        self._stop_requested = self._recorder_ended = False
        signal.signal(signal.SIGTERM, self._terminate)
        # Ctrl-C goes to the recorder, which ends in its own order
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _terminate(self, *_: object) -> None:
        """End in order, or by SIGALRM if a database takes too long: the journal has all that is not
        committed.
        """
        if not self._stop_requested:
            self._stop_requested = True
            signal.alarm(TERMINATE_S)

    def __call__(self, seconds: float) -> bool:
        if not self._recorder_ended:
            readable, _, _ = select.select([sys.stdin], [], [], seconds)
            self._recorder_ended = bool(readable) and not os.read(sys.stdin.fileno(), 1)
            if self._recorder_ended:
                # no proxy comes first any more, and who stopped it waits for what is left
                niceness.set_group(0)
        return self._stop_requested or self._recorder_ended
