"""`recorder.wire.content_coding`: the copy is decoded as it arrives, in bounded memory, or it is
given up.
"""

from __future__ import annotations

import contextlib
import gzip
import random
import time
import tracemalloc
import zlib
from collections.abc import Callable
from functools import partial

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.wire.content_coding import (
    PIECE_BYTES,
    SILENT_BYTES,
    Decoder,
    UndecodableError,
    decode,
)
from tests.support.tables import table
from tests.support.zstandard import zstd


def raw_deflate(data: bytes) -> bytes:
    coder = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return coder.compress(data) + coder.flush()


CODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZip ": gzip.compress,
    "deflate": zlib.compress,
    "br": partial(brotli.compress, quality=4),  # the best of 200 MiB takes ten seconds
    "zstd": zstd.compress,
}
every_coding = table(("coding", "coder"), [*CODERS.items(), ("deflate", raw_deflate)])
TEXT = b"data: the quick brown fox\n\n" * 500 + bytes(range(256)) * 20


def decoded(decoder: Decoder, chunks: list[bytes]) -> bytes:
    return b"".join(piece for chunk in chunks for piece in decoder.feed(chunk)) + decoder.close()


@every_coding
@table("size", [1, 7, 100_000])
def test_every_coding_is_undone_in_any_chunking(
    coding: str, coder: Callable[[bytes], bytes], size: int
) -> None:
    wire = coder(TEXT)
    assert decoded(Decoder(coding), [wire[i : i + size] for i in range(0, len(wire), size)]) == TEXT


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_members_that_follow_one_another_are_one_body(coding: str) -> None:
    wire = CODERS[coding](b"one") + CODERS[coding](b"two")
    assert decode(coding, wire, 100) == b"onetwo"
    assert decoded(Decoder(coding), [wire[i : i + 1] for i in range(len(wire))]) == b"onetwo"
    for size in range(65_525, 65_545):  # of a first member that ends about where a piece does
        first = bytes(random.Random(size).choices(range(256), k=size))
        assert (
            decode(coding, CODERS[coding](first) + CODERS[coding](b"two"), 100_000)
            == first + b"two"
        )


@pytest.mark.parametrize("coding", ["gzip", "zstd", "br"])
def test_what_was_flushed_is_there_before_the_body_ends(coding: str) -> None:
    """Providers flush after each event; a live view must not wait for the end."""
    if coding == "gzip":
        deflate = zlib.compressobj(wbits=31)
        wire = deflate.compress(b"event one") + deflate.flush(zlib.Z_SYNC_FLUSH)
    elif coding == "zstd":
        compressor = zstd.ZstdCompressor()
        wire = compressor.compress(b"event one", compressor.FLUSH_BLOCK)
    else:
        pieces = brotli.Compressor()
        wire = pieces.process(b"event one") + pieces.flush()
    assert b"".join(Decoder(coding).feed(wire)) == b"event one"


@every_coding
def test_a_truncated_body_gives_what_was_there_and_the_rest_as_it_was_sent(
    coding: str, coder: Callable[[bytes], bytes]
) -> None:
    noise = random.Random(1).randbytes(50_000)
    wire = coder(noise)[:30_000]
    decoder = Decoder(coding)
    found = b"".join(decoder.feed(wire))
    assert noise.startswith(found)
    with pytest.raises(UndecodableError, match="ends in mid-") as caught:
        decoder.close()
    assert found or caught.value.rest == wire
    assert wire.endswith(caught.value.rest)


@table("size", [1, 7, 1_000])
@table("rest", [b"\0\0\0\0xyz", b"\0", b"\x1f", b"\x1fx", b"data: x\n\n" * 20])
@table("coding", ["gzip", "x-gzip", "deflate"])
def test_what_is_no_member_behind_one_is_left_out(coding: str, rest: bytes, size: int) -> None:
    decoder, wire = Decoder(coding), CODERS[coding](b"text") + rest
    assert decoded(decoder, [wire[i : i + size] for i in range(0, len(wire), size)]) == b"text"
    assert decoder.left_out == rest
    guessed = Decoder(None, sniff=True)
    assert decoded(guessed, [gzip.compress(b"text"), b"\0\0"]) == b"text"
    assert guessed.left_out == b"\0\0"


@pytest.mark.parametrize("coding", ["zstd", "br"])
def test_rubbish_behind_other_codings_is_the_error_that_clients_raise(coding: str) -> None:
    with pytest.raises(UndecodableError) as caught:
        decode(coding, CODERS[coding](b"text") + b"rubbish", 100)
    assert caught.value.rest.endswith(b"rubbish")


@pytest.mark.timed
def test_a_large_body_is_decoded_in_linear_time() -> None:
    """zlib hands its unused input back: with all of the body in it, each piece of output would cost
    a copy of it.
    """
    wire = gzip.compress(random.Random(1).randbytes(48 * 2**20), compresslevel=0)

    def cost(size: int) -> float:
        started = time.process_time()
        with contextlib.suppress(UndecodableError):
            decode("gzip", wire[:size], 64 * 2**20)
        return time.process_time() - started

    # it is 8 if linear, 64 if not
    assert cost(len(wire)) < 20 * max(min(cost(len(wire) // 8) for _ in range(3)), 0.02)


@pytest.mark.parametrize("coding", CODERS)
@given(st.binary(min_size=1, max_size=200))
def test_damage_is_an_error_or_harmless(coding: str, data: bytes) -> None:
    with contextlib.suppress(UndecodableError):
        decode(coding, data, 1 << 20)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_plain_text_under_a_coding_is_undecodable(coding: str) -> None:
    with pytest.raises(UndecodableError):
        decode(
            coding,
            b"data: this is not compressed at all, whatever the header says\n\n" * 3,
            1 << 20,
        )


def test_an_unknown_coding_is_undecodable() -> None:
    for data in (
        b"\xff\x06\0\0sNaPpY",
        b"\xff\x06\0\0sNaPpY" * 9,
        b"BZh91AY&SY" + bytes(20),
        b"\xfd7zXZ\0\0",
    ):
        with pytest.raises(UndecodableError, match="'snappy' is not known") as caught:
            decode("snappy", data, 1_000)
        assert caught.value.rest == data


@table("coding", ["none", "snappy", "gzip, snappy", "utf-8", "x"])
@table(
    "body",
    [b"data: \xc3\xa9\n\n" * 9, b'{"a":\n1}', b"x", b"", b"\xef\xbb\xbf{}", "é".encode() * 9],
)
@table("size", [1, 7, 1_000])
def test_a_text_under_a_word_that_is_no_coding_is_plain(
    coding: str, body: bytes, size: int
) -> None:
    decoder = Decoder(coding)
    assert decoded(decoder, [body[i : i + size] for i in range(0, len(body), size)]) == body
    assert not body or decoder.is_plain


@pytest.mark.parametrize("coding", ["gzip, identity", "none,gzip", " , GZIP ,utf-8"])
def test_a_word_beside_a_coding_means_nothing(coding: str) -> None:
    assert decode(coding, gzip.compress(b"text"), 100) == b"text"


@table(
    "coding", [None, "", "identity", "Identity", "none", "binary", "UTF-8", "identity, identity"]
)
def test_no_coding_changes_nothing(coding: str | None) -> None:
    assert decoded(Decoder(coding), [b"a", b"\x1f\x8b"]) == b"a\x1f\x8b"


@table("coding", ["gzip", "zstd"])
@table("size", [1, 3, 1000])
def test_an_unlabelled_coding_is_recognised(coding: str, size: int) -> None:
    wire = CODERS[coding](TEXT)
    decoder = Decoder(None, sniff=True)
    assert decoded(decoder, [wire[i : i + size] for i in range(0, len(wire), size)]) == TEXT
    assert decoder.coding == coding


@table("start", [b"data: x", b"\x1f", b"\x1fx", b"\x28\xb5\x2f", b"(", b""])
def test_sniffing_loses_nothing(start: bytes) -> None:
    assert (
        decoded(Decoder(None, sniff=True), [start[i : i + 1] for i in range(len(start))]) == start
    )


def test_text_is_not_held_back_by_sniffing() -> None:
    assert list(Decoder(None, sniff=True).feed(b"d")) == [b"d"]


GZIP_HEADER = b"\x1f\x8b\x08\x08\0\0\0\0\0\x03"  # a file name follows, which ends with a NUL
LOOKALIKES = {
    "gzip, only its magic": b"\x1f\x8b",
    "gzip, no header": b"\x1f\x8bdata: x\n\n",
    "gzip, a name that does not end": GZIP_HEADER + b"x" * (SILENT_BYTES + 10 * PIECE_BYTES),
    "gzip, nothing, then text": gzip.compress(b"") * 2 + b"data: x\n\n",
    "gzip, nothing again and again": gzip.compress(b"") * (SILENT_BYTES // 10),
    "zstd, only its magic": b"\x28\xb5\x2f\xfd",
    "zstd, no header": b"\x28\xb5\x2f\xfd\xff\xff\xff\xffdata: x\n\n",
}


@table("size", [1, 7, 1_000_000])
@table("wire", LOOKALIKES.values())
def test_what_only_looks_coded_is_plain(wire: bytes, size: int) -> None:
    decoder = Decoder(None, sniff=True)
    size = max(size, len(wire) // 1_000)
    assert decoded(decoder, [wire[i : i + size] for i in range(0, len(wire), size)]) == wire
    assert decoder.coding is None
    assert decoder.is_plain


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_an_unlabelled_coding_may_begin_with_nothing(coding: str) -> None:
    decoder = Decoder(None, sniff=True)
    assert decoded(decoder, [CODERS[coding](b"") + CODERS[coding](TEXT)]) == TEXT
    assert decoder.coding == coding


def test_a_coding_that_never_gives_anything_is_given_up() -> None:
    with pytest.raises(UndecodableError, match="without any content") as caught:
        list(Decoder("gzip").feed(GZIP_HEADER + b"x" * 10 * SILENT_BYTES))
    assert len(caught.value.rest) == len(GZIP_HEADER) + 10 * SILENT_BYTES


@pytest.mark.long
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_a_bomb_is_given_up_in_bounded_memory(coding: str) -> None:
    wire = CODERS[coding](bytes(200 * 2**20))
    lengths: list[int] = []
    tracemalloc.start()
    try:
        with pytest.raises(UndecodableError, match="inflates beyond reason"):
            lengths.extend(map(len, Decoder(coding).feed(wire)))
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    finally:
        tracemalloc.stop()
    assert 0 < max(lengths) <= 2 * PIECE_BYTES


def test_a_body_over_the_limit_is_undecodable() -> None:
    with pytest.raises(UndecodableError, match="over 1000 bytes"):
        decode("gzip", gzip.compress(bytes(1001)), 1000)
    assert decode("gzip", gzip.compress(bytes(1000)), 1000) == bytes(1000)
