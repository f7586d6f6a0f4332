"""`recorder cache` over a session of 200 turns of 1 MB each, all of which changed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conversations import Conversations, message, response

TURNS = 200
# It takes 1.4 s and 72 MB. The time is ten times that, for a busy machine; Linux counts what the tests have, too.
MARGIN_S, MARGIN_KB = 20, 200_000


@pytest.mark.slow
def test_a_long_session_takes_little_time_and_memory(tmp_path: Path) -> None:
    words = random.Random(1)
    session = Conversations(tmp_path / "log.db").session("run")
    items = [{"role": "user", "content": " ".join(str(words.random()) for _ in range(260))} for _ in range(TURNS)]
    for number in range(TURNS):
        usage = {"input_tokens": 250_000, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 0}}
        body = {"model": "gpt-5", "instructions": f"Turn {number}. " + "Rules. " * 500, "input": items}
        session.exchange(response(*message("Yes."), id=f"resp_{number}", usage=usage), body=body, at_s=10 * number)
    command = [sys.executable, "-m", "recorder", "cache", "run", "--db", str(tmp_path / "log.db")]
    printed = tmp_path / "printed"
    began = time.monotonic()
    with printed.open("wb") as file, subprocess.Popen(command, stdout=file) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert time.monotonic() - began < MARGIN_S
    assert process.returncode == 4
    assert printed.read_bytes().count(b"prefix_changed, ") == TURNS - 1
    assert used.ru_maxrss < MARGIN_KB
