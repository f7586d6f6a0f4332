"""The cases of Ollama's own API. No request can demand the call of a tool."""

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
    user,
)
from recorder.probe.schema import CITY, TOOL, WEATHER
from recorder.probe.sdks import BASE, QUESTION
from recorder.wire.dialects.json_values import word
from recorder.wire.dialects.ollama.lint import SHAPES

_TOOLS = [
    {
        "type": "function",
        "function": {"name": TOOL, "description": TOOL_HELP, "parameters": WEATHER},
    }
]


def _call(city: str) -> Json:
    return {"function": {"name": TOOL, "arguments": {"city": city, "unit": "celsius"}}}


_RESULT = {"role": "tool", "tool_name": TOOL, "content": RESULT}
_ANSWERED: list[Json] = [
    *user(WEATHER_QUESTION),
    {"role": "assistant", "content": "", "tool_calls": [_call("Paris"), _call("Zürich")]},
    *(_RESULT, _RESULT),
]


def _wrong_error(document: Any) -> str | None:
    """Return what is wrong with an error as Ollama puts it; None if nothing is."""
    if not isinstance(document, dict):
        return wrong_error(document)
    return None if word(document, "error") else "no text `error`"


def _create(progress: Progress, body: Json, most_tokens: int) -> tuple[str, Json]:
    """Return the target and the body of a request: without `stream` it would ask for one."""
    asked = {
        "model": progress.model,
        "stream": progress.is_streamed,
        "options": {"num_predict": most_tokens},
    }
    return "/api/chat", {**asked, **body}


_FORM = ApiForm(
    create=_create,
    asks=lambda question: {"messages": user(question)},
    thinks={"think": True},
    tools={"tools": _TOOLS},
    results={"messages": _ANSWERED},
    forces=None,
    formats={"format": CITY},
    titles={"reasoning": "Thinking, which is shown"},
    document=checks.document(SHAPES, "chat"),
    wrong_error=_wrong_error,
    reasoning=(checks.reasons(is_shown=True),),
    done="stop",
    called="stop",
    cut="length",
    leaves_after=4,
    has_ids=False,
)


def _read(http: Any, answer: ProbeAnswer) -> SdkReading:
    ollama, httpx = map(importlib.import_module, ("ollama", "httpx"))

    def answered(request: Any) -> Any:
        found = http.post(f"{BASE}/api/chat", content=request.content)
        return httpx.Response(found.status_code, content=found.content)

    chat = ollama.Client(BASE, transport=httpx.MockTransport(answered)).chat
    read = chat(model="any", messages=user(QUESTION), stream=answer.is_streamed)
    lines = list(read) if answer.is_streamed else [read]
    text = "".join(line.message.content or "" for line in lines)
    calls: list[tuple[str | None, Any]] = []
    for line in lines:
        calls += [
            (call.function.name, call.function.arguments) for call in line.message.tool_calls or ()
        ]
    return SdkReading(text, calls, (lines[-1].prompt_eval_count, lines[-1].eval_count))


API = ProbeApi(
    "ollama",
    "qwen3",
    lambda key: {"authorization": f"Bearer {key}"},
    _wrong_error,
    common_cases(_FORM),
    "ollama",
    _read,
)
