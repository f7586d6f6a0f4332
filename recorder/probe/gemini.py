"""The cases of Google's Gemini API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from recorder.lint.gemini.shapes import SHAPES
from recorder.probe import checks
from recorder.probe.cases import (
    CITY_QUESTION,
    CUT_TOKENS,
    LONG,
    LONG_TOKENS,
    PUZZLE,
    TEXT,
    TEXT_TOKENS,
    TOOL,
    TOOL_HELP,
    WEATHER_QUESTION,
    Case,
    Json,
    Key,
    ProbeApi,
    ProbeCall,
    ProbeStep,
    Progress,
)
from recorder.probe.checks import Check
from recorder.probe.schema import CITY, WEATHER

_LEAVES_AFTER = 2  # chunks
_TOOLS = [{"functionDeclarations": [{"name": TOOL, "description": TOOL_HELP, "parametersJsonSchema": WEATHER}]}]
_FORCED = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [TOOL]}}
_FORMAT = {"responseMimeType": "application/json", "responseJsonSchema": CITY}
_DOCUMENT = checks.document(SHAPES, "generate_content_response")


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


def wrong_error(document: Any) -> str | None:
    """Return what is wrong with an error as Google's APIs put it; None if nothing is."""
    if not isinstance(document, dict):
        return "the body is not a JSON object"
    error = document.get("error")
    if not isinstance(error, dict):
        return "no object `error`"
    if not isinstance(error.get("code"), int):
        return "no number `error.code`"
    lacking = [name for name in ("message", "status") if not (isinstance(error.get(name), str) and error[name])]
    return f"no text `error.{lacking[0]}`" if lacking else None


def _create(
    body: Json, most_tokens: int, key: Key = "given", leaves_after: int | None = None
) -> Callable[[Progress], ProbeCall]:
    """Return what makes the request of a content."""

    def make(progress: Progress) -> ProbeCall:
        method = "streamGenerateContent?alt=sse" if progress.is_streamed else "generateContent"
        config = {"maxOutputTokens": most_tokens, **body.get("generationConfig", {})}
        target = f"/v1beta/models/{quote(progress.model)}:{method}"
        return ProbeCall("POST", target, {**body, "generationConfig": config}, key, leaves_after)

    return make


def _good(body: Json, *expects: Check, most_tokens: int = TEXT_TOKENS) -> ProbeStep:
    """Return the step of a request that is answered in full."""
    usual = (checks.answers, _DOCUMENT, checks.named, checks.ends("STOP"), checks.counts(most_tokens))
    return ProbeStep(_create(body, most_tokens), (*usual, *expects), most_tokens)


CASES = (
    Case("text", "A short answer", (_good({"contents": _asked(TEXT)}, checks.says, checks.flows),)),
    Case(
        "reasoning",
        "Thoughts, which are shown",
        (
            _good(
                {
                    "contents": _asked(PUZZLE),
                    "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
                },
                *(checks.says, checks.reasons(is_shown=True)),
                most_tokens=LONG_TOKENS,
            ),
        ),
        is_optional=True,
    ),
    Case(
        "parallel-tools",
        "Two calls of a tool at once",
        (
            _good(
                {"contents": _asked(WEATHER_QUESTION), "tools": _TOOLS},
                checks.calls(TOOL, WEATHER, 2, has_ids=False),
            ),
        ),
    ),
    Case(
        "tool-results",
        "An answer from results of tools",
        (_good({"contents": _ANSWERED, "tools": _TOOLS}, checks.says),),
    ),
    Case(
        "forced-tool",
        "A call that the mode `ANY` demands",
        (
            _good(
                {"contents": _asked(TEXT), "tools": _TOOLS, "toolConfig": _FORCED},
                *(checks.forces(TOOL), checks.calls(TOOL, WEATHER, has_ids=False)),
            ),
        ),
    ),
    Case(
        "structured",
        "An answer that fits a schema",
        (_good({"contents": _asked(CITY_QUESTION), "generationConfig": _FORMAT}, checks.fits(CITY)),),
        is_optional=True,
    ),
    Case(
        "max-tokens",
        "A long answer, cut by a limit on tokens",
        (
            ProbeStep(
                _create({"contents": _asked(LONG)}, CUT_TOKENS),
                (checks.answers, _DOCUMENT, checks.limits(CUT_TOKENS, ["MAX_TOKENS"])),
                CUT_TOKENS,
            ),
        ),
    ),
    Case(
        "stop",
        "A long answer that the client stops",
        (
            ProbeStep(
                _create({"contents": _asked(LONG)}, LONG_TOKENS, leaves_after=_LEAVES_AFTER),
                *((checks.answers, checks.flows), LONG_TOKENS),
                is_cut=True,
            ),
        ),
        modes=("streamed",),
    ),
    Case(
        "bad-request",
        "A request that makes no sense",
        (ProbeStep(_create({"contents": 42}, CUT_TOKENS), (checks.refuses(wrong_error),), CUT_TOKENS),),
    ),
    Case(
        "wrong-key",
        "A key that nobody has",
        (
            ProbeStep(  # Google itself says 400, with the reason API_KEY_INVALID
                _create({"contents": _asked(TEXT)}, CUT_TOKENS, key="wrong"),
                *((checks.locks((400, 401, 403), wrong_error),), CUT_TOKENS),
            ),
        ),
        needs_key=True,
    ),
)

API = ProbeApi("gemini", "gemini-2.5-flash", lambda key: {"x-goog-api-key": key}, wrong_error, CASES)
