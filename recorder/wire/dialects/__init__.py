"""The wire formats, one file each, and the table that chooses: by the route of a request, and how its body is framed.

A further provider is a file with a `DIALECT` and its line in `DIALECTS`. The first whose routes match is taken.
"""

from __future__ import annotations

from typing import Literal

from recorder.wire.dialects import anthropic, gemini, openai_chat, openai_responses, other
from recorder.wire.dialects.dialect import Dialect, Ending, Keys

__all__ = ["DIALECTS", "Dialect", "Ending", "Keys", "by_name", "by_path", "framing"]

DIALECTS: tuple[Dialect, ...] = (
    openai_responses.DIALECT,
    openai_chat.DIALECT,
    anthropic.DIALECT,
    gemini.DIALECT,
    other.DIALECT,  # the last: it takes every route
)

_BY_NAME = {dialect.name: dialect for dialect in DIALECTS}


def by_name(name: str) -> Dialect:
    """The dialect of that name; `other` for a name from another version of this program."""
    return _BY_NAME.get(name, other.DIALECT)


def by_path(method: str, path: str) -> Dialect:
    """The dialect that a request speaks, with or without a version in front; `path` is without its query."""
    route = f"{method.upper()} {path}"
    return next(dialect for dialect in DIALECTS if dialect.routes.search(route))


def framing(content_type: str | None) -> Literal["sse", "body"]:
    """Whether a response body is a stream of server-sent events or one document, by its content type."""
    essence = (content_type or "").partition(";")[0].strip().lower()
    return "sse" if essence == "text/event-stream" else "body"
