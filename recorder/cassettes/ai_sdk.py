"""`.devtools/generations.json`, written by the middleware of `@ai-sdk/devtools` for Vercel's AI
SDK.

A step is one call of a model, as the SDK saw it: the request body, and the payloads of the
provider's events (`raw_chunks`) or its JSON document (`raw_response`), all as JSON in texts. The
URL, the headers of the request and the times of events are not stored: the target is the usual one
of the API, which the name of the provider says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Literal

import msgspec

from recorder.cassettes import refusing
from recorder.cassettes.calls import (
    NOT_TEXT,
    ImportedCall,
    ImportedFile,
    block,
    check_storable,
    check_values,
    header_list,
    json_bytes,
    milliseconds,
    read_whole,
)
from recorder.cassettes.content import dialect_of
from recorder.cassettes.sse_jsonl.lines import nanoseconds
from recorder.model.events import ExchangeEnd, ResponseHead
from recorder.wire.dialects import by_name
from recorder.wire.dialects.json_values import decoded_or_none, object_

ABORTED = "Request aborted"  # the `error` of a step whose stream the program left

NO_REQUEST = "@ai-sdk/devtools does not store the request of a step that failed"
NO_RESPONSE = "@ai-sdk/devtools did not store the response of this step"

_APIS = {
    ".responses": "openai-responses",
    ".chat": "openai-chat",
    ".messages": "anthropic",
    ".generative-ai": "gemini",
    ".chat.completions": "openai-chat",
}
"""The last part of a provider's name in the SDK (`openai.responses`), and the API that it speaks.
"""


class _SdkStep(msgspec.Struct, frozen=True):
    type: Literal["generate", "stream"]
    started_at: str
    provider: str | None = None
    duration_ms: float | None = None
    output: str | None = None
    error: str | None = None
    raw_request: str | None = None
    raw_response: str | None = None
    raw_chunks: str | None = None


class _Generations(msgspec.Struct, frozen=True):
    runs: tuple[Any, ...]
    steps: tuple[msgspec.Raw, ...]


class Generations(ImportedFile):
    """A file of the AI SDK's devtools, checked."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises `RecorderError` with the step that cannot be read."""
        data = read_whole(file, ": clear it in the devtools more often")
        with refusing("it is not a generations.json of @ai-sdk/devtools"):
            steps = msgspec.json.decode(check_values(data), type=_Generations).steps
        super().__init__(_calls(steps), "there is no step in it")


def _calls(steps: Iterable[msgspec.Raw]) -> Iterator[ImportedCall]:
    for number, raw in enumerate(steps, 1):
        with refusing(f"step {number} is none of @ai-sdk/devtools"):
            call = _call(msgspec.json.decode(raw, type=_SdkStep))
        yield call


def _call(step: _SdkStep) -> ImportedCall:
    """Decode a step. Raises `ValueError` if it is impossible."""
    payloads = _payloads(step)
    dialect = _dialect(step.provider or "", payloads)
    is_stream = step.type == "stream"
    content_type = "text/event-stream" if is_stream else "application/json"
    pieces = (
        [block(each, dialect) for each in payloads]
        if is_stream
        else [json_bytes(each) for each in payloads]
    )
    headers = {**_headers(step), "content-type": content_type}
    answered = bool(payloads) or step.error is None
    duration_ns = milliseconds(step.duration_ms)
    check_storable(NOT_TEXT, step.error or "")
    return ImportedCall(
        method="POST",
        target=by_name(dialect).target(not is_stream, payloads),
        upstream=by_name(dialect).upstream,
        headers=[("content-type", "application/json")],
        started_ns=nanoseconds(step.started_at),
        head_ns=duration_ns,
        end_ns=duration_ns,
        body=b""
        if step.raw_request is None
        else json_bytes(_json(step.raw_request, "raw_request")),
        response=ResponseHead(200, "", header_list(headers)) if answered else None,
        pieces=[(duration_ns, each) for each in pieces],
        end=_end(step, answered=answered),
        missing_request=NO_REQUEST if step.raw_request is None else None,
        missing_response=NO_RESPONSE if answered and not payloads else None,
    )


def _payloads(step: _SdkStep) -> Sequence[Any]:
    """Return the payloads of a stream, or the document as the only one. Raises `ValueError`."""
    if step.type == "generate":
        return [] if step.raw_response is None else [_json(step.raw_response, "raw_response")]
    chunks = [] if step.raw_chunks is None else _json(step.raw_chunks, "raw_chunks")
    if not isinstance(chunks, list):
        raise ValueError("its raw_chunks are not an array")
    return chunks


def _headers(step: _SdkStep) -> dict[str, str]:
    """Return the headers of a document's response, which its output has; those of a stream are not
    stored.
    """
    output = object_(_decoded(step.output or ""))
    headers = object_(object_(output.get("response")).get("headers"))
    return {name.lower(): text for name, text in headers.items() if isinstance(text, str)}


def _decoded(text: str) -> Any:
    return decoded_or_none(check_values(text.encode("utf-8", "surrogatepass")))


def _json(text: str, name: str) -> Any:
    found = _decoded(text)
    if found is None:
        raise ValueError(f"its {name} is not JSON")
    return found


def _dialect(provider: str, payloads: Sequence[Any]) -> str:
    """Return the API by the name of the provider; by the payloads where that is not known."""
    known = next((api for ending, api in _APIS.items() if provider.endswith(ending)), None)
    return known or dialect_of(payloads)


def _end(step: _SdkStep, *, answered: bool) -> ExchangeEnd:
    if step.error is None:
        return (
            ExchangeEnd("eof")
            if step.duration_ms is not None
            else ExchangeEnd("recorder_crash", "it has no end")
        )
    if step.error == ABORTED:
        return ExchangeEnd("client_disconnect", step.error)
    return ExchangeEnd("upstream_reset" if answered else "upstream_unreachable", step.error)
