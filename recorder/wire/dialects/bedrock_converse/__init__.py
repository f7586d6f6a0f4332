"""Bedrock's Converse: messages of the binary event stream of AWS, whose headers say their types;
blocks by index.

Written after the service model of botocore 1.44. Must not know: other wire formats.
"""

from __future__ import annotations

import re
from typing import Any

from recorder.wire.dialects.bedrock_converse.conversation import ConverseConversation
from recorder.wire.dialects.bedrock_converse.decoder import (
    EXCEPTIONS,
    ConverseDecoder,
    exception_of,
)
from recorder.wire.dialects.dialect import (
    Dialect,
    RequestPlaces,
    ResponseFields,
    noise_fields,
    paths,
)
from recorder.wire.dialects.keys import KeyExtractor, Named, Payload, Whole


class _Event(Payload):
    contentBlockIndex: Whole | None = None


def _name(event: _Event) -> Named:
    return None, None, None, event.contentBlockIndex


_NOT_IN_STREAMS = {
    403: "accessDeniedException",
    404: "resourceNotFoundException",
    408: "modelTimeoutException",
}


def error_body(status: int, message: str, code: str | None) -> dict[str, Any]:
    """Return an error in the shape of AWS.

    Its type is a header there, and clients read it from the body, too.
    """
    name = _NOT_IN_STREAMS.get(status) or exception_of(status)
    return {"__type": name[:1].upper() + name[1:], "message": message}


DIALECT = Dialect(
    name="bedrock-converse",
    routes=re.compile(r"^POST /(?:.*/)?model/[^/]+/converse(?:-stream)?$"),
    keys=KeyExtractor(_Event, _name, event_line_first=True),
    decoder=ConverseDecoder,
    terminal={"metadata": "completed", **dict.fromkeys(EXCEPTIONS, "failed")},
    needs_terminal=True,
    framing="aws_event_stream",
    whole_reasons=frozenset({"end_turn", "tool_use", "stop_sequence"}),
    error_body=error_body,
    error_statuses=tuple(sorted([*_NOT_IN_STREAMS, *EXCEPTIONS.values()])),
    error_type=exception_of,
    conversation=ConverseConversation,
    fields=ResponseFields(
        texts=paths(
            "delta.text delta.toolUse.input delta.reasoningContent.text start.toolUse.name"
        ),
        usage=("usage",),
        noise=noise_fields(
            """
id | start.toolUse.toolUseId output.message.content.*.toolUse.toolUseId | made anew for each call
time | metrics.latencyMs | how long the answer took
padding | p | hides how long a delta is
"""
        ),
    ),
    places=RequestPlaces(of_model=paths("messages system")),
    profiles=("bedrock-converse",),
    target=lambda is_document, payloads: (
        f"/model/unknown/converse{'' if is_document else '-stream'}"
    ),
)
