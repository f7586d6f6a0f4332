"""What a request repeats of its conversation, as a chain of digests: one step for each message.

A client that has no name for its session sends all of it with every turn. So the next request begins with the messages
of the one before and its answer: the digest of those stands in the log since that answer came (`history`), and is one
of the digests of the next request. Nothing is compared but digests, and no body is read twice.

Rules of this file:

* A digest is a plain SHA-256 of what the log has anyway, redacted as it is there.
* What clients change between turns is left out: marks of what is cached, ids of items, reasoning, which of the two ways
  to write a text is chosen. What is left must be equal: model, tools, system prompt, every message in order.
* An answer may be sent back in pieces (a message for each chunk, an item for each part): it is one step, all its text
  and the calls of the client's tools. Calls of the provider's own tools are not: few clients repeat them.
* Clients also change what they said before: an agent hands on to another one, a framework shortens the history. What is
  left then are ids: of the calls whose results a request brings, and of items that it only refers to.
* Pure, and never raises: what cannot be read has no chain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from recorder.model.text import storable
from recorder.wire.dialects.telling import Object, object_, objects, request_object, text

LOOK_BACK_ANSWERS = 8
"""How many of the last answers in a request may be those of the exchange before. The last one is, as a rule; a client
that drops turns which failed, or that nobody recorded, goes back some further. Each costs two look-ups."""

LINKS = 8
"""How many ids of a request are looked for, the last first: one would do, unless its exchange was not recorded."""

_LINK_CHARACTERS = range(8, 201)
"""The length of an id that no other conversation has by chance. Some servers number their calls: `call_0`."""

_NUMBERED = re.compile(r"functions\..*:\d+|\D*\d{0,4}", re.DOTALL)
"""Ids that each conversation has: `functions.get_weather:0` of Kimi, `call_weather_1`, the name of the tool."""


class Answer(msgspec.Struct):
    """What a model said, as far as clients repeat it."""

    texts: list[str] = msgspec.field(default_factory=list)
    calls: list[tuple[str, str]] = msgspec.field(default_factory=list)  # name and arguments
    references: list[str] = msgspec.field(default_factory=list)  # ids of items that the provider keeps

    def __bool__(self) -> bool:
        return bool(self.texts or self.calls or self.references)

    def add(self, other: Answer) -> None:
        self.texts += other.texts
        self.calls += other.calls
        self.references += other.references

    def call(self, name: Any, arguments: Any) -> None:
        """A call of a tool. Its arguments are JSON, as text or decoded, in whatever order its fields are."""
        if isinstance(arguments, str):
            try:
                arguments = msgspec.json.decode(arguments or "{}")
            except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
                pass
        self.calls.append((str(name), storable(_canonical(arguments).decode())))


class Chain(msgspec.Struct, frozen=True):
    """The digests of a request.

    `asked` is that of all its messages; of one that ends with the beginning of an answer, which the model goes on with,
    `begun` is that and `asked` the digest without it. `answers`, the last first, has for each answer the digest before
    it and the one with it. `links`, the last first, are ids that earlier answers gave.
    """

    asked: str
    begun: Answer
    answers: tuple[tuple[str, str], ...]
    links: tuple[str, ...] = ()

    def answered(self, answer: Answer) -> str:
        """The digest of a conversation that goes on with this request and its whole answer."""
        whole = Answer()
        whole.add(self.begun)
        whole.add(answer)
        return _with_answer(self.asked, whole)


def broken_off(asked: str) -> str:
    """The digest of a request whose answer came in part: the client may have kept any of it."""
    return _next(asked, b"broken off")


def unanswered(asked: str) -> str:
    """The digest of a request that got nothing: the client may ask the same again."""
    return _next(asked, b"unanswered")


class Message(NamedTuple):
    """What a model was told: canonical JSON, and the ids of the calls whose results are in it."""

    canonical: bytes
    answers: Sequence[Any] = ()


Turn = Message | Answer


def chain(api: str, path: str, body: bytes) -> Chain | None:
    """The chain of a request, as it was recorded. `None` if it brings no conversation."""
    turns_of = _TURNS.get(api)
    request = request_object(body) if turns_of else {}
    try:
        said = turns_of(path, request) if turns_of and request else None
        return None if said is None else _chained(api, *said)
    except (ValueError, TypeError, RecursionError):
        return None


def _chained(api: str, about: Sequence[Any], turns: Iterable[Turn]) -> Chain | None:
    digest = sha256(_canonical([api, *about])).hexdigest()
    answers: list[tuple[str, str]] = []
    begun, is_empty, links = Answer(), True, list[Any]()
    for turn in turns:
        is_empty = False
        if isinstance(turn, Answer):
            begun.add(turn)
            links += turn.references
            continue
        if begun:
            answers.append((digest, digest := _with_answer(digest, begun)))
            begun = Answer()
        digest = _next(digest, turn.canonical)
        links += turn.answers
    if is_empty:
        return None
    if begun:
        answers.append((digest, _with_answer(digest, begun)))
    return Chain(digest, begun, tuple(answers[: -LOOK_BACK_ANSWERS - 1 : -1]), _links(links))


def _links(ids: Sequence[Any]) -> tuple[str, ...]:
    """The last ids, each once."""
    found = (storable(each) for each in reversed(ids) if isinstance(each, str) and _is_link(each))
    return tuple(dict.fromkeys(found))[:LINKS]


def _is_link(id: str) -> bool:
    return len(id) in _LINK_CHARACTERS and _NUMBERED.fullmatch(id) is None


def _next(digest: str, turn: bytes) -> str:
    return sha256(digest.encode() + turn).hexdigest()


def _with_answer(digest: str, answer: Answer) -> str:
    """The white space around a text is not always sent back, nor is one that is empty."""
    said = ["answer", storable("".join(answer.texts).strip()), answer.calls]
    return _next(digest, _canonical([*said, answer.references] if answer.references else said))


def _canonical(value: Any) -> bytes:
    """JSON that is the same whatever the order of its fields."""
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (ValueError, TypeError, msgspec.MsgspecError):
        return json.dumps(value, sort_keys=True).encode()


# -- the four APIs: what stands beside the messages, and these

Said = tuple[Sequence[Any], Iterator[Turn]]


def _message(role: Any, content: Any, rest: Any = None) -> bytes:
    """A message as JSON. One text may be written as it is, or as the only part of a list."""
    if isinstance(content, list):
        parts = [{k: v for k, v in each.items() if k != "cache_control"} for each in objects(content)]
        texts = [text(each.get("text")) for each in parts]
        content = texts[0] if len(parts) == len(content) == 1 and parts[0].keys() <= {"type", "text"} else parts
    return _canonical([role, content, rest])


def _spoken(content: Any) -> list[str]:
    """The texts of what a model said, and what it said instead."""
    if isinstance(content, str):
        return [content]
    found = (each.get("text") if each.get("text") is not None else each.get("refusal") for each in objects(content))
    return [each for each in found if isinstance(each, str)]


def _chat(path: str, request: Object) -> Said | None:
    return ([request.get("model"), request.get("tools")], _chat_turns(objects(request.get("messages"))))


def _chat_turns(messages: Iterable[Object]) -> Iterator[Turn]:
    for each in messages:
        if each.get("role") != "assistant":
            call_id = each.get("tool_call_id")
            yield Message(_message(each.get("role"), each.get("content"), call_id), [call_id])
            continue
        answer = Answer(_spoken(each.get("content")) or _spoken(each.get("refusal")))
        for call in objects(each.get("tool_calls")):
            function, custom = object_(call.get("function")), object_(call.get("custom"))
            answer.call(function.get("name") or custom.get("name"), function.get("arguments") or custom.get("input"))
        yield answer


def _messages(path: str, request: Object) -> Said | None:
    about = [request.get("model"), request.get("tools"), _message("system", request.get("system")).decode()]
    return about, _messages_turns(objects(request.get("messages")))


def _messages_turns(messages: Iterable[Object]) -> Iterator[Turn]:
    for each in messages:
        content = each.get("content")
        if each.get("role") != "assistant":
            yield Message(_message(each.get("role"), content), [block.get("tool_use_id") for block in objects(content)])
            continue
        answer = Answer(_spoken(content))
        for block in objects(content):
            if block.get("type") == "tool_use":
                answer.call(block.get("name"), block.get("input"))
        yield answer


_MODEL = re.compile(r"([^/]+):\w+$")


def _contents(path: str, request: Object) -> Said | None:
    found = _MODEL.search(path.replace("%3A", ":").replace("%3a", ":"))
    inner = object_(request.get("request")) or object_(request.get("generateContentRequest")) or request
    system = inner.get("systemInstruction") or inner.get("system_instruction")
    contents = inner.get("contents")
    about = [request.get("model") or (found and found[1]), inner.get("tools"), system]
    return about, _contents_turns([contents] if isinstance(contents, dict) else objects(contents))


def _contents_turns(contents: Iterable[Object]) -> Iterator[Turn]:
    for content in contents:
        parts = objects(content.get("parts"))
        if content.get("role") != "model":
            results = (object_(part.get("functionResponse") or part.get("function_response")) for part in parts)
            yield Message(_message("user", parts), [each.get("id") for each in results])
            continue
        answer = Answer(
            [each["text"] for each in parts if isinstance(each.get("text"), str) and not each.get("thought")]
        )
        for part in parts:
            call = object_(part.get("functionCall") or part.get("function_call"))
            if call:
                answer.call(call.get("name"), call.get("args") or {})
        yield answer


_REASONING = "rs_"  # how ids of reasoning begin


def _responses(path: str, request: Object) -> Said | None:
    about = [request.get("model"), request.get("tools"), request.get("instructions")]
    given = request.get("input")
    if isinstance(given, str):
        return about, iter([Message(_message("user", given))])
    return about, _responses_turns(objects(given))


def _responses_turns(items: Iterable[Object]) -> Iterator[Turn]:
    for item in items:
        type = text(item.get("type")) or "message"
        if type == "message" and item.get("role") != "assistant":
            yield Message(_message(item.get("role"), item.get("content")))
        elif type == "message":
            yield Answer(_spoken(item.get("content")))
        elif type.endswith("_output"):
            call_id = item.get("call_id")
            yield Message(_canonical([type, call_id, item.get("output")]), [call_id])
        elif type == "item_reference":
            id = text(item.get("id")) or ""
            yield Answer(references=[] if id.startswith(_REASONING) else [id])
        else:
            answer = Answer()
            if type in ("function_call", "custom_tool_call"):
                answer.call(item.get("name"), item.get("arguments", item.get("input")))
            yield answer  # reasoning, and what tools of the provider did


_TURNS: Mapping[str, Any] = {
    "openai-chat": _chat,
    "anthropic": _messages,
    "gemini": _contents,
    "openai-responses": _responses,
}
