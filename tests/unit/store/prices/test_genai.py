"""Rows beside the package's own lookup and arithmetic: an outside judge."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from genai_prices.data import providers
from genai_prices.data_snapshot import find_provider_by_id

from recorder.store.prices.catalog import PriceRow, matches
from recorder.store.prices.genai import package_prices

NAMES = ("openai", "anthropic", "gemini", "azure", "deepseek", "xai", "perplexity")
ENDINGS = (
    "",
    "-20251211",
    "-2025-12-11",
    "-latest",
    "-tts",
    "-preview-tts",
    "-tts-x",
    "-001",
    "@20250101",
    "-5",
    "-mini",
)


def texts(clause: Any) -> Iterator[str]:
    for name in ("equals", "starts_with", "contains", "ends_with"):
        if hasattr(clause, name):
            yield getattr(clause, name)
    for each in (*getattr(clause, "or_", ()), *getattr(clause, "and_", ())):
        yield from texts(each)


def first(rows: list[PriceRow], model: str) -> PriceRow | None:
    return next((row for row in rows if matches(row.model, model)), None)


@pytest.mark.long
def test_each_model_has_the_price_that_the_package_looks_up() -> None:
    found = package_prices(NAMES, {"gateway": "mistral"})
    assert (found.unpriced, found.left_out) == ([], [])
    for name in NAMES:
        provider = find_provider_by_id(providers, name)
        assert provider is not None
        rows = [row for row in found.rows if row.provider == name and row.unit == "input"]
        rows = sorted({row.model: row for row in rows}.values(), key=lambda row: row.rank)
        literal = {re.sub(r"\\(.)", r"\1", row.model): row for row in rows if not re.search(r"(?<!\\)[%_#]", row.model)}
        wild = [row for row in rows if row.model not in literal]
        models = {text.lower() for model in provider.models for text in texts(model.match)}
        for model in [beginning + ending for beginning in models for ending in ENDINGS][
            :: 7 if len(models) > 200 else 3
        ]:
            row = literal.get(model) or first(wild, model)
            known = provider.find_model(model, all_providers=providers)
            priced = known is not None and _has_input(known)
            assert (row is not None and row.picousd is not None) == priced, (name, model, row, known)


def _has_input(model: Any) -> bool:
    prices = model.prices if isinstance(model.prices, list) else [model]
    return any(getattr(each.prices, "input_mtok", None) is not None for each in prices)


def test_a_subscription_has_no_list() -> None:
    assert package_prices(["chatgpt"], {}).unpriced == ["chatgpt"]
    assert {row.provider for row in package_prices([], {"gateway": "mistral"}).rows} == {"gateway"}
