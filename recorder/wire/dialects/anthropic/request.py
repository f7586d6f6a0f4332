"""The requests to Anthropic Messages.

Agents put their own text into a user's message (`recorder.wire.dialects.user_text.last_words`), and messages of the
system behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from recorder.model.facts import RequestFacts
from recorder.wire.dialects.anthropic.blocks import result
from recorder.wire.dialects.anthropic.continuation import links
from recorder.wire.dialects.anthropic.parameters import parameters
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
from recorder.wire.dialects.json_values import Object, objects, request_object, text
from recorder.wire.dialects.prompt import CachePolicy, PromptFormat, PromptPart
from recorder.wire.dialects.user_text import OF_SYSTEM, instructions, last_words, messages_at_end

_MODEL = re.compile(r"/models/([^/:]+):(\w+)$")  # on Vertex the path names it, and the method
_COUNTS = ("/count_tokens", "/count-tokens:rawPredict")


def request_facts(path: str, body: bytes) -> RequestFacts:
    """Return the facts of a request to create a message, or to count its tokens."""
    request = request_object(body)
    found = _MODEL.search(path)
    model, method = found.groups() if found else (None, None)
    stream = request.get("stream")
    messages = objects(request.get("messages"))
    contents = [_blocks(message) for message in messages if message.get("role") == "user"]
    last = messages_at_end(messages, lambda each: each.get("role") == "user" and not _results(_blocks(each)))
    words, is_turn = last_words([_texts(blocks) for blocks in contents], last)
    model, is_count = text(request.get("model")) or model, path.endswith(_COUNTS)
    return RequestFacts(
        model=model,
        stream=stream if isinstance(stream, bool) else method == "streamRawPredict" or None,
        text=words,
        is_turn=is_turn and not is_count,
        results=tuple(result(block) for blocks in contents for block in _results(blocks)),
        repeated_calls=answered_calls(_steps(messages)),
        instructions=instructions(_texts(_blocks({"content": request.get("system")}))),
        items=len(messages),
        previous_response_id=links(request).response_id,
        parameters=parameters(request, model, is_count=is_count),
    )


def _blocks(message: Object) -> Sequence[Object]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)


def _results(blocks: Sequence[Object]) -> Sequence[Object]:
    return [block for block in blocks if block.get("type") == "tool_result"]


def _steps(messages: Iterable[Object]) -> Iterator[Call | None]:
    for message in messages:
        for block in objects(message.get("content")):
            if block.get("type") == "tool_result":
                yield None
            elif block.get("type") == "tool_use":
                yield Call(block.get("id"), block.get("name"), block.get("input"))


def _texts(blocks: Sequence[Object]) -> list[str]:
    return [each for block in blocks if block.get("type") == "text" and (each := text(block.get("text")))]


def turns(path: str, request: Object) -> tuple[Sequence[Any], Iterator[ConversationTurn]]:
    """Return the other parts of a conversation in a request, and its messages: `Dialect.turns`."""
    about = [request.get("model"), request.get("tools"), canonical_message("system", request.get("system")).decode()]
    return about, _turns(objects(request.get("messages")))


def _turns(messages: Iterable[Object]) -> Iterator[ConversationTurn]:
    for each in messages:
        role, content = each.get("role"), each.get("content")
        if role in OF_SYSTEM:
            yield Instruction(content)
            continue
        if role != "assistant":
            ids = [block.get("tool_use_id") for block in objects(content)]
            yield Message(canonical_message(role, content), ids, content)
            continue
        answer = ModelAnswer(texts_of(content), ids=[each.get("id")])
        for block in objects(content):
            if block.get("type") == "tool_use":
                answer.ids.append(block.get("id"))
                answer.call(block.get("name"), block.get("input"))
        yield answer


# -- the prompt

# The prompt of a request to Anthropic Messages, and its prompt cache.
#
# Source: Anthropic's pages "Prompt caching" (its table "What invalidates the cache", its "Cache limitations"),
# "Structured outputs" and "Thinking", as of October 2026. A change of the output's schema or of the
# speed is one of the system prompt; a change of `tool_choice` or `thinking` leaves tools and system cached, and not the
# messages.
_TEXT = (b'[{"type":"text","text":', b"}]")

PROMPT = PromptFormat(
    generates=re.compile(r"/messages$|(?<!count-tokens):(?:streamR|r)awPredict$"),
    parts=(
        PromptPart(("tools",)),
        PromptPart(("output_format",), "parameter"),
        PromptPart(("output_config", "format"), "parameter"),
        PromptPart(("speed",), "parameter"),
        PromptPart(
            ("system",),
            text_as=_TEXT,
            # Claude Code has it before its system prompt, another one in each request, which then hits all the same.
            no_content=re.compile(rb'\{"type":"text","text":"x-anthropic-billing-header:'),
        ),
        PromptPart(("tool_choice",), "parameter"),
        PromptPart(("thinking",), "parameter"),
        PromptPart(("messages",), "conversation", blocks="content", blocks_text_as=_TEXT),
    ),
    marks=("cache_control",),
    suspects=(("output_config", "effort"), ("context_management",), ("mcp_servers",), ("container",)),
)

CACHE = CachePolicy(
    # Each pattern is searched in the name of the model; names on Bedrock and Vertex have more around it.
    minimums=(
        (r"(?:opus|fable|mythos)-5|(?:sonnet|haiku)-5[-.]5", 512),
        (r"opus-4[-.][56]|haiku-4[-.]5", 4096),
        (r"opus-4[-.]7|mythos|haiku", 2048),
        (r"", 1024),
    ),
    lapses_s=((r"", (300, 300)),),  # of a mark without `ttl`; each mark has its own
    needs_marks=True,
    reach=20,  # "the system checks at most 20 positions per breakpoint"
)
