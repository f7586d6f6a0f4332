"""SDKs for JavaScript, asked by a script under tests/support in one process of Node: a line of JSON for each question
and each answer. They come from npm, so what asks them is slow.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tools.real_clients import installing

READ_S = 120.0


def answers(script: str, packages: Sequence[str], questions: Iterable[Any]) -> list[Any]:
    """Install the packages, and return what the script answers."""
    for each in ((installing.NODE,), packages):
        installing.install(each)
    env = {
        **os.environ,
        "PATH": installing.path(packages),
        "NODE_PATH": str(installing.folder(packages) / "node_modules"),
    }
    words = ["node", str(Path(__file__).with_name(script))]
    lines = "\n".join(map(json.dumps, questions))
    done = subprocess.run(words, input=lines, capture_output=True, text=True, env=env, timeout=READ_S)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == lines.count("\n") + 1, done.stderr
    return told
