"""A dialect as data: `[dialect.NAME]` in `recorder.toml`, for the stream of one's own application.

A declaration names the routes, where the type of an event is, and for types what they mean with the
path of the value. `parse` makes an ordinary `Dialect` of it. Raises `ValueError`, in one sentence
with the place, for what it cannot be. Must not know: files, and where a declaration stands.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Literal

from recorder.wire.dialects.declared.decoder import (
    MEANINGS,
    Declaration,
    DeclaredDecoder,
    DeclaredKeys,
)
from recorder.wire.dialects.dialect import Dialect, Ending, ResponseFields, ResponseRoutes
from recorder.wire.dialects.json_values import names
from recorder.wire.dialects.keys import ERROR

DECLARED = "declared"
"""The profile of `recorder lint` that judges a declaration by what was recorded."""

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_ROUTE = re.compile(r"([A-Z]+|\*) (/\S*)")
_PLACES = names("session model call")  # paths that are looked at in every payload
_COUNTS: Mapping[str, str] = {
    "input": "input_tokens",
    "cached": "cache_read_input_tokens",
    "output": "output_tokens",
    "reasoning": "reasoning_output_tokens",
}
_KNOWN = ("routes", "type", *sorted(_PLACES), "tokens", *MEANINGS, "ignored")


def parse(name: str, given: Any, taken: Collection[str]) -> Dialect:
    """Return the dialect that a table declares; `taken` are names of others."""
    where = f"[dialect.{name}]"
    if not _NAME.fullmatch(name) or name in taken:
        raise ValueError(
            f"{where} cannot be called that: use a-z, 0-9 and '-', and not {', '.join(sorted(taken))}."
        )
    table = _table(where, given)
    if unknown := sorted(table.keys() - {*_KNOWN}):
        raise ValueError(f"{where} has no setting {unknown[0]!r}; there are {', '.join(_KNOWN)}.")
    declaration = Declaration(
        type_places=tuple(_words(where, "type", table.get("type", ["event"]))),
        rules=_rules(where, table),
        ignored=frozenset(_words(where, "ignored", table.get("ignored", []))),
        counts={
            _COUNTS[count]: path for count, path in _texts(where, "tokens", table, _COUNTS).items()
        },
        **{place: _path(where, place, table[place]) for place in _PLACES if place in table},
    )
    ends = _terminal(declaration)
    given_routes = _words(where, "routes", table.get("routes", []))
    routes = [_route(where, each) for each in given_routes]
    if not routes:
        raise ValueError(f'{where} needs routes, for example routes = ["POST /api/chat"].')
    pattern = re.compile("|".join(routes))
    usual = re.sub(r"\*|\{session\}", "any", given_routes[0].partition(" ")[2])
    return Dialect(
        name=name,
        routes=pattern,
        keys=DeclaredKeys(declaration),
        decoder=partial(DeclaredDecoder, declaration),
        terminal=ends,
        needs_terminal="completed" in ends.values(),
        response_routes=ResponseRoutes(pattern) if pattern.groups else None,
        session_fields=(".".join(declaration.session),) if declaration.session else (),
        fields=ResponseFields(texts=_text_paths(declaration)),
        profiles=(DECLARED,),
        is_of_app=True,
        target=lambda is_document, payloads: usual,
    )


def _table(where: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise ValueError(f"{where} must be a table.")
    return given


def _words(where: str, name: str, given: Any) -> list[str]:
    values = [given] if isinstance(given, str) else given
    if not isinstance(values, list) or not all(isinstance(each, str) and each for each in values):
        raise ValueError(f"{where}: `{name}` is a text, or a list of texts.")
    return values


def _texts(
    where: str, name: str, table: Mapping[str, Any], known: Collection[str]
) -> Mapping[str, tuple[str, ...]]:
    found = _table(f"{where}: `{name}`", table.get(name, {}))
    if unknown := sorted(found.keys() - {*known}):
        raise ValueError(f"{where}: `{name}` has no {unknown[0]!r}; there are {', '.join(known)}.")
    return {key: _path(where, f"{name}.{key}", path) for key, path in found.items()}


def _path(where: str, name: str, given: Any) -> tuple[str, ...]:
    """Return a path: names of members with dots between; a list of types has none."""
    if not isinstance(given, str) or (given and "" in given.split(".")):
        raise ValueError(
            f'{where}: `{name}` is a path of members with dots between, such as "choice.text".'
        )
    return tuple(given.split(".")) if given else ()


def _rules(
    where: str, table: Mapping[str, Any]
) -> Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]]:
    """Return by type what it means, in the order of `MEANINGS`, with the paths of the values."""
    rules: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for meaning in MEANINGS:
        by_type = _table(f"{where}: `{meaning}`", table.get(meaning, {}))
        for type, path in by_type.items():
            found = _path(where, f"{meaning}.{type}", path)
            if not found and not (type and meaning in ("end", "error")):
                raise ValueError(f"{where}: `{meaning}.{type}` needs the path of its value.")
            rules.setdefault(type, []).append((meaning, found))
    if not rules:
        raise ValueError(
            f'{where} gives no type a meaning, for example text = {{"message.delta" = "text"}}.'
        )
    return {type: tuple(found) for type, found in rules.items()}


def _terminal(declaration: Declaration) -> Mapping[str, Ending]:
    ends: dict[str, Ending] = {ERROR: "failed"}
    verdicts: Mapping[str, Literal["completed", "failed"]] = {"end": "completed", "error": "failed"}
    for type, rules in declaration.rules.items():
        for meaning, _ in rules:
            if type and meaning in verdicts:
                ends[type] = verdicts[meaning]
    return ends


def _text_paths(declaration: Declaration) -> tuple[str, ...]:
    paths = []
    for rules in declaration.rules.values():
        paths += [".".join(path) for meaning, path in rules if meaning in ("text", "reasoning")]
    return tuple(dict.fromkeys(paths))


def _route(where: str, given: str) -> str:
    """Return the pattern of a route: `*` is one part of a path, `{session}` is one that names the
    session.
    """
    found = _ROUTE.fullmatch(given)
    if found is None or given.count("{session}") > 1:
        raise ValueError(
            f'{where}: the route {given!r} is not like "GET /api/stream/*/{{session}}".'
        )
    method = "[A-Z]+" if found[1] == "*" else found[1]
    path = re.escape(found[2]).replace(r"\*", "[^/]+").replace(r"\{session\}", "([^/]+)")
    return f"^{method} (?:/[a-z][a-z0-9-]*)?{path}$"
