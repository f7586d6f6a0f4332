"""What the recorded streams of the corpus come to: usage, items, and which anomalies they have."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec
import pytest

from recorder.folding import Rows
from recorder.sse import parse
from tests.corpus import CORPUS, corpus_index, needs_corpus
from tests.folds import EXCHANGE, PATHS, captured, folded

pytestmark = needs_corpus

ENTRIES = {entry["file"]: entry for entry in corpus_index()}

COLUMNS = {
    "input": "input_tokens",
    "cached_input": "cache_read_input_tokens",
    "cache_write": "cache_write_input_tokens",
    "output": "output_tokens",
    "reasoning": "reasoning_output_tokens",
    "total": "total_tokens",
}
KNOWN = ("openai-responses", "openai-chat", "anthropic", "gemini")
# Streams that go on from where another ended: after which number.
RESUMED = {
    "openai-dotnet__SessionRecords.ResponsesTests.CanStreamBackgroundResponsesAsync.2.sse": 1,
    "pydantic-ai__test_openai_responses.test_background_mode_streaming_starting_after_vcr.1.sse": 0,
}
ALSO_CHAT = {"openai-completions": "openai-chat"}


@cache
def rows(file: str) -> Rows:
    provider = ENTRIES[file]["provider"]
    api = ALSO_CHAT.get(provider, provider if provider in PATHS else "other")
    stem = CORPUS / file
    request = stem.with_suffix(".request.json")
    asked = json.loads(request.read_text()).get("body") if request.exists() else None
    exchange = msgspec.structs.replace(EXCHANGE, api=api, target=PATHS[api], resumes_after=RESUMED.get(stem.name))
    request_body = json.dumps(asked).encode() if asked else b""
    return folded(*captured(stem.read_bytes(), exchange=exchange, request=request_body))


def payloads(file: str) -> Iterator[dict[str, Any]]:
    """The JSON of a stream's events, read in another way than the program does."""
    text = (CORPUS / file).read_bytes().replace(b"\r\n", b"\n")
    for block in text.split(b"\n\n"):
        data = parse(block.strip(b"\n")).data
        if data and data.startswith(b"{"):
            with suppress(json.JSONDecodeError):  # a fixture has one
                yield json.loads(data)


@pytest.mark.parametrize("file", ENTRIES)
def test_usage_is_what_the_index_says(file: str) -> None:
    expected = ENTRIES[file]["usage_normalised"]
    [row] = rows(file)["usage"]
    if ENTRIES[file]["provider"] in (*KNOWN, *ALSO_CHAT):
        assert {name: getattr(row, column) for name, column in COLUMNS.items()} == (expected or dict.fromkeys(COLUMNS))


def of_provider(name: str) -> list[str]:
    return [file for file, entry in ENTRIES.items() if entry["provider"] == name]


def final_items(file: str) -> list[dict[str, Any]]:
    """The items as the last event has them, else as their own ends have them."""
    done: dict[Any, dict[str, Any]] = {}
    final: list[dict[str, Any]] = []
    for payload in payloads(file):
        if payload.get("type") == "response.output_item.done":
            done[payload.get("output_index")] = payload["item"]
        if payload.get("type") in ("response.completed", "response.incomplete"):
            final = payload["response"].get("output") or []
    return final or [done[key] for key in sorted(done)]


def texts_of(item: dict[str, Any]) -> dict[str, str]:
    content = item.get("content") or []
    by_type = {
        "text": "".join(part["text"] for part in content if part["type"] in ("output_text", "reasoning_text")),
        "refusal": "".join(part["refusal"] for part in content if part["type"] == "refusal"),
        "summary_text": "\n\n".join(part["text"] for part in item.get("summary") or []),
        "arguments": item["arguments"] if isinstance(item.get("arguments"), str) else item.get("input") or "",
    }
    return {name: text for name, text in by_type.items() if text}


@pytest.mark.parametrize("file", of_provider("openai-responses"))
def test_items_are_what_the_response_says_at_its_end(file: str) -> None:
    told = rows(file)
    stated = [texts_of(item) for item in final_items(file) if item["type"] in _WITH_TEXT]
    have = [
        {name: text for name in ("text", "refusal", "summary_text", "arguments") if (text := getattr(row, name))}
        for row in told["items"]
        if row.type in _WITH_TEXT
    ]
    mismatches = {row.kind for row in told["anomalies"]} & {"delta_mismatch", "item_mismatch", "final_mismatch"}
    for texts in stated:
        assert texts in have or not texts or mismatches, f"{texts} is not among {have}"


_WITH_TEXT = ("message", "reasoning", "function_call", "custom_tool_call", "mcp_call")


@pytest.mark.parametrize("file", of_provider("openai-chat"))
def test_text_of_a_chat_is_the_sum_of_its_deltas(file: str) -> None:
    texts: dict[int, str] = {}
    called = ""
    for payload in payloads(file):
        for choice in payload.get("choices") or []:
            index, delta = choice.get("index") or 0, choice.get("delta") or {}
            texts[index] = texts.get(index, "") + text_of(delta)
            for call in delta.get("tool_calls") or []:
                called += (call.get("function") or {}).get("arguments") or ""
    items = rows(file)["items"]
    told = {row.output_index: row.text for row in items if row.kind == "message" and row.text}
    assert told == {index: text for index, text in texts.items() if text}
    assert Counter("".join(row.arguments or "" for row in items if row.kind == "tool_call")) == Counter(called)


def text_of(delta: dict[str, Any]) -> str:
    content = delta.get("content")
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if part.get("type") == "text")
    audio = (delta.get("audio") or {}).get("transcript") or ""
    return audio + (content or "" if delta.get("channel") != "analysis" else "")


@pytest.mark.parametrize("file", of_provider("anthropic"))
def test_text_of_a_message_is_the_sum_of_its_blocks(file: str) -> None:
    said, thought, called = "", "", []
    for payload in payloads(file):
        block, delta = payload.get("content_block") or {}, payload.get("delta") or {}
        said += (block.get("text") or "") + (delta.get("text") or "")
        thought += (block.get("thinking") or "") + (delta.get("thinking") or "")
        if block.get("type") in ("tool_use", "server_tool_use", "mcp_tool_use"):
            called.append((block["name"], block["id"]))
    items = rows(file)["items"]
    assert "".join(row.text or "" for row in items if row.kind == "message") == said
    assert "".join(row.text or "" for row in items if row.kind == "reasoning") == thought
    assert [(row.name, row.call_id) for row in items if row.kind == "tool_call"] == called
    assert all(row.arguments_json for row in items if row.kind == "tool_call" and row.status == "completed")


@pytest.mark.parametrize("file", of_provider("gemini"))
def test_text_of_gemini_is_the_sum_of_its_parts(file: str) -> None:
    parts = [
        part
        for payload in payloads(file)
        for candidate in payload.get("candidates") or []
        for part in (candidate.get("content") or {}).get("parts") or []
    ]
    items = rows(file)["items"]
    said = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
    thought = "".join(part["text"] for part in parts if "text" in part and part.get("thought"))
    called = [part["functionCall"]["name"] for part in parts if part.get("functionCall", {}).get("name")]
    assert "".join(row.text or "" for row in items if row.kind == "message") == said
    assert "".join(row.summary_text or "" for row in items if row.kind == "reasoning").replace("\n\n", "") == (
        thought.replace("\n\n", "")
    )
    assert [row.name for row in items if row.type == "function_call"] == called


# Why a stream as it was recorded has an anomaly. Whatever is not listed has none.
REASONS: dict[str, dict[str, str]] = {
    "openai-chat/fantasy__TestOpenAICompatibleThinking.avian-kimi.thinking-streaming.0.sse": {
        "id_rotation": "Avian changes the id of a completion in mid-stream"
    },
}


def is_unedited(entry: dict[str, Any]) -> bool:
    return entry["provenance"] == "recorded" and "re-serialised" not in entry["fidelity"]


@pytest.mark.parametrize("file", [file for file, entry in ENTRIES.items() if is_unedited(entry)])
def test_anomalies_of_unedited_recordings_are_real_ones(file: str) -> None:
    assert {row.kind for row in rows(file)["anomalies"]} == set(REASONS.get(file, {}))


@pytest.mark.parametrize("file", ENTRIES)
def test_every_row_can_be_stored(file: str) -> None:
    for told in rows(file).values():
        for row in told:
            assert all(value is None or isinstance(value, str | int | float) for value in msgspec.structs.astuple(row))
