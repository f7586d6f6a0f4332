"""`recorder.wire.grouping.history`: the same conversation said otherwise is the same chain."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from recorder.wire.grouping.history import LINKS, Chain, ModelAnswer, chain

Told = list[dict[str, Any]]

APIS = ("anthropic", "gemini", "openai-chat", "openai-responses")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def model(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def of(api: str, given: Any, path: str = "/v1") -> Chain:
    found = chain(api, path, json.dumps(given).encode())
    assert found is not None
    return found


def test_a_text_is_the_same_in_a_list_and_with_a_mark_of_what_is_cached() -> None:
    marked = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    for api in ("anthropic", "openai-chat"):
        plain, listed = (
            of(api, {"model": "m", "messages": [{"role": "user", "content": content}]})
            for content in ("hi", [marked])
        )
        assert plain == listed
    texts = [
        of("openai-responses", {"input": given})
        for given in ("hi", [user("hi")], [{"type": "message", **user("hi")}])
    ]
    assert texts[0] == texts[1] == texts[2]


def test_an_answer_is_the_same_in_pieces_and_with_its_reasoning() -> None:
    def contents(*answer: Any) -> Chain:
        asking = {"role": "user", "parts": [{"text": "hi"}]}
        return of(
            "gemini", {"contents": [asking, *answer, asking]}, "/v1beta/models/g:generateContent"
        )

    def says(*parts: Any) -> dict[str, Any]:
        return {"role": "model", "parts": list(parts)}

    thought = {"text": "Hm.", "thought": True}
    call = {"functionCall": {"name": "f", "args": {"b": 1, "a": 2}}}
    turned = {"functionCall": {"args": {"a": 2, "b": 1}, "name": "f"}}
    whole = contents(says({"text": "Hello!"}, call))
    assert whole == contents(says(thought, {"text": "Hel"}), says({"text": "lo!"}), says(turned))
    assert whole != contents(says({"text": "Hello!"}))


def test_the_beginning_of_an_answer_is_part_of_it() -> None:
    begun = of("anthropic", {"messages": [user("hi"), model("Hel")]})
    whole = of("anthropic", {"messages": [user("hi"), model("Hello!"), user("more")]})
    [answer] = whole.answers
    assert begun.request_digest == answer.before
    assert begun.answered(ModelAnswer(["lo!"])) in answer.keys


def test_reasoning_that_is_only_referred_to_is_left_out_as_any() -> None:
    said: Told = [user("hi"), {"role": "assistant", "content": "Hello!"}, user("more")]
    reference = {"type": "item_reference", "id": "rs_0123456789"}
    plain, with_it = (
        of("openai-responses", {"input": given})
        for given in (said, [said[0], reference, *said[1:]])
    )
    assert plain == with_it
    assert of(
        "openai-responses", {"input": [user("hi"), {**reference, "id": "msg_0123456789"}]}
    ).links == ("msg_0123456789",)


def test_only_the_last_ids_are_links_and_none_that_another_conversation_may_have() -> None:
    def result(id: Any) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": id, "content": "sunny"}

    ids = [f"call_{number:08}" for number in range(LINKS + 1)]
    given = [user("hi"), *map(result, [*ids, "call_0", "0", None, 7, "x" * 1_000, ids[-1]])]
    assert of("openai-chat", {"messages": given}).links == tuple(reversed(ids[1:]))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "content",
                    "parts",
                    "type",
                    "text",
                    "tool_calls",
                    "function",
                    "name",
                    "args",
                ]
            ),
            inner | st.sampled_from(["assistant", "model", "message", "tool_use", "function_call"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.sampled_from(APIS), st.sampled_from(["messages", "contents", "input", "request"]), JSON)
def test_no_request_makes_it_fail(api: str, field: str, value: Any) -> None:
    chain(api, "/v1/models/m:generateContent", json.dumps({field: value, "model": value}).encode())


@given(st.binary(max_size=50))
def test_no_body_makes_it_fail(body: bytes) -> None:
    for api in (*APIS, "other", "unknown"):
        chain(api, "/", body)
