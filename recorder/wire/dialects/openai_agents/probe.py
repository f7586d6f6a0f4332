"""The cases of OpenAI's hosted agents."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from recorder.lint.http import wrong_error
from recorder.probe import checks
from recorder.probe.answer import ProbeAnswer
from recorder.probe.cases import RESULT, TOOL_HELP, Json, ProbeApi, Progress, SdkReading
from recorder.probe.hosted import HostedForm, hosted_cases
from recorder.probe.schema import TOOL, WEATHER
from recorder.probe.sdks import QUESTION, json_or_text, openai_client
from recorder.wire.dialects.json_values import Object, object_, text
from recorder.wire.dialects.openai_agents.lint import SHAPES

_TOOL = {"type": "function", "name": TOOL, "description": TOOL_HELP, "parameters": WEATHER}
_ENVIRONMENT = {"type": "none"}
_ITEM_DONE = "agent.session.turn.item.done"


def _make(progress: Progress, question: object, with_tool: bool) -> Json:
    agent = {"model": progress.model, "tools": [_TOOL] if with_tool else []}
    # cents
    return {
        "agent": agent,
        "environment": _ENVIRONMENT,
        "input": question,
        "spend_control": {"limit": 100},
    }


def _results(events: Sequence[Object]) -> list[Json]:
    calls = [object_(event, "item") for event in events if event.get("type") == _ITEM_DONE]
    given: Json = {"type": "agent.session.input.tool_result", "success": True, "output": RESULT}
    return [
        {**given, "call_id": call.get("call_id"), "turn_id": call.get("turn_id")}
        for call in calls
        if text(call, "type") == "function_call"
    ]


_FORM = HostedForm(
    name="openai-agents",
    path="/v1/agents/sessions",
    stream="events",
    make=_make,
    results=_results,
    at_rest=re.compile(rb'"agent\.session\.(?:idle|requires_action|failed)"'),
    done="idle",
    wrong_error=wrong_error,
    answer=(checks.answers, checks.named, checks.flows),
    document=(checks.answers, checks.document(SHAPES, "session"), checks.named),
    is_streamed=True,
)


def _read(http: Any, answer: ProbeAnswer) -> SdkReading:
    sessions = openai_client(http).beta.agents.sessions
    if not answer.is_streamed:
        agent: Any = {"model": "any"}
        sessions.create(agent=agent, environment=_ENVIRONMENT, input=QUESTION)
        return SdkReading("", [], (None, None))
    found: list[Any] = []
    input_tokens = output_tokens = 0
    for event in sessions.events.stream("any"):
        if event.type == _ITEM_DONE:
            found.append(event.item)
        elif event.type == "agent.session.turn.completed":
            input_tokens += event.usage.input_tokens
            output_tokens += event.usage.output_tokens
    parts: list[str] = []
    for item in found:
        if item.type == "message" and item.role == "assistant":
            parts += [part.text for part in item.content]
    calls = [
        (item.name, json_or_text(item.arguments)) for item in found if item.type == "function_call"
    ]
    return SdkReading("".join(parts), calls, (input_tokens, output_tokens))


API = ProbeApi(
    "openai-agents",
    "gpt-5-mini",
    lambda key: {"authorization": f"Bearer {key}", "openai-beta": "agents=v1"},
    wrong_error,
    hosted_cases(_FORM),
    "openai",
    _read,
)
