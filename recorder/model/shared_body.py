"""The recipe in the row of a request body that repeats earlier ones: where its bytes are, run by
run.

A client sends its whole history again with every turn. Of such a body the log keeps what is new,
and where the rest is: in rows of the same session that hold it byte for byte. A run is taken from a
literal only: from the `raw` of a whole body, or from the bytes that a recipe brings along. So a
reader looks up rows once, and never follows a recipe to another.

The event is unchanged, its hash included; only its row is written in another way: `type` is
`shared` where the event has `body`, and `raw` is the recipe.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import msgspec

VERSION = 1

BODY_LIMIT = 2**20  # of the body of a recipe: four times what the recorder cuts bodies into
RUNS = 512  # of a recipe, which has 4 KiB then
SOURCES = 32  # rows that a recipe may need: a reader asks for them at once
LEVEL = 1  # of zlib: half the room for a tenth of a millisecond; more takes longer than it saves

_Version = Annotated[int, msgspec.Meta(ge=VERSION, le=VERSION)]
_Id = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
_Pos = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Start = Annotated[int, msgspec.Meta(ge=0)]
_Length = Annotated[int, msgspec.Meta(ge=1)]


class Recipe(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A request body as runs of bytes.

    As MessagePack, compressed by zlib, it is the `raw` of a row.
    """

    version: _Version
    # exchange and position
    sources: Annotated[list[tuple[_Id, _Pos]], msgspec.Meta(max_length=SOURCES)]
    runs: Annotated[list[tuple[int, _Start, _Length]], msgspec.Meta(max_length=RUNS)]
    """Of which source, 0 being `literal`; from where on; how many bytes."""
    literal: bytes

    def places(self) -> list[tuple[str, int]]:
        """Return the rows that it needs: exchange and position."""
        return [(str(UUID(bytes=exchange)), pos) for exchange, pos in self.sources]

    def body(self, literals: Sequence[bytes]) -> bytes:
        """Return the body.

        `literals` are those of its `places`, in order. Raises `ValueError` if they do not fit.
        """
        held = [self.literal, *literals]
        size_bytes = sum(length for _, _, length in self.runs)
        if size_bytes > BODY_LIMIT:
            raise ValueError("a recipe comes to more than a body has")
        if any(source not in range(len(held)) for source, _, _ in self.runs):
            raise ValueError("a recipe takes bytes from nowhere")
        body = b"".join(
            [held[source][start : start + length] for source, start, length in self.runs]
        )
        if len(body) != size_bytes:
            raise ValueError("a recipe takes bytes that are not there")
        return body


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Recipe).decode


def write_recipe(recipe: Recipe) -> bytes:
    return zlib.compress(_encode(recipe), LEVEL)


def read_recipe(raw: bytes) -> Recipe:
    """Return a recipe. Raises `ValueError` if the bytes are none."""
    inflater = zlib.decompressobj()
    try:
        packed = inflater.decompress(raw, BODY_LIMIT)
        if not inflater.eof or inflater.unused_data:
            raise ValueError(
                "a recipe is not valid (it is cut off, too long, or followed by something)"
            )
        return _decode(packed)
    except (zlib.error, msgspec.MsgspecError, TypeError) as error:
        raise ValueError(f"a recipe is not valid ({error})") from error
