"""The Gemini API: its errors, and the places of fields in its payloads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from recorder.wire.dialects.dialect import NoiseField, RequestNoise, RequestPlaces, ResponseFields, below
from recorder.wire.dialects.json_values import Object, objects

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


REQUEST_NOISE = (RequestNoise("parameters", "key", "key", "a key of the Gemini API"),)

_PART = ("text", "functionCall.name", "functionCall.args", "executableCode.code", "toolCall.toolType", "toolCall.args")
_CHUNKS = ("", "response.", "*.")  # plain, of Code Assist, and the array that a stream is without `alt=sse`
_CALLS = (
    *("functionCall.id", "functionResponse.id", "executableCode.id", "codeExecutionResult.id"),
    *("toolCall.id", "toolResponse.id"),
)

FIELDS = ResponseFields(
    texts=below(("candidates.*.content.parts.*.", "response.candidates.*.content.parts.*."), *_PART),
    usage=("usageMetadata", "response.usageMetadata"),
    noise=(
        NoiseField("id", (*below(_CHUNKS, "responseId"), "traceId"), "made anew for each response"),
        NoiseField("id", below(below(_CHUNKS, "candidates.*.content.parts.*."), *_CALLS), "made anew for each call"),
        NoiseField("time", below(_CHUNKS, "createTime"), "when a response was made"),
    ),
    ciphertexts={"thoughtSignature": "of a thought", "thought_signature": "of a thought"},
)

PLACES = RequestPlaces(
    credentials=(  # of what a tool of Vertex AI reads
        *("apiKeyConfig.apiKeyString", "api_key_config.api_key_string", "apiKeyConfig.apiKeySecret"),
        *("oauthConfig.accessToken", "oauth_config.access_token", "oidcConfig.idToken", "oidc_config.id_token"),
    ),
    of_model=(
        *("contents", "content", "parts", "systemInstruction", "system_instruction"),
        *("functionDeclarations", "function_declarations"),
        *("responseSchema", "response_schema", "responseJsonSchema", "response_json_schema"),
        *("clientContent", "client_content", "realtimeInput", "realtime_input", "toolResponse", "tool_response"),
        *("candidates", "serverContent"),
    ),
)

_MODEL = re.compile(r"[\w.-]+")
_FIELDS = frozenset({"candidates", "usageMetadata", "promptFeedback"})


def speaks(payload: Mapping[str, Any]) -> bool:
    """Return whether a payload is a chunk or a document of this API."""
    return not _FIELDS.isdisjoint(payload)


def _chunks(payloads: Iterable[Any]) -> Iterator[Object]:
    for payload in payloads:
        yield from objects(payload if isinstance(payload, list) else [payload])


def target(is_document: bool, payloads: Sequence[Any]) -> str:
    """Return the target of a request: the model is part of the path, and is named in the answer."""
    versions = (str(chunk.get("modelVersion", "")) for chunk in _chunks(payloads))
    model = next(filter(_MODEL.fullmatch, versions), "unknown")
    method = "generateContent" if is_document else "streamGenerateContent?alt=sse"
    return f"/v1beta/models/{model}:{method}"
