"""Transcripts as coding agents write them: the lines and keys of real ones, with invented texts."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

SESSION = "96e59a1b-ea31-46cc-a994-3b7a1d699a35"
MODEL = "claude-sonnet-4-5"
LONG_AGO_S = 1_700_000_000  # a file that rests


class ClaudeLines:
    """The lines of one file of Claude Code."""

    def __init__(self, session: str = SESSION, agent: str | None = None) -> None:
        self._common: dict[str, Any] = {
            "sessionId": session,
            "version": "2.1.332",
            "isSidechain": agent is not None,
        }
        if agent is not None:
            self._common["agentId"] = agent
        self._agent, self._number = agent or "main", 0
        self._parent: str | None = None
        self.lines: list[dict[str, Any]] = []

    def said(self, content: Any) -> None:
        """Add what a person said, or the results of tools."""
        self._add(type="user", message={"role": "user", "content": content})

    def answered(
        self,
        id: str,
        *blocks: dict[str, Any],
        stop: str | None = "end_turn",
        tokens: int = 83,
        model: str = MODEL,
        hour: int = 0,
    ) -> None:
        """Add an answer: a line for each of its blocks, each with the usage of all; `hour` is what
        it put into the cache for an hour.
        """
        usage = {
            "input_tokens": 16,
            "cache_creation_input_tokens": 81 + hour,
            "cache_read_input_tokens": 11855,
            "cache_creation": {"ephemeral_5m_input_tokens": 81, "ephemeral_1h_input_tokens": hour},
        }
        message: dict[str, Any] = {
            "model": model,
            "id": id,
            "type": "message",
            "role": "assistant",
            "stop_reason": stop,
        }
        message["usage"] = {
            **usage,
            "output_tokens": tokens,
            "output_tokens_details": {"thinking_tokens": 64},
        }
        for block in blocks:
            self._add(
                type="assistant", requestId=f"req_{id}", message={**message, "content": [block]}
            )

    def _add(self, **line: Any) -> None:
        self._number += 1
        uuid, time = f"{self._agent}-{self._number}", f"2026-11-27T22:41:{self._number:02}.500Z"
        self.lines.append(
            {"parentUuid": self._parent, **line, "uuid": uuid, "timestamp": time, **self._common}
        )
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
    lines.answered(
        "msg_1", called("toolu_1", "Bash", command="echo 42"), stop="tool_use", tokens=14
    )
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


# -- Codex and Gemini CLI

THREAD = "01a21fcf-27ba-7973-b6f4-dac331577508"
SUB_THREAD = "01a21fcf-289a-79c3-bb99-c428e0321a9f"
FORK = "01a221b7-0faf-7bb2-8f06-3cdfdcec36f8"
OLD_TURN, OWN_TURN = "01a21fcf-27bb-7fa0-890e-f7331728da24", "01a221b7-0fbe-7401-aea5-17a39cffe116"


class CodexLines:
    """The lines of one thread of Codex; `is_new` ones say the ids of responses."""

    def __init__(
        self, thread: str = THREAD, parent: str | None = None, *, is_new: bool = True
    ) -> None:
        self._is_new, self._used = is_new, 0
        self.lines: list[dict[str, Any]] = []
        self._meta = {
            "id": thread,
            "originator": "codex_exec",
            "cli_version": "0.171.0",
            "model_provider": "openai",
        }
        if parent is not None:
            self._meta |= {"session_id": parent, "parent_thread_id": parent}
        self._add("session_meta", **self._meta)
        self.turn("turn-1")

    def turn(self, id: str | None) -> None:
        self.event("task_started", turn_id=id)
        self._add("turn_context", turn_id=id, model="gpt-5", effort="high")

    def forked(self, thread: str) -> CodexLines:
        """Return the lines of a thread that begins with a copy of these, written at once."""
        fork = CodexLines(thread, is_new=self._is_new)
        fork._used = self._used
        fork.lines[1:] = [dict(line) for line in self.lines]
        fork.lines[0]["payload"]["forked_from_id"] = self._meta["id"]
        for line in fork.lines:
            line["timestamp"] = f"2026-11-28T01:39:{len(self.lines):02}.000Z"
        fork.lines = [line for line in fork.lines if line["type"] != "token_usage_record"]
        return fork

    def item(self, type: str, **item: Any) -> None:
        self._add("response_item", type=type, **item)

    def said(self, text: str) -> None:
        self.item("message", role="user", content=[{"type": "input_text", "text": text}])

    def answered(self, text: str) -> None:
        self.item("message", role="assistant", content=[{"type": "output_text", "text": text}])

    def event(self, type: str, **event: Any) -> None:
        self._add("event_msg", type=type, **event)

    def used(self, tokens: int) -> None:
        """Add the reports of usage, the last one twice, as when limits have changed."""
        self._used += tokens
        usage = {
            "input_tokens": tokens,
            "cached_input_tokens": 5,
            "output_tokens": 7,
            "reasoning_output_tokens": 3,
        }
        if self._is_new:
            self._add("token_usage_record", response_id=f"resp_{self._used}", usage=usage)
        info = {
            "total_token_usage": {**usage, "input_tokens": self._used},
            "last_token_usage": usage,
        }
        self.event("token_count", info=info)
        self.event("token_count", info=info)

    def _add(self, kind: str, **payload: Any) -> None:
        time = f"2026-11-28T01:39:{len(self.lines):02}.000Z"
        self.lines.append({"timestamp": time, "type": kind, "payload": payload})


def counted_by_codex(*, is_new: bool = True, first: int = 100) -> CodexLines:
    """Return a thread that asks, calls a tool, and answers."""
    lines = CodexLines(is_new=is_new)
    lines.said("Count the bottles.")
    lines.item("function_call", call_id="call_1", name="shell", arguments='{"command":"echo 42"}')
    lines.item("function_call_output", call_id="call_1", output="42")
    lines.used(first)
    lines.item("reasoning", id="rs_1", summary=[{"type": "summary_text", "text": "That was easy."}])
    lines.answered("There are 42 bottles.")
    lines.used(200)
    return lines


def counted_by_gemini(*, has_results: bool = True) -> list[dict[str, Any]]:
    """Return a chat of Gemini CLI; without results as an older version, which has them only with
    the calls.
    """
    tokens = {"input": 11540, "output": 18, "cached": 20, "thoughts": 64, "tool": 0, "total": 11622}
    call = {"id": "shell__1", "name": "shell", "args": {"command": "echo 42"}}
    result = {"functionResponse": {"id": "shell__1", "name": "shell", "response": {"output": "42"}}}
    model = {"type": "gemini", "tokens": tokens, "model": "gemini-3.8-flash"}
    first = {
        "id": "m2",
        "timestamp": "2026-11-28T01:40:01.000Z",
        **model,
        "content": "",
        "thoughts": [],
    }
    thoughts = [{"subject": "Bottles", "description": "They were counted."}]
    lines: list[dict[str, Any]] = [
        {
            "sessionId": "a9d00340",
            "projectHash": "9f9d",
            "startTime": "2026-11-28T01:40:00.000Z",
            "kind": "main",
        },
        {
            "id": "m1",
            "timestamp": "2026-11-28T01:40:00.000Z",
            "type": "user",
            "content": [{"text": "Count."}],
        },
        first,
        {**first, "toolCalls": [{**call, "result": [result], "status": "success"}]},
        {"id": "m3", "timestamp": "2026-11-28T01:40:02.000Z", "type": "user", "content": [result]},
        {
            "id": "m4",
            "timestamp": "2026-11-28T01:40:03.000Z",
            **model,
            "content": "42.",
            "thoughts": thoughts,
        },
        {
            "id": "m5",
            "timestamp": "2026-11-28T01:41:00.000Z",
            "type": "gemini",
            "content": "Again.",
        },
        {
            "$set": {
                "messages": [
                    {"id": "m4", "timestamp": "2026-11-28T01:41:00.000Z", "type": "gemini"}
                ]
            }
        },
    ]
    return lines if has_results else [line for line in lines if line.get("id") != "m3"]


# -- opencode


def kept_by_opencode(path: Path) -> Path:
    """Write a database with a session, its sub-agent, and another session; a message of that is not
    over.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("""
            CREATE TABLE session (id text, parent_id text, version text);
            CREATE TABLE message (id text, session_id text, time_created integer, data text);
            CREATE TABLE part (id text, message_id text, data text);
            INSERT INTO session VALUES ('ses_1', NULL, '1.18.33'), ('ses_2', 'ses_1', '1.18.33'), ('ses_3', NULL, '1');
        """)
        for number, (session, message, parts) in enumerate(_OPENCODE):
            values = (f"msg_{number}", session, number, json.dumps(message))
            connection.execute("INSERT INTO message VALUES (?, ?, ?, ?)", values)
            for place, part in enumerate(parts):
                row = (f"prt_{number}_{place}", f"msg_{number}", json.dumps(part))
                connection.execute("INSERT INTO part VALUES (?, ?, ?)", row)
        connection.commit()
    return path


def kept_in_files(storage: Path) -> Path:
    """Write the same as older versions of opencode did: a file for each session, message and part."""
    for id, more in {"ses_1": {}, "ses_2": {"parentID": "ses_1"}, "ses_3": {}}.items():
        _put(storage / "session" / "global" / f"{id}.json", {"id": id, "version": "1.0.10", **more})
    for number, (session, message, parts) in enumerate(_OPENCODE):
        id = f"msg_{number}"
        _put(
            storage / "message" / session / f"{id}.json",
            {"id": id, "sessionID": session, **message},
        )
        for place, part in enumerate(parts):
            _put(storage / "part" / id / f"prt_{number}_{place}.json", {"messageID": id, **part})
    return storage


def _put(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2))


_TOKENS = {"input": 213, "output": 19, "reasoning": 64, "cache": {"write": 10, "read": 7168}}
_MODEL = {"role": "assistant", "modelID": "gpt-5", "providerID": "openai", "tokens": _TOKENS}
_RAN = {
    "status": "completed",
    "input": {"command": "echo 42"},
    "output": "42",
    "time": {"start": 1_795_830_033_000},
}


def _done(second: int) -> dict[str, Any]:
    created_ms = 1_795_830_032_000 + 1000 * second
    return {
        **_MODEL,
        "time": {"created": created_ms, "completed": created_ms + 900},
        "finish": "tool-calls",
    }


_OPENCODE: list[tuple[str, dict[str, Any], list[dict[str, Any]]]] = [
    ("ses_1", {"role": "user"}, [{"type": "text", "text": "Count."}]),
    ("ses_1", _done(0), [{"type": "tool", "tool": "bash", "callID": "call_1", "state": _RAN}]),
    (
        "ses_1",
        _done(1),
        [{"type": "reasoning", "text": "It ran."}, {"type": "text", "text": "There are 42."}],
    ),
    ("ses_2", {"role": "user"}, [{"type": "text", "text": "Say hello."}]),
    ("ses_2", _done(2), [{"type": "text", "text": "Hello."}]),
    ("ses_3", _done(5), [{"type": "text", "text": "Good morning."}]),
    ("ses_3", {**_MODEL, "tokens": {}, "time": {"created": 1_795_830_035_000}}, []),
]
