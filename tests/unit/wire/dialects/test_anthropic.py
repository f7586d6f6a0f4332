"""What the events of Anthropic Messages mean."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import pytest

from recorder.model.facts import (
    AnnotationAdded,
    ErrorReported,
    Fact,
    ItemFinished,
    ItemStarted,
    MalformedPayload,
    ResponseFinished,
    ResponseItems,
    ResponseStarted,
    TextAdded,
    ToolResult,
    UnknownType,
    Usage,
    UsageDetails,
    UsageReported,
)
from recorder.wire.dialects.anthropic import DIALECT
from recorder.wire.dialects.anthropic.decoder import DELTA
from recorder.wire.dialects.decoder import JsonDecoder
from tests.support.tables import table


def told(*events: Any, teller: JsonDecoder | None = None) -> list[Fact]:
    teller = teller or DIALECT.decoder()
    return [
        fact for event in events for fact in teller.event(event["type"], json.dumps(event).encode())
    ]


def begun(content: Any, index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": content}


def delta(type: str, index: int = 0, **said: Any) -> dict[str, Any]:
    return {"type": DELTA, "index": index, "delta": {"type": type, **said}}


def stopped(index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def last_finished(facts: Sequence[Fact]) -> ItemFinished:
    return [fact for fact in facts if isinstance(fact, ItemFinished)][-1]


TEXT = {"type": "text", "text": ""}
TOOL = {"type": "tool_use", "id": "toolu_1", "name": "roll", "input": {}}
START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "model": "m",
        "content": [],
        "usage": {"input_tokens": 9, "output_tokens": 1},
    },
}


def test_a_message_begins_with_its_id_model_and_first_usage() -> None:
    started, usage = told(START)
    assert started == ResponseStarted("msg_1", "m")
    assert [fact for fact in told(START, START) if isinstance(fact, ResponseStarted)] == [started]
    counts = Usage(input_tokens=9, output_tokens=1, total_tokens=10)
    assert usage == UsageReported(counts, '{"input_tokens":9,"output_tokens":1}')


@table(
    ("reported", "expected"),
    [
        # Tokens from the cache in the words of another API are part of the input.
        (
            {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 6}, "output_tokens": 1},
            Usage(10, 6, None, 1, None, 11),
        ),
        # A sum that a bigint cannot hold is not reported.
        ({"input_tokens": 2**63 - 1, "output_tokens": 1}, Usage(2**63 - 1, None, None, 1)),
    ],
)
def test_usage_has_the_meaning_that_all_apis_give_it(
    reported: dict[str, Any], expected: Usage
) -> None:
    _, usage = told(
        {"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": reported}}
    )
    assert isinstance(usage, UsageReported)
    assert usage.usage == expected


def test_details_of_usage_come_at_the_beginning_and_at_the_end() -> None:
    def report(*events: Any) -> UsageDetails:
        return [fact for fact in told(*events) if isinstance(fact, UsageReported)][-1].details

    written = {
        "input_tokens": 9,
        "cache_creation": {"ephemeral_1h_input_tokens": 3, "ephemeral_5m_input_tokens": 2},
    }
    start = {"type": "message_start", "message": {"usage": {**written, "cost": 0.1}}}
    searched = {
        "output_tokens": 4,
        "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1},
    }
    assert report(start) == UsageDetails(
        3, reported_cost_usd="0.1", reported_cost_source="usage.cost"
    )
    assert report(start, {"type": "message_delta", "delta": {}, "usage": searched}) == UsageDetails(
        3, web_searches=2, reported_cost_usd="0.1", reported_cost_source="usage.cost"
    )
    end = {"type": "message_delta", "delta": {}, "usage": {"cost": 0.000112}}
    assert report(start, end).reported_cost_usd == "0.000112"
    assert (
        report(start, {"type": "message_start", "message": {"usage": {"input_tokens": 1}}})
        == UsageDetails()
    )


def test_a_text_block_is_a_message() -> None:
    facts = told(
        begun(TEXT), delta("text_delta", text="Hel"), delta("text_delta", text="lo"), stopped()
    )
    assert isinstance(facts[0], ItemStarted)
    assert (facts[0].item, facts[0].output_index) == (0, 0)
    assert (facts[0].stated.kind, facts[0].stated.type, facts[0].stated.role) == (
        "message",
        "text",
        "assistant",
    )
    assert facts[1:3] == [TextAdded(0, "text", 0, "Hel"), TextAdded(0, "text", 0, "lo")]
    assert last_finished(facts).stated.status == "completed"
    assert last_finished(facts).stated.texts == ()
    assert TextAdded(0, "text", 0, "early") in told(begun({"type": "text", "text": "early"}))


def test_thinking_is_reasoning_and_its_signature_is_only_for_the_provider() -> None:
    deltas = delta("thinking_delta", thinking="Hm."), delta("signature_delta", signature="AAAA")
    facts = told(begun({"type": "thinking", "thinking": "", "signature": ""}), *deltas, stopped())
    assert TextAdded(0, "reasoning", 0, "Hm.") in facts
    assert (last_finished(facts).stated.kind, last_finished(facts).stated.encrypted) == (
        "reasoning",
        True,
    )


def test_redacted_thinking_is_encrypted_from_the_beginning() -> None:
    (fact,) = told(begun({"type": "redacted_thinking", "data": "AAAA"}))
    assert isinstance(fact, ItemStarted)
    assert (fact.stated.kind, fact.stated.encrypted) == ("reasoning", True)


@pytest.mark.parametrize("type", ["tool_use", "server_tool_use", "mcp_tool_use"])
def test_the_use_of_a_tool_is_a_call(type: str) -> None:
    deltas = [delta("input_json_delta", partial_json=text) for text in ("", '{"n": 1}')]
    facts = told(begun({**TOOL, "type": type}), *deltas, stopped())
    stated = last_finished(facts).stated
    assert (stated.kind, stated.type, stated.name, stated.call_id) == (
        "tool_call",
        type,
        "roll",
        "toolu_1",
    )
    assert [fact for fact in facts if isinstance(fact, TextAdded)] == [
        TextAdded(0, "arguments", 0, '{"n": 1}')
    ]
    assert stated.texts == ()


@table(("input", "expected"), [({}, "{}"), ({"n": 1}, '{"n":1}')])
def test_input_that_never_streams_is_that_of_the_beginning(
    input: dict[str, Any], expected: str
) -> None:
    facts = told(
        begun({**TOOL, "input": input}), delta("input_json_delta", partial_json=""), stopped()
    )
    assert last_finished(facts).stated.texts == (("arguments", 0, expected),)
    assert (
        last_finished(told(begun({**TOOL, "input": input}), stopped())).stated.texts[0][2]
        == expected
    )


UNAVAILABLE = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
RAN = {"type": "bash_code_execution_result", "return_code": 0}
RAN_BADLY = {"type": "bash_code_execution_result", "return_code": 1}
PAGE = {"type": "web_search_result", "url": "https://example.com"}


@table(
    ("block", "output", "failed"),
    [
        ({"content": [PAGE]}, '[{"type":"web_search_result","url":"https://example.com"}]', False),
        (
            {"content": UNAVAILABLE},
            '{"type":"web_search_tool_result_error","error_code":"unavailable"}',
            True,
        ),
        ({"content": RAN_BADLY}, '{"type":"bash_code_execution_result","return_code":1}', True),
        ({"content": RAN}, '{"type":"bash_code_execution_result","return_code":0}', False),
        ({"content": "no", "is_error": True}, "no", True),
        ({"content": "yes", "is_error": False}, "yes", False),
        (
            {"content": [{"type": "text", "text": text} for text in ("one", "two")]},
            "one\ntwo",
            False,
        ),
    ],
)
def test_a_result_of_a_tool_of_the_provider_says_whether_it_failed(
    block: dict[str, Any], output: str, failed: bool
) -> None:
    facts = told(begun({"type": "mcp_tool_result", "tool_use_id": "t", **block}), stopped())
    assert facts == [ToolResult("t", None, output, failed=failed)]


def test_a_citation_is_an_annotation_of_its_text() -> None:
    facts = told(
        begun(TEXT),
        delta("citations_delta", citation={"type": "char_location", "document_index": 0}),
    )
    assert facts[1] == AnnotationAdded(0, '{"type":"char_location","document_index":0}')


def test_a_compaction_is_a_text_of_no_kind() -> None:
    summary = delta("compaction_delta", content="so far", encrypted_content="AAAA")
    begins = begun({"type": "compaction", "content": None})
    facts = told(begins, delta("compaction_delta", content=None), summary, stopped())
    assert TextAdded(0, "text", 0, "so far") in facts
    assert (last_finished(facts).stated.kind, last_finished(facts).stated.encrypted) == (
        "other",
        True,
    )
    assert not [fact for fact in facts if isinstance(fact, MalformedPayload | UnknownType)]


@pytest.mark.parametrize("type", ["fallback", "container_upload", "mcp_tool_listing"])
def test_a_block_that_says_nothing_is_kept_as_it_is(type: str) -> None:
    (fact,) = told(begun({"type": type, "file_id": "file_1"}))
    assert isinstance(fact, ItemStarted)
    assert (fact.stated.kind, fact.stated.type) == ("other", type)
    assert json.loads(fact.stated.output or "") == {"type": type, "file_id": "file_1"}


def test_what_nobody_knows_is_told_and_does_not_stop_the_rest() -> None:
    unknown = (
        {"type": "message_pause"},
        begun({"type": "hologram"}),
        delta("hologram_delta", light=1),
    )
    facts = told(*unknown, begun(TEXT, 1), delta("text_delta", 1, text="x"))
    unknowns = [fact.type for fact in facts if isinstance(fact, UnknownType)]
    assert unknowns == ["message_pause", "hologram", "hologram_delta"]
    assert facts[-1] == TextAdded(1, "text", 0, "x")


def test_an_index_that_is_used_again_is_another_item() -> None:
    facts = told(
        *(begun(TEXT), delta("text_delta", text="a"), stopped()),
        *(begun(TEXT), delta("text_delta", text="b"), stopped()),
    )
    assert [(fact.item, fact.text) for fact in facts if isinstance(fact, TextAdded)] == [
        (0, "a"),
        ("0.2", "b"),
    ]
    assert [fact.item for fact in facts if isinstance(fact, ItemFinished)] == [0, "0.2"]


def test_a_delta_without_a_block_and_a_block_left_open_are_legal() -> None:
    assert told(delta("text_delta", 3, text="x"), stopped(3)) == [TextAdded(3, "text", 0, "x")]
    assert not [fact for fact in told(begun(TEXT)) if isinstance(fact, ItemFinished)]


def test_usage_is_overlaid_by_each_count_that_is_not_null() -> None:
    first = {
        "input_tokens": 9,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 1000,
        "output_tokens": 1,
    }
    later = {
        "input_tokens": None,
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 3},
    }
    facts = told(
        {"type": "message_start", "message": {"usage": first}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": later},
    )
    usage = facts[-2]
    assert isinstance(usage, UsageReported)
    assert usage.usage == Usage(1109, 100, 1000, 5, 3, 1114)
    assert json.loads(usage.raw) == first | {
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 3},
    }
    assert facts[-1] == ResponseFinished("end_turn")


def test_a_ping_and_the_end_mean_nothing() -> None:
    assert told({"type": "ping"}, {"type": "message_stop"}) == []


def test_an_error_in_the_stream_and_as_a_document_is_a_failure() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    failure = ErrorReported("overloaded_error", None, "Overloaded")
    assert told(error) == [failure]
    assert list(DIALECT.decoder().document(json.dumps(error).encode())) == [failure]


def test_a_message_as_a_document_states_all_its_items() -> None:
    message = {
        "id": "msg_1",
        "type": "message",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "AAAA"},
            {"type": "text", "text": "Hi", "citations": [{"type": "char_location"}]},
            {
                "type": "bash_code_execution_tool_result",
                "tool_use_id": "s",
                "content": {"stdout": "x"},
            },
            {**TOOL, "input": {"n": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 9, "output_tokens": 1},
    }
    started, restated, *others = DIALECT.decoder().document(json.dumps(message).encode())
    assert started == ResponseStarted("msg_1", "m")
    assert isinstance(restated, ResponseItems)
    assert [(item.kind, item.output_index, item.texts) for item in restated.items] == [
        ("reasoning", 0, (("reasoning", 0, "Hm."),)),
        ("message", 1, (("text", 0, "Hi"),)),
        ("tool_call", 3, (("arguments", 0, '{"n":1}'),)),
    ]
    assert restated.items[1].annotations == ('{"type":"char_location"}',)
    assert others[0] == ToolResult("s", None, '{"stdout":"x"}', failed=False)
    assert isinstance(others[1], UsageReported)
    assert others[2] == ResponseFinished("tool_use")


def test_a_count_of_tokens_is_no_usage() -> None:
    assert list(DIALECT.decoder().document(b'{"input_tokens": 9}')) == []


def request(*messages: Any, path: str = "/v1/messages", **more: Any) -> Any:
    return DIALECT.request_facts(path, json.dumps({"messages": list(messages), **more}).encode())


def user(*blocks: Any) -> dict[str, Any]:
    return {
        "role": "user",
        "content": [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks],
    }


RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "6"}
REMINDER = "<system-reminder>\nBe kind.\n</system-reminder>"


def test_a_request_names_model_and_stream_and_what_a_person_says() -> None:
    asked = request({"role": "user", "content": "Hello"}, model="m", stream=True)
    assert (asked.model, asked.stream, asked.text, asked.is_turn) == ("m", True, "Hello", True)


def test_a_reminder_beside_a_text_is_not_what_a_person_says() -> None:
    assert request(user("Hello", REMINDER)).text == "Hello"
    assert request(user("<a>1</a> and <a>2</a>")).text == "<a>1</a> and <a>2</a>"
    assert request(user("<task>do it</task>")).text == "<task>do it</task>"


def test_the_answer_to_a_call_goes_on_with_a_turn() -> None:
    asked = request(
        user("Roll"),
        {"role": "assistant", "content": []},
        user({**RESULT, "is_error": True}, REMINDER),
    )
    assert (asked.text, asked.is_turn) == ("Roll", False)
    assert asked.results == (ToolResult("toolu_1", None, "6", failed=True),)


def test_an_image_in_a_result_is_told_by_size_and_digest() -> None:
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AAEC"},
    }
    (result,) = request(user({**RESULT, "content": [image]})).results
    digest = sha256(b"\0\1\2").hexdigest()
    source = {"mime_type": "image/png", "size_bytes": 3, "sha256": digest}
    assert json.loads(result.output) == [{"type": "image", "source": source}]


def test_on_vertex_the_path_names_the_model_and_whether_it_streams() -> None:
    asked = request(
        user("x"),
        path="/v1/projects/p/locations/l/publishers/anthropic/models/m@1:streamRawPredict",
    )
    assert (asked.model, asked.stream) == ("m@1", True)


def test_to_count_tokens_is_no_turn() -> None:
    assert not request(user("x"), path="/v1/messages/count_tokens").is_turn
