"""The shipper as a separate process, which `recorder.program` starts: `main(DIRECTORY, URL)`.

It ships what dead recorders left, and the journal in DIRECTORY. When the recorder has ended it
ships the rest of that; what it cannot in time, because the bucket is away, the next start ships.
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from recorder.commands.ops.journals import journals, state
from recorder.commands.serving.pause import DYING_S, TERMINATE_S, Pause
from recorder.commands.terminal.output import log_to_stderr
from recorder.errors import BucketError, RecorderError
from recorder.journal.locks import claimed
from recorder.shipping.bucket import Bucket, edges_root, parse_prefix
from recorder.shipping.shipper import Shipper, ship_left_behind, ship_rest

log = logging.getLogger(__name__)

POLL_S = 0.25  # between two looks at the folder of the journal
RETRY_S, COMPLAIN_S = 0.5, 10.0  # while the bucket is away: between two attempts, and two warnings


def main(journal: str, url: str) -> None:
    """Follow the journal in a directory to its end."""
    log_to_stderr()
    pause, directory = Pause(), Path(journal)
    try:
        bucket = Bucket(parse_prefix(url), "serve --ship")
    except RecorderError as error:
        log.error("%s", error)
        sys.exit(1)
    _name_other_places(directory.parent)
    shipping = _Shipping(bucket, directory, pause)
    shipping.follow()
    shipping.finish()


def _name_other_places(root: Path) -> None:
    """Warn of what was left for another place: nothing that ships to this one brings it there."""
    for other in journals(edges_root()):
        if other != root and any(state(directory) == "left" for directory in journals(other)):
            log.warning(
                "%s waits for another place: `recorder serve --ship` with the URL that it had ships it",
                other,
            )


class _Shipping:
    """The shipping of one recorder."""

    def __init__(self, bucket: Bucket, directory: Path, pause: Pause) -> None:
        self._bucket, self._directory, self._pause = bucket, directory, pause
        self._complained_s = float("-inf")

    def follow(self) -> None:
        """Ship while the recorder lives, if nobody else does."""
        with claimed(self._directory) as mine:
            shipper = Shipper(self._bucket, self._directory)
            has_left = True  # of dead recorders, maybe
            while not self._pause(POLL_S):
                try:
                    while mine and shipper.step():
                        pass
                    if has_left:
                        ship_left_behind(self._bucket, self._directory.parent, shipper.step)
                        has_left = False
                except BucketError as error:
                    self._complain(error)
                    self._pause(RETRY_S)

    def finish(self) -> None:
        """Ship the rest.

        A recorder that was killed lets go of its pipe and of its journal in any order.
        """
        began_s = time.monotonic()
        limit_s = DYING_S
        while self._directory.exists() and time.monotonic() - began_s < limit_s:
            try:
                if ship_rest(self._bucket, self._directory):
                    # a recorder that ended at once
                    ship_left_behind(self._bucket, self._directory.parent)
                    return
            except BucketError as error:
                limit_s = TERMINATE_S
                self._complain(error)
            time.sleep(POLL_S)

    def _complain(self, error: BucketError) -> None:
        now_s = time.monotonic()
        if now_s - self._complained_s > COMPLAIN_S:
            self._complained_s = now_s
            log.warning("the journal keeps what passes: %s", error)
