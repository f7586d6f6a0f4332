"""Small pictures, and what a request and a response say of them."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from tests.support.conversations import sse


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(size: int = 16, shade: int = 90) -> bytes:
    """A square of one shade of grey."""
    rows = (b"\0" + bytes([shade]) * size) * size
    head = struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        [_chunk(b"IHDR", head), _chunk(b"IDAT", zlib.compress(rows)), _chunk(b"IEND", b"")]
    )


def coded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def about(content: bytes) -> Mapping[str, Any]:
    return {"size_bytes": len(content), "sha256": digest(content)}


def shown(content: bytes, type: str = "image/png") -> dict[str, Any]:
    """A part of a message in the Responses API."""
    return {"type": "input_image", "image_url": f"data:{type};base64,{coded(content)}"}


def drawn(content: bytes) -> list[bytes]:
    """The frames of a picture that a model makes."""
    item = {"id": "ig_1", "type": "image_generation_call", "status": "in_progress"}
    done = {**item, "status": "completed", "result": coded(content)}
    return [
        sse("response.output_item.added", output_index=0, item=item),
        sse("response.output_item.done", output_index=0, item=done),
    ]


def drawn_by_gemini(content: bytes) -> bytes:
    """A whole document with a picture."""
    part = {"inlineData": {"mimeType": "image/png", "data": coded(content)}}
    return json.dumps({"candidates": [{"content": {"role": "model", "parts": [part]}}]}).encode()
