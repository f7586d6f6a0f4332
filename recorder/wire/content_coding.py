"""Content codings (RFC 9110 section 8.4), undone on a copy, a bounded piece at a time.

The client always gets the bytes as the upstream sent them; this is for the record only. A decoder
gives up rather than grow: on damage, on a coding it does not know, on a body that inflates beyond
reason.
"""

from __future__ import annotations

import codecs
import re
import sys
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Protocol

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# of input and of output at a time, so that a bomb costs time and never memory
PIECE_BYTES = 64 * 1024
BOMB_BYTES = 8 * 2**20  # below this much output no ratio is suspicious
BOMB_RATIO = 100  # real streams deflate 3 to 20 times
CODINGS_LIMIT = 4  # of one body: more than two nobody uses, and each may inflate
ZSTD_WINDOW_LOG = 23  # 8 MiB: RFC 9659 section 3 forbids more in HTTP
# of input without output: the blocks of zstd have at most 128 KiB, and no file name is so long
SILENT_BYTES = 2**20


class UndecodableError(Exception):
    """The body cannot be decoded in its coding, or inflates beyond the limits.

    `rest` is the part that was not decoded, as it was sent.
    """

    def __init__(self, reason: str, rest: bytes = b"") -> None:
        super().__init__(reason)
        self.rest = rest


class _Codec(Protocol):
    """One compressed member.

    `decode` yields output; `left` is input after its end, `None` before its end.
    """

    left: bytes | None

    def decode(self, data: bytes) -> Iterator[bytes]: ...


class _Zlib:
    def __init__(self, wbits: int) -> None:
        self._inflate = zlib.decompressobj(wbits)
        self.left: bytes | None = None

    def decode(self, data: bytes) -> Iterator[bytes]:
        while True:
            piece = self._inflate.decompress(data, PIECE_BYTES)
            data = self._inflate.unconsumed_tail
            if piece:
                yield piece
            if self._inflate.eof:
                self.left = self._inflate.unused_data
                return
            if not data and len(piece) < PIECE_BYTES:
                return


class _Brotli:
    def __init__(self) -> None:
        self.left: bytes | None = None
        self._decompressor = brotli.Decompressor()

    def decode(self, data: bytes) -> Iterator[bytes]:
        piece = self._decompressor.process(data, output_buffer_limit=PIECE_BYTES)
        while piece or not self._decompressor.can_accept_more_data():
            if piece:
                yield piece
            piece = self._decompressor.process(b"", output_buffer_limit=PIECE_BYTES)
        if self._decompressor.is_finished():
            self.left = b""


class _Zstd:
    def __init__(self) -> None:
        options = {int(zstd.DecompressionParameter.window_log_max): ZSTD_WINDOW_LOG}
        self._decompressor = zstd.ZstdDecompressor(options=options)
        self.left: bytes | None = None

    def decode(self, data: bytes) -> Iterator[bytes]:
        while True:
            piece = self._decompressor.decompress(data, PIECE_BYTES)
            data = b""
            if piece:
                yield piece
            if self._decompressor.eof:
                self.left = self._decompressor.unused_data
                return
            if self._decompressor.needs_input:
                return


def _deflate(opening: bytes) -> _Codec:
    """Return the codec of `deflate`: zlib by the standard and bare deflate by some servers, as the
    first byte shows.
    """
    return _Zlib(zlib.MAX_WBITS if opening[0] & 0x0F == 8 else -zlib.MAX_WBITS)


_CODECS: dict[str, Callable[[bytes], _Codec]] = {
    "gzip": lambda opening: _Zlib(zlib.MAX_WBITS | 16),
    "x-gzip": lambda opening: _Zlib(zlib.MAX_WBITS | 16),
    "deflate": _deflate,
    "br": lambda opening: _Brotli(),
    "zstd": lambda opening: _Zstd(),
}
"""By their names, the makers of codecs for a body that begins so, which is not empty."""

CODINGS = frozenset(_CODECS)
"""The names of the codings that can be undone."""

_NO_CODINGS = frozenset(
    {
        *(
            "",
            "identity",
            "none",
            "null",
            "binary",
            "raw",
            "plain",
            "text",
            "uncompressed",
            "7bit",
            "8bit",
        ),
        *("utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "chunked"),
    }
)
"""Words that servers write into `Content-Encoding`, of which clients make nothing: the body is
plain.
"""

_OPENING_BYTES = 16
"""Bytes that show whether a body under an unknown word is a text: every compressed format that has
a name has others among its first."""

_CONTROLS = re.compile(rb"[^\t\n\r\x20-\x7e\x80-\xff]")

_ZLIB_CODINGS = ("gzip", "x-gzip", "deflate")
"""Codings behind whose end clients leave out what is not a further member: httpx, urllib3, node and
curl do.
"""

_MAGIC = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}
_FAILURES = (zlib.error, brotli.error, zstd.ZstdError, EOFError)


class Decoder:
    """A body in one coding, undone as it arrives.

    `coding` is the value of `Content-Encoding`, or `None`. With `sniff`, an unlabelled body that
    begins with the magic number of gzip or zstd is decoded. If nothing of it can be decoded, it is
    a plain body that only begins with these bytes.
    """

    def __init__(self, coding: str | None, *, sniff: bool = False) -> None:
        self.coding = ", ".join(_real(coding or "")) or None
        # of a body in a coding that nobody here knows: it may be plain
        self._opening: bytes | None = b""
        if self.coding is None or self.coding in _CODECS:
            self._opening = None
        self._has_member = False  # one has come to its end
        self._between = b""  # behind a member, too short to tell whether another one follows
        # what no client takes for content, behind the last member; the caller empties it
        self.left_out = bytearray()
        self._is_over = False  # all that follows is left out
        self._sniffing = b"" if sniff and self.coding is None else None
        self._is_guess = False  # no header names the coding, and nothing has come out of it yet
        self._codec: _Codec | None = None
        self._in_bytes = self._out_bytes = 0
        self._silent = bytearray()  # input that has given no output yet

    @property
    def is_plain(self) -> bool:
        """Return whether all bytes from now on are the body itself, in no coding."""
        return self.coding is None and self._sniffing is None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield decoded pieces of a chunk, each at most `PIECE_BYTES` if it was coded.

        Raises `UndecodableError`.
        """
        if self._sniffing is not None:
            data = self._sniff(self._sniffing + data)
        if self._opening is not None:
            data = self._open(self._opening + data)
        if self.coding is None:
            return iter((data,) if data else ())
        return self._decode(data)

    def close(self) -> bytes:
        """End the body; returns what a sniffer still held back.

        Raises `UndecodableError` if the coding ends in the middle of something.
        """
        if self._codec is not None:
            silent, self._codec = bytes(self._silent), None
            if self._is_guess:
                return self._as_plain(silent)
            raise UndecodableError(f"the body ends in mid-{self.coding}", silent)
        self.left_out += self._between
        held, self._sniffing = self._sniffing or b"", None
        if self._opening:
            held = self._opening
            if not _is_text(held):
                raise UndecodableError(f"the coding {self.coding!r} is not known", held)
            self.coding = None
        return held

    def _open(self, data: bytes) -> bytes:
        """Return what is there of a body under an unknown word, once it shows whether it is a text."""
        is_short = len(data) < _OPENING_BYTES
        self._opening = data if is_short else None
        if not is_short and _is_text(data[:_OPENING_BYTES]):
            self.coding = None
        return b"" if is_short else data

    def _sniff(self, data: bytes) -> bytes:
        for coding, magic in _MAGIC.items():
            if data.startswith(magic):
                self.coding, self._sniffing, self._is_guess = coding, None, True
                return data
        if any(magic.startswith(data) for magic in _MAGIC.values()):
            self._sniffing = data
            return b""
        self._sniffing = None
        return data

    def _decode(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), PIECE_BYTES):
            # also of the piece before, whose last byte it was
            between, self._between = self._between, b""
            left = between + data[start : start + PIECE_BYTES]
            try:
                while left:
                    left = yield from self._decode_member(left)
            except UndecodableError as error:
                self._codec = None
                error.rest += data[start + PIECE_BYTES :]
                if not self._is_guess:
                    raise
                yield self._as_plain(error.rest)
                return

    def _as_plain(self, data: bytes) -> bytes:
        """Take the body so far, of which nothing could be decoded, for one that was never coded."""
        self.coding, self._is_guess = None, False
        self._silent.clear()
        return data

    def _decode_member(self, data: bytes) -> Generator[bytes, None, bytes]:
        """Decode up to the end of a gzip member or zstd frame, which others may follow; returns
        what is left.
        """
        if self.coding not in _CODECS:
            raise UndecodableError(f"the coding {self.coding!r} is not known", data)
        if self._is_behind(data):
            return b""
        codec = self._codec = self._codec or _CODECS[self.coding](data)
        self._in_bytes += len(data)
        self._silent += data
        try:
            for piece in codec.decode(data):
                self._is_guess = False
                self._silent.clear()
                self._out_bytes += len(piece)
                if self._out_bytes > max(BOMB_BYTES, BOMB_RATIO * self._in_bytes):
                    raise UndecodableError("the body inflates beyond reason", data)
                yield piece
        except _FAILURES as error:
            raise UndecodableError(
                f"not {self.coding}: {error}", bytes(self._silent) or data
            ) from error
        left = codec.left
        if left is not None:
            self._codec, self._has_member = None, True
            if self._is_guess:
                del self._silent[len(self._silent) - len(left) :]  # they are the next member's
            else:
                self._silent.clear()
        if len(self._silent) > SILENT_BYTES:
            reason = f"{self.coding} without any content in {len(self._silent)} bytes"
            raise UndecodableError(reason, bytes(self._silent) + (left or b""))
        return left or b""

    def _is_behind(self, data: bytes) -> bool:
        """Take what stands behind a member, and is not the next one.

        It is kept, but it is not content.
        """
        is_between = self._has_member and self._codec is None and not self._is_guess
        if not is_between or self.coding not in _ZLIB_CODINGS:
            return False
        magic = b"" if self.coding == "deflate" or self._is_over else _MAGIC["gzip"]
        if magic and data.startswith(magic):
            return False
        if magic and magic.startswith(data):
            self._between = data
        else:
            self._is_over = True
            self.left_out += data
        return True


def _real(value: str) -> list[str]:
    """Return the codings that a header names, in order of their application."""
    named = [coding.strip().lower() for coding in value.split(",")]
    return [coding for coding in named if coding not in _NO_CODINGS]


def _is_text(data: bytes) -> bool:
    """Return whether the beginning of a body is text in UTF-8, perhaps cut in a character."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return _CONTROLS.search(data) is None


def codings(headers: Iterable[tuple[str, str]]) -> list[str]:
    """Return the content codings of a message in the order of their application, from all headers
    that name some.
    """
    values = [value for name, value in headers if name.lower() == "content-encoding"]
    return _real(",".join(values))


def decode(coding: str | None, data: bytes, limit_bytes: int) -> bytes:
    """Decode a whole body.

    Raises `UndecodableError`, also for one that is longer than `limit_bytes`.
    """
    decoder = Decoder(coding)
    pieces: list[bytes] = []
    size = 0
    for piece in decoder.feed(data):
        size += len(piece)
        if size > limit_bytes:
            raise UndecodableError(f"the decoded body is over {limit_bytes} bytes")
        pieces.append(piece)
    pieces.append(decoder.close())  # of a short body in a coding that is not known: it may be plain
    return b"".join(pieces)


def decode_all(codings: Sequence[str], data: bytes, limit_bytes: int) -> bytes:
    """Undo all codings of a whole body, the last one first.

    Raises `UndecodableError` like `decode`.
    """
    if len(codings) > CODINGS_LIMIT:
        raise UndecodableError(f"the body has {len(codings)} codings")
    for coding in reversed(codings):
        data = decode(coding, data, limit_bytes)
    return data
