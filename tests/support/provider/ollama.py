"""Ollama's own API: `POST /api/chat`, streamed unless the request says otherwise. Each event is a
line of JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tests.support.provider.dice import Dice
from tests.support.provider.play import (
    Dialect,
    Json,
    Play,
    compact,
    conversation,
    listed,
    number,
    piece,
)
from tests.support.provider.prompt_cache import RenderedPrompt
from tests.support.provider.reply import DemoReply, timed, whole
from tests.support.provider.scripts import (
    Fail,
    FunctionCall,
    Part,
    Prompt,
    Refuse,
    Say,
    Search,
    Think,
)

_REFUSALS = {
    400: "the request asked to be refused",
    401: "unauthorized",
    404: "model 'none' not found",
    429: "you have reached your hourly usage limit, please upgrade to continue",
    500: "an error was encountered while running the model",
}
_JSON = (("content-type", "application/json; charset=utf-8"),)
_LINES = (("content-type", "application/x-ndjson"),)


def refuse(dice: Dice, status: int, message: str | None = None) -> DemoReply:
    return whole(compact({"error": message or _REFUSALS[status]}).encode(), _JSON, status)


def prompt_of(body: Json) -> Prompt:
    """Read the prompt from `messages`; results are the messages of tools at their end."""
    messages = listed(conversation(body, "messages"))
    if isinstance(body.get("messages"), str):
        raise ValueError("json: cannot unmarshal string into Go struct field ChatRequest.messages")
    results: list[str] = []
    for message in reversed(messages):
        if message.get("role") != "tool":
            break
        results.insert(0, str(message.get("content")))
    asked = [message.get("content") for message in messages if message.get("role") == "user"]
    format = body.get("format")
    return Prompt(
        str(asked[-1]) if asked else "",
        results,
        schema=format if isinstance(format, dict) else None,
        most_tokens=number((body.get("options") or {}).get("num_predict")),
    )


def render(body: Json) -> RenderedPrompt:
    values = [*listed(body.get("tools")), *listed(body.get("messages"))]
    return RenderedPrompt("ollama", [piece(value) for value in values])


DIALECT = Dialect(prompt_of, refuse, render)


def create(play: Play) -> DemoReply:
    """Answer with a message, streamed or whole."""
    turn = ChatTurn(play)
    if play.body.get("stream", True):
        frames = ((pause_s, compact(line).encode() + b"\n") for pause_s, line in turn.lines)
        return DemoReply(200, _LINES, timed(frames))
    if turn.has_failed:
        return refuse(play.dice, 500)
    at_s = sum(pause_s for pause_s, _ in turn.lines)
    return whole(compact(turn.document()).encode(), _JSON, at_s=at_s)


class ChatTurn:
    """One answer while it is generated: its lines with the pauses before them, and its message."""

    def __init__(self, play: Play) -> None:
        self.dice = play.dice
        self.lines: list[tuple[float, Json]] = []
        self.has_failed = False
        self.message: Json = {"role": "assistant", "content": ""}
        self._model = play.required("model")
        self._at_s = 0.0
        for part in play.script.parts:
            _PARTS[type(part)](self, part)
        if not self.has_failed:
            self._end(play)

    def say(self, pause_s: float, **said: Any) -> None:
        self._at_s += pause_s
        self.lines.append(
            (pause_s, {**self._head(), "message": {"role": "assistant", "content": "", **said}})
        )
        self.lines[-1][1]["done"] = False

    def fail(self, message: str) -> None:
        self.has_failed = True
        self.lines.append((self.dice.pause("think"), {"error": message}))

    def document(self) -> Json:
        last = self.lines[-1][1]
        return {**last, "message": self.message}

    def _head(self) -> Json:
        now = datetime.fromtimestamp(self.dice.created + self._at_s, UTC)
        return {"model": self._model, "created_at": now.isoformat().replace("+00:00", "Z")}

    def _end(self, play: Play) -> None:
        used, ns = play.usage, round(self._at_s * 1e9)
        durations = {
            "total_duration": ns + 9_000_000,
            "load_duration": 4_000_000,
            "prompt_eval_duration": 5_000_000,
        }
        counts = {
            "prompt_eval_count": used.input,
            "eval_count": used.output,
            "eval_duration": ns,
            **durations,
        }
        reason = "length" if play.script.is_cut else "stop"
        message = {"role": "assistant", "content": ""}
        self.lines.append(
            (
                0.0,
                {**self._head(), "message": message, "done": True, "done_reason": reason, **counts},
            )
        )


def _think(turn: ChatTurn, part: Think) -> None:
    thought = "\n\n".join(part.summaries)
    for pause_s, delta in turn.dice.deltas(thought, most=3):
        turn.say(pause_s, thinking=delta)
    turn.message["thinking"] = thought


def _say(turn: ChatTurn, part: Say | Refuse) -> None:
    for pause_s, delta in turn.dice.deltas(part.text):
        turn.say(pause_s, content=delta)
    turn.message["content"] += part.text


def _call(turn: ChatTurn, part: FunctionCall) -> None:
    calls = turn.message.setdefault("tool_calls", [])
    function = {"index": len(calls), "name": part.name, "arguments": part.arguments}
    calls.append({"id": turn.dice.name("call_", 8).lower(), "function": function})
    turn.say(turn.dice.pause("think"), tool_calls=calls[-1:])


_PARTS: dict[type[Part], Callable[[ChatTurn, Any], None]] = {
    Think: _think,
    Say: _say,
    Refuse: _say,
    FunctionCall: _call,
    Search: lambda turn, part: None,
    Fail: lambda turn, part: turn.fail(part.message),
}
