"""`recorder export --to --follow`, and signals that end a push."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.conversations import Conversations, asking, call, message, response
from tests.support.otlp import Answer, Receiver, receiving
from tests.support.rows import START_NS
from tests.support.scripts import Chunk, End, ReadAll, Sleep, Upstream, ask
from tests.support.server import PROGRAM, environment, run, serving, wait_until

SOON_S = 2.0  # within which a new exchange is sent


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def log(tmp_path: Path) -> Conversations:
    """A log with one session of one exchange."""
    log = Conversations(tmp_path / "log.db")
    log.session("talk").exchange(response(*message("Hi.")), asking("Hello"))
    return log


class Following:
    """A running push."""

    def __init__(self, process: subprocess.Popen[bytes], said: Path) -> None:
        self.process, self._said = process, said

    @property
    def said(self) -> str:
        return self._said.read_text()


@contextlib.contextmanager
def following(
    path: Path, receiver: Receiver, tmp_path: Path, options: tuple[str, ...] = ("--follow",)
) -> Iterator[Following]:
    command = [*PROGRAM, "export", "--to", receiver.url, *options, "--db", str(path)]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(
            command, env=environment(tmp_path), stdout=said, stderr=said, start_new_session=True
        )
    try:
        yield Following(process, tmp_path / "said")
    finally:
        process.kill()
        process.wait()


def arrives(receiver: Receiver, count: int) -> float:
    """Wait until the collector has so many spans; returns how long it took."""
    began_s = time.monotonic()
    wait_until(lambda: len(receiver.spans) >= count)
    return time.monotonic() - began_s


@pytest.mark.timed
async def test_what_is_recorded_arrives_soon(receiver: Receiver, tmp_path: Path) -> None:
    path = tmp_path / "recorder.db"
    frames = [Chunk(frame) for frame in response(*message("Hi."))]
    async with Upstream(lambda id: [*frames, Sleep(0.1), End()]) as upstream:
        with serving(path, "--upstream", f"openai={upstream.base}") as serve:
            await ask(serve.port, "first", ReadAll())
            wait_until(lambda: run(path, "sessions", "--json").code == 0)
            with following(path, receiver, tmp_path) as pushing:
                await asyncio.to_thread(arrives, receiver, 1)
                took_s = []
                for number in range(2, 5):
                    await ask(serve.port, f"number-{number}", ReadAll())
                    took_s.append(await asyncio.to_thread(arrives, receiver, number))
                pushing.process.send_signal(signal.SIGTERM)
                assert pushing.process.wait(60) == 0
    assert min(took_s) < SOON_S
    assert (len(receiver.spans), set(receiver.span_ids.values())) == (4, {1})


def test_a_collector_that_goes_away_and_comes_back_misses_nothing(
    log: Conversations, receiver: Receiver, tmp_path: Path
) -> None:
    with following(log.path, receiver, tmp_path) as pushing:
        arrives(receiver, 1)
        wait_until(lambda: receiver.metrics)  # so it has the answer to the spans
        receiver.close()
        began_s = (time.time_ns() - START_NS) / 1e9
        log.session("while it is away", began_s).exchange(
            response(*call("roll", "{}"), id="resp_2"), asking("Roll")
        )
        wait_until(lambda: "takes nothing now" in pushing.said)
        receiver.listen()
        arrives(receiver, 2)
        wait_until(lambda: "takes it again" in pushing.said)
        pushing.process.send_signal(signal.SIGINT)
        assert pushing.process.wait(60) == 130
    assert set(receiver.span_ids.values()) == {1}
    assert run(log.path, "export", "--to", receiver.url, "--no-metrics").err.startswith(
        "Nothing new"
    )


@pytest.mark.parametrize(
    ("options", "by", "code"),
    [
        (("--follow",), signal.SIGINT, 130),
        (("--follow",), signal.SIGTERM, 0),
        ((), signal.SIGTERM, 143),
    ],
    ids=["Ctrl-C", "a supervisor", "a supervisor of one push"],
)
def test_an_interruption_loses_nothing_that_the_collector_takes(
    log: Conversations,
    receiver: Receiver,
    tmp_path: Path,
    options: tuple[str, ...],
    by: signal.Signals,
    code: int,
) -> None:
    interrupted: list[Callable[[], object]] = []

    def interrupt() -> None:
        wait_until(lambda: interrupted)
        interrupted[0]()

    receiver.plan(Answer(before=interrupt))
    with following(log.path, receiver, tmp_path, options) as pushing:
        interrupted.append(lambda: pushing.process.send_signal(by))
        assert pushing.process.wait(60) == code, pushing.said
    run(log.path, "export", "--to", receiver.url, "--no-metrics")
    assert set(receiver.span_ids.values()) == {1}
