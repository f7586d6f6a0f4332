"""Responses streams, requests and documents as facts, for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

from recorder.model.facts import Fact, RequestFacts
from recorder.wire.dialects.openai_responses import DIALECT

AnyFact = TypeVar("AnyFact", bound=Fact)
Json = dict[str, Any]


def tell(*events: Json) -> list[Fact]:
    """The facts of a stream, each event named by its type as the log names it."""
    teller = DIALECT.decoder()
    return [fact for event in events for fact in teller.event(event.get("type"), json.dumps(event).encode())]


def document(payload: object) -> Sequence[Fact]:
    return DIALECT.decoder().document(json.dumps(payload).encode())


def asked(**body: Any) -> RequestFacts:
    return DIALECT.request_facts("/v1/responses", json.dumps(body).encode())


def of(kind: type[AnyFact], facts: Sequence[Fact]) -> list[AnyFact]:
    return [fact for fact in facts if isinstance(fact, kind)]


def item_event(step: str, item: Json, index: int = 0) -> Json:
    return {"type": f"response.output_item.{step}", "output_index": index, "item": item}
