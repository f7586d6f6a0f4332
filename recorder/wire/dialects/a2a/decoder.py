"""Responses of A2A → facts: messages and artifacts are items, and the states of a task are steps
and an end.

A piece of an artifact that is appended goes on with its item; any other piece is the artifact anew.
Earlier messages of a task (`history`) are those of other responses, and of the request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from recorder.model.facts import (
    ErrorReported,
    Fact,
    Field,
    ItemFinished,
    ItemStarted,
    ItemState,
    MalformedPayload,
    ResponseFinished,
    TextAdded,
    ToolProgress,
    UnknownType,
)
from recorder.wire.dialects.decoder import Facts, JsonDecoder, failed
from recorder.wire.dialects.dialect import Ending
from recorder.wire.dialects.json_values import Object, as_json, flag, object_, objects, text
from recorder.wire.dialects.media import digested, without_bytes

REST = re.compile(
    r"^POST /(?:.*/)?message:(?:send|stream)$|^(?:GET|POST) /(?:.*/)?tasks/[^/:]+:(?:cancel|subscribe)$"
)
"""The requests over REST that no other API has: what answers them is a result, in no response of
JSON-RPC.
"""

Kind = Literal["task", "message", "status-update", "artifact-update"]

MEMBERS_OF: Mapping[str, Kind] = {
    "task": "task",
    "message": "message",
    "statusUpdate": "status-update",
    "artifactUpdate": "artifact-update",
}
"""The members of a result in version 1.0, and what 0.3 calls them."""

_BY_MEMBERS: Mapping[Kind, tuple[str, ...]] = {
    "message": ("messageId",),
    "artifact-update": ("artifact",),
    "status-update": ("taskId", "status"),
    "task": ("status",),
}
"""What a result is that has all of these members, and no kind."""

ENDINGS: Mapping[str, Ending] = {
    "completed": "completed",
    "input-required": "completed",
    "auth-required": "completed",
    "canceled": "incomplete",
    "rejected": "failed",
    "failed": "failed",
}
"""The states with which a stream ends; those that ask for something end it too, and not the task.
"""

ARTIFACT = "artifact"
"""The type of its item, and the phase: by that it is told from the messages of the task."""

Texts = tuple[tuple[Field, int, str], ...]


def state_of(given: str | None) -> str | None:
    """Return a state in the words of version 0.3: `TASK_STATE_INPUT_REQUIRED` is `input-required`.

    Over REST that version has its own: `TASK_STATE_CANCELLED`.
    """
    if not given:
        return None
    state = given.removeprefix("TASK_STATE_").lower().replace("_", "-")
    return "canceled" if state == "cancelled" else state


class A2aDecoder(JsonDecoder):
    """Follows the tasks of one stream; documents have one result."""

    def __init__(self) -> None:
        self._parts: dict[str, int] = {}  # of each artifact, how many there are
        self._open: dict[str, ItemState] = {}  # artifacts that may go on, by id

    def payload(self, type: str | None, payload: Any) -> Facts:
        if not isinstance(payload, dict):
            return (MalformedPayload("a response is not a JSON object"),)
        if payload.get("error"):
            return (failed(payload),)
        kind, of = told(result_of(payload))
        match kind:
            case "task":
                return self._task(of)
            case "message":
                return [
                    *self._begun(text(of, "messageId"), None),
                    *_message(of, None),
                    *_finished("completed"),
                ]
            case "status-update":
                return [
                    *self._begun(text(of, "taskId"), None),
                    *self._status(object_(of, "status")),
                ]
            case "artifact-update":
                is_more = flag(of, "append") or False
                facts = self._artifact(
                    object_(of, "artifact"), is_more=is_more, is_last=flag(of, "lastChunk") or False
                )
                return [*self._begun(text(of, "taskId"), None), *facts]
        return (UnknownType(kind or "(no kind)"),)

    def whole(self, payload: Any) -> Facts:
        """Decode a document: those about cards, lists and notices have nothing of a task."""
        facts = [fact for fact in self.payload(None, payload) if not isinstance(fact, UnknownType)]
        return [*facts, *self._closed([*self._open])]

    def _task(self, task: Object) -> Facts:
        facts: list[Fact] = [*self._begun(text(task, "id"), None)]
        for artifact in objects(task, "artifacts"):
            # its pieces may go on behind this
            facts += self._artifact(artifact, is_more=False, is_last=False)
        return [*facts, *self._status(object_(task, "status"))]

    def _artifact(self, artifact: Object, *, is_more: bool, is_last: bool) -> list[Fact]:
        id = text(artifact, "artifactId") or ""
        stated = ItemState(
            "message", ARTIFACT, id, "assistant", phase=ARTIFACT, name=text(artifact, "name")
        )
        first = self._parts.get(id, 0) if is_more else 0
        texts = _texts(artifact, first)
        facts: list[Fact] = [] if id in self._parts else [ItemStarted(_key(id), None, stated)]
        if first or id not in self._parts:
            facts += [TextAdded(_key(id), field, part, said) for field, part, said in texts]
        else:
            facts.append(ItemFinished(_key(id), None, msgspec.structs.replace(stated, texts=texts)))
        self._parts[id] = first + len(texts)
        self._open[id] = stated
        return [*facts, *self._closed([id] if is_last else [])]

    def _closed(self, ids: Iterable[str]) -> list[Fact]:
        return [ItemFinished(_key(id), None, self._open.pop(id)) for id in ids]

    def _status(self, status: Object) -> Sequence[Fact]:
        """Return the message of a status, and what its state means.

        The message of a failure is its error.
        """
        state = state_of(text(status, "state")) or ""
        message = object_(status, "message")
        facts = list(_message(message, state)) if message else []
        if state not in ENDINGS:
            return [*facts, ToolProgress("task", state)]
        if ENDINGS[state] == "failed":
            said = "".join(text for _, _, text in _texts(message, 0))
            facts.append(ErrorReported(state, message=said or None))
        return [*facts, *self._closed([*self._open]), *_finished(state)]


def _key(artifact_id: str) -> str:
    return f"artifact {artifact_id}"


def told(result: Object) -> tuple[str | None, Object]:
    """Return what a result is, in the word of version 0.3.

    Some servers of that leave it out, as 1.0 does of a task.
    """
    kind = text(result, "kind")
    if kind is not None:
        return kind, result
    for member, name in MEMBERS_OF.items():
        if isinstance(result.get(member), dict):
            return name, result[member]
    for name, members in _BY_MEMBERS.items():
        if all(member in result for member in members):
            return name, result
    return None, result


def result_of(response: Object) -> Object:
    """Return the result of a response of JSON-RPC; over REST there is nothing around it."""
    return (
        object_(response, "result") if "jsonrpc" in response or "result" in response else response
    )


def _finished(state: str) -> Sequence[Fact]:
    ending = ENDINGS[state]
    return (ResponseFinished(state, None if ending == "completed" else ending),)


def _message(message: Object, phase: str | None) -> Sequence[Fact]:
    id = text(message, "messageId") or ""
    stated = ItemState("message", "message", id, "assistant", phase=phase, texts=_texts(message, 0))
    key = f"message {id}"
    return ItemStarted(key, None, msgspec.structs.replace(stated, texts=())), ItemFinished(
        key, None, stated
    )


def _texts(holder: Object, first: int) -> Texts:
    """Return the parts of a message or an artifact, from a number on; one that is not a text as
    JSON.
    """
    found: list[tuple[Field, int, str]] = []
    for number, part in enumerate(parts_of(holder), first):
        found.append(("text", number, _said(part)))
    return tuple(found)


def parts_of(holder: Object) -> Sequence[Object]:
    """Return the parts of a message or an artifact.

    Version 0.3 calls those of a message `content` over REST.
    """
    return objects(holder, "parts") or objects(holder, "content")


def _said(part: Object) -> str:
    said = text(part, "text")
    if said is not None:
        return said
    if "data" in part:
        return as_json(without_bytes(part["data"]))
    data = text(part, "raw") or text(part, "file", "bytes")
    named = {**object_(part, "file"), **part}
    about = {
        name: named[name]
        for name in ("filename", "name", "mediaType", "mimeType", "url", "uri")
        if name in named
    }
    return as_json({**about, **digested(data)} if data else about)
