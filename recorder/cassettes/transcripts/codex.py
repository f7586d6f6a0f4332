"""Codex: `~/.codex/sessions/<year>/<month>/<day>/rollout-….jsonl`, a file for each thread, those of
sub-agents too.

A `response_item` is an item of the Responses API: what the model said, or what it is told next. A
response ends with its usage: `token_usage_record`, which has its id, or in older versions
`token_count`, which is repeated when only limits have changed. Newer versions write both, one after
the other. A turn that was broken off has no usage.

The file of a thread that was forked from another one, as sub-agents may be, can begin with a copy
of the history of that, in some versions with new times. A turn of it has an older id than the
thread: both are UUIDs of version 7.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, BinaryIO

import msgspec

from recorder.cassettes.sse_jsonl.lines import nanoseconds
from recorder.cassettes.transcripts import DerivedResponse, Transcript
from recorder.wire.dialects.json_values import Object, as_json, names, object_, text, whole, without
from recorder.wire.upstreams import KNOWN

_TURNS = names("task_started turn_started turn_aborted")
"""Events of a turn that begins or is broken off: a response that has no usage yet gets none."""

_BESIDES = names("additional_tools")
"""Items that are neither said nor asked."""

_OWN = names("internal_chat_message_metadata_passthrough")
"""Members that Codex adds to an item."""

_TIMED = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
"""Ids which are in the order of their times."""

_COPYING_NS = 10**9
"""How long a copy of a history takes, in versions whose turns have no such ids: the first second is
taken for it.
"""


class _Response(msgspec.Struct):
    """A response that is not over, and what was asked before it."""

    asked: list[Object] = []
    asked_ns: int | None = None
    output: list[Object] = []
    first_ns: int | None = None
    ended_ns: int = 0
    next_asked: list[Object] = []  # results that came before it had ended
    next_ns: int | None = None


class Codex(Transcript):
    """A transcript of Codex."""

    agent = "Codex"

    def _derived(self, file: BinaryIO) -> Iterable[DerivedResponse]:
        reading = _Reading()
        for number, line in self._lines(file):
            try:
                reading.add(line)
            except ValueError as error:
                self._skip(number, str(error))
        self.name = reading.session_id
        reading.end(None, {}, is_settled=False)
        return reading.responses


class _Reading:
    """The lines so far."""

    def __init__(self) -> None:
        self.responses: list[DerivedResponse] = []
        self._meta: Object = {}
        self._thread = ""
        self._began_ns = 0
        # whether the lines are those of the thread from which this one was forked
        self._is_copy = False
        self._turn: Object = {}
        self._open = _Response()
        self._previous_id: str | None = None
        self._total: Object | None = None
        self._recorded = 0  # reports of usage that a `token_count` will repeat

    @property
    def session_id(self) -> str:
        """Return the id of the session that the thread is of: that of the thread which began it."""
        given = [text(self._meta, name) for name in ("session_id", "parent_thread_id", "id")]
        return next(filter(None, given), "")

    def add(self, line: Object) -> None:
        """Read a line. Raises `ValueError` if it has no time."""
        kind, payload = line.get("type"), object_(line.get("payload"))
        if kind == "session_meta":
            self._began(payload, nanoseconds(line.get("timestamp")))
        elif kind == "turn_context":
            self._turn = payload
        if self._is_copied(text(payload, "turn_id") or "", line):
            return
        if kind == "compacted":
            self._previous_id = None
        elif kind == "response_item":
            self._item(payload, nanoseconds(line.get("timestamp")))
        elif kind == "token_usage_record":
            self._recorded += 1
            self.end(text(payload, "response_id"), object_(payload.get("usage")))
        elif kind == "event_msg" and text(payload, "type") == "token_count":
            self._counted(object_(payload.get("info")))
        elif kind == "event_msg" and text(payload, "type") in _TURNS:
            self.end(None, {})

    def _began(self, meta: Object, at_ns: int) -> None:
        """Take what is said of the thread first; that of the one from which it was forked may
        follow.
        """
        if self._meta:
            self._is_copy = meta.get("id") != self._thread
            return
        self._meta, self._thread, self._began_ns = meta, text(meta, "id") or "", at_ns
        self._is_copy = meta.get("forked_from_id") is not None

    def _is_copied(self, turn_id: str, line: Object) -> bool:
        """Return whether a line is of the history of another thread."""
        if _TIMED.fullmatch(turn_id):
            self._is_copy = turn_id < self._thread
        elif self._is_copy and not _TIMED.fullmatch(text(self._turn, "turn_id") or ""):
            self._is_copy = nanoseconds(line.get("timestamp")) < self._began_ns + _COPYING_NS
        return self._is_copy

    def _item(self, item: Object, at_ns: int) -> None:
        kind, state = str(item.get("type")), self._open
        if kind in _BESIDES:
            return
        item = without(item, _OWN)
        is_said = kind == "reasoning" or kind.endswith("_call") or item.get("role") == "assistant"
        if is_said:
            state.output.append(item)
            state.first_ns, state.ended_ns = state.first_ns or at_ns, at_ns
        elif state.first_ns is None:
            state.asked.append(item)
            state.asked_ns = at_ns
        else:
            state.next_asked.append(item)
            state.next_ns = at_ns

    def _counted(self, info: Object) -> None:
        """Take a report that is not a repetition as the end of a response."""
        total = object_(info.get("total_token_usage"))
        is_repeated = total == self._total
        self._total = total
        if self._recorded:
            self._recorded -= 1
        elif info and not is_repeated:
            self.end(None, object_(info.get("last_token_usage")))

    def end(self, id: str | None, usage: Object, *, is_settled: bool = True) -> None:
        """End the response, if there is one."""
        state = self._open
        if state.first_ns is None:
            return
        thread, number = self._thread, len(self.responses)
        asked_ns = state.first_ns if state.asked_ns is None else state.asked_ns
        provider = text(self._meta, "model_provider")
        self.responses.append(
            DerivedResponse(
                key=f"{thread} {id or number}",
                first_ns=state.first_ns,
                began_ns=min(asked_ns, state.first_ns),
                ended_ns=state.ended_ns,
                target="/v1/responses",
                request=self._request(state),
                response=self._response(state, id, usage),
                headers=self._headers(thread),
                upstream=provider if provider in KNOWN else None,
                is_settled=is_settled,
            )
        )
        self._previous_id = id
        self._open = _Response(asked=state.next_asked, asked_ns=state.next_ns)

    def _request(self, state: _Response) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._turn.get("model")}
        if effort := text(self._turn, "effort"):
            body["reasoning"] = {"effort": effort}
        if self._previous_id is not None:
            body["previous_response_id"] = self._previous_id
        return {**body, "input": state.asked}

    def _response(self, state: _Response, id: str | None, usage: Object) -> dict[str, Any]:
        document: dict[str, Any] = {
            "object": "response",
            "model": self._turn.get("model"),
            "output": state.output,
        }
        if id is not None:
            document["id"] = id
        if not usage:
            return {**document, "status": "incomplete"}
        return {**document, "status": "completed", "usage": _usage(usage)}

    def _headers(self, thread: str) -> dict[str, str]:
        """Return the headers by which Codex says which session and which thread a request is of."""
        originator = text(self._meta, "originator") or "codex"
        metadata = {
            "thread_id": thread,
            "turn_id": self._turn.get("turn_id"),
            "thread_source": "user",
        }
        headers = {"session-id": self.session_id, "thread-id": thread, "originator": originator}
        if parent := text(self._meta, "parent_thread_id") or _spawned_by(self._meta):
            headers["x-codex-parent-thread-id"] = parent
            metadata["thread_source"] = "subagent"
        headers["x-codex-turn-metadata"] = as_json(metadata)
        return {
            **headers,
            "user-agent": f"{originator}/{text(self._meta, 'cli_version') or ''}".rstrip("/"),
        }


def _spawned_by(meta: Object) -> str | None:
    """Return the thread that began a sub-agent, where older versions say it."""
    return text(object_(meta, "source", "subagent", "thread_spawn"), "parent_thread_id")


def _usage(usage: Object) -> dict[str, Any]:
    """Return a report as the Responses API has it."""
    input_details = {"cached_tokens": whole(usage, "cached_input_tokens")}
    if usage.get("cache_write_input_tokens"):
        input_details["cache_write_tokens"] = whole(usage, "cache_write_input_tokens")
    return {
        "input_tokens": whole(usage, "input_tokens"),
        "input_tokens_details": input_details,
        "output_tokens": whole(usage, "output_tokens"),
        "output_tokens_details": {"reasoning_tokens": whole(usage, "reasoning_output_tokens")},
        "total_tokens": whole(usage, "total_tokens"),
    }
