"""A conversation as chat messages, put together item by item. Pure.

    {"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "tool_calls": […]}, …], "tools": […]}

The form is OpenAI's (the page "Supervised fine-tuning", and the reference of Chat Completions).
Rules of this file:

* What has no place in it is lost, and counted by what it is. Nothing is left out without that.
* A message of the assistant has the texts and the calls of one answer: calls come after the text.
* Each call has a result and each result a call, except for calls at the end: others are lost.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal

from recorder.wire.dialects.canonical import canonical
from recorder.wire.dialects.json_values import as_json, without_nulls
from recorder.wire.grouping.history import ModelAnswer

Message = dict[str, Any]

CallKey = Literal["ids", "arguments"]
"""The part of calls by which a repeated message is recognized."""

_SYSTEM = ("system", "developer")
INPUT = "input"
"""The argument of a function that is written for a tool which takes free text."""

_FREE_TEXT = {"type": "object", "properties": {INPUT: {"type": "string"}}, "required": [INPUT]}


class ChatConversation:
    """The messages of a conversation. `losses` counts what they do not have, by noun."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.tools: list[dict[str, Any]] = []
        self.parallel: bool | None = None
        self.losses = Counter[str]()
        self._made_ids = set[str]()  # of calls that have none: Gemini's

    # -- the request

    def function(self, name: Any, description: Any, parameters: Any, *, strict: Any = None) -> None:
        """Add a tool of the client, in place of an earlier one of that name."""
        about = {
            "name": name,
            "description": description,
            "parameters": parameters,
            "strict": strict,
        }
        function = without_nulls(about)
        self.tools = [each for each in self.tools if each["function"]["name"] != name]
        self.tools.append({"type": "function", "function": function})

    def free_text_tool(self, name: Any, description: Any) -> None:
        """Add a tool that takes text: as a function with one argument."""
        self.losses["tools that take free text, written as functions"] += 1
        self.function(name, description, _FREE_TEXT)

    def lose(self, noun: str, count: int = 1) -> None:
        """Count something that has no place in a chat message."""
        self.losses[noun] += count

    def system(self, role: str, text: str) -> None:
        """Add instructions. An empty text adds nothing."""
        if text:
            self.messages.append({"role": role, "content": text})

    def user(self, parts: Sequence[Mapping[str, Any]]) -> None:
        """Add a message of the user; parts are those of Chat Completions, one text alone is written
        as text.
        """
        if parts:
            texts = [part["text"] for part in parts if part["type"] == "text"]
            content = texts[0] if len(texts) == len(parts) == 1 else list(parts)
            self.messages.append({"role": "user", "content": content})

    def result(self, call_id: str | None, text: str) -> None:
        """Add the result of a call."""
        self.messages.append({"role": "tool", "tool_call_id": call_id or "", "content": text})

    def waiting_call(self, name: Any) -> str | None:
        """Return the id of the first call of a tool that has no result."""
        answered = {
            message["tool_call_id"] for message in self.messages if message["role"] == "tool"
        }
        for message in self.messages:
            for call in message.get("tool_calls", ()):
                if call["function"]["name"] == name and call["id"] not in answered:
                    return str(call["id"])
        return None

    # -- the model

    def said(self, text: str, *, goes_on: bool = False) -> None:
        """Add a text of the model.

        `goes_on`: it is a part of the message before, if that is the model's.
        """
        if not text:
            return
        last = self._last_answer()
        if last is not None and (goes_on or last.get("tool_calls")):
            before = last["content"] or ""
            last["content"] = before + ("" if goes_on or not before else "\n\n") + text
            return
        self.messages.append({"role": "assistant", "content": text})

    def called(self, call_id: str | None, name: Any, arguments: str) -> None:
        """Add a call; `arguments` are JSON.

        One without an id gets one by its number in the conversation.
        """
        last = self._last_answer()
        if last is None:
            last = {"role": "assistant", "content": None}
            self.messages.append(last)
        if not call_id:
            call_id = (
                f"call_{sum(len(message.get('tool_calls', ())) for message in self.messages) + 1}"
            )
            self._made_ids.add(call_id)
        function = {"name": str(name), "arguments": arguments or "{}"}
        last.setdefault("tool_calls", []).append(
            {"id": call_id, "type": "function", "function": function}
        )

    def called_with_text(self, call_id: str | None, name: Any, text: str) -> None:
        """Add a call of a tool that takes free text."""
        self.losses["calls with free text, written as an argument"] += 1
        self.called(call_id, name, as_json({INPUT: text}))

    def _last_answer(self) -> Message | None:
        return (
            self.messages[-1]
            if self.messages and self.messages[-1]["role"] == "assistant"
            else None
        )

    # -- all of it

    def finished(self) -> dict[str, Any]:
        """Return the conversation as one line of the file has it: calls and results in pairs."""
        self._pair()
        line: dict[str, Any] = {"messages": self.messages}
        if self.tools:
            line["tools"] = self.tools
            line |= {} if self.parallel is None else {"parallel_tool_calls": self.parallel}
        return line

    @property
    def is_answered(self) -> bool:
        """Return whether the last word is the model's."""
        return self._last_answer() is not None

    def _pair(self) -> None:
        """Leave out results without a call right before them, and calls without a result."""
        kept: list[Message] = []
        for at, message in enumerate(self.messages):
            if message["role"] == "tool":
                self._keep_result(kept, message)
                continue
            if message.get("tool_calls") and at + 1 < len(self.messages):
                message = self._with_results(message, self.messages[at + 1 :])
            if message["role"] != "assistant" or message["content"] or message.get("tool_calls"):
                kept.append(message)
        self.messages = kept

    def _keep_result(self, kept: list[Message], result: Message) -> None:
        answered = set[str]()
        for before in reversed(kept):
            if before["role"] != "tool":
                waiting = {call["id"] for call in before.get("tool_calls", ())} - answered
                break
            answered.add(before["tool_call_id"])
        else:
            waiting = set[str]()
        if result["tool_call_id"] in waiting:
            kept.append(result)
        else:
            self.losses["results without their call"] += 1

    def _with_results(self, message: Message, later: Sequence[Message]) -> Message:
        found = set()
        for each in later:
            if each["role"] != "tool":
                break
            found.add(each["tool_call_id"])
        calls = [call for call in message["tool_calls"] if call["id"] in found]
        self.losses["calls without their result"] += len(message["tool_calls"]) - len(calls)
        kept = {**message, "tool_calls": calls}
        return (
            kept if calls else {name: each for name, each in kept.items() if name != "tool_calls"}
        )

    def digest(self, by: CallKey) -> bytes:
        """Return the digest of all messages."""
        return next(iter(deque(self.digests(by), maxlen=1)), b"")

    def digests(self, by: CallKey) -> Iterator[bytes]:
        """Yield a digest for each message, of all up to it, in a form that is the same when a
        client repeats them.

        Left out is what clients change from request to request: instructions and white space around
        texts. Of a call they may change the id or, where a schema of theirs fills in or drops
        fields, the arguments, but not both.
        """
        digest = by.encode()
        for message in self.messages:
            if message["role"] not in _SYSTEM:
                digest = sha256(digest + canonical(self._compared(message, by))).digest()
                yield digest

    def _compared(self, message: Message, by: CallKey) -> Any:
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(map(_text_or_json, content))
        answer = ModelAnswer()
        for call in message.get("tool_calls", ()):
            has_id = by == "ids" and call["id"] not in self._made_ids
            answer.call(
                call["function"]["name"], call["id"] if has_id else call["function"]["arguments"]
            )
        return [message["role"], (content or "").strip(), answer.calls]


def _text_or_json(part: Mapping[str, Any]) -> str:
    return part["text"] if part["type"] == "text" else as_json(part)
