"""The messages of JSON-RPC as clients see them: which requests wait, and what an id and an error
are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from recorder.lint.faults import is_whole_number
from recorder.wire.dialects.json_values import Object, text

Waiting = dict[str, deque[Object]]
"""Requests by their id: a client may use one again."""


def waiting(messages: Iterable[Object], key: Callable[[object], str]) -> Waiting:
    """Return the requests among messages of a client; ids with one key are the same to it."""
    found: Waiting = {}
    for message in messages:
        if "method" in message and message.get("id") is not None:
            found.setdefault(key(message["id"]), deque()).append(message)
    return found


def is_id(value: object) -> bool:
    return isinstance(value, str) or is_whole_number(value)


def is_error(error: object) -> bool:
    """Return whether a value is the error of a response."""
    if not isinstance(error, dict):
        return False
    code = error.get("code")
    is_code = is_whole_number(code) or (
        isinstance(code, str) and code.removeprefix("-").isdecimal()
    )
    return is_code and text(error, "message") is not None
