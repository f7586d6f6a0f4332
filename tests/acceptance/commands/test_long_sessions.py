"""Commands over sessions of very many events: their memory, by the peak of a process of its own."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from recorder.model.events import Exchange, ResponseHead, Session
from recorder.store.write.writer import Store
from tests.support.conversations import message, recorded_events, response
from tests.support.rows import START_NS, make_id
from tests.support.server import peak

WORDS = [f"word{number} " for number in range(2_000)]
FEW, MANY = 100, 20_000  # events of the sessions that are compared in each test run
WHOLE = 200_000
LIMIT_KB = 160_000  # `diff`, which has two sides, takes 150,000

COMMANDS = {
    "events": ["events", "{}-a"],
    "lint": ["lint", "{}-a"],
    "export": ["export", "{}-a", "--format", "cassette"],
    "diff": ["diff", "{}-a", "{}-b"],
}
BYTES = {"events": 500, "lint": 900, "export": 800, "diff": 1_500}
"""Bytes of memory that an event may add, pages of a constant size included: it adds 300, 480, 420
and 800 (`diff` has two sides). Held as objects, events added 2,350 to `lint`, 1,490 to `export` and
3,620 to `diff`."""


BYTES_DISTINCT = 1_800
"""Bytes that an event may add to `diff` if it differs from all others: it adds 960, as objects it
added 5,980.
"""


def _session(store: Store, name: str, changed: int, exchanges: int, events: int) -> None:
    number = len(name) * 100 + changed
    session = Session(
        make_id(number, START_NS), START_NS, f"{name}-{'ab'[changed]}", "path", "{}", "live"
    )
    words = random.Random(1).choices(WORDS, k=events - 12)
    words[::1_000] = [f"side{changed} "] * len(words[::1_000])
    frames = response(*message(*words))
    if name.startswith("distinct"):
        frames = [_with_probability(frame, n) for n, frame in enumerate(frames)]
    store.add_session(session)
    for place in range(exchanges):
        ids = (session.session_id, make_id(number * 1_000 + place, START_NS + place))
        kind = ("openai", "openai-responses", "POST", "/v1/responses")
        exchange = Exchange(*ids, START_NS + place, "r", *kind)
        store.add_exchange(exchange)
        body = b'{"model":"gpt-5","stream":true,"input":"Question %d"}' % place
        head = ResponseHead(200, "OK", [("content-type", "text/event-stream")])
        store.append(recorded_events(exchange, body, frames, "eof", head))


def _with_probability(frame: bytes, n: int) -> bytes:
    token = b', "logprobs": [{"token": "t", "logprob": -0.%d, "top_logprobs": []}]}\n\n' % (
        n * 7_919
    )
    return frame.replace(b"}\n\n", token) if b"output_text.delta" in frame else frame


def _log(path: Path, **shapes: tuple[int, int]) -> Path:
    """A log with two sessions of each name, of that many exchanges of that many events, which
    differ in some words.
    """
    with Store(path) as store, store.transaction():
        for name, (exchanges, events) in shapes.items():
            for changed in (0, 1):
                _session(store, name, changed, exchanges, events)
    return path


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shapes = {
        f"{kind}{name}": (1, size)
        for kind in ("", "distinct-")
        for name, size in (("few", FEW), ("many", MANY))
    }
    return _log(tmp_path_factory.mktemp("long") / "log.db", **shapes)


def _peak_kb(log: Path, command: str, name: str) -> int:
    ran, peak_kb = peak(*(each.format(name) for each in COMMANDS[command]), "--db", log)
    assert ran.returncode in (0, 4), ran.stderr
    return peak_kb


@pytest.mark.parametrize("command", COMMANDS)
def test_an_event_more_takes_little_memory_more(log: Path, command: str) -> None:
    of_few, of_many = (_peak_kb(log, command, name) for name in ("few", "many"))
    assert (of_many - of_few) * 1_024 < (MANY - FEW) * BYTES[command]


def test_an_event_that_is_like_no_other_takes_little_memory_too(log: Path) -> None:
    of_few, of_many = (_peak_kb(log, "diff", name) for name in ("distinct-few", "distinct-many"))
    assert (of_many - of_few) * 1_024 < (MANY - FEW) * BYTES_DISTINCT


@pytest.mark.slow
@pytest.mark.parametrize(("exchanges", "events"), [(1, WHOLE), (200, WHOLE // 200)])
@pytest.mark.parametrize("command", COMMANDS)
def test_two_hundred_thousand_events_fit_in_little_memory(
    tmp_path: Path, command: str, exchanges: int, events: int
) -> None:
    path = _log(tmp_path / "log.db", whole=(exchanges, events))
    assert _peak_kb(path, command, "whole") < LIMIT_KB
