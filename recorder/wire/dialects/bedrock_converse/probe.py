"""The cases of Bedrock's Converse. A key of Bedrock is sent, or none: nothing is signed."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec

from recorder.lint.http import wrong_error
from recorder.lint.shape import Shapes
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
    user,
)
from recorder.probe.schema import CITY, TOOL, WEATHER
from recorder.probe.sdks import QUESTION, json_or_text
from recorder.wire.dialects.json_values import objects, word

_SHAPES = Shapes("""\
response: output!:output stopReason!:text usage!:usage metrics!:metrics
output: message!:message
message: role!:text content!:[block]
block: text:text toolUse:call reasoningContent:object
call: toolUseId!:text name!:text input!:object
usage: inputTokens!:whole outputTokens!:whole totalTokens!:whole
metrics: latencyMs!:whole
""")
"""The shapes of a response that is not a stream, as botocore 1.44 declares them."""

_BUDGET_TOKENS = 1_024  # of thinking: the least that Claude takes
_TOOLS = [{"toolSpec": {"name": TOOL, "description": TOOL_HELP, "inputSchema": {"json": WEATHER}}}]
_FORCED = {"tools": _TOOLS, "toolChoice": {"tool": {"name": TOOL}}}
_SCHEMA = {"jsonSchema": {"name": "city", "schema": msgspec.json.encode(CITY).decode()}}
_THINKS = {"thinking": {"type": "enabled", "budget_tokens": _BUDGET_TOKENS}}


def _asked(question: str) -> list[Json]:
    return user([{"text": question}])


def _called(number: int, city: str) -> Json:
    arguments = {"city": city, "unit": "celsius"}
    return {"toolUse": {"toolUseId": f"tooluse_{number}", "name": TOOL, "input": arguments}}


def _result(number: int) -> Json:
    content = [{"json": {"temperature": 18, "sky": "clear"}}]
    return {"toolResult": {"toolUseId": f"tooluse_{number}", "content": content}}


_ANSWERED = [
    *_asked(WEATHER_QUESTION),
    {"role": "assistant", "content": [_called(1, "Paris"), _called(2, "Zürich")]},
    *user([_result(1), _result(2)]),
]


def wrong_error_body(document: Any) -> str | None:
    """Return what is wrong with an error as AWS puts it; None if nothing is.

    Its type is in a header, or there, too.
    """
    if not isinstance(document, dict):
        return wrong_error(document)
    return None if word(document, "message") else "no text `message`"


def bearer(key: str) -> Mapping[str, str]:
    """Return the header that carries a key of Bedrock."""
    return {"authorization": f"Bearer {key}"}


def _create(progress: Progress, body: Json, most_tokens: int) -> tuple[str, Json]:
    """Return the target and the body of a request."""
    method = "converse-stream" if progress.is_streamed else "converse"
    return f"/model/{quote(progress.model, safe='')}/{method}", {
        **body,
        "inferenceConfig": {"maxTokens": most_tokens},
    }


_FORM = ApiForm(
    create=_create,
    asks=lambda question: {"messages": _asked(question)},
    thinks={"additionalModelRequestFields": _THINKS},
    tools={"toolConfig": {"tools": _TOOLS}},
    results={"messages": _ANSWERED},
    forces={"toolConfig": _FORCED},
    formats={"outputConfig": {"textFormat": {"type": "json_schema", "structure": _SCHEMA}}},
    titles={
        "reasoning": "Thinking, which is shown",
        "forced-tool": "A call that `toolChoice` demands",
    },
    document=checks.document(_SHAPES, "response"),
    wrong_error=wrong_error_body,
    reasoning=(checks.reasons(is_shown=True),),
    done="end_turn",
    called="tool_use",
    cut="max_tokens",
    leaves_after=4,
    names_model=False,
)


class _Raw:
    """The body of an answer, as botocore reads one."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self) -> Iterator[bytes]:
        yield self._body


def _sent(http: Any, request: Any, **_: Any) -> Any:
    """Answer a request of botocore's."""
    found = http.post(request.url, content=request.body)
    response = importlib.import_module("botocore.awsrequest").AWSResponse
    return response(request.url, found.status_code, found.headers, _Raw(found.content))


def _read(http: Any, answer: ProbeAnswer) -> SdkReading:
    session, config = map(importlib.import_module, ("botocore.session", "botocore.config"))
    client = session.get_session().create_client(
        "bedrock-runtime",
        region_name="us-east-1",
        # it sends no key of the environment to any other than https
        endpoint_url="https://probe.invalid",
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=config.Config(retries={"total_max_attempts": 1}),
    )
    client.meta.events.register("before-send.bedrock-runtime", partial(_sent, http))
    asked: Json = {"modelId": "any", "messages": _asked(QUESTION)}
    if answer.is_streamed:
        return _read_events(client.converse_stream(**asked)["stream"])
    response = client.converse(**asked)
    content = response["output"]["message"]["content"]
    text = "".join(block.get("text", "") for block in content)
    calls = [
        (call["name"], call["input"])
        for call in objects([block.get("toolUse") for block in content])
    ]
    return SdkReading(text, calls, _tokens(response["usage"]))


def _read_events(events: Iterable[Json]) -> SdkReading:
    """Put together what a stream says: botocore hands on its events alone."""
    text = ""
    usage: Json = {}
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    for event in events:
        started, added = event.get("contentBlockStart"), event.get("contentBlockDelta")
        if started:
            names[started["contentBlockIndex"]] = started["start"]["toolUse"]["name"]
        elif added and "toolUse" in added["delta"]:
            index = added["contentBlockIndex"]
            arguments[index] = arguments.get(index, "") + added["delta"]["toolUse"]["input"]
        elif added:
            text += added["delta"].get("text", "")
        usage = event.get("metadata", {}).get("usage", usage)
    return SdkReading(
        text, [(name, json_or_text(arguments[at])) for at, name in names.items()], _tokens(usage)
    )


def _tokens(usage: Json) -> tuple[int | None, int | None]:
    cached = usage.get("cacheReadInputTokens", 0) + usage.get("cacheWriteInputTokens", 0)
    return usage["inputTokens"] + cached if usage else None, usage.get("outputTokens")


API = ProbeApi(
    "bedrock-converse",
    "us.anthropic.claude-haiku-4-5-20251001-v1:0",
    bearer,
    wrong_error_body,
    common_cases(_FORM),
    "botocore",
    _read,
)
