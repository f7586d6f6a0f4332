"""Ids: UUIDv7 (RFC 9562), and the ids that begin with what a person typed. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple


def uuid7(now_ns: int, entropy: bytes) -> str:
    """Return a UUIDv7 (RFC 9562 section 5.7) of a wall time and ten random bytes, both given by the
    caller.
    """
    time, random = f"{now_ns // 1_000_000 & (1 << 48) - 1:012x}", entropy.hex()
    variant = "89ab"[entropy[2] >> 4 & 0x3]
    return f"{time[:8]}-{time[8:]}-7{random[1:4]}-{variant}{random[5:8]}-{random[8:20]}"


def without_time(id: str) -> str:
    """Return what a UUIDv7 has besides its time: the same of two ids that were made of the same
    bytes.
    """
    return id[len("01234567-89ab") :]


def turn_id(connection_id: str, number: int) -> str:
    """Return the id of a turn on an imported connection; with number 0 the one that the connection
    itself is to have.

    The number stands before the random part that they share, and after the time: they sort in their
    order, and before what is imported next. Numbers over 16,383 are unique, but not in order.
    """
    shared = int(connection_id[24:], 16) + (number >> 14)
    return f"{connection_id[:19]}{0x8000 | number & 0x3FFF:04x}-{shared % 2**48:012x}"


def first_id(since_ns: int) -> str:
    """Return the lowest id of all that began since a wall time."""
    return uuid7(max(0, since_ns), bytes(10))


class Ids(NamedTuple):
    """The first and the last of the ids that begin with something."""

    first: str
    last: str


ID_LENGTH = 36
BEFORE_ALL = "00000000-0000-0000-0000-000000000000"  # no id is as low
AFTER_ALL = "ffffffff-ffff-ffff-ffff-ffffffffffff"  # no id is as high
PREFIX_LENGTH = 4  # of an id: fewer digits mean too many
_ID = re.compile("-".join(f"[0-9a-f]{{{length}}}" for length in (8, 4, 4, 4, 12)))
_LOWEST, _HIGHEST = ("-".join(digit * length for length in (8, 4, 4, 4, 12)) for digit in "0f")


def ids_beginning(prefix: str) -> Ids | None:
    """Return the ids that begin so, `None` if none can."""
    if len(prefix) < PREFIX_LENGTH:
        return None
    found = Ids(prefix + _LOWEST[len(prefix) :], prefix + _HIGHEST[len(prefix) :])
    return found if _ID.fullmatch(found.first) and _ID.fullmatch(found.last) else None
