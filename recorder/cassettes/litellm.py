"""Logs of LiteLLM: its `StandardLoggingPayload`, one JSON document a call, as an exchange each.

Its proxy writes them to S3, Google Cloud Storage and Azure, one object a file or a line, and a
callback of your own has them as `kwargs["standard_logging_object"]`. A file holds one object, an
array of them, or one a line.

LiteLLM keeps the request as it was given to it, and the response that it made of the provider's,
both in the form of OpenAI. It keeps no headers, no events and no bytes: the request body is made up
of the model, the messages and the parameters, and the response is one JSON document, also where it
was a stream. The request does not ask for a stream then, because none is there. The time of its
first token is that of the response head here, and that of its end is the time at which the document
arrives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import msgspec

from recorder.cassettes import refusing
from recorder.cassettes.calls import (
    NO_BODY,
    ImportedCall,
    ImportedFile,
    check_values,
    journal_ns,
    read_whole,
)
from recorder.model.events import ExchangeEnd, Header, ResponseHead
from recorder.wire.dialects.json_values import decoded_or_none, without_nulls
from recorder.wire.redaction.headers import redact_headers

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"

_TARGETS: Mapping[str, str] = {
    "completion": CHAT,
    "acompletion": CHAT,
    # logged in the form of chat completions, as every call but those of responses
    "anthropic_messages": CHAT,
    "responses": RESPONSES,
    "aresponses": RESPONSES,
}
_USAGE = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
_NO_MEMBERS = frozenset({"stream", "stream_options", "extra_headers", "headers", "api_key"})
"""Parameters that are not in the body: of streams, see above, and of the call, with the client's
credentials.
"""

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")

_encode = msgspec.json.Encoder().encode


class _ErrorInformation(msgspec.Struct, frozen=True):
    code: str | None = msgspec.field(name="error_code", default=None)
    type: str | None = msgspec.field(name="error_class", default=None)
    message: str | None = msgspec.field(name="error_message", default=None)


class _Payload(msgspec.Struct, frozen=True):
    """The keys of a `StandardLoggingPayload` that say what was sent and what came."""

    call_type: str
    started: float = msgspec.field(name="startTime")  # seconds since the epoch, as all times here
    ended: float = msgspec.field(name="endTime")
    first_token: float | None = msgspec.field(name="completionStartTime", default=None)
    status: str = "success"
    litellm_call_id: str | None = None
    model: str | None = None
    model_group: str | None = None
    custom_llm_provider: str | None = None
    messages: Any = None
    model_parameters: dict[str, Any] | None = None
    response: Any = None
    response_cost: float | None = None  # USD
    error_str: str | None = None
    error: _ErrorInformation | None = msgspec.field(name="error_information", default=None)


class LiteLlm(ImportedFile):
    """A log of LiteLLM, checked."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises `RecorderError` if it is none, or has no call of a model's text."""
        payloads = _payloads(read_whole(file, ": split it"))
        calls = (_call(payload) for payload in payloads if payload.call_type in _TARGETS)
        super().__init__(calls, "there is no call of chat completions, messages or responses in it")
        self._calls.sort(key=lambda call: call.started_ns)


def _payloads(data: bytes) -> Iterator[_Payload]:
    """Yield the payloads of a document, an array, or lines.

    Raises `RecorderError`, with the line or the number.
    """
    if data.lstrip().startswith(b"["):
        with refusing("it is not an array of payloads of LiteLLM"):
            raw = msgspec.json.decode(check_values(data), type=list[msgspec.Raw])
        yield from (_payload(each, f"payload {number}") for number, each in enumerate(raw, 1))
        return
    first, _, rest = data.strip().partition(b"\n")
    if not rest or decoded_or_none(check_values(first)) is None:
        yield _payload(data, "it")
        return
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            yield _payload(line, f"line {number}")


def _payload(data: bytes | msgspec.Raw, place: str) -> _Payload:
    with refusing(f"{place} is not a payload of LiteLLM"):
        return msgspec.json.decode(check_values(bytes(data)), type=_Payload)


def _call(payload: _Payload) -> ImportedCall:
    """Return a call as a recorder in front of LiteLLM would have recorded it."""
    started_ns, end_ns = (
        journal_ns(payload.started),
        max(0, journal_ns(payload.ended) - journal_ns(payload.started)),
    )
    first_ns = (
        end_ns
        if payload.first_token is None
        else max(0, journal_ns(payload.first_token) - started_ns)
    )
    target = _TARGETS[payload.call_type]
    failed = payload.status == "failure"
    response, answer, end = _failure(payload) if failed else _success(payload, target)
    return ImportedCall(
        method="POST",
        target=target,
        headers=[("content-type", "application/json")],
        body=_request(payload, target),
        response=response,
        pieces=[(end_ns, answer)] if answer else [],
        end=end,
        started_ns=started_ns,
        head_ns=min(first_ns, end_ns),
        end_ns=end_ns,
        upstream=_upstream(payload),
        missing_response=NO_BODY if response is not None and not answer else None,
    )


def _upstream(payload: _Payload) -> str:
    """Return the provider that LiteLLM called, which need not be the one whose form the call has."""
    name = payload.custom_llm_provider or ""
    return name if _NAME.fullmatch(name) else "openai"


def _request(payload: _Payload, target: str) -> bytes:
    """Return the body of a request that says the same: its bytes were not logged."""
    key = "messages" if target == CHAT else "input"
    said = {"model": payload.model_group or payload.model, key: payload.messages}
    given = {
        name: value
        for name, value in (payload.model_parameters or {}).items()
        if name not in _NO_MEMBERS
    }
    return _encode(without_nulls(said) | given)


def _success(payload: _Payload, target: str) -> tuple[ResponseHead, bytes, ExchangeEnd]:
    response = payload.response
    if target == RESPONSES and isinstance(response, dict):
        response = {**response, "usage": _usage(response.get("usage"))}
    return (
        ResponseHead(200, "OK", _headers(payload)),
        _encode(response) if response else b"",
        ExchangeEnd("eof"),
    )


def _usage(given: Any) -> Any:
    """Return the usage of a response with the names of its API: LiteLLM logs it with those of chat
    completions.
    """
    if not isinstance(given, dict) or "input_tokens" in given:
        return given
    names = _USAGE | {f"{name}_details": f"{new}_details" for name, new in _USAGE.items()}
    return {names.get(name, name): value for name, value in given.items()}


def _failure(payload: _Payload) -> tuple[ResponseHead | None, bytes, ExchangeEnd]:
    """Return the answer of a failed call as LiteLLM's proxy gives it, or none where no status was
    logged.
    """
    error = payload.error or _ErrorInformation()
    message = error.message or payload.error_str or "the call failed"
    if not re.fullmatch(r"[45]\d\d", error.code or ""):
        return None, b"", ExchangeEnd("upstream_unreachable", message)
    answer = {"error": {"message": message, "type": error.type, "param": None, "code": error.code}}
    return (
        ResponseHead(int(error.code or 0), "", _headers(payload)),
        _encode(answer),
        ExchangeEnd("eof"),
    )


def _headers(payload: _Payload) -> list[Header]:
    """Return the headers that LiteLLM's proxy would have sent and that the log has."""
    cost = None if payload.status == "failure" else payload.response_cost
    given = [(b"content-type", b"application/json")]
    given += (
        [(b"x-litellm-call-id", payload.litellm_call_id.encode())]
        if payload.litellm_call_id
        else []
    )
    given += [] if cost is None else [(b"x-litellm-response-cost", repr(cost).encode())]
    return redact_headers(given)
