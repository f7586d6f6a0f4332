"""Texts of requests and responses as attributes of spans, by the JSON schemas of the convention. Only on request.

The request is the logical one: with all that a conversation which the provider keeps had before. Values are JSON as
text: the convention allows that on spans, and most back ends take no structures there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recorder.exports.otlp.messages import input_messages, instructions, output_messages
from recorder.exports.otlp.source import ExportedExchange
from recorder.exports.otlp.telemetry import Attributes
from recorder.recordings.requests import load_requests, request_json
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import exchanges_named
from recorder.wire.dialects import Dialect, by_name
from recorder.wire.dialects.json_values import as_json, request_object

_SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction")  # members of requests
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
    dialect, found = by_name(exported.exchange.api), exported.projected
    request = _unwrapped(dialect, request)
    system = next((request[name] for name in _SYSTEM if request.get(name)), None)
    messages = {
        "gen_ai.system_instructions": instructions(system),
        "gen_ai.input.messages": input_messages(_conversation(dialect, request)),
        "gen_ai.output.messages": output_messages(
            exported.items, found.finish_reason or _FAILED, has_choices=dialect.has_choices
        ),
    }
    return {name: as_json(value) for name, value in messages.items() if value}


def _unwrapped(dialect: Dialect, request: Mapping[str, Any]) -> Mapping[str, Any]:
    wrappers = dialect.prompt.wrappers if dialect.prompt else ()
    return next((inner for name in wrappers if isinstance(inner := request.get(name), dict)), request)


def _conversation(dialect: Dialect, request: Mapping[str, Any]) -> Any:
    """Return the member with the messages; of a completion without messages, its prompt."""
    parts = dialect.prompt.parts if dialect.prompt else ()
    found = next((request.get(part.name) for part in parts if part.kind == "conversation"), None)
    prompt = request.get("prompt")
    return prompt if found is None and isinstance(prompt, str) else found
