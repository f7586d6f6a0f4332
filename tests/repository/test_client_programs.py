"""The programs of `make test-clients`: each has a row, and each can be read. Running them takes the
clients.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tools.real_clients import program, programs
from tools.real_clients.client import UPSTREAMS
from tools.real_clients.programs import PROGRAMS

FOLDER = Path(programs.__path__[0])
TEXTS = {path.name: path.read_text() for path in FOLDER.iterdir() if path.suffix in (".py", ".mjs")}
SHARED = TEXTS.keys() - {row.file for row in PROGRAMS} - {"__init__.py"}
PINNED = {
    "python": (".py", re.compile(r"[\w.-]+(\[[\w,]+\])?==\d[\w.]*")),
    "node": (".mjs", re.compile(r"@?[\w/.-]+@\d[\w.-]*")),
}


def imports(text: str) -> set[str]:
    """The files beside a program that it imports."""
    found = re.findall(r'^from (\w+) import|from "\./([\w.]+)"', text, re.M)
    return {f"{python}.py" if python else node for python, node in found} & SHARED


def test_each_row_has_a_file_and_pins_of_its_language() -> None:
    for row in PROGRAMS:
        suffix, pin = PINNED[row.language]
        assert row.file in TEXTS
        assert row.file.endswith(suffix)
        assert all(pin.fullmatch(package) for package in row.packages), row.file
        assert bool(row.version) == bool(row.packages), row.file
        assert row.apis, row.file
        assert set(row.apis) <= set(UPSTREAMS), row.file


def test_each_file_is_of_one_row_or_shared() -> None:
    assert len({row.file for row in PROGRAMS}) == len(PROGRAMS)
    assert set().union(*map(imports, TEXTS.values())) == SHARED


def test_each_asks_what_its_row_says() -> None:
    for row in PROGRAMS:
        files = {row.file, *imports(TEXTS[row.file])}
        for file in tuple(files):
            files |= imports(TEXTS[file])
        texts = "\n".join(TEXTS[file] for file in files)
        assert f'PROMPT = "{row.prompt}"' in texts, row.file
        assert f'SLOW_PROMPT = "{program.SLOW_PROMPT}"' in texts, row.file


def test_its_language_can_read_each() -> None:
    for name, text in TEXTS.items():
        if name.endswith(".py"):
            compile(text, name, "exec")
        elif shutil.which("node"):
            done = subprocess.run(
                ["node", "--check", FOLDER / name], capture_output=True, text=True, timeout=60
            )
            assert (done.returncode, done.stderr) == (0, ""), name
