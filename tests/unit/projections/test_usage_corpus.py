"""Usage of recorded streams, count by count beside what genai-prices extracts from it: an outside
judge.

The corpus has the last usage object of each stream, as the provider's SDK gives it. genai-prices
reads that; a fold reads the stream. Of counts that one of them leaves out and the other has as 0,
the cost is the same: they are equal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from genai_prices.data import providers

from recorder.projections.rows import UsageRow
from tests.support.corpus import CORPUS, corpus_index, needs_corpus
from tests.support.facts import captured, folded

Json = dict[str, Any]

APIS = {name: name for name in ("openai-responses", "openai-chat", "anthropic", "gemini")} | {
    "openai-completions": "openai-chat"
}
"""By the format of a stream in the corpus, the name of the dialect."""

USUAL = {
    "openai-responses": ("openai", "responses"),
    "openai-chat": ("openai", "chat"),
    "anthropic": ("anthropic", "default"),
    "gemini": ("google", "default"),
}
"""The provider and the flavor of its API in genai-prices, for servers that it does not know or has
no extractor for.
"""

EXTRACTORS = {
    ("anthropic", "google-vertex"): ("google", "anthropic"),
    **{
        ("openai-chat", name): (name, "chat")
        for name in (
            "azure",
            "cerebras",
            "cloudflare",
            "deepseek",
            "doubleword",
            "google",
            "openrouter",
            "zai",
        )
    },
    ("openai-chat", "groq"): ("groq", "default"),
    ("openai-chat", "huggingface"): ("huggingface_novita", "chat"),
    ("openai-chat", "mistral"): ("mistral", "default"),
    ("openai-chat", "together"): ("huggingface_together", "chat"),
    ("openai-chat", "xai"): ("x-ai", "chat"),
    ("openai-responses", "azure"): ("azure", "responses"),
    ("openai-responses", "github-copilot"): ("github-copilot", "responses"),
    ("openai-responses", "openrouter"): ("openrouter", "default"),
    ("openai-responses", "xai"): ("x-ai", "responses"),
}

COLUMNS = {
    "input_tokens": "input_tokens",
    "cache_read_tokens": "cache_read_input_tokens",
    "cache_write_tokens": "cache_write_input_tokens",
    "cache_write_1h_tokens": "cache_write_1h_input_tokens",
    "output_tokens": "output_tokens",
    "output_reasoning_tokens": "reasoning_output_tokens",
    "input_audio_tokens": "input_audio_tokens",
    "cache_audio_read_tokens": "cache_read_input_audio_tokens",
    "input_image_tokens": "input_image_tokens",
    "input_video_tokens": "input_video_tokens",
    "output_audio_tokens": "output_audio_tokens",
    "output_image_tokens": "output_image_tokens",
    "output_video_tokens": "output_video_tokens",
    "output_citation_tokens": "output_citation_tokens",
    "web_searches": "web_searches",
}
"""By the name of a count in genai-prices, that of the column."""

WITHOUT_PRICE = {
    # what is left of all others
    *("input_text_tokens", "output_text_tokens", "cache_text_read_tokens"),
    *("input_tool_tokens", "input_text_tool_tokens"),  # cost what other input costs
    "cache_write_5m_tokens",  # what is left of those written: compared below
}
"""Counts of genai-prices that have no column."""

DIFFERENCES: Mapping[str, Mapping[str, tuple[int | None, int | None]]] = {
    # OpenRouter charges for the search (the reported cost has it), and genai-prices has no path for
    # its count.
    "openai-chat/pydantic-ai__test_openrouter.test_openrouter_web_search_annotations_stream.0.sse": {
        "web_searches": (None, 1)
    },
    # `prompt_tokens_details.cached_tokens` is 256; genai-prices reads no cached tokens of Cerebras,
    # nor has it a price for them: they cost what other input costs.
    "openai-chat/vercel-ai__cerebras.cererebras-structured-output-tools.1.sse": {
        "cache_read_input_tokens": (None, 256)
    },
}
"""By stream and column, the counts of genai-prices and of the recorder, where they differ."""


def reporting(*formats: str) -> list[Json]:
    return [
        entry for entry in corpus_index() if entry["provider"] in formats and entry["usage_raw"]
    ]


def projected(entry: Json) -> UsageRow:
    [row] = folded(*captured((CORPUS / entry["file"]).read_bytes(), APIS[entry["provider"]]))[
        "usage"
    ]
    assert isinstance(row, UsageRow)
    return row


def extracted(entry: Json) -> dict[str, int]:
    """The counts that genai-prices takes from the last usage object of a stream."""
    api = APIS[entry["provider"]]
    name, flavor = EXTRACTORS.get((api, entry["vendor"]), USUAL[api])
    [provider] = [each for each in providers if each.id == name]
    raw = {"usageMetadata" if api == "gemini" else "usage": entry["usage_raw"]}
    usage = provider.extract_usage(raw, api_flavor=flavor)[1]
    [extractor] = [each for each in provider.extractors or () if each.api_flavor == flavor]
    counts = {mapping.dest: usage.reported_value(mapping.dest) for mapping in extractor.mappings}
    found = {name: int(count) for name, count in counts.items() if count}
    assert found.keys() <= {*COLUMNS, *WITHOUT_PRICE}
    return found


@pytest.mark.long
@needs_corpus
@pytest.mark.parametrize("format", APIS)
def test_each_count_is_the_one_that_genai_prices_extracts(format: str) -> None:
    entries = reporting(format)
    found: dict[str, dict[str, tuple[int | None, int | None]]] = {}
    for entry in entries:
        row, theirs = projected(entry), extracted(entry)
        for name, column in COLUMNS.items():
            counts = theirs.get(name), getattr(row, column)
            if (counts[0] or 0) != (counts[1] or 0):
                found.setdefault(entry["file"], {})[column] = counts
        if "cache_write_5m_tokens" in theirs:
            rest = (row.cache_write_input_tokens or 0) - (row.cache_write_1h_input_tokens or 0)
            assert rest == theirs["cache_write_5m_tokens"]
    assert len(entries) > (1 if format == "openai-completions" else 50)
    assert found == {
        name: each for name, each in DIFFERENCES.items() if name.startswith(f"{format}/")
    }


_COST = re.compile(rb'"cost":\s*([0-9.eE+-]+)')
_TICKS = re.compile(rb'"cost_in_usd_ticks":\s*([0-9]+)')


@needs_corpus
def test_a_reported_cost_has_the_digits_of_the_stream() -> None:
    entries = [
        entry
        for entry in reporting(*APIS)
        if {"cost", "cost_in_usd_ticks"} & entry["usage_raw"].keys()
    ]
    for entry in entries:
        data, row = (CORPUS / entry["file"]).read_bytes(), projected(entry)
        assert row.reported_cost_usd is not None
        if "cost" in entry["usage_raw"]:
            expected, source = Decimal(_COST.findall(data)[-1].decode()), "usage.cost"
            assert json.dumps(entry["usage_raw"]["cost"]) == json.dumps(
                float(expected) if expected else 0
            )
        else:
            expected, source = (
                Decimal(int(_TICKS.findall(data)[-1])) / 10**10,
                "usage.cost_in_usd_ticks",
            )
        assert (Decimal(row.reported_cost_usd), row.reported_cost_source) == (expected, source)
    assert len(entries) == 54
