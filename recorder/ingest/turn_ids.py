"""The ids of turns over WebSocket, made of their connection and their number: fed again, they are
the same.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from recorder.model.events import WEBSOCKET, Exchange, RequestHead
from recorder.model.ids import turn_id, uuid7


def turn_head(connection: RequestHead, after_ns: int, number: int) -> RequestHead:
    """Return the head of a turn that began so long after its connection, with ids that follow from
    the two.

    An imported connection has its id from the time of the import, and so have its turns.
    """
    started_ns = connection.started_ns + after_ns
    digest = sha256(f"{connection.exchange_id}/{number}/session".encode()).digest()
    own_id = _turn_id(connection.exchange_id, number, started_ns)
    return msgspec.structs.replace(
        connection,
        exchange_id=own_id
        if connection.imported is None
        else turn_id(connection.exchange_id, number),
        session_id=uuid7(started_ns, _order(number) + digest[:8]),
        started_ns=started_ns,
        method=WEBSOCKET,
    )


def is_turn_of(connection_id: str, turn: Exchange) -> bool:
    """Return whether an exchange is a turn on a connection that was recorded here, by its id."""
    low = int(turn.exchange_id[15:18], 16)  # of its number, the bits that an id keeps
    numbers = range(low, _NUMBERS, 1 << 12)
    return any(
        turn.exchange_id == _turn_id(connection_id, number, turn.started_ns) for number in numbers
    )


_NUMBERS = 2**16
"""Numbers of turns that ids tell apart."""


def _turn_id(connection_id: str, number: int, started_ns: int) -> str:
    """Return the id of a turn.

    Its number comes before the digest: the log orders exchanges by their ids, also those that begin
    in one millisecond.
    """
    return uuid7(
        started_ns, _order(number) + sha256(f"{connection_id}/{number}".encode()).digest()[:8]
    )


def _order(number: int) -> bytes:
    return (number % _NUMBERS).to_bytes(2)
