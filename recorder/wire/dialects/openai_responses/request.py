"""What a Responses request asks for: its input is a text, or a list of items that repeats the turns before."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recorder.model.facts import Asked
from recorder.wire.dialects.openai_responses.results import returned
from recorder.wire.dialects.telling import (
    OF_SYSTEM,
    Object,
    array,
    at_end,
    heard,
    instructions,
    object_,
    objects,
    request_object,
    text,
)

_TASK = re.compile(r"Message Type: NEW_TASK\n(?:(Task name: [^\n]*)\n)?(?:[^\n]*\n){0,4}?Payload:\n?")
"""How an agent's message to one that it has started begins, in an item of Codex. Its task follows, mostly encrypted."""


def asked(path: str, body: bytes) -> Asked:
    """`Dialect.asked`. Only a request that creates a response has a body."""
    request = request_object(body)
    given = request.get("input")
    stream = request.get("stream")
    items = objects(given)
    words, is_turn = heard(
        [list(_texts(item)) for item in items if _is_users(item)], at_end([*map(object_, array(given))], _is_users)
    )
    system = (part for item in items if item.get("role") in OF_SYSTEM for part in _texts(item))
    return Asked(
        model=text(request.get("model")),
        stream=stream if isinstance(stream, bool) else None,
        text=text(given) or words,
        is_turn=is_turn or isinstance(given, str),
        results=tuple(result for result in map(returned, items) if result is not None),
        instructions=instructions((request.get("instructions"), *system)),
    )


def _is_users(item: Object) -> bool:
    """A message of a person, or the task of a sub-agent, which is its first one."""
    if item.get("type") == "agent_message":
        return any(_TASK.match(part["text"]) for part in objects(item.get("content")) if text(part.get("text")))
    return item.get("role") == "user" and item.get("type", "message") in ("message", None)


def _texts(item: Object) -> Iterator[str]:
    content = item.get("content")
    if item.get("type") == "agent_message":
        yield _task(objects(content))
        return
    if isinstance(content, str):
        yield content
    for part in objects(content):
        if isinstance(part.get("text"), str):
            yield part["text"]


def _task(parts: list[Object]) -> str:
    """The task in an agent's message; its name where only the provider can read it: that has no spaces."""
    said = "".join(each for part in parts if (each := text(part.get("text"))))
    sealed = "".join(each for part in parts if (each := text(part.get("encrypted_content"))) and " " in each)
    found = _TASK.match(said)
    task = f"{said[found.end() :] if found else said}{sealed}".strip()
    return task or (found[1] if found else None) or said
