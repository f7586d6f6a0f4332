"""What rules quote of the SDKs for Python is what these raise when they are given the broken
stream.
"""

from __future__ import annotations

import importlib
import json
import re
from typing import Any

import pytest
from openai import APIStatusError

from recorder.lint.linter import RULES
from tests.support.recordings import Mutation, the_rule
from tests.support.sdks import BASE, answering, openai_client, reading
from tests.support.tables import table
from tests.unit.lint.test_anthropic import GOOD as MESSAGE
from tests.unit.lint.test_anthropic import WORD
from tests.unit.lint.test_openai_responses import (
    CALL,
    COMPLETED,
    GOOD,
    THOUGHT,
    but,
    less,
    of_response,
    said,
)

APIS = {
    "test_lint": "openai-responses",
    "test_openai_responses": "openai-responses",
    "test_openai_chat": "openai-chat",
    "test_anthropic": "anthropic",
    "test_gemini": "gemini",
    "test_gemini_interactions": "gemini-interactions",
}
"""The modules of mutations, and which SDK reads them."""

IDENTITY = "identity changed."
NO_TYPE = "'NoneType' object has no attribute"
OPERANDS = "unsupported operand type(s) for +=: 'NoneType' and 'str'"
NO_INDEX = "list indices must be integers or slices, not NoneType"
NO_END = "Didn't receive a `response.completed` event."
NO_ITEM = "Received a content event for output index … before receiving its output item"
NO_JSON = "Failed to parse response as JSON. Raw response: "
INVALID = "1 validation error for GenerateContentResponse"
NO_ERROR = "An error occurred during streaming"

QUOTED = [
    ("ST001", "half a character", "UnicodeDecodeError", ""),
    ("ST002", "an open quote", "JSONDecodeError", ""),
    ("ST003", "a name without data", "JSONDecodeError", ""),
    ("ST006", "no blank line at the end", "RuntimeError", NO_END),
    (
        "RS001",
        "no created",
        "RuntimeError",
        "Expected to have received `response.created` before …",
    ),
    ("RS002", "no terminal event", "RuntimeError", NO_END),
    ("RS006", "a response without id", "RuntimeError", f"Lifecycle response {IDENTITY}"),
    ("RS007", "another response id", "RuntimeError", f"Lifecycle response {IDENTITY}"),
    (
        "RS013",
        "no type of the first",
        "RuntimeError",
        "Expected to have received `response.created` before `None`",
    ),
    ("RS025", "another id when done", "RuntimeError", f"Completed output item {IDENTITY}"),
    ("RS025", "no id when added", "RuntimeError", f"Completed output item {IDENTITY}"),
    ("RS027", "a part of null", "TypeError", OPERANDS),
    ("RS027", "a part of no type", "AssertionError", ""),
    ("RS029", "another call_id when done", "RuntimeError", f"Completed output item {IDENTITY}"),
    ("RS030", "an item never added", "RuntimeError", NO_ITEM),
    ("RS031", "added twice", "RuntimeError", "Duplicate response output index …"),
    (
        "RS032",
        "in no response",
        "RuntimeError",
        "Cannot complete response with unfinished output items.",
    ),
    ("RS035", "no content_part events", "IndexError", "list index out of range"),
    ("RS039", "parts from 1", "IndexError", "list index out of range"),
    ("RS044", "another id of a call", "RuntimeError", f"Completed response output {IDENTITY}"),
    ("RS049", "text in a refusal", "AssertionError", ""),
    ("RS049", "arguments of a message", "AssertionError", ""),
    ("RS060", "an error without message", "APIError", NO_ERROR),
    ("CH006", "no choices", "TypeError", "'NoneType' object is not iterable"),
    ("CH008", "no index", "TypeError", "list indices must be integers"),
    ("CH008", "no delta", "AttributeError", f"{NO_TYPE} 'to_dict'"),
    ("CH009", "choice one before zero", "IndexError", "list assignment index out of range"),
    ("CH016", "no index of the first", "TypeError", NO_INDEX),
    ("CH016", "no index", "RuntimeError", "Expected list delta entry to have an `index` key"),
    ("CH023", "a text", "APIError", NO_ERROR),
    ("CH031", "call one before zero", "IndexError", "list index out of range"),
    (
        "CH037",
        "notes without an index",
        "RuntimeError",
        "Expected list delta entry to have an `index` key",
    ),
    (
        "CH033",
        "a function as a text",
        "AttributeError",
        "'str' object has no attribute 'arguments'",
    ),
    ("CH034", "no function", "AssertionError", ""),
    ("AN003", "an array", "TypeError", "Unexpected event runtime type"),
    ("AN004", "no start", "AssertionError", ""),
    ("AN006", "no content", "AttributeError", f"{NO_TYPE} 'append'"),
    ("AN010", "no usage", "AttributeError", f"{NO_TYPE} 'output_tokens'"),
    ("AN012", "a delta without", "TypeError", NO_INDEX),
    ("AN013", "from one", "IndexError", "list index out of range"),
    ("AN014", "a delta before its block", "IndexError", "list index out of range"),
    ("AN015", "no block", "AttributeError", f"{NO_TYPE} 'to_dict'"),
    ("AN015", "a text block without text", "TypeError", ""),
    ("AN017", "no delta", "AttributeError", f"{NO_TYPE} 'type'"),
    ("AN017", "no text", "TypeError", ""),
    (
        "AN019",
        "a text without quotes",
        "ValueError",
        "Unable to parse tool parameter JSON from model",
    ),
    ("GE001", "an event line", "UnknownApiResponseError", f"{NO_JSON}event: …"),
    ("GE002", "a comment", "UnknownApiResponseError", f"{NO_JSON}: …"),
    ("GE003", "no space", "UnknownApiResponseError", NO_JSON + "data:{…"),
    ("GE004", "done", "UnknownApiResponseError", f"{NO_JSON}[DONE]"),
    (
        "GE007",
        "no code",
        "TypeError",
        "'<=' not supported between instances of 'int' and 'NoneType'",
    ),
    ("GE022", "half a chunk after the end", "UnknownApiResponseError", ""),
    ("GE011", "text as a number", "ValidationError", INVALID),
    ("GE012", "a count as a text", "ValidationError", INVALID),
    (
        "GE014",
        "arguments as a text",
        "ValidationError",
        "… functionCall.args Input should be a valid dictionary",
    ),
    ("GI001", "a type that is an array", "TypeError", "unhashable type"),
    ("GI002", "a summary without content", "AttributeError", ""),
    ("GI002", "a number as a text", "TypeError", ""),
    ("GI014", "half of the arguments", "JSONDecodeError", ""),
    ("GE016", "no base64", "ValidationError", "… thoughtSignature Data should be valid base64"),
]
"""The rule, what is done to a stream, what the SDK raises, and the words that the rule quotes of
it.
"""

MORE = [
    Mutation("RS013", "no type of the first", GOOD.edited(0, less("type"))),
    Mutation(
        "RS032",
        "in no response",
        GOOD.without(15).numbered().edited(COMPLETED, of_response(output=[THOUGHT, CALL])),
    ),
    Mutation(
        "RS044", "another id of a call", but(COMPLETED, said("response", "output", 2, "id", "fc_2"))
    ),
]

OF_OTHERS = {
    ("HT003", "APIStatusError"): "of a status, below",
    ("HT007", "APIStatusError"): "of a status, below",
    ("RS010", "TypeError"): "of a request to resume: `test_openai_responses_sdk`",
    ("RS023", "AttributeError"): "of `output_text`: `test_openai_responses_sdk`",
    ("RS034", "OpenAIError"): "of openai-node",
    ("RS035", "OpenAIError"): "of openai-node",
    ("RS039", "OpenAIError"): "of openai-node",
    ("RS055", "AttributeError"): "of the program that reads it: `test_openai_responses_sdk`",
    ("RS064", "APIError"): "a class, not what is raised",
    ("CH022", "JSONDecodeError"): "of the program that reads it, below",
    (
        "AS002",
        "AttributeError",
    ): "of a program that reads a session: `test_anthropic_sessions`, as those below",
    ("AS004", "AttributeError"): "of such a program",
    ("AS004", "TypeError"): "of such a program",
    ("AS005", "AnthropicError"): "of its helper",
    ("AS006", "AnthropicError"): "of its helper",
    ("OA001", "AttributeError"): "of such a program: `test_openai_agents`, as those below",
    ("OA003", "AgentTurnResultError"): "of its helper",
    ("OA003", "AttributeError"): "of such a program",
    ("OA003", "TypeError"): "of such a program",
    ("OA004", "AgentTurnResultError"): "of its helper",
    ("OA005", "AgentTurnResultError"): "of its helper",
    (
        "OR001",
        "AttributeError",
    ): "of a program that reads events: `test_openai_realtime`, as those below",
    ("OR003", "AttributeError"): "of such a program",
    ("OR003", "TypeError"): "of such a program",
    ("OR004", "ConnectionClosedError"): "of such a program",
    ("GL001", "AttributeError"): "of `receive()`: `test_gemini_live`, as those below",
    ("GL001", "TypeError"): "of `receive()`",
    ("GL002", "TypeError"): "of `receive()`",
    ("GL003", "ValidationError"): "of `receive()`",
    ("GL004", "APIError"): "of `receive()`",
    ("GL005", "ValueError"): "of `send_tool_response`",
    ("OL001", "JSONDecodeError"): "of `ollama`: `test_ollama`, as those below",
    ("OL002", "AttributeError"): "of `ollama`",
    ("OL003", "ValidationError"): "of `ollama`",
    ("OL007", "TypeError"): "of `ollama`",
    ("A2001", "A2AClientError"): "of `a2a-sdk`: `test_a2a_faults`, as those below",
    ("A2001", "AttributeError"): "of `a2a-sdk`",
    ("A2001", "TypeError"): "of `a2a-sdk`",
    ("A2002", "ParseError"): "of `a2a-sdk`",
    ("A2003", "ParseError"): "of `a2a-sdk`",
    ("A2003", "ValidationError"): "of `a2a-sdk`",
    ("A2001", "Error"): "of @a2a-js/sdk: `test_screen_sdks`, as that below",
    ("A2003", "RequestMalformedError"): "of @a2a-js/sdk",
    ("MC004", "MCPError"): "of `mcp`: `test_mcp_faults`, as those below",
    ("MC006", "ValidationError"): "of `mcp`",
    ("MC007", "RuntimeError"): "of `mcp`",
    (
        "GI001",
        "APIWebSocketError",
    ): "of google-genai over WebSocket: `test_gemini_interactions_live`",
    ("GI006", "APIWebSocketError"): "of its connection",
    ("AC001", "ConnectionError"): "of `acp`: `test_acp_sdk`, as those below",
    ("AC003", "ValidationError"): "of `acp`",
    ("AC007", "ConnectionError"): "of `acp`",
    ("SJ001", "CLIJSONDecodeError"): "of `claude_agent_sdk`: `test_stream_json`, as those below",
    ("SJ002", "MessageParseError"): "of `claude_agent_sdk`",
    ("SJ003", "MessageParseError"): "of `claude_agent_sdk`",
    ("SJ003", "KeyError"): "of `claude_agent_sdk`, where it answers a request",
    ("SJ007", "TypeError"): "of the SDK for TypeScript",
    ("BR001", "AttributeError"): "of botocore: `test_bedrock_converse`, as those below",
    ("BR002", "ResponseParserError"): "of botocore",
    ("BR003", "KeyError"): "of a program with botocore",
    ("BR003", "TypeError"): "of a program with botocore",
    ("BR004", "EventStreamError"): "of botocore",
    ("BR008", "JSONDecodeError"): "of a program with botocore",
    ("AN010", "TypeError"): "of the SDK for TypeScript",
    ("UM001", "AI_TypeValidationError"): "of `ai`: `test_screen_sdks`, as those below",
    **{(f"UM00{number}", "AI_UIMessageStreamError"): "of `ai`" for number in (2, 3, 4)},
    ("AG001", "ZodError"): "of @ag-ui/client: `test_screen_sdks`, as those below",
    **{(f"AG00{number}", "AGUIError"): "of @ag-ui/client" for number in (2, 3, 4, 5)},
}
"""Errors that no reading of a stream by an SDK for Python raises."""


def found(rule: str, says: str) -> tuple[str, Mutation]:
    [(api, mutation)] = [
        (api, each)
        for name, api in (*APIS.items(), ("more", "openai-responses"))
        for each in (
            MORE if name == "more" else importlib.import_module(f"tests.unit.lint.{name}").MUTATIONS
        )
        if (each.rule, each.says) == (rule, says)
    ]
    return api, mutation


@pytest.mark.long
@table(("rule", "says", "error", "words"), QUOTED)
def test_the_sdk_raises_what_the_rule_quotes(rule: str, says: str, error: str, words: str) -> None:
    api, mutation = found(rule, says)
    raised = reading(api, b"".join(mutation.reply.blocks())).error
    assert type(raised).__name__ == error
    said = " ".join(str(raised).split())
    assert all(piece.strip() in said for piece in words.split("…")), said
    why = the_rule(rule).why
    assert error in why
    assert words in why


@table("rule", RULES)
def test_every_error_that_a_rule_names_is_raised_or_is_of_another_client(rule: Any) -> None:
    named = set(re.findall(r"\b(?:[A-Z]\w+)?Error\b", rule.why))
    raised = {error for id, _, error, _ in QUOTED if id == rule.id}
    of_others = {error for id, error in OF_OTHERS if id == rule.id}
    assert named == raised | of_others, (
        "an error that a rule names has a line in `QUOTED`, or in `OF_OTHERS`"
    )


@pytest.mark.parametrize("body", [b"Bad gateway", b'{"detail": "No"}'])
def test_an_error_as_no_api_tells_it_has_no_code(body: bytes) -> None:
    with (
        openai_client(BASE, http_client=answering(body, 502)) as client,
        pytest.raises(APIStatusError) as raised,
    ):
        client.responses.create(model="m", input="x", stream=True)
    assert (raised.value.code, raised.value.type, raised.value.param) == (None, None, None)


def test_a_program_that_reads_half_the_arguments_fails() -> None:
    api, mutation = found("CH022", "no JSON")
    [choice] = reading(api, b"".join(mutation.reply.blocks())).said[1]["choices"]
    [call] = choice["message"]["tool_calls"]
    with pytest.raises(json.JSONDecodeError):
        json.loads(call["function"]["arguments"][1])


@pytest.mark.parametrize(
    ("rule", "error"), [("ST001", "UnicodeDecodeError"), ("ST002", "JSONDecodeError")]
)
def test_anthropic_raises_it_too(rule: str, error: str) -> None:
    broken = b"\xff" if rule == "ST001" else b'"'
    blocks = [each.replace(b"Let me see", b"Let me" + broken) for each in MESSAGE.blocks()]
    assert blocks[WORD] != MESSAGE.blocks()[WORD]
    assert type(reading("anthropic", b"".join(blocks)).error).__name__ == error
