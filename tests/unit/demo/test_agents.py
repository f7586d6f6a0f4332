"""The demo upstream as agents meet it: their own tools, sub-agents, titles, schemas and probes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from recorder.demo.scripts import DEPTH, NUMBER, TEXT, fill
from tests.support.demo import Demo

RESPONSES, CHAT, MESSAGES = "/v1/responses", "/v1/chat/completions", "/v1/messages"
GEMINI = "/v1beta/models/gemini-3.5-flash:generateContent"
SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}}
FITS = json.dumps({"title": TEXT})


@pytest.fixture
def client() -> Demo:
    return Demo()


def codex(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A request of Codex whose tools are in its input, as its default model has them."""
    agents = {"type": "namespace", "name": "collaboration", "tools": [{"type": "function", "name": "spawn_agent"}]}
    shell = {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}
    tools = {"type": "additional_tools", "role": "developer", "tools": [shell, agents]}
    return {"model": "m", "input": [tools, *items], **more}


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def output(client: Demo, body: dict[str, Any]) -> dict[str, Any]:
    """The last output item of a response."""
    item: dict[str, Any] = client.post(RESPONSES, body).json()["output"][-1]
    return item


# -- tools


def test_codex_is_given_text_for_its_custom_tool(client: Demo) -> None:
    call = output(client, codex(user("Use the shell.")))
    assert (call["type"], call["name"], call["status"]) == ("custom_tool_call", "exec", "completed")
    assert "tools.exec_command" in call["input"]


def test_a_custom_call_streams_its_input(client: Demo) -> None:
    body = client.post(RESPONSES, codex(user("Use the shell."), stream=True)).text
    events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: {")]
    family = "response.custom_tool_call_input"
    deltas = "".join(event["delta"] for event in events if event["type"] == f"{family}.delta")
    assert [event["input"] for event in events if event["type"] == f"{family}.done"] == [deltas]


ASKS: dict[str, tuple[str, dict[str, Any], str]] = {
    "Codex": (RESPONSES, {"input": "the shell", "tools": [{"type": "function", "name": "exec_command"}]}, "cmd"),
    "opencode": (CHAT, {"messages": [{"role": "user", "content": "the shell"}],
                        "tools": [{"type": "function", "function": {"name": "bash"}}]}, "command"),
    "Claude Code": (MESSAGES, {"messages": [{"role": "user", "content": "the shell"},
                                            {"role": "system", "content": "more"}],
                               "tools": [{"name": "Bash"}]}, "command"),
    "Gemini CLI": (GEMINI, {"contents": [{"parts": [{"text": "the shell"}]}],
                            "tools": [{"functionDeclarations": [{"name": "run_shell_command"}]}]}, "command"),
}  # fmt: skip


@pytest.mark.parametrize("agent", ASKS)
def test_an_agent_is_asked_to_run_its_own_shell(client: Demo, agent: str) -> None:
    path, body, argument = ASKS[agent]
    reply = client.post(path, {"model": "m", **body}).text.replace('\\"', '"')
    assert f'"{argument}":"echo ' in reply.replace(": ", ":")


def test_a_client_without_a_shell_is_not_asked_for_one(client: Demo) -> None:
    item = output(client, {"model": "m", "input": "Use the shell."})
    assert item["type"] == "message"


def test_a_sub_agent_is_waited_for(client: Demo) -> None:
    items: list[dict[str, Any]] = [user("delegate it")]
    spawn = output(client, codex(*items))
    assert (spawn["name"], spawn["namespace"]) == ("spawn_agent", "collaboration")
    items += [spawn, {"type": "function_call_output", "call_id": spawn["call_id"], "output": "{}"}]
    wait = output(client, codex(*items))
    assert wait["name"] == "wait_agent"
    items += [wait, {"type": "function_call_output", "call_id": wait["call_id"], "output": "done"}]
    assert output(client, codex(*items))["type"] == "message"


def test_the_task_of_a_sub_agent_is_answered(client: Demo) -> None:
    task = {"type": "agent_message", "content": [{"type": "input_text", "text": "What is a stream?"}]}
    assert output(client, codex(user("delegate it"), task))["type"] == "message"


# -- helpers


WANTED: dict[str, dict[str, Any]] = {
    RESPONSES: {"input": "hi", "text": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    CHAT: {"messages": [], "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
    MESSAGES: {"messages": [], "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    GEMINI: {"contents": [], "generationConfig": {"responseJsonSchema": SCHEMA}},
}


@pytest.mark.parametrize("path", WANTED)
def test_an_answer_fits_the_schema(client: Demo, path: str) -> None:
    reply = client.post(path, {"model": "m", **WANTED[path]}).text
    assert json.dumps(FITS)[1:-1] in reply


def test_an_answer_fits_the_schema_where_older_clients_have_it(client: Demo) -> None:
    asked = {"model": "m", "messages": [], "output_format": {"type": "json_schema", "schema": SCHEMA}}
    assert json.loads(client.post(MESSAGES, asked).json()["content"][-1]["text"]) == json.loads(FITS)


def test_a_schema_is_filled() -> None:
    inner = {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}, "e": {"enum": ["a", "b"]}}}
    assert fill({"type": "array", "items": inner}) == [{"n": NUMBER, "e": "a"}]
    assert fill({"anyOf": [{"const": 3}, {"type": "null"}]}) == 3
    assert fill({"type": ["boolean", "null"]}) is True
    assert fill(True) == fill({}) == TEXT


def test_a_schema_in_itself_has_an_end() -> None:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"child": schema}
    assert json.dumps(fill(schema)).count("child") == DEPTH


def test_a_conversation_gets_a_title(client: Demo) -> None:
    developer = {"role": "developer", "content": "You are a title generator."}
    item = output(client, {"model": "m", "input": [developer, user("hello")]})
    assert item["content"][0]["text"] == "Words about a stream"


def test_probes_are_answered_as_the_services_do(client: Demo) -> None:
    assert client.get("/api/hello", method="HEAD").status_code == 200
    counted = client.post(GEMINI.replace("generateContent", "countTokens"), {"contents": []})
    assert counted.json()["totalTokens"] > 0
