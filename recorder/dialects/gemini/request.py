"""What a request to Gemini asks for: the model and the method stand in the path.

The Gemini CLI, and a count of tokens, put the request into another object. Fields may be in snake case: it is proto3.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence

import msgspec

from recorder.dialects.gemini.candidate import function_response
from recorder.dialects.telling import Object, object_, objects, request_object, text
from recorder.facts import Asked, Returned

_MODEL = re.compile(r"([^/:]+)(?::|%3[Aa])(\w+)$")
_WRAPPERS = ("request", "generateContentRequest")


def asked(path: str, body: bytes) -> Asked:
    """What a request to generate content, or to count its tokens, asks for."""
    outer = request_object(body)
    request = next((object_(outer[name]) for name in _WRAPPERS if object_(outer.get(name))), outer)
    found = _MODEL.search(path)
    method = found[2] if found else None
    contents = [(content.get("role"), objects(content.get("parts"))) for content in _contents(request)]
    said = [_said(parts) if role in (None, "", "user") else None for role, parts in contents]
    ends_with_it = bool(said) and said[-1] is not None and not _responses(contents[-1][1])
    return Asked(
        model=_model(path, found) or (text(outer.get("model")) or "").removeprefix("models/") or None,
        stream=method == "streamGenerateContent" if method else None,
        text=next((each for each in reversed(said) if each is not None), None),
        is_turn=ends_with_it and method != "countTokens",
        results=tuple(_results([parts for _, parts in contents])),
    )


def _model(path: str, found: re.Match[str] | None) -> str | None:
    """The last step of the path before the method, if it stands in a collection: `v1internal` does not."""
    return found[1] if found and "/" in path[: found.start()].strip("/") else None


def _contents(request: Object) -> Sequence[Object]:
    contents = request.get("contents")
    return [contents] if isinstance(contents, dict) else objects(contents)


def _responses(parts: Sequence[Object]) -> Sequence[Object]:
    return _each(parts, "functionResponse", "function_response")


def _calls(parts: Sequence[Object]) -> Sequence[Object]:
    return _each(parts, "functionCall", "function_call")


def _each(parts: Sequence[Object], *names: str) -> Sequence[Object]:
    found = (part.get(name) for part in parts for name in names)
    return [each for each in found if isinstance(each, dict)]


def _results(contents: Sequence[Sequence[Object]]) -> Iterator[Returned]:
    """Without an id, a result is that of the next call of its name, and has the id of that call.

    Where the calls have no ids either it is not to be told which turn a result is of, but for those that the request
    ends with.
    """
    waiting: defaultdict[str | None, deque[str | None]] = defaultdict(deque)
    is_answered = False
    for number, parts in enumerate(contents, 1):
        for call in _calls(parts):
            if is_answered:
                waiting.clear()
                is_answered = False
            waiting[text(call.get("name"))].append(text(call.get("id")))
        for each in _responses(parts):
            is_answered = True
            result = function_response(each, "name")
            if result.call_id is None and waiting[result.name]:
                result = msgspec.structs.replace(result, call_id=waiting[result.name].popleft())
            if result.call_id is not None or number == len(contents):
                yield result


def _said(parts: Sequence[Object]) -> str | None:
    texts = [each for part in parts if (each := text(part.get("text"))) and not part.get("thought")]
    return "\n".join(texts) or None
