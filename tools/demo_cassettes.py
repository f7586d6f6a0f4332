"""The cassettes that `recorder demo` answers from, recorded again:
`python -m tools.demo_cassettes`, three minutes.

With names of formats only their cassettes are written. The scripted provider of the tests is asked,
at its own pace, what `recorder demo` asks, then a question for each of the keywords that
`recorder.demo` knows, and then what `recorder probe` asks. Each wire format gets what speaks it, in
the folder of its dialect.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from recorder.archive.opening import open_log
from recorder.cassettes.sse_jsonl.writer import cassette_lines
from recorder.commands.demo import converse, recorder_before
from recorder.demo.provider import CASSETTE
from recorder.model.events import Recording
from recorder.probe.apis import APIS
from recorder.probe.hosted import events_in
from recorder.recordings.loader import load_session
from recorder.store.location import database_url
from recorder.store.queries.session_list import list_sessions
from recorder.wire import dialects
from recorder.wire.dialects.json_values import objects
from tests.support.provider.server import start
from tests.support.rows import make_session

Json = dict[str, Any]

WEATHER = "What is the weather like in Paris and in Zürich?"
ASKED = (
    "What is a stream?",
    WEATHER,
    "What is the search about?",
    "What is it? Do refuse.",
    "Please fail.",
)
REFUSED = ("This is over the rate limit.", "This is unauthorized.", "This is a bad request.")
SLOW, SHELL, DELEGATE = "Be slow, please.", "Use the shell.", "Please delegate."
RESULTS = {"Go on.": ["18 °C, clear", "18 °C, clear"], SHELL: ["forty-two bottles"]}
AGENT_TOOLS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "openai-responses": {
        SHELL: ("exec_command", "shell", "functions.exec", "bash"),
        DELEGATE: ("task",),
    },
    "openai-chat": {SHELL: ("bash", "run_shell_command"), DELEGATE: ("task",)},
    "anthropic": {SHELL: ("Bash", "bash"), DELEGATE: ("Agent", "Task", "task")},
    "gemini": {SHELL: ("run_shell_command", "bash"), DELEGATE: ("task",)},
    "gemini-interactions": {SHELL: ("run_shell_command", "bash"), DELEGATE: ("task",)},
}
# what clients ask beside their questions
OTHERS: Sequence[tuple[str, str, Mapping[str, str], str]] = (
    ("GET", "/v1/models", {}, "openai-responses"),
    ("GET", "/v1/models", {"anthropic-version": "2023-06-01"}, "anthropic"),
    ("GET", "/v1beta/models", {}, "gemini"),
)


class Question(NamedTuple):
    """What is asked, whatever the wire format."""

    text: str
    is_streamed: bool = True
    tool: str | None = None
    results: Sequence[str] = ()


def questions(api: str) -> Iterator[Question]:
    for is_streamed in (True, False):
        for text in ASKED:
            yield Question(text, is_streamed)
        for text, results in RESULTS.items():
            yield Question(text, is_streamed, results=results)
        for text in REFUSED:
            yield Question(text, is_streamed)
    for text, tools in AGENT_TOOLS.get(api, {}).items():
        for tool in tools:
            yield Question(text, tool=tool)
    yield Question(SLOW)


def _responses(question: Question) -> tuple[str, Json]:
    user = {"role": "user", "content": question.text}
    results = [
        {"type": "function_call_output", "call_id": f"call_{number}", "output": result}
        for number, result in enumerate(question.results)
    ]
    tools = [_namespaced(question.tool)] if question.tool else []
    return "/v1/responses", {
        "model": "gpt-demo",
        "input": [user, *results] if results else question.text,
        **({"tools": tools} if tools else {}),
        **({"stream": True} if question.is_streamed else {}),
    }


def _namespaced(name: str) -> Json:
    space, _, inner = name.rpartition(".")
    tool = {"type": "custom" if space else "function", "name": inner}
    return (
        {"type": "namespace", "name": space, "tools": [tool]}
        if space
        else {**tool, "parameters": {}}
    )


def _chat(question: Question) -> tuple[str, Json]:
    calls = [
        {"id": f"call_{number}", "type": "function", "function": {"name": "get", "arguments": "{}"}}
        for number, _ in enumerate(question.results)
    ]
    results = [
        {"role": "tool", "tool_call_id": f"call_{number}", "content": result}
        for number, result in enumerate(question.results)
    ]
    called = [{"role": "assistant", "content": None, "tool_calls": calls}] if calls else []
    tool = {"type": "function", "function": {"name": question.tool, "parameters": {}}}
    return "/v1/chat/completions", {
        "model": "gpt-demo",
        "messages": [{"role": "user", "content": question.text}, *called, *results],
        **({"tools": [tool]} if question.tool else {}),
        **(
            {"stream": True, "stream_options": {"include_usage": True}}
            if question.is_streamed
            else {}
        ),
    }


def _messages(question: Question) -> tuple[str, Json]:
    calls, results = [], []
    for number, result in enumerate(question.results):
        calls.append({"type": "tool_use", "id": f"toolu_{number}", "name": "get", "input": {}})
        results.append({"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": result})
    turn = (
        [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]
        if calls
        else []
    )
    return "/v1/messages", {
        "model": "claude-demo",
        "max_tokens": 1024,
        "messages": [{"role": "user", "content": question.text}, *turn],
        **(
            {"tools": [{"name": question.tool, "input_schema": {"type": "object"}}]}
            if question.tool
            else {}
        ),
        **({"stream": True} if question.is_streamed else {}),
    }


def _gemini(question: Question) -> tuple[str, Json]:
    calls, results = [], []
    for result in question.results:
        calls.append({"functionCall": {"name": "get", "args": {}}})
        results.append({"functionResponse": {"name": "get", "response": {"output": result}}})
    turn = [{"role": "model", "parts": calls}, {"role": "user", "parts": results}] if calls else []
    method = "streamGenerateContent?alt=sse" if question.is_streamed else "generateContent"
    return f"/v1beta/models/gemini-demo:{method}", {
        "contents": [{"role": "user", "parts": [{"text": question.text}]}, *turn],
        **(
            {"tools": [{"functionDeclarations": [{"name": question.tool}]}]}
            if question.tool
            else {}
        ),
    }


def _interactions(question: Question) -> tuple[str, Json]:
    steps: list[Json] = [
        {"type": "user_input", "content": [{"type": "text", "text": question.text}]}
    ]
    for number, _ in enumerate(question.results):
        steps.append(
            {"type": "function_call", "id": f"call_{number}", "name": "get", "arguments": {}}
        )
    for number, result in enumerate(question.results):
        steps.append(
            {
                "type": "function_result",
                "call_id": f"call_{number}",
                "name": "get",
                "result": result,
            }
        )
    return "/v1beta/interactions", {
        "model": "gemini-demo",
        "input": steps if question.results else question.text,
        **({"tools": [{"type": "function", "name": question.tool}]} if question.tool else {}),
        **({"stream": True} if question.is_streamed else {}),
    }


def _ollama(question: Question) -> tuple[str, Json]:
    called = [{"function": {"name": "get", "arguments": {}}} for _ in question.results]
    results = [
        {"role": "tool", "tool_name": "get", "content": result} for result in question.results
    ]
    turn = [{"role": "assistant", "content": "", "tool_calls": called}] if called else []
    messages = [{"role": "user", "content": question.text}, *turn, *results]
    return "/ollama/api/chat", {
        "model": "qwen-demo",
        "messages": messages,
        "stream": question.is_streamed,
    }


def _converse(question: Question) -> tuple[str, Json]:
    calls, results = [], []
    for number, result in enumerate(question.results):
        calls.append({"toolUse": {"toolUseId": f"tooluse_{number}", "name": "get", "input": {}}})
        results.append(
            {"toolResult": {"toolUseId": f"tooluse_{number}", "content": [{"text": result}]}}
        )
    turn = (
        [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]
        if calls
        else []
    )
    method = "converse-stream" if question.is_streamed else "converse"
    messages = [{"role": "user", "content": [{"text": question.text}]}, *turn]
    return f"/bedrock/model/claude-demo/{method}", {"messages": messages}


def _variants(api: str) -> Iterator[tuple[str, Json]]:
    """The same question in ways that change the form of the answer, or that only count it."""
    path, body = FORMATS[api](Question(ASKED[0]))
    if api == "openai-chat":
        yield path, {name: body[name] for name in body.keys() - {"stream_options"}}
    elif api == "anthropic":
        yield f"{path}/count_tokens", {name: body[name] for name in ("model", "messages")}
    elif api == "gemini":
        yield path.partition("?")[0], body
        yield path.replace("streamGenerateContent?alt=sse", "countTokens"), body


FORMATS: Mapping[str, Callable[[Question], tuple[str, Json]]] = {
    "openai-responses": _responses,
    "openai-chat": _chat,
    "anthropic": _messages,
    "gemini": _gemini,
    "gemini-interactions": _interactions,
    "ollama": _ollama,
    "bedrock-converse": _converse,
}


async def ask_all(base_url: str, api: str) -> None:
    """Ask what `recorder demo` has not asked yet, all at once but for the order in which they
    begin.
    """
    async with (
        httpx.AsyncClient(base_url=base_url, timeout=120) as client,
        asyncio.TaskGroup() as tasks,
    ):
        asked = [FORMATS[api](question) for question in questions(api)]
        for path, body in [*asked, *_variants(api)]:
            tasks.create_task(client.post(path, json=body))
            await asyncio.sleep(0.05)
        for method, path, headers, of in OTHERS:
            if of == api:
                tasks.create_task(client.request(method, path, headers=headers))


OF_HOSTED = (ASKED[0], WEATHER, "What is the search about?", "Please fail.", *REFUSED)
"""Questions to a hosted agent; without one, the first is that to a session which is asked later."""


async def ask_openai_agents(client: httpx.AsyncClient) -> None:
    """Make a session for each question, go on with results where it waits for some, and follow one
    that is there.
    """
    path = "/v1/agents/sessions"
    for text in OF_HOSTED:
        body = {"agent": {"model": "gpt-demo"}, "environment": {"type": "none"}, "input": text}
        if text in REFUSED:
            await client.post(path, json=body)
        events = events_in((await client.post(path, json={**body, "stream": True})).content)
        calls = objects(
            [
                each.get("item")
                for each in events
                if each.get("type") == "agent.session.turn.item.done"
            ]
        )
        results = [
            {
                "type": "agent.session.input.tool_result",
                "success": True,
                "call_id": call["call_id"],
                "turn_id": call["turn_id"],
                "output": "18 °C, clear",
            }
            for call in calls
            if call["type"] == "function_call"
        ]
        if results:
            [id] = {each["session_id"] for each in events if "session_id" in each}
            await client.post(f"{path}/{id}/events", json={"events": results})
            await client.get(f"{path}/{id}/events")
    made = await client.post(path, json={**body, "input": ASKED[0]})
    await client.get(f"{path}/{made.json()['id']}/events")


async def ask_anthropic_sessions(client: httpx.AsyncClient) -> None:
    """Make a session for each question, and one that is asked when it is there."""
    path = "/v1/sessions"
    for text in (*OF_HOSTED, ""):
        asked = {"type": "user.message", "content": [{"type": "text", "text": text or ASKED[0]}]}
        body: Json = {"agent": "agent_demo", "environment_id": "env_demo"}
        made = await client.post(path, json={**body, "initial_events": [asked]} if text else body)
        if made.status_code != 200:
            continue
        events = f"{path}/{made.json()['id']}/events"
        if not text:
            await client.post(events, json={"events": [asked]})
        stream = events_in(
            (await client.get(f"{events}/stream?event_deltas[]=agent.message")).content
        )
        results = [
            {
                "type": "user.custom_tool_result",
                "custom_tool_use_id": call["id"],
                "content": [{"type": "text", "text": "18 °C, clear"}],
            }
            for call in stream
            if call.get("type") == "agent.custom_tool_use"
        ]
        if results:
            await client.post(events, json={"events": results})
            await client.get(f"{events}/stream?event_deltas[]=agent.message")
        await client.get(events)


HOSTED: Mapping[str, Callable[[httpx.AsyncClient], Awaitable[None]]] = {
    "openai-agents": ask_openai_agents,
    "anthropic-sessions": ask_anthropic_sessions,
}


async def ask_hosted(base_url: str, api: str) -> None:
    async with httpx.AsyncClient(base_url=base_url, timeout=120) as client:
        await HOSTED[api](client)


NOT_PROBED = frozenset({"text", "stop", "resume"})
"""Cases of `recorder probe` that the answer to any question passes."""

NOT_PROBED_OF_HOSTED = {
    "openai-agents": frozenset({"stop"}),
    "anthropic-sessions": frozenset({"session", "stop"}),
}
"""They follow no stream to its end: a question that is like them would be answered by a session
without one.
"""


async def probe(base_url: str, api: str, path: Path) -> None:
    left_out = NOT_PROBED_OF_HOSTED.get(api, NOT_PROBED)
    cases = [
        f"--only={case.name}"
        for case in APIS[api].cases
        if not (case.needs_key or case.name in left_out)
    ]
    words = [
        sys.executable,
        "-m",
        "recorder",
        "probe",
        base_url,
        "--api",
        api,
        "--db",
        str(path),
        *cases,
    ]
    await (await asyncio.create_subprocess_exec(*words)).wait()


async def record(path: Path, chosen: Collection[str]) -> Mapping[str, list[Recording]]:
    """Return what was recorded of wire formats; the session of the demo comes first."""
    plain = [api for api in FORMATS if api in chosen]
    hosted = [api for api in HOSTED if api in chosen]
    url = database_url(path)
    async with await start() as provider:
        async with recorder_before(provider.base_url, url) as base_url:
            if plain:
                await converse(base_url, "demo")
            async with asyncio.TaskGroup() as tasks:
                for api in plain:
                    tasks.create_task(ask_all(f"{base_url}/s/{api}", api))
                for api in hosted:
                    tasks.create_task(ask_hosted(f"{base_url}/s/{api}", api))
        for api in (*plain, *hosted):
            await probe(provider.base_url, api, path)
    found: dict[str, list[Recording]] = {api: [] for api in (*FORMATS, *HOSTED)}
    async with await open_log(url) as log:
        for session in reversed(await list_sessions(log)):
            for recorded in (await load_session(log, session.session_id)).recordings:
                found[_format_of(session.name, recorded.exchange.api)].append(recorded)
    return found


def _format_of(session: str, api: str) -> str:
    """The format whose cassette an exchange goes into; a connection over WebSocket goes where its
    turns go.
    """
    if session in FORMATS or session in HOSTED:
        return session
    return api if api in FORMATS or api in HOSTED else "openai-responses"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        chosen = sys.argv[1:] or [*FORMATS, *HOSTED]
        found = asyncio.run(record(Path(folder) / "demo.db", chosen))
    for api in chosen:
        recordings = found[api]
        path = Path(dialects.__path__[0]) / api.replace("-", "_") / CASSETTE
        exchanges = [(each.exchange, each.events) for each in recordings]
        path.write_bytes(b"".join(cassette_lines(make_session(name="demo"), exchanges)))
        print(f"{path}: {len(recordings)} exchanges, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
