"""Bedrock's InvokeModel with a model of Anthropic: its Messages, each event as base64 in a `chunk`
of AWS's stream.

The request is Anthropic's, without the model, which the path names; the answer is too. What is said
here is only what differs. Must not know: other wire formats, but for Anthropic Messages and for
what is AWS's.

Written after anthropic-python 2.11 and the service model of botocore 1.44.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from recorder.model.events import Header
from recorder.wire.dialects.anthropic import DIALECT as MESSAGES
from recorder.wire.dialects.bedrock_converse import DIALECT as CONVERSE
from recorder.wire.dialects.bedrock_invoke.conversation import InvokeConversation
from recorder.wire.dialects.bedrock_invoke.decoder import (
    STREAM_EXCEPTIONS,
    Chunk,
    InvokeDecoder,
    unwrapped,
)
from recorder.wire.dialects.dialect import noise_fields
from recorder.wire.dialects.json_values import request_object, text
from recorder.wire.dialects.keys import KeyExtractor, Named

_PATH = r"/invoke(?:-with-response-stream)?$"
_METRICS = "amazon-bedrock-invocationMetrics."


def _name(chunk: Chunk) -> Named:
    event = MESSAGES.keys.of_message(chunk.event or b"")
    return event.type, event.sequence_number, event.item_id, event.output_index


def _is_asked(headers: Sequence[Header], body: bytes) -> bool:
    """Return whether a body is one of Anthropic's for a cloud: the path may name a profile, and no
    model.
    """
    version = text(request_object(body), "anthropic_version")
    return version is not None and not version.startswith("vertex-")


assert MESSAGES.prompt is not None

DIALECT = msgspec.structs.replace(
    MESSAGES,
    name="bedrock-invoke",
    routes=re.compile(rf"^POST /(?:.*/)?model/[^/]*(?:anthropic|claude)[^/]*{_PATH}"),
    keys=KeyExtractor(Chunk, _name),
    decoder=InvokeDecoder,
    terminal={**MESSAGES.terminal, **dict.fromkeys(STREAM_EXCEPTIONS, "failed")},
    is_asked=_is_asked,
    framing="aws_event_stream",
    unwrapped=unwrapped,
    error_body=CONVERSE.error_body,
    error_statuses=CONVERSE.error_statuses,
    error_type=CONVERSE.error_type,
    conversation=InvokeConversation,
    continuation=None,
    prompt=msgspec.structs.replace(MESSAGES.prompt, generates=re.compile(_PATH)),
    fields=msgspec.structs.replace(
        MESSAGES.fields,
        noise=(
            *MESSAGES.fields.noise,
            *noise_fields(
                "time | at>invocationLatency at>firstByteLatency | how long the answer took",
                at=(_METRICS,),
            ),
        ),
    ),
    request_noise=(),  # that of Anthropic is for its bodies on every path
    speaks=None,
    is_event=None,
    target=lambda is_document, payloads: (
        f"/model/claude/invoke{'' if is_document else '-with-response-stream'}"
    ),
    has_event_lines=False,
)
