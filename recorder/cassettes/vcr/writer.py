"""Recorded exchanges as a cassette of vcrpy, YAML; `recorder.cassettes.vcr.reader` reads it. Pure.

Written as vcrpy writes it, and for people: a body of several lines is written line by line. No byte
of a body is lost, whatever a reader of YAML makes of line ends: carriage returns and invisible
characters are escaped. Times, reads, and how an exchange broke off have no place in it.
"""

from __future__ import annotations

import re
import textwrap
from base64 import encodebytes
from collections.abc import Iterable

from recorder.cassettes.calls import url
from recorder.model.events import WHOLE, Header, Recording
from recorder.wire.turns import as_http, is_connection

OPENING = b"interactions:\n"
CLOSING = b"version: 1\n"

KEY_LIMIT = 100  # characters: YAML looks no further than 1024 bytes for the colon of a key

_PLAIN = re.compile(
    r"(?!(?:y|n|yes|no|on|off|true|false|null)\Z)[a-z](?:[a-z0-9_./+=?&%-]|:(?=[a-z0-9/]))*",
    re.IGNORECASE | re.ASCII,
)
_SEEN = (
    " -~\u00a0-\u061b\u061d-\u200d\u2010-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd"
    "\U00010000-\U0010ffff"
)  # what is printable to YAML, and to a reviewer
_LINE = re.compile(f"[{_SEEN}]*")
_LINES = re.compile(f"(?! )[{_SEEN}][{_SEEN}\n]*\n[{_SEEN}\n]*")
_ESCAPED = re.compile(rf'[^{_SEEN}]|["\\]')
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t", '"': r"\"", "\\": r"\\"}


def interaction(each: Recording, *, was_imported: bool = False) -> bytes:
    """Return the YAML of an exchange.

    Raises `ValueError` if it has no response, of which VCR knows nothing.
    """
    if each.response is None:
        raise ValueError(f"exchange {each.exchange.exchange_id} has no response")
    each = as_http(each)
    assert each.response is not None
    lines = [
        f"- request:\n    body: {_content(each.request_body, 6)}",
        f"    headers:{_headers(each.request.headers)}",
        f"    method: {_text(each.request.method, 6)}",
        f"    uri: {_text(url(each.request, was_imported=was_imported), 6)}",
        f"  response:\n    body:\n      string: {_content(each.body, 8)}",
        f"    headers:{_headers(each.headers)}",
        f"    status:\n      code: {each.response.status}\n      message: {_text(each.response.reason, 8)}",
    ]
    return "".join(lines).encode()


def inexpressible(each: Recording) -> str | None:
    """Return what a cassette of VCR cannot express of an exchange, as the rest of a sentence;
    `None` if nothing is lost."""
    if is_connection(each):
        return "is a WebSocket connection, and VCR knows none: only its turns are written"
    if each.response is None:
        return "has no response, and VCR knows only those that have one: it is left out"
    if each.end is None or each.end.outcome not in WHOLE:
        return "broke off, which VCR cannot say: it looks as if its body had ended there"
    if not (each.end.lossless and each.request.complete):
        return "is not whole: what was not recorded is missing without a mark"
    return None


def _headers(given: Iterable[Header]) -> str:
    """Return the YAML of headers: each name once, with all its values."""
    values: dict[str, tuple[str, list[str]]] = {}
    for name, value in given:
        values.setdefault(name.lower(), (name, []))[1].append(value)
    if not values:
        return " {}\n"
    lines = [
        _key(name, 6) + "".join(f"      - {_text(value, 8)}" for value in each)
        for name, each in values.values()
    ]
    return "\n" + "".join(lines)


def _key(name: str, indent: int) -> str:
    pad, written = " " * indent, _text(name, indent + 2)
    is_simple = len(written) <= KEY_LIMIT and written.count("\n") == 1
    return f"{pad}{written.rstrip()}:\n" if is_simple else f"{pad}? {written}{pad}:\n"


def _content(data: bytes, indent: int) -> str:
    """Return the YAML of bytes: text, or `!!binary` if they are none."""
    try:
        return _text(data.decode(), indent)
    except UnicodeDecodeError:
        lines = encodebytes(data).decode().splitlines(keepends=True)
        return "!!binary |\n" + "".join(" " * indent + line for line in lines)


def _text(text: str, indent: int) -> str:
    """Return a scalar and the end of its line, in the form that is easiest to read; `indent` is of
    further lines.
    """
    if _PLAIN.fullmatch(text):
        return f"{text}\n"
    if _LINE.fullmatch(text):
        return f"""'{text.replace("'", "''")}'\n"""
    return _literal(text, indent) if _LINES.fullmatch(text) else _quoted(text, indent)


def _literal(text: str, indent: int) -> str:
    keep = "" if text.endswith("\n") else "-"
    if text.endswith("\n\n"):
        keep = "+"
    lines = [f"{line}\n" for line in text.removesuffix("\n").split("\n")]
    return f"|{keep}\n" + textwrap.indent("".join(lines), " " * indent, lambda line: line != "\n")


def _quoted(text: str, indent: int) -> str:
    """Return a text in quotes with escapes; each of its lines on a separate line, joined by a
    backslash.
    """
    lines = [_ESCAPED.sub(_escape, line) for line in re.split(r"(?<=\n)", text)]
    joined = f"\\\n{' ' * indent}".join(re.sub("^ ", r"\\ ", line) for line in lines)
    return f'"{joined}"\n'


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return _SHORT.get(match[0]) or (f"\\u{code:04x}" if code < 2**16 else f"\\U{code:08x}")
