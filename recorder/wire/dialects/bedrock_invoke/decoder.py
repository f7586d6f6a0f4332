"""The chunks of InvokeModelWithResponseStream → facts: Anthropic's own events, and exceptions of
AWS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from recorder.model.facts import ResponseStarted
from recorder.wire.dialects.anthropic.decoder import MessagesDecoder
from recorder.wire.dialects.bedrock_converse.decoder import EXCEPTIONS
from recorder.wire.dialects.decoder import Facts, FastPath, failed
from recorder.wire.dialects.json_values import text
from recorder.wire.dialects.keys import Payload

STREAM_EXCEPTIONS = frozenset({*EXCEPTIONS, "modelTimeoutException"})


class Chunk(Payload):
    """A payload with an event in it. Beside it is `p`, which hides how long the event is."""

    event: bytes | None = msgspec.field(name="bytes", default=None)


_decode = msgspec.json.Decoder(Chunk).decode


def unwrapped(data: bytes) -> bytes:
    """Return the event that a chunk has; the payload itself if it has none."""
    try:
        return _decode(data).event or data
    except msgspec.DecodeError:
        return data


class InvokeDecoder(MessagesDecoder):
    """Reads what the chunks of one response have.

    Its model is the one that was asked for, by whose name Bedrock's prices go: the message has
    Anthropic's name, of which no region is a part.
    """

    def fast_paths(self) -> Mapping[str | None, FastPath]:
        return {}

    def general(self, type: str | None, data: bytes) -> Facts:
        return super().general(type, unwrapped(data))

    def payload(self, type: str | None, payload: Any) -> Facts:
        if type in STREAM_EXCEPTIONS:
            return (msgspec.structs.replace(failed(payload), type=type),)
        return super().payload(type, payload)

    def whole(self, payload: Any) -> Facts:
        """Decode a document: a message, or an error of AWS, which is a `message` alone."""
        error = (failed(payload),) if text(payload, "message") else ()
        return super().whole(payload) or error

    def _begun(self, response_id: str | None, model: str | None) -> Sequence[ResponseStarted]:
        return super()._begun(response_id, None)
