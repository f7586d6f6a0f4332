"""What a Responses request asks for: its input is a text, or a list of items that repeats the turns before."""

from __future__ import annotations

from collections.abc import Iterator

from recorder.dialects.openai_responses.results import returned
from recorder.dialects.telling import Object, array, is_element, object_, objects, request_object, text
from recorder.facts import Asked


def asked(path: str, body: bytes) -> Asked:
    """`Dialect.asked`. Only a request that creates a response has a body."""
    request = request_object(body)
    given = request.get("input")
    stream = request.get("stream")
    items = objects(given)
    return Asked(
        model=text(request.get("model")),
        stream=stream if isinstance(stream, bool) else None,
        text=text(given) or _last_text(items),
        is_turn=isinstance(given, str) or any(map(_is_users, map(object_, array(given)[-1:]))),
        results=tuple(result for result in map(returned, items) if result is not None),
    )


def _last_text(items: list[Object]) -> str | None:
    """The last thing that a person says: what a client tells of its surroundings is wrapped in a tag."""
    users = (each for item in reversed(items) if _is_users(item) for each in reversed(list(_texts(item))))
    return next((each for each in users if not is_element(each)), None)


def _is_users(item: Object) -> bool:
    return item.get("role") == "user" and item.get("type", "message") in ("message", None)


def _texts(item: Object) -> Iterator[str]:
    content = item.get("content")
    if isinstance(content, str):
        yield content
    for part in objects(content):
        if isinstance(part.get("text"), str):
            yield part["text"]
