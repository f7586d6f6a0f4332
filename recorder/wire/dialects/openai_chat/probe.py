"""The cases of OpenAI's Chat Completions."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from recorder.lint.http import wrong_error
from recorder.lint.shape import Shapes
from recorder.probe import checks
from recorder.probe.answer import ProbeAnswer
from recorder.probe.cases import (
    RESULT,
    TEXT,
    TEXT_TOKENS,
    TOOL_HELP,
    WEATHER_QUESTION,
    ApiForm,
    Case,
    Json,
    ProbeApi,
    SdkReading,
    common_cases,
    posts,
    user,
)
from recorder.probe.schema import CITY, TOOL, WEATHER
from recorder.probe.sdks import QUESTION, json_or_text, openai_client

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

_PATH = "/v1/chat/completions"
_LIMIT = "max_completion_tokens"
_CHOICES = 2
_FUNCTION = {"name": TOOL, "description": TOOL_HELP, "parameters": WEATHER, "strict": True}
_TOOLS = [{"type": "function", "function": _FUNCTION}]


def _call(number: int, arguments: str) -> Json:
    return {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": TOOL, "arguments": arguments},
    }


_ANSWERED: list[Json] = [
    *user(WEATHER_QUESTION),
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


_SCHEMA = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY, "strict": True}}

_FORCED = {"tool_choice": {"type": "function", "function": {"name": TOOL}}}

_FORM = ApiForm(
    create=posts(_PATH, _LIMIT, {"stream": True, "stream_options": {"include_usage": True}}),
    asks=lambda question: {"messages": user(question)},
    thinks={"reasoning_effort": "low"},
    tools={"tools": _TOOLS},
    results={"messages": _ANSWERED},
    forces=_FORCED,
    formats={"response_format": _SCHEMA},
    titles={"reasoning": "Reasoning", "forced-tool": "A call that `tool_choice` demands"},
    document=checks.document(SHAPES, "completion"),
    wrong_error=wrong_error,
    reasoning=(checks.reasons(is_shown=False),),
    done="stop",
    called="tool_calls",
    cut="length",
    leaves_after=4,
)

# OpenAI says `stop` where a function was named.
_NAMED = _FORM.step(
    _FORM.asks(TEXT) | _FORM.tools | _FORCED,
    checks.answers,
    _FORM.document,
    checks.counts(TEXT_TOKENS),
    checks.ends("stop", "tool_calls"),
    checks.forces(),
    checks.calls(),
)
# The limit is that of one choice, and all of them are counted.
_SEVERAL = _FORM.answered(
    {**_FORM.asks(TEXT), "n": _CHOICES, _LIMIT: TEXT_TOKENS},
    checks.chooses(_CHOICES),
    most_tokens=_CHOICES * TEXT_TOKENS,
)
_WITHOUT_USAGE = _FORM._replace(create=posts(_PATH, _LIMIT, {"stream": True})).step(
    _FORM.asks(TEXT), checks.answers, checks.ends("stop"), checks.says, checks.keeps_usage
)


def _cases() -> Iterator[Case]:
    for case in common_cases(_FORM):
        yield case._replace(steps=(_NAMED,)) if case.name == "forced-tool" else case
    yield Case("choices", "Two choices by `n`", (_SEVERAL,), is_optional=True)
    yield Case(
        "no-usage", "A stream whose usage is not asked for", (_WITHOUT_USAGE,), modes=("streamed",)
    )


def _read(http: Any, answer: ProbeAnswer) -> SdkReading:
    openai = importlib.import_module("openai")
    api = openai_client(http).chat.completions
    asked: Json = {"model": "any", "messages": user(QUESTION)}
    if answer.is_streamed:
        try:
            with api.stream(**asked) as stream:
                completion = stream.get_final_completion()
        except openai.LengthFinishReasonError as error:  # a limit was met, as the case may want
            completion = error.completion
    else:
        completion = api.create(**asked)
    message, usage = completion.choices[0].message, completion.usage
    calls = [
        (call.function.name, json_or_text(call.function.arguments))
        for call in message.tool_calls or ()
    ]
    tokens = (usage.prompt_tokens, usage.completion_tokens) if usage else (None, None)
    return SdkReading(message.content or "", calls, tokens)


API = ProbeApi(
    "openai-chat",
    "gpt-5-mini",
    lambda key: {"authorization": f"Bearer {key}"},
    wrong_error,
    tuple(_cases()),
    "openai",
    _read,
)
