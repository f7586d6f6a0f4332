"""The requests of the Responses format: their input is a text, or a list of items that repeats the turns before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from recorder.model.facts import RequestFacts
from recorder.wire.dialects.conversation import (
    Call,
    ConversationTurn,
    Instruction,
    Message,
    ModelAnswer,
    answered_calls,
    canonical,
    canonical_message,
    texts_of,
)
from recorder.wire.dialects.json_values import Object, array, object_, objects, request_object, text
from recorder.wire.dialects.openai import MARKS, SUSPECTS
from recorder.wire.dialects.openai_responses.continuation import OF_THE_RESPONSE, links, own_items
from recorder.wire.dialects.openai_responses.parameters import parameters
from recorder.wire.dialects.openai_responses.results import returned
from recorder.wire.dialects.prompt import PromptFormat, PromptPart
from recorder.wire.dialects.user_text import OF_SYSTEM, instructions, last_words, messages_at_end

_TASK = re.compile(r"Message Type: NEW_TASK\n(?:(Task name: [^\n]*)\n)?(?:[^\n]*\n){0,4}?Payload:\n?")
"""How an agent's message to one that it has started begins, in an item of Codex. Its task follows, mostly encrypted."""


def request_facts(path: str, body: bytes) -> RequestFacts:
    """Return the facts of a request. Only one that creates a response has a body."""
    request = request_object(body)
    given = request.get("input")
    stream = request.get("stream")
    generates = request.get("generate") is not False
    items = objects(given)
    words, is_turn = last_words(
        [list(_texts(item)) for item in items if _is_users(item)],
        messages_at_end([*map(object_, array(given))], _is_users),
    )
    system = (part for item in items if item.get("role") in OF_SYSTEM for part in _texts(item))
    linked = links(request)
    return RequestFacts(
        model=text(request.get("model")),
        stream=stream if isinstance(stream, bool) else None,
        text=text(given) or words,
        is_turn=generates and (is_turn or isinstance(given, str)),
        generates=generates,
        results=tuple(result for result in map(returned, items) if result is not None),
        repeated_calls=answered_calls(_steps(items)),
        instructions=instructions((request.get("instructions"), *system)),
        previous_response_id=linked.response_id,
        conversation_id=linked.conversation_id,
        items=len(own_items(request)),
        parameters=parameters(path, request),
    )


def _is_call(item: Object) -> bool:
    return item.get("type") in ("function_call", "custom_tool_call")


def _steps(items: Iterable[Object]) -> Iterator[Call | None]:
    for item in items:
        if _is_call(item):
            yield Call(item.get("call_id"), item.get("name"), item.get("arguments", item.get("input")))
        elif item.get("type") in ("function_call_output", "custom_tool_call_output"):
            yield None


def _is_users(item: Object) -> bool:
    """Return whether an item is a message of a person, or the task of a sub-agent, which is its first one."""
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
    """Return the task in an agent's message; its name where only the provider can read it: that has no spaces."""
    content = "".join(each for part in parts if (each := text(part.get("text"))))
    sealed = "".join(each for part in parts if (each := text(part.get("encrypted_content"))) and " " in each)
    found = _TASK.match(content)
    task = f"{content[found.end() :] if found else content}{sealed}".strip()
    return task or (found[1] if found else None) or content


_REASONING = "rs_"  # how ids of reasoning begin


def turns(path: str, request: Object) -> tuple[Sequence[Any], Iterator[ConversationTurn]]:
    """Return the other parts of a conversation in a request, and its messages: `Dialect.turns`."""
    about = [request.get("model"), request.get("tools"), request.get("instructions")]
    given = request.get("input")
    if isinstance(given, str):
        return about, iter([Message(canonical_message("user", given), content=given)])
    return about, _turns(objects(given))


def _turns(items: Iterable[Object]) -> Iterator[ConversationTurn]:
    for item in items:
        type = text(item.get("type")) or "message"
        role, content = item.get("role"), item.get("content")
        if type == "message" and role in OF_SYSTEM:
            yield Instruction(content)
        elif type == "message" and role != "assistant":
            yield Message(canonical_message(role, content), content=content)
        elif type == "message":
            yield ModelAnswer(texts_of(content), ids=[item.get("id")])
        elif type.endswith("_output"):
            output = item.get("output")
            yield Message(canonical([type, output]), [item.get("call_id")], output)
        elif type == "item_reference":
            id = text(item.get("id")) or ""
            yield ModelAnswer(references=[] if id.startswith(_REASONING) else [id])
        else:
            answer = ModelAnswer(ids=[item.get("id"), item.get("call_id")])
            if _is_call(item):
                answer.call(item.get("name"), item.get("arguments", item.get("input")))
            yield answer  # reasoning, and what tools of the provider did


# -- the prompt

# The prompt of a request in the Responses format.
#
# Source: OpenAI's guide "Prompt caching" of September 2026, "Which settings affect the cached prefix?".
PROMPT = PromptFormat(
    generates=re.compile(r"/responses/?$"),
    parts=(
        PromptPart(("tools",)),
        PromptPart(("text", "format"), "parameter"),
        PromptPart(("prompt",)),
        PromptPart(("instructions",)),
        PromptPart(("input",), "conversation", text_as=(b'[{"role":"user","content":', b"}]"), ignored=OF_THE_RESPONSE),
    ),
    marks=MARKS,
    suspects=(*SUSPECTS, ("reasoning", "effort"), ("reasoning", "summary"), ("text", "verbosity"), ("truncation",)),
    retention="prompt_cache_retention",
)
