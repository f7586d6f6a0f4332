"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-….jsonl`, in older versions one JSON document
`session-….json`.

A message of `type` `gemini` is a response, and has `tokens` and, once they were run, `toolCalls`
with their results. It may be written several times: the last one counts. `$set`, which repeats all
of them when a session goes on, without tokens and with other times, is not read. Requests that the
CLI makes besides, for its router and its summaries, are not in a transcript.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import msgspec

from recorder.cassettes.calls import check_values, read_whole
from recorder.cassettes.sse_jsonl.lines import nanoseconds
from recorder.cassettes.transcripts import LINE_LIMIT, DerivedResponse, Transcript
from recorder.errors import RecorderError
from recorder.wire.dialects.json_values import (
    Object,
    decoded_or_none,
    object_,
    objects,
    text,
    whole,
)

_TOKENS = {
    "promptTokenCount": "input",
    "cachedContentTokenCount": "cached",
    "candidatesTokenCount": "output",
    "thoughtsTokenCount": "thoughts",
    "toolUsePromptTokenCount": "tool",
    "totalTokenCount": "total",
}


class _Message(msgspec.Struct):
    """A message, the first and the last time that it was written."""

    first_ns: int
    message: Object


class GeminiCli(Transcript):
    """A transcript of Gemini CLI."""

    agent = "Gemini CLI"

    def _derived(self, file: BinaryIO) -> Iterable[DerivedResponse]:
        messages: dict[str, _Message] = {}
        for number, line in self._entries(file):
            self.name = self.name or text(line, "sessionId") or ""
            for message in [line, *objects(line, "messages")]:
                try:
                    _note(messages, message)
                except ValueError as error:
                    self._skip(number, str(error))
        return _responses(self.name, messages.values())

    def _entries(self, file: BinaryIO) -> Iterable[tuple[int, Object]]:
        """Return the lines, or the one document of an older version."""
        file.seek(0)
        if file.readline(LINE_LIMIT).strip() != b"{":
            return self._lines(file)
        document = decoded_or_none(check_values(read_whole(file, ", more than a session has")))
        if not isinstance(document, dict):
            raise RecorderError("it is not the JSON of a session of Gemini CLI, or it was cut off")
        return [(1, document)]


def _note(messages: dict[str, _Message], message: Object) -> None:
    """Add a message; one of a model that has no tokens is a repetition.

    Raises `ValueError` if it has no time.
    """
    id, kind = text(message, "id"), message.get("type")
    if (
        id is None
        or kind not in ("user", "gemini")
        or (kind == "gemini" and not object_(message.get("tokens")))
    ):
        return
    if id in messages:
        messages[id].message = message
    else:
        messages[id] = _Message(nanoseconds(message.get("timestamp")), message)


def _responses(session_id: str, messages: Iterable[_Message]) -> Iterator[DerivedResponse]:
    """Yield the responses, each with what was said since the one before."""
    asked = _Asked()
    for each in messages:
        if each.message.get("type") == "user":
            asked.contents.append({"role": "user", "parts": _parts(each.message.get("content"))})
            asked.at_ns = each.first_ns
            continue
        yield _response(session_id, each, asked)
        asked = _Asked(calls=_calls(each.message), results=_results(each.message))


class _Asked(msgspec.Struct):
    """What was said since the last response, the calls of that, and the results that stand with
    them.
    """

    contents: list[Object] = []
    at_ns: int | None = None
    calls: list[Object] = []
    results: list[Object] = []

    def request(self) -> Object:
        """Return the body of a request.

        It has the calls whose results are in it: they are joined by their place.

        Older versions have the results nowhere but with the calls.
        """
        if not self.calls:
            return {"contents": self.contents}
        contents = [{"role": "model", "parts": self.calls}]
        if self.results and not any(map(_has_response, self.contents)):
            contents.append({"role": "user", "parts": self.results})
        return {"contents": [*contents, *self.contents]}


def _has_response(content: Object) -> bool:
    return any("functionResponse" in part for part in content["parts"])


def _calls(message: Object) -> list[Object]:
    calls: list[Object] = []
    for call in objects(message, "toolCalls"):
        calls.append({"functionCall": {name: call.get(name) for name in ("id", "name", "args")}})
    return calls


def _results(message: Object) -> list[Object]:
    results: list[Object] = []
    for call in objects(message, "toolCalls"):
        results += objects(call, "result")
    return results


def _response(session_id: str, given: _Message, asked: _Asked) -> DerivedResponse:
    message = given.message
    model, tokens, calls = (
        text(message, "model") or "",
        object_(message.get("tokens")),
        _calls(message),
    )
    parts: list[Object] = [
        {"text": _thought(each), "thought": True} for each in objects(message, "thoughts")
    ]
    parts += [*_parts(message.get("content")), *calls]
    usage = {name: whole(tokens, own) for name, own in _TOKENS.items()}
    return DerivedResponse(
        key=f"{session_id} {message['id']}",
        first_ns=given.first_ns,
        began_ns=given.first_ns if asked.at_ns is None else min(asked.at_ns, given.first_ns),
        ended_ns=given.first_ns,
        target=f"/v1beta/models/{model}:generateContent",
        request=asked.request(),
        response={
            "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
            "modelVersion": model,
            "usageMetadata": usage,
        },
        headers={"user-agent": "GeminiCLI"},
        is_settled=bool(message.get("content") or calls),
    )


def _parts(content: Any) -> list[Object]:
    """Return the parts of a message, whose content is a text or a list of parts."""
    if isinstance(content, str):
        return [{"text": content}] if content else []
    return objects(content)


def _thought(thought: Object) -> str:
    """Return a thought as the API sends it: its subject in bold before it."""
    subject, description = text(thought, "subject"), text(thought, "description") or ""
    return f"**{subject}**\n{description}" if subject else description
