"""What a request to Chat Completions asks for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from recorder.model.facts import RequestFacts, ToolResult
from recorder.wire.dialects.openai_chat import DIALECT
from tests.support.tables import table


def asked(path: str = "/v1/chat/completions", /, **body: Any) -> RequestFacts:
    return DIALECT.request_facts(path, json.dumps(body).encode())


def user(*said: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in said]}


def test_a_request_says_its_model_and_what_the_user_says_last() -> None:
    said = asked(
        model="m",
        stream=True,
        messages=[{"role": "system", "content": "s"}, user("a"), user("b", "c")],
    )
    assert said == RequestFacts(
        "m", True, "c", True, (), ("s",), items=3, parameters=said.parameters
    )


def test_what_a_client_wraps_in_a_tag_is_not_said_by_the_user() -> None:
    wrapped = "<environment_context>\n  <cwd>/</cwd>\n</environment_context>\n"
    assert asked(messages=[user("Hello", wrapped, " ")]).text == "Hello"
    assert asked(messages=[user("Hello"), user(wrapped)]).text == "Hello"
    assert asked(messages=[user("<b>a</b> and <b>b</b>")]).text == "<b>a</b> and <b>b</b>"
    assert asked(messages=[user(wrapped)]).text is None


def test_results_of_tools_go_on_with_a_turn() -> None:
    results = [
        {"role": "tool", "tool_call_id": "a", "content": "4"},
        {
            "role": "tool",
            "tool_call_id": "b",
            "content": [{"type": "text", "text": "5"}, {"type": "text", "text": "6"}],
        },
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "image"}]},
        {"role": "function", "name": "f", "content": None},
    ]
    said = asked(messages=[user("Roll"), {"role": "assistant", "tool_calls": []}, *results])
    assert (said.text, said.is_turn) == ("Roll", False)
    assert said.results == (
        ToolResult("a", None, "4"),
        ToolResult("b", None, "56"),
        ToolResult("c", None, '[{"type":"image"}]'),
        ToolResult(None, "f", ""),
    )


@pytest.mark.parametrize(
    ("prompt", "text"), [("a", "a"), (["a", "b"], "b"), ([[1, 2]], None), (None, None)]
)
def test_a_legacy_request_has_a_prompt(prompt: Any, text: str | None) -> None:
    said = asked("/v1/completions", model="m", prompt=prompt)
    assert (said.text, said.is_turn) == (text, text is not None)


def test_a_deployment_in_the_path_is_the_model() -> None:
    assert asked("/openai/deployments/gpt-4/chat/completions", messages=[]).model == "gpt-4"


@table(
    "body", [b"", b"no JSON", b"[]", b'{"messages": [1, {"role": "user", "content": {}}]}', b"\xff"]
)
def test_a_request_that_cannot_be_read_asks_for_nothing(body: bytes) -> None:
    said = DIALECT.request_facts("/v1/chat/completions", body)
    assert (said.model, said.text, said.results) == (None, None, ())
