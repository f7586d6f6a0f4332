"""The blocks of prompts: which of them two requests share."""

from __future__ import annotations

from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from recorder.exports.workloads.mooncake import block_keys
from recorder.wire.dialects.prompt import WHOLE, PromptSegment

Texts = list[bytes]

# Of two letters: blocks that are equal where what is before them is not.
texts = st.lists(st.text("ab", min_size=1, max_size=40).map(str.encode), max_size=5)
pieces = st.tuples(texts, texts, texts, st.integers(1, 60), st.integers(1, 60))


def segments(contents: Texts) -> list[PromptSegment]:
    return [PromptSegment(0, at, WHOLE, b"", each, len(each)) for at, each in enumerate(contents)]


@given(pieces, st.integers(1, 9), st.sampled_from([0.5, 1.0, 3.7]))
def test_two_prompts_share_exactly_the_blocks_that_both_begin_with(
    made: tuple[Texts, Texts, Texts, int, int], block_tokens: int, token_bytes: float
) -> None:
    shared, *ends, one_tokens, other_tokens = made
    one, other = (b"".join([*shared, *end]) for end in ends)
    (first, second) = (
        block_keys(segments([*shared, *end]), tokens, block_tokens, token_bytes)
        for end, tokens in zip(ends, (one_tokens, other_tokens), strict=True)
    )
    assert (len(first), len(second)) == (
        -(-one_tokens // block_tokens),
        -(-other_tokens // block_tokens),
    )
    common = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    )
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    size = block_tokens * token_bytes
    least, shortest = min(len(first), len(second)), min(len(one), len(other))
    shared_blocks = sum(
        1 for at in range(1, least + 1) if int(at * size) <= same and at * size <= shortest
    )
    assert common == (least if one == other else shared_blocks)
    assert not set(first[common:]) & set(second[common:])
