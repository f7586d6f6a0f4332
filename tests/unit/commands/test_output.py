"""`recorder.commands.terminal.output`: what people read."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.commands.terminal.output import dollars, seconds
from recorder.model.text import safe_text


@given(st.text())
def test_safe_text_has_no_control_characters(text: str) -> None:
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", safe_text(text)
    )
    safe_text(text).encode()


@pytest.mark.parametrize(
    ("ns", "shown"),
    [(None, ""), (0, "0.000 s"), (1_234_500_000, "1.234 s"), (125_000_000_000, "2 min 5 s")],
)
def test_spans_of_time_are_readable(ns: int | None, shown: str) -> None:
    assert seconds(ns) == shown


@pytest.mark.parametrize(
    ("usd", "shown"),
    [
        ("0", "$0"),
        ("0.0000012345", "$0.00000123"),
        ("0.5", "$0.5"),
        ("0.9999", "$1.00"),
        ("1234.567", "$1,234.57"),
    ],
)
def test_amounts_are_readable(usd: str, shown: str) -> None:
    assert dollars(usd, is_partial=False) == shown
    assert dollars(usd, is_partial=True) == f"≥ {shown}"
