"""All chance of one reply, from one seed: ids, padding, pauses, and how text falls into deltas."""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Iterator
from random import Random

# 2026-11-20: replies are dated from here by their number, so that a run can be repeated
EPOCH = 1_795_132_800

_LETTERS = string.ascii_letters + string.digits
_TOKEN = re.compile(r"\s*\S{1,8}|\s+")

PAUSES_S = {
    "none": (0.0, 0.0),  # sent together with the event before it
    "first": (0.200, 0.400),  # time to the first event
    "token": (0.015, 0.040),
    "think": (0.300, 0.450),  # between thinking and speaking
    "search": (0.250, 0.400),
}


def tokens(text: str) -> list[str]:
    """Split text into pieces about as long as a model's tokens; they concatenate to the text."""
    return _TOKEN.findall(text)


class Dice:
    """The dice of reply number `seed`: the same seed always throws the same."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.created = EPOCH + 7 * seed

    def hex(self, prefix: str, length: int = 50) -> str:
        """Return an id in the manner of the Responses API: `msg_0a9a71e1…`."""
        return f"{prefix}{self._random.getrandbits(4 * length):0{length}x}"

    def name(self, prefix: str, length: int = 24) -> str:
        """Return an id of letters and digits: `call_Z22A2KgxWHH4160txiDlsuCd`."""
        return prefix + "".join(self._random.choices(_LETTERS, k=length))

    def base64(self, size: int) -> str:
        """Return random bytes in base64, for what only a provider can read: a signature, encrypted
        reasoning.
        """
        return base64.b64encode(self._random.randbytes(size)).decode()

    def padding(self) -> str:
        """Return up to 15 spaces, which hide how long a delta is."""
        return " " * self._random.randrange(16)

    def obfuscation(self, text: str) -> str:
        """Return letters that bring `text` to a multiple of 16, for the same purpose."""
        return self.name("", 16 - len(text) % 16)

    def pause(self, kind: str) -> float:
        """Return the seconds before an event of that kind, see `PAUSES_S`."""
        return self._random.uniform(*PAUSES_S[kind])

    def deltas(self, text: str, most: int = 1) -> Iterator[tuple[float, str]]:
        """Yield `text` as (pause, delta), up to `most` tokens a delta; a longer delta takes longer
        to think of.
        """
        rest = tokens(text)
        while rest:
            size = self._random.randint(1, most)
            yield sum(self.pause("token") for _ in rest[:size]), "".join(rest[:size])
            rest = rest[size:]
