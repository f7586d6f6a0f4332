"""The Gemini API: its addresses, errors and keys, and the places of fields in its payloads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from recorder.wire.dialects.dialect import KeyShape, NoiseField, Provider, RequestNoise, RequestPlaces, ResponseFields

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


_LIVE = r"ws/google\.ai\.generativelanguage\.[\w.]+"  # the Live API, over WebSocket

PROVIDER = Provider(
    name="gemini",
    base_url="https://generativelanguage.googleapis.com",
    telemetry_name="gcp.gemini",
    error_body=error_body,
    hosts=(r"cloudcode-pa\.googleapis\.com", r"(?:[a-z0-9-]+-)?aiplatform(?:\.[a-z]+\.rep)?\.googleapis\.com"),
    paths=re.compile(
        r"(?:/upload)?/v\d+(?:alpha|beta)\d*(?:/|$)|(?:/v1)?/(?:models|tunedModels)/(?!ft:)[^/]+:[A-Za-z]+$"
        rf"|/{_LIVE}$"
    ),
    headers=(b"x-goog-api-key",),
    query=re.compile(r"(?:^|&)key="),
    other_paths=("tunedModels", _LIVE),
    environment={"GOOGLE_GEMINI_BASE_URL": "{url}"},
    base_variables={"GOOGLE_GEMINI_BASE_URL": "", "GEMINI_API_BASE": "/v1beta"},
    key_variable="GEMINI_API_KEY",
    other_key_variables=("GOOGLE_API_KEY",),
    harmless_headers=r"x-goog-request-id|x-goog-api-client",
    key_shapes=(
        KeyShape("google-key", rb"AIza[A-Za-z0-9_-]{35,}", prefix=rb"AIza", cut=rb"AIza[A-Za-z0-9_-]*"),
        KeyShape("google-token", rb"ya29\.[A-Za-z0-9_-]{20,}", prefix=rb"ya29\.", cut=rb"ya29\.[A-Za-z0-9_-]*"),
    ),
)

REQUEST_NOISE = (RequestNoise("parameters", "key", "key", "a key of the Gemini API"),)

_PART = ("text", "functionCall.name", "functionCall.args", "executableCode.code", "toolCall.toolType", "toolCall.args")
_CHUNKS = ("", "response.", "*.")  # plain, of Code Assist, and the array that a stream is without `alt=sse`
_CALLS = (
    *("functionCall.id", "functionResponse.id", "executableCode.id", "codeExecutionResult.id"),
    *("toolCall.id", "toolResponse.id"),
)

FIELDS = ResponseFields(
    texts=tuple(f"{chunk}candidates.*.content.parts.*.{path}" for chunk in ("", "response.") for path in _PART),
    usage=("usageMetadata", "response.usageMetadata"),
    noise=(
        NoiseField("id", (*(f"{chunk}responseId" for chunk in _CHUNKS), "traceId"), "made anew for each response"),
        NoiseField(
            "id",
            tuple(f"{chunk}candidates.*.content.parts.*.{call}" for chunk in _CHUNKS for call in _CALLS),
            "made anew for each call",
        ),
        NoiseField("time", tuple(f"{chunk}createTime" for chunk in _CHUNKS), "when a response was made"),
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


def target(is_document: bool, payloads: Sequence[Any]) -> str:
    """Return the target of a request: the model is part of the path, and is named in the answer."""
    objects = (each for payload in payloads for each in (payload if isinstance(payload, list) else [payload]))
    versions = (str(each.get("modelVersion")) for each in objects if isinstance(each, dict) and "modelVersion" in each)
    model = next((version for version in versions if _MODEL.fullmatch(version)), "unknown")
    method = "generateContent" if is_document else "streamGenerateContent?alt=sse"
    return f"/v1beta/models/{model}:{method}"
