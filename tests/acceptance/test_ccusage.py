"""What `recorder import` counts in the transcripts of agents is what ccusage counts in the same files.

The package comes from npm, so this is slow.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support import node
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
    called,
    counted_by_codex,
    counted_by_gemini,
    counting,
    kept_by_opencode,
    told,
    written,
)

PACKAGES = ("ccusage@20.0.24",)
"""20.0.26 was published without its program for Linux."""

COUNTED = """SELECT response_model AS model,
  sum(input_tokens - coalesce(cache_read_input_tokens, 0) - coalesce(cache_write_input_tokens, 0)) AS input,
  sum(coalesce(cache_read_input_tokens, 0)) AS read, sum(coalesce(cache_write_input_tokens, 0)) AS written,
  sum(output_tokens) AS output, sum(coalesce(reasoning_output_tokens, 0)) AS thought
FROM usage GROUP BY response_model"""


class Tokens(NamedTuple):
    """Of a model: the input that no cache had, and was told to keep, and the output."""

    input: int
    read: int
    written: int
    output: int

    def plus(self, other: Tokens) -> Tokens:
        return Tokens(*map(sum, zip(self, other, strict=True)))


def home_of_claude(home: Path) -> None:
    """A session with several models, its sub-agents, and copies of it, as a resumed one has."""
    lines = counting()
    lines.said("What else?")
    lines.answered("msg_5", called("toolu_5", "Bash"), stop=None, tokens=1)  # it goes on
    lines.answered("msg_5", told("An answer"), tokens=55, hour=700)
    lines.said("And the other model?")
    lines.answered("msg_6", told("Yes."), model="claude-opus-4-5", tokens=9)
    lines.answered("msg_7", told("API Error: Overloaded"), model="<synthetic>", tokens=0)
    lines.lines[-1]["message"]["usage"] = {"input_tokens": 0, "output_tokens": 0}
    old_side = ClaudeLines(agent="side")
    old_side.said("Say hello.")
    old_side.answered("msg_8", told("Hello."), tokens=3)
    for line in old_side.lines:
        del line["agentId"]
    side = ClaudeLines(agent="a30e7645c46b33eaa")
    side.said("Say hello.")
    side.answered("msg_9", told("Hello."), model="claude-haiku-4-5", tokens=7)
    resumed = [{**line, "sessionId": "resumed"} for line in lines.lines]
    project = home / ".claude" / "projects" / "-work"
    written(project / f"{SESSION}.jsonl", [*lines.lines, *old_side.lines])
    written(project / SESSION / "subagents" / "agent-a30e7645c46b33eaa.jsonl", side.lines)
    written(project / "resumed.jsonl", resumed)


def home_of_codex(home: Path) -> None:
    """Threads of new and old versions, a sub-agent, and a fork that begins with a copy."""
    old = counted_by_codex(is_new=False, first=1000)
    old.lines[0]["payload"]["id"] = "01a11fcf-27ba-7973-b6f4-dac331577508"
    side = CodexLines(SUB_THREAD, THREAD)
    side.answered("Hello.")
    side.used(10)
    parent = CodexLines("01a21fcf-27ba-7973-b6f4-dac331577509")
    parent.turn(OLD_TURN)
    parent.answered("There are 42 bottles.")
    parent.used(333)
    fork = parent.forked(FORK)
    fork.lines.insert(1, parent.lines[0])
    fork.turn(OWN_TURN)
    fork.answered("Now there are 41.")
    fork.used(444)
    day = home / ".codex" / "sessions" / "2026" / "11" / "28"
    for number, lines in enumerate((counted_by_codex(), old, side, parent, fork)):
        written(day / f"rollout-2026-11-28T01-39-0{number}.jsonl", lines.lines)


def home_of_gemini(home: Path) -> None:
    """A session of a new version, and one of an older version, where a tool took tokens."""
    chats = home / ".gemini" / "tmp" / "9f9d" / "chats"
    written(chats / "session-1.jsonl", counted_by_gemini())
    begun, asked, _, ran, said, *_ = counted_by_gemini(has_results=False)
    tokens = {"input": 100, "output": 3, "cached": 60, "thoughts": 10, "tool": 7, "total": 120}
    answers = [{**each, "model": "gemini-2.5-pro", "tokens": tokens} for each in (ran, said)]
    document = {**begun, "sessionId": "b1", "messages": [asked, *answers]}
    (chats / "session-2.json").write_text(json.dumps(document, indent=2))


def home_of_opencode(home: Path) -> None:
    kept_by_opencode(home / ".local" / "share" / "opencode" / "opencode.db")


def counted_by_ccusage(agent: str, home: Path) -> Mapping[str, Tokens]:
    env = {"PATH": node.installed(PACKAGES)["PATH"], "HOME": str(home)}
    words = ["ccusage", agent, "session", "--json", "--offline"]
    done = subprocess.run(words, env=env, capture_output=True, check=True, timeout=node.READ_S)
    found: dict[str, Tokens] = {}
    for session in json.loads(done.stdout)["sessions"]:
        for model, counts in of_models(session):
            tokens = Tokens(
                counts["inputTokens"],
                counts["cacheReadTokens"],
                counts["cacheCreationTokens"],
                counts["outputTokens"],
            )
            found[model] = found.get(model, Tokens(0, 0, 0, 0)).plus(tokens)
    return found


def of_models(session: Any) -> list[tuple[str, Any]]:
    if "models" in session:
        return [*session["models"].items()]
    return [(each["modelName"], each) for each in session["modelBreakdowns"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "fill", "folder", "counts_thoughts"),
    [
        ("claude", home_of_claude, ".claude/projects", True),
        ("codex", home_of_codex, ".codex/sessions", True),
        ("gemini", home_of_gemini, ".gemini/tmp", False),
        ("opencode", home_of_opencode, ".local/share/opencode", False),
    ],
)
def test_tokens_of_transcripts_are_those_of_ccusage(
    tmp_path: Path, agent: str, fill: Any, folder: str, counts_thoughts: bool
) -> None:
    """Thoughts of Gemini CLI and opencode are in no count of ccusage but the sum of all."""
    fill(tmp_path)
    db = tmp_path / "recorder.db"
    assert run(db, "import", tmp_path / folder).code == 0
    rows = json.loads(run(db, "query", COUNTED, "--json").out)
    found = {}
    for row in rows:
        output = row["output"] if counts_thoughts else row["output"] - row["thought"]
        found[row["model"]] = Tokens(row["input"], row["read"], row["written"], output)
    assert found == counted_by_ccusage(agent, tmp_path)
    assert found
