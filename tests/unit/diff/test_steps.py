"""Steps in little memory are what was put in."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.diff.steps import CutText, PackedSteps, Step
from recorder.model.packed_events import PAGE_BYTES, PAGE_EVENTS


def step(value: object, key: bytes = b"") -> Step:
    one = array("q", [0])
    return Step(
        kind="frame",
        key=key,
        value=value,
        texts=CutText(),
        positions=one,
        numbers=one,
        ordinals=one,
    )


@given(st.lists(st.text(st.characters())), st.lists(st.text(st.characters())))
def test_a_cut_text_has_each_piece_that_was_added(first: list[str], then: list[str]) -> None:
    text = CutText(first)
    text.extend(then)
    assert [*text] == [text[n] for n in range(len(text))] == [*first, *then]
    assert str(text) == "".join([*first, *then])


@pytest.mark.parametrize(
    "places", [range(3 * PAGE_EVENTS), range(3 * PAGE_EVENTS - 1, -1, -1)], ids=["up", "down"]
)
def test_a_step_is_found_by_its_number(places: Sequence[int]) -> None:
    values = [
        step({"half an emoji": "\ud83d", "large": 10**100 + n}, bytes(PAGE_BYTES // 200))
        for n in places
    ]
    steps = PackedSteps(values)
    assert [*steps] == values == [steps.at(n) for n in range(len(values))]
    assert [steps.at(n) for n in places] == [values[n] for n in places]


def test_a_step_is_replaced() -> None:
    steps = PackedSteps(map(step, range(3)))
    steps.replace(1, step("another"))
    assert [steps.at(n).value for n in range(3)] == [0, "another", 2]
