"""What a shell is told when it asks `recorder` to complete a word.

What shells make of it is tested in tests/acceptance.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.conversations import Conversations
from tests.support.server import run


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Conversations(tmp_path_factory.mktemp("completed") / "recorder.db")
    for at_s, name in enumerate(("weather", "broken", "live")):
        made.session(name, at_s)
    return made.path


def completed(db: Path, words: str, cwd: Path = Path("/")) -> list[str]:
    """What bash is told about the last of these words."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("_RECORDER_COMPLETE", "bash_complete")
        patched.setenv("COMP_WORDS", words)
        patched.setenv("COMP_CWORD", str(words.count(" ")))
        ran = run(db, cwd=cwd)
    assert ran.err == ""
    return [line.removeprefix("plain,") for line in ran.out.decode().split()]


COMPLETED = {
    "recorder show ": ["latest", "live", "broken", "weather"],
    "recorder events w": ["weather"],
    "recorder tail --session l": ["latest", "live"],
    "recorder se": ["serve", "sessions"],
    "recorder export nosuch": [],
}


def test_a_shell_completes_verbs_and_names_of_sessions(db: Path) -> None:
    assert {words: completed(db, words) for words in COMPLETED} == COMPLETED


def test_a_completion_says_nothing_of_wrong_settings(tmp_path: Path) -> None:
    (tmp_path / "recorder.toml").write_text("[show]\nnosuch = 1\n")
    assert completed(tmp_path / "none.db", "recorder show l", tmp_path) == ["latest"]
