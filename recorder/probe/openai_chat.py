"""The cases of OpenAI's Chat Completions."""

from __future__ import annotations

from collections.abc import Callable

from recorder.lint.openai_errors import wrong_error
from recorder.lint.shape import Shapes
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

SHAPES = Shapes("""\
completion: id!:text choices!:[choice] created!:whole model!:text object!:text service_tier:text
 system_fingerprint:text usage:usage
choice: finish_reason!:text index!:whole message!:message logprobs:object
message: content:text refusal:text role!:text tool_calls:[tool_call] annotations:[object] function_call:function
tool_call.function: id!:text function!:function
tool_call.custom: id!:text custom!:object
function: arguments!:text name!:text
usage: completion_tokens!:whole prompt_tokens!:whole total_tokens!:whole completion_tokens_details:object
 prompt_tokens_details:object
""")
"""The shapes of a completion that is not a stream, as openai-python 3.52 declares them."""

_CHOICES = 2
_LEAVES_AFTER = 4  # chunks
_USAGE: Json = {"stream_options": {"include_usage": True}}
_FUNCTION = {"name": TOOL, "description": TOOL_HELP, "parameters": WEATHER, "strict": True}
_TOOLS = [{"type": "function", "function": _FUNCTION}]
_DOCUMENT = checks.document(SHAPES, "completion")


def _user(text: str) -> list[Json]:
    return [{"role": "user", "content": text}]


def _call(number: int, arguments: str) -> Json:
    return {"id": f"call_{number}", "type": "function", "function": {"name": TOOL, "arguments": arguments}}


_ANSWERED: list[Json] = [
    *_user(WEATHER_QUESTION),
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            _call(1, '{"city":"Paris","unit":"celsius"}'),
            _call(2, '{"city":"Zürich","unit":"celsius"}'),
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": RESULT},
    {"role": "tool", "tool_call_id": "call_2", "content": RESULT},
]


def _create(
    body: Json,
    most_tokens: int,
    key: Key = "given",
    leaves_after: int | None = None,
    options: Json = _USAGE,
) -> Callable[[Progress], ProbeCall]:
    """Return what makes the request of a completion."""

    def make(progress: Progress) -> ProbeCall:
        stream: Json = {"stream": True, **options} if progress.is_streamed else {}
        whole = {"model": progress.model, "max_completion_tokens": most_tokens, **body, **stream}
        return ProbeCall("POST", "/v1/chat/completions", whole, key, leaves_after)

    return make


def _good(body: Json, *expects: Check, most_tokens: int = TEXT_TOKENS, reason: str = "stop") -> ProbeStep:
    """Return the step of a request that is answered in full."""
    most = most_tokens * int(body.get("n", 1))
    usual = (checks.answers, _DOCUMENT, checks.named, checks.ends(reason), checks.counts(most))
    return ProbeStep(_create(body, most_tokens), (*usual, *expects), most)


_SCHEMA = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY, "strict": True}}

CASES = (
    Case("text", "A short answer", (_good({"messages": _user(TEXT)}, checks.says, checks.flows),)),
    Case(
        "reasoning",
        "Reasoning",
        (
            _good(
                {"messages": _user(PUZZLE), "reasoning_effort": "low"},
                *(checks.says, checks.reasons(is_shown=False)),
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
                reason="tool_calls",
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
            ProbeStep(
                _create(
                    {
                        "messages": _user(TEXT),
                        "tools": _TOOLS,
                        "tool_choice": {"type": "function", "function": {"name": TOOL}},
                    },
                    TEXT_TOKENS,
                ),
                (
                    *(checks.answers, _DOCUMENT, checks.counts(TEXT_TOKENS)),
                    checks.ends("stop", "tool_calls"),  # OpenAI says `stop` where a function was named
                    *(checks.forces(TOOL), checks.calls(TOOL, WEATHER)),
                ),
                TEXT_TOKENS,
            ),
        ),
    ),
    Case(
        "structured",
        "An answer that fits a schema",
        (_good({"messages": _user(CITY_QUESTION), "response_format": _SCHEMA}, checks.fits(CITY)),),
        is_optional=True,
    ),
    Case(
        "max-tokens",
        "A long answer, cut by a limit on tokens",
        (
            ProbeStep(
                _create({"messages": _user(LONG)}, CUT_TOKENS),
                (checks.answers, _DOCUMENT, checks.limits(CUT_TOKENS, ["length"])),
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
    Case(
        "choices",
        "Two choices by `n`",
        (_good({"messages": _user(TEXT), "n": _CHOICES}, checks.chooses(_CHOICES)),),
        is_optional=True,
    ),
    Case(
        "no-usage",
        "A stream whose usage is not asked for",
        (
            ProbeStep(
                _create({"messages": _user(TEXT)}, TEXT_TOKENS, options={}),
                (checks.answers, checks.ends("stop"), checks.says, checks.keeps_usage),
                TEXT_TOKENS,
            ),
        ),
        modes=("streamed",),
    ),
)

API = ProbeApi("openai-chat", "gpt-5-mini", lambda key: {"authorization": f"Bearer {key}"}, wrong_error, CASES)
