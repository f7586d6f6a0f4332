"""The WebSocket client of `recorder demo`."""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from recorder.errors import RecorderError
from recorder.wire.dialects.json_values import request_object
from recorder.wire.websocket import Message, MessageParser, encode_close, encode_frame

TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})
KEY_BYTES, MASK_BYTES = 16, 4
READ_BYTES = 64 * 2**10
HEAD_LIMIT = 64 * 2**10  # of the answer to the handshake, which has some hundred bytes


class DemoClient:
    """The client, connected."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._parser = MessageParser(from_client=False)

    async def ask(self, request: dict[str, Any]) -> list[bytes]:
        """Send a request; return the messages that answer it. Raises `RecorderError` if the server leaves before."""
        message = msgspec.json.encode({"type": "response.create", **request})
        self._writer.write(encode_frame("text", message, mask=os.urandom(MASK_BYTES)))
        received: list[bytes] = []
        while not received or request_object(received[-1]).get("type") not in TERMINAL:
            data = await self._reader.read(READ_BYTES)
            if not data:
                raise RecorderError("The server has ended the WebSocket connection in mid-answer.")
            parts = self._parser.feed(data)
            received += [part.payload for part in parts if isinstance(part, Message) and part.opcode == "text"]
        return received


@asynccontextmanager
async def connected(host: str, port: int, path: str) -> AsyncIterator[DemoClient]:
    """Connect for the length of the block, and close properly. Raises `RecorderError` if the server refuses."""
    reader, writer = await asyncio.open_connection(host, port, limit=HEAD_LIMIT)
    key = b64encode(os.urandom(KEY_BYTES)).decode()
    head = [f"GET {path} HTTP/1.1", f"Host: {host}:{port}", "Connection: Upgrade", "Upgrade: websocket"]
    head += ["Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}", "", ""]
    writer.write("\r\n".join(head).encode())
    try:
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 101 "):
            raise RecorderError(f"The server refuses the WebSocket connection: {answer.splitlines()[0].decode()}")
        yield DemoClient(reader, writer)
        writer.write(encode_close(1000, mask=os.urandom(MASK_BYTES)))
        while await reader.read(READ_BYTES):
            pass
    finally:
        writer.close()
