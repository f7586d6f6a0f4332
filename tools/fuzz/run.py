"""Look for bytes that break a target: `python -m tools.fuzz.run splitter --seconds 60`; what breaks
it is kept.

A crash is kept in `tests/data/fuzz/TARGET-…`, to be replayed by every run of the tests from then
on.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import click

from tests.support.corpus import DATA, corpus_files

atheris: Any = importlib.import_module("atheris")  # it has no types

with atheris.instrument_imports(include=["recorder"]):
    from tools.fuzz.targets import SEEDS, TARGETS

REGRESSIONS = DATA / "fuzz"
LONGEST_BYTES = 16 * 1024
MEMORY_MB = 1024
HANG_S = 10


def seeds(name: str) -> list[bytes]:
    """Bytes to begin with: some of our own, and recorded streams where this machine has them."""
    recorded = [path.read_bytes()[: LONGEST_BYTES - 64] for path in corpus_files()[:40]]
    before = {"splitter": b"\x40", "dialects": b"\x00{}\n\n\n", "cassettes": b""}
    return [*SEEDS[name], *(before[name] + each for each in recorded if name in before)]


@click.command()
@click.argument("name", type=click.Choice(list(TARGETS)))
@click.option("--seconds", type=int, default=60, show_default=True)
@click.option("--seed", type=int, default=0, help="0 is another one each time")
def main(name: str, seconds: int, seed: int) -> None:
    """Exit code 0 if nothing was found."""
    with tempfile.TemporaryDirectory() as folder:
        for data in seeds(name):
            Path(folder, sha256(data).hexdigest()).write_bytes(data)
        options = {
            "max_total_time": seconds,
            "max_len": LONGEST_BYTES,
            "rss_limit_mb": MEMORY_MB,
            "timeout": HANG_S,
            "seed": seed,
            "artifact_prefix": f"{REGRESSIONS}/{name}-",
            "print_final_stats": 1,
        }
        atheris.Setup(
            [sys.argv[0], *(f"-{key}={value}" for key, value in options.items()), folder],
            TARGETS[name],
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main()
