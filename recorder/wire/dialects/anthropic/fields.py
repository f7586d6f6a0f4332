"""Anthropic: its errors, and the places of fields in its payloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recorder.wire.dialects.dialect import NoiseField, RequestPlaces, ResponseFields, below

_ERRORS: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def error_body(status: int, message: str, code: str | None) -> dict[str, Any]:
    """Return an error in the shape of Anthropic's, which has no code."""
    kind = _ERRORS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


_MESSAGES = ("", "message.")
_PLACES = (*_MESSAGES, "delta.")
_BLOCKS = ("content_block.", "content.*.")

FIELDS = ResponseFields(
    texts=(
        *("delta.text", "delta.thinking", "delta.partial_json", "delta.content", "delta.stop_details.explanation"),
        *below(_BLOCKS, "text", "thinking", "name", "input", "content"),
    ),
    usage=("message.usage", "usage"),
    noise=(
        NoiseField("id", below(_MESSAGES, "id"), "made anew for each message"),
        NoiseField("id", ("request_id",), "made anew for each request"),
        NoiseField("id", below(_BLOCKS, "id"), "made anew for each call"),
        NoiseField("id", below(_BLOCKS, "tool_use_id"), "names a call of this message"),
        NoiseField("id", below(_PLACES, "container.id"), "of the sandbox that a tool ran in"),
        NoiseField("time", below(_PLACES, "container.expires_at"), "when it will be forgotten"),
    ),
    ciphertexts={"signature": "of a thought"},
    ciphertext_block="redacted_thinking",
)

PLACES = RequestPlaces(
    credentials=("mcp_servers.*.authorization_token",),
    of_model=(
        *("messages", "system", "prompt"),
        *("tools.*.description", "tools.*.input_schema", "tools.*.input_examples"),
        *("content", "content_block", "delta", "message"),
    ),
)

_EVENTS = frozenset(
    {"message_start", "message_delta", "message_stop"}
    | {"content_block_start", "content_block_delta", "content_block_stop"}
)


def is_event(payload: Mapping[str, Any]) -> bool:
    """Return whether a payload is an event of a message."""
    return str(payload.get("type")) in _EVENTS


def speaks(payload: Mapping[str, Any]) -> bool:
    """Return whether a payload is a message or an event of one; an Assistants message has an `object`."""
    return (is_event(payload) or payload.get("type") == "message") and "object" not in payload
