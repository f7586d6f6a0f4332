"""Two texts word by word: the removed words and the added words, with a little of the text around them."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, groupby

from recorder.diff.alignment import Stretch, numbered, stretches
from recorder.diff.report import Word

AROUND = 40
"""Characters shown before and after a change: enough to find it."""

SHOWN = 400
"""Characters shown of a change: a paragraph."""

_WORD = re.compile(r"\s*(?:[\u3040-\u30ff\u3400-\u9fff]|\w+|[^\w\s])|\s+")
"""A word, or one character where words are not written apart or there is none; with the blanks before it."""


def changes(a: str, b: str) -> Iterator[list[Word]]:
    """Yield the places in which two texts differ. Changes that are close together are one passage."""
    found = stretches(*numbered(_words(a), _words(b)))
    if found is None:
        yield [Word("-", _cut(a)), Word("+", _cut(b))]
        return
    of_a, of_b = _Words(a), _Words(b)
    passage: list[Word] = []
    before = ""  # what stands before the next change
    for each in found:
        if not each.is_same:
            passage = [*passage, *_unchanged(before), *_changed(each, of_a, of_b)]
            before = ""
            continue
        text = of_a.text(each.a)
        if passage and len(text) > 2 * AROUND:
            yield _joined([*passage, *_unchanged(f"{text[:AROUND]}…")])
            passage = []
        before = text if len(text) <= 2 * AROUND or not text else f"…{text[-AROUND:]}"
    if passage:
        yield _joined([*passage, *_unchanged(before)])


def _words(text: str) -> Iterator[str]:
    return (match[0] for match in _WORD.finditer(text))


class _Words:
    """The words of a text, held as the places where they end: there may be very many."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends = array("q", chain([0], (match.end() for match in _WORD.finditer(text))))

    def text(self, span: range) -> str:
        """Return some words that stand one after the other."""
        return self._text[self._ends[span.start] : self._ends[span.stop]]


def _joined(passage: Sequence[Word]) -> list[Word]:
    """Join neighbours that are both kept."""
    return [Word(of, "".join(word.text for word in words)) for of, words in groupby(passage, lambda word: word.of)]


def _unchanged(text: str) -> list[Word]:
    return [Word("=", text)] if text else []


def _changed(stretch: Stretch, of_a: _Words, of_b: _Words) -> list[Word]:
    """Return the words of a change. Blanks before a word are not changed with it."""
    gone, come = of_a.text(stretch.a), of_b.text(stretch.b)
    blanks = _blanks(gone) if gone and come and _blanks(gone) == _blanks(come) else ""
    changed = Word("-", _cut(gone.removeprefix(blanks))), Word("+", _cut(come.removeprefix(blanks)))
    return [*_unchanged(blanks), *(each for each in changed if each.text)]


def _blanks(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text):,} characters)"
