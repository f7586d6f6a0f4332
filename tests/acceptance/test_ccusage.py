"""What `ccusage` counts of the files of agents, and what the log has of them after an import.

The package comes from npm, so this is slow.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.server import run
from tests.support.transcripts import (
    FORK,
    OLD_TURN,
    OWN_TURN,
    SESSION,
    SUB_THREAD,
    THREAD,
    ClaudeLines,
    CodexLines,
    counted_by_codex,
    counted_by_gemini,
    counting,
    kept_by_opencode,
    kept_in_files,
    told,
    written,
)
from tools.real_clients import installing

PACKAGES = ("ccusage@20.0.24",)
COUNTING_S = 60.0
SUMS = """
SELECT sum(input_tokens) AS input, sum(cache_read_input_tokens) AS read, sum(cache_write_input_tokens) AS written,
sum(output_tokens) AS output, sum(reasoning_output_tokens) AS thought FROM usage
"""


def of_claude(projects: Path) -> None:
    """Write a session, a sub-agent, and the session again with more in it, as when it is resumed."""
    written(projects / "-work" / f"{SESSION}.jsonl", counting().lines)
    side = ClaudeLines(agent="a30e7645c46b33eaa")
    side.said("Say hello.")
    side.answered("msg_3", told("Hello."), told("Again."), tokens=7)
    written(
        projects / "-work" / SESSION / "subagents" / "agent-a30e7645c46b33eaa.jsonl", side.lines
    )
    again = counting("a-resumed-session")
    again.said("And now a greeting.")
    again.answered("msg_4", told("Good morning."), tokens=5)
    written(projects / "-work" / "a-resumed-session.jsonl", again.lines)


def of_codex(sessions: Path) -> None:
    """Write threads of a newer and an older version, a sub-agent, and a fork that begins with a
    copy.
    """
    parent = counted_by_codex()
    parent.turn(OLD_TURN)
    parent.answered("There are 42 bottles.")
    parent.used(400)
    side = CodexLines(SUB_THREAD, THREAD)
    side.answered("Hello.")
    side.used(50)
    fork = parent.forked(FORK)
    fork.turn(OWN_TURN)
    fork.answered("Now there are 41.")
    fork.used(600)
    threads = {
        "parent": parent,
        "side": side,
        "fork": fork,
        "old": counted_by_codex(is_new=False, first=700),
    }
    for name, thread in threads.items():
        written(sessions / "2026" / "11" / "28" / f"rollout-{name}.jsonl", thread.lines)


def of_gemini(chats: Path) -> None:
    written(chats / "project" / "chats" / "session-1.jsonl", counted_by_gemini())


def of_opencode(data: Path) -> None:
    """Write a database, and the files from which it was made."""
    kept_by_opencode(data / "opencode.db")
    kept_in_files(data / "storage")


def counted(home: Path, agent: str) -> Mapping[str, int]:
    """The sums of ccusage. It counts what was cached apart; of Codex too."""
    env = {**os.environ, "PATH": installing.path(PACKAGES), "HOME": str(home)}
    env |= {"CLAUDE_CONFIG_DIR": str(home / ".claude"), "CODEX_HOME": str(home / ".codex")}
    words = ["ccusage", agent, "daily", "--json", "--offline"]
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=COUNTING_S)
    assert done.returncode == 0, done.stderr
    sums = json.loads(done.stdout)["totals"]
    read, wrote = sums["cacheReadTokens"], sums["cacheCreationTokens"]
    return {
        "input": sums["inputTokens"] + read + wrote,
        "read": read,
        "written": wrote,
        "output": sums["outputTokens"],
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "write", "place"),
    [
        ("claude", of_claude, ".claude/projects"),
        ("codex", of_codex, ".codex/sessions"),
        ("gemini", of_gemini, ".gemini/tmp"),
        ("opencode", of_opencode, ".local/share/opencode"),
    ],
)
def test_an_import_has_the_tokens_that_ccusage_counts(
    agent: str, write: Callable[[Path], None], place: str, tmp_path: Path
) -> None:
    """Of Gemini CLI and opencode it counts thoughts in the total alone, not as output."""
    for packages in ((installing.NODE,), PACKAGES):
        installing.install(packages)
    write(tmp_path / place)
    db = tmp_path / "recorder.db"
    assert run(db, "import", tmp_path / place).code == 0
    [row] = json.loads(run(db, "query", SUMS, "--json").out)
    sums = {name: count or 0 for name, count in row.items()}
    thought = sums.pop("thought")
    if agent in ("gemini", "opencode"):
        sums["output"] -= thought
    assert sums == counted(tmp_path, agent)
