"""The requests to Chat Completions, and to legacy completions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from recorder.model.facts import RequestFacts, ToolResult
from recorder.wire.dialects.conversation import (
    Call,
    ConversationTurn,
    Instruction,
    Message,
    ModelAnswer,
    answered_calls,
    canonical_message,
    texts_of,
)
from recorder.wire.dialects.json_values import Object, array, object_, objects, request_object, text, text_or_json
from recorder.wire.dialects.openai import MARKS, SUSPECTS
from recorder.wire.dialects.openai_chat.parameters import parameters
from recorder.wire.dialects.prompt import PromptFormat, PromptPart
from recorder.wire.dialects.user_text import OF_SYSTEM, instructions, last_words, messages_at_end

_OF_TOOLS = ("tool", "function")
_DEPLOYMENT = re.compile(r"/deployments/([^/]+)/")  # Azure names the model in the path alone


def request_facts(path: str, body: bytes) -> RequestFacts:
    """Return the facts of a request: `Dialect.request_facts`."""
    request = request_object(body)
    messages = objects(request.get("messages"))
    prompts = [prompt for prompt in _listed(request.get("prompt")) if isinstance(prompt, str)]
    users = [_texts(message.get("content")) for message in messages if _is_users(message)]
    words, is_turn = last_words(users, messages_at_end(messages, _is_users))
    deployment = _DEPLOYMENT.search(path)
    stream = request.get("stream")
    model = text(request.get("model")) or (deployment[1] if deployment else None)
    return RequestFacts(
        model=model,
        stream=stream if isinstance(stream, bool) else None,
        text=words if messages else next(reversed(prompts), None),
        is_turn=is_turn if messages else bool(prompts),
        results=tuple(_results(messages)),
        repeated_calls=answered_calls(_steps(messages)),
        instructions=instructions(
            given for each in messages if each.get("role") in OF_SYSTEM for given in _texts(each.get("content"))
        ),
        items=len(messages),
        parameters=parameters(path, request, model),
    )


def _is_users(message: Object) -> bool:
    return message.get("role") == "user"


def _results(messages: list[Object]) -> Iterator[ToolResult]:
    """Yield the results. Of one without an id the turn is unknown, but for those that the request ends with."""
    roles = [message.get("role") for message in messages]
    last_turn = next((at for at in reversed(range(len(roles))) if roles[at] not in _OF_TOOLS), -1)
    for at, message in enumerate(messages):
        call_id = text(message.get("tool_call_id"))
        if roles[at] in _OF_TOOLS and (call_id or at > last_turn):
            yield ToolResult(call_id, text(message.get("name")), _output(message.get("content")))


def _steps(messages: Iterable[Object]) -> Iterator[Call | None]:
    for message in messages:
        if message.get("role") in _OF_TOOLS:
            yield None
        yield from _calls(message)


def _calls(message: Object) -> Iterator[Call]:
    """Yield the calls that an answer has."""
    for call in objects(message.get("tool_calls")):
        function, custom = object_(call.get("function")), object_(call.get("custom"))
        name = function.get("name") or custom.get("name")
        yield Call(call.get("id"), name, function.get("arguments") or custom.get("input"))


def _output(content: Any) -> str:
    texts = _texts(content)
    return "".join(texts) if len(texts) == len(_listed(content)) else text_or_json(content)


def _texts(content: Any) -> list[str]:
    parts = ({"text": part} if isinstance(part, str) else object_(part) for part in _listed(content))
    return [given for part in parts if (given := text(part.get("text"))) is not None]


def _listed(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) else list(array(value))


def turns(path: str, request: Object) -> tuple[Sequence[Any], Iterator[ConversationTurn]]:
    """Return the other parts of a conversation in a request, and its messages: `Dialect.turns`."""
    return [request.get("model"), request.get("tools")], _turns(objects(request.get("messages")))


def _turns(messages: Iterable[Object]) -> Iterator[ConversationTurn]:
    for each in messages:
        role, content = each.get("role"), each.get("content")
        if role in OF_SYSTEM:
            yield Instruction(content)
            continue
        if role != "assistant":
            yield Message(canonical_message(role, content), [each.get("tool_call_id")], content)
            continue
        answer = ModelAnswer(texts_of(content) or texts_of(each.get("refusal")), ids=[each.get("id")])
        for call in _calls(each):
            answer.ids.append(call.id)
            answer.call(call.name, call.arguments)
        yield answer


# -- the prompt

# The prompt of a request to Chat Completions, or to legacy completions. Source: OpenAI's guide "Prompt caching".
PROMPT = PromptFormat(
    generates=re.compile(r"/completions/?$"),
    parts=(
        PromptPart(("tools",)),
        PromptPart(("functions",)),
        PromptPart(("response_format",), "parameter"),
        PromptPart(("prompt",)),
        PromptPart(("messages",), "conversation"),
    ),
    marks=MARKS,
    suspects=(*SUSPECTS, ("reasoning_effort",), ("verbosity",)),
    retention="prompt_cache_retention",
)
