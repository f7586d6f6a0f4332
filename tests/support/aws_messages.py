"""Messages of the binary event stream of AWS, as Bedrock sends them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from zlib import crc32


def aws_message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Encode a message whose headers are texts."""
    encoded = bytearray()
    for name, value in headers.items():
        encoded += bytes([len(name)]) + name.encode() + b"\7" + len(value).to_bytes(2, "big") + value.encode()
    lengths = (16 + len(encoded) + len(payload)).to_bytes(4, "big") + len(encoded).to_bytes(4, "big")
    message = lengths + crc32(lengths).to_bytes(4, "big") + encoded + payload
    return message + crc32(message).to_bytes(4, "big")


def aws_event(type: str, payload: Any) -> bytes:
    """Encode an event with a JSON payload."""
    headers = {":event-type": type, ":content-type": "application/json", ":message-type": "event"}
    return aws_message(headers, json.dumps(payload).encode())
