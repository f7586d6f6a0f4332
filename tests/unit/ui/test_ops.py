"""Operations: they make one document of another, one by one or all at once."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from recorder.ui.ops import Op, apply, compare
from tests.support.html_file import changed

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.text("ab", max_size=4))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.lists(st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=3), min_size=2, max_size=5)
)
def test_they_make_one_document_of_another(documents: list[Any]) -> None:
    every: list[Op] = []
    for before, after in pairwise(documents):
        ops: list[Op] = []
        compare(before, after, (), ops)
        made = changed(copy.deepcopy(before), copy.deepcopy(ops))
        assert made == after
        every += ops
    assert apply(copy.deepcopy(documents[0]), copy.deepcopy(every)) == documents[-1]


def test_a_text_that_grows_is_put_in_its_place_before_that_changes() -> None:
    ops: list[Op] = [
        ["add", ["a", 0], "b"],
        ["add", ["a", 0], "c"],
        ["set", ["a"], ["x"]],
        ["add", ["a", 0], "y"],
    ]
    assert apply({"a": ["a"]}, ops) == {"a": ["xy"]}
    assert apply({"a": "a"}, [["add", ["a"], "b"], ["cut", ["a"]], ["set", ["a"], "c"]]) == {
        "a": "c"
    }


def test_a_text_that_is_stated_again_makes_no_operation() -> None:
    ops: list[Op] = []
    compare({"a": {"text": "as it was"}}, {"a": {"text": "as it was"}}, (), ops)
    assert ops == []
    compare({"a": {"text": "as it was"}}, {"a": {"text": "as it was and is"}}, (), ops)
    assert ops == [["add", ["a", "text"], " and is"]]
