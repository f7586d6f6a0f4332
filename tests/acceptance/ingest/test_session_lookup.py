"""Real SDKs and the loops that they make: a conversation is one session, though no client names it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anthropic
import pytest

from tests.support.provider.server import start
from tests.support.sdks import TOOL, anthropic_client, gemini_client, openai_client
from tests.support.server import everywhere, serving
from tests.support.superuser import asked

Say = Callable[[str], None]


def openai_chat(clients: ExitStack, url: str, stream: bool) -> Say:
    client, told = clients.enter_context(openai_client(url)), list[Any]()
    tools: list[Any] = [
        {"type": "function", "function": {"name": "get_weather", "parameters": TOOL}}
    ]

    def ask() -> Any:
        if not stream:
            return (
                client.chat.completions.create(model="gpt-5.5", messages=told, tools=tools)
                .choices[0]
                .message
            )
        with client.chat.completions.stream(
            model="gpt-5.5", messages=told, tools=tools
        ) as streaming:
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
            block = {
                "type": "text",
                "text": marked[-1]["content"],
                "cache_control": {"type": "ephemeral"},
            }
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
            results = [
                {"type": "tool_result", "tool_use_id": id, "content": "sunny"} for id in uses
            ]
            told.append({"role": "user", "content": results})
            told.append({"role": "assistant", "content": ask().content})

    return say


def contents(clients: ExitStack, url: str, stream: bool) -> Say:
    talk = clients.enter_context(gemini_client(url, "v1beta")).chats.create(
        model="gemini-3.5-flash"
    )

    def say(text: str) -> None:
        if stream:
            list(talk.send_message_stream(text))
        else:
            talk.send_message(text)

    return say


def responses(clients: ExitStack, url: str, stream: bool) -> Say:
    client, told = clients.enter_context(openai_client(url)), list[Any]()
    tool: Any = {
        "type": "function",
        "name": "get_weather",
        "parameters": {**TOOL, "additionalProperties": False},
    }

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
        told.extend(
            {"type": "function_call_output", "call_id": id, "output": "sunny"} for id in calls
        )
        if calls:
            told.extend(ask().output)

    return say


CLIENTS: dict[str, Callable[[ExitStack, str, bool], Say]] = {
    "openai-chat": openai_chat,
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
                        one, other = (
                            client(clients, serve.base, stream),
                            client(clients, serve.base, stream),
                        )
                        for words in (
                            ("hello", "hello"),
                            ("weather", "What is a stream?"),
                            ("thanks", "thanks"),
                        ):
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


# -- loops that SDKs and frameworks make, not the program that calls them


def tool_runner(clients: ExitStack, url: str) -> None:
    """Of the Anthropic SDK: it lets the provider keep the conversation, and sends what is new."""

    @anthropic.beta_tool
    def get_weather(city: str, unit: str) -> str:
        return "sunny"

    told: Any = [{"role": "user", "content": "weather"}]
    tools: Any = clients.enter_context(anthropic_client(url)).beta.messages
    tools.tool_runner(
        model="claude-opus-5", max_tokens=4_096, tools=[get_weather], messages=told
    ).until_done()


def function_calling(clients: ExitStack, url: str) -> None:
    """Of the Google SDK: its results have no id, although the calls do."""

    def get_weather(city: str, unit: str) -> str:
        return f"sunny in {city}"

    talk = clients.enter_context(gemini_client(url, "v1beta")).chats.create(
        model="gemini-3.5-flash", config={"tools": [get_weather]}
    )
    talk.send_message("weather")
    talk.send_message("thanks")


def references(clients: ExitStack, url: str) -> None:
    """As the Vercel AI SDK asks: what the provider keeps is only referred to, but for calls."""
    client, told = (
        clients.enter_context(openai_client(url)),
        list[Any]([{"role": "user", "content": "weather"}]),
    )
    tool: Any = {"type": "function", "name": "get_weather", "parameters": TOOL}
    for text in ("thanks", "bye", None):
        for item in client.responses.create(model="gpt-5.5", input=told, tools=[tool]).output:
            called = {"call_id", "name", "arguments"}
            told.append(
                item.model_dump(include={"type", *called})
                if item.type == "function_call"
                else {"type": "item_reference", "id": item.id}
            )
        calls = [each["call_id"] for each in told if each.get("type") == "function_call"]
        is_answered = any(each.get("type") == "function_call_output" for each in told)
        told += [
            {"type": "function_call_output", "call_id": id, "output": "12"}
            for id in calls
            if not is_answered
        ]
        told += [{"role": "user", "content": text}] if is_answered else []


def hand_over(clients: ExitStack, url: str) -> None:
    """As an agent hands over to another one, which has other instructions, another model and no
    tools.
    """
    client, told = (
        clients.enter_context(openai_client(url)),
        list[Any]([{"role": "user", "content": "weather"}]),
    )
    tool: Any = {"type": "function", "name": "get_weather", "parameters": TOOL}
    told += client.responses.create(
        model="gpt-5.5", input=told, tools=[tool], instructions="Be brief."
    ).output
    calls = [each.call_id for each in told[1:] if each.type == "function_call"]
    told += [{"type": "function_call_output", "call_id": id, "output": "12"} for id in calls]
    client.responses.create(model="gpt-5", input=told, instructions="Say goodbye.")
    client.responses.create(
        model="gpt-5", input=told[-len(calls) :], instructions="What of the rest is left."
    )


LOOPS: dict[Callable[[ExitStack, str], None], int] = {
    tool_runner: 2,
    function_calling: 3,
    references: 3,
    hand_over: 3,
}


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
async def test_a_loop_is_one_session_and_its_calls_have_their_results(
    tmp_path: Path, loop: Callable[[ExitStack, str], None]
) -> None:
    """Twice, one after the other: two sessions."""
    db = tmp_path / "recorder.db"
    async with await start(pace=0) as demo:
        with serving(db, *everywhere(demo.base_url)) as serve:

            def talk() -> None:
                for _ in range(2):
                    with ExitStack() as clients:
                        loop(clients, serve.base)

            await asyncio.to_thread(talk)
    assert asked(db, "SELECT count(*) FROM exchanges GROUP BY session_id") == [(LOOPS[loop],)] * 2
    assert (
        asked(db, "SELECT count(*), count(output) FROM tool_calls GROUP BY session_id")
        == [(2, 2)] * 2
    )
