"""Gemini `generateContent`: `data: {GenerateContentResponse}` with CRLF, no types, no end marker:
the stream just ends.

Must not know: other wire formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from recorder.wire.dialects.dialect import (
    Dialect,
    RequestNoise,
    RequestPlaces,
    ResponseFields,
    noise_fields,
    paths,
)
from recorder.wire.dialects.gemini.candidate import STEPS
from recorder.wire.dialects.gemini.conversation import GeminiConversation
from recorder.wire.dialects.gemini.decoder import RESPONSE, GeminiDecoder
from recorder.wire.dialects.json_values import Object, member, object_, objects, objects_in
from recorder.wire.dialects.keys import ERROR, KeyExtractor, Named, Payload, Whole
from recorder.wire.dialects.prompt import CachePolicy, PromptFormat, PromptPart
from recorder.wire.dialects.sdks import GOOGLE_BODY, Sdk


class _ResponseCandidate(msgspec.Struct):
    index: Whole | None = None


class _Response(Payload):
    candidates: list[_ResponseCandidate] | None = None


def _name(response: _Response) -> Named:
    index = response.candidates[0].index or 0 if response.candidates else None
    return ERROR if response.error else RESPONSE, None, None, index


_ERRORS: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def error_body(status: int, message: str, code: str | None) -> dict[str, Any]:
    """Return an error in the shape of Google's, whose code is the status."""
    kind = _ERRORS.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    return {"error": {"code": status, "message": message, "status": kind}}


_JOINS = "joins a call and its result: models before Gemini 3 give none, and clients leave it out or make one"
_MODEL = re.compile(r"[\w.-]+")
_FIELDS = frozenset({"candidates", "usageMetadata", "promptFeedback"})


def _chunks(payloads: Iterable[Any]) -> Iterator[Object]:
    for payload in payloads:
        yield from objects(payload if isinstance(payload, list) else [payload])


def target(is_document: bool, payloads: Sequence[Any]) -> str:
    """Return the target of a request: the model is part of the path, and is named in the answer."""
    versions = (str(chunk.get("modelVersion", "")) for chunk in _chunks(payloads))
    model = next(filter(_MODEL.fullmatch, versions), "unknown")
    method = "generateContent" if is_document else "streamGenerateContent?alt=sse"
    return f"/v1beta/models/{model}:{method}"


def _is_last(chunks: Sequence[Object]) -> bool:
    """Return whether the last chunk has the only answer's reason to finish and its usage, as the
    first to do so.

    Old models send STOP in every chunk, and after a step of a tool of the provider another round
    follows.
    """
    *before, last = [object_(chunk, "response") or chunk for chunk in chunks or [{}]]
    candidates = objects(last, "candidates")
    blocked = member(last, "promptFeedback", "blockReason")
    parts = objects_in([object_(each, "content") for each in candidates], "parts")
    return (
        len(candidates) <= 1
        and bool(candidates[0].get("finishReason") if candidates else blocked)
        and bool(last.get("usageMetadata"))
        and not any(each.get("finishReason") for each in objects_in(before, "candidates"))
        and all(part.keys().isdisjoint(STEPS) for part in parts)
    )


# plain, of Code Assist, and the array that a stream is without `alt=sse`
_CHUNKS = ("", "response.", "*.")
_PARTS = tuple(f"{chunk}candidates.*.content.parts.*." for chunk in _CHUNKS)

_MODEL_URL = r"(?P<base>.*)/(?P<version>v\d\w*)/models/(?P<model>[\w.-]+):"
_GENERATE = Sdk(
    GOOGLE_BODY,
    re.compile(f"{_MODEL_URL}generateContent"),
    ("models.generate_content", "models.generateContent"),
    ("contents",),
    given=("model={model}", "{{ model: {model}, contents: body.contents }}"),
    streams=False,
)
_STREAM = msgspec.structs.replace(
    _GENERATE,
    url=re.compile(f"{_MODEL_URL}streamGenerateContent"),
    methods=("models.generate_content_stream", "models.generateContentStream"),
    streams=True,
    query="alt=sse",
)

DIALECT = Dialect(
    name="gemini",
    sdks=(_GENERATE, _STREAM),
    routes=re.compile(r"(?::|%3[Aa])(?:streamGenerateContent|generateContent|countTokens)$"),
    keys=KeyExtractor(_Response, _name),
    decoder=GeminiDecoder,
    terminal={ERROR: "failed"},
    needs_terminal=False,
    whole_reasons=frozenset({"STOP"}),
    is_last=_is_last,
    has_choices=True,
    places_calls=True,
    array_streams=re.compile(r"(?::|%3[Aa])streamGenerateContent$"),  # without `alt=sse`
    reads_bare_json=True,
    error_body=error_body,
    error_statuses=(400, 403, 404, 429, 500, 503, 504),  # of Google's page "Troubleshooting guide"
    conversation=GeminiConversation,
    prompt=PromptFormat(
        generates=re.compile(r"(?::|%3[Aa])(?:streamGenerateContent|generateContent)$"),
        parts=(
            PromptPart("cachedContent", "parameter"),
            PromptPart("tools"),
            PromptPart("systemInstruction"),
            PromptPart("system_instruction"),
            PromptPart("contents", "conversation"),
        ),
        suspects=(
            "toolConfig",
            "tool_config",
            "generationConfig.responseSchema",
            "generationConfig.responseJsonSchema",
            "generationConfig.thinkingConfig",
        ),
        wrappers=("request",),
    ),
    # Source: Google's page "Context caching": minimums of 1,024 tokens (2.5 Flash, 3 Flash) and
    # 4,096 (2.5 Pro, 3 Pro). It names no time for which an implicit cache is kept; people of Google
    # have named a few minutes.
    cache=CachePolicy(
        minimums=((r"pro", 4096), (r"", 1024)),
        lapses_s=((r"", (180, 24 * 3600)),),
        step_tokens=256,  # not documented
        omits_zero=True,  # proto3
    ),
    fields=ResponseFields(
        pieces=paths("part>text", part=_PARTS[:2]),
        texts=paths(
            "part>text part>functionCall.name part>functionCall.args part>executableCode.code part>toolCall.toolType"
            " part>toolCall.args",
            part=_PARTS[:2],
        ),
        usage=("usageMetadata", "response.usageMetadata"),
        noise=noise_fields(
            """
id | chunk>responseId traceId | made anew for each response
id | part>functionCall.id part>functionResponse.id part>executableCode.id part>codeExecutionResult.id part>toolCall.id
 part>toolResponse.id | made anew for each call
time | chunk>createTime | when a response was made
""",
            chunk=_CHUNKS,
            part=_PARTS,
        ),
        ciphertexts={"thoughtSignature": "of a thought", "thought_signature": "of a thought"},
    ),
    places=RequestPlaces(
        credentials=paths(  # of what a tool of Vertex AI reads
            """
            apiKeyConfig.apiKeyString api_key_config.api_key_string apiKeyConfig.apiKeySecret
            oauthConfig.accessToken oauth_config.access_token oidcConfig.idToken oidc_config.id_token
            """
        ),
        of_model=paths("""
            contents content parts systemInstruction system_instruction functionDeclarations function_declarations
            responseSchema response_schema responseJsonSchema response_json_schema
            clientContent client_content realtimeInput realtime_input toolResponse tool_response
            candidates serverContent
            """),
    ),
    request_noise=(
        RequestNoise("parameters", "key", "key", "a key of the Gemini API"),
        # of a `functionCall`, a `functionResponse`, and a tool of Google's
        RequestNoise(
            "references", "gemini-call", "contents.*.parts.*.*.id", _JOINS, found_by="name"
        ),
        # the Gemini CLI and a count of tokens wrap the request
        RequestNoise(
            "references",
            "gemini-wrapped-call",
            "*.contents.*.parts.*.*.id",
            _JOINS,
            found_by="name",
        ),
    ),
    harmless_parameters="alt|pageSize",
    profiles=("gemini",),
    own_rules=frozenset({"HT002", "ST006", "ST009"}),
    speaks=lambda payload: not _FIELDS.isdisjoint(payload),
    target=target,
    line_end=b"\r\n",
    operation="generate_content",
)
