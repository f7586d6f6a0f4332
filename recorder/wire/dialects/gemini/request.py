"""The requests to Gemini, which name the model and the method in the path.

The Gemini CLI, and a count of tokens, put the request into another object. Fields may be in snake case: it is proto3.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from recorder.model.facts import RequestFacts, ToolResult
from recorder.wire.dialects.conversation import ConversationTurn, Message, ModelAnswer, call_place, canonical_message
from recorder.wire.dialects.gemini.candidate import function_response
from recorder.wire.dialects.gemini.parameters import parameters
from recorder.wire.dialects.json_values import Object, object_, objects, request_object, text
from recorder.wire.dialects.prompt import CachePolicy, PromptFormat, PromptPart
from recorder.wire.dialects.user_text import instructions, last_words, messages_at_end

_MODEL = re.compile(r"([^/:]+)(?::|%3[Aa])(\w+)$")
_RESPONSE = ("functionResponse", "function_response")
_WRAPPERS = ("request", "generateContentRequest")


def request_facts(path: str, body: bytes) -> RequestFacts:
    """Return the facts of a request to generate content, or to count its tokens."""
    outer = request_object(body)
    request = next((object_(outer[name]) for name in _WRAPPERS if object_(outer.get(name))), outer)
    found = _MODEL.search(path)
    method = found[2] if found else None
    contents = _contents(request)
    last = messages_at_end(contents, lambda each: _is_users(each) and not _responses(_parts(each)))
    words, is_turn = last_words([_texts(_parts(each)) for each in contents if _is_users(each)], last)
    system = request.get("systemInstruction") or request.get("system_instruction")
    model = _model(path, found) or (text(outer.get("model")) or "").removeprefix("models/") or None
    is_count = method == "countTokens"
    return RequestFacts(
        model=model,
        stream=method == "streamGenerateContent" if method else None,
        text=words,
        is_turn=is_turn and not is_count,
        results=tuple(_results(contents)),
        instructions=instructions(part.get("text") for part in objects(object_(system).get("parts"))),
        items=len(contents),
        parameters=parameters(request, contents, model, is_count=is_count),
    )


def _model(path: str, found: re.Match[str] | None) -> str | None:
    """Return the last step of the path before the method, if it is in a collection: `v1internal` is not."""
    return found[1] if found and "/" in path[: found.start()].strip("/") else None


def _contents(request: Object) -> Sequence[Object]:
    contents = request.get("contents")
    return [contents] if isinstance(contents, dict) else objects(contents)


def _is_users(content: Object) -> bool:
    return content.get("role") in (None, "", "user")


def _parts(content: Object) -> Sequence[Object]:
    return objects(content.get("parts"))


def _responses(parts: Sequence[Object]) -> Sequence[Object]:
    return _each(parts, *_RESPONSE)


def _calls(parts: Sequence[Object]) -> Sequence[Object]:
    return _each(parts, "functionCall", "function_call")


def _each(parts: Sequence[Object], *names: str) -> Sequence[Object]:
    found = (part.get(name) for part in parts for name in names)
    return [each for each in found if isinstance(each, dict)]


class _RepeatedCall(NamedTuple):
    """A call as a request repeats it."""

    id: str | None
    name: str | None
    place: str


def _results(contents: Sequence[Object]) -> Iterator[ToolResult]:
    """Yield the results, each with the place of its call: the one with its id, else the next one of its name.

    Of a result whose call the request does not repeat the turn is unknown, if it has no id either, except for those
    behind the last turn of the model.
    """
    waiting: list[_RepeatedCall] = []  # of the model's last turn, without a result
    places: Counter[str] = Counter()
    is_answered = False
    last_turn = max((at for at, content in enumerate(contents) if content.get("role") == "model"), default=-1)
    for at, content in enumerate(contents):
        parts = _parts(content)
        for each in _calls(parts):
            if is_answered:
                waiting, places, is_answered = [], Counter(), False
            name = text(each.get("name"))
            about = call_place(name, each.get("args") or {})
            waiting.append(_RepeatedCall(text(each.get("id")), name, f"{about}[{places[about]}]"))
            places[about] += 1
        for each in _responses(parts):
            is_answered = True
            result = function_response(each, "name")
            call = _call_of(result, waiting)
            if call is not None:
                waiting.remove(call)
                yield msgspec.structs.replace(result, call_id=result.call_id or call.id, place=call.place)
            elif result.call_id is not None or at > last_turn:
                yield result


def _call_of(result: ToolResult, waiting: Sequence[_RepeatedCall]) -> _RepeatedCall | None:
    by_id = (call for call in waiting if result.call_id is not None and call.id == result.call_id)
    by_name = (call for call in waiting if call.name == result.name)
    return next(by_id, None) or next(by_name, None)


def _texts(parts: Sequence[Object]) -> list[str]:
    """Return the texts of a message as one: a client divides it where it likes."""
    texts = [each for part in parts if (each := text(part.get("text"))) and not part.get("thought")]
    return ["\n".join(texts)] if texts else []


_NAMED = re.compile(r"([^/]+):\w+$")


def turns(path: str, request: Object) -> tuple[Sequence[Any], Iterator[ConversationTurn]]:
    """Return the other parts of a conversation in a request, and its messages: `Dialect.turns`."""
    found = _NAMED.search(path.replace("%3A", ":").replace("%3a", ":"))
    inner = object_(request.get("request")) or object_(request.get("generateContentRequest")) or request
    system = inner.get("systemInstruction") or inner.get("system_instruction")
    contents = inner.get("contents")
    about = [request.get("model") or (found and found[1]), inner.get("tools"), system]
    return about, _turns([contents] if isinstance(contents, dict) else objects(contents))


def _turns(contents: Iterable[Object]) -> Iterator[ConversationTurn]:
    for content in contents:
        parts = objects(content.get("parts"))
        if content.get("role") != "model":
            said = [_without_id(part) for part in parts]
            ids = [each.get("id") for each in _responses(parts)]
            yield Message(canonical_message("user", said), ids, said)
            continue
        answer = ModelAnswer(
            [each["text"] for each in parts if isinstance(each.get("text"), str) and not each.get("thought")]
        )
        for part in parts:
            call = object_(part.get("functionCall") or part.get("function_call"))
            if call:
                answer.call(call.get("name"), call.get("args") or {})
                answer.ids.append(call.get("id"))
        yield answer


def _without_id(part: Object) -> Object:
    """Return a part without the id of the call whose result it is: clients make their own."""
    name = next((name for name in _RESPONSE if isinstance(part.get(name), dict)), None)
    if name is None:
        return part
    return {**part, name: {field: value for field, value in part[name].items() if field != "id"}}


# -- the prompt

# The prompt of a request to Gemini, and its implicit cache.
#
# Source: Google's page "Context caching": minimums of 1,024 tokens (2.5 Flash, 3 Flash) and 4,096
# (2.5 Pro, 3 Pro). It names no time for which an implicit cache is kept; people of Google have named a few minutes.
PROMPT = PromptFormat(
    generates=re.compile(r"(?::|%3[Aa])(?:streamGenerateContent|generateContent)$"),
    parts=(
        PromptPart(("cachedContent",), "parameter"),
        PromptPart(("tools",)),
        PromptPart(("systemInstruction",)),
        PromptPart(("system_instruction",)),
        PromptPart(("contents",), "conversation"),
    ),
    suspects=(
        ("toolConfig",),
        ("tool_config",),
        ("generationConfig", "responseSchema"),
        ("generationConfig", "responseJsonSchema"),
        ("generationConfig", "thinkingConfig"),
    ),
    wrappers=("request",),
)

CACHE = CachePolicy(
    minimums=((r"pro", 4096), (r"", 1024)),
    lapses_s=((r"", (180, 24 * 3600)),),
    step_tokens=256,  # not documented
    omits_zero=True,  # proto3
)
