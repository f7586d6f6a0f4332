"""Level `bytes`: the bodies as they are, nothing taken for noise."""

from __future__ import annotations

from hashlib import sha256

from recorder.diff.report import Difference, LevelReport, Terms, cut, found
from recorder.diff.side import Side

SHOWN = 40  # bytes from where they part


def body(a: Side, b: Side, terms: Terms) -> LevelReport:
    """Compare sizes and digests, and show the first difference."""
    if a.body == b.body:
        return found("bytes", ())
    one, other = (f"{len(each.body):,} bytes, sha256 {sha256(each.body).hexdigest()[:16]}…" for each in (a, b))
    at = parting(a.body, b.body)
    after_a, after_b = (
        cut(each.body[at : at + SHOWN + 1].decode("utf-8", "backslashreplace"), SHOWN) for each in (a, b)
    )
    return found(
        "bytes",
        [Difference("body", "changed", one, other), Difference(f"from byte {at:,} on", "changed", after_a, after_b)],
    )


def parting(a: bytes, b: bytes) -> int:
    """Count the bytes that the beginnings share, by halving: comparing slices is cheap, a loop is not."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[low:middle] == b[low:middle] else (low, middle - 1)
    return low
