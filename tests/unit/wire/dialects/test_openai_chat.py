"""What Chat Completions and its relatives mean, told by hand-written streams, bodies and requests."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

from recorder.model.facts import (
    AnnotationAdded,
    ErrorReported,
    Fact,
    ItemFinished,
    ItemStarted,
    ItemState,
    LogprobsAdded,
    MalformedPayload,
    ResponseFinished,
    ResponseItems,
    ResponseStarted,
    TextAdded,
    UnknownType,
    Usage,
    UsageDetails,
    UsageReported,
)
from recorder.wire.dialects.openai_chat import DIALECT
from tests.support.tables import table

CHUNK = "chat.completion.chunk"


def chunk(**fields: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": CHUNK, "model": "m", **fields}


def delta(index: int | None = 0, /, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return chunk(choices=[{"index": index, "delta": fields, "finish_reason": finish}])


def call(**fields: Any) -> dict[str, Any]:
    return delta(tool_calls=[fields])


def function(name: str | None = None, arguments: Any = "") -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def told(*payloads: Any) -> list[Fact]:
    teller = DIALECT.decoder()
    encoded = (
        payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        for payload in payloads
    )
    return [fact for data in encoded for fact in teller.event(CHUNK, data)]


def document(payload: Any) -> Sequence[Fact]:
    return DIALECT.decoder().document(json.dumps(payload).encode())


def of(kind: type[Any], facts: Sequence[Fact]) -> list[Any]:
    return [fact for fact in facts if isinstance(fact, kind)]


def texts(facts: Sequence[Fact]) -> dict[tuple[Any, str], str]:
    joined: defaultdict[tuple[Any, str], str] = defaultdict(str)
    for fact in of(TextAdded, facts):
        assert fact.part == 0
        joined[fact.item, fact.field] += fact.text
    return dict(joined)


def started(facts: Sequence[Fact]) -> dict[Any, ItemState]:
    return {fact.item: fact.stated for fact in of(ItemStarted, facts)}


# Messages.


def test_an_item_begins_once_and_before_its_first_text() -> None:
    facts = told(delta(role="assistant", content=""), delta(content="Hel"), delta(content="lo"))
    assert facts == [
        ResponseStarted("chatcmpl-1", "m"),
        ItemStarted("0.message", 0, ItemState("message", "message", role="assistant")),
        TextAdded("0.message", "text", 0, "Hel"),
        TextAdded("0.message", "text", 0, "lo"),
    ]


def test_choices_are_told_apart_and_without_an_index_are_the_first() -> None:
    facts = told(
        delta(1, content="b"),
        delta(None, content="a"),
        delta(1, content="B"),
        delta(0, content="A"),
    )
    assert texts(facts) == {("1.message", "text"): "bB", ("0.message", "text"): "aA"}
    assert [fact.output_index for fact in of(ItemStarted, facts)] == [1, 0]


SURE = {"role": "assistant", "content": "Sure"}
SUMMARY = [{"type": "reasoning.summary", "summary": "First"}]
TEXTS: dict[str, tuple[list[Any], str, str, str]] = {
    "a refusal is a text of its own": (
        [delta(refusal="I'"), delta(refusal="m")],
        "0.message",
        "refusal",
        "I'm",
    ),
    "what an answer speaks is its text": (
        [
            delta(content=None, audio={"id": "a", "transcript": "Hello"}),
            delta(audio={"data": "AAAA"}),
        ],
        *("0.message", "text", "Hello"),
    ),
    "a legacy completion is a message": (
        [
            {"object": "text_completion", "choices": [{"text": text, "index": 0}]}
            for text in ("a", "b")
        ],
        *("0.message", "text", "ab"),
    ),
    "what repeats a delta is not told twice": (
        [chunk(choices=[{"index": 0, "text": "Sure", "delta": SURE, "message": SURE}])] * 2,
        *("0.message", "text", "SureSure"),
    ),
    "thinking inline stays text": (
        [delta(content="<think>Hm</think>4")],
        *("0.message", "text", "<think>Hm</think>4"),
    ),
    "a summary is no raw reasoning": (
        [delta(reasoning="First", reasoning_details=SUMMARY), delta(reasoning_details=SUMMARY)],
        *("0.reasoning", "summary", "FirstFirst"),
    ),
    "a call that only changes its id is the same": (
        [
            call(index=0, id=id, function=function(name, text))
            for id, name, text in (("a", "f", "{"), ("b", None, "}"))
        ],
        *("0.call.0", "arguments", "{}"),
    ),
    "arguments that are an object are told as json": (
        [call(index=0, id="a", function=function("f", {"n": 1}))],
        *("0.call.0", "arguments", '{"n":1}'),
    ),
}


@table("claim", TEXTS)
def test_a_text_is_of_the_item_and_the_field_it_is_said_of(claim: str) -> None:
    payloads, item, field, text = TEXTS[claim]
    assert texts(told(*payloads)) == {(item, field): text}


def test_content_in_parts_is_text_and_thinking() -> None:
    thinking = {
        "type": "thinking",
        "thinking": [{"type": "text", "text": "Hm"}, {"type": "text", "text": "m"}],
    }
    reference = {"type": "reference", "reference_ids": [1]}
    facts = told(
        delta(content=[thinking, {"type": "text", "text": "4"}, reference, {"type": "hologram"}])
    )
    assert texts(facts) == {("0.reasoning", "reasoning"): "Hmm", ("0.message", "text"): "4"}
    assert of(AnnotationAdded, facts) == [
        AnnotationAdded("0.message", json.dumps(reference, separators=(",", ":")))
    ]
    assert of(UnknownType, facts) == [UnknownType("hologram")]


def test_an_image_is_known_by_size_and_digest_or_by_its_address() -> None:
    facts = told(
        delta(images=[{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}])
    )
    (stated,) = started(facts).values()
    assert (stated.kind, stated.type) == ("other", "image")
    shown = json.loads(stated.output or "")
    assert (shown["mime_type"], shown["size_bytes"], len(shown["sha256"])) == ("image/png", 3, 64)
    (stated,) = started(
        told(delta(content=[{"type": "image_url", "image_url": "https://a/b.png"}]))
    ).values()
    assert stated.output == '{"url":"https://a/b.png"}'


def test_an_answer_without_anything_has_no_items() -> None:
    facts = told(delta(role="assistant", content=""), delta(finish="stop"))
    assert facts == [ResponseStarted("chatcmpl-1", "m"), ResponseFinished("stop")]


@pytest.mark.parametrize(("reason", "status"), [("stop", "completed"), ("length", "incomplete")])
def test_the_items_of_a_choice_end_with_it_and_once(reason: str, status: str) -> None:
    facts = told(
        delta(content="a"), delta(1, content="b"), delta(finish=reason), delta(finish=reason)
    )
    stated = ItemState("message", "message", role="assistant", status=status)
    assert of(ItemFinished, facts) == [ItemFinished("0.message", 0, stated)]
    assert of(ResponseFinished, facts) == [ResponseFinished(reason), ResponseFinished(reason)]


def test_annotations_belong_to_the_message() -> None:
    citation = {"type": "url_citation", "url_citation": {"url": "https://example.org"}}
    facts = told(delta(content="a"), delta(content="", annotations=[citation]))
    assert [json.loads(fact.annotation) for fact in of(AnnotationAdded, facts)] == [citation]


def test_citations_repeated_on_every_chunk_are_told_at_the_end() -> None:
    searched = {"citations": ["https://a"], "search_results": [{"title": "A", "url": "https://a"}]}
    said = [
        {**delta(finish=finish, content="x"), **searched} for finish in (None, None, "stop", "stop")
    ]
    (fact,) = of(AnnotationAdded, told(*said))
    assert json.loads(fact.annotation) == {
        "type": "search_result",
        "title": "A",
        "url": "https://a",
    }


def test_logprobs_belong_to_the_item_they_are_of() -> None:
    probable = [{"token": "a", "logprob": -0.5}]
    said = [
        delta(content="a"),
        delta(reasoning_content="b"),
        delta(content="a"),
        delta(content="a"),
    ]
    said[0]["choices"][0]["logprobs"] = {"content": probable, "refusal": None}
    said[1]["choices"][0]["logprobs"] = {"reasoning_content": probable}
    said[2]["choices"][0]["logprobs"] = {"content": []}
    found = [(fact.item, json.loads(fact.logprobs)) for fact in of(LogprobsAdded, told(*said))]
    assert found == [("0.message", probable), ("0.reasoning", probable)]


# Reasoning.


@table(
    ("said", "is_sealed"),
    [
        ({"reasoning_content": "Hm"}, False),
        ({"reasoning": "Hm", "content": ""}, False),
        ({"reasoning": "Hm", "reasoning_content": "Hm"}, False),
        (
            {"reasoning": "Hm", "reasoning_details": [{"type": "reasoning.text", "text": "Hm"}]},
            False,
        ),
        (
            {
                "reasoning_content": "Hm",
                "reasoning_details": [{"type": "reasoning.text", "text": "Hm"}],
            },
            False,
        ),
        ({"reasoning_details": [{"type": "reasoning.text", "text": "Hm"}]}, False),
        ({"channel": "analysis", "content": "Hm"}, False),
        ({"channel": "analysis", "reasoning": "Hm"}, False),
        ({"reasoning_text": "Hm"}, False),
        ({"reasoning_text": "Hm", "reasoning_opaque": "x"}, True),
        ({"thinking": "Hm"}, False),
        ({"thinking_blocks": [{"type": "thinking", "thinking": "Hm"}]}, False),
        (
            {"reasoning_content": "Hm", "thinking_blocks": [{"thinking": "Hm", "signature": "x"}]},
            True,
        ),
    ],
)
def test_reasoning_counts_once_however_it_is_said(said: dict[str, Any], is_sealed: bool) -> None:
    facts = told(delta(**said), delta(**said))
    assert texts(facts) == {("0.reasoning", "reasoning"): "HmHm"}
    assert any(fact.stated.encrypted for fact in of(ItemFinished, facts)) == is_sealed


@pytest.mark.parametrize("before", [[], [delta(reasoning="Hm")]])
def test_encrypted_reasoning_is_known_to_be_there(before: list[Any]) -> None:
    sealed = delta(reasoning_details=[{"type": "reasoning.encrypted", "data": "gAAAA"}])
    facts = told(*before, sealed)
    assert [fact.stated.encrypted for fact in (*of(ItemStarted, facts), *of(ItemFinished, facts))][
        -1
    ]
    assert of(ItemFinished, told(*before, sealed, delta(finish="stop")))[-1].stated.encrypted


# Tool calls.


def test_a_call_is_named_by_its_first_delta() -> None:
    facts = told(
        call(index=0, id="call_1", type="function", function=function("roll")),
        call(index=1, id="call_2", type="function", function=function("toss", '{"n"')),
        call(index=0, function={"arguments": "{}"}),
        call(index=1, id="", type=None, function=function("", ":1}")),
        delta(finish="tool_calls"),
    )
    first, second = (
        ItemState("tool_call", "function", name=n, call_id=i)
        for n, i in (("roll", "call_1"), ("toss", "call_2"))
    )
    assert started(facts) == {"0.call.0": first, "0.call.1": second}
    assert texts(facts) == {("0.call.0", "arguments"): "{}", ("0.call.1", "arguments"): '{"n":1}'}
    assert [fact.stated.status for fact in of(ItemFinished, facts)] == ["completed", "completed"]


@pytest.mark.parametrize("ids", [("a", "b"), ("", ""), (None, None)])
def test_whole_calls_without_an_index_are_told_apart(ids: tuple[str | None, str | None]) -> None:
    calls = [{"id": id, "function": function("plus", '{"a":1}')} for id in ids]
    facts = told(delta(tool_calls=calls))
    assert [stated.call_id for stated in started(facts).values()] == [id or None for id in ids]
    assert texts(facts) == {
        ("0.call.0", "arguments"): '{"a":1}',
        ("0.call.1", "arguments"): '{"a":1}',
    }


def test_a_call_without_an_index_goes_on_until_another_begins() -> None:
    facts = told(
        call(id="a", function=function("plus", "[")),
        call(id="a", function=function("plus", "1")),
        call(function={"arguments": "]"}),
        call(id="b", function=function("minus")),
    )
    assert texts(facts) == {("0.call.0", "arguments"): "[1]"}
    assert list(started(facts)) == ["0.call.0", "0.call.1"]


def test_an_index_used_again_for_another_call_is_another_call() -> None:
    facts = told(*(call(index=0, id=id, function=function("f", "{}")) for id in ("a", "b")))
    assert [stated.call_id for stated in started(facts).values()] == ["a", "b"]


def piece(
    index: int | None, arguments: str, name: str | None = None, id: str | None = ""
) -> dict[str, Any]:
    opening = {} if name is None else {"id": id, "type": "function"}
    return call(index=index, **opening, function=function(name, arguments))


CLOSED = [call(index=0, id=id, function=function(None, "}")) for id in "12"]


@table(
    ("pieces", "expected"),
    [
        ([piece(0, '{"a":1}', "get"), piece(0, '{"a":2}', "put")], ['{"a":1}', '{"a":2}']),
        ([piece(0, '{"a":1}', "get"), piece(0, '{"a":2}', "get")], ['{"a":1}', '{"a":2}']),
        (
            [piece(0, '{"a"', "get"), piece(0, ":1}"), piece(0, '{"a"', "get"), piece(0, ":2}")],
            ['{"a":1}', '{"a":2}'],
        ),
        (
            [piece(0, '{"a"', "get"), piece(0, ":1}"), piece(0, "", "get"), piece(0, '{"a":2}')],
            ['{"a":1}', '{"a":2}'],
        ),
        (
            [
                piece(0, "", "get", "1"),
                piece(0, "{}"),
                piece(0, "", "put", "2"),
                piece(1, '{"b":2}'),
            ],
            ["{}", '{"b":2}'],
        ),
        ([piece(0, "", "get", "1"), piece(None, '{"a"'), piece(None, ":1}")], ['{"a":1}']),
        ([piece(0, '{"a"', "get"), piece(0, ":", "get"), piece(0, "1}", "get")], ['{"a":1}']),
        ([piece(0, "{}", "get", "1"), piece(0, " ", "get", "1")], ["{} "]),
        ([piece(0, "{", "a", "1"), piece(0, "{", "b", "2"), *CLOSED], ["{}", "{}"]),
        ([call(index=0, name="get", arguments='{"a":1}')], ['{"a":1}']),
    ],
)
def test_parallel_calls_without_ids_of_their_own_are_told_apart(
    pieces: list[dict[str, Any]], expected: list[str]
) -> None:
    assert [*texts(told(*pieces)).values()] == expected


def test_what_is_said_late_of_a_call_is_told_at_once_and_stands_at_its_end() -> None:
    facts = told(
        call(index=0, function={"arguments": "{"}),
        call(index=0, id="a", function=function("f", "}")),
        delta(finish="stop"),
    )
    late, finished = (fact.stated for fact in of(ItemFinished, facts))
    assert (late.name, late.call_id, late.status) == ("f", "a", "in_progress")
    assert (finished.name, finished.call_id, finished.status) == ("f", "a", "completed")


CUSTOM = call(index=0, id="a", type="custom", custom={"name": "sql", "input": "select 1"})
LEGACY = [delta(function_call=function("f", "{")), delta(function_call={"arguments": "}"})]


@table(
    ("said", "stated", "arguments"),
    [
        ([CUSTOM], ItemState("tool_call", "custom", name="sql", call_id="a"), "select 1"),
        (LEGACY, ItemState("tool_call", "function_call", name="f"), "{}"),
    ],
)
def test_a_custom_tool_and_a_legacy_function_are_tool_calls(
    said: list[Any], stated: ItemState, arguments: str
) -> None:
    facts = told(*said)
    assert started(facts) == {"0.call.0": stated}
    assert texts(facts) == {("0.call.0", "arguments"): arguments}


# The response as a whole.


def test_a_response_starts_again_only_where_its_id_or_model_changes() -> None:
    first = {"id": "", "object": "", "model": "", "choices": [], "prompt_filter_results": []}
    facts = told(
        first, delta(content="a"), chunk(id="", choices=[]), chunk(id="chatcmpl-2", choices=[])
    )
    assert of(ResponseStarted, facts) == [
        ResponseStarted("chatcmpl-1", "m"),
        ResponseStarted("chatcmpl-2", "m"),
    ]


def counts(
    prompt_tokens: int, completion_tokens: int, total_tokens: int, **details: Any
) -> dict[str, Any]:
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": total_tokens,
    }
    return usage | {f"{name}_tokens_details": value for name, value in details.items()}


CACHED, REASONED = {"cached_tokens": 4, "cache_write_tokens": 1}, {"reasoning_tokens": 7}


@table(
    ("usage", "expected"),
    [
        (counts(3, 2, 5), Usage(3, None, None, 2, None, 5)),
        (counts(9, 8, 17, prompt=CACHED, completion=REASONED), Usage(9, 4, 1, 8, 7, 17)),
        (counts(9, 8, 24, completion=REASONED), Usage(9, None, None, 15, 7, 24)),  # xAI
        ({"prompt_tokens": 3, "prompt_cache_hit_tokens": 2}, Usage(3, 2)),  # DeepSeek
        ({"prompt_tokens": 3, "cached_tokens": 0, "prompt_tokens_details": None}, Usage(3, 0)),
        ({"cache_read_input_tokens": 2, "cache_creation_input_tokens": 1}, Usage(None, 2, 1)),
        ({"completion_tokens": 3, "reasoning_tokens": 2}, Usage(None, None, None, 3, 2)),
    ],
)
def test_usage_has_one_meaning_for_all_vendors(usage: dict[str, Any], expected: Usage) -> None:
    in_choice = {"index": 0, "delta": {}, "usage": usage}
    for said in (
        chunk(choices=[], usage=usage),
        chunk(x_groq={"usage": usage}),
        chunk(choices=[in_choice]),
    ):
        (fact,) = of(UsageReported, told(said))
        assert (fact.usage, json.loads(fact.raw)) == (expected, usage)


def test_output_includes_what_perplexity_counts_apart() -> None:
    usage = {"prompt_tokens": 33, "completion_tokens": 11, "total_tokens": 44}
    (fact,) = of(
        UsageReported, told(chunk(usage={**usage, "citation_tokens": 5, "reasoning_tokens": 19}))
    )
    assert fact.usage == Usage(33, None, None, 35, 19, 44)
    assert fact.details == UsageDetails(output_citation_tokens=5)


def cost(usd: str, field: str) -> UsageDetails:
    return UsageDetails(reported_cost_usd=usd, reported_cost_source=f"usage.{field}")


TOTAL = "0.30000000000000004"
IN_THE_INPUT = UsageDetails(input_audio_tokens=1, input_image_tokens=2)
IN_THE_CACHE = UsageDetails(cache_read_input_audio_tokens=4, input_video_tokens=3)
OF_THE_OUTPUT = UsageDetails(output_audio_tokens=5, output_image_tokens=6, output_video_tokens=7)


@table(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 3}, UsageDetails()),
        (counts(9, 9, 9, prompt={"audio_tokens": 1, "image_tokens": 2}), IN_THE_INPUT),
        (
            counts(
                9, 9, 9, prompt={"video_tokens": 3, "cached_tokens_details": {"audio_tokens": 4}}
            ),
            IN_THE_CACHE,
        ),
        (
            counts(9, 9, 9, completion={"audio_tokens": 5, "image_tokens": 6, "video_tokens": 7}),
            OF_THE_OUTPUT,
        ),
        ({"cache_creation": {"ephemeral_1h_input_tokens": 8}}, UsageDetails(8)),
        ({"num_search_queries": 2}, UsageDetails(web_searches=2)),
        ({"server_tool_use_details": {"web_search_requests": 1}}, UsageDetails(web_searches=1)),
        ({"server_tool_use": {"web_search_requests": 1}}, UsageDetails(web_searches=1)),
        ({"cost": 0}, cost("0", "cost")),
        ({"cost_in_usd_ticks": 37756000}, cost("0.0037756", "cost_in_usd_ticks")),
        (
            {"cost": {"input_tokens_cost": 0.1, "total_cost": 0.30000000000000004}},
            cost(TOTAL, "cost.total_cost"),
        ),
    ],
)
def test_usage_has_the_details_that_have_prices_of_their_own(
    usage: dict[str, Any], expected: UsageDetails
) -> None:
    (fact,) = of(UsageReported, told(chunk(choices=[], usage=usage)))
    assert fact.details == expected
    (fact,) = of(UsageReported, document(chunk(object="chat.completion", choices=[], usage=usage)))
    assert fact.details == expected


@table(
    ("said", "expected"),
    [
        ({"error": {"message": "no", "code": 400}}, ErrorReported(None, "400", "no")),
        (
            {**delta(content="a"), "error": {"message": "no", "type": "t"}},
            ErrorReported("t", None, "no"),
        ),
        (
            chunk(choices=[{"index": 0, "error": {"code": 502, "message": "no"}}]),
            ErrorReported(None, "502", "no"),
        ),
        (chunk(choices=[], x_groq={"error": "no"}), ErrorReported(None, None, "no")),
        (
            {"object": "error", "message": "no", "type": "t", "code": 3},
            ErrorReported("t", "3", "no"),
        ),
    ],
)
def test_an_error_is_told_wherever_it_stands(said: dict[str, Any], expected: ErrorReported) -> None:
    assert of(ErrorReported, told(said)) == [expected]


@table(
    ("data", "expected"),
    [
        (b'{"object": "thread.run"}', UnknownType("thread.run")),
        (b'{"type": "ping"}', UnknownType("ping")),
        (b"{}", UnknownType(CHUNK)),
        (b"[1]", MalformedPayload("the payload is not a JSON object")),
        (b'{"choices": {}}', MalformedPayload("`choices` is not an array")),
    ],
)
def test_what_is_no_chunk_is_said_to_be_none(data: bytes, expected: Fact) -> None:
    assert told(data) == [expected]


@pytest.mark.parametrize(
    "data", [b"[DONE]", b" [DONE] ", b'{"object": "chat.completion.chunk", "obfuscation": "x"}']
)
def test_what_says_nothing_is_no_fact(data: bytes) -> None:
    assert told(data) == []


# Bodies.


def test_a_body_restates_its_items_in_order() -> None:
    citation = {"type": "url_citation"}
    message = {
        "role": "assistant",
        "content": "4",
        "reasoning": "Hm",
        "annotations": [citation],
        "tool_calls": [{"id": "a", "type": "function", "function": function("f", "{}")}],
    }
    usage = {"prompt_tokens": 1}
    choices = [{"index": 2, "message": message, "finish_reason": "length"}]
    assert document(chunk(object="chat.completion", choices=choices, usage=usage)) == [
        ResponseStarted("chatcmpl-1", "m"),
        ResponseItems(
            (
                ItemState(
                    "reasoning",
                    "reasoning",
                    status="incomplete",
                    texts=(("reasoning", 0, "Hm"),),
                    output_index=2,
                ),
                ItemState(
                    *("message", "message", None, "assistant", None, "incomplete"),
                    texts=(("text", 0, "4"),),
                    annotations=('{"type":"url_citation"}',),
                    output_index=2,
                ),
                ItemState(
                    *("tool_call", "function", None, None, None, "incomplete", "f", "a"),
                    texts=(("arguments", 0, "{}"),),
                    output_index=2,
                ),
            )
        ),
        ResponseFinished("length"),
        UsageReported(Usage(1), '{"prompt_tokens":1}'),
    ]


def test_a_body_of_a_legacy_completion_has_messages() -> None:
    choices = [
        {"index": n, "text": text, "logprobs": {"tokens": [text]}}
        for n, text in enumerate(("a", ""))
    ]
    (restated,) = of(ResponseItems, document({"object": "text_completion", "choices": choices}))
    (item,) = restated.items
    assert (item.texts, item.logprobs) == ((("text", 0, "a"),), '[{"tokens":["a"]}]')


def test_a_body_says_what_of_it_is_unknown() -> None:
    facts = document({"choices": [{"message": {"content": [{"type": "hologram"}]}}]})
    assert list(facts) == [ResponseItems(()), UnknownType("hologram")]


def test_citations_beside_the_choices_of_a_body_are_those_of_the_message() -> None:
    facts = document({"choices": [{"message": {"content": "a"}}], "citations": ["https://a"]})
    (item,) = of(ResponseItems, facts)[0].items
    assert item.annotations == ('{"type":"citation","url":"https://a"}',)


@table(
    ("body", "expected"),
    [
        ({"object": "list", "data": []}, []),
        ({"object": "chat.completion.deleted", "deleted": True}, []),
        ({"object": "mystery"}, [UnknownType("mystery")]),
        ({"error": {"message": "no", "type": "t", "code": None}}, [ErrorReported("t", None, "no")]),
        ({"detail": "Not Found"}, [ErrorReported(None, None, "Not Found")]),
        ([], [MalformedPayload("the payload is not a JSON object")]),
    ],
)
def test_a_body_that_is_no_completion(body: Any, expected: list[Fact]) -> None:
    assert list(document(body)) == expected
