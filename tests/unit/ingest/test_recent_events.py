"""Which events an ingester has in memory when an exchange ends: all of it, or none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from recorder.ingest import recent_events
from recorder.ingest.recent_events import EVENT_BYTES, RecentEvents
from recorder.model.events import Event, Exchange, Kind
from tests.support.rows import make_end, make_events, make_exchange, make_session


def stream(number: int, raws: Sequence[bytes] = (b"a", b"b", b"c")) -> list[Event]:
    kinds: list[Kind] = ["frame" for _ in raws]
    kinds.append("end")
    return make_events(
        make_exchange(make_session(1), number), [*raws, make_end("completed")], kinds
    )


def begun(events: Sequence[Event]) -> list[Exchange]:
    """The exchanges whose first event is among these."""
    numbers = [
        number
        for number in (1, 2)
        for event in events
        if event.pos == 0 and event in stream(number)
    ]
    return [make_exchange(make_session(1), number) for number in numbers]


def ended(recent: RecentEvents, *commits: Sequence[Event]) -> list[list[Event]]:
    return [
        list(whole.events)
        for commit in commits
        for whole in recent.add(begun(commit), commit).values()
    ]


def test_an_exchange_that_ends_is_whole_however_commits_divide_it() -> None:
    one, other = stream(1), stream(2)
    mixed = [event for pair in zip(one, other, strict=True) for event in pair]
    for cut in range(len(mixed)):
        assert ended(RecentEvents(), mixed[:cut], mixed[cut:]) == [one, other]


def test_of_an_exchange_that_began_before_nothing_is_given() -> None:
    assert ended(RecentEvents(), stream(1)[1:]) == []


@pytest.mark.parametrize("pos", [1, 2])
def test_with_a_hole_or_a_repetition_nothing_is_given(pos: int) -> None:
    events, recent = stream(1), RecentEvents()
    assert ended(recent, events[:2], events[pos + 1 :] if pos == 2 else events[1:]) == []
    assert ended(recent, stream(2)) == [stream(2)]


def test_what_was_forgotten_is_not_given() -> None:
    events, recent = stream(1), RecentEvents()
    recent.add(begun(events[:2]), events[:2])
    recent.forget()
    assert ended(recent, events[2:]) == []


def test_over_the_limit_the_longest_open_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_events, "LIMIT_BYTES", 5 * (EVENT_BYTES + 1))
    recent, (first, second) = RecentEvents(), (stream(1), stream(2))
    assert ended(recent, first[:3], second[:3], first[3:], second[3:]) == [second]
