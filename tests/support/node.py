"""SDKs for JavaScript, asked by a script under tests/support in one process of Node: a line of JSON
for each question and each answer. They come from npm, so what asks them is slow.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.real_clients import installing

READ_S = 120.0


def answers(script: str, packages: Sequence[str], questions: Iterable[Any]) -> list[Any]:
    """Install the packages, and return what the script answers."""
    lines = "\n".join(map(json.dumps, questions))
    env = installed(packages)
    done = subprocess.run(
        _words(script), input=lines, capture_output=True, text=True, env=env, timeout=READ_S
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == lines.count("\n") + 1, done.stderr
    return told


@contextmanager
def serving(script: str, packages: Sequence[str], *arguments: str) -> Iterator[str]:
    """Install the packages, and run a script that writes the port where it listens, and ends when
    stdin does.
    """
    words = [*_words(script), *arguments]
    env = installed(packages)
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(program.stdout.readline())}"
        finally:
            program.stdin.close()


def _words(script: str) -> list[str]:
    return ["node", str(Path(__file__).with_name(script))]


def installed(packages: Sequence[str]) -> dict[str, str]:
    """Install packages; gives the environment of a program that uses them."""
    for each in ((installing.NODE,), packages):
        installing.install(each)
    modules = installing.folder(packages) / "node_modules"
    return {**os.environ, "PATH": installing.path(packages), "NODE_PATH": str(modules)}
