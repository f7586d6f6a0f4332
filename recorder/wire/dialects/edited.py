"""An answer that a person gives in place of a recorded one: a text, or the call of one tool.

The module `edit` in the folder of a format writes it in that format: `stream` the events of a
stream, `document` one body. Both take what was recorded, whose ids, model and usage stay, and raise
`LookupError` where that is not an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from recorder.wire.dialects.json_values import Object, as_json


class EditedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The call of a tool."""

    name: str
    arguments: Object

    @property
    def json(self) -> str:
        return as_json(self.arguments)

    def id(self, prefix: str) -> str:
        """Return an id for the call; the same call gets the same id each time."""
        return prefix + sha256(f"{self.name} {self.json}".encode()).hexdigest()[:24]


class EditedAnswer(msgspec.Struct, frozen=True):
    """The text, or the call; and that text, or the call's arguments, in the deltas of a stream."""

    text: str
    call: EditedCall | None
    deltas: Sequence[str]
