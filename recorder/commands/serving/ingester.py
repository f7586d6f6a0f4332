"""The ingester as a separate process, which `recorder.program` starts: `main(DIRECTORY)`.

Its database is the one that its environment names (`recorder.store.location.VARIABLE`). It ingests
what dead recorders left, then follows the journal in DIRECTORY. Its standard input is the
recorder's end of a pipe: when that closes, the recorder has ended, and what is left in the journal
is all there will be.
"""

from __future__ import annotations

import gc
import logging
import os
import select
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from recorder.commands.ops import niceness
from recorder.commands.serving.pause import DYING_S, Pause
from recorder.commands.terminal.output import log_to_stderr
from recorder.commands.terminal.rules import declare_dialects, redactor
from recorder.errors import RecorderError, StoreError
from recorder.ingest.ingester import Ingester, recover, recover_one
from recorder.journal.locks import claimed
from recorder.journal.reader import waiting
from recorder.store.engine import ANSWER_TIMEOUT_S
from recorder.store.location import VARIABLE, database_url
from recorder.store.write.retry import COMPLAIN_S, RETRY_S, Stopped
from recorder.store.write.writer import Store
from recorder.wire.redaction.bodies import Redactor

log = logging.getLogger(__name__)

# between two looks at whether the recorder has ended, and at how far the log is behind
LOOK_S, WEIGH_S = 0.5, 2.0
# objects between two collections: rows come and go by the thousand, and none is part of a cycle
GARBAGE = 50_000


def collect_seldom() -> None:
    """Set the garbage collector for rows, after all is imported that is needed."""
    gc.freeze()
    gc.set_threshold(GARBAGE)


def main(journal: str) -> None:
    """Follow the journal in a directory to its end."""
    url, directory = os.environ[VARIABLE], Path(journal)
    log_to_stderr()
    collect_seldom()
    pause = Pause()
    try:
        declare_dialects()
        secrets = redactor()
        if (store := _open(url, pause)) is not None:
            # what is imported for it, and its migrations, are not to wait for an idle processor
            store.close()
        is_over = pause(0)
        if not is_over:
            with ThreadPoolExecutor(1, initializer=niceness.be_nice) as behind:
                following = behind.submit(_follow, url, directory, pause, secrets)
                _attend(following, directory)
        if (store := _open(url, pause)) is not None:
            with store:
                _finish(store, directory, pause, secrets)
                if is_over:  # before anything else was looked at
                    recover(store, directory.parent, pause, secrets)
    except Stopped:
        log.warning(
            "stopped while the database refused; %s is ingested at the next start", directory
        )
    except RecorderError as error:
        log.error("%s", error)
        # the recorder starts another, with the database, and the settings, that are there then
        sys.exit(1)


def _attend(following: Future[None], directory: Path) -> None:
    """Adjust the priority of an ingester from another thread, since one of its steps may take a
    minute on a busy processor: raise it while the ingester is far behind, and when the recorder has
    ended.

    What a command that waits has lent is taken back: a process that is killed in that moment cannot
    do so.
    """
    weighed_s = time.monotonic()
    while not wait((following,), LOOK_S).done:
        if select.select([sys.stdin], [], [], 0)[0]:
            niceness.set_group(0)
            break
        if time.monotonic() - weighed_s > WEIGH_S:
            weighed_s = time.monotonic()
            is_far = (waiting(directory).since_s or 0.0) > niceness.FAR_S
            niceness.set_group(niceness.FAR_NICENESS if is_far else niceness.NICENESS)
    following.result()


def _follow(url: str, directory: Path, pause: Pause, secrets: Redactor) -> None:
    """Ingest what dead recorders left; then follow the journal while its recorder lives, when
    nobody else does.
    """
    store = _open(url, pause)
    if store is None:
        return
    with store:
        recover(store, directory.parent, pause, secrets, but=directory)
        while directory.exists():
            with claimed(directory) as mine:
                if mine:
                    Ingester(store, directory, pause, secrets).run()
                    return
            if pause(RETRY_S):
                return


def _finish(store: Store, directory: Path, pause: Pause, secrets: Redactor) -> None:
    """Ingest what is left.

    A recorder that was killed lets go of its pipe and of its journal in any order.
    """
    until_s = time.monotonic() + DYING_S
    while (
        not recover_one(store, directory, pause, secrets)
        and directory.exists()
        and time.monotonic() < until_s
    ):
        time.sleep(RETRY_S)


def _open(url: str, pause: Pause) -> Store | None:
    """Return the store as soon as it can be opened; None if the recorder ends before."""
    complained_s = float("-inf")
    while True:
        try:
            return Store(database_url(url), answer_timeout_s=ANSWER_TIMEOUT_S)
        except StoreError as error:
            if time.monotonic() - complained_s > COMPLAIN_S:
                log.warning(
                    "the database cannot be opened, the journal keeps what passes: %s", error
                )
                complained_s = time.monotonic()
            if pause(RETRY_S):
                return None
