"""The cases of Google's Gemini API."""

from __future__ import annotations

import importlib
from typing import Any
from urllib.parse import quote

from recorder.lint.http import wrong_error
from recorder.probe import checks
from recorder.probe.answer import ProbeAnswer
from recorder.probe.cases import (
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
from recorder.probe.sdks import BASE, QUESTION
from recorder.wire.dialects.gemini.lint.shapes import SHAPES
from recorder.wire.dialects.json_values import member

_TOOLS = [
    {
        "functionDeclarations": [
            {"name": TOOL, "description": TOOL_HELP, "parametersJsonSchema": WEATHER}
        ]
    }
]
_FORCED = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [TOOL]}}
_FORMAT = {"responseMimeType": "application/json", "responseJsonSchema": CITY}


def _user(*parts: Json) -> Json:
    return {"role": "user", "parts": list(parts)}


def _asked(text: str) -> list[Json]:
    return [_user({"text": text})]


def _called(city: str) -> Json:
    return {"functionCall": {"name": TOOL, "args": {"city": city, "unit": "celsius"}}}


_RESULT = {"functionResponse": {"name": TOOL, "response": {"temperature": 18, "sky": "clear"}}}
_ANSWERED = [
    *_asked(WEATHER_QUESTION),
    {"role": "model", "parts": [_called("Paris"), _called("Zürich")]},
    _user(_RESULT, _RESULT),
]


def _wrong_error(document: Any) -> str | None:
    """Return what is wrong with an error as Google's APIs put it; None if nothing is."""
    error = member(document, "error")
    if isinstance(error, dict) and not isinstance(error.get("code"), int):
        return "no number `error.code`"
    return wrong_error(document, "message", "status")


def _create(progress: Progress, body: Json, most_tokens: int) -> tuple[str, Json]:
    """Return the target and the body of a request."""
    method = "streamGenerateContent?alt=sse" if progress.is_streamed else "generateContent"
    config = {"maxOutputTokens": most_tokens, **body.get("generationConfig", {})}
    return f"/v1beta/models/{quote(progress.model)}:{method}", {**body, "generationConfig": config}


_FORM = ApiForm(
    create=_create,
    asks=lambda question: {"contents": _asked(question)},
    thinks={"generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
    tools={"tools": _TOOLS},
    results={"contents": _ANSWERED},
    forces={"toolConfig": _FORCED},
    formats={"generationConfig": _FORMAT},
    titles={
        "reasoning": "Thoughts, which are shown",
        "forced-tool": "A call that the mode `ANY` demands",
    },
    document=checks.document(SHAPES, "generate_content_response"),
    wrong_error=_wrong_error,
    reasoning=(checks.reasons(is_shown=True),),
    done="STOP",
    called="STOP",
    cut="MAX_TOKENS",
    leaves_after=2,
    locks=(400, 401, 403),  # Google itself says 400, with the reason API_KEY_INVALID
    has_ids=False,
    has_more_in_total=True,  # results of its own tools
)


def _read(http: Any, answer: ProbeAnswer) -> SdkReading:
    genai = importlib.import_module("google.genai")
    options = {"base_url": BASE, "httpx_client": http}
    models = genai.Client(api_key="none", http_options=options).models
    asked = {"model": "any", "contents": QUESTION}
    chunks = (
        list(models.generate_content_stream(**asked))
        if answer.is_streamed
        else [models.generate_content(**asked)]
    )
    parts: list[Any] = []
    for chunk in chunks:
        content = chunk.candidates[0].content if chunk.candidates else None
        if content:
            parts += content.parts or ()
    text = "".join(part.text for part in parts if part.text and not part.thought)
    calls = [
        (part.function_call.name, part.function_call.args) for part in parts if part.function_call
    ]
    usage = chunks[-1].usage_metadata
    put_out = (
        (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0) if usage else None
    )
    return SdkReading(text, calls, (usage.prompt_token_count if usage else None, put_out))


API = ProbeApi(
    "gemini",
    "gemini-2.5-flash",
    lambda key: {"x-goog-api-key": key},
    _wrong_error,
    common_cases(_FORM),
    "google.genai",
    _read,
)
