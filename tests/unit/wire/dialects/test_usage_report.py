"""Amounts that providers report, digit for digit."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from recorder.model.facts import MalformedPayload, UsageReported
from recorder.model.prices import AMOUNT_LIMIT, usd
from recorder.wire.dialects import by_name
from recorder.wire.dialects.json_values import decoded, places
from recorder.wire.dialects.usage_report import ReportedCost, counts_at, reported_cost
from tests.support.tables import table


@table(
    ("digits", "expected"),
    [
        ("0.0076509169000000005", "0.0076509169000000005"),
        ("0.10000000000000000000001", "0.10000000000000000000001"),  # as a float 0.1
        ("3.3e-6", "0.0000033"),
        ("3.30E-06", "0.0000033"),
        ("1e2", "100"),
        ("1e-30", "0.000000000000000000000000000001"),
        ("0", "0"),
        ("0.0", "0"),
        ("12", "12"),
        ('"0.003642"', "0.003642"),
    ],
)
def test_an_amount_has_the_digits_of_the_payload(digits: str, expected: str) -> None:
    data = f'{{"response": {{"usage": {{"cost": {digits}}}}}}}'.encode()
    usage = decoded(data)["response"]["usage"]
    assert reported_cost(usage, data, "response.usage") == ReportedCost(expected, "usage.cost")


@table(
    "cost",
    [
        *("-1", "-0.5", "1e9", "1e400", "1e-31", "1e-9999999999", "true", "null"),
        *('"?"', '"NaN"', "[1]", '{"diem": 1}'),
    ],
)
def test_what_is_no_amount_is_not_reported(cost: str) -> None:
    data = f'{{"usage": {{"cost": {cost}}}}}'.encode()
    assert reported_cost(decoded(data)["usage"], data, "usage") == ReportedCost()


def test_an_amount_is_read_from_json_that_only_a_tolerant_decoder_reads() -> None:
    data = b'{"a": "\\ud83d", "usage": {"cost": 0.10000000000000000000001}}'
    assert reported_cost(decoded(data)["usage"], data, "usage").usd == "0.10000000000000000000001"


def test_the_most_exact_of_several_amounts_is_the_one() -> None:
    usage = {"cost": 1, "cost_in_usd_ticks": 1_633_800}
    assert reported_cost(usage, b"", "usage") == ReportedCost(
        "0.00016338", "usage.cost_in_usd_ticks"
    )


@given(st.integers(0, 10**18), st.integers(0, 12))
def test_the_text_of_an_amount_is_that_amount(number: int, divided: int) -> None:
    text = usd(number, divided)
    exact = Decimal(number).scaleb(-divided)
    assert (text is None) == (exact >= AMOUNT_LIMIT)
    assert text is None or (Decimal(text) == exact and set(text) <= set("0123456789."))


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists)
    | st.decimals()
)
def test_nothing_raises(value: Any) -> None:
    assert isinstance(usd(value), str | None)
    usage = {"cost": value, "cost_in_usd_ticks": value}
    data = b"" if isinstance(value, Decimal) else json.dumps({"usage": usage}).encode()
    assert isinstance(reported_cost(usage, data, "usage"), ReportedCost)


@table("api", ["openai-chat", "openai-responses", "anthropic", "gemini"])
@table(
    "usage",
    [
        {"prompt_tokens": 10, "completion_tokens": 4},
        {"prompt_tokens": "10", "completion_tokens": "4"},
        {"input_tokens": 10, "output_tokens": "4"},
        {"promptTokenCount": "10", "candidatesTokenCount": 4},
    ],
)
def test_counts_are_read_as_text_and_under_the_names_of_other_apis(
    api: str, usage: dict[str, Any]
) -> None:
    payload = {
        "openai-chat": {"object": "chat.completion.chunk", "choices": [], "usage": usage},
        "openai-responses": {"type": "response.completed", "response": {"usage": usage}},
        "anthropic": {"type": "message_delta", "delta": {}, "usage": usage},
        "gemini": {"candidates": [], "usageMetadata": usage},
    }[api]
    facts = by_name(api).decoder().event(None, json.dumps(payload).encode())
    [report] = [fact for fact in facts if isinstance(fact, UsageReported)]
    assert (report.usage.input_tokens, report.usage.output_tokens) == (10, 4)


def test_input_that_becomes_nothing_is_a_fault_and_counts() -> None:
    decoder = by_name("anthropic").decoder()
    decoder.event(
        None,
        b'{"type": "message_start", "message": {"usage": {"input_tokens": 15, "output_tokens": 1}}}',
    )
    report, fault = decoder.event(
        None, b'{"type": "message_delta", "usage": {"input_tokens": 0, "output_tokens": 5}}'
    )
    assert isinstance(report, UsageReported)
    assert (report.usage.input_tokens, fault) == (
        0,
        MalformedPayload("tokens: input became 0, from 15"),
    )


def test_a_count_is_that_at_the_first_path_that_has_one() -> None:
    usage = {"a": {"b": True}, "c": 2.0, "d": 3}
    assert counts_at(usage, places("first a.b a.b.x c d\nno e")) == {"first": 2, "no": None}
