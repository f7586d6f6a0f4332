r"""The rules of a project for its cassettes, besides those of every recording: `recorder_redact` of
the ini file.

    recorder_redact =
        fields:metadata.email
        headers:x-request-id
        parameters:api-version
        text:[\w.]+@[\w.]+

Rules of this file:

* The same is done to what is being recorded (`recorder.testing.clearing`), to recordings and to
  requests: a redacted value never distinguishes two requests, and is in no message.
* A text that a pattern matches is private where it matches, and nowhere else.
* No request is refused, whatever a client sent; what cannot be redacted is not written.

Request bodies without the fields that a project keeps private: JSON, JSON in a text of it, and
forms.

Rules of this file:

* A body without such fields keeps its bytes.
* What cannot be read could hold them anywhere, and is refused: `UnreadableError`. Nothing else is
  raised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import quote_plus, unquote, unquote_plus

from msgspec.structs import replace

from recorder.errors import UsageError
from recorder.model.events import Header, Recording, header
from recorder.replay.matching import MatchRequest, request_of
from recorder.wire.redaction.headers import REDACTED

Path = Sequence[str]  # names from the outside in, `*` for any
Taken = list[tuple[int, Any]]  # which path led there, and the value

_NAME = re.compile(rb"[;\s]name=(?:\"([^\"\r\n]*)\"|([^\s;\"]+))", re.IGNORECASE)
_BOUNDARY = re.compile(r"boundary=(?:\"([^\"]{1,200})\"|([^\s;\"]{1,200}))", re.IGNORECASE)
_CODED = re.compile(rb"content-transfer-encoding:\s*(?!7bit|8bit|binary)", re.IGNORECASE)
_STEPS = re.compile(r"[\[\].]+")


class UnreadableError(Exception):
    """Why fields cannot be found in a body: the rest of a sentence about it."""


class InBodies(NamedTuple):
    """What is taken out of request bodies: the values at paths, and what patterns match in texts."""

    paths: Sequence[Path] = ()
    patterns: Sequence[re.Pattern[str]] = ()


def without(body: bytes, content_type: str, private: InBodies) -> tuple[bytes, Taken]:
    """Return a body without what is private, and the values at the paths.

    Raises `UnreadableError`.
    """
    if not any(private) or not body.strip():
        return body, []
    read = None if seems_json(body) else _FORMS.get(content_type.partition(";")[0].strip().lower())
    try:
        return read(body, content_type, private) if read else _json(body, private)
    except (ValueError, RecursionError):
        raise UnreadableError("is neither JSON nor a form that can be read") from None


def seems_json(body: bytes) -> bool:
    """Return True if a body begins as an object or an array does, in any encoding of JSON."""
    return body[:64].decode(json.detect_encoding(body), "ignore").lstrip("\ufeff \t\r\n")[:1] in (
        "{",
        "[",
    )


def _json(body: bytes, private: InBodies) -> tuple[bytes, Taken]:
    root = [json.loads(body, object_pairs_hook=_object)]
    taken = _all_taken(root, ((number, ("*", *path)) for number, path in enumerate(private.paths)))
    cleared = _without_text(root, private.patterns)
    return (_bytes(cleared[0]) if taken or cleared != root else body), taken


def _without_text(value: Any, patterns: Sequence[re.Pattern[str]]) -> Any:
    """Return a value of JSON with `REDACTED` for what the patterns match in its texts."""
    if isinstance(value, str):
        for pattern in patterns:
            value = pattern.sub(REDACTED, value)
    elif isinstance(value, dict):
        return {name: _without_text(inner, patterns) for name, inner in value.items()}
    elif isinstance(value, list):
        return [_without_text(inner, patterns) for inner in value]
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object.

    Raises `ValueError` for a name that is there twice: one of the two would be out of sight.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def _all_taken(value: Any, paths: Iterable[tuple[int, Path]]) -> Taken:
    taken: Taken = []
    for number, path in paths:
        taken += [(number, each) for each in _taken(value, path)]
    return taken


def _taken(value: Any, path: Path) -> list[Any]:
    """Replace the values at `path` below `value`; return them."""
    step, *rest = path
    taken: list[Any] = []
    for place in _places(value, step):
        inner = value[place]
        if rest and isinstance(inner, str):
            value[place], more = _in_text(inner, rest)
            taken += more
        elif rest:
            taken += _taken(inner, rest)
        elif inner != REDACTED:
            value[place] = REDACTED
            taken.append(inner)
    return taken


def _places(value: Any, step: str) -> Sequence[Any]:
    if isinstance(value, list):
        return range(len(value)) if step == "*" else ()
    return [name for name in value if step in (name, "*")] if isinstance(value, dict) else ()


def _in_text(text: str, path: Path) -> tuple[str, list[Any]]:
    """Do the same as `_taken` in JSON that is the text of a value.

    A text that is none has no fields.
    """
    try:
        held = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_object)
    except (ValueError, RecursionError):
        if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "[") and (path[-1] == "*" or path[-1] in text):
            raise UnreadableError("holds JSON in a text that cannot be read") from None
        return text, []
    if isinstance(held, str):
        held, taken = _in_text(held, path)
    else:
        taken = _taken(held, path)
    return (_text(held) if taken else text), taken


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _bytes(value: Any) -> bytes:
    try:
        return _text(value).encode()
    except UnicodeEncodeError:  # half of a pair of surrogates, which only an escape can write
        return json.dumps(value, separators=(",", ":")).encode()


# -- forms: a name like `metadata[email]` or `metadata.email` is a path


def _form(body: bytes, content_type: str, private: InBodies) -> tuple[bytes, Taken]:
    taken: Taken = []
    pairs: list[str] = []
    for pair in body.decode().split("&"):
        name, equals, given = pair.partition("=")
        sent = unquote_plus(given)
        value, more = _field(unquote_plus(name), sent, private)
        pairs.append(pair if value == sent else f"{name}{equals}{quote_plus(value)}")
        taken += more
    return "&".join(pairs).encode(), taken


def _multipart(body: bytes, content_type: str, private: InBodies) -> tuple[bytes, Taken]:
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        raise ValueError
    mark = b"\r\n--" + (boundary[1] or boundary[2]).encode()
    before, *parts = (b"\r\n" + body).split(mark)
    if before or not parts or parts[-1].strip() != b"--":
        raise ValueError
    taken: Taken = []
    for number, part in enumerate(parts[:-1]):
        parts[number], more = _part(part, private)
        taken += more
    return mark.join([before, *parts])[2:], taken


def _part(part: bytes, private: InBodies) -> tuple[bytes, Taken]:
    head, end, content = part.partition(b"\r\n\r\n")
    name = _NAME.search(head)
    if name is None or not end or _CODED.search(head):
        raise ValueError
    value, taken = _field(
        (name[1] or name[2] or b"").decode(), content.decode("utf-8", "surrogateescape"), private
    )
    return head + end + value.encode("utf-8", "surrogateescape"), taken


def _field(name: str, value: str, private: InBodies) -> tuple[str, Taken]:
    """Replace what is private in a field of a form, which may be JSON itself."""
    steps = [step for step in _STEPS.split(name.replace("[]", "[0]")) if step]
    taken: Taken = []
    for number, path in enumerate(private.paths):
        if not all(name in ("*", step) for name, step in zip(path, steps, strict=False)):
            continue
        found: list[Any] = []
        if len(path) > len(steps):
            value, found = _in_text(value, path[len(steps) :])
        elif value != REDACTED:
            value, found = REDACTED, [value]
        taken += [(number, each) for each in found]
    cleared: str = _without_text(value, private.patterns)
    return cleared, taken


_FORMS: Mapping[str, Callable[[bytes, str, InBodies], tuple[bytes, Taken]]] = {
    "application/x-www-form-urlencoded": _form,
    "multipart/form-data": _multipart,
}


KINDS = ("fields", "headers", "parameters", "text")

Found = list[tuple[str, Any]]  # a line, and a value that it has taken out


class Redactions:
    """The lines of `recorder_redact`, each `KIND:WHAT`.

    Raises `UsageError` for a line that is no such.
    """

    def __init__(self, lines: Iterable[str] = ()) -> None:
        rules = [_rule(line) for line in lines]
        self.are_none = not rules
        self._fields = [what for kind, what in rules if kind == "fields"]
        self.patterns = [_pattern(what) for kind, what in rules if kind == "text"]
        self._in_bodies = InBodies([what.split(".") for what in self._fields], self.patterns)
        self._headers = [what.lower() for kind, what in rules if kind == "headers"]
        self._parameters = [what for kind, what in rules if kind == "parameters"]

    @property
    def are_of_bodies(self) -> bool:
        """Return True if some are of request bodies."""
        return any(self._in_bodies)

    def has_text(self, text: str) -> bool:
        """Return True if a text has something that is to be taken out of texts."""
        matches = chain.from_iterable(pattern.finditer(text) for pattern in self.patterns)
        return any(match[0] not in REDACTED for match in matches)

    def request(self, request: MatchRequest) -> MatchRequest:
        """Return a request as it is matched.

        JSON that cannot be read is dropped: it could hold fields anywhere.
        """
        try:
            return self.cleared(request)[0]
        except UnreadableError:
            body = REDACTED.encode() if seems_json(request.body) else request.body
            return replace(self._cleared_head(request)[0], body=body)

    def recording(self, recording: Recording) -> Recording:
        """Return a recording as it is matched."""
        request = self.request(request_of(recording))
        head = replace(recording.request, target=request.target, headers=request.headers)
        return replace(recording, request=head, request_body=request.body)

    def cleared(self, request: MatchRequest) -> tuple[MatchRequest, Found]:
        """Return a request as it is written, and what was taken out of it.

        Raises `UnreadableError`.
        """
        head, found = self._cleared_head(request)
        body, taken = without(
            request.body, header(request.headers, "content-type"), self._in_bodies
        )
        found += [(f"fields:{self._fields[number]}", value) for number, value in taken]
        return replace(head, body=body), found

    def values(self, headers: list[Header]) -> tuple[list[Header], Found]:
        """Return headers as they are written, and what was taken out of them."""
        redacted: list[Header] = []
        found: Found = []
        for name, value in headers:
            line = next((what for what in self._headers if fnmatchcase(name.lower(), what)), None)
            if line is None or value.startswith(REDACTED):
                redacted.append((name, value))
            else:
                redacted.append((name, f"{REDACTED} ({len(value)} bytes)"))
                found.append((f"headers:{line}", value))
        return redacted, found

    def _cleared_head(self, request: MatchRequest) -> tuple[MatchRequest, Found]:
        headers, found = self.values(request.headers)
        path, mark, query = request.target.partition("?")
        parameters = [self._parameter(given, found) for given in re.split("([&;])", query)]
        return replace(request, target=path + mark + "".join(parameters), headers=headers), found

    def _parameter(self, given: str, found: Found) -> str:
        name, equals, value = given.partition("=")
        line = next((what for what in self._parameters if fnmatchcase(unquote(name), what)), None)
        if not equals or line is None or value == REDACTED:
            return given
        found.append((f"parameters:{line}", unquote_plus(value)))
        return f"{name}={REDACTED}"


def _rule(line: str) -> tuple[str, str]:
    kind, _, what = (part.strip() for part in line.partition(":"))
    if kind not in KINDS or not what or (kind == "fields" and not all(what.split("."))):
        raise UsageError(
            f"recorder_redact: {line!r} names nothing: write fields:PATH (as in fields:metadata.user_id), "
            "headers:NAME, parameters:NAME or text:REGEX."
        )
    return kind, what


def _pattern(what: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(what)
    except re.error as error:
        raise UsageError(
            f"recorder_redact: text:{what} is not a regular expression: {error}."
        ) from None
    if pattern.search(""):
        raise UsageError(
            f"recorder_redact: text:{what} matches the empty text, which is everywhere."
        )
    return pattern
