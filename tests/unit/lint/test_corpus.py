"""What OpenAI really sent over the Responses API breaks no rule of its profiles, or is explained here, file by file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recorder.lint import PROFILES, Finding, Profile, lint
from recorder.recordings.files import load_file
from tests.support.corpus import CORPUS, corpus_index, each_stream, needs_corpus

VENDORS = ("openai", "azure", "chatgpt-backend")
"""Where OpenAI's own servers answer."""

RESUMED = "a stream that was resumed, from a GET with starting_after; the body alone does not say so"
EARLY = "OpenAI sent no sequence numbers before the middle of 2025"
UNCLOSED = "OpenAI closed one of three lists of tools and left two open, and the SDK minds if they are not in the end"

EXPLAINED: Mapping[tuple[str, str], str] = {
    ("openai-dotnet__SessionRecords.ResponsesTests.CanStreamBackgroundResponsesAsync", "RS001"): RESUMED,
    ("openai-dotnet__SessionRecords.ResponsesTests.CanStreamBackgroundResponsesAsync", "RS011"): RESUMED,
    ("pydantic-ai__test_openai_responses.test_background_mode_streaming_starting_after", "RS001"): RESUMED,
    ("pydantic-ai__test_openai_responses.test_background_mode_streaming_starting_after", "RS011"): RESUMED,
    ("dd-trace-py__openai.v1.response_function_call_streamed", "RS010"): EARLY,
    ("dd-trace-py__openai.v1.response_tools_stream", "RS010"): EARLY,
    ("ruby-openai__responses_stream", "RS010"): EARLY,
    ("pydantic-ai__test_openai_responses.test_openai_responses_stream", "RS010"): EARLY,
    ("llm-openai-plugin__test_openai.test_async_model", "RS010"): EARLY,
    ("pydantic-ai__test_openai_responses.test_openai_responses_model_mcp_list_tools", "RS032"): UNCLOSED,
}
"""By the beginning of a file's name and the rule: true findings, and why they are there."""


def unedited(entry: Mapping[str, Any]) -> bool:
    """Recorded, and not touched by whoever stored it; that a recorder wrote its JSON anew changes no field."""
    is_theirs = entry["provider"] == "openai-responses" and entry["vendor"] in VENDORS
    return is_theirs and entry["provenance"] == "recorded"


def errors(file: str) -> list[tuple[Profile, Finding]]:
    found = load_file(CORPUS / file)
    return [
        (profile, finding)
        for recording in found.recordings
        for profile, apis in PROFILES.items()
        if recording.exchange.api in apis
        for finding in lint(recording, profile)
        if finding.severity == "error"
    ]


def explanation(file: str, rule: str) -> str | None:
    name = file.rpartition("/")[2]
    return next((why for (start, of), why in EXPLAINED.items() if of == rule and name.startswith(start)), None)


@each_stream(filter(unedited, corpus_index()))
def test_what_a_vendor_sent_has_no_error(entry: dict[str, Any]) -> None:
    file = entry["file"]
    left = [(profile, each) for profile, each in errors(file) if not explanation(file, each.rule)]
    assert not left, [(profile, each.rule, each.meaning, each.places[:3]) for profile, each in left]


@needs_corpus
def test_nothing_is_explained_that_is_not_there() -> None:
    files = [entry["file"] for entry in corpus_index() if unedited(entry)]
    for (start, rule), _ in EXPLAINED.items():
        [file] = [each for each in files if each.rpartition("/")[2].startswith(start)]
        assert rule in [finding.rule for _, finding in errors(file)], (start, rule)
