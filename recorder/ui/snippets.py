"""One request as a program with the official SDK of its format, in Python and in JavaScript. Pure.

Rules of this file are those of `recorder.ui.copies`. The body is sent as it was recorded, whatever
members it has: Python's methods take what they do not know by `extra_body`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from recorder.model.events import Recording
from recorder.ui.copies import (
    LITERAL_BYTES,
    ODD,
    Copy,
    address,
    body_notes,
    key_variable,
    request_file,
)
from recorder.ui.literals import is_sendable, literal, quoted
from recorder.wire.dialects import by_name
from recorder.wire.dialects.sdks import Sdk
from recorder.wire.redaction.headers import REDACTED
from recorder.wire.turns import as_http, is_connection, is_turn

_PYTHON = """import os{imports}

{imported}

BODY = {body}

client = {client}
answer = client.{method}(
{arguments}
)
{shown}
"""
_JAVASCRIPT = """{imported}
{imports}
const body = {body};

const client = {client};
const answer = await client.{method}({given}{options});
{shown}
"""


class _Request(NamedTuple):
    """A request, as a method of an SDK takes it."""

    sdk: Sdk
    fields: Mapping[str, str]  # of its texts: `base`, and the other groups of its URL
    key: str  # the environment variable of the key
    body: Mapping[str, Any]
    file: str | None  # that the body is read from, if it is large
    headers: Mapping[str, str]

    @property
    def streams(self) -> bool:
        return self.body.get("stream") is True if self.sdk.streams is None else self.sdk.streams


def snippets(recorded: Recording, name: str) -> dict[str, Copy]:
    """Return the texts to copy: `python` and `node`; none for a format whose SDK takes no body.

    `name` is that of the files that the exchange is stored in.
    """
    sdks = by_name(recorded.exchange.api).sdks
    if not sdks or is_connection(recorded):
        return {}
    sent = as_http(recorded)
    notes: list[str] = []
    url, _, query = address(sent, notes).partition("?")
    body = _object(sent.request_body)
    fitting = [(each, match) for each in sdks if (match := each.url.fullmatch(url))]
    if not fitting or sent.request.method != "POST" or body is None:
        return {}
    sdk, match = fitting[0]
    notes += body_notes(sent)
    if query not in ("", sdk.query):
        notes.append("The query is left out.")
    if is_turn(sent):
        notes.append("It was a message over WebSocket; this is the same request as a POST.")
    is_large = len(sent.request_body) > LITERAL_BYTES
    file = request_file(sent, name) if is_large else None
    if file is not None:
        notes.append(f"Save the request body first, as {file}.")
    headers = {key: value for key, value in sent.request.headers if key.lower() in sdk.headers}
    kept = {key: value for key, value in headers.items() if not value.startswith(REDACTED)}
    request = _Request(sdk, match.groupdict(), key_variable(sent), body, file, kept)
    note = " ".join(notes) or None
    clients = sdk.clients
    install = {
        "python": f"pip install {clients.python.package}",
        "node": f"npm install {clients.node.package}",
    }
    texts = {"python": _python(request), "node": _javascript(request)}
    return {
        kind: Copy(text, " ".join(filter(None, (f"{install[kind]}.", note))))
        for kind, text in texts.items()
    }


def _object(body: bytes) -> dict[str, Any] | None:
    """Return a body that is an object and can be sent again, or None."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) and is_sendable(value) else None


def _python(request: _Request) -> str:
    sdk = request.sdk
    fields = {name: quoted(value) for name, value in request.fields.items()}
    fields["key"] = f"os.environ[{quoted(request.key)}]"
    given = [f"{name}=BODY[{quoted(name)}]" for name in sdk.needed if name in request.body]
    given += ["stream=True"] if request.body.get("stream") is True else []
    given += [sdk.given[0].format_map(fields)]
    given += [f"extra_headers={literal(dict(request.headers))}"] if request.headers else []
    body = literal(request.body)
    imports: Sequence[str] = ()
    if request.file is not None:
        body = f"json.loads(Path({quoted(request.file)}).read_text())"
        imports = ("import json", "from pathlib import Path")
    shown = "for event in answer:\n    print(event)" if request.streams else "print(answer)"
    return _PYTHON.format(
        imports="".join(f"\n{line}" for line in imports),
        imported=sdk.clients.python.imported,
        body=body,
        client=sdk.clients.python.made.format_map(fields),
        method=sdk.methods[0],
        arguments="\n".join(f"    {each}," for each in given),
        shown=shown,
    )


def _javascript(request: _Request) -> str:
    sdk = request.sdk
    fields = {name: _written(value) for name, value in request.fields.items()}
    fields["key"] = f"process.env.{request.key}"
    body, imports = _written(request.body), ""
    if request.file is not None:
        body = f'JSON.parse(readFileSync({_written(request.file)}, "utf8"))'
        imports = 'import { readFileSync } from "node:fs";\n'
    shown = (
        "for await (const event of answer) console.log(event);"
        if request.streams
        else "console.log(answer);"
    )
    return _JAVASCRIPT.format(
        imported=sdk.clients.node.imported,
        imports=imports,
        body=body,
        client=sdk.clients.node.made.format_map(fields),
        method=sdk.methods[1],
        given=sdk.given[1].format_map(fields),
        options=f", {{ headers: {_written(dict(request.headers))} }}" if request.headers else "",
        shown=shown,
    )


def _written(value: Any) -> str:
    """Return JSON as a literal of JavaScript, with an escape for what would hide or turn a text."""
    written = json.dumps(value, ensure_ascii=False, indent=2)
    return ODD.sub(
        lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", written
    )
