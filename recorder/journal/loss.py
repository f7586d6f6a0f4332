"""Chunks that passed and are not in the journal, counted and digested until there is room for their `Gap`."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from recorder.journal.format import Gap, Mark


class Loss:
    """The running count behind a `Gap`."""

    def __init__(self, mark: Mark, t_ns: int, reason: str) -> None:
        self.mark, self.reason = mark, reason
        self.from_ns = self.to_ns = t_ns
        self.chunks = self.size_bytes = 0
        self.digest = sha256()

    def add(self, t_ns: int, data: bytes) -> None:
        self.to_ns = t_ns
        self.chunks += 1
        self.size_bytes += len(data)
        self.digest.update(data)

    def record(self) -> tuple[Mark, int, bytes]:
        gap = Gap(
            self.mark, self.chunks, self.size_bytes, self.digest.hexdigest(), self.from_ns, self.to_ns, self.reason
        )
        return Mark.GAP, self.to_ns, msgspec.json.encode(gap)
