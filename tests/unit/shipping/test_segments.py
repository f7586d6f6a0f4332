"""What a bucket has of a recorder, by the names of its objects."""

from __future__ import annotations

from recorder.shipping.bucket import StoredObject
from recorder.shipping.segments import by_recorder

SHA256 = "0" * 64


def test_segments_and_leases_are_in_the_order_of_their_numbers() -> None:
    names = [f"r/{number}-{SHA256}.seg" for number in ("1000000", "000002", "999999")]
    names += ["r/lease-1000000", "r/lease-999999", "r/end"]
    found = by_recorder(StoredObject(name, 1, 0.0) for name in names)["r"]
    assert [each.number for each in found.segments] == [2, 999_999, 1_000_000]
    assert (found.lease, found.leases[-1], found.has_ended) == (1_000_000, "r/lease-1000000", True)


def test_no_other_name_is_one() -> None:
    names = [
        "../x/end",
        "r/../end",
        "r/000001.seg",
        f"r/000001-{SHA256}.seg/end",
        "end",
        f"a/b/000001-{SHA256}.seg",
    ]
    assert by_recorder(StoredObject(name, 1, 0.0) for name in names) == {}
