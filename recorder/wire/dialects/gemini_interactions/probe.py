"""The cases of Google's Interactions API."""

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
    Progress,
    SdkReading,
    common_cases,
)
from recorder.probe.schema import CITY, TOOL, WEATHER
from recorder.probe.sdks import BASE, QUESTION, json_or_text
from recorder.wire.dialects.gemini_interactions.lint.shapes import SHAPES

_PATH = "/v1beta/interactions"
_TOOLS = [{"type": "function", "name": TOOL, "description": TOOL_HELP, "parameters": WEATHER}]
_FORCED = {"tool_choice": {"allowed_tools": {"mode": "any", "tools": [TOOL]}}}
_FORMAT = {"type": "text", "mime_type": "application/json", "schema": CITY}


def _called(id: str, city: str) -> Json:
    return {
        "type": "function_call",
        "id": id,
        "name": TOOL,
        "arguments": {"city": city, "unit": "celsius"},
    }


def _result(id: str) -> Json:
    return {
        "type": "function_result",
        "call_id": id,
        "name": TOOL,
        "result": [{"type": "text", "text": RESULT}],
    }


_ANSWERED = [
    {"type": "user_input", "content": [{"type": "text", "text": WEATHER_QUESTION}]},
    *(_called("call_1", "Paris"), _called("call_2", "Zürich")),
    *(_result("call_1"), _result("call_2")),
]


def _wrong_error(document: Any) -> str | None:
    """Return what is wrong with an error as the Interactions API puts it; None if nothing is."""
    return wrong_error(document, "message", "code")


def _create(progress: Progress, body: Json, most_tokens: int) -> tuple[str, Json]:
    """Return the target and the body of a request."""
    config = {"max_output_tokens": most_tokens, **body.get("generation_config", {})}
    asked = {"model": progress.model, **body, "generation_config": config}
    return _PATH, {**asked, "stream": True} if progress.is_streamed else asked


_FORM = ApiForm(
    create=_create,
    asks=lambda question: {"input": question},
    thinks={"generation_config": {"thinking_summaries": "auto"}},
    tools={"tools": _TOOLS},
    results={"input": _ANSWERED},
    forces={"generation_config": _FORCED},
    formats={"response_format": _FORMAT},
    titles={
        "reasoning": "Thoughts, with a summary",
        "forced-tool": "A call that the mode `any` demands",
    },
    document=checks.document(SHAPES, "interaction"),
    wrong_error=_wrong_error,
    reasoning=(checks.reasons(is_shown=True),),
    done="completed",
    called="requires_action",
    cut="incomplete",
    leaves_after=6,  # events: after the opening ones, and the first of the answer
    locks=(400, 401, 403),  # Google itself says 400, with the reason API_KEY_INVALID
    has_more_in_total=True,  # results of its own tools
)


def _read(http: Any, answer: ProbeAnswer) -> SdkReading:
    genai = importlib.import_module("google.genai")
    options = {"base_url": BASE, "api_version": "v1beta", "httpx_client": http}
    api = genai.Client(api_key="none", http_options=options).interactions
    if answer.is_streamed:
        return _read_events(list(api.create(model="any", input=QUESTION, stream=True)))
    interaction = api.create(model="any", input=QUESTION)
    calls = [
        (step.name, step.arguments) for step in interaction.steps if step.type == "function_call"
    ]
    return SdkReading(interaction.output_text or "", calls, _tokens(interaction.usage))


def _read_events(events: list[Any]) -> SdkReading:
    """Put together what a stream says: the SDK hands on its events alone."""
    text, usage = "", None
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    for event in events:
        if event.event_type == "step.start" and event.step.type == "function_call":
            names[event.index], arguments[event.index] = event.step.name, ""
        elif event.event_type == "step.delta" and event.delta.type == "text":
            text += event.delta.text
        elif event.event_type == "step.delta" and event.delta.type == "arguments_delta":
            arguments[event.index] += event.delta.arguments
        elif event.event_type == "interaction.completed":
            usage = event.interaction.usage
    return SdkReading(
        text, [(name, json_or_text(arguments[at])) for at, name in names.items()], _tokens(usage)
    )


def _tokens(usage: Any) -> tuple[int | None, int | None]:
    if usage is None:
        return None, None
    return usage.total_input_tokens, (usage.total_output_tokens or 0) + (
        usage.total_thought_tokens or 0
    )


API = ProbeApi(
    "gemini-interactions",
    "gemini-2.5-flash",
    lambda key: {"x-goog-api-key": key},
    _wrong_error,
    common_cases(_FORM),
    "google.genai",
    _read,
)
