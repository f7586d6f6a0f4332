"""`recorder.proxy.tunnel`: `websockets` frames, and it sees where each frame ends, however they are
cut.
"""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from recorder.proxy.tunnel import FrameBoundary

SIZES = [0, 1, 125, 126, 127, 65_535, 65_536, 70_000]
_frames = st.builds(
    lambda opcode, size, mask: Frame(opcode, bytes(size)).serialize(mask=mask),
    st.sampled_from([Opcode.TEXT, Opcode.BINARY, Opcode.CONT]),
    st.sampled_from(SIZES),
    st.booleans(),
)


def _pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


@given(
    st.lists(_frames, max_size=6),
    st.lists(st.integers(0, 2**20), max_size=20),
    st.integers(0, 2**20),
)
def test_a_boundary_is_where_a_frame_ends(frames: list[bytes], cuts: list[int], stop: int) -> None:
    data, ends = b"".join(frames), {0}
    for frame in frames:
        ends.add(max(ends) + len(frame))
    boundary, at = FrameBoundary(), 0
    for piece in _pieces(data, cuts):
        assert boundary.feed(piece) == len(piece)
        at += len(piece)
        assert boundary.is_here == (at in ends)
    stop %= len(data) + 1
    boundary = FrameBoundary()
    boundary.feed(data[:stop])
    if stop not in ends:
        taken = boundary.feed(data[stop:], to_next=True)
        assert stop + taken == min(end for end in ends if end >= stop)
        assert boundary.is_here


def test_a_close_frame_is_noted() -> None:
    boundary, seen = FrameBoundary(), []
    for piece in (Frame(Opcode.TEXT, b"\x88\x00").serialize(mask=False) + b"\x88", b"\x00"):
        boundary.feed(piece)
        seen.append(boundary.has_closed)
    assert seen == [False, True]


@given(st.lists(st.binary(max_size=300)))
def test_no_bytes_are_too_odd(pieces: list[bytes]) -> None:
    boundary = FrameBoundary()
    for piece in pieces:
        assert 0 <= boundary.feed(piece, to_next=True) <= len(piece)
