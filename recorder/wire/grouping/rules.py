"""Values by which requests name their sessions and clients: rules as data, the first that finds
something wins.

Clients rename their headers (twice in 2026 alone), so a rule is one line of a table: the client,
the place of the value, and its form. This file has no table. Never raises, whatever the client
sent.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

import msgspec

from recorder.model.events import Header
from recorder.model.text import rows
from recorder.wire.dialects.json_values import too_deep

BODY_LIMIT = 16 * 1024 * 1024
"""Larger bodies are not searched: agents send 40 to 70 KB, and what is larger carries files, not
sessions.
"""

NAME_LIMIT = 200
"""Characters of a name: ids have at most 64, and a name should fit a line of a terminal."""

MATCH_LIMIT = 4096
"""Characters that a pattern is tried on: a regular expression may take quadratic time, and a client
may be hostile.
"""


class ValueRule(msgspec.Struct, frozen=True):
    """The place of a value: `header.<name>` or `body.<field>`, and on into JSON with `.<field>`,
    also inside texts.

    The rule counts for clients whose User-Agent begins with one of `agents` (lower case) or that
    send the header `marker`; for all of them if it names neither. With a `pattern`, its first group
    is the value.
    """

    name: str
    value: str
    agents: tuple[str, ...] = ()
    marker: str | None = None
    pattern: str | None = None


def value_rules(table: str) -> tuple[ValueRule, ...]:
    """Return the rules of a table: in a row a name, a place, and more where it is needed.

    That is `agents=…`, with commas between, `marker=…` and `pattern=…`.
    """
    found = []
    for name, value, *more in map(str.split, rows(table)):
        options: dict[str, Any] = dict(each.split("=", 1) for each in more)
        if "agents" in options:
            options["agents"] = tuple(options["agents"].split(","))
        found.append(ValueRule(name, value, **options))
    return tuple(found)


def headers(rules: Iterable[ValueRule]) -> frozenset[str]:
    """Return the headers that rules look at, in lower case."""
    found = [(rule.value.split("."), rule.marker) for rule in rules]
    return frozenset(
        [where[1] for where, _ in found if where[0] == "header"]
        + [marker for _, marker in found if marker]
    )


def first(rules: Iterable[ValueRule], request: Claims) -> tuple[ValueRule | None, str | None]:
    """Return the first rule that finds a value, and the value."""
    for rule in rules:
        if value := request.value(rule):
            return rule, value
    return None, None


class Claims:
    """A request's headers and body, as the rules look at them."""

    def __init__(
        self, headers: Sequence[Header], body: bytes | None = None, *, is_message: bool = False
    ) -> None:
        """`is_message`: it was sent over WebSocket.

        The headers are those of the connection then, and Codex repeats in each request, as
        `client_metadata`, what its headers would say of that one: `session_id` for `session-id`.
        """
        self.headers = {name.lower(): value for name, value in reversed(headers)}
        self._agent = self.headers.get("user-agent", "").lower()
        self._raw_body = body
        if is_message:
            claimed = _members(self._body.get("client_metadata", b""))
            said = (
                (name.lower().replace("_", "-"), _leaf(value)) for name, value in claimed.items()
            )
            self.headers |= {name: value for name, value in said if value is not None}

    def is_from(self, rule: ValueRule) -> bool:
        """Return whether the rule is for this client."""
        anyone = not rule.agents and rule.marker is None
        return anyone or rule.marker in self.headers or self._agent.startswith(rule.agents)

    def value(self, rule: ValueRule) -> str | None:
        """Return the value that the rule finds, if it is for this client."""
        origin, field, path = _place(rule.value)
        given = (self._body if origin == "body" else self.headers).get(field)
        if given is None or not self.is_from(rule):
            return None
        if isinstance(given, bytes):
            found = _inside(given, path)
        else:
            header = _utf8(given)
            found = _inside(header.encode(), path) if path else header
        if found is not None and rule.pattern is not None:
            match = re.fullmatch(rule.pattern, found) if len(found) <= MATCH_LIMIT else None
            found = match[1] if match else None
        return cleaned(found)

    @cached_property
    def _body(self) -> Mapping[str, bytes]:
        body = self._raw_body
        return _members(body) if body and len(body) <= BODY_LIMIT else {}


@cache
def _place(value: str) -> tuple[str, str, Sequence[str]]:
    """Return where a rule finds its value: `header` or `body`, the name there, and the path on into
    JSON.
    """
    origin, field, *path = value.split(".")
    return origin, field, path


_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_leaf = msgspec.json.Decoder(str | int).decode


def _inside(document: bytes, path: Iterable[str]) -> str | None:
    """Return the text or number at `path` in a JSON document; a text on the way is itself read as
    JSON.
    """
    for field in path:
        opened = _leaf(document) if document.startswith(b'"') else None
        document = _members(document if opened is None else opened.encode()).get(field, b"")
    return _leaf(document)


def _leaf(document: bytes) -> str | None:
    try:
        return str(_decode_leaf(document))
    except (msgspec.DecodeError, ValueError):
        return None


def _members(document: bytes) -> Mapping[str, bytes]:
    """Return the members of a JSON object, still encoded: an agent's whole history is skipped, not
    built.
    """
    if not document.lstrip().startswith(b"{") or too_deep(document):
        return {}
    try:
        return {name: bytes(value) for name, value in _decode_members(document).items()}
    except (msgspec.DecodeError, ValueError, RecursionError):
        return _members_with_lone_surrogates(document)


def _members_with_lone_surrogates(document: bytes) -> Mapping[str, bytes]:
    """Return the members of JSON that only the standard library reads: half an emoji, somewhere in
    a long history.
    """
    try:
        return {name: json.dumps(value).encode() for name, value in json.loads(document).items()}
    except (ValueError, RecursionError):
        return {}


def _utf8(header: str) -> str:
    """Return a header's value as text: latin-1 to HTTP, UTF-8 to most who put anything but ASCII
    there.
    """
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header.encode("utf-8", "replace").decode()


def cleaned(name: str | None) -> str | None:
    """Return `name` as a column and a terminal can hold it, or `None` if nothing is left of it."""
    text = (name or "")[: 4 * NAME_LIMIT]
    if not (text.isascii() and text.isprintable()):
        text = "".join(
            character for character in text if unicodedata.category(character) not in _UNSEEN
        )
    return text.strip()[:NAME_LIMIT] or None


# control, format (bidi), surrogate, line and paragraph separator
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
