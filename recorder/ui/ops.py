"""Operations that make one JSON document of another. Pure.

["set", path, value]   put a value there: a key that may be new, or an index that is there
["add", path, text]    append to the text there
["push", path, value]  append to the array there
["cut", path]          remove the key there

A path is a list of keys and indices. An empty path of a `set` replaces the whole document.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Op = list[Any]
Path = tuple[str | int, ...]


def compare(before: Any, after: Any, path: Path, ops: list[Op]) -> None:
    """Append the operations that make `after` of `before`, which stands at a path."""
    if isinstance(before, dict) and isinstance(after, dict):
        _compare_members(before, after, path, ops)
    elif isinstance(before, list) and isinstance(after, list) and len(before) <= len(after):
        for index, value in enumerate(before):
            compare(value, after[index], (*path, index), ops)
        ops.extend(["push", [*path], value] for value in after[len(before) :])
    elif before == after and type(before) is type(after):
        return
    elif isinstance(before, str) and isinstance(after, str) and before and after.startswith(before):
        ops.append(["add", [*path], after[len(before) :]])
    else:
        ops.append(["set", [*path], after])


def _compare_members(
    before: dict[str, Any], after: dict[str, Any], path: Path, ops: list[Op]
) -> None:
    for key in before:
        if key not in after:
            ops.append(["cut", [*path, key]])
    for key, value in after.items():
        if key not in before:
            ops.append(["set", [*path, key], value])
        elif before[key] is not value:
            compare(before[key], value, (*path, key), ops)


def apply(document: Any, ops: Iterable[Sequence[Any]]) -> Any:
    """Return a document after operations, which change it in place.

    Texts that grow are joined once in the end: by itself, each `add` would copy all of its text.
    """
    grown: dict[Path, list[str]] = {}
    for op in ops:
        verb, path = op[0], op[1]
        if verb == "add":
            grown.setdefault(tuple(path), []).append(op[2])
            continue
        for each in [each for each in grown if list(each[: len(path)]) == path] if grown else ():
            join(document, each, grown.pop(each))
        if not path:
            document = op[2]
            continue
        *way, last = path
        holder = member(document, way)
        if verb == "set":
            holder[last] = op[2]
        elif verb == "push":
            holder[last].append(op[2])
        else:
            del holder[last]
    for path, texts in grown.items():
        join(document, path, texts)
    return document


def join(document: Any, path: Iterable[str | int], texts: list[str]) -> None:
    """Append texts to the one at a path."""
    *way, last = path
    holder = member(document, way)
    holder[last] = "".join((holder[last], *texts))


def member(document: Any, path: Iterable[str | int]) -> Any:
    """Return what is at a path."""
    for key in path:
        document = document[key]
    return document
