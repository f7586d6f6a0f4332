"""Content codings: request bodies as clients send them, response bodies as providers send them,
flushed per event.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from typing import NamedTuple

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


class Encoder(NamedTuple):
    """A content coding: `flush` returns bytes that decode to all that went in so far, `finish` ends
    it.
    """

    flush: Callable[[bytes], bytes]
    finish: Callable[[], bytes]


def _gzip() -> Encoder:
    deflate = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    return Encoder(
        lambda data: deflate.compress(data) + deflate.flush(zlib.Z_SYNC_FLUSH), deflate.flush
    )


def _br() -> Encoder:
    compressor = brotli.Compressor(quality=4)
    return Encoder(lambda data: compressor.process(data) + compressor.flush(), compressor.finish)


def _zstd() -> Encoder:
    zstandard = zstd.ZstdCompressor()
    return Encoder(lambda data: zstandard.compress(data, zstandard.FLUSH_BLOCK), zstandard.flush)


ENCODERS: dict[str, Callable[[], Encoder]] = {"gzip": _gzip, "br": _br, "zstd": _zstd}

_DECODERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": lambda data: zlib.decompress(data, wbits=zlib.MAX_WBITS | 16),
    "zstd": zstd.decompress,
}


def decode(coding: str, body: bytes) -> bytes:
    """Decode a request body.

    Raises `ValueError` for an unknown coding, and for bytes that are not in it.
    """
    if coding not in _DECODERS:
        raise ValueError(f"content-encoding {coding!r} is not supported")
    try:
        return _DECODERS[coding](body)
    except (zlib.error, zstd.ZstdError) as error:
        raise ValueError(f"the body is not {coding}: {error}") from error
