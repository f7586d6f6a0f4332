"""`recorder show --cache` over a session of 200 turns of 1 MB each, all of which changed."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.support.conversations import Conversations, message, response
from tests.support.server import peak

TURNS = 200
# it takes 1.4 s and 72 MB; the time is ten times that, for a busy machine
MARGIN_S, MARGIN_KB = 20, 200_000


@pytest.mark.slow
@pytest.mark.timed
def test_a_long_session_takes_little_time_and_memory(tmp_path: Path) -> None:
    words = random.Random(1)
    session = Conversations(tmp_path / "log.db").session("run")
    items = [
        {"role": "user", "content": " ".join(str(words.random()) for _ in range(260))}
        for _ in range(TURNS)
    ]
    for number in range(TURNS):
        usage = {
            "input_tokens": 250_000,
            "output_tokens": 9,
            "input_tokens_details": {"cached_tokens": 0},
        }
        said = [*items, {"role": "user", "content": f"And {number}?"}]
        body = {
            "model": "gpt-5",
            "instructions": f"Turn {number}. " + "Rules. " * 500,
            "input": said,
        }
        session.exchange(
            response(*message("Yes."), id=f"resp_{number}", usage=usage),
            body=body,
            at_s=10 * number,
        )
    began = time.monotonic()
    ran, peak_kb = peak("show", "run", "--cache", "--db", tmp_path / "log.db")
    assert time.monotonic() - began < MARGIN_S
    assert ran.returncode == 4
    assert ran.stdout.count("prefix_changed, ") == TURNS - 1
    assert peak_kb < MARGIN_KB
