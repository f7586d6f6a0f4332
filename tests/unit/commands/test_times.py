"""Times as options take them: a moment of a session, and an instant of the calendar."""

from __future__ import annotations

import contextlib
import time

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.commands.terminal.times import INSTANT, LARGEST_NS, MOMENT, At

MOMENTS = {
    "1.5s": At(1_500_000_000),
    "350ms": At(350_000_000),
    "2m": At(120_000_000_000),
    "0s": At(0),
    "50%": At(share=0.5),
    "12.5 %": At(share=0.125),
    "100%": At(share=1.0),
    "9" * 400 + "w": At(LARGEST_NS),
}


def test_a_moment_is_a_span_or_a_share() -> None:
    assert {text: MOMENT.convert(text, None, None) for text in MOMENTS} == MOMENTS


def test_no_moment_is_after_the_end() -> None:
    with pytest.raises(
        click.BadParameter, match="'200%' is after the end: give a share up to 100%, or a time like"
    ):
        MOMENT.convert("200%", None, None)


def test_an_instant_is_a_span_ago_or_a_date() -> None:
    convert = INSTANT.convert
    for text, ago_s in (("30m", 1800), ("12h", 43_200), ("7d", 604_800), ("2w", 1_209_600)):
        before_ns = time.time_ns()
        instant_ns = convert(text, None, None)
        assert before_ns <= instant_ns + ago_s * 10**9 <= time.time_ns()
    assert convert("1970-01-02T00:00:00Z", None, None) == 86_400_000_000_000
    assert convert("1970-01-02T00:00:00+02:00", None, None) == 79_200_000_000_000
    assert convert("1970-01-02T00:00:00.000001Z", None, None) == 86_400_000_001_000
    assert (
        convert("2026-11-30", None, None)
        == round(time.mktime((2026, 11, 30, 0, 0, 0, 0, 0, -1))) * 10**9
    )


@given(
    st.text()
    | st.from_regex(r"[0-9]{1,400}(\.[0-9]+)?(ms|s|m|h|d|w|%)", fullmatch=True)
    | st.datetimes().map(str)
)
def test_whatever_is_typed_is_a_number_that_a_database_takes_or_refused(text: str) -> None:
    for kind in (MOMENT, INSTANT):
        with contextlib.suppress(click.BadParameter):
            value = kind.convert(text, None, None)
            assert abs(value.after_ns if isinstance(value, At) else value) <= LARGEST_NS
