"""The settings of each request, what is in it by kind, and the service tier that its response had, in one row."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from recorder.model.text import storable, storable_json
from recorder.projections.exchange_facts import ExchangeFacts
from recorder.projections.rows import ParametersRow
from recorder.wire.dialects.json_values import as_json


def parameter_rows(facts: ExchangeFacts) -> Iterable[ParametersRow]:
    request = facts.request
    is_retrieved = facts.exchange.resumes_response_id is not None and facts.tier is not None
    if request.model is None and not request.items and not is_retrieved:
        return  # nothing is to be generated
    columns = msgspec.structs.asdict(request.parameters)
    names = columns["tool_names"]
    for name, value in columns.items():
        if isinstance(value, str):
            columns[name] = storable(value)
    if names is not None:
        columns["tool_names"] = storable_json(as_json(names))
    yield ParametersRow(
        *facts.ids,
        **columns,
        response_service_tier=storable(facts.tier),
        tools=None if names is None else len(names),
        new_user_text=storable(request.text) if request.is_turn else None,
    )
