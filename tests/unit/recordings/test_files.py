"""The ids of what is read from files."""

from __future__ import annotations

from uuid import UUID

from recorder.recordings.files import IncreasingIds


def test_ids_increase_also_when_many_are_made_in_one_millisecond() -> None:
    new_id = IncreasingIds()
    ids = [new_id() for _ in range(20_000)]
    assert ids == sorted(set(ids))
    assert {UUID(each).version for each in ids} == {7}
