"""opencode: `~/.local/share/opencode/opencode.db`, a database of SQLite with all of its sessions.

In older versions `storage/` beside it, with a file for each of them:
`session/PROJECT/SESSION.json`, `message/SESSION/MESSAGE.json` and `part/MESSAGE/PART.json`. Their
names are the ids, in the order of their times.

A message of the assistant is a response: its parts are texts, reasoning and calls of tools with
their results, and its tokens count input without what was cached, and output without reasoning.
opencode speaks with any provider and does not keep in which format, so a response is a document of
Chat Completions. A session with a `parent_id` is a sub-agent. A message without the time of its end
is still being written, or was broken off without tokens.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from copy import copy
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from recorder.cassettes.calls import ImportedCall
from recorder.cassettes.transcripts import LINE_LIMIT, DerivedResponse, Transcript
from recorder.errors import RecorderError
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    decoded_or_none,
    object_,
    text,
    whole,
)
from recorder.wire.upstreams import KNOWN

NS_IN_MS = 1_000_000

_UPSTREAMS: Mapping[str, str] = {"google": "gemini"}
"""Providers that have another name there than here."""

_SESSIONS = "SELECT id, parent_id, version FROM session"
_MESSAGES = "SELECT id, session_id, data FROM message ORDER BY session_id, time_created, id"
_PARTS = "SELECT message_id, data FROM part ORDER BY message_id, id"

_ID = re.compile(r"ses_\w+")


class _Session(NamedTuple):
    id: str
    parent_id: str | None
    version: str


class _Message(NamedTuple):
    id: str
    session_id: str
    data: Object
    parts: Sequence[Object]


class OpenCode(Transcript):
    """All sessions of opencode.

    Each of them, with its sub-agents, is a transcript of its own: see `parts`.
    """

    agent = "opencode"

    def __init__(self, file: BinaryIO) -> None:
        """Raises `RecorderError` if it is another database, or cannot be read."""
        self._names: dict[str, str] = {}  # by the id of an exchange: the session that it belongs to
        super().__init__(file)

    def _derived(self, file: BinaryIO) -> Iterable[DerivedResponse]:
        name = getattr(file, "name", None)
        if not isinstance(name, str | Path):
            raise RecorderError("it is read together with the files beside it: name it as a file")
        path = Path(name).absolute()
        sessions, messages = _in_files(path) if path.suffix == ".json" else _in_database(path)
        for session_id, said in groupby(messages, key=_session_of):
            session = sessions.get(session_id) or _Session(session_id, None, "")
            yield from _responses(session, _root(session_id, sessions), said)

    def _call(self, derived: DerivedResponse) -> ImportedCall:
        call = super()._call(derived)
        self._names[call.id or ""] = derived.session_id
        return call

    def parts(self) -> list[Transcript]:
        """Return the sessions one by one."""
        parts: list[Transcript] = []
        for name in dict.fromkeys(self._names.values()):
            part = copy(self)
            part.name = name
            part._calls = [call for call in self._calls if self._names[call.id or ""] == name]
            parts.append(part)
        return parts


def _session_of(message: _Message) -> str:
    return message.session_id


_Kept = tuple[Mapping[str, _Session], Sequence[_Message]]


def _in_database(path: Path) -> _Kept:
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            sessions = {row[0]: _Session(*row) for row in connection.execute(_SESSIONS)}
            return sessions, list(_messages(connection))
    except sqlite3.Error as error:
        raise RecorderError(
            f"it is not a database of opencode that can be read: {error}"
        ) from error


def _in_files(path: Path) -> _Kept:
    """Return the session of a file with its messages, and those that it is a sub-agent of, if they
    are there.
    """
    storage, sessions = path.parent.parent.parent, dict[str, _Session]()
    wanted: Path | None = path
    while wanted is not None and wanted.stem not in sessions:
        given = _document_in(wanted)
        parent_id = text(given, "parentID") or ""
        sessions[wanted.stem] = _Session(
            wanted.stem, parent_id or None, text(given, "version") or ""
        )
        wanted = (
            next(storage.glob(f"session/*/{parent_id}.json"), None)
            if _ID.fullmatch(parent_id)
            else None
        )
    messages = []
    for place in sorted(storage.glob(f"message/{path.stem}/*.json")):
        parts = [_document_in(part) for part in sorted(storage.glob(f"part/{place.stem}/*.json"))]
        messages.append(_Message(place.stem, path.stem, _document_in(place), parts))
    return sessions, messages


def _document_in(path: Path) -> Object:
    """Return what a file has. Raises `OSError`; one that is not JSON has nothing."""
    with path.open("rb") as file:
        return object_(decoded_or_none(file.read(LINE_LIMIT)))


def _messages(connection: sqlite3.Connection) -> Iterator[_Message]:
    """Yield the messages of each session in order, with their parts."""
    parts: dict[str, list[Object]] = {}
    for message_id, data in connection.execute(_PARTS):
        parts.setdefault(message_id, []).append(_object(data))
    for id, session_id, data in connection.execute(_MESSAGES):
        yield _Message(id, session_id, _object(data), parts.get(id, ()))


def _object(data: Any) -> Object:
    return (
        object_(decoded_or_none(data.encode("utf-8", "surrogatepass")))
        if isinstance(data, str)
        else {}
    )


def _root(id: str, sessions: Mapping[str, _Session]) -> str:
    """Return the session that began a session, or the one that began that, and so on."""
    seen = {id}
    while (
        (session := sessions.get(id)) is not None
        and session.parent_id
        and session.parent_id not in seen
    ):
        id = session.parent_id
        seen.add(id)
    return id


def _responses(
    session: _Session, root: str, messages: Iterable[_Message]
) -> Iterator[DerivedResponse]:
    """Yield the responses of a session, each with what was said since the one before."""
    asked: list[Object] = []
    for message in messages:
        if message.data.get("role") == "user":
            asked.append({"role": "user", "content": _said(message.parts, "text")})
            continue
        completed_ms = whole(message.data, "time", "completed")
        if completed_ms is not None:
            yield _response(session, root, message, asked, completed_ms)
        asked = _results(message.parts)


def _response(
    session: _Session, root: str, message: _Message, asked: list[Object], completed_ms: int
) -> DerivedResponse:
    data, model = message.data, text(message.data, "modelID") or ""
    provider = text(data, "providerID") or ""
    created_ms = whole(data, "time", "created")
    began_ns = (completed_ms if created_ms is None else created_ms) * NS_IN_MS
    headers = {"user-agent": f"opencode/{session.version}", "x-session-id": session.id}
    if session.id != root:
        headers["x-parent-session-id"] = root
    return DerivedResponse(
        key=message.id,
        session_id=root,
        first_ns=began_ns,
        began_ns=began_ns,
        ended_ns=_said_until_ms(message.parts, completed_ms) * NS_IN_MS,
        target="/v1/chat/completions",
        request={"model": model, "messages": asked},
        response=_document(message, model),
        headers=headers,
        upstream=_UPSTREAMS.get(provider, provider if provider in KNOWN else None),
    )


def _document(message: _Message, model: str) -> Object:
    said: dict[str, Any] = {"role": "assistant", "content": _said(message.parts, "text") or None}
    if reasoning := _said(message.parts, "reasoning"):
        said["reasoning_content"] = reasoning
    if calls := [*_calls(message.parts)]:
        said["tool_calls"] = calls
    finish = text(message.data, "finish")
    # `tool-calls` in the SDK that opencode is made of
    reason = None if finish is None else finish.replace("-", "_")
    choice = {"index": 0, "message": said, "finish_reason": reason}
    usage = _usage(object_(message.data.get("tokens")))
    return {
        "id": message.id,
        "object": "chat.completion",
        "model": model,
        "choices": [choice],
        "usage": usage,
    }


def _usage(tokens: Object) -> Object:
    """Return counts as Chat Completions have them: what was cached and what was thought is a part
    of the others.
    """
    read, written = whole(tokens, "cache", "read") or 0, whole(tokens, "cache", "write") or 0
    reasoning = whole(tokens, "reasoning") or 0
    prompt = (whole(tokens, "input") or 0) + read + written
    completion = (whole(tokens, "output") or 0) + reasoning
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


def _said(parts: Iterable[Object], kind: str) -> str:
    said = [text(part, "text") or "" for part in parts if part.get("type") == kind]
    return "\n\n".join(said)


def _tools(parts: Iterable[Object]) -> Iterator[tuple[str | None, Object, Object]]:
    """Yield the calls of tools: the id, the part, and what became of it."""
    for part in parts:
        if part.get("type") == "tool":
            yield text(part, "callID"), part, object_(part.get("state"))


def _calls(parts: Iterable[Object]) -> Iterator[Object]:
    for id, part, state in _tools(parts):
        function = {"name": text(part, "tool"), "arguments": as_json(object_(state.get("input")))}
        yield {"id": id, "type": "function", "function": function}


def _results(parts: Sequence[Object]) -> list[Object]:
    """Return the results of calls, after the calls themselves: an id like `call_0` is not enough to
    join them.
    """
    results: list[Object] = []
    for id, _, state in _tools(parts):
        output = text(state, "output") or text(state, "error")
        if output is not None:
            results.append({"role": "tool", "tool_call_id": id, "content": output})
    calls = [*_calls(parts)]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *results] if calls else []


def _said_until_ms(parts: Iterable[Object], completed_ms: int) -> int:
    """Return when the last part had come: the message ends only when its tools have run."""
    times = [whole(state, "time", "start") for _, _, state in _tools(parts)]
    times += [
        whole(part, "time", "end") for part in parts if part.get("type") in ("text", "reasoning")
    ]
    return max((time for time in times if time is not None), default=completed_ms)
