"""Rows beside the package's own lookup: an outside judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from genai_prices.data import providers
from genai_prices.data_snapshot import find_provider_by_id

from recorder.prices.catalog import text_of
from recorder.prices.genai import package_prices

NAMES = ("openai", "anthropic", "gemini", "azure", "deepseek", "xai", "perplexity")
ENDINGS = (
    *("", "-20251211", "-2025-12-11", "-latest", "-tts", "-preview-tts", "-tts-x"),
    *("-001", "@20250101", "-5", "-mini"),
)


def texts(clause: Any) -> Iterator[str]:
    for name in ("equals", "starts_with", "contains", "ends_with"):
        if hasattr(clause, name):
            yield getattr(clause, name)
    for each in (*getattr(clause, "or_", ()), *getattr(clause, "and_", ())):
        yield from texts(each)


@pytest.mark.long
def test_each_model_has_the_price_that_the_package_looks_up() -> None:
    for name in NAMES:
        provider = find_provider_by_id(providers, name)
        assert provider is not None
        beginnings = {text.lower() for model in provider.models for text in texts(model.match)}
        models = {beginning + ending for beginning in beginnings for ending in ENDINGS}
        found = package_prices([], {(name, model) for model in models}, {})
        assert found.unpriced == []
        priced = {
            text_of(row.model)
            for row in found.rows
            if row.unit == "input" and row.picousd is not None
        }
        known = {model: provider.find_model(model, all_providers=providers) for model in models}
        assert priced == {
            model for model, info in known.items() if info is not None and _has_input(info)
        }


def _has_input(model: Any) -> bool:
    prices = model.prices if isinstance(model.prices, list) else [model]
    return any(getattr(each.prices, "input_mtok", None) is not None for each in prices)


def test_a_model_of_bedrock_has_the_price_of_its_region_whatever_way_it_is_named() -> None:
    model = "anthropic.claude-sonnet-4-5-20250929-v1:0"
    regional = {
        model,
        f"us.{model}",
        f"eu.{model}",
        f"arn:aws:bedrock:us-east-1::foundation-model/{model}",
    }
    named = regional | {
        f"global.{model}",
        f"arn:aws:bedrock:us-east-1:1:inference-profile/global.{model}",
    }
    rows = package_prices([], {("bedrock", each) for each in named}, {}).rows
    prices = {
        text_of(row.model): row.usd_per_million
        for row in rows
        if row.unit == "input" and not row.above_input_tokens
    }
    assert {name: price for name, price in prices.items() if name} == {
        each: "3.3" if each in regional else "3" for each in named
    }


def test_a_subscription_has_no_list() -> None:
    assert package_prices(["chatgpt"], [], {}).unpriced == ["chatgpt"]


def test_a_row_is_of_one_model_of_one_upstream() -> None:
    """The name as the log has it; one that is not a name of a model has no row but that of the
    list.
    """
    found = package_prices(
        [], [("gateway", "Mistral-Large-Latest"), ("gateway", "m" * 201)], {"gateway": "mistral"}
    )
    expected = {("gateway", "", 0), ("gateway", "mistral-large-latest", 0)}
    assert {(row.provider, row.model, row.rank) for row in found.rows} == expected
