"""Claude Code: `~/.claude/projects/<project>/<session>.jsonl`, and a file for each sub-agent below
it.

A line of `type` `user` or `assistant` is a message of the conversation. An answer of the model has
a line for each of its blocks, each with the id of the message, that of the request and the usage of
the whole answer: it counts once, by both ids. Lines of tools may stand between them. Newer versions
write down, as `api-request`, when a request was sent and with which parameters. Sub-agents have an
`agentId`; in older versions they were in the file of their session, and known by `isSidechain` and
the line that their conversation began with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, BinaryIO

import msgspec

from recorder.cassettes.sse_jsonl.lines import nanoseconds
from recorder.cassettes.transcripts import DerivedResponse, Transcript
from recorder.wire.dialects.json_values import Object, array, object_, text

SYNTHETIC = "<synthetic>"
"""The model of messages that Claude Code writes itself: that a request failed, or was interrupted.
"""

_OWN_PARAMETERS = frozenset({"betas"})  # of a request as it is written down: they were in a header


class _Answer(msgspec.Struct):
    """An answer as its lines give it, one after another."""

    key: str
    thread: str
    first_ns: int
    began_ns: int
    ended_ns: int
    message: dict[str, Any]
    request: dict[str, Any]
    headers: dict[str, str]
    request_id: str
    is_followed: bool = False

    @property
    def is_settled(self) -> bool:
        """Return whether it has ended: a line of the same conversation follows, or what it ended
        with is there.
        """
        last = object_(self.message["content"][-1]).get("type") if self.message["content"] else None
        is_over = self.message.get("stop_reason") is not None and last not in (
            None,
            "thinking",
            "redacted_thinking",
        )
        return self.is_followed or is_over

    def derived(self) -> DerivedResponse:
        return DerivedResponse(
            key=self.key,
            first_ns=self.first_ns,
            began_ns=self.began_ns,
            ended_ns=self.ended_ns,
            target="/v1/messages",
            request=self.request,
            response=self.message,
            headers=self.headers,
            response_headers={"request-id": self.request_id} if self.request_id else {},
            is_settled=self.is_settled,
        )


class _Thread(msgspec.Struct):
    """What was said in a conversation since its last answer."""

    asked: list[dict[str, Any]] = []
    asked_ns: int | None = None
    last: _Answer | None = None


class ClaudeCode(Transcript):
    """A transcript of Claude Code."""

    agent = "Claude Code"

    def _derived(self, file: BinaryIO) -> Iterable[DerivedResponse]:
        reading = _Reading()
        for number, line in self._lines(file):
            self.name = self.name or text(line, "sessionId") or ""
            try:
                reading.add(line)
            except ValueError as error:
                self._skip(number, str(error))
        return [answer.derived() for answer in reading.answers.values()]


class _Reading:
    """The lines so far."""

    def __init__(self) -> None:
        self.answers: dict[str, _Answer] = {}
        self._threads: dict[str, _Thread] = {}
        # by the id of a request: when, and its parameters
        self._sent: dict[str, tuple[int, Object]] = {}
        # by the id of a line: its thread, the answer up to there
        self._places: dict[str, tuple[str, str | None]] = {}

    def add(self, line: Object) -> None:
        """Read a line. Raises `ValueError` if it has no time."""
        kind, uuid, message = line.get("type"), text(line, "uuid"), object_(line.get("message"))
        if kind == "api-request":
            self._sent[text(line, "id") or ""] = (
                nanoseconds(line.get("timestamp")),
                object_(line.get("params")),
            )
        if uuid is None or uuid in self._places:
            return  # not of the conversation, or a copy of a line
        parent_thread, answered = self._places.get(text(line, "parentUuid") or "", (None, None))
        thread = text(line, "agentId") or ""
        if not thread and line.get("isSidechain") is True:
            thread = parent_thread or uuid
        if kind == "assistant" and message.get("model") != SYNTHETIC:
            answered = self._answer(line, message, thread, answered)
        elif kind == "user":
            self._asked(line, message, thread)
        self._places[uuid] = thread, answered

    def _asked(self, line: Object, message: Object, thread: str) -> None:
        state = self._threads.setdefault(thread, _Thread())
        state.asked_ns = nanoseconds(line.get("timestamp"))
        state.asked.append({"role": "user", "content": message.get("content")})

    def _answer(self, line: Object, message: Object, thread: str, previous: str | None) -> str:
        """Add a line to its answer, and return the id of that."""
        at_ns, state = (
            nanoseconds(line.get("timestamp")),
            self._threads.setdefault(thread, _Thread()),
        )
        request_id = text(line, "requestId") or ""
        id = text(message, "id") or text(line, "uuid") or ""
        key = f"{id}:{request_id}"
        answer = self.answers.get(key)
        if answer is None:
            if state.last is not None:
                state.last.is_followed = True
            began_ns, request = self._request(line, message, state, previous)
            answer = _Answer(
                key=key,
                thread=thread,
                first_ns=at_ns,
                began_ns=min(at_ns, at_ns if began_ns is None else began_ns),
                ended_ns=at_ns,
                message={**message, "content": []},
                request=request,
                headers=_headers(line, thread),
                request_id=request_id,
            )
            self.answers[key] = state.last = answer
            self._threads[thread] = _Thread(last=answer)
        content = [*answer.message["content"], *array(message, "content")]
        answer.message = {**message, "content": content}
        answer.ended_ns = max(answer.ended_ns, at_ns)
        return id

    def _request(
        self, line: Object, message: Object, state: _Thread, previous: str | None
    ) -> tuple[int | None, dict[str, Any]]:
        """Return when a request was sent, if that is known, and its body: what is new in it."""
        sent_ns, parameters = self._sent.get(text(line, "requestRef") or "", (state.asked_ns, {}))
        body = {"model": line.get("requestedModel") or message.get("model")}
        body |= {name: value for name, value in parameters.items() if name not in _OWN_PARAMETERS}
        if previous is not None:
            body["thread"] = {"type": "continue", "previous_message_id": previous}
        return sent_ns, {**body, "messages": state.asked}


def _headers(line: Object, thread: str) -> dict[str, str]:
    """Return the headers by which Claude Code says which session and which sub-agent a request is
    of.
    """
    headers = {"user-agent": f"claude-cli/{text(line, 'version') or ''}".rstrip("/")}
    if session_id := text(line, "sessionId"):
        headers["x-claude-code-session-id"] = session_id
    if thread:
        headers["x-claude-code-agent-id"] = thread
    return headers
