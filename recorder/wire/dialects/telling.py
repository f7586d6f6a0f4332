"""Payloads → facts: what the tellers of all dialects share.

A payload is read twice at most. The few types that make up a stream have a struct of just the fields they need, and a
dialect that has some overrides `event` to try them first (`UNUSUAL` is what that may raise). Everything else, and every
delta that is not as expected, is read as plain JSON, in which any field may be missing or of any type. Nothing in here
raises, on any bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any

import msgspec

from recorder.model.facts import Asked, Fact, Failed, Malformed, Unknown
from recorder.wire.dialects.payload import ERROR, too_deep

Object = Mapping[str, Any]

BIGINT = 2**63

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

UNUSUAL = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

OF_SYSTEM = ("system", "developer")  # roles whose messages are instructions

INSTRUCTIONS_LIMIT = 8
"""Texts of a system prompt that are looked at: clients send one to three, and their first words say what it is for."""

INSTRUCTION_LIMIT = 400  # characters of each: what is looked for stands in its first sentences

_CLIENTS_ELEMENTS = "|".join(
    (
        *("system-reminder", "session_context", "hook_context", "environment_context", "user_instructions"),
        *("subagent_notification", "task-notification", "turn_aborted", "user_shell_command"),
        *("local-command-caveat", "local-command-stdout", "local-command-stderr", "ide_opened_file", "ide_selection"),
    )
)
"""What clients wrap in a person's message that is their own: `<system-reminder>` of Claude Code, `<session_context>` of
Gemini CLI, `<environment_context>` of Codex, …"""

_CLIENTS_OPENING = re.compile(rf"<({_CLIENTS_ELEMENTS})(?:\s[^<>]*)?>")
_BEHIND = re.compile(
    r"\n\n(?:# \*SEARCH/REPLACE block\* Rules:|# File editing rules:|# V4A Diff Format Rules:"
    r"|To suggest changes to a file you MUST return the entire content)"
)
"""How the rules begin that aider sets behind a prompt."""

_OPENING_TAG = re.compile(r"<([A-Za-z_][\w.:-]*)(?:\s[^<>]*)?>")


class Telling:
    """A `Teller` for which a dialect says what a decoded payload means."""

    def event(self, type: str | None, data: bytes) -> Sequence[Fact]:
        """What an event means."""
        if data.strip() == b"[DONE]":
            return ()
        return self._read(data, lambda payload: self.payload(type, payload))

    def document(self, data: bytes) -> Sequence[Fact]:
        """What a response body that is no stream means."""
        return self._read(data, self.whole) if data.strip() else ()

    def payload(self, type: str | None, payload: Any) -> Sequence[Fact]:
        """What the payload of an event means, any JSON."""
        raise NotImplementedError

    def whole(self, payload: Any) -> Sequence[Fact]:
        """What a document means, any JSON."""
        raise NotImplementedError

    def _read(self, data: bytes, meaning: Callable[[Any], Sequence[Fact]]) -> Sequence[Fact]:
        try:
            return meaning(decoded(data))
        except ValueError as error:
            return (Malformed(str(error)[:200]),)


def decoded(data: bytes) -> Any:
    """Any JSON. Raises `ValueError`, whatever it is that cannot be read."""
    if too_deep(data):
        raise ValueError("the JSON nests too deep")
    try:
        return _decode(data)
    except UNUSUAL:
        return _tolerant(data)


def _tolerant(data: bytes) -> Any:
    """What only the standard library reads: half an emoji as an escape, NaN, a byte order mark."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from error


def object_(value: Any) -> Object:
    """`value` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def array(value: Any) -> Sequence[Any]:
    """`value` if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else ()


def objects(value: Any) -> list[Object]:
    """The objects in `value`, if it is an array."""
    return [each for each in array(value) if isinstance(each, dict)]


def text(value: Any) -> str | None:
    """`value` if it is a string."""
    return value if isinstance(value, str) else None


def whole(value: Any) -> int | None:
    """`value` if it is a number without a fraction that fits a bigint; `true` is no number."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and -BIGINT <= value < BIGINT else None


def as_json(value: Any) -> str:
    """`value`, as it was decoded, as JSON text."""
    try:
        return _encode(value).decode()
    except (ValueError, TypeError, msgspec.MsgspecError, RecursionError):
        return json.dumps(value)


def text_or_json(value: Any) -> str:
    """A string as it is, anything else as JSON."""
    return value if isinstance(value, str) else as_json(value)


def failed(payload: Object) -> Failed:
    """An error in any of the shapes that providers have for it: nested, flat, a text, a list of one."""
    error = payload.get("error")
    if isinstance(error, list) and error:
        error = error[0]
    if isinstance(error, str):
        return Failed(text(payload.get("type")), None, error)
    said = object_(error) or payload
    kind = text(said.get("type")) or text(said.get("status"))
    code = said.get("code")
    return Failed(
        kind if kind != ERROR else None,
        None if code is None else str(code),
        text(said.get("message")),
        text(said.get("param")),
    )


def unknown(type: Any) -> Unknown:
    """A type that nobody here knows, as far as it can be named."""
    return Unknown(str(type)[:200] if type else "(no type)")


def request_object(body: bytes) -> Object:
    """The JSON object that a request body is, else an empty one."""
    try:
        return object_(decoded(body)) if body else {}
    except ValueError:
        return {}


def is_element(said: str) -> bool:
    """Whether a text is one `<environment_context>…</environment_context>` or its like: a client says that itself."""
    said = said.strip()
    opening = _OPENING_TAG.match(said)
    closing = f"</{opening[1]}>" if opening else ""
    return opening is not None and said.find(closing) == len(said) - len(closing)


def own_words(said: str) -> str:
    """What a person says in a text, without the elements of clients and what clients set behind it."""
    kept, at, unclosed = [], 0, set()
    for opening in _CLIENTS_OPENING.finditer(said):
        closing = f"</{opening[1]}>"
        if opening.start() < at or closing in unclosed:
            continue
        end = said.find(closing, opening.end())
        if end < 0:
            unclosed.add(closing)  # nor has a later one: each name is searched for once
            continue
        kept.append(said[at : opening.start()])
        at = end + len(closing)
    own = "".join([*kept, said[at:]]).strip() if at else said
    found = _BEHIND.search(own)
    return own[: found.start()] if found else own


def heard(messages: Sequence[Sequence[str]], last: int) -> tuple[str | None, bool]:
    """The last thing that a person says in a request, and whether it ends with that.

    Of each of the user's messages the texts; one without any is a picture or a file, which a person sends too. The
    request ends with the last so many of them. What is wholly an element a client may say itself: it is a person's
    only where nothing else is said beside it, as a prompt may be one, `<article>…</article>`.
    """
    begun, ending = messages[: len(messages) - last], messages[len(messages) - last :]
    ends_with_other = last > 0 and not messages[-1]
    if (words := _words(ending)) is not None:
        return words, True
    return _words(begun), ends_with_other


def _words(messages: Sequence[Sequence[str]]) -> str | None:
    """The last own words of some messages: an element only if they have no others."""
    element: str | None = None
    for texts in reversed(messages):
        for own in map(own_words, reversed(texts)):
            if own.strip():
                if not is_element(own):
                    return own
                element = element or own
    return element


def at_end(messages: Sequence[Object], is_users: Callable[[Object], bool]) -> int:
    """How many of the user's messages a request ends with; what the system says behind them does not count."""
    said = (message for message in reversed(messages) if message.get("role") not in OF_SYSTEM)
    return sum(1 for _ in takewhile(is_users, said))


def instructions(texts: Iterable[Any]) -> tuple[str, ...]:
    """How the first texts of a system prompt begin."""
    found = (each.lstrip()[:INSTRUCTION_LIMIT] for each in texts if isinstance(each, str))
    return tuple(islice(found, INSTRUCTIONS_LIMIT))


def no_request(path: str, body: bytes) -> Asked:
    """`Dialect.asked` where requests are not understood."""
    return Asked()
