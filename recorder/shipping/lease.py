"""Which of several collectors takes the segments of a recorder.

A lease is an object that can be made once: `lease-000007`. Whoever makes the next number holds it,
and deletes the one before: by that a holder keeps its lease, and another takes one that has run
out. A lease has run out when its number has not changed for `LEASE_S` by the clock of who watches:
no two clocks are compared, and a collector that died stops making numbers.

Leases save work, and are not what makes ingest safe: two who ingest the same segments write the
same rows, once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from recorder.shipping.bucket import Bucket
from recorder.shipping.segments import LEASE, Shipped

# a look takes a few seconds, of a slow store some more; for so long nobody takes what a dead one
# had
LEASE_S = 20.0
RENEW_S = LEASE_S / 4


class _Seen(NamedTuple):
    number: int
    since_s: float


class Leases:
    """The leases of one collector, `me`, and what it knows of those of others."""

    def __init__(self, bucket: Bucket, me: str, clock: Callable[[], float]) -> None:
        self._bucket, self._me, self._clock = bucket, me.encode(), clock
        self._held: dict[str, _Seen] = {}
        # numbers that were made, or may have been: an answer may have been lost
        self._tried: dict[str, int] = {}
        self._seen: dict[str, _Seen] = {}

    def may_be_had(self, recorder_id: str, shipped: Shipped) -> bool:
        """Return whether it is worth a try to take a lease. This asks nobody."""
        now_s, number = self._clock(), shipped.lease
        seen = self._seen.get(recorder_id)
        if seen is None or seen.number != number:
            self._seen[recorder_id] = seen = _Seen(number, now_s)
        return (
            number == 0 or now_s - seen.since_s > LEASE_S or self._tried.get(recorder_id) == number
        )

    def hold(self, recorder_id: str, shipped: Shipped) -> bool:
        """Return whether this collector has the lease now: it keeps it, or takes one that is free
        or has run out.

        `shipped` is what the bucket had a moment ago. Raise `BucketError`; then the lease may be
        taken or not.
        """
        held = self._held.get(recorder_id)
        # what is held may be newer than the list is
        if held is not None and held.number >= shipped.lease:
            return not self._is_due(held) or self._take(recorder_id, held.number)
        self._held.pop(recorder_id, None)
        if self._tried.get(recorder_id) == shipped.lease > 0:
            is_free = self._is_ours(recorder_id, shipped.lease)
        else:
            is_free = self.may_be_had(recorder_id, shipped)
        return is_free and self._take(recorder_id, shipped.lease)

    def keep(self) -> None:
        """Keep all that is held, without a look at the bucket: a large commit takes longer than a
        lease lasts.

        Raise `BucketError`.
        """
        for recorder_id, held in [*self._held.items()]:
            if self._is_due(held) and self._take(recorder_id, held.number):
                self._bucket.delete([_name(recorder_id, held.number)])

    def forget_all_but(self, recorder_ids: Collection[str]) -> None:
        """Forget recorders that the bucket does not have: it has new ones forever."""
        for known in (self._seen, self._tried):
            for recorder_id in known.keys() - recorder_ids:
                del known[recorder_id]

    @property
    def is_one_due(self) -> bool:
        """Return whether `keep` has something to do."""
        return any(map(self._is_due, [*self._held.values()]))

    @property
    def held(self) -> set[str]:
        """Return the recorders whose leases are held."""
        return {*self._held}

    def release(self, recorder_id: str) -> None:
        """Let go of a lease, if it is held. Raise `BucketError`."""
        self._tried.pop(recorder_id, None)
        held = self._held.pop(recorder_id, None)
        if held is not None:
            # The one before may be there still. In this order: a name that is gone may end the
            # call.
            self._bucket.delete(
                [_name(recorder_id, held.number), _name(recorder_id, held.number - 1)]
            )

    def _is_ours(self, recorder_id: str, number: int) -> bool:
        """Return whether a number is one that was made here, whatever the store answered."""
        return (
            self._tried.get(recorder_id) == number
            and self._bucket.get(_name(recorder_id, number)) == self._me
        )

    def _is_due(self, held: _Seen) -> bool:
        return self._clock() - held.since_s >= RENEW_S

    def _take(self, recorder_id: str, before: int) -> bool:
        now_s = self._clock()
        number = self._tried[recorder_id] = before + 1
        if not self._bucket.put(_name(recorder_id, number), self._me) and not self._is_ours(
            recorder_id, number
        ):
            self._held.pop(recorder_id, None)
            return False
        self._held[recorder_id] = _Seen(number, now_s)
        return True


def _name(recorder_id: str, number: int) -> str:
    return f"{recorder_id}/{LEASE}{number:06d}"
