"""One exchange as lines to paste: a curl command, commands of recorder, a test for pytest. Pure.

Rules of this file:

* A secret was never recorded. In its place stands the environment variable that the provider's
  clients read.
* Everything recorded is quoted, for the shell as for Python: what is pasted does what it shows,
  whatever a client sent.
* What cannot be expressed is missing from the text, and `note` says so; without a text, `note` says
  why there is none.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from sqlalchemy import URL

from recorder.model.events import WHOLE, Recording
from recorder.ui.literals import is_sendable, literal, quoted
from recorder.ui.sql import database_words
from recorder.wire.dialects import by_name
from recorder.wire.providers import BY_NAME
from recorder.wire.redaction.headers import COUNTED, REDACTED
from recorder.wire.turns import as_http, is_connection, is_turn
from recorder.wire.upstreams import below, url_at

RECORDER_URL = "http://127.0.0.1:8787"
"""Where `recorder serve` listens by default: the address for an upstream that only it knows."""

INLINE_BYTES = 100_000
"""The largest body in a command line: Linux takes 128 KiB in one argument."""

LITERAL_BYTES = 20_000
"""The largest body in the source of a test; a test with a larger one reads it from its cassette."""

_OF_THE_CONNECTION = re.compile(
    r"host|content-length|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect|sec-websocket-.*"
    r"|accept-encoding|x-recorder-session",
    re.IGNORECASE,
)
"""Headers that curl makes itself, or that would make the answer unreadable."""

_KEY = re.compile(r"(?:x-)?(?:goog-)?api[-_]?key|key", re.IGNORECASE)
_FIT_FOR_QUOTES = re.compile(r"[^\"$`\\!\x00-\x1f\x7f-\uffff]*")
_UNFIT_FOR_NAME = re.compile(r"[^A-Za-z0-9]+")
_JSON_SPACE = re.compile(r"[\r\n\t]+")  # a string of JSON has none of these
_GLOB = re.compile(r"[\[\]{}]")

ODD = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Characters that break a line, or that a terminal acts on or hides: a pasted line must be the line
that was seen.
"""


class Copy(msgspec.Struct, frozen=True):
    """A text to copy, if there can be one, and a sentence about it."""

    text: str | None
    note: str | None = None


def copies(recorded: Recording, name: str, url: URL, at: int | None = None) -> dict[str, Copy]:
    """Return the texts to copy: `curl`, `replay`, `show`, `export` and `pytest`, each with `text`
    and `note`.

    `recorded` needs heads and the request body only; `name` is that of the files it is stored in.
    `at` is the position that `show` ends at.
    """
    session, number = recorded.exchange.session_id, str(recorded.number)
    at_event = () if at is None else ("--at-event", str(at))
    cassette = f"cassettes/{name}.sse.jsonl"
    export = recorder_line(url, "export", session, "--exchange", number, "--format", "cassette")
    gaps = (
        "Bytes of it were not kept: add --allow-gaps to play the rest."
        if recorded.has_gap
        else None
    )
    return {
        "curl": _curl(recorded, name),
        "replay": Copy(recorder_line(url, "replay", session, "--exchange", number), gaps),
        "show": Copy(recorder_line(url, "show", session, number, *at_event)),
        "export": Copy(f"mkdir -p cassettes && {export} > {cassette}"),
        "pytest": _pytest(recorded, name, cassette),
    }


def request_file(recorded: Recording, name: str) -> str:
    """Return the name of the file that a request body is saved in."""
    return f"{name}-request.{'bin' if _text(as_http(recorded).request_body) is None else 'json'}"


def recorder_line(url: URL, *words: str) -> str:
    """Return a command line of recorder; it names the database unless that is the default one.

    Never a password.
    """
    return " ".join(["recorder", *map(shell_quoted, (*words, *database_words(url)))])


def shell_quoted(text: str) -> str:
    """Return a text as one word of a shell, on one line; without NUL, which no argument can have.

    Control and bidi characters are escapes of `$'…'` (bash, zsh, ksh, POSIX 2024).
    """
    if not ODD.search(text):
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{ODD.sub(_escape, escaped)}'"


def _escape(match: re.Match[str]) -> str:
    return "".join(f"\\{byte:03o}" for byte in match[0].encode())


# -- curl


class _Variable(NamedTuple):
    """A text with an environment variable after it."""

    before: str
    name: str

    def word(self) -> str:
        if _FIT_FOR_QUOTES.fullmatch(self.before):
            return f'"{self.before}${self.name}"'
        return f'{shell_quoted(self.before)}"${self.name}"'


def _curl(recorded: Recording, name: str) -> Copy:
    if is_connection(recorded):
        return Copy(None, "It is a connection over WebSocket, which curl does not send.")
    request = as_http(recorded)
    notes: list[str] = []
    url = _url(request, notes)
    body_words = _body(request, name, notes)
    method = request.request.method
    words = ["curl", "-N"]
    if _GLOB.search(url):
        words.append("-g")
    if method == "HEAD":
        words.append("-I")
    elif method != ("POST" if body_words else "GET"):
        words += ["-X", shell_quoted(method)]
    words += [url, *_headers(request, notes), *body_words]
    if is_turn(recorded):  # the key was in the handshake of its connection
        words += ["-H", _Variable("Authorization: Bearer ", key_variable(recorded)).word()]
        notes.append("It was a message over WebSocket; this is the same request as a POST.")
    return Copy(" ".join(words), " ".join(notes) or None)


def _url(recorded: Recording, notes: list[str]) -> str:
    """Return the URL as a word of the shell, with variables in the place of keys."""
    path, question_mark, query = address(recorded, notes).partition("?")
    word, literal = "", path + question_mark  # what is quoted, and what follows it
    for number, parameter in enumerate(query.split("&") if query else []):
        literal += "&" if number else ""
        field, _, value = parameter.partition("=")
        if value.startswith(REDACTED) and _KEY.fullmatch(field):
            word += _Variable(f"{literal}{field}=", key_variable(recorded)).word()
            literal = ""
            continue
        literal += parameter
        if value.startswith(REDACTED):
            notes.append(f"The parameter {field} is redacted.")
    return word + shell_quoted(literal) if literal else word


def address(recorded: Recording, notes: list[str]) -> str:
    """Return the URL that a request was sent to, or that of a recorder which knows its upstream."""
    head = recorded.request
    url = url_at(head.base_url, head.upstream, head.target)
    if url is not None:
        return url
    notes.append(
        f"No address of {head.upstream} is recorded that can be asked: `recorder serve` asks it."
    )
    return f"{RECORDER_URL}/{head.upstream}{below(head.target, head.upstream)}"


def key_variable(recorded: Recording) -> str:
    """Return the environment variable that has the key: that of the provider's clients, else one by
    the upstream.
    """
    upstream = recorded.request.upstream
    company = BY_NAME.get(upstream) or BY_NAME.get(by_name(recorded.exchange.api).upstream)
    variable = company.key_variable if company is not None else None
    return variable or f"{_UNFIT_FOR_NAME.sub('_', upstream).upper() or 'UPSTREAM'}_API_KEY"


def _headers(recorded: Recording, notes: list[str]) -> Iterator[str]:
    head = recorded.request
    left_out: list[str] = []
    for name, value in head.headers:
        if _OF_THE_CONNECTION.fullmatch(name) or (
            name.lower() == "content-encoding" and head.undecoded is None
        ):
            continue
        word = _header(name, value, key_variable(recorded))
        if word is None:
            left_out.append(name)
        else:
            yield f"-H {word}"
    if recorded.request_body and not any(
        name.lower() == "content-type" for name, _ in head.headers
    ):
        yield "-H content-type:"  # curl would send that of a form
    if left_out:
        notes.append(
            f"Left out, because their values were not recorded: {', '.join(map(_shown, left_out))}."
        )


def _header(name: str, value: str, variable: str) -> str | None:
    """Return a header as a word of the shell, or None if its value is redacted and no key."""
    if COUNTED.fullmatch(value) or value == REDACTED:
        if name.lower() == "authorization":
            return _Variable(f"{name}: Bearer ", variable).word()
        return _Variable(f"{name}: ", variable).word() if _KEY.fullmatch(name) else None
    return shell_quoted(f"{name}: {value}" if value else f"{name};")


def _shown(name: str) -> str:
    return name if name.isprintable() else ascii(name)


def _body(recorded: Recording, name: str, notes: list[str]) -> list[str]:
    """Return the words of the body."""
    body = recorded.request_body
    notes += body_notes(recorded)
    if not body:
        return []
    text = _text(body)
    if text is None or len(body) > INLINE_BYTES:
        file = request_file(recorded, name)
        notes.append(f"Save the request body first, as {file}.")
        return ["--data-binary", shell_quoted(f"@{file}")]
    return ["--data-raw", shell_quoted(_one_line(text))]


def body_notes(recorded: Recording) -> Iterator[str]:
    """Yield what is missing in a recorded body."""
    head = recorded.request
    if not head.complete:
        yield "The request body was not recorded whole."
    if isinstance(head.redactions, dict) and head.redactions:
        yield "Secrets in the body are redacted."


def _text(body: bytes) -> str | None:
    """Return a body as text that an argument can hold, or None."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _one_line(text: str) -> str:
    """Return JSON without line feeds, which are not part of a value; other text unchanged."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return _JSON_SPACE.sub(" ", text)


# -- pytest

_PYTEST = '''"""{title}

Its cassette: {export}
"""

import httpx
import pytest
{request}

@pytest.mark.recorder(cassette={cassette})
def test_{function}(recorder_replay):
    url = {url}
    # Call your own code here instead, with recorder_replay.base_url({upstream}) as the base URL of its client.
{call}
'''


def _pytest(recorded: Recording, name: str, cassette: str) -> Copy:
    """Return a test that sends the request again, and gets the recorded answer from its cassette."""
    if is_connection(recorded):
        return Copy(None, "It is a connection over WebSocket: docs/testing.md has a test of one.")
    if recorded.damage is not None or recorded.has_gap:
        return Copy(None, "Bytes of it were not kept, so it cannot answer a test.")
    sent = as_http(recorded)
    head = sent.request
    base, rest = _base(head.upstream, below(head.target, head.upstream))
    constant, argument = _sent_body(sent)
    type = next((value for name, value in head.headers if name.lower() == "content-type"), None)
    is_implied = type is None or (argument == "json=BODY" and type == "application/json")
    headers = "" if is_implied else f"headers={literal({'content-type': type})}"
    arguments = filter(None, (quoted(head.method), "url", headers, argument))
    call = f"httpx.request({', '.join(arguments)})"
    shown = ascii(f"exchange {recorded.number} of session {recorded.exchange.session_id}")[1:-1]
    text = _PYTEST.format(
        title=f"{shown[0].upper()}{shown[1:]}, answered from its cassette.",
        export=f"recorder export {recorded.exchange.session_id} --exchange {recorded.number} --format cassette",
        request=constant,
        cassette=quoted(cassette),
        function=_UNFIT_FOR_NAME.sub("_", name).strip("_").lower() or "exchange",
        url=f"{base} + {quoted(rest)}",
        upstream=quoted(head.upstream),
        call="\n".join(f"    {line}" for line in _call(sent, call)),
    )
    return Copy(text, f"Write its cassette first, beside the test: {cassette}.")


def _base(upstream: str, rest: str) -> tuple[str, str]:
    """Return the expression of a base URL, and the path after it: the fixture's has the version of
    the SDK.
    """
    version = BY_NAME[upstream].sdk_version if upstream in BY_NAME else ""
    base = f"recorder_replay.base_url({quoted(upstream)})"
    if not version:
        return base, rest
    below = rest.removeprefix(version)
    if below != rest and below.startswith("/"):
        return base, below
    return f"{base}.removesuffix({quoted(version)})", rest


def _sent_body(recorded: Recording) -> tuple[str, str]:
    """Return the source of a constant for the body, if it has one, and the argument that sends it."""
    body = recorded.request_body
    if not body:
        return "", ""
    if len(body) > LITERAL_BYTES:
        of_request = 'event.kind == "request" and event.pos'
        return (
            "",
            f'content=b"".join(event.raw for event in recorder_replay.session.events if {of_request})',
        )
    try:
        value = json.loads(body)
        if isinstance(value, dict | list) and is_sendable(value):
            return f"\nBODY = {literal(value)}\n", "json=BODY"
    except (ValueError, RecursionError):
        pass  # no JSON, or deeper than a reader of Python takes
    return f"\nBODY = {body!r}\n", "content=BODY"


def _call(recorded: Recording, call: str) -> Sequence[str]:
    response, end = recorded.response, recorded.end
    if response is None or end is None or end.outcome not in WHOLE:
        return ["with pytest.raises(httpx.TransportError):", f"    {call}"]
    return [f"response = {call}", f"assert response.status_code == {response.status}"]
