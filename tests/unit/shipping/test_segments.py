"""What a bucket has of a recorder, by the names of its objects."""

from __future__ import annotations

from recorder.shipping.bucket import StoredObject
from recorder.shipping.segments import by_recorder, settled

SHA256 = "0" * 64
ID = "01990000-0000-7000-8000-000000000001"


def test_segments_and_leases_are_in_the_order_of_their_numbers() -> None:
    names = [f"{ID}/{number}-{SHA256}.seg" for number in ("1000000", "000002", "999999")]
    names += [f"{ID}/{name}" for name in ("lease-1000000", "lease-999999", "end")]
    found = by_recorder(StoredObject(name, 1, 0.0) for name in names)[ID]
    assert [each.number for each in found.segments] == [2, 999_999, 1_000_000]
    assert (found.lease, found.leases[-1], found.has_ended) == (
        1_000_000,
        f"{ID}/lease-1000000",
        True,
    )


def test_names_of_other_programs_are_none() -> None:
    names = [
        f"../{ID}/end",
        f"{ID}/../end",
        f"{ID}/000001.seg",
        f"{ID}/000001-{SHA256}.seg/end",
        "end",
        "backup/end",
        f"logs/000001-{SHA256}.seg",
        f"a/b/{ID}/000001-{SHA256}.seg",
    ]
    assert by_recorder(StoredObject(name, 1, 0.0) for name in names) == {}


def test_a_segment_of_a_folder_waits_for_those_that_a_list_may_have_missed() -> None:
    names = [f"{ID}/{number:06d}-{SHA256}.seg" for number in (1, 2, 3, 4)]
    seen = (StoredObject(name, 1, 0.0) for name in (names[0], names[2]))
    later = (StoredObject(name, 1, 0.0) for name in (*names, f"{ID}/end"))
    found = settled(by_recorder(seen), by_recorder(later))[ID]
    assert [each.number for each in found.segments] == [1, 2, 3]
    assert not found.has_ended
