"""What vendors themselves sent breaks no rule of the profiles of its API, or is explained here,
file by file.

Streams that were made or shortened by hand are only read. So are those of other vendors, which
speak dialects of Chat Completions: what is found in them is true, and nobody's promise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from recorder.lint.linter import PROFILES, lint
from recorder.recordings.files import load_file
from tests.support.corpus import CORPUS, corpus_index, each_stream, needs_corpus
from tests.support.tables import table

Entry = Mapping[str, Any]

VENDORS = {
    "openai-responses": ("openai", "azure", "chatgpt-backend"),
    "openai-chat": ("openai", "google", "google-vertex"),
    "anthropic": ("anthropic", "google-vertex"),
    "gemini": ("google", "google-vertex"),
}
"""By the format of a stream, where the vendor's own servers answer."""

RESUMED = (
    "a stream that was resumed, from a GET with starting_after; the body alone does not say so"
)
EARLY = "OpenAI sent no sequence numbers before the middle of 2025"

EXPLAINED: Mapping[tuple[str, str], str] = {
    (
        "openai-dotnet__SessionRecords.ResponsesTests.CanStreamBackgroundResponsesAsync",
        "RS001",
    ): RESUMED,
    (
        "openai-dotnet__SessionRecords.ResponsesTests.CanStreamBackgroundResponsesAsync",
        "RS011",
    ): RESUMED,
    (
        "pydantic-ai__test_openai_responses.test_background_mode_streaming_starting_after",
        "RS001",
    ): RESUMED,
    (
        "pydantic-ai__test_openai_responses.test_background_mode_streaming_starting_after",
        "RS011",
    ): RESUMED,
    ("dd-trace-py__openai.v1.response_function_call_streamed", "RS010"): EARLY,
    ("dd-trace-py__openai.v1.response_tools_stream", "RS010"): EARLY,
    ("ruby-openai__responses_stream", "RS010"): EARLY,
    ("pydantic-ai__test_openai_responses.test_openai_responses_stream", "RS010"): EARLY,
    ("llm-openai-plugin__test_openai.test_async_model", "RS010"): EARLY,
    (
        "pydantic-ai__test_openai_responses.test_openai_responses_model_mcp_list_tools",
        "RS032",
    ): "OpenAI closed one of three lists of tools and left two open, and the SDK minds if they are not in the end",
    (
        "openai-dotnet__SessionRecords.ChatTests.ChatWithBasicAudioOutputAsync.0",
        "CH006",
    ): "OpenAI leaves `choices` out of chunks that only pad a stream of audio: `.stream()` of openai-python raises "
    "TypeError at them, though plain iteration reads them",
    (
        "openai-dotnet__SessionRecords.ChatTests.ChatWithBasicAudioOutputAsync.0",
        "CH011",
    ): "OpenAI says no `finish_reason` of an answer in audio: it ends with `expires_at`",
    (
        "magentic__chat_model.test_openai_chat_model_gemini.test_openai_chat_model_gemini_",
        "CH016",
    ): "Gemini's endpoint for OpenAI clients left `index` out of tool calls",
    (
        "0xPlaygrounds-rig__anthropic.prompt_caching.streaming_prompt_caching_reuses_tool_cache.665bfc",
        "ST006",
    ): "the recorder of that project writes payloads anew, and here without the last blank line",
}
"""By the beginning of a file's name and the rule: true findings, and why they are there."""


def unedited(entry: Entry) -> bool:
    """Recorded, and not touched by whoever stored it; that a recorder wrote its JSON anew changes
    no field.
    """
    return (
        entry["vendor"] in VENDORS.get(entry["provider"], ()) and entry["provenance"] == "recorded"
    )


def rules(entry: Entry, *, errors: bool = True) -> set[str]:
    """The rules that a stream breaks in any profile of its API."""
    found: set[str] = set()
    for recording in load_file(CORPUS / entry["file"]).recordings:
        profiles = [profile for profile, apis in PROFILES.items() if recording.exchange.api in apis]
        for profile in profiles:
            found.update(
                each.rule
                for each in lint(recording, profile)
                if each.severity == "error" or not errors
            )
    return found


def explained(entry: Entry) -> set[str]:
    name = entry["file"].rpartition("/")[2]
    return {rule for start, rule in EXPLAINED if name.startswith(start)}


@each_stream(filter(unedited, corpus_index()))
def test_what_a_vendor_sent_has_no_error(entry: dict[str, Any]) -> None:
    assert rules(entry) <= explained(entry)


@needs_corpus
def test_what_is_explained_is_still_found() -> None:
    named = [entry for entry in corpus_index() if unedited(entry) and explained(entry)]
    found = {(entry["file"].rpartition("/")[2], rule) for entry in named for rule in rules(entry)}
    for start, rule in EXPLAINED:
        assert any(name.startswith(start) and rule == id for name, id in found), (start, rule)


@needs_corpus
@pytest.mark.slow
def test_every_file_is_judged() -> None:
    found: Counter[str] = Counter()
    for entry in corpus_index():
        if entry["provider"] in VENDORS and not unedited(entry):
            found.update(rules(entry, errors=False))
    assert found["CH027"] >= 20  # what most vendors do: the role in every delta
    assert found["CH004"] >= 2


WRITER = "openai-chat/openllmetry__opentelemetry-instrumentation-writer.test_chat.test_writer_async_streaming_chat_"
FAULTY = {
    f"{WRITER}tool_c.0.sse": {"CH032"},  # openai-python hands on calls without a type
    "anthropic/papercomputeco-tapes__capture.anthropic.messages_truncated_stream.sse": {"AN007"},
    "anthropic/vercel-ai__anthropic.duplicate-message-start.sse": {"AN005"},
    "openai-chat/vercel-ai__openai-compatible.chat.anthropic-fallback-tool-call.sse": {"CH031"},
}


@needs_corpus
@table(("file", "broken"), FAULTY.items())
def test_what_others_kept_as_a_broken_stream_is_broken_in_that_way(
    file: str, broken: set[str]
) -> None:
    [entry] = [entry for entry in corpus_index() if entry["file"] == file]
    assert broken <= rules(entry)
