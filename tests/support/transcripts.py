"""Transcripts as coding agents write them: the lines and keys of real ones, with invented texts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SESSION = "96e59a1b-ea31-46cc-a994-3b7a1d699a35"
MODEL = "claude-sonnet-4-5"
LONG_AGO_S = 1_700_000_000  # a file that rests


class ClaudeLines:
    """The lines of one file of Claude Code."""

    def __init__(self, session: str = SESSION, agent: str | None = None) -> None:
        self._common: dict[str, Any] = {"sessionId": session, "version": "2.1.332", "isSidechain": agent is not None}
        if agent is not None:
            self._common["agentId"] = agent
        self._agent, self._number = agent or "main", 0
        self._parent: str | None = None
        self.lines: list[dict[str, Any]] = []

    def said(self, content: Any) -> None:
        """Add what a person said, or the results of tools."""
        self._add(type="user", message={"role": "user", "content": content})

    def answered(self, id: str, *blocks: dict[str, Any], stop: str | None = "end_turn", tokens: int = 83) -> None:
        """Add an answer: a line for each of its blocks, each with the usage of all."""
        usage = {"input_tokens": 16, "cache_creation_input_tokens": 81, "cache_read_input_tokens": 11855}
        message: dict[str, Any] = {
            "model": MODEL,
            "id": id,
            "type": "message",
            "role": "assistant",
            "stop_reason": stop,
        }
        message["usage"] = {**usage, "output_tokens": tokens, "output_tokens_details": {"thinking_tokens": 64}}
        for block in blocks:
            self._add(type="assistant", requestId=f"req_{id}", message={**message, "content": [block]})

    def _add(self, **line: Any) -> None:
        self._number += 1
        uuid, time = f"{self._agent}-{self._number}", f"2026-11-27T22:41:{self._number:02}.500Z"
        self.lines.append({"parentUuid": self._parent, **line, "uuid": uuid, "timestamp": time, **self._common})
        self._parent = uuid


def thought(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": "c2lnbmF0dXJl"}


def told(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def called(id: str, name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def result(id: str, content: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content, "is_error": False}


def counting(session: str = SESSION) -> ClaudeLines:
    """Return a session that asks, calls a tool, and answers."""
    lines = ClaudeLines(session)
    lines.said("Use the shell to count the bottles.")
    lines.answered("msg_1", called("toolu_1", "Bash", command="echo 42"), stop="tool_use", tokens=14)
    lines.said([result("toolu_1", "42")])
    lines.answered("msg_2", thought("The tool has answered."), told("There are 42 bottles."))
    return lines


def written(path: Path, lines: Iterable[dict[str, Any]], *, is_resting: bool = True) -> Path:
    """Write lines as agents do: JSON without spaces."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines))
    if is_resting:
        os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    return path
