"""Events in compressed pages: they are a sequence like any other, and no page is large."""

from __future__ import annotations

import random

import pytest

from recorder.model.events import Event
from recorder.model.packed_events import PAGE_BYTES, PAGE_EVENTS, Derived, PackedEvents
from tests.support.rows import make_events, make_exchange, make_session
from tests.support.tables import table

COUNT = 2 * PAGE_EVENTS + 3  # two pages and a part of the third


def told(raws: list[bytes]) -> list[Event]:
    return make_events(make_exchange(make_session(1), 1), raws)


def packed(events: list[Event]) -> PackedEvents:
    made = PackedEvents()
    for event in events:
        made.add(event)
    return made


EVENTS = told([f"data: {number}\n\n".encode() for number in range(COUNT)])


def test_what_went_in_comes_out() -> None:
    made = packed(EVENTS)
    assert len(made) == COUNT
    assert list(made) == list(made) == EVENTS
    assert made == EVENTS
    assert made != [*EVENTS[:-1], EVENTS[0]]
    assert made != EVENTS[:-1]


@table("at", [0, 1, PAGE_EVENTS - 1, PAGE_EVENTS, 2 * PAGE_EVENTS, COUNT - 1, -1, -COUNT])
def test_an_event_is_found_by_its_number(at: int) -> None:
    assert packed(EVENTS)[at] == EVENTS[at]


@pytest.mark.parametrize("at", [COUNT, -COUNT - 1])
def test_there_is_none_past_the_ends(at: int) -> None:
    with pytest.raises(IndexError):
        packed(EVENTS)[at]


def test_any_slice_is_that_of_a_list() -> None:
    made, some = packed(EVENTS), random.Random(1)
    ends = [
        None,
        0,
        PAGE_EVENTS,
        2 * PAGE_EVENTS,
        COUNT,
        *(some.randrange(-COUNT, COUNT) for _ in range(4)),
    ]
    for start in ends:
        for stop in ends:
            for step in (None, 1, 7, -1):
                assert list(made[start:stop:step]) == EVENTS[start:stop:step], (start, stop, step)


def test_events_may_follow_what_was_read_and_packed() -> None:
    made = packed(EVENTS[:10])
    made.pack()
    assert list(made) == EVENTS[:10]
    for event in EVENTS[10:]:
        made.add(event)
    assert list(made) == EVENTS


def test_a_page_of_large_events_is_no_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, unpacked = [], PackedEvents._unpacked

    def noted(self: PackedEvents, page: bytes) -> list[Event]:
        sizes.append(sum(len(event.raw) for event in unpacked(self, page)))
        return unpacked(self, page)

    monkeypatch.setattr(PackedEvents, "_unpacked", noted)
    large = told([bytes([number]) * (PAGE_BYTES // 4) for number in range(20)])
    assert list(packed(large)) == large
    assert max(sizes) <= PAGE_BYTES + PAGE_BYTES // 4


def test_what_is_derived_is_made_each_time_it_is_read() -> None:
    calls: list[int] = []

    def squares() -> map[int]:
        calls.append(1)
        return map(lambda number: number * number, range(100))

    made = Derived(squares, 5)
    assert (len(made), list(made), made[-1], made[1:3]) == (5, [0, 1, 4, 9, 16], 16, (1, 4))
    assert len(calls) == 3
