"""What Anthropic, Google and OpenAI themselves sent, judged: no error, or one that is there and explained here.

The files that were not recorded, but made or shortened by hand, are only read. So are the streams of other vendors,
which speak dialects of Chat Completions: what is found in them is true, and nobody's promise.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from recorder.lint import Finding, lint
from recorder.recordings.files import load_file
from tests.support.corpus import CORPUS, corpus_index, needs_corpus
from tests.support.tables import table

JUDGED = ("anthropic", "gemini", "openai-chat")
VENDORS = ("anthropic", "google", "google-vertex", "openai")

AUDIO = "openai-chat/openai-dotnet__SessionRecords.ChatTests.ChatWithBasicAudioOutputAsync.0.sse"
STRIPPED = "anthropic/0xPlaygrounds-rig__anthropic.prompt_caching.streaming_prompt_caching_reuses_tool_cache.665bfc.sse"
COMPATIBLE = "openai-chat/magentic__chat_model.test_openai_chat_model_gemini.test_openai_chat_model_gemini_"

EXPLAINED = {
    (AUDIO, "CH006"): "OpenAI leaves `choices` out of chunks that only pad a stream of audio: `.stream()` of "
    "openai-python raises TypeError at them, though plain iteration reads them",
    (AUDIO, "CH011"): "OpenAI says no `finish_reason` of an answer in audio: it ends with `expires_at`",
    (COMPATIBLE, "CH016"): "Gemini's endpoint for OpenAI clients left `index` out of tool calls",
    (STRIPPED, "ST006"): "the recorder of that project writes payloads anew, and here without the last blank line",
}


def entries(*, unedited: bool) -> list[dict[str, Any]]:
    ours = [entry for entry in corpus_index() if entry["provider"] in JUDGED]
    return [entry for entry in ours if is_unedited(entry) == unedited]


def is_unedited(entry: dict[str, Any]) -> bool:
    return bool(entry["vendor"] in VENDORS and entry["provenance"] == "recorded")


def findings(entry: dict[str, Any]) -> list[Finding]:
    return [finding for each in load_file(CORPUS / entry["file"]).recordings for finding in lint(each)]


def explained(file: str, rule: str) -> bool:
    return any(file.startswith(start) and rule == id for start, id in EXPLAINED)


def errors(entry: dict[str, Any]) -> list[str]:
    return [finding.rule for finding in findings(entry) if finding.severity == "error"]


@needs_corpus
def test_what_vendors_sent_is_free_of_errors() -> None:
    wrong = {entry["file"]: errors(entry) for entry in entries(unedited=True)}
    left = {file: [rule for rule in rules if not explained(file, rule)] for file, rules in wrong.items()}
    assert {file: rules for file, rules in left.items() if rules} == {}


@needs_corpus
def test_what_is_explained_is_still_found() -> None:
    named = [entry for entry in entries(unedited=True) if any(entry["file"].startswith(file) for file, _ in EXPLAINED)]
    found = {(entry["file"], rule) for entry in named for rule in errors(entry)}
    for start, rule in EXPLAINED:
        assert any(file.startswith(start) and rule == id for file, id in found), (start, rule)


@needs_corpus
@pytest.mark.slow
def test_every_file_is_judged() -> None:
    found: Counter[str] = Counter()
    for entry in entries(unedited=False):
        found.update({finding.rule for finding in findings(entry)})
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
@table("file", FAULTY)
def test_what_others_kept_as_a_broken_stream_is_broken_in_that_way(file: str) -> None:
    [entry] = [entry for entry in corpus_index() if entry["file"] == file]
    assert FAULTY[file] <= set(errors(entry))
