"""One request as a program with the official SDK of its format, in Python and in JavaScript. Pure.

Rules of this file are those of `recorder.ui.copies`. The body is sent as it was recorded, whatever members it has:
Python's methods take what they do not know by `extra_body`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from recorder.model.events import Recording
from recorder.ui.copies import LITERAL_BYTES, ODD, Copy, address, body_notes, key_variable, request_file
from recorder.ui.literals import is_sendable, literal, quoted
from recorder.wire.dialects import by_name
from recorder.wire.dialects.dialect import Sdk
from recorder.wire.redaction.headers import REDACTED
from recorder.wire.turns import as_http, is_connection, is_turn

_PYTHON = """import os{imports}

from {module} import {client}

BODY = {body}

client = {client}(api_key=os.environ[{key}], base_url={base})
answer = client.{method}(
{arguments}
)
{shown}
"""
_JAVASCRIPT = """import {client} from {package};
{imports}
const body = {body};

const client = new {client}({{ apiKey: process.env.{key}, baseURL: {base} }});
const answer = await client.{method}(body{options});
{shown}
"""


class _Request(NamedTuple):
    """A request, as a method of an SDK takes it."""

    sdk: Sdk
    base: str  # the base URL
    key: str  # the environment variable of the key
    body: Mapping[str, Any]
    file: str | None  # that the body is read from, if it is large
    headers: Mapping[str, str]

    @property
    def streams(self) -> bool:
        return self.body.get("stream") is True


def snippets(recorded: Recording, name: str) -> dict[str, Copy]:
    """Return the texts to copy: `python` and `node`; none for a format whose SDK takes no body.

    `name` is that of the files that the exchange is stored in.
    """
    sdk = by_name(recorded.exchange.api).sdk
    if sdk is None or is_connection(recorded):
        return {}
    sent = as_http(recorded)
    notes: list[str] = []
    url, _, query = address(sent, notes).partition("?")
    body = _object(sent.request_body)
    if not url.endswith(sdk.path) or sent.request.method != "POST" or body is None:
        return {}
    notes += body_notes(sent)
    if query:
        notes.append("The query is left out.")
    if is_turn(sent):
        notes.append("It was a message over WebSocket; this is the same request as a POST.")
    is_large = len(sent.request_body) > LITERAL_BYTES
    file = request_file(sent, name) if is_large else None
    if file is not None:
        notes.append(f"Save the request body first, as {file}.")
    headers = {key: value for key, value in sent.request.headers if key.lower() in sdk.headers}
    kept = {key: value for key, value in headers.items() if not value.startswith(REDACTED)}
    request = _Request(sdk, url.removesuffix(sdk.path), key_variable(sent), body, file, kept)
    note = " ".join(notes) or None
    install = {"python": f"pip install {sdk.module}", "node": f"npm install {sdk.package}"}
    texts = {"python": _python(request), "node": _javascript(request)}
    return {kind: Copy(text, " ".join(filter(None, (f"{install[kind]}.", note)))) for kind, text in texts.items()}


def _object(body: bytes) -> dict[str, Any] | None:
    """Return a body that is an object and can be sent again, or None."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) and is_sendable(value) else None


def _python(request: _Request) -> str:
    sdk = request.sdk
    given = [f"{name}=BODY[{quoted(name)}]" for name in sdk.needed if name in request.body]
    given += ["stream=True"] if request.streams else []
    given += ["extra_body=BODY"]
    given += [f"extra_headers={literal(dict(request.headers))}"] if request.headers else []
    body = literal(request.body)
    imports: Sequence[str] = ()
    if request.file is not None:
        body = f"json.loads(Path({quoted(request.file)}).read_text())"
        imports = ("import json", "from pathlib import Path")
    shown = "for event in answer:\n    print(event)" if request.streams else "print(answer)"
    return _PYTHON.format(
        imports="".join(f"\n{line}" for line in imports),
        module=sdk.module,
        client=sdk.client,
        body=body,
        key=quoted(request.key),
        base=quoted(request.base),
        method=sdk.method,
        arguments="\n".join(f"    {each}," for each in given),
        shown=shown,
    )


def _javascript(request: _Request) -> str:
    sdk = request.sdk
    body, imports = _written(request.body), ""
    if request.file is not None:
        body = f'JSON.parse(readFileSync({_written(request.file)}, "utf8"))'
        imports = 'import { readFileSync } from "node:fs";\n'
    shown = "for await (const event of answer) console.log(event);" if request.streams else "console.log(answer);"
    return _JAVASCRIPT.format(
        client=sdk.client,
        package=_written(sdk.package),
        imports=imports,
        body=body,
        key=request.key,
        base=_written(request.base),
        method=sdk.method,
        options=f", {{ headers: {_written(dict(request.headers))} }}" if request.headers else "",
        shown=shown,
    )


def _written(value: Any) -> str:
    """Return JSON as a literal of JavaScript, with an escape for what would hide or turn a text."""
    written = json.dumps(value, ensure_ascii=False, indent=2)
    return ODD.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", written)
