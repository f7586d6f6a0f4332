"""Messages of the binary event stream of AWS, as Bedrock sends them."""

from __future__ import annotations

import json
from typing import Any

from recorder.wire.framing import aws_event_stream

aws_message = aws_event_stream.message


def aws_event(type: str, payload: Any) -> bytes:
    """Encode an event with a JSON payload."""
    return aws_event_stream.event(type, json.dumps(payload).encode())
