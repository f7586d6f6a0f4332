"""`recorder.model.events`: what is held is counted against one limit."""

from __future__ import annotations

import pytest

from recorder.errors import RecorderError
from recorder.model.events import EVENT_BYTES, MemoryBudget


def test_bytes_and_what_holds_them_are_counted_up_to_the_limit() -> None:
    budget = MemoryBudget("It takes", "split it", 2 * EVENT_BYTES + 10)
    budget.add(4)
    budget.add(6)
    with pytest.raises(RecorderError, match=r"^It takes over 0 MiB of memory: split it\.$"):
        budget.add(0)
