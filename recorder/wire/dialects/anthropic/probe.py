"""The cases of Anthropic's Messages."""

from __future__ import annotations

import importlib
from typing import Any

from recorder.lint.http import wrong_error
from recorder.probe import checks
from recorder.probe.answer import ProbeAnswer
from recorder.probe.cases import (
    RESULT,
    TOOL_HELP,
    WEATHER_QUESTION,
    ApiForm,
    Json,
    ProbeApi,
    SdkReading,
    common_cases,
    posts,
    user,
)
from recorder.probe.schema import CITY, TOOL, WEATHER
from recorder.probe.sdks import BASE, QUESTION
from recorder.wire.dialects.anthropic.lint.shapes import SHAPES

_BUDGET_TOKENS = 1_024  # of thinking: the least that the API takes
_TOOLS = [{"name": TOOL, "description": TOOL_HELP, "input_schema": WEATHER}]


def _use(number: int, city: str) -> Json:
    return {
        "type": "tool_use",
        "id": f"toolu_{number}",
        "name": TOOL,
        "input": {"city": city, "unit": "celsius"},
    }


def _result(number: int) -> Json:
    return {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": RESULT}


_ANSWERED = [
    *user(WEATHER_QUESTION),
    {"role": "assistant", "content": [_use(1, "Paris"), _use(2, "Zürich")]},
    *user([_result(1), _result(2)]),
]


def wrong_error_body(document: Any) -> str | None:
    """Return what is wrong with an error as Anthropic's API puts it; None if nothing is."""
    if isinstance(document, dict) and (
        document.get("type") != "error" or not isinstance(document.get("error"), dict)
    ):
        return "no `type` that is `error`, or no object `error`"
    return wrong_error(document, "type", "message")


FORM = ApiForm(
    create=posts("/v1/messages", "max_tokens", {"stream": True}),
    asks=lambda question: {"messages": user(question)},
    thinks={"thinking": {"type": "enabled", "budget_tokens": _BUDGET_TOKENS}},
    tools={"tools": _TOOLS},
    results={"messages": _ANSWERED},
    forces={"tool_choice": {"type": "tool", "name": TOOL}},
    formats={"output_config": {"format": {"type": "json_schema", "schema": CITY}}},
    titles={
        "reasoning": "Thinking, which is shown",
        "forced-tool": "A call that `tool_choice` demands",
    },
    document=checks.document(SHAPES, "message"),
    wrong_error=wrong_error_body,
    reasoning=(checks.reasons(is_shown=True), checks.signs),
    done="end_turn",
    called="tool_use",
    cut="max_tokens",
    leaves_after=5,
)


def _read(http: Any, answer: ProbeAnswer) -> SdkReading:
    anthropic = importlib.import_module("anthropic")
    return read_by(
        anthropic.Anthropic(base_url=BASE, api_key="none", max_retries=0, http_client=http), answer
    )


def read_by(client: Any, answer: ProbeAnswer) -> SdkReading:
    """Return what a client of anthropic-sdk-python reads."""
    api = client.messages
    asked: Json = {"model": "any", "max_tokens": 1_024, "messages": user(QUESTION)}
    if answer.is_streamed:
        with api.stream(**asked) as stream:
            message = stream.get_final_message()
    else:
        message = api.create(**asked)
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [(block.name, block.input) for block in message.content if block.type == "tool_use"]
    usage = message.usage
    cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    return SdkReading(text, calls, (usage.input_tokens + cached, usage.output_tokens))


API = ProbeApi(
    "anthropic",
    "claude-haiku-4-5",
    lambda key: {"x-api-key": key, "anthropic-version": "2023-06-01"},
    wrong_error_body,
    common_cases(FORM),
    "anthropic",
    _read,
)
