"""Lines of a program: every byte is in one of them, whatever the cuts."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from recorder.wire.framing.lines import LineParser


def lines(data: bytes, cuts: Iterable[int] = ()) -> list[bytes]:
    parser = LineParser()
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    found = []
    for start, end in pairwise(places):
        found += parser.feed(data[start:end])
    return [message.payload for message in [*found, *parser.close()]]


@given(
    st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"\0", b"{}"])).map(b"".join),
    st.sets(st.integers(0, 40)),
)
def test_lines_are_those_of_the_whole_whatever_the_cuts(data: bytes, cuts: set[int]) -> None:
    assert b"".join(lines(data, cuts)) == data
    assert lines(data, cuts) == [
        each for each in data.replace(b"\n", b"\n\x01").split(b"\x01") if each
    ]
