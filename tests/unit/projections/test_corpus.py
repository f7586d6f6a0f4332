"""What the recorded streams of the corpus come to: usage, items, and which anomalies they have."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from recorder.projections.fold import Rows
from recorder.wire.dialects.openai_responses.items import ITEM_TYPES
from recorder.wire.framing.sse import parse
from tests.support.corpus import CORPUS, corpus_index, each_stream, needs_corpus
from tests.support.facts import EXCHANGE, PATHS, captured, folded

Entry = dict[str, Any]

ENTRIES: dict[str, Entry] = {entry["file"]: entry for entry in corpus_index()}

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
    exchange = msgspec.structs.replace(
        EXCHANGE, api=api, target=PATHS[api], resumes_after=RESUMED.get(stem.name)
    )
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


def of_provider(*names: str) -> list[Entry]:
    return [entry for entry in ENTRIES.values() if entry["provider"] in names]


@each_stream(of_provider(*KNOWN, *ALSO_CHAT))
def test_usage_is_what_the_index_says(entry: Entry) -> None:
    expected = entry["usage_normalised"]
    [row] = rows(entry["file"])["usage"]
    assert {name: getattr(row, column) for name, column in COLUMNS.items()} == (
        expected or dict.fromkeys(COLUMNS)
    )
    assert json.loads(row.usage_raw or "null") == entry["usage_raw"]


def final_items(file: str) -> list[tuple[int | None, dict[str, Any]]]:
    """The items with their places: as the last event has them, else as their own ends have them."""
    done: dict[Any, dict[str, Any]] = {}
    final: list[dict[str, Any]] = []
    for payload in payloads(file):
        if payload.get("type") == "response.output_item.done":
            done[payload.get("output_index")] = payload["item"]
        if payload.get("type") in ("response.completed", "response.incomplete", "response.failed"):
            final = payload["response"].get("output") or []
    return list(enumerate(final)) or [(key, done[key]) for key in sorted(done)]


def joined(item: dict[str, Any], field: str, *types: str, key: str = "text") -> str | None:
    return "".join(part[key] for part in item.get(field) or [] if part["type"] in types) or None


def of_message(item: dict[str, Any]) -> dict[str, Any]:
    annotations = [each for part in item["content"] for each in part.get("annotations") or []]
    return {
        "text": joined(item, "content", "output_text"),
        "refusal": joined(item, "content", "refusal", key="refusal"),
        "role": item["role"],
        "phase": item.get("phase"),
        "annotations": annotations or None,
    }


def of_reasoning(item: dict[str, Any]) -> dict[str, Any]:
    parts = [part["text"] for part in item.get("summary") or []]
    return {
        "text": joined(item, "content", "reasoning_text"),
        "summary": parts or None,
        "summary_text": "\n\n".join(parts) or None,
        "encrypted": bool(item.get("encrypted_content")),
    }


def of_call(arguments: Any, output: Any = None, **said: Any) -> dict[str, Any]:
    return {"arguments": arguments, "output": output, **said}


def of_search(item: dict[str, Any]) -> dict[str, Any]:
    action = dict(item.get("action") or {})
    sources = action.pop("sources", None) or None
    return of_call(action or None, sources, name="web_search")


def of_image(item: dict[str, Any]) -> dict[str, Any]:
    prompts = {name: item[name] for name in ("prompt", "revised_prompt") if item.get(name)}
    return of_call(prompts or None, {"images": [digest(item["result"])]})


def digest(image: str) -> dict[str, Any]:
    """What stands in the place of an image; one of a made-up fixture is not base64."""
    try:
        content = b64decode(image, validate=True)
    except ValueError:
        content = image.encode()
    return {"size_bytes": len(content), "sha256": sha256(content).hexdigest()}


def of_result(item: dict[str, Any]) -> dict[str, Any]:
    """What a call gave back that is an item of its own."""
    return {"output": next(item[name] for name in ("output", "result", "tools") if name in item)}


COMPARED: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "message": of_message,
    "reasoning": of_reasoning,
    "function_call": lambda item: of_call(item["arguments"], name=item["name"]),
    "custom_tool_call": lambda item: of_call(item["input"], name=item["name"]),
    "mcp_call": lambda item: of_call(
        item["arguments"], item.get("output") or item.get("error"), name=item["name"]
    ),
    "tool_search_call": lambda item: of_call(item.get("arguments")),
    "web_search_call": of_search,
    "file_search_call": lambda item: of_call({"queries": item["queries"]}, item.get("results")),
    "code_interpreter_call": lambda item: of_call(item["code"], item.get("outputs") or None),
    "image_generation_call": of_image,
    "local_shell_call": lambda item: of_call(item["action"]),
    "shell_call": lambda item: of_call(item["action"]),
    "apply_patch_call": lambda item: of_call(item["operation"]),
    "computer_call": lambda item: of_call(item.get("action") or item.get("actions")),
    "mcp_list_tools": lambda item: {
        "output": {"server_label": item["server_label"], "tools": item["tools"]}
    },
    "mcp_approval_request": lambda item: {"arguments": item["arguments"], "name": item["name"]},
    "compaction": lambda item: {"output": None},
    "program": lambda item: of_call(item["code"]),
    "program_output": of_result,
    "shell_call_output": of_result,
    "tool_search_output": of_result,
}
"""What the columns of a row are by what its item states, for each type that the corpus has."""


def plain(value: Any) -> Any:
    """JSON is compared as what it says, not by its spaces; images in it as their digests."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        with suppress(json.JSONDecodeError):
            return plain(json.loads(value))
    if isinstance(value, str) and value.startswith("data:image/png;base64,"):
        return {"mime_type": "image/png", **digest(value.partition(",")[2])}
    if isinstance(value, list):
        return [plain(each) for each in value] or None
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return None if value == "" else value


# Streams whose items are not those of one response, with the reason. Nothing else may be there that
# was not stated.
NOT_ONE_RESPONSE = {
    "openai-responses/openai-php-client__Streams.ResponseOutputItemToolSearchCallAdded.sse": "a fixture of one event",
    "openai-responses/vercel-ai__azure.azure-reasoning-encrypted-content.1.sse": "four responses",
    "openai-responses/vercel-ai__openai.responses.openai-reasoning-encrypted-content.1.sse": "four responses",
}


@each_stream(of_provider("openai-responses"))
def test_items_are_what_the_response_says_at_its_end(entry: Entry) -> None:
    told, stated = list(rows(entry["file"])["items"]), final_items(entry["file"])
    results = {
        (item["call_id"], item["type"].removesuffix("_output").removesuffix("_call")): COMPARED[
            item["type"]
        ](item)
        for _, item in stated
        if item["type"].endswith("_output")
    }
    for place, item in stated:
        of_type = [row for row in told if row.type == item["type"]]
        row = next((row for row in of_type if row.item_id == item.get("id")), of_type[0])
        told.remove(row)
        result = results.get((item.get("call_id"), item["type"].removesuffix("_call")), {})
        expected = {
            "status": item.get("status") or "completed",
            **COMPARED[item["type"]](item),
            **result,
        }
        for name, value in expected.items():
            assert plain(getattr(row, name)) == plain(value), (place, item["type"], name)
    assert bool(told) == (entry["file"] in NOT_ONE_RESPONSE), "items that were not stated"


@pytest.mark.long
@needs_corpus
def test_every_type_of_item_that_the_corpus_has_is_compared() -> None:
    types = {
        item["type"]
        for entry in of_provider("openai-responses")
        for _, item in final_items(entry["file"])
    }
    assert types == COMPARED.keys() & types
    assert COMPARED.keys() <= ITEM_TYPES.keys()


@each_stream(of_provider("openai-chat", "openai-completions"))
def test_text_of_a_chat_is_the_sum_of_its_deltas(entry: Entry) -> None:
    texts: dict[int, str] = {}
    thoughts: dict[int, str] = {}
    called: dict[tuple[int, Any, Any], str] = {}
    # an index that comes again with another id is another call
    ids: dict[tuple[int, Any], Any] = {}
    for payload in payloads(entry["file"]):
        for choice in payload.get("choices") or []:
            index, delta = (
                choice.get("index") or 0,
                choice.get("delta") or {"content": choice.get("text")},
            )
            texts[index] = texts.get(index, "") + text_of(delta)
            thoughts[index] = thoughts.get(index, "") + thought_of(delta)
            for call in delta.get("tool_calls") or []:
                place = (index, call.get("index"))
                ids[place] = call.get("id") or ids.get(place)
                key = (*place, ids[place])
                called[key] = called.get(key, "") + (
                    (call.get("function") or {}).get("arguments") or ""
                )
    items = rows(entry["file"])["items"]
    told = {row.output_index: row.text for row in items if row.kind == "message" and row.text}
    # raw, or a summary where the details say so
    reasoning = [row for row in items if row.kind == "reasoning"]
    thought = {
        row.output_index: row.text or row.summary_text
        for row in reasoning
        if row.text or row.summary_text
    }
    assert told == {index: text for index, text in texts.items() if text}
    assert thought == {index: text for index, text in thoughts.items() if text}
    assert [row.arguments or "" for row in items if row.type == "function"] == list(called.values())


def text_of(delta: dict[str, Any]) -> str:
    content = delta.get("content")
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if part.get("type") == "text")
    audio = (delta.get("audio") or {}).get("transcript") or ""
    return audio + (content or "" if delta.get("channel") != "analysis" else "")


def thought_of(delta: dict[str, Any]) -> str:
    content = delta.get("content")
    parts = content if isinstance(content, list) else []
    in_parts = "".join(each["text"] for part in parts for each in part.get("thinking", ()))
    return in_parts + (delta.get("reasoning_content") or delta.get("reasoning") or "")


@each_stream(of_provider("anthropic"))
def test_text_of_a_message_is_the_sum_of_its_blocks(entry: Entry) -> None:
    said, thought, called, places = "", "", [], {}
    given: list[list[str]] = []  # of each call, what it began with and what was streamed
    for payload in payloads(entry["file"]):
        block, delta = payload.get("content_block") or {}, payload.get("delta") or {}
        said += (block.get("text") or "") + (delta.get("text") or "")
        thought += (block.get("thinking") or "") + (delta.get("thinking") or "")
        if block.get("type") in ("tool_use", "server_tool_use", "mcp_tool_use"):
            called.append((block["name"], block["id"]))
            places[payload["index"]] = len(given)
            given.append([json.dumps(block.get("input") or {}), ""])
        if "partial_json" in delta:
            given[places[payload["index"]]][1] += delta["partial_json"]
    items = rows(entry["file"])["items"]
    assert "".join(row.text or "" for row in items if row.kind == "message") == said
    assert "".join(row.text or "" for row in items if row.kind == "reasoning") == thought
    assert [(row.name, row.call_id) for row in items if row.kind == "tool_call"] == called
    arguments = [plain(streamed or opening) for opening, streamed in given]
    assert [plain(row.arguments) for row in items if row.kind == "tool_call"] == arguments


@each_stream(of_provider("gemini"))
def test_text_of_gemini_is_the_sum_of_its_parts(entry: Entry) -> None:
    parts = [
        part
        for payload in payloads(entry["file"])
        for candidate in payload.get("candidates") or []
        for part in (candidate.get("content") or {}).get("parts") or []
    ]
    items = rows(entry["file"])["items"]
    said = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
    thought = "".join(part["text"] for part in parts if "text" in part and part.get("thought"))
    called = [
        part["functionCall"]["name"] for part in parts if part.get("functionCall", {}).get("name")
    ]
    assert "".join(row.text or "" for row in items if row.kind == "message") == said
    assert "".join(row.summary_text or "" for row in items if row.kind == "reasoning").replace(
        "\n\n", ""
    ) == (thought.replace("\n\n", ""))
    assert [row.name for row in items if row.type == "function_call"] == called
    whole = [part["functionCall"] for part in parts if "args" in part.get("functionCall", {})]
    # else their arguments come in pieces, which have a test of their own
    if len(whole) == len(called):
        assert [plain(row.arguments) for row in items if row.type == "function_call"] == [
            plain(json.dumps(call["args"])) for call in whole
        ]


# Why a stream as it was recorded has an anomaly. Whatever is not listed has none.
REASONS: dict[str, dict[str, str]] = {
    "openai-chat/fantasy__TestOpenAICompatibleThinking.avian-kimi.thinking-streaming.0.sse": {
        "id_rotation": "Avian changes the id of a completion in mid-stream"
    },
}


def is_unedited(entry: Entry) -> bool:
    return entry["provenance"] == "recorded" and "re-serialised" not in entry["fidelity"]


@each_stream(filter(is_unedited, ENTRIES.values()))
def test_anomalies_of_unedited_recordings_are_real_ones(entry: Entry) -> None:
    assert {row.kind for row in rows(entry["file"])["anomalies"]} == set(
        REASONS.get(entry["file"], {})
    )


NOT_UNDERSTOOD = {
    # Messages of the Live API, framed as events.
    "gemini/vercel-ai__google.speech-translation.google-live-speech-translation.sse": {
        "unknown_type",
        "unread",
    },
    # Made by hand, with a bracket missing.
    "openai-responses/vercel-ai__openai.responses.parallel-tool-call-wrapper.1.sse": {"malformed"},
}


@each_stream(ENTRIES.values())
def test_all_that_a_stream_says_is_understood(entry: Entry) -> None:
    """Edited ones, too; where an editor made deltas differ from the text that they come to, that is
    seen.
    """
    expected = NOT_UNDERSTOOD.get(entry["file"], set())
    if "concatenated_deltas_differ_from_done" in entry["oddities"]:
        expected = {*expected, "delta_mismatch"}
    kinds = {row.kind for row in rows(entry["file"])["anomalies"]}
    assert kinds & {"unknown_type", "unread", "malformed", "delta_mismatch"} == expected
