"""Filler of texts: as long as they are, the same in pieces, and JSON where they are JSON."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from recorder.wire.content.filler import Filler, FillerKey

KEY = FillerKey(b"k" * 32)

texts = st.text(st.characters(codec="utf-8")) | st.text('[{"a\\u00e9 1.e5,:}]tn日😀')
json_values = st.recursive(
    st.text(max_size=5) | st.integers() | st.floats(-9, 9) | st.booleans() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def written(text: str, *, as_ascii: bool = True) -> bytes:
    """A text as it stands between the quotes of JSON."""
    return json.dumps(text, ensure_ascii=as_ascii)[1:-1].encode()


def filled(text: str) -> str:
    made: str = json.loads(b'"%b"' % KEY.filled(written(text)))
    return made


@given(texts, st.lists(st.integers(0, 60), max_size=5), st.booleans())
def test_the_filler_of_a_text_is_that_of_its_pieces_however_they_are_written(
    text: str, cuts: list[int], as_ascii: bool
) -> None:
    filler = Filler(KEY)
    pieces = [text[start:end] for start, end in pairwise(sorted({0, *cuts, len(text)}))]
    made = b"".join(filler.filled(written(piece, as_ascii=as_ascii)) for piece in pieces if piece)
    assert json.loads(b'"%b"' % made) == filled(text)


@given(texts, st.booleans())
def test_filler_has_as_many_bytes_as_its_text(text: str, as_ascii: bool) -> None:
    raw = written(text, as_ascii=as_ascii)
    assert len(KEY.filled(raw)) == len(raw)
    assert len(filled(text).encode()) == len(text.encode())


@given(st.lists(json_values, max_size=3))
def test_the_filler_of_json_is_json_of_the_same_form(value: list[object]) -> None:
    def form(value: object) -> object:
        if isinstance(value, dict):
            return [[len(name), form(inner)] for name, inner in value.items()]
        return [form(inner) for inner in value] if isinstance(value, list) else type(value)

    assert form(json.loads(filled(json.dumps(value)))) == form(value)


def test_what_texts_begin_with_alike_their_fillers_begin_with_alike() -> None:
    one, other = "Read src/app.py and tell me more", "Read src/app.py and show me less"
    shared = len("Read src/app.py and ")
    assert filled(one)[:shared] == filled(other)[:shared] != one[:shared]
    assert filled(one)[shared] != filled(other)[shared]
    assert filled("xylophone")[1:] != filled("yylophone")[1:]
    assert filled(one) != FillerKey(b"x" * 32).filled(written(one)).decode()


@given(st.text("abcABC019", min_size=1, max_size=40), st.text("abcABC019", min_size=1, max_size=40))
def test_only_equal_texts_have_the_same_filler(one: str, other: str) -> None:
    assert (filled(one) == filled(other)) == (one == other)
