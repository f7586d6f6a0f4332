"""Ownership of the fields of a response by levels, so that one change is reported once.

`answer` and `tools` own the final texts, names and arguments of the items of a response, wherever the stream repeats
them: in deltas, at their end, in the item, in the whole response. `usage` owns the counts. `events` sees all the rest:
these fields are blank at `events`, but only if they have the value that the other level shows. A `.done` that
contradicts its item is an event that differs.

Noise are fields that differ between two answers which are the same otherwise: each dialect lists its own, with reasons.
A path is where the API itself puts the field: a field of the same name in the arguments of a call, in the text of a
user or in a list of models is not noise. The noise of requests is in `recorder.replay.matching.noise_rules`; what a
response echoes of it is noise here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

from recorder.replay.matching.noise import Rules
from recorder.wire.dialects import DIALECTS, by_name
from recorder.wire.dialects.dialect import Noise

Owner = Literal["said", "argument", "usage", "echo"]
"""Texts and calls; members of what a tool of the provider is called with; counts; what repeats a request's noise."""

Tree = Mapping[str, Any]
"""Steps of paths, `*` for any, to an `Owner`, a kind of noise or a further tree."""

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


def owned(api: str, rules: Rules, *, is_stream: bool = True) -> Tree:
    """Return the fields of an API's payloads that `events` does not own, and those that are noise."""
    tree: dict[str, Any] = {}
    fields = by_name(api).fields
    for path, kind in noise(api, is_stream=is_stream):
        _plant(tree, (path,), kind)
    _plant(tree, fields.texts, "said")
    _plant(tree, fields.arguments, "argument")
    _plant(tree, fields.usage, "usage")
    _plant(tree, (f"response.{rule.what}" for rule in rules.rules if rule.kind == "fields"), "echo")
    return tree


def _plant(tree: dict[str, Any], paths: Iterable[str], owner: Owner | Noise) -> None:
    for path in paths:
        *steps, last = path.split(".")
        branch: Any = tree
        for step in steps:
            below = branch.setdefault(step, {})
            if not isinstance(below, dict):  # a text, or a list of parts that have texts
                below = branch[step] = {"": below}
            branch = below
        if isinstance(branch.get(last), dict):
            branch[last][""] = owner
        else:
            branch[last] = owner
