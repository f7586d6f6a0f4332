"""What a request to Gemini asks for: the model and the method stand in the path.

The Gemini CLI, and a count of tokens, put the request into another object. Fields may be in snake case: it is proto3.
"""

from __future__ import annotations

import re
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
    found = (part.get("functionResponse") or part.get("function_response") for part in parts)
    return [each for each in found if isinstance(each, dict)]


def _results(contents: Sequence[Sequence[Object]]) -> Iterator[Returned]:
    """Results, in order. One without an id is that of the next call of its name, whose id it gets: the Python SDK sends
    none. If the calls have none either, it is not to be told which turn it is of, but for what the request ends with.
    """
    called: list[tuple[str | None, str]] = []
    for number, parts in enumerate(contents, 1):
        responses = _responses(parts)
        called += _called(parts)
        for each in responses:
            result = function_response(each, "name")
            call = next((call for call in called if result.call_id in (None, call[1]) and call[0] == result.name), None)
            if call is not None:
                called.remove(call)
                result = msgspec.structs.replace(result, call_id=call[1])
            if result.call_id is not None or number == len(contents):
                yield result
        called = [] if responses else called  # an answer may be in pieces, its results come together


def _called(parts: Sequence[Object]) -> list[tuple[str | None, str]]:
    """Name and id of each call among the parts of an answer that has an id."""
    calls = [object_(part.get("functionCall") or part.get("function_call")) for part in parts]
    return [(text(call.get("name")), id) for call in calls if (id := text(call.get("id")))]


def _said(parts: Sequence[Object]) -> str | None:
    texts = [each for part in parts if (each := text(part.get("text"))) and not part.get("thought")]
    return "\n".join(texts) or None
