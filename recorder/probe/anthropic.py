"""The cases of Anthropic's Messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recorder.lint.anthropic.shapes import SHAPES
from recorder.probe import checks
from recorder.probe.cases import (
    CITY_QUESTION,
    CUT_TOKENS,
    LONG,
    LONG_TOKENS,
    PUZZLE,
    RESULT,
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

_BUDGET_TOKENS = 1_024  # of thinking: the least that the API takes
_LEAVES_AFTER = 5  # events
_TOOLS = [{"name": TOOL, "description": TOOL_HELP, "input_schema": WEATHER}]
_DOCUMENT = checks.document(SHAPES, "message")


def _user(content: Any) -> list[Json]:
    return [{"role": "user", "content": content}]


def _use(number: int, city: str) -> Json:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": TOOL, "input": {"city": city, "unit": "celsius"}}


def _result(number: int) -> Json:
    return {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": RESULT}


_ANSWERED = [
    *_user(WEATHER_QUESTION),
    {"role": "assistant", "content": [_use(1, "Paris"), _use(2, "Zürich")]},
    *_user([_result(1), _result(2)]),
]


def wrong_error(document: Any) -> str | None:
    """Return what is wrong with an error as Anthropic's API puts it; None if nothing is."""
    if not isinstance(document, dict):
        return "the body is not a JSON object"
    error = document.get("error")
    if document.get("type") != "error" or not isinstance(error, dict):
        return "no `type` that is `error`, or no object `error`"
    lacking = [name for name in ("type", "message") if not (isinstance(error.get(name), str) and error[name])]
    return f"no text `error.{lacking[0]}`" if lacking else None


def _create(
    body: Json, most_tokens: int, key: Key = "given", leaves_after: int | None = None
) -> Callable[[Progress], ProbeCall]:
    """Return what makes the request of a message."""

    def make(progress: Progress) -> ProbeCall:
        stream: Json = {"stream": True} if progress.is_streamed else {}
        whole = {"model": progress.model, "max_tokens": most_tokens, **body, **stream}
        return ProbeCall("POST", "/v1/messages", whole, key, leaves_after)

    return make


def _good(body: Json, *expects: Check, most_tokens: int = TEXT_TOKENS, reason: str = "end_turn") -> ProbeStep:
    """Return the step of a request that is answered in full."""
    usual = (checks.answers, _DOCUMENT, checks.named, checks.ends(reason), checks.counts(most_tokens))
    return ProbeStep(_create(body, most_tokens), (*usual, *expects), most_tokens)


CASES = (
    Case("text", "A short answer", (_good({"messages": _user(TEXT)}, checks.says, checks.flows),)),
    Case(
        "reasoning",
        "Thinking, which is shown",
        (
            _good(
                {
                    "messages": _user(PUZZLE),
                    "thinking": {"type": "enabled", "budget_tokens": _BUDGET_TOKENS},
                },
                *(checks.says, checks.reasons(is_shown=True), checks.signs),
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
                {"messages": _user(WEATHER_QUESTION), "tools": _TOOLS},
                checks.calls(TOOL, WEATHER, 2),
                reason="tool_use",
            ),
        ),
    ),
    Case(
        "tool-results",
        "An answer from results of tools",
        (_good({"messages": _ANSWERED, "tools": _TOOLS}, checks.says),),
    ),
    Case(
        "forced-tool",
        "A call that `tool_choice` demands",
        (
            _good(
                {"messages": _user(TEXT), "tools": _TOOLS, "tool_choice": {"type": "tool", "name": TOOL}},
                *(checks.forces(TOOL), checks.calls(TOOL, WEATHER)),
                reason="tool_use",
            ),
        ),
    ),
    Case(
        "structured",
        "An answer that fits a schema",
        (
            _good(
                {
                    "messages": _user(CITY_QUESTION),
                    "output_config": {"format": {"type": "json_schema", "schema": CITY}},
                },
                checks.fits(CITY),
            ),
        ),
        is_optional=True,
    ),
    Case(
        "max-tokens",
        "A long answer, cut by a limit on tokens",
        (
            ProbeStep(
                _create({"messages": _user(LONG)}, CUT_TOKENS),
                (checks.answers, _DOCUMENT, checks.limits(CUT_TOKENS, ["max_tokens"])),
                CUT_TOKENS,
            ),
        ),
    ),
    Case(
        "stop",
        "A long answer that the client stops",
        (
            ProbeStep(
                _create({"messages": _user(LONG)}, LONG_TOKENS, leaves_after=_LEAVES_AFTER),
                *((checks.answers, checks.flows), LONG_TOKENS),
                is_cut=True,
            ),
        ),
        modes=("streamed",),
    ),
    Case(
        "bad-request",
        "A request that makes no sense",
        (ProbeStep(_create({"messages": 42}, CUT_TOKENS), (checks.refuses(wrong_error),), CUT_TOKENS),),
    ),
    Case(
        "wrong-key",
        "A key that nobody has",
        (
            ProbeStep(
                _create({"messages": _user(TEXT)}, CUT_TOKENS, key="wrong"),
                *((checks.locks((401, 403), wrong_error),), CUT_TOKENS),
            ),
        ),
        needs_key=True,
    ),
)

API = ProbeApi(
    "anthropic",
    "claude-haiku-4-5",
    lambda key: {"x-api-key": key, "anthropic-version": "2023-06-01"},
    wrong_error,
    CASES,
)
