"""The cases of OpenAI's Responses API."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from recorder.lint.openai_errors import wrong_error
from recorder.lint.openai_responses.shapes import SHAPES
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
from recorder.wire.dialects.json_values import decoded
from recorder.wire.sse import parse

_PATH = "/v1/responses"
_ID = re.compile(r"[\w-]{1,500}", re.ASCII)  # of a response: it becomes a part of a path
_COMPLETED = "completed"
_LEAVES_AFTER = 8  # events: after the opening ones, and the first of the answer
_TOOLS = [{"type": "function", "name": TOOL, "description": TOOL_HELP, "parameters": WEATHER, "strict": True}]
_CALLED: Json = {"type": "function_call", "call_id": "call_1", "name": TOOL}
_ANSWERED: list[Json] = [
    {"role": "user", "content": WEATHER_QUESTION},
    {**_CALLED, "arguments": '{"city":"Paris","unit":"celsius"}'},
    {**_CALLED, "call_id": "call_2", "arguments": '{"city":"Zürich","unit":"celsius"}'},
    {"type": "function_call_output", "call_id": "call_1", "output": RESULT},
    {"type": "function_call_output", "call_id": "call_2", "output": RESULT},
]
_FORMAT = {"type": "json_schema", "name": "city", "schema": CITY, "strict": True}
_DOCUMENT = checks.document(SHAPES, "response")


def _create(
    body: Json, most_tokens: int, key: Key = "given", leaves_after: int | None = None
) -> Callable[[Progress], ProbeCall]:
    """Return what makes the request that creates a response."""

    def make(progress: Progress) -> ProbeCall:
        stream: Json = {"stream": True} if progress.is_streamed else {}
        whole = {"model": progress.model, "max_output_tokens": most_tokens, **body, **stream}
        return ProbeCall("POST", _PATH, whole, key, leaves_after)

    return make


def _good(body: Json, *expects: Check, most_tokens: int = TEXT_TOKENS, reason: str = _COMPLETED) -> ProbeStep:
    """Return the step of a request that is answered in full."""
    usual = (checks.answers, _DOCUMENT, checks.named, checks.ends(reason), checks.counts(most_tokens))
    return ProbeStep(_create(body, most_tokens), (*usual, *expects), most_tokens)


def _resume(progress: Progress) -> ProbeCall | None:
    """Return the request for the rest of the response that was left; None if it has no id or no numbers.

    More may have come than the client waited for: the rest is what follows the events that it waited for.
    """
    payloads = list(_payloads(progress.received[-1]))[:_LEAVES_AFTER]
    ids = [each["response"].get("id") for each in payloads if isinstance(each.get("response"), dict)]
    numbers = [each["sequence_number"] for each in payloads if isinstance(each.get("sequence_number"), int)]
    if not ids or not isinstance(ids[0], str) or not _ID.fullmatch(ids[0]) or not numbers:
        return None
    return ProbeCall("GET", f"{_PATH}/{ids[0]}?stream=true&starting_after={numbers[-1]}")


def _payloads(stream: bytes) -> Iterator[dict[str, Any]]:
    """Yield the payloads of the whole events in the beginning of a stream."""
    *blocks, _ = stream.replace(b"\r\n", b"\n").split(b"\n\n")
    for block in blocks:
        data = parse(block + b"\n\n").data
        try:
            found = decoded(data or b"null")
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


_BACKGROUND = {"input": TEXT, "background": True, "store": True}

CASES = (
    Case("text", "A short answer", (_good({"input": TEXT}, checks.says, checks.flows),)),
    Case(
        "reasoning",
        "Reasoning, with a summary",
        (
            _good(
                {"input": PUZZLE, "reasoning": {"effort": "low", "summary": "auto"}},
                *(checks.says, checks.reasons(is_shown=True)),
                most_tokens=LONG_TOKENS,
            ),
        ),
        is_optional=True,
    ),
    Case(
        "parallel-tools",
        "Two calls of a tool at once",
        (_good({"input": WEATHER_QUESTION, "tools": _TOOLS}, checks.calls(TOOL, WEATHER, 2)),),
    ),
    Case(
        "tool-results", "An answer from results of tools", (_good({"input": _ANSWERED, "tools": _TOOLS}, checks.says),)
    ),
    Case(
        "forced-tool",
        "A call that `tool_choice` demands",
        (
            _good(
                {"input": TEXT, "tools": _TOOLS, "tool_choice": {"type": "function", "name": TOOL}},
                *(checks.forces(TOOL), checks.calls(TOOL, WEATHER)),
            ),
        ),
    ),
    Case(
        "structured",
        "An answer that fits a schema",
        (_good({"input": CITY_QUESTION, "text": {"format": _FORMAT}}, checks.fits(CITY)),),
        is_optional=True,
    ),
    Case(
        "max-tokens",
        "A long answer, cut by a limit on tokens",
        (
            ProbeStep(
                _create({"input": LONG}, CUT_TOKENS),
                (checks.answers, _DOCUMENT, checks.limits(CUT_TOKENS, ["max_output_tokens"])),
                CUT_TOKENS,
            ),
        ),
    ),
    Case(
        "stop",
        "A long answer that the client stops",
        (
            ProbeStep(
                _create({"input": LONG}, LONG_TOKENS, leaves_after=_LEAVES_AFTER),
                *((checks.answers, checks.flows), LONG_TOKENS),
                is_cut=True,
            ),
        ),
        modes=("streamed",),
    ),
    Case(
        "bad-request",
        "A request that makes no sense",
        (ProbeStep(_create({"input": 42}, CUT_TOKENS), (checks.refuses(wrong_error),), CUT_TOKENS),),
    ),
    Case(
        "wrong-key",
        "A key that nobody has",
        (
            ProbeStep(
                _create({"input": TEXT}, CUT_TOKENS, key="wrong"),
                *((checks.locks((401, 403), wrong_error),), CUT_TOKENS),
            ),
        ),
        needs_key=True,
    ),
    Case(
        "resume",
        "A background response, left and resumed with `starting_after`",
        (
            ProbeStep(
                _create(_BACKGROUND, TEXT_TOKENS, leaves_after=_LEAVES_AFTER),
                *((checks.answers, checks.flows), TEXT_TOKENS),
                is_cut=True,
            ),
            ProbeStep(_resume, (checks.answers, checks.ends(_COMPLETED), checks.resumes), 0),
        ),
        modes=("streamed",),
        is_optional=True,
    ),
)

API = ProbeApi("openai-responses", "gpt-5-mini", lambda key: {"authorization": f"Bearer {key}"}, wrong_error, CASES)
