"""`recorder cache` over a session of 200 turns of 1 MB each, all of which changed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conversations import Conversations, message, response

TURNS = 200
MARGIN_S, MARGIN_KB = 20, 200_000  # it takes 1.4 s and 72 MB; the time is ten times that, for a busy machine

# Of the program alone: what `getrusage` has contains the process that it was forked from.
PEAK = """
import sys
from recorder.commands import main
try:
    main()
finally:
    print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1], file=sys.stderr)
"""


@pytest.mark.slow
def test_a_long_session_takes_little_time_and_memory(tmp_path: Path) -> None:
    words = random.Random(1)
    session = Conversations(tmp_path / "log.db").session("run")
    items = [{"role": "user", "content": " ".join(str(words.random()) for _ in range(260))} for _ in range(TURNS)]
    for number in range(TURNS):
        usage = {"input_tokens": 250_000, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 0}}
        body = {"model": "gpt-5", "instructions": f"Turn {number}. " + "Rules. " * 500, "input": items}
        session.exchange(response(*message("Yes."), id=f"resp_{number}", usage=usage), body=body, at_s=10 * number)
    command = [sys.executable, "-c", PEAK, "cache", "run", "--db", str(tmp_path / "log.db")]
    began = time.monotonic()
    ran = subprocess.run(command, capture_output=True, check=False)
    assert time.monotonic() - began < MARGIN_S
    assert ran.returncode == 4
    assert ran.stdout.count(b"prefix_changed, ") == TURNS - 1
    assert int(ran.stderr.split()[-1]) < MARGIN_KB
