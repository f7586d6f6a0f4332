"""A collector at work: its thread, its database that may come and go, and what it says of itself."""

from __future__ import annotations

import contextlib
import logging
import threading
import time

from sqlalchemy import URL

from recorder.commands.serving.admin import Look
from recorder.commands.serving.health_snapshot import LAG_S, METRICS, Metric, exposition
from recorder.errors import StoreError
from recorder.model.text import counted
from recorder.shipping.bucket import Bucket
from recorder.shipping.collector import Collector, clean
from recorder.shipping.status import Status, collected_root, drop_status, write_status
from recorder.store.engine import ANSWER_TIMEOUT_S
from recorder.store.location import journal_root
from recorder.store.write.retry import COMPLAIN_S, RETRY_S, Stopped
from recorder.store.write.writer import Store
from recorder.wire.redaction.bodies import Redactor

log = logging.getLogger(__name__)

# between the beginnings of two looks at the bucket, each of which is a request. When nothing comes
# it grows, so that a segment waits for less than the 5 s which `/healthz` and `doctor` allow
LOOK_S, IDLE_LOOK_S = 1.0, 3.0
GROWTH = 1.25
STATUS_S = 1.0  # between two notes for `recorder doctor`

BUILD, *_ = METRICS
COLLECTOR_METRICS = (
    BUILD,
    Metric(
        "recorder_collect_edges",
        "gauge",
        "Recorders whose segments this collector takes.",
        "recorders",
    ),
    Metric(
        "recorder_collect_lag_seconds",
        "gauge",
        "Age of the oldest segment in the bucket that is not in the log, of these or of recorders that nobody takes.",
        "lag_s",
    ),
    Metric("recorder_collect_waiting_segments", "gauge", "How many segments that are.", "waiting"),
    Metric(
        "recorder_collect_segments_total",
        "counter",
        "Segments that were taken into the log.",
        "segments",
    ),
    Metric("recorder_collect_bytes_total", "counter", "Bytes of these segments.", "size_bytes"),
    Metric(
        "recorder_collect_problems",
        "gauge",
        "Recorders whose segments cannot be taken, and 1 more while the bucket cannot be used: /healthz says why.",
        lambda status: [({}, len(status.problems))],
    ),
)


class Collecting:
    """A collector for one database. `run` is for a thread, `stop` for any other."""

    def __init__(self, bucket: Bucket, keep: Bucket | None, url: URL, redactor: Redactor) -> None:
        self._bucket, self._keep, self.url, self._redactor = bucket, keep, url, redactor
        self._root = collected_root(journal_root(url))
        self._stop = threading.Event()
        self._noted_s = float("-inf")
        self.status = Status(bucket.url)

    def stop(self) -> None:
        """End after the commit that runs now, or when the database refuses the next time."""
        self._stop.set()

    def run(self) -> None:
        """Collect until `stop`. A database that is away, or was replaced, is opened again."""
        clean(self._root)
        complained_s = float("-inf")
        while not self._stop.is_set():
            try:
                with Store(
                    self.url, answer_timeout_s=ANSWER_TIMEOUT_S, host=self._bucket.url
                ) as store:
                    self._collect(store)
            except Stopped:
                break
            except StoreError as error:
                now_s = time.monotonic()
                if now_s - complained_s > COMPLAIN_S:
                    complained_s = now_s
                    log.warning("the database refuses, segments stay where they are: %s", error)
                self._stop.wait(RETRY_S)
        drop_status(self._root)

    def _collect(self, store: Store) -> None:
        store.require_rights()
        collector = Collector(
            *(self._bucket, store, self._root, self._stop.wait, self._redactor),
            keep=self._keep,
            status=self.status,
        )
        with contextlib.closing(collector):
            every_s = LOOK_S
            while not self._stop.is_set():
                began_s = time.monotonic()
                has_taken = collector.step()
                self._note()
                if has_taken and self.status.waiting:
                    continue
                store.tidy()
                every_s = LOOK_S if has_taken else min(every_s * GROWTH, IDLE_LOOK_S)
                self._stop.wait(every_s - (time.monotonic() - began_s))

    def _note(self) -> None:
        now_s = time.monotonic()
        if now_s - self._noted_s > STATUS_S:
            self._noted_s = now_s
            with contextlib.suppress(OSError):
                write_status(self._root, self.status)

    async def look(self) -> Look:
        """Return what the admin port shows."""
        return Look(exposition(self.status, COLLECTOR_METRICS), reasons(self.status))


def reasons(status: Status) -> list[str]:
    """Return the problems of a collector, one sentence each."""
    found = [f"{name}: {said}" for name, said in dict(status.problems).items()]
    if status.lag_s > LAG_S:
        waits = counted(status.waiting, "segment")
        found.append(f"{waits} in {status.url} waited for the log for up to {status.lag_s:.0f} s.")
    return found
