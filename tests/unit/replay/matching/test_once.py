"""`recorder.replay.matching.fingerprint`: computed once, and nobody waits for another's."""

from __future__ import annotations

import threading

from recorder.replay.matching.fingerprint import Once


class Slow:
    """Computes when it is let."""

    def __init__(self) -> None:
        self.begun, self.let = threading.Event(), threading.Event()
        self.count = 0

    @Once
    def value(self) -> int:
        """A number."""
        self.begun.set()
        assert self.let.wait(10)
        self.count += 1
        return self.count


def test_it_is_computed_once() -> None:
    slow = Slow()
    slow.let.set()
    assert [slow.value, slow.value] == [1, 1]


def test_one_instance_does_not_wait_for_another() -> None:
    held, free = Slow(), Slow()
    free.let.set()
    thread = threading.Thread(target=lambda: held.value)
    thread.start()
    try:
        assert held.begun.wait(10)
        assert free.value == 1
        assert held.count == 0
    finally:
        held.let.set()
        thread.join()
    assert held.value == 1
