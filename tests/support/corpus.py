"""The corpus of recorded streams, where this machine has it. See its own README for what it is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.tables import Test, run_all

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
CORPUS = Path(os.environ.get("RECORDER_CORPUS", ROOT.parent / "shared" / "corpus"))

TRANSCRIPTS = Path(os.environ.get("RECORDER_WIRE", ROOT.parent / "shared" / "wire")) / "websocket"

needs_corpus = pytest.mark.skipif(
    not (CORPUS / "index.json").exists(),
    reason="no corpus: set RECORDER_CORPUS to a folder that holds index.json",
)


@cache
def corpus_index() -> list[dict[str, Any]]:
    """The entries of `index.json`: `file`, `provider`, `core`, `bytes`, `sha256`, `event_types` and
    more.
    """
    if not (CORPUS / "index.json").exists():
        return []
    files: list[dict[str, Any]] = json.loads((CORPUS / "index.json").read_text())["files"]
    return files


def corpus_files(*, core: bool = True) -> list[Path]:
    """The streams of the corpus: the core set, or all of them. Empty where there is no corpus."""
    return [CORPUS / entry["file"] for entry in corpus_index() if entry["core"] or not core]


def each_stream(entries: Iterable[dict[str, Any]]) -> Callable[[Test], Test]:
    """Run a test of an entry of the index for each of these: in one test the core, in a slow one
    the rest.
    """
    parts: dict[str, list[tuple[dict[str, Any]]]] = {"core": [], "beyond": []}
    for entry in entries:
        parts["core" if entry["core"] else "beyond"].append((entry,))

    def decorate(test: Test) -> Test:
        def run(part: str) -> None:
            run_all(test, parts[part])

        run.__doc__ = test.__doc__
        both = pytest.mark.parametrize(
            "part", ["core", pytest.param("beyond", marks=pytest.mark.slow)]
        )
        return needs_corpus(both(run))

    return decorate
