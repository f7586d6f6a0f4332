"""Errors of our own in the shape that each provider gives its errors, so that its client reads them as such. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from recorder.wire.dialects import by_path

Shape = Callable[[int, str, str | None], dict[str, Any]]

_ANTHROPIC: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_GEMINI: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_OPENAI: Mapping[int, tuple[str, str | None]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    429: ("requests", "rate_limit_exceeded"),
}


def error_body(method: str, target: str, upstream: str, status: int, message: str, code: str | None = None) -> bytes:
    """The body of an error response to a request; its path says whose shape, else the upstream's name."""
    spoken = by_path(method, target.partition("?")[0]).name
    shape = _SHAPES.get(spoken) or _SHAPES.get(upstream, _openai)
    return msgspec.json.encode(shape(status, message, code))


def _openai(status: int, message: str, code: str | None) -> dict[str, Any]:
    standard = ("server_error", "server_error") if status >= 500 else ("invalid_request_error", None)
    kind, usual = _OPENAI.get(status, standard)
    return {"error": {"message": message, "type": kind, "param": None, "code": code or usual}}


def _anthropic(status: int, message: str, code: str | None) -> dict[str, Any]:
    kind = _ANTHROPIC.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def _gemini(status: int, message: str, code: str | None) -> dict[str, Any]:
    kind = _GEMINI.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    return {"error": {"code": status, "message": message, "status": kind}}


_SHAPES: Mapping[str, Shape] = {
    "openai-responses": _openai,
    "openai-chat": _openai,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
