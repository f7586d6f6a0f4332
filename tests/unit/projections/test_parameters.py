"""The row of a request's parameters."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.model.facts import RequestFacts, RequestParameters, TierReported
from recorder.model.text import STORABLE_LIMIT
from recorder.projections.rows import PARAMETERS, ParametersRow
from tests.support.facts import EXCHANGE, captured, fold, folded

ASKED = RequestFacts(model="gpt-5", items=1)


def row(**parameters: Any) -> ParametersRow:
    asked = msgspec.structs.replace(ASKED, parameters=RequestParameters(**parameters))
    made = fold(PARAMETERS, [asked]).row
    assert isinstance(made, ParametersRow)
    return made


def test_a_row_has_what_the_request_has_and_the_last_tier_of_its_response() -> None:
    body = {
        "model": "gpt-5",
        "input": "Why?",
        "tools": [{"type": "web_search"}],
        "service_tier": "flex",
    }
    events = [
        {"type": f"response.{step}", "response": {"id": "r", "service_tier": tier, "output": []}}
        for step, tier in (("created", "auto"), ("completed", "default"))
    ]
    frames = b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in events)
    [made] = folded(*captured(frames, request=json.dumps(body).encode()))["parameters"]
    assert (made.service_tier, made.response_service_tier) == ("flex", "default")
    assert (made.tools, made.tool_names, made.new_user_text) == (1, '["web_search"]', "Why?")


def test_the_text_of_a_turn_is_whole_and_that_of_no_turn_is_not_repeated() -> None:
    text = "Why\n\n is it so? " * 1000
    for is_turn in (True, False):
        asked = msgspec.structs.replace(ASKED, text=text, is_turn=is_turn)
        assert fold(PARAMETERS, [asked]).row.new_user_text == (text if is_turn else None)
    asked = msgspec.structs.replace(ASKED, text="a" * (STORABLE_LIMIT + 1), is_turn=True)
    assert len(fold(PARAMETERS, [asked]).row.new_user_text) == STORABLE_LIMIT


def test_every_text_can_be_stored() -> None:
    names = [
        field.name
        for field in msgspec.structs.fields(RequestParameters)
        if field.type == (str | None)
    ]
    made = row(**dict.fromkeys(names, "a\0\ud800"), tool_names=("a\0", "\ud800"))
    digests = {name for name in names if name.endswith("digest")}
    assert {getattr(made, name) for name in {*names} - digests} == {"a\ufffd\ufffd"}
    assert json.loads(made.tool_names or "") == ["a\0", "\ud800"]
    (made.tool_names or "").encode()


def test_names_that_do_not_fit_are_counted_only() -> None:
    made = row(tool_names=("a" * 1000,) * 2000)
    assert (made.tools, made.tool_names) == (2000, None)


def test_no_request_has_no_row_and_a_response_that_is_fetched_again_has_its_tier() -> None:
    assert fold(PARAMETERS, [TierReported("default")]).rows == []
    fetched = msgspec.structs.replace(EXCHANGE, resumes_response_id="resp_1")
    assert fold(PARAMETERS, [], fetched).rows == []
    made = fold(PARAMETERS, [RequestFacts(), TierReported("default")], fetched).row
    assert (made.response_service_tier, made.tools, made.input_messages) == ("default", None, None)


@pytest.mark.long
@pytest.mark.parametrize("api", ["openai-responses", "openai-chat", "anthropic", "gemini", "other"])
@given(
    body=st.binary()
    | st.recursive(st.none() | st.text() | st.floats(), st.lists).map(json.dumps).map(str.encode)
)
def test_whatever_is_sent_there_is_at_most_one_row(api: str, body: bytes) -> None:
    assert len(folded(*captured(b"", api, request=body))["parameters"]) <= 1
