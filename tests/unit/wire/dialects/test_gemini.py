"""What the chunks of Gemini mean."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    ResponseStarted,
    TextAdded,
    ToolResult,
    UnknownType,
    Usage,
    UsageDetails,
    UsageReported,
)
from recorder.wire.dialects.gemini import DIALECT
from recorder.wire.dialects.gemini.decoder import RESPONSE
from tests.support.tables import table


def told(*chunks: Any) -> list[Fact]:
    teller = DIALECT.decoder()
    return [fact for chunk in chunks for fact in teller.event(RESPONSE, json.dumps(chunk).encode())]


def said(*parts: Any, **candidate: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts), "role": "model"}, **candidate}]}


def items(facts: Sequence[Fact]) -> list[tuple[str, str, str]]:
    """(type, text, arguments) of each item, as its deltas have them."""
    found = {fact.item: fact.stated.type for fact in facts if isinstance(fact, ItemStarted)}
    texts = [fact for fact in facts if isinstance(fact, TextAdded)]

    def joined(item: Any, *fields: str) -> str:
        return "".join(fact.text for fact in texts if fact.item == item and fact.field in fields)

    return [
        (type, joined(item, "text", "summary"), joined(item, "arguments"))
        for item, type in found.items()
    ]


def last_finished(facts: Sequence[Fact]) -> ItemState:
    return [fact for fact in facts if isinstance(fact, ItemFinished)][-1].stated


def test_texts_that_follow_each_other_are_one_message() -> None:
    facts = told(said({"text": "Hel"}), said({"text": "lo"}, finishReason="STOP"))
    assert items(facts) == [("text", "Hello", "")]
    assert (last_finished(facts).kind, last_finished(facts).status) == ("message", "completed")
    assert last_finished(facts).texts == ()
    assert facts[-1] == ResponseFinished("STOP")


def test_a_thought_is_a_summary_and_ends_where_the_answer_begins() -> None:
    facts = told(
        said({"text": "Hm", "thought": True}), said({"text": ".", "thought": True}, {"text": "Hi"})
    )
    assert items(facts) == [("thought", "Hm.", ""), ("text", "Hi", "")]
    assert [fact.field for fact in facts if isinstance(fact, TextAdded)] == [
        "summary",
        "summary",
        "text",
    ]
    assert (last_finished(facts).kind, last_finished(facts).status) == ("reasoning", "completed")


def test_a_stop_in_each_chunk_does_not_cut_a_message() -> None:
    facts = told(
        said({"text": "a"}, finishReason="STOP"), said({"text": "b"}, finishReason="MAX_TOKENS")
    )
    assert items(facts) == [("text", "ab", "")]
    statuses = [fact.stated.status for fact in facts if isinstance(fact, ItemFinished)]
    assert statuses == ["completed", "incomplete"]


def test_candidates_do_not_mix() -> None:
    chunk = {
        "candidates": [
            {"content": {"parts": [{"text": text}]}, "index": at} for at, text in enumerate("ab")
        ]
    }
    facts = told(chunk, chunk)
    assert items(facts) == [("text", "aa", ""), ("text", "bb", "")]
    assert [fact.output_index for fact in facts if isinstance(fact, ItemStarted)] == [0, 1]


CALLED = [("roll", "c"), ("x", None)]


def test_a_function_call_is_whole_at_once() -> None:
    facts = told(
        said(
            {"functionCall": {"name": "roll", "args": {"n": 1}, "id": "c"}},
            {"functionCall": {"name": "x"}},
        )
    )
    assert items(facts) == [("function_call", "", '{"n":1}'), ("function_call", "", "{}")]
    ends = [fact.stated for fact in facts if isinstance(fact, ItemFinished)]
    assert [(end.name, end.call_id, end.status) for end in ends] == [
        (name, id, "completed") for name, id in CALLED
    ]


def call(*partial: Any, **more: Any) -> dict[str, Any]:
    return said({"functionCall": {"partialArgs": list(partial), "willContinue": True, **more}})


def test_streamed_arguments_grow_to_the_object_that_their_paths_make() -> None:
    chunks = [
        said({"functionCall": {"name": "book", "willContinue": True}}),
        call({"jsonPath": "$.to", "stringValue": 'S\u00e3o "', "willContinue": True}),
        call({"jsonPath": "$.to", "stringValue": "Paulo"}),
        call(
            {"jsonPath": "$.legs[0].day", "numberValue": 3},
            {"jsonPath": "$.legs[1]['a.b']", "boolValue": True},
        ),
        call({"jsonPath": "$.note", "nullValue": "NULL_VALUE"}),
        said({"functionCall": {}}),
    ]
    facts = told(*chunks)
    expected = {"to": 'S\u00e3o "Paulo', "legs": [{"day": 3}, {"a.b": True}], "note": None}
    ((type, _, arguments),) = items(facts)
    assert (type, json.loads(arguments)) == ("function_call", expected)
    assert last_finished(facts).texts == (("arguments", 0, arguments),)
    assert items(told(*chunks[:2])) == [("function_call", "", '{"to":"S\u00e3o \\"')]


def test_streamed_arguments_in_disorder_are_settled_at_the_end() -> None:
    paths = [{"jsonPath": path, "numberValue": 1} for path in ("$.a.x", "$.b", "$.a.y")]
    facts = told(
        said({"functionCall": {"name": "f", "willContinue": True}}),
        call(*paths, willContinue=False),
    )
    ((_, _, arguments),) = last_finished(facts).texts
    assert json.loads(arguments) == {"a": {"x": 1, "y": 1}, "b": 1}


def test_a_call_that_is_cut_off_has_the_arguments_so_far() -> None:
    part = {"jsonPath": "$.to", "stringValue": "Pa", "willContinue": True}
    facts = told(call(part, name="book"), {"candidates": [{"finishReason": "MAX_TOKENS"}]})
    expected = (("arguments", 0, '{"to":"Pa"}'),)
    assert (last_finished(facts).status, last_finished(facts).texts) == ("incomplete", expected)


@table("path", ["", "$", "$[0]", "$.a[", "$" + ".a" * 100, None])
def test_a_path_that_cannot_be_read_is_malformed(path: Any) -> None:
    facts = told(call({"jsonPath": path, "stringValue": "x"}, name="f"), said({"functionCall": {}}))
    assert [fact for fact in facts if isinstance(fact, MalformedPayload)]
    assert items(facts) == [("function_call", "", "{}")]


def leaves(value: Any, path: str = "$") -> Iterator[tuple[str, Any]]:
    """A JSON object as Vertex streams it."""
    if not isinstance(value, dict | list):
        yield path, value
        return
    pairs = enumerate(value) if isinstance(value, list) else value.items()
    for step, each in pairs:
        yield from leaves(each, f"{path}[{step}]" if isinstance(step, int) else f"{path}.{step}")


LEAVES = st.text(st.characters(codec="utf-8")) | st.integers(-9, 9) | st.booleans() | st.none()
NAMES = st.text("abc", min_size=1, max_size=2)
NESTED = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    ),
)


@given(st.dictionaries(NAMES, NESTED, min_size=1, max_size=3), st.integers(1, 3))
def test_whatever_is_streamed_its_deltas_join_to_it(arguments: dict[str, Any], size: int) -> None:
    partial: list[dict[str, Any]] = []
    for path, value in leaves(arguments):
        name = {str: "stringValue", bool: "boolValue", int: "numberValue"}.get(
            type(value), "nullValue"
        )
        pieces = [value]
        if value and name == "stringValue":
            pieces = [value[at : at + size] for at in range(0, len(value), size)]
        partial += [{"jsonPath": path, name: piece, "willContinue": True} for piece in pieces[:-1]]
        partial.append({"jsonPath": path, name: pieces[-1]})
    facts = told(call(name="f"), *map(call, partial), said({"functionCall": {}}))
    ((_, _, joined),) = items(facts)
    assert json.loads(joined) == arguments
    assert last_finished(facts).texts == (("arguments", 0, joined),)


CODE = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
PRINTED = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}}
SEARCH = {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["x"]}, "id": "t"}}
FOUND = {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "response": {"error": "no"}, "id": "t"}}


@table(
    ("call", "result", "item", "returned"),
    [
        (CODE, PRINTED, ("code_execution", "", "print(1)"), ("code_execution", None, "1\n", False)),
        (
            SEARCH,
            FOUND,
            ("tool_call", "", '{"queries":["x"]}'),
            ("GOOGLE_SEARCH_WEB", "t", '{"error":"no"}', True),
        ),
    ],
)
def test_a_tool_of_the_provider_is_a_call_and_its_result_is_its_output(
    call: Any, result: Any, item: object, returned: object
) -> None:
    facts = told(said(call), said(result))
    assert items(facts) == [item]
    stated = last_finished(facts)
    assert (stated.name, stated.call_id, stated.output, stated.failed) == returned
    assert items(told(said(call), said(result, {"text": "One."}))) == [item, ("text", "One.", "")]


def test_the_result_of_another_call_is_not_that_of_the_call_before() -> None:
    facts = told(
        said({"executableCode": {"code": "x", "id": "a"}}),
        said({"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "E", "id": "b"}}),
        said({"codeExecutionResult": {"output": "late"}}),
    )
    returned = [fact for fact in facts if isinstance(fact, ToolResult)]
    assert returned == [
        ToolResult("b", "code_execution", "E", failed=True),
        ToolResult(None, "code_execution", "late"),
    ]


def test_an_image_is_told_by_size_and_digest_and_a_file_by_its_address() -> None:
    file = {"mimeType": "image/png", "fileUri": "gs://x"}
    facts = told(
        said({"inlineData": {"mimeType": "image/png", "data": "AAEC"}}, {"fileData": file})
    )
    image, uri = (
        json.loads(fact.stated.output or "") for fact in facts if isinstance(fact, ItemFinished)
    )
    digest = sha256(b"\0\1\2").hexdigest()
    assert image == {"images": [{"mime_type": "image/png", "size_bytes": 3, "sha256": digest}]}
    assert uri == file


@table(
    ("before", "item", "kind"),
    [
        ([{"text": "Hi"}], ("text", "Hi", ""), "message"),
        ([{"functionCall": {"name": "f"}}], ("function_call", "", "{}"), "tool_call"),
        ([], ("thought", "", ""), "reasoning"),
    ],
)
def test_a_signature_on_an_empty_text_belongs_to_the_item_before_and_else_is_reasoning(
    before: list[Any], item: object, kind: str
) -> None:
    facts = told(
        *map(said, before), said({"text": "", "thoughtSignature": "AAAA"}, finishReason="STOP")
    )
    assert items(facts) == [item]
    assert (last_finished(facts).kind, last_finished(facts).encrypted) == (kind, True)


def test_a_part_of_a_kind_that_nobody_knows_is_told() -> None:
    assert told(said({"hologram": {}}, {"text": "x"}))[0] == UnknownType("hologram")


def test_citations_are_told_once_and_belong_to_the_message() -> None:
    cited = {"citationMetadata": {"citationSources": [{"uri": "u"}]}}
    grounded = {"groundingMetadata": {"groundingChunks": [{"web": {"uri": "w"}}]}}
    facts = told(said({"text": "a"}, **cited), said(**cited, **grounded), said(**grounded))
    annotations = [fact for fact in facts if isinstance(fact, AnnotationAdded)]
    assert annotations == [
        AnnotationAdded("0.0", '{"uri":"u"}'),
        AnnotationAdded("0.0", '{"web":{"uri":"w"}}'),
    ]


def test_log_probabilities_of_the_tokens_chosen_are_kept() -> None:
    facts = told(
        said(
            {"text": "a"},
            logprobsResult={"chosenCandidates": [{"token": "a", "logProbability": -1}]},
        )
    )
    assert facts[-1] == LogprobsAdded("0.0", '[{"token":"a","logProbability":-1}]')


def test_a_response_is_told_again_only_where_it_says_something_else() -> None:
    facts = told(
        {"responseId": "r", "modelVersion": "m"}, {"responseId": "r"}, {}, {"responseId": "q"}
    )
    assert facts == [ResponseStarted("r", "m"), ResponseStarted("q", "m")]


def test_of_usage_each_snapshot_stands_for_itself() -> None:
    counts = {
        "promptTokenCount": 2,
        "toolUsePromptTokenCount": 3,
        "thoughtsTokenCount": 5,
        "totalTokenCount": 10,
    }
    traffic = {"trafficType": "ON_DEMAND"}
    facts = told(
        *(
            {"usageMetadata": each}
            for each in ({"candidatesTokenCount": 99}, counts | traffic, traffic)
        )
    )
    last = Usage(input_tokens=5, output_tokens=5, reasoning_output_tokens=5, total_tokens=10)
    assert [fact.usage for fact in facts if isinstance(fact, UsageReported)] == [
        Usage(output_tokens=99),
        last,
    ]


def test_tokens_of_each_modality_are_added_up() -> None:
    def listed(**counts: int) -> list[Any]:
        return [{"modality": name, "tokenCount": count} for name, count in counts.items()]

    snapshot = {
        "promptTokenCount": 100,
        "promptTokensDetails": [
            *listed(TEXT=1, AUDIO=2, IMAGE=3, DOCUMENT=4, VIDEO=5),
            {"modality": "AUDIO"},
            "?",
        ],
        "toolUsePromptTokensDetails": listed(AUDIO=10, IMAGE=20),
        "cacheTokensDetails": listed(TEXT=6, AUDIO=1),
        "candidatesTokensDetails": listed(TEXT=1, AUDIO=7, IMAGE=8, VIDEO=9),
    }
    (report,) = [
        fact for fact in told({"usageMetadata": snapshot}) if isinstance(fact, UsageReported)
    ]
    assert report.details == UsageDetails(None, 12, 1, 27, 5, 7, 8, 9)
    (report,) = [
        fact
        for fact in told({"usageMetadata": {"promptTokenCount": 1}})
        if isinstance(fact, UsageReported)
    ]
    assert report.details == UsageDetails()


def test_an_explanation_of_the_end_is_an_error_unless_all_is_well() -> None:
    reason = "MALFORMED_FUNCTION_CALL"
    assert ErrorReported(reason, None, "empty") in told(
        said(finishReason=reason, finishMessage="empty")
    )
    assert told(said(finishReason="STOP", finishMessage="well"))[-1] == ResponseFinished("STOP")
    blocked = told({"promptFeedback": {"blockReason": "OTHER", "blockReasonMessage": "no"}})
    assert blocked == [ResponseFinished("OTHER"), ErrorReported("OTHER", None, "no")]
    assert told({"promptFeedback": {"blockReason": "SAFETY"}}) == [ResponseFinished("SAFETY")]


def test_an_error_is_a_failure_with_data_or_without_as_a_document_or_in_an_array() -> None:
    error = {"error": {"code": 429, "message": "Slow down", "status": "RESOURCE_EXHAUSTED"}}
    failure = [ErrorReported("RESOURCE_EXHAUSTED", "429", "Slow down")]
    assert told(error) == failure
    assert (
        list(DIALECT.decoder().event("error", json.dumps(error, indent=2).encode() + b"\r\n\r\n"))
        == failure
    )
    assert list(DIALECT.decoder().document(json.dumps([error]).encode())) == failure


def test_documents_and_wrapped_chunks_mean_the_same_as_the_stream() -> None:
    chunks = [said({"text": "a"}), said({"text": "b"}, finishReason="STOP")]
    expected = told(*chunks)
    assert list(DIALECT.decoder().document(json.dumps(chunks).encode())) == expected
    assert told(*({"response": chunk, "traceId": "t"} for chunk in chunks)) == expected
    assert list(DIALECT.decoder().document(json.dumps(chunks[0]).encode())) == told(chunks[0])


def test_a_count_of_tokens_is_no_usage() -> None:
    assert list(DIALECT.decoder().document(b'{"totalTokens": 3, "promptTokensDetails": []}')) == []


def asked(
    *contents: Any, path: str = "/v1beta/models/gemini-x:streamGenerateContent", **more: Any
) -> Any:
    return DIALECT.request_facts(path, json.dumps({"contents": list(contents), **more}).encode())


FAILED_ROLL = {"functionResponse": {"name": "roll", "response": {"error": "no dice"}}}


@pytest.mark.parametrize(
    ("path", "model", "stream"),
    [
        ("/v1beta/models/gemini-x:streamGenerateContent", "gemini-x", True),
        (
            "/v1/projects/p/locations/l/publishers/google/models/gemini-x:generateContent",
            "gemini-x",
            False,
        ),
        ("/v1beta/tunedModels/mine%3AgenerateContent", "mine", False),
        ("/v1internal:streamGenerateContent", None, True),
    ],
)
def test_the_path_names_model_and_method(path: str, model: str | None, stream: bool) -> None:
    found = asked(path=path)
    assert (found.model, found.stream) == (model, stream)


def test_what_a_person_says_is_the_last_content_of_a_user() -> None:
    old, new = {"parts": [{"text": "old"}]}, {"role": "user", "parts": [{"text": "new"}]}
    found = asked(old, {"role": "model", "parts": []}, new)
    assert (found.text, found.is_turn) == ("new", True)


def test_the_response_of_a_function_goes_on_with_a_turn() -> None:
    found = asked({"parts": [{"text": "Roll"}]}, {"role": "user", "parts": [FAILED_ROLL]})
    assert (found.text, found.is_turn) == ("Roll", False)
    assert found.results == (ToolResult(None, "roll", '{"error":"no dice"}', failed=True),)


def called(name: str, call_id: str | None) -> Any:
    call = {"functionCall": {"name": name, **({"id": call_id} if call_id else {})}}
    return {"role": "model", "parts": [call]}


def test_a_response_without_an_id_has_that_of_the_call_before_it_in_the_request() -> None:
    """google-genai for Python calls functions itself, and sends neither the ids back nor the calls
    in one content.
    """
    other = {"functionResponse": {"name": "toss", "response": {"result": "tails"}}}
    found = asked(
        {"role": "user", "parts": [{"text": "Roll"}]},
        *(called("roll", "a"), called("toss", "b"), called("roll", "c")),
        {"role": "user", "parts": [FAILED_ROLL, FAILED_ROLL, other]},
        *(called("roll", "d"), called("roll", None)),
        {"role": "user", "parts": [FAILED_ROLL, FAILED_ROLL]},
    )
    expected = [("roll", "a"), ("roll", "c"), ("toss", "b"), ("roll", "d"), ("roll", None)]
    assert [(result.name, result.call_id) for result in found.results] == expected


def test_a_call_that_was_not_answered_gives_its_id_to_no_later_one() -> None:
    answered = {"role": "user", "parts": [FAILED_ROLL]}
    found = asked(called("roll", "a"), called("roll", "b"), answered, called("roll", "c"), answered)
    assert [result.call_id for result in found.results] == ["a", "c"]


def test_the_gemini_cli_wraps_its_request() -> None:
    body = {
        "model": "gemini-x",
        "request": {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
    }
    found = DIALECT.request_facts("/v1internal:streamGenerateContent", json.dumps(body).encode())
    assert (found.model, found.text, found.is_turn) == ("gemini-x", "Hi", True)
