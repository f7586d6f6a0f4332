"""The spans of an exchange: its own, and one for each tool whose result its request brought; and
its metrics. Pure.

Rules of this file:

* A span is complete when it is made, and is not made again with other times. So a session has no
  span of its own, which would grow: spans of exchanges have no parent. That of a tool has the
  exchange with the call as its parent, though it begins when its parent ends: what happened because
  of what is what a tree of spans is read for.
* The span of a tool is among those of the exchange whose request brought the result: before that it
  has no end.
* Exchanges refer to each other by links: to the one that is continued, to the attempt that is
  repeated, to the tools whose results are brought.
* An exchange that asked for no generation (a list of models, the connection of a WebSocket) is a
  span of HTTP.
* Without content no text of a request or a response is in a span, and no message of an error, which
  may quote one.

The client metrics of the convention are histograms of tokens and of seconds over some exchanges.
Never the `gen_ai.server.*` of the convention: a recorder sees a server from outside. Names, units,
texts and bounds are those of the convention, docs/gen-ai/gen-ai-metrics.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from math import inf
from urllib.parse import urlsplit

import msgspec

from recorder.exports.otlp.source import ExportedExchange, ToolResult
from recorder.exports.otlp.telemetry import (
    CLIENT,
    DELTA,
    ERROR,
    INTERNAL,
    Attributes,
    Convention,
    Json,
    Value,
    key_values,
    span_id,
    trace_id,
)
from recorder.model.events import WEBSOCKET
from recorder.store.engine import AnyRow
from recorder.wire.dialects import by_name
from recorder.wire.providers import PROVIDERS
from recorder.wire.upstreams import KNOWN

S = 1_000_000_000

PROVIDER_NAMES: Mapping[str, str] = {
    provider.name: provider.telemetry_name or provider.name for provider in PROVIDERS
}
"""`gen_ai.provider.name` by the name of the upstream; one of the user's own is written as it is."""

_WELL = frozenset({"completed", "incomplete"})  # statuses of an exchange that ended as it should
_OUTPUT_TYPES = {"text": "text", "json_object": "json", "json_schema": "json"}
_UNKNOWN_ERROR = "_OTHER"  # the convention's word


def spans_of(
    exported: ExportedExchange, convention: Convention, content: Attributes | None = None
) -> list[Json]:
    """Return the spans of an exchange that has ended: its own first, then those of the tools that
    it answers.

    `content` are the attributes of `recorder.exports.otlp.source`; None: texts are not to be
    written.
    """
    return [
        _exchange_span(exported, convention, content),
        *(_tool_span(exported, each, convention, content is not None) for each in exported.results),
    ]


def is_inference(exported: ExportedExchange) -> bool:
    """Return whether an exchange asked a model for a generation, or got one."""
    found = exported.projected
    return bool(found.request_model or found.response_model) and found.purpose != "probe"


def is_streamed(exported: ExportedExchange) -> bool:
    """Return whether a stream was asked for; over WebSocket there is nothing else."""
    return bool(exported.projected.stream) or exported.exchange.method == WEBSOCKET


def first_chunk_ns(exported: ExportedExchange) -> int | None:
    """Return the time to the first event of a stream.

    A document, and one of an error above all, has no chunks.
    """
    is_document = (_http_status(exported) or 0) >= 400
    return exported.projected.first_event_ns if is_streamed(exported) and not is_document else None


def common_attributes(exported: ExportedExchange) -> dict[str, Value]:
    """Return the attributes of an inference that its span and all of its metrics have."""
    exchange, found = exported.exchange, exported.projected
    return {
        "gen_ai.operation.name": by_name(exchange.api).operation,
        "gen_ai.provider.name": PROVIDER_NAMES.get(exchange.provider, exchange.provider),
        "gen_ai.request.model": found.request_model,
        "gen_ai.response.model": found.response_model,
        **_server(exchange.provider),
    }


def error_type(exported: ExportedExchange) -> str | None:
    """Return the class of the error that an exchange ended with: the provider's code or type of it,
    else the status of HTTP, else what happened to the connection. None if it ended well.
    """
    found, end = exported.projected, exported.end
    status = found.status or (end.status if end else None)
    if status in _WELL and found.error is None:
        return None
    http_status = _http_status(exported)
    of_http = str(http_status) if http_status is not None and http_status >= 400 else None
    return (
        found.error_code
        or found.error_type
        or of_http
        or (status not in _WELL and status)
        or _UNKNOWN_ERROR
    )


def _exchange_span(
    exported: ExportedExchange, convention: Convention, content: Attributes | None
) -> Json:
    exchange, found, failure = exported.exchange, exported.projected, error_type(exported)
    inference = is_inference(exported)
    own = _inference(exported) if inference else _http(exported)
    model = found.request_model or found.response_model
    name = f"{own['gen_ai.operation.name']} {model}" if inference else exchange.method
    attributes = {
        **own,
        "error.type": failure,
        "http.response.status_code": _http_status(exported),
        **_recorder(exported),
        **(content or {}),
    }
    message = found.error if content is not None else None
    return {
        "traceId": trace_id(exchange.session_id),
        "spanId": span_id(exchange.exchange_id),
        "name": name,
        "kind": CLIENT,
        "startTimeUnixNano": str(exchange.started_ns),
        "endTimeUnixNano": str(exchange.started_ns + exported.duration_ns),
        "attributes": key_values(convention.known(attributes)),
        **_links(exported),
        **(_failed(message) if failure else {}),
    }


def _failed(message: str | None = None) -> Json:
    """Return the status of a span that failed. That of others is left out."""
    said = {"message": message} if message else {}
    return {"status": {**said, "code": ERROR}}


def _tool_span(
    exported: ExportedExchange, result: ToolResult, convention: Convention, has_texts: bool
) -> Json:
    exchange = exported.exchange
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": result.name or result.type,
        "gen_ai.tool.call.id": result.call_id,
        "gen_ai.tool.type": "function",  # the convention's word for what the client executes
        "gen_ai.conversation.id": _conversation(exported),
        "error.type": _UNKNOWN_ERROR if result.failed else None,
        "recorder.session.id": exchange.session_id,
        "recorder.session.name": exported.session.name,
        "recorder.exchange.id": result.exchange_id,
        "recorder.result.exchange.id": exchange.exchange_id,
        "gen_ai.tool.call.arguments": result.arguments if has_texts else None,
        "gen_ai.tool.call.result": result.output if has_texts else None,
    }
    return {
        "traceId": trace_id(exchange.session_id),
        "spanId": _tool_span_id(result),
        "parentSpanId": span_id(result.exchange_id),
        "name": f"execute_tool {result.name or result.type}",
        "kind": INTERNAL,
        "startTimeUnixNano": str(result.began_ns),
        "endTimeUnixNano": str(result.ended_ns),
        "attributes": key_values(convention.known(attributes)),
        **(_failed() if result.failed else {}),
    }


def _tool_span_id(result: ToolResult) -> str:
    return span_id(result.exchange_id, f"tool {result.item} {result.call_id or ''}")


def _links(exported: ExportedExchange) -> Json:
    previous, retry = exported.projected.previous_exchange_id, exported.retry
    links = [(span_id(previous), "continues")] if previous else []
    links += [(span_id(retry.retried_exchange_id), "retries")] if retry else []
    links += [(_tool_span_id(each), "answers") for each in exported.results]
    trace = trace_id(exported.exchange.session_id)
    shown = [
        {"traceId": trace, "spanId": id, "attributes": key_values({"recorder.link": kind})}
        for id, kind in links
    ]
    return {"links": shown} if shown else {}


def _inference(exported: ExportedExchange) -> dict[str, Value]:
    found = exported.projected
    return {
        **common_attributes(exported),
        "gen_ai.conversation.id": _conversation(exported),
        "gen_ai.output.type": _OUTPUT_TYPES.get(found.response_format or ""),
        "gen_ai.request.stream": True if is_streamed(exported) else None,  # unset: it is not
        "gen_ai.request.max_tokens": found.max_output_tokens,
        "gen_ai.request.temperature": found.temperature,
        "gen_ai.request.top_p": found.top_p,
        "gen_ai.response.id": found.response_id,
        "gen_ai.response.finish_reasons": (found.finish_reason,) if found.finish_reason else None,
        "gen_ai.response.time_to_first_chunk": _seconds(first_chunk_ns(exported)),
        **({} if exported.is_repeat else _tokens(found)),
    }


def _tokens(found: AnyRow) -> dict[str, Value]:
    """Return the counts of tokens.

    A response that was retrieved again has them once: back ends add them up.
    """
    return {
        "gen_ai.usage.input_tokens": found.input_tokens,
        "gen_ai.usage.output_tokens": found.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": found.cache_read_input_tokens,
        "gen_ai.usage.cache_creation.input_tokens": found.cache_write_input_tokens,
        "gen_ai.usage.reasoning.output_tokens": found.reasoning_output_tokens,
        "recorder.usage.partial": True
        if found.partial and found.input_tokens is not None
        else None,
    }


def _http(exported: ExportedExchange) -> dict[str, Value]:
    exchange = exported.exchange
    path = exchange.target.partition("?")[0]
    return {"http.request.method": exchange.method, "url.path": path, **_server(exchange.provider)}


def _server(upstream: str) -> dict[str, Value]:
    """Return the address of an API that is known by its name; of the user's own the log has only
    the name.
    """
    if upstream not in KNOWN:
        return {}
    parts = urlsplit(KNOWN[upstream])
    return {"server.address": parts.hostname or "", "server.port": parts.port or 443}


def _recorder(exported: ExportedExchange) -> dict[str, Value]:
    exchange, found, end, retry = (
        exported.exchange,
        exported.projected,
        exported.end,
        exported.retry,
    )
    return {
        "recorder.session.id": exchange.session_id,
        "recorder.session.name": exported.session.name,
        "recorder.session.origin": exported.session.origin,
        "recorder.exchange.id": exchange.exchange_id,
        "recorder.upstream": exchange.provider,
        "recorder.api": exchange.api,
        "recorder.client.name": exchange.client,
        "recorder.client.version": exchange.client_version,
        "recorder.thread.id": exchange.thread_id,
        "recorder.thread.parent_id": found.parent_thread_id,
        "recorder.turn.id": exchange.turn_id,
        "recorder.purpose": found.purpose,
        "recorder.status": found.status or (end.status if end else None),
        "recorder.outcome": end.outcome if end else None,
        "recorder.lossless": end.lossless if end else None,
        "recorder.retrieval": True if found.is_retrieval else None,
        "recorder.attempt": exchange.attempt,
        "recorder.retry.attempt_number": retry.attempt_number if retry else None,
        "recorder.retry.waited": _seconds(retry.waited_ns) if retry else None,
        "recorder.request.reasoning_effort": found.reasoning_effort,
        "recorder.request.service_tier": found.service_tier,
        "recorder.response.service_tier": found.response_service_tier,
        "recorder.response.events": found.events,
        "recorder.response.size_bytes": found.bytes,
        "recorder.time_to_first_token": _seconds(found.ttft_ns),
        "recorder.gap.longest": _seconds(found.longest_silence_ns),
        "recorder.gap.p50": _seconds(found.gap_p50_ns),
        "recorder.gap.p95": _seconds(found.gap_p95_ns),
        "recorder.gap.p99": _seconds(found.gap_p99_ns),
        "recorder.stalls": found.stalls,
    }


def _conversation(exported: ExportedExchange) -> str:
    """Return the provider's conversation, else the client's thread, else the session."""
    exchange = exported.exchange
    return exported.projected.conversation_id or exchange.thread_id or exchange.session_id


def _http_status(exported: ExportedExchange) -> int | None:
    """Return the status of the response.

    A turn over WebSocket has none: the 101 is that of its connection.
    """
    if exported.exchange.method == WEBSOCKET:
        return None
    return exported.projected.http_status or (exported.end.http_status if exported.end else None)


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / S


# -- metrics


class Instrument(msgspec.Struct, frozen=True):
    """A histogram of the convention."""

    name: str
    unit: str
    description: str
    bounds: tuple[float, ...]


_SECONDS = tuple(round(0.01 * 2**power, 2) for power in range(14))  # 0.01, 0.02 … 81.92

TOKENS = Instrument(
    "gen_ai.client.token.usage",
    "{token}",
    "Number of input and output tokens used.",
    tuple(4.0**power for power in range(14)),  # 1, 4 … 67,108,864
)
DURATION = Instrument(
    "gen_ai.client.operation.duration", "s", "GenAI operation duration.", _SECONDS
)
FIRST_CHUNK = Instrument(
    "gen_ai.client.operation.time_to_first_chunk",
    "s",
    "Time to receive the first chunk, measured from when the client issues the generation request to when the first "
    "chunk is received in the response stream.",
    _SECONDS,
)
INSTRUMENTS = (TOKENS, DURATION, FIRST_CHUNK)

Key = tuple[tuple[str, Value], ...]


class _Buckets:
    """The measurements of one point, counted as they come."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds, self._counts = bounds, [0] * (len(bounds) + 1)
        self._sum, self._min, self._max = 0.0, inf, -inf

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum, self._min, self._max = (
            self._sum + value,
            min(self._min, value),
            max(self._max, value),
        )

    def point(self, attributes: Attributes, began_ns: int, ended_ns: int) -> Json:
        return {
            "attributes": key_values(attributes),
            "startTimeUnixNano": str(began_ns),
            "timeUnixNano": str(ended_ns),
            "count": str(sum(self._counts)),
            "sum": self._sum,
            "bucketCounts": list(map(str, self._counts)),
            "explicitBounds": self._bounds,
            "min": self._min,
            "max": self._max,
        }


class Measurements:
    """The measurements of exchanges, added one by one: memory holds a few hundred bytes for each
    model and error.
    """

    def __init__(self, convention: Convention) -> None:
        self._points: dict[Instrument, dict[Key, _Buckets]] = {
            each: {} for each in INSTRUMENTS if each.name not in convention.absent
        }
        self._began_ns: int | None = None
        self._ended_ns = 0

    def add(self, exported: ExportedExchange) -> None:
        """Count an exchange."""
        began_ns = exported.exchange.started_ns
        self._began_ns = began_ns if self._began_ns is None else min(self._began_ns, began_ns)
        self._ended_ns = max(self._ended_ns, began_ns + exported.duration_ns)
        for instrument, attributes, value in _measured(exported):
            points = self._points.get(instrument)
            if points is not None:
                points.setdefault(tuple(attributes.items()), _Buckets(instrument.bounds)).add(value)

    def metrics(self) -> list[Json]:
        """Return the metrics: deltas, from the start of the first exchange to the end of the last.

        Points with the same attributes are one. A metric without a measurement is not in the list.
        """
        found = []
        for each, by_attributes in self._points.items():
            points = []
            for key, buckets in by_attributes.items():
                points.append(buckets.point(dict(key), self._began_ns or 0, self._ended_ns))
            if points:
                histogram = {"dataPoints": points, "aggregationTemporality": DELTA}
                about = {"name": each.name, "description": each.description, "unit": each.unit}
                found.append({**about, "histogram": histogram})
        return found


def _measured(exported: ExportedExchange) -> Iterator[tuple[Instrument, Attributes, float]]:
    """Yield the measurements of an exchange.

    What a retrieval took is not a time of a generation.
    """
    if not is_inference(exported):
        return
    found, common = exported.projected, common_attributes(exported)
    tokens = {"input": found.input_tokens, "output": found.output_tokens}
    for type, count in () if exported.is_repeat else tokens.items():
        if count is not None:
            yield TOKENS, {**common, "gen_ai.token.type": type}, count
    if found.is_retrieval:
        return
    yield DURATION, {**common, "error.type": error_type(exported)}, exported.duration_ns / S
    first_ns = first_chunk_ns(exported)
    if first_ns is not None:
        yield FIRST_CHUNK, common, first_ns / S
