"""The real SDKs, each asked one question in every way it can be: what comes back, in words common to all.

`ASKS["openai-responses stream async"](url, "weather")` gives a `Got`; `url` is scheme, host and port, with
a path prefix if there is one. Errors are the SDK's own. Every client is closed, and none retries.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import anthropic
import openai
from google import genai

TOOL: dict[str, object] = {"type": "object", "properties": {"city": {"type": "string"}, "unit": {"type": "string"}}}


class Got(NamedTuple):
    """What an SDK made of an answer; `usage` is input, cached, output and reasoning tokens, as the vendor counts."""

    text: str
    refused: bool
    calls: list[tuple[str, Any]]
    usage: tuple[int | None, ...] | None


Ask = Callable[[str, str], Awaitable[Got]]


def _of_response(response: Any) -> Got:
    items = response.output
    parts = [part for item in items if item.type == "message" for part in item.content]
    calls = [(item.name, json.loads(item.arguments)) for item in items if item.type == "function_call"]
    refusal = "".join(part.refusal for part in parts if part.type == "refusal")
    usage = response.usage
    counts = (usage.input_tokens, usage.input_tokens_details.cached_tokens, usage.output_tokens)
    reasoning = usage.output_tokens_details.reasoning_tokens
    return Got(response.output_text or refusal, bool(refusal), calls, (*counts, reasoning))


def _of_completion(completion: Any) -> Got:
    message, usage = completion.choices[0].message, completion.usage
    calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or ()]
    cached, reasoning = usage.prompt_tokens_details.cached_tokens, usage.completion_tokens_details.reasoning_tokens
    counts = (usage.prompt_tokens, cached, usage.completion_tokens, reasoning)
    return Got(message.content or message.refusal or "", bool(message.refusal), calls, counts)


def _of_message(message: Any) -> Got:
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [(block.name, block.input) for block in message.content if block.type == "tool_use"]
    usage = message.usage
    read = usage.cache_read_input_tokens
    counts = (usage.input_tokens + read, read, usage.output_tokens, usage.output_tokens_details.thinking_tokens)
    return Got(text, message.stop_reason == "refusal", calls, counts)


def _of_chunks(chunks: list[Any]) -> Got:
    contents = [candidate.content for chunk in chunks for candidate in chunk.candidates or ()]
    parts = [part for content in contents for part in content.parts]
    text = "".join(part.text for part in parts if part.text and not part.thought)
    calls = [(part.function_call.name, part.function_call.args) for part in parts if part.function_call]
    usage = chunks[-1].usage_metadata
    thoughts = usage.thoughts_token_count or 0
    written = usage.candidates_token_count or 0
    counts = (usage.prompt_token_count, usage.cached_content_token_count, written + thoughts, thoughts)
    return Got(text, bool(chunks[-1].prompt_feedback), calls, counts)


def _responses(prompt: str) -> dict[str, Any]:
    tool = {"type": "function", "name": "get_weather", "parameters": {**TOOL, "additionalProperties": False}}
    return {"model": "gpt-5.5", "input": prompt, "tools": [tool], "include": ["reasoning.encrypted_content"]}


def _chat(prompt: str) -> dict[str, Any]:
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": TOOL}}
    return {"model": "gpt-5.5", "messages": [{"role": "user", "content": prompt}], "tools": [tool]}


def _messages(prompt: str) -> dict[str, Any]:
    tool = {"name": "get_weather", "input_schema": TOOL}
    messages = [{"role": "user", "content": prompt}]
    return {"model": "claude-opus-5", "max_tokens": 4_096, "messages": messages, "tools": [tool]}


def _contents(prompt: str) -> dict[str, Any]:
    return {"model": "gemini-3.5-flash", "contents": prompt}


_USAGE: dict[str, Any] = {"stream_options": {"include_usage": True}}


def openai_client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="sk-none", max_retries=0)


def openai_client_async(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-none", max_retries=0)


def anthropic_client(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="sk-none", max_retries=0)


def anthropic_client_async(url: str) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=url, api_key="sk-none", max_retries=0)


def gemini_client(url: str, version: str = "v1") -> genai.Client:
    return genai.Client(api_key="none", http_options={"base_url": url, "api_version": version})


def _responses_stream(url: str, prompt: str) -> Got:
    with openai_client(url) as client, client.responses.stream(**_responses(prompt)) as stream:
        return _of_response(stream.get_final_response())


def _responses_whole(url: str, prompt: str) -> Got:
    with openai_client(url) as client:
        return _of_response(client.responses.create(**_responses(prompt)))


async def _responses_stream_async(url: str, prompt: str) -> Got:
    async with openai_client_async(url) as client, client.responses.stream(**_responses(prompt)) as stream:
        return _of_response(await stream.get_final_response())


async def _responses_whole_async(url: str, prompt: str) -> Got:
    async with openai_client_async(url) as client:
        return _of_response(await client.responses.create(**_responses(prompt)))


def _chat_stream(url: str, prompt: str) -> Got:
    with openai_client(url) as client, client.chat.completions.stream(**_chat(prompt), **_USAGE) as stream:
        return _of_completion(stream.get_final_completion())


def _chat_whole(url: str, prompt: str) -> Got:
    with openai_client(url) as client:
        return _of_completion(client.chat.completions.create(**_chat(prompt)))


async def _chat_stream_async(url: str, prompt: str) -> Got:
    async with openai_client_async(url) as client, client.chat.completions.stream(**_chat(prompt), **_USAGE) as stream:
        return _of_completion(await stream.get_final_completion())


async def _chat_whole_async(url: str, prompt: str) -> Got:
    async with openai_client_async(url) as client:
        return _of_completion(await client.chat.completions.create(**_chat(prompt)))


def _messages_stream(url: str, prompt: str) -> Got:
    with anthropic_client(url) as client, client.messages.stream(**_messages(prompt)) as stream:
        return _of_message(stream.get_final_message())


def _messages_whole(url: str, prompt: str) -> Got:
    with anthropic_client(url) as client:
        return _of_message(client.messages.create(**_messages(prompt)))


async def _messages_stream_async(url: str, prompt: str) -> Got:
    async with anthropic_client_async(url) as client, client.messages.stream(**_messages(prompt)) as stream:
        return _of_message(await stream.get_final_message())


async def _messages_whole_async(url: str, prompt: str) -> Got:
    async with anthropic_client_async(url) as client:
        return _of_message(await client.messages.create(**_messages(prompt)))


def _gemini_stream(url: str, prompt: str) -> Got:
    with gemini_client(url) as client:
        return _of_chunks(list(client.models.generate_content_stream(**_contents(prompt))))


def _gemini_whole(url: str, prompt: str) -> Got:
    with gemini_client(url, "v1beta") as client:
        return _of_chunks([client.models.generate_content(**_contents(prompt))])


async def _gemini_stream_async(url: str, prompt: str) -> Got:
    with gemini_client(url, "v1beta") as client:
        async with client.aio as aio:
            chunks = await aio.models.generate_content_stream(**_contents(prompt))
            return _of_chunks([chunk async for chunk in chunks])


async def _gemini_whole_async(url: str, prompt: str) -> Got:
    with gemini_client(url) as client:
        async with client.aio as aio:
            return _of_chunks([await aio.models.generate_content(**_contents(prompt))])


def _threaded(ask: Callable[[str, str], Got]) -> Ask:
    return lambda url, prompt: asyncio.to_thread(ask, url, prompt)


ASKS: dict[str, Ask] = {
    "openai-responses stream": _threaded(_responses_stream),
    "openai-responses whole": _threaded(_responses_whole),
    "openai-responses stream async": _responses_stream_async,
    "openai-responses whole async": _responses_whole_async,
    "openai-chat stream": _threaded(_chat_stream),
    "openai-chat whole": _threaded(_chat_whole),
    "openai-chat stream async": _chat_stream_async,
    "openai-chat whole async": _chat_whole_async,
    "anthropic stream": _threaded(_messages_stream),
    "anthropic whole": _threaded(_messages_whole),
    "anthropic stream async": _messages_stream_async,
    "anthropic whole async": _messages_whole_async,
    "gemini stream": _threaded(_gemini_stream),
    "gemini whole": _threaded(_gemini_whole),
    "gemini stream async": _gemini_stream_async,
    "gemini whole async": _gemini_whole_async,
}
