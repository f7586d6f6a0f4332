"""Clients that have no name for their session: what they repeat of their conversation tells which one it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from recorder.demo.server import start
from tests.behind import asked
from tests.sdks import TOOL, anthropic_client, gemini_client, openai_client
from tests.serving import everywhere, serving

Say = Callable[[str], None]


def chat(clients: ExitStack, url: str, stream: bool) -> Say:
    client, told = clients.enter_context(openai_client(url)), list[Any]()
    tools: list[Any] = [{"type": "function", "function": {"name": "get_weather", "parameters": TOOL}}]

    def ask() -> Any:
        if not stream:
            return client.chat.completions.create(model="gpt-5.5", messages=told, tools=tools).choices[0].message
        with client.chat.completions.stream(model="gpt-5.5", messages=told, tools=tools) as streaming:
            return streaming.get_final_completion().choices[0].message

    def say(text: str) -> None:
        told.append({"role": "user", "content": text})
        told.append(answer := ask())
        for call in answer.tool_calls or ():
            told.append({"role": "tool", "tool_call_id": call.id, "content": "sunny"})
        if answer.tool_calls:
            told.append(ask())

    return say


def messages(clients: ExitStack, url: str, stream: bool) -> Say:
    client, told = clients.enter_context(anthropic_client(url)), list[Any]()
    given: dict[str, Any] = {
        "model": "claude-opus-5",
        "max_tokens": 4_096,
        "tools": [{"name": "get_weather", "input_schema": TOOL}],
        "system": "Be brief.",
    }

    def ask() -> Any:
        marked: Any = [{**each} for each in told]
        if isinstance(marked[-1]["content"], str):  # the mark of what is cached moves on
            block = {"type": "text", "text": marked[-1]["content"], "cache_control": {"type": "ephemeral"}}
            marked[-1]["content"] = [block]
        if not stream:
            return client.messages.create(messages=marked, **given)
        with client.messages.stream(messages=marked, **given) as streaming:
            return streaming.get_final_message()

    def say(text: str) -> None:
        told.append({"role": "user", "content": text})
        told.append({"role": "assistant", "content": (answer := ask()).content})
        uses = [block.id for block in answer.content if block.type == "tool_use"]
        if uses:
            results = [{"type": "tool_result", "tool_use_id": id, "content": "sunny"} for id in uses]
            told.append({"role": "user", "content": results})
            told.append({"role": "assistant", "content": ask().content})

    return say


def contents(clients: ExitStack, url: str, stream: bool) -> Say:
    chat = clients.enter_context(gemini_client(url, "v1beta")).chats.create(model="gemini-3.5-flash")

    def say(text: str) -> None:
        if stream:
            list(chat.send_message_stream(text))
        else:
            chat.send_message(text)

    return say


def responses(clients: ExitStack, url: str, stream: bool) -> Say:
    client, told = clients.enter_context(openai_client(url)), list[Any]()
    tool: Any = {"type": "function", "name": "get_weather", "parameters": {**TOOL, "additionalProperties": False}}

    def ask() -> Any:
        given: dict[str, Any] = {"model": "gpt-5.5", "input": told, "tools": [tool], "store": False}
        if not stream:
            return client.responses.create(**given)
        with client.responses.stream(**given) as streaming:
            return streaming.get_final_response()

    def say(text: str) -> None:
        told.append({"role": "user", "content": text})
        told.extend((answer := ask()).output)
        calls = [item.call_id for item in answer.output if item.type == "function_call"]
        told.extend({"type": "function_call_output", "call_id": id, "output": "sunny"} for id in calls)
        if calls:
            told.extend(ask().output)

    return say


CLIENTS: dict[str, Callable[[ExitStack, str, bool], Say]] = {
    "openai-chat": chat,
    "anthropic": messages,
    "gemini": contents,
    "openai-responses": responses,
}

SESSIONS = """SELECT s.source, x.api, count(*), sum(p.is_turn) FROM sessions AS s JOIN exchanges AS x USING (session_id)
JOIN p_exchanges_v1 AS p USING (session_id, exchange_id) GROUP BY s.session_id ORDER BY x.api, 3, 4"""


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_a_conversation_is_one_session_and_two_are_two(tmp_path: Path, stream: bool) -> None:
    """Two that begin with the same words, turn by turn, of each SDK, and one calls a tool."""
    db = tmp_path / "recorder.db"
    async with await start(pace=0) as demo:
        with serving(db, *everywhere(demo.base_url)) as serve:

            def talk() -> None:
                with ExitStack() as clients:
                    for client in CLIENTS.values():
                        one, other = client(clients, serve.base, stream), client(clients, serve.base, stream)
                        for words in (("hello", "hello"), ("weather", "What is a stream?"), ("thanks", "thanks")):
                            for say, text in zip((one, other), words, strict=True):
                                say(text)

            await asyncio.to_thread(talk)
    found = asked(db, SESSIONS)
    with_tools = [3, 4]
    assert found == [
        ("history", api, exchanges, 3)
        for api in sorted(CLIENTS)
        for exchanges in ([3, 3] if api == "gemini" else with_tools)
    ]
