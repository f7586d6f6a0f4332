"""Ids that join a call and its result: whoever made them, and whoever left them out."""

from __future__ import annotations

from typing import Any

import pytest

from recorder.replay.matching.noise import DEFAULT_RULES

CITIES = ("Bern", "Rome")


def loop(
    calls: list[str | None], results: list[str | None], *, values: tuple[str, ...] = ("rain", "sun")
) -> Any:
    """A request to Gemini with two calls and their results, with these ids."""
    parts, answers = [], []
    for id, city in zip(calls, CITIES, strict=True):
        parts.append({"functionCall": with_id(id, {"name": "weather", "args": {"city": city}})})
    for id, value in zip(results, values, strict=True):
        answers.append(
            {"functionResponse": with_id(id, {"name": "weather", "response": {"output": value}})}
        )
    contents = [
        {"role": "user", "parts": [{"text": "Weather?"}]},
        {"role": "model", "parts": parts},
    ]
    return {"contents": [*contents, {"role": "user", "parts": answers}]}


def with_id(id: str | None, value: dict[str, Any]) -> dict[str, Any]:
    return value if id is None else {"id": id, **value}


WITHOUT: list[str | None] = [None, None]


@pytest.mark.parametrize(
    ("calls", "results"),
    [(["x", "y"], ["x", "y"]), (["x", "y"], WITHOUT), (WITHOUT, WITHOUT), (["", ""], ["", ""])],
    ids=["made", "in calls only", "left out", "empty"],
)
def test_an_id_that_is_left_out_is_the_one_that_it_would_be(
    calls: list[str | None], results: list[str | None]
) -> None:
    recorded = DEFAULT_RULES.quiet(loop(["a", "b"], ["a", "b"])).value
    assert DEFAULT_RULES.quiet(loop(calls, results)).value == recorded


def test_results_of_other_calls_are_not_the_same() -> None:
    recorded = DEFAULT_RULES.quiet(loop(WITHOUT, WITHOUT)).value
    assert DEFAULT_RULES.quiet(loop(["a", "b"], ["b", "a"])).value != recorded
    assert DEFAULT_RULES.quiet(loop(["a", "a"], ["a", "a"])).value != recorded


def test_a_part_that_is_no_call_gets_no_id() -> None:
    picture = {
        "contents": [
            {
                "parts": [
                    {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
                    {"text": "What?"},
                ]
            }
        ]
    }
    assert DEFAULT_RULES.quiet(picture).value == {
        "contents": [
            {
                "parts": [
                    {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
                    {"text": "What?"},
                ]
            }
        ]
    }
