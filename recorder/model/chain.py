"""The hash chain of an exchange: each event holds the hash of the one before, the first that of its
row. Pure.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from recorder.model.events import Event, Exchange

_header = msgspec.json.Encoder().encode
_new = sha256().copy  # a third faster than to look the algorithm up each time


def root(session_id: str, exchange_id: str) -> bytes:
    """Return the hash that the first event of an exchange is chained to."""
    return sha256(f"{session_id}/{exchange_id}".encode()).digest()


def row_root(exchange: Exchange) -> bytes:
    """Return a root that covers the row of the exchange, too, where that is known.

    A column that is added to the row later must not be part of this.
    """
    return sha256(_header(msgspec.structs.astuple(exchange))).digest()


def link(
    previous: bytes,
    pos: int,
    kind: str,
    t_ns: int,
    type: str | None,
    sequence_number: int | None,
    item_id: str | None,
    output_index: int | None,
    raw: bytes,
    data_start: int | None,
    data_length: int | None,
) -> bytes:
    """Return the hash of an event: SHA-256 over the previous hash, the row's fields as a JSON
    array, and `raw`.
    """
    fields = (
        pos,
        kind,
        t_ns,
        type,
        sequence_number,
        item_id,
        output_index,
        data_start,
        data_length,
    )
    digest = _new()
    digest.update(previous + _header(fields) + raw)
    return digest.digest()


def hash_after(previous: bytes, event: Event, pos: int) -> bytes:
    """Return the hash of an event at a position, after the event whose hash is `previous`."""
    return link(
        previous,
        pos,
        event.kind,
        event.t_ns,
        event.type,
        event.sequence_number,
        event.item_id,
        event.output_index,
        event.raw,
        event.data_start,
        event.data_length,
    )
