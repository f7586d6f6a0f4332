"""Responses that no request asked for: what follows a response that was steered, on the same connection. Pure.

A recording has such a successor as a turn whose request is the `response.steer`; one of an older recorder has its
messages with the connection. Either way they are sent behind the response that they continue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from recorder.model.recording import Recording
from recorder.wire.turns import begins_response, is_connection, is_turn, message_ids, was_asked_for


class Successor(NamedTuple):
    """The messages of such a response, with their wall times."""

    response_id: str
    exchange_id: str  # of its turn, or of the connection
    messages: Sequence[tuple[int, bytes]]


def successors(recordings: Iterable[Recording]) -> Mapping[str, Successor]:
    """Return the successors, by the id of the response that each continues."""
    found: dict[str, Successor] = {}
    for recorded in recordings:
        is_asked_for = is_turn(recorded) and was_asked_for(recorded.request.target, recorded.request_body)
        if is_asked_for or not (is_turn(recorded) or is_connection(recorded)):
            continue
        for messages in _responses(recorded):
            ids = message_ids(recorded.request.target, messages[0][1])
            if ids.previous_response_id is not None and ids.response_id is not None:
                successor = Successor(ids.response_id, recorded.exchange.exchange_id, messages)
                found.setdefault(ids.previous_response_id, successor)
    return found


def response_id(recorded: Recording) -> str | None:
    """Return the id of the response of a turn."""
    ids = (message_ids(recorded.request.target, piece.raw).response_id for piece in recorded.pieces)
    return next((id for id in ids if id is not None), None)


def following(id: str | None, found: Mapping[str, Successor]) -> Iterator[Successor]:
    """Yield the successors of a response, each behind the one that it continues."""
    seen: set[str] = set()
    while id is not None and id not in seen and (successor := found.get(id)) is not None:
        yield successor
        seen.add(id)
        id = successor.response_id


def _responses(recorded: Recording) -> Iterator[Sequence[tuple[int, bytes]]]:
    """Yield the messages of each response that begins in a recording."""
    messages: list[tuple[int, bytes]] = []
    for piece in recorded.pieces:
        if begins_response(recorded.request.target, piece.raw):
            if messages:
                yield messages
            messages = []
        elif not messages:
            continue
        messages.append((recorded.exchange.started_ns + piece.t_ns, piece.raw))
    if messages:
        yield messages
