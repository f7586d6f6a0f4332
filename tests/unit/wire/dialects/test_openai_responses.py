"""Every event of the Responses format says what it means, and no payload is too strange."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from recorder.model.facts import (
    AnnotationAdded,
    ErrorReported,
    Fact,
    Field,
    ItemFinished,
    LogprobsAdded,
    MalformedPayload,
    ResponseFinished,
    ResponseItems,
    ResponseStarted,
    TextAdded,
    TextFinished,
    UnknownType,
    Usage,
    UsageDetails,
    UsageReported,
)
from recorder.wire.dialects import Keys, MessageIds
from recorder.wire.dialects.openai_responses import DIALECT
from recorder.wire.dialects.openai_responses.items import ITEM_TYPES
from tests.support.corpus import ROOT
from tests.support.facts import Json, document, item_event, of, tell
from tests.support.tables import table

CATALOG = ROOT.parent / "shared" / "wire" / "events-catalog.json"

LIFECYCLE = ["created", "queued", "in_progress", "completed", "incomplete", "failed"]
ENDINGS = ["completed", "incomplete", "failed"]
DELTAS: list[tuple[str, Field, str]] = [
    ("output_text", "text", "content_index"),
    ("refusal", "refusal", "content_index"),
    ("reasoning_text", "reasoning", "content_index"),
    ("reasoning_summary_text", "summary", "summary_index"),
    ("function_call_arguments", "arguments", ""),
    ("custom_tool_call_input", "arguments", ""),
    ("mcp_call_arguments", "arguments", ""),
    ("code_interpreter_call_code", "arguments", ""),
]
TYPES = [
    *("error", "keepalive", "[DONE]", "response.compaction.compacting"),
    *(f"response.{step}" for step in LIFECYCLE),
    *(f"response.{text}.{step}" for text, _, _ in DELTAS for step in ("delta", "done")),
    *(
        "response.output_item.added",
        "response.output_item.done",
        "response.output_text.annotation.added",
    ),
    *(
        f"response.{part}_part.{step}"
        for part in ("content", "reasoning_summary")
        for step in ("added", "done")
    ),
    *("response.reasoning_part.added", "response.reasoning_part.done"),
    *("response.audio.delta", "response.audio.done"),
    *("response.audio.transcript.delta", "response.audio.transcript.done"),
    *(
        f"response.code_interpreter_call.{step}"
        for step in ("in_progress", "interpreting", "completed")
    ),
    *(f"response.file_search_call.{step}" for step in ("in_progress", "searching", "completed")),
    *(f"response.web_search_call.{step}" for step in ("in_progress", "searching", "completed")),
    *(
        f"response.image_generation_call.{step}"
        for step in ("in_progress", "generating", "completed", "partial_image")
    ),
    *(
        f"response.{mcp}.{step}"
        for mcp in ("mcp_call", "mcp_list_tools")
        for step in (*ENDINGS[::2], "in_progress")
    ),
    *(f"response.shell_call_command.{step}" for step in ("added", "delta", "done")),
    *("response.shell_call_output_content.delta", "response.shell_call_output_content.done"),
    *(
        "response.apply_patch_call_operation_diff.delta",
        "response.apply_patch_call_operation_diff.done",
    ),
    *("response.steer.accepted", "response.steer.pending", "response.steer.failed"),
    *("response.inject.created", "response.inject.failed"),
]


def catalog(*keys: str) -> list[str]:
    """The names in those parts of the catalog, where this machine has it."""
    known = json.loads(CATALOG.read_text()) if CATALOG.exists() else {}
    return [
        name for key in keys for name in known.get(key, ()) if not name.startswith(("_", "client:"))
    ]


# -- the response


@table(
    ("responses", "ids"),
    [
        ([{"id": "r1", "model": "m"}] * 3, ["r1"]),
        ([{"id": "r1", "model": "m"}, {}], ["r1"]),  # one that leaves its id out is the same
        ([{"id": "r1", "model": "m"}, {"id": "r2", "model": "m"}], ["r1", "r2"]),
    ],
)
def test_a_response_starts_with_its_id_and_model_and_says_so_once(
    responses: list[Json], ids: list[str]
) -> None:
    events = [
        {"type": f"response.{step}", "response": each}
        for step, each in zip(LIFECYCLE, responses, strict=False)
    ]
    assert tell(*events) == [ResponseStarted(id, "m") for id in ids]


USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 17,
    "cost": 0.1,
}


def test_the_usage_is_reported_with_what_the_provider_wrote() -> None:
    facts = tell({"type": "response.completed", "response": {"usage": USAGE}})
    [reported] = of(UsageReported, facts)
    assert reported.usage == Usage(10, 4, 2, 7, 5, 17)
    assert json.loads(reported.raw) == USAGE


XAI = {"cost_in_usd_ticks": 2876500, "server_side_tool_usage_details": {"web_search_calls": 2}}
PERPLEXITY = {
    "cost": {"total_cost": 0.00071},
    "tool_calls_details": {"search_web": {"invocation": 1}},
}


@table(
    ("usage", "searches", "usd", "source"),
    [
        ({"cost": 0.1}, None, "0.1", "usage.cost"),
        (XAI, 2, "0.00028765", "usage.cost_in_usd_ticks"),
        (PERPLEXITY, 1, "0.00071", "usage.cost.total_cost"),
    ],
)
def test_usage_has_the_details_in_an_event_and_in_a_document(
    usage: Json, searches: int | None, usd: str, source: str
) -> None:
    whole: Json = {
        "object": "response",
        "id": "r",
        "status": "completed",
        "usage": usage,
        "output": [],
    }
    expected = UsageDetails(
        web_searches=searches, reported_cost_usd=usd, reported_cost_source=source
    )
    for facts in (tell({"type": "response.completed", "response": whole}), document(whole)):
        assert of(UsageReported, facts)[0].details == expected


NO_COUNTS = {
    "input_tokens": "3.5",
    "output_tokens": True,
    "total_tokens": 2**70,
    "input_tokens_details": [1],
}
# in the words of Perplexity
CACHED = {"input_tokens": 9, "input_tokens_details": {"cache_read_input_tokens": 4}}


@table(
    ("usage", "reported"),
    [(CACHED, [Usage(9, 4)]), (NO_COUNTS, [Usage()]), (None, []), ({}, []), ([], []), ("?", [])],
)
def test_what_is_not_a_count_is_not_reported(usage: object, reported: list[Usage]) -> None:
    facts = tell({"type": "response.completed", "response": {"usage": usage}})
    assert [fact.usage for fact in of(UsageReported, facts)] == reported


FILTERED = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
REASONS: list[tuple[str, Json, ResponseFinished]] = [
    ("completed", {"status": "completed"}, ResponseFinished("completed")),
    ("completed", {}, ResponseFinished("completed")),
    ("completed", {"status": "cancelled"}, ResponseFinished("cancelled", "incomplete")),
    ("completed", {"status": "failed"}, ResponseFinished("failed", "failed")),
    ("completed", FILTERED, ResponseFinished("content_filter", "incomplete")),
    ("incomplete", FILTERED, ResponseFinished("content_filter", "incomplete")),
    (
        "incomplete",
        {"status": "incomplete", "incomplete_details": None},
        ResponseFinished("incomplete", "incomplete"),
    ),
    ("failed", {"status": "failed"}, ResponseFinished("failed", "failed")),
]


@table(("step", "response", "finished"), REASONS)
def test_why_a_response_ended_is_in_the_words_of_the_provider(
    step: str, response: Json, finished: ResponseFinished
) -> None:
    assert tell({"type": f"response.{step}", "response": response})[-1] == finished


def test_only_the_end_restates_the_items() -> None:
    response = {"id": "r", "output": [{"type": "message", "id": "m1", "content": "hi"}]}
    early = tell({"type": "response.in_progress", "response": response})
    late = tell({"type": "response.completed", "response": response})
    assert not of(ResponseItems, early)
    assert [item.item_id for fact in of(ResponseItems, late) for item in fact.items] == ["m1"]
    assert not of(
        ResponseItems, tell({"type": "response.completed", "response": {"id": "r", "output": []}})
    )


ERRORS: list[tuple[Json, ErrorReported]] = [
    (
        {"type": "error", "error": {"type": "t", "code": "c", "message": "m"}},
        ErrorReported("t", "c", "m"),
    ),
    (
        {"type": "error", "code": "c", "message": "flat", "param": None},
        ErrorReported(None, "c", "flat"),
    ),
    (
        {"type": "response.failed", "response": {"error": {"code": "c", "message": "m"}}},
        ErrorReported(None, "c", "m"),
    ),
    ({"type": "something.new", "error": {"message": "m"}}, ErrorReported(None, None, "m")),
]


@pytest.mark.parametrize(("event", "failed"), ERRORS)
def test_an_error_is_told_whatever_its_shape(event: Json, failed: ErrorReported) -> None:
    assert of(ErrorReported, tell(event)) == [failed]


def test_a_failed_response_is_started_failed_and_finished() -> None:
    facts = tell(
        {
            "type": "response.failed",
            "response": {"id": "r", "status": "failed", "error": {"message": "m"}},
        }
    )
    assert facts == [
        ResponseStarted("r"),
        ErrorReported(None, None, "m"),
        ResponseFinished("failed", "failed"),
    ]


# -- texts


@table(("family", "field", "index"), DELTAS)
def test_a_delta_adds_to_its_text(family: str, field: Field, index: str) -> None:
    event = {
        "type": f"response.{family}.delta",
        "output_index": 2,
        "item_id": "x",
        index or "other": 3,
        "delta": "ab",
    }
    assert tell(event) == [TextAdded(2, field, 3 if index else 0, "ab")]


NAMES_AT_THE_END = {
    "refusal": "refusal",
    "function_call_arguments": "arguments",
    "custom_tool_call_input": "input",
    "mcp_call_arguments": "arguments",
    "code_interpreter_call_code": "code",
}


@table(("family", "field", "index"), DELTAS)
def test_the_end_of_a_text_settles_it(family: str, field: Field, index: str) -> None:
    name = NAMES_AT_THE_END.get(family, "text")
    event = {
        "type": f"response.{family}.done",
        "output_index": 2,
        index or "other": 1,
        name: "whole",
    }
    assert tell(event) == [TextFinished(2, field, 1 if index else 0, "whole")]


PARTS: list[tuple[str, Json, TextFinished]] = [
    ("content", {"type": "output_text", "text": "a"}, TextFinished(0, "text", 4, "a")),
    ("content", {"type": "refusal", "refusal": "a"}, TextFinished(0, "refusal", 4, "a")),
    ("reasoning", {"type": "reasoning_text", "text": "a"}, TextFinished(0, "reasoning", 4, "a")),
    (
        "reasoning_summary",
        {"type": "summary_text", "text": "a"},
        TextFinished(0, "summary", 5, "a"),
    ),
]


@pytest.mark.parametrize(("kind", "part", "settled"), PARTS)
def test_the_end_of_a_part_settles_its_text(kind: str, part: Json, settled: TextFinished) -> None:
    where = {"output_index": 0, "content_index": 4, "summary_index": 5}
    empty = {"type": part["type"], next(name for name in ("text", "refusal") if name in part): ""}
    event = f"response.{kind}_part."
    ends = {"type": event + "done", **where, "part": part}
    assert tell({"type": event + "added", **where, "part": empty}, ends) == [settled]
    begins = {"type": event + "added", **where, "part": part}
    assert tell(begins) == [TextAdded(settled.item, settled.field, settled.part, settled.text)]


def test_a_part_of_unknown_type_is_told_once() -> None:
    events = [
        {"type": f"response.content_part.{step}", "part": {"type": "smell"}}
        for step in ("added", "done")
    ]
    assert tell(*events) == [UnknownType("smell")]


def test_log_probabilities_come_with_their_delta() -> None:
    event = {
        "type": "response.output_text.delta",
        "output_index": 0,
        "delta": "a",
        "logprobs": [{"token": "a"}],
    }
    assert tell(event) == [TextAdded(0, "text", 0, "a"), LogprobsAdded(0, '[{"token":"a"}]')]


def test_a_citation_is_added_to_its_item() -> None:
    annotation = {"type": "url_citation", "url": "https://example.org"}
    event = {
        "type": "response.output_text.annotation.added",
        "output_index": 1,
        "annotation": annotation,
    }
    added = AnnotationAdded(1, '{"type":"url_citation","url":"https://example.org"}')
    assert tell(event, {**event, "annotation": None}) == [added]


def test_a_delta_without_an_index_belongs_to_the_item_of_its_id() -> None:
    added = item_event("added", {"type": "message", "id": "m1"}, index=3)
    deltas = [
        {"type": "response.output_text.delta", "item_id": id, "delta": "a"} for id in ("m1", "m2")
    ]
    assert [fact.item for fact in of(TextAdded, tell(added, *deltas))] == [3, "m2"]


def test_events_that_name_no_item_belong_to_the_open_one() -> None:
    item = {"type": "response.output_item.done", "item": {"type": "message", "content": "a"}}
    delta = {"type": "response.output_text.delta", "delta": "a"}
    facts = tell(delta, item, delta, item)
    keys = [fact.item for fact in facts if isinstance(fact, (TextAdded, ItemFinished))]
    assert keys[0] == keys[1] != keys[2] == keys[3]


def test_what_is_said_aloud_is_text_too() -> None:
    said = [
        fact.text
        for fact in of(
            TextAdded, tell({"type": "response.audio.transcript.delta", "delta": "hello"})
        )
    ]
    assert said == ["hello"]


@pytest.mark.parametrize("delta", [None, 7, {"a": 1}])
def test_a_delta_that_is_no_text_is_malformed(delta: object) -> None:
    assert of(
        MalformedPayload,
        tell({"type": "response.output_text.delta", "output_index": 0, "delta": delta}),
    )


# -- documents


def test_a_document_is_the_whole_response() -> None:
    message = {"type": "message", "id": "m1", "content": [{"type": "output_text", "text": "hi"}]}
    facts = document(
        {
            "object": "response",
            "id": "r",
            "status": "completed",
            "usage": USAGE,
            "output": [message],
        }
    )
    assert [type(fact) for fact in facts] == [
        ResponseStarted,
        UsageReported,
        ResponseItems,
        ResponseFinished,
    ]


DOCUMENTS: list[tuple[Any, Sequence[Fact]]] = [
    # it still runs
    ({"object": "response", "id": "r", "status": "queued", "output": []}, [ResponseStarted("r")]),
    (
        {"error": {"type": "invalid_request_error", "message": "m"}},
        [ErrorReported("invalid_request_error", None, "m")],
    ),
    ({"object": "list", "data": []}, []),
    ({"object": "response.deleted", "id": "r", "deleted": True}, []),
    ({"object": "surprise"}, [UnknownType("surprise")]),
    ([], [MalformedPayload("the document is not an object")]),
]


@table(("payload", "facts"), DOCUMENTS)
def test_other_documents_say_what_they_are(payload: Any, facts: Sequence[Fact]) -> None:
    assert list(document(payload)) == list(facts)


# -- all types, any payload


PARTS_OF_THE_CATALOG = ("", "-observed", "-beta", "-websocket")


@table(
    "type",
    sorted({*TYPES, *catalog(*(f"openai-responses{part}" for part in PARTS_OF_THE_CATALOG))}),
)
def test_no_declared_event_is_unknown(type: str) -> None:
    event = {"part": {"type": "output_text"}, "item": {"type": "message"}, "response": {}}
    data = b"[DONE]" if type == "[DONE]" else json.dumps(event).encode()
    assert not of(UnknownType, DIALECT.decoder().event(type, data))


@pytest.mark.skipif(not CATALOG.exists(), reason="no catalog of events")
def test_every_declared_item_has_its_kind() -> None:
    of_xai = {"x_search_call", "code_execution_call", "view_image_call", "view_x_video_call"}
    assert sorted(catalog("_openai_output_items")) == sorted(ITEM_TYPES.keys() - of_xai)


def test_an_event_of_unknown_type_is_told() -> None:
    unknown = [UnknownType("response.telepathy.delta"), UnknownType("(no type)")]
    assert tell({"type": "response.telepathy.delta"}, {}) == unknown


@table(
    ("payload", "ids"),
    [
        (b'{"type":"response.created","response":{"id":"resp_1"}}', (None, "resp_1")),
        (b'{"type":"response.cancel","response_id":"resp_1","stream_id":"s"}', ("s", "resp_1")),
        (b'{"type":"x","stream_id":7}', (None, None)),
        (b'{"response":null}', (None, None)),
        (b"\xff{", (None, None)),
        (b"", (None, None)),
    ],
)
def test_a_websocket_message_is_assigned_by_its_ids(
    payload: bytes, ids: tuple[str | None, str | None]
) -> None:
    assert DIALECT.websocket is not None
    assert DIALECT.websocket.ids(payload) == MessageIds(*ids)


def test_a_websocket_message_is_its_payload() -> None:
    payload = b'{"type":"response.output_item.done","sequence_number":3,"output_index":1,"item":{"id":"msg_1"}}'
    keys = DIALECT.keys.of_message(payload)
    assert keys == Keys("response.output_item.done", 3, "msg_1", 1, 0, len(payload))
    assert DIALECT.keys.of_message(b"data: {}") == Keys()
