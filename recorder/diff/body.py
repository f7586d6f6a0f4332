"""Level `bytes`: the bodies as they are, nothing taken for noise."""

from __future__ import annotations

from hashlib import sha256

from recorder.diff.compared import ComparedRecording
from recorder.diff.report import Difference, LevelReport, Terms, cut, found

SHOWN = 40  # bytes from where they part


def body(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Sizes, digests, and where they part."""
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
    """How many bytes the beginnings share, found by halving: comparing slices is cheap, a loop is not."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[low:middle] == b[low:middle] else (low, middle - 1)
    return low
