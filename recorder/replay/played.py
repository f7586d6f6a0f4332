"""The answers that a fork has played: the provider of its live requests does not know them.

Rules of this file:

* A live request that goes on from a played answer gets all items up to there in the place of the
  link: those that the client sent in this run, and those of the answers that it got. Its other
  members stay byte for byte.
* A link that leads to no played answer stays: the provider has made that one, or has kept it.
* What goes on from an edited answer equals no recording, although the edited answer has the
  recorded id.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import msgspec

from recorder.errors import UsageError
from recorder.model.events import Recording
from recorder.model.facts import Links
from recorder.wire.dialects import by_path
from recorder.wire.framing.websocket import MESSAGE_LIMIT
from recorder.wire.logical_request import LogicalRequests, links_in, response_ids
from recorder.wire.turns import prewarm_id

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


class PlayedAnswers:
    """The answers that were played so far, with the requests of the client that got them.

    There are at most as many as recordings, each with a body as long as the proxy takes.
    """

    def __init__(self) -> None:
        self._played: list[Recording] = []
        # without a recording: their targets and bodies
        self._prewarms: dict[str, tuple[str, bytes]] = {}
        self._ids: set[str] = set()
        self._edited: set[Links] = set()

    def __bool__(self) -> bool:
        return bool(self._ids)

    def add(self, target: str, body: bytes, answer: Recording, *, is_edited: bool) -> None:
        """Add an answer to a request with that decoded body."""
        dialect = by_path("POST", target)
        if dialect.continuation is None:
            return
        exchange = msgspec.structs.replace(answer.exchange, method="POST", target=target)
        played = msgspec.structs.replace(answer, exchange=exchange, request_body=body)
        self._played.append(played)
        ids = response_ids(played, dialect)
        self._ids.update(ids)
        if is_edited:
            self._edited.update(Links(id) for id in ids)
            conversation_id = links_in(target, body).conversation_id
            if conversation_id is not None:
                self._edited.add(Links(None, conversation_id))

    def add_prewarm(self, target: str, body: bytes) -> None:
        """Add a prewarm that was answered here without a recording."""
        self._prewarms[prewarm_id(body)] = target, body
        self._ids.add(prewarm_id(body))

    def follows_edit(self, target: str, body: bytes) -> bool:
        """Return whether a request goes on from an edited answer."""
        return bool(self._edited) and links_in(target, body) in self._edited

    def with_items(self, target: str, body: bytes) -> bytes | None:
        """Return a request with all items in the place of a link to a played answer; None if it has
        none.

        Raises `UsageError` if that is too long to be sent.
        """
        if not self._ids or links_in(target, body).response_id not in self._ids:
            return None
        continuation = by_path("POST", target).continuation
        whole = LogicalRequests(self._played, unrecorded=self._prewarms.get).of_body(target, body)
        if continuation is None or whole.items is None or not whole.depth:
            return None
        kept = {name: value for name, value in whole.fields.items() if name in continuation.fields}
        items = list(chain.from_iterable(part.items for part in whole.parts))
        return _with_members(body, continuation.fields, {**kept, whole.items: items})


def _with_members(body: bytes, dropped: tuple[str, ...], given: Mapping[str, object]) -> bytes:
    """Return a JSON object with other members; those that are not named stay as they were."""
    members: dict[str, object] = {**_members.decode(body)}
    for name in dropped:
        members.pop(name, None)
    changed = msgspec.json.encode({**members, **given})
    if len(changed) > MESSAGE_LIMIT:
        raise UsageError(
            f"With the replayed answers that it goes on from, this request takes over {MESSAGE_LIMIT >> 20} MiB: "
            "fork earlier, with a smaller --until."
        )
    return changed
