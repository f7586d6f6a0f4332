"""`recorder export --to`, killed: nothing is lost, and only what was not answered for is sent
twice.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from recorder.store.location import database_url
from tests.support.empty_log import empty
from tests.support.otlp import BATCH, Answer, Log, Receiver, Reset, once, receiving
from tests.support.server import address, environment, wait_until

SMALL_BATCHES = f"""
from recorder.commands import main
from recorder.exports.otlp import push
push.BATCH_SPANS = {BATCH}
main()
"""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


STEPS: list[tuple[str, Callable[[Callable[[], object]], list[Answer | Reset]], bool]] = [
    ("before the first request is taken", lambda kill: [Reset(before=kill)], False),
    (
        "while it takes the second batch",
        lambda kill: [Answer(), Answer(), Reset(before=kill)],
        False,
    ),
    ("between spans and metrics", lambda kill: [Answer(), Reset(before=kill)], False),
    ("between the answer and the commit", lambda kill: [Answer(before=kill)], True),
    (
        "between the last answer and the commit",
        lambda kill: [*[Answer()] * 6, Answer(before=kill)],
        True,
    ),
]


@pytest.mark.parametrize(
    ("step", "plan", "is_window"), STEPS, ids=[step.replace(" ", "_") for step, _, _ in STEPS]
)
def test_a_kill_loses_nothing_and_sends_nothing_twice_but_what_was_not_answered(
    receiver: Receiver, tmp_path: Path, step: str, plan: Any, is_window: bool
) -> None:
    log = Log(database_url(empty(tmp_path / "log.db")))
    log.talk("talk-1", turns=4)
    log.talk("talk-2", turns=2)
    pushing: list[subprocess.Popen[bytes]] = []
    arrived: list[bool] = []

    def kill() -> None:
        wait_until(lambda: pushing)
        pushing[0].kill()
        pushing[0].wait()
        arrived.append(True)

    receiver.plan(*plan(kill))
    command = [sys.executable, "-c", SMALL_BATCHES, "export", "--to", receiver.url]
    own = {**environment(tmp_path), "RECORDER_DB": address(log.database)}
    with subprocess.Popen(command, env=own, stderr=subprocess.PIPE) as process:
        pushing.append(process)
        assert process.wait(60) == -signal.SIGKILL, process.stderr and process.stderr.read()
    wait_until(lambda: arrived)
    log.push(receiver)
    log.push(receiver)
    if not is_window:
        assert once(receiver, log, tools=4)
        return
    assert receiver.span_ids.keys() >= log.made
    twice = [id for id, count in receiver.span_ids.items() if count > 1]
    assert 0 < len(twice) <= BATCH
    for id in twice:
        assert (
            len({span.SerializeToString() for span in receiver.spans if span.span_id.hex() == id})
            == 1
        )
