"""Fields that differ between two answers which are the same otherwise: each dialect lists its own, with reasons.

A path is where the API itself puts the field: a field of the same name in the arguments of a call, in the text of a
user or in a list of models is not noise. The noise of requests is in `recorder.replay.matching.noise_rules`; what a
response echoes of it is noise here too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from recorder.wire.dialects import DIALECTS, by_name
from recorder.wire.dialects.dialect import Noise

KINDS: frozenset[str] = frozenset(get_args(Noise))

SECRETS: frozenset[str] = frozenset().union(*(dialect.fields.ciphertexts for dialect in DIALECTS))
"""Ciphertext, wherever a field has such a name: only its length counts, whatever is asked for."""

REDACTED_BLOCKS = tuple(filter(None, (dialect.fields.ciphertext_block for dialect in DIALECTS)))
"""The types of blocks whose `data` is ciphertext. A type that was sent may be a list, which no set takes."""


def noise(api: str, *, is_stream: bool = True) -> Iterator[tuple[str, Noise]]:
    """Yield the paths of an API's noise. Documents of an unknown API have none: a list of models is one."""
    if is_stream or api != "other":
        for field in by_name(api).fields.noise:
            for path in field.paths:
                yield path, field.kind


def in_usage(api: str) -> dict[str, Noise]:
    """Return the names that are noise in a report of tokens."""
    return {path.removeprefix("usage."): kind for path, kind in noise(api) if path.startswith("usage.")}
