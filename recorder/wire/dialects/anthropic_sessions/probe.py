"""The cases of Claude Managed Agents.

The agent and its environment have to be there: `--model AGENT/ENVIRONMENT` names them.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from typing import Any

from recorder.probe import checks
from recorder.probe.answer import ProbeAnswer
from recorder.probe.cases import RESULT, TOOL_HELP, Json, ProbeApi, Progress, SdkReading
from recorder.probe.hosted import HostedForm, hosted_cases
from recorder.probe.schema import TOOL, WEATHER
from recorder.probe.sdks import BASE
from recorder.wire.dialects.anthropic.probe import wrong_error_body
from recorder.wire.dialects.json_values import Object, text

_TOOL = {"type": "custom", "name": TOOL, "description": TOOL_HELP, "input_schema": WEATHER}
_LIMIT = {"type": "limit", "max_list_cost": {"amount": "100", "currency": "USD"}}  # cents
_CALL = "agent.custom_tool_use"


def _make(progress: Progress, question: object, with_tool: bool) -> Json:
    agent, _, environment = progress.model.partition("/")
    overridden = {"type": "agent_with_overrides", "id": agent, "tools": [_TOOL]}
    asked = [{"type": "user.message", "content": [{"type": "text", "text": question}]}]
    return {
        "agent": overridden if with_tool else agent,
        "environment_id": environment or "none",
        "initial_events": asked if isinstance(question, str) else question,
        "budget": _LIMIT,
    }


def _results(events: Sequence[Object]) -> list[Json]:
    content = [{"type": "text", "text": RESULT}]
    return [
        {
            "type": "user.custom_tool_result",
            "custom_tool_use_id": event.get("id"),
            "content": content,
        }
        for event in events
        if text(event, "type") == _CALL
    ]


_FORM = HostedForm(
    name="anthropic-sessions",
    path="/v1/sessions",
    stream="events/stream?event_deltas%5B%5D=agent.message",
    make=_make,
    results=_results,
    at_rest=re.compile(rb'"session\.status_(?:idle|terminated)"'),
    done="end_turn",
    wrong_error=wrong_error_body,
    answer=(checks.answers, checks.flows),
    document=(checks.answers, checks.named),
    is_streamed=False,
)


def _read(http: Any, answer: ProbeAnswer) -> SdkReading:
    anthropic = importlib.import_module("anthropic")
    sessions = anthropic.Anthropic(
        base_url=BASE, api_key="none", max_retries=0, http_client=http
    ).beta.sessions
    if not answer.is_streamed:
        sessions.create(agent="any", environment_id="any")
        return SdkReading("", [], (None, None))
    said = ""
    calls: list[tuple[str | None, Any]] = []
    input_tokens = output_tokens = 0
    with sessions.events.stream("any") as events:
        for event in events:
            if event.type == "agent.message":
                said += "".join(part.text for part in event.content if part.type == "text")
            elif event.type in (_CALL, "agent.tool_use", "agent.mcp_tool_use"):
                calls.append((event.name, event.input))
            elif event.type == "span.model_request_end":
                usage = event.model_usage
                cached = usage.cache_read_input_tokens + usage.cache_creation_input_tokens
                input_tokens += usage.input_tokens + cached
                output_tokens += usage.output_tokens
    return SdkReading(said, calls, (input_tokens, output_tokens))


API = ProbeApi(
    "anthropic-sessions",
    "agent/environment",
    lambda key: {
        "x-api-key": key,
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "managed-agents-2026-04-01",
    },
    wrong_error_body,
    hosted_cases(_FORM),
    "anthropic",
    _read,
)
