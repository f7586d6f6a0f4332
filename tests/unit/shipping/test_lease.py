"""Of several collectors one has a recorder, and one that died loses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorder.shipping.bucket import Bucket, parse_prefix
from recorder.shipping.lease import LEASE_S, RENEW_S, Leases
from recorder.shipping.segments import Shipped, by_recorder

ID = "01990000-0000-7000-8000-000000000001"


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return Bucket(parse_prefix(f"file:{tmp_path / 'bucket'}"), "collect")


@pytest.fixture
def clock() -> Clock:
    return Clock()


def look(bucket: Bucket) -> Shipped:
    return by_recorder(bucket.list()).get(ID, Shipped())


def holds(leases: Leases, bucket: Bucket) -> bool:
    return leases.hold(ID, look(bucket))


def test_one_of_two_has_a_recorder_and_keeps_it(bucket: Bucket, clock: Clock) -> None:
    one, other = Leases(bucket, "one", clock), Leases(bucket, "other", clock)
    for _ in range(10):
        assert (holds(one, bucket), holds(other, bucket)) == (True, False)
        clock.now_s += RENEW_S + 1
    assert look(bucket).lease == 10


def test_of_two_that_saw_the_same_one_has_it(bucket: Bucket, clock: Clock) -> None:
    seen = look(bucket)
    assert [Leases(bucket, me, clock).hold(ID, seen) for me in ("one", "other")] == [True, False]


def test_who_makes_no_numbers_loses_it_when_it_has_run_out(bucket: Bucket, clock: Clock) -> None:
    dead, other = Leases(bucket, "dead", clock), Leases(bucket, "other", clock)
    assert holds(dead, bucket)
    assert not holds(other, bucket)
    clock.now_s += LEASE_S
    assert not holds(other, bucket)
    clock.now_s += 0.1
    assert holds(other, bucket)
    assert not holds(dead, bucket)  # it comes back


def test_a_lease_whose_answer_was_lost_is_held(bucket: Bucket, clock: Clock) -> None:
    one = Leases(bucket, "one", clock)
    seen = look(bucket)
    bucket.put(f"{ID}/lease-000001", b"one")  # the same call, and nobody heard of it
    assert one.hold(ID, seen)


def test_who_lets_go_is_followed_at_once(bucket: Bucket, clock: Clock) -> None:
    one, other = Leases(bucket, "one", clock), Leases(bucket, "other", clock)
    assert holds(one, bucket)
    assert not holds(other, bucket)
    one.release(ID)
    assert holds(other, bucket)


def test_a_holder_that_is_busy_keeps_it(bucket: Bucket, clock: Clock) -> None:
    """It makes numbers without a look at the bucket, and what it saw before is older than these."""
    one, other = Leases(bucket, "one", clock), Leases(bucket, "other", clock)
    assert holds(one, bucket)
    seen = look(bucket)
    for _ in range(8):
        clock.now_s += LEASE_S / 2
        one.keep()
        assert not holds(other, bucket)
    assert one.hold(ID, seen)
    one.release(ID)
    assert look(bucket).leases == []


def test_what_has_left_the_bucket_is_forgotten(bucket: Bucket, clock: Clock) -> None:
    leases, seen = Leases(bucket, "one", clock), Shipped(lease=3)
    assert not leases.may_be_had(ID, seen)
    clock.now_s += LEASE_S + 1
    leases.forget_all_but(())
    assert not leases.may_be_had(ID, seen)  # it is watched from now on
