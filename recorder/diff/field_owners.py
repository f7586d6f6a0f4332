"""Ownership of the fields of a response by levels, so that one change is reported once.

`answer` and `tools` own the final texts, names and arguments of the items of a response, wherever the stream repeats
them: in deltas, at their end, in the item, in the whole response. `usage` owns the counts. `events` sees all the rest:
these fields are blank at `events`, but only if they have the value that the other level shows. A `.done` that
contradicts its item is an event that differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from recorder.diff.noise import noise
from recorder.replay.matching.noise import Rules
from recorder.wire.dialects import by_name
from recorder.wire.dialects.dialect import Noise

Owner = Literal["said", "argument", "usage", "echo"]
"""Texts and calls; members of what a tool of the provider is called with; counts; what repeats a request's noise."""

Tree = Mapping[str, Any]
"""Steps of paths, `*` for any, to an `Owner`, a kind of noise or a further tree."""


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
