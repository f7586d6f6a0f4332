"""The cases of OpenAI's Responses API."""

from __future__ import annotations

import re
from typing import Any

from recorder.lint.http import wrong_error
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
    ProbeCall,
    ProbeStep,
    Progress,
    SdkReading,
    common_cases,
    posts,
    user,
)
from recorder.probe.schema import CITY, TOOL, WEATHER
from recorder.probe.sdks import QUESTION, json_or_text, openai_client
from recorder.wire.dialects.json_values import decoded_or_none, objects
from recorder.wire.dialects.openai_responses.lint.shapes import SHAPES
from recorder.wire.framing.sse import parse

_PATH = "/v1/responses"
_ID = re.compile(r"[\w-]{1,500}", re.ASCII)  # of a response: it becomes a part of a path
_COMPLETED = "completed"
_LEAVES_AFTER = 8  # events: after the opening ones, and the first of the answer
_TOOLS = [
    {
        "type": "function",
        "name": TOOL,
        "description": TOOL_HELP,
        "parameters": WEATHER,
        "strict": True,
    }
]
_CALLED: Json = {"type": "function_call", "call_id": "call_1", "name": TOOL}
_ANSWERED: list[Json] = [
    *user(WEATHER_QUESTION),
    {**_CALLED, "arguments": '{"city":"Paris","unit":"celsius"}'},
    {**_CALLED, "call_id": "call_2", "arguments": '{"city":"Zürich","unit":"celsius"}'},
    {"type": "function_call_output", "call_id": "call_1", "output": RESULT},
    {"type": "function_call_output", "call_id": "call_2", "output": RESULT},
]
_FORMAT = {"type": "json_schema", "name": "city", "schema": CITY, "strict": True}


def _resume(progress: Progress) -> ProbeCall | None:
    """Return the request for the rest of the response that was left; None if it has no id or no
    numbers.

    More may have come than the client waited for: the rest is what follows the events that it
    waited for.
    """
    *blocks, _ = progress.received.replace(b"\r\n", b"\n").split(b"\n\n")  # the last is not whole
    documents = [decoded_or_none(parse(block + b"\n\n").data or b"null") for block in blocks]
    payloads = objects(documents)[:_LEAVES_AFTER]
    ids = [
        each["response"].get("id") for each in payloads if isinstance(each.get("response"), dict)
    ]
    numbers = [
        each["sequence_number"] for each in payloads if isinstance(each.get("sequence_number"), int)
    ]
    if not ids or not isinstance(ids[0], str) or not _ID.fullmatch(ids[0]) or not numbers:
        return None
    return ProbeCall("GET", f"{_PATH}/{ids[0]}?stream=true&starting_after={numbers[-1]}")


_FORM = ApiForm(
    create=posts(_PATH, "max_output_tokens", {"stream": True}),
    asks=lambda question: {"input": question},
    thinks={"reasoning": {"effort": "low", "summary": "auto"}},
    tools={"tools": _TOOLS},
    results={"input": _ANSWERED},
    forces={"tool_choice": {"type": "function", "name": TOOL}},
    formats={"text": {"format": _FORMAT}},
    titles={
        "reasoning": "Reasoning, with a summary",
        "forced-tool": "A call that `tool_choice` demands",
    },
    document=checks.document(SHAPES, "response"),
    wrong_error=wrong_error,
    reasoning=(checks.reasons(is_shown=True),),
    done=_COMPLETED,
    called=_COMPLETED,
    cut="max_output_tokens",
    leaves_after=_LEAVES_AFTER,
)

_RESUMED = Case(
    "resume",
    "A background response, left and resumed with `starting_after`",
    (
        _FORM.left({"input": TEXT, "background": True, "store": True}, TEXT_TOKENS),
        ProbeStep(_resume, (checks.answers, checks.ends(_COMPLETED), checks.resumes), 0),
    ),
    modes=("streamed",),
    is_optional=True,
)


def _read(http: Any, answer: ProbeAnswer) -> SdkReading:
    api = openai_client(http).responses
    if answer.before:  # the rest of a stream
        *_, last = filter(_is_end, api.retrieve("any", stream=True, starting_after=0))
        response = last.response
    elif answer.is_streamed:
        with api.stream(model="any", input=QUESTION) as stream:
            *_, last = filter(_is_end, stream)
        response = last.response
    else:
        response = api.create(model="any", input=QUESTION)
    calls = [
        (item.name, json_or_text(item.arguments))
        for item in response.output
        if item.type == "function_call"
    ]
    usage = response.usage
    return SdkReading(response.output_text, calls, (usage.input_tokens, usage.output_tokens))


def _is_end(event: Any) -> bool:
    return event.type in ("response.completed", "response.incomplete", "response.failed")


API = ProbeApi(
    "openai-responses",
    "gpt-5-mini",
    lambda key: {"authorization": f"Bearer {key}"},
    wrong_error,
    (*common_cases(_FORM), _RESUMED),
    "openai",
    _read,
)
