"""Texts of requests and responses as attributes of spans, by the JSON schemas of the convention. Only on request.

The request is the logical one: with all that a conversation which the provider keeps had before. Values are JSON as
text: the convention allows that on spans, and most back ends take no structures there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recorder.exports.otlp.messages import input_messages, instructions, output_messages, text_parts
from recorder.exports.otlp.source import ExportedExchange
from recorder.exports.otlp.telemetry import Attributes
from recorder.recordings.requests import load_requests, request_json
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import exchanges_named
from recorder.wire.dialects import Dialect, by_name
from recorder.wire.dialects.json_values import as_json, request_object

_FAILED = "error"  # the convention's word for a generation that did not finish


async def load_content(log: LogReader, exported: ExportedExchange, number: int | None = None) -> Attributes:
    """Return the messages of an exchange, which a reader with texts has read. `number` is that in its session.

    Raises `RecorderError` if the exchange, with all that it continues, is too large to be held.
    """
    exchange = exported.exchange
    named = [(number, exchange)] if number else await exchanges_named(log, exchange.session_id, exchange.exchange_id)
    shown = await load_requests(log, exported.session, named)
    body = request_json(shown[0][1]) if shown else None
    return content_of(exported, request_object(body) if body else {})


def content_of(exported: ExportedExchange, request: Mapping[str, Any]) -> Attributes:
    """Return the messages of an exchange as attributes, given its logical request. Empty ones are left out."""
    exchange, projected = exported.exchange, exported.projected
    dialect = by_name(exchange.api)
    finish_reason = projected.finish_reason or _FAILED
    messages = {
        **_request_messages(dialect, exchange.target.partition("?")[0], request),
        "gen_ai.output.messages": output_messages(exported.items, finish_reason, has_choices=dialect.has_choices),
    }
    return {name: as_json(value) for name, value in messages.items() if value}


def _request_messages(dialect: Dialect, path: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    system, messages = text_parts(request.get("instructions")), []
    if dialect.conversation is not None:
        conversation = dialect.conversation(path, request)
        system, messages = instructions(conversation), input_messages(conversation)
    prompt = text_parts(request.get("prompt"))  # of a completion without messages
    if prompt and not messages:
        messages = [{"role": "user", "parts": prompt}]
    return {"gen_ai.system_instructions": system, "gen_ai.input.messages": messages}
