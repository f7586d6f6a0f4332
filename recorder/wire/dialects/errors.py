"""Errors in the shapes that providers, gateways and the servers before them give them, as far as
several share one.

Must not know: which dialect asks. A field is read by its name alone, so only names that nobody uses
for content are here; `message` and its like count where the rest says that it is an error: inside
of `error`, or under an HTTP status of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import unescape
from typing import Any, Literal

import msgspec

from recorder.model.facts import ErrorReported
from recorder.wire.dialects.json_values import (
    Object,
    as_json,
    decoded,
    decoded_or_none,
    object_,
    objects,
    text,
    text_or_json,
    whole,
)
from recorder.wire.dialects.keys import ERROR

TEXT_LIMIT = 2_000
"""Characters of a message that was made from a page or from JSON of unknown shape: it is for a
person to read.
"""

_TELLING = """
    message msg detail details error_message errorMessage error_msg err_msg
    error_description description status_msg faultstring reason title Message
"""
_MESSAGES = _TELLING.split()
"""Members of an error that say what is wrong, the most telling first."""

_OWN = ("error_message", "errorMessage", "error_msg", "err_msg")
"""Members that are a vendor's error wherever they stand: LMDeploy, Baidu, Hunyuan, AWS Lambda."""

_SUCCESSES = (None, 0, "0", 200, "200", "OK", "ok", "success", "Success", "SUCCESS")
"""Values of a vendor's `code` under which its message says that all is well."""


_Nothing = Literal[""] | None


class _NoStatus(msgspec.Struct, gc=False):
    status_code: Literal[0] = 0


class NoVendorError(
    msgspec.Struct, gc=False, kw_only=True, rename={"error_in_camels": "errorMessage"}
):
    """The members that `vendors_errors` reads, without an error: what fast paths take is checked
    here.
    """

    errors: None = None
    error_message: _Nothing = None
    error_in_camels: _Nothing = None
    error_msg: _Nothing = None
    err_msg: _Nothing = None
    base_resp: _NoStatus | None = None


def failed(payload: Object) -> ErrorReported:
    """Return an error in any of the shapes that providers have for it: nested, flat, a text, a list
    of one.
    """
    error = payload.get("error")
    if isinstance(error, list) and error:
        error = error[0]
    if isinstance(error, str) and error:
        return ErrorReported(text(payload, "type"), _code(payload), error)
    details = object_(error) or payload
    kind = text(details, "type") or text(details, "error_type") or text(details, "status")
    message = _message(details)
    if message is None and error:
        message = as_json(error)[:TEXT_LIMIT]
    return ErrorReported(
        kind if kind != ERROR else None, _code(details), message, text(details, "param")
    )


def vendors_errors(payload: Any) -> Iterable[ErrorReported]:
    """Yield the errors of a payload, any JSON, in fields that no API declares: of a vendor, or of
    an array's elements.

    A vendor's envelope (`{"code": 1301, "msg": "…"}`) is one only if it holds no answer, which the
    caller knows.
    """
    if isinstance(payload, list):
        yield from (failed(each) for each in objects(payload) if each.get("error"))
        return
    body = object_(payload)
    result = object_(body, "base_resp")  # MiniMax
    if result.get("status_code"):
        yield ErrorReported(None, str(result["status_code"]), _message(result))
    elif any(body.get(name) for name in _OWN):
        own = {name: body[name] for name in (*_OWN, "error_type", "error_code") if body.get(name)}
        yield failed(own)
    elif isinstance(body.get("errors"), list) and body["errors"]:
        # Cloudflare, GraphQL; of OpenAI's batches an object
        yield failed({"error": body["errors"]})


def envelope_error(payload: Any) -> ErrorReported | None:
    """Return the error of a vendor's envelope that holds no answer:
    `{"code": "InvalidApiKey", "message": "…"}`.
    """
    body = object_(payload)
    code = body.get("code", body.get("error_code"))
    is_refused = body.get("success") is False or (
        isinstance(code, str | int) and code not in _SUCCESSES
    )
    return failed(body) if is_refused and _message(body) else None


def refusal(body: bytes) -> ErrorReported | None:
    """Return the error that the body of an HTTP error is, whatever its form: JSON, a page, a text;
    None if it is empty.

    A body is a page or a text where it is not JSON; of half of a document nobody knows what it
    says.
    """
    try:
        payload = decoded(body)
    except ValueError:
        if body.lstrip().startswith((b"{", b"[")):
            return None
        words = _words(body)
        return ErrorReported(message=words) if words else None
    if isinstance(payload, list) and objects(payload):
        payload = objects(payload)[0]
    if not isinstance(payload, dict):
        return ErrorReported(message=text_or_json(payload)[:TEXT_LIMIT]) if payload else None
    found = next(iter(vendors_errors(payload)), None) or failed(payload)
    if found.message is None and payload:
        return ErrorReported(found.type, found.code, as_json(payload)[:TEXT_LIMIT])
    return found if payload else None


def _message(details: Object) -> str | None:
    """Return what an error says, by the first of its members that say it; one that is not a text as
    JSON.
    """
    for name in _MESSAGES:
        if isinstance(details.get(name), str) and details[name]:
            return str(details[name])
    for name in _MESSAGES:
        if details.get(name):
            return as_json(details[name])[:TEXT_LIMIT]
    return None


def _code(details: Object) -> str | None:
    code = details.get("code", details.get("error_code"))
    return None if code is None else str(code)


_TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.DOTALL | re.IGNORECASE)
_UNREAD = re.compile(r"<(script|style|head)\b.*?</\1\s*>|<!--.*?-->", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")
# of a page: what is wrong stands at its beginning; patterns take the square of it at worst
_READ_BYTES = 8 * 1024


def _words(body: bytes) -> str:
    """Return what a person reads of a page, its title if it has one, or of a text."""
    page = body[:_READ_BYTES].decode("utf-8", "replace").removeprefix("\ufeff")
    if page.lstrip().startswith("<"):
        title = _TITLE.search(page)
        shown = title[1] if title is not None and title[1].strip() else _UNREAD.sub(" ", page)
        page = unescape(_TAG.sub(" ", shown))
    return " ".join(page.split())[:TEXT_LIMIT]


# -- results of tools

_MARKS = ("error", "exit_code", "isError", "is_error", "success")
_COMMAND = re.compile(
    r"(?:Exit code: (-?\d+)\nWall time: [\d.]+ seconds\n(?:Total output lines: \d+\n)?Output:"
    r"|(?:Chunk ID: \S+\n)?Wall time: [\d.]+ seconds\nProcess exited with code (-?\d+)\n)"
)
"""The head that Codex puts before what a command has printed, for either of its tools that run one.
"""


def says_failed(output: str) -> bool | None:
    """Return whether a call failed, as its result says by itself where the format has no mark for
    that; None if the result does not say.

    Marks are those of MCP (`isError`), of Anthropic (`is_error`) and of Codex (`exit_code`, also in
    `metadata`; `success`), and an `error` that is the first member of a JSON object. Prose is not
    read, nor an `error` among data.
    """
    command = _COMMAND.match(output)
    if command is not None:
        return int(command[1] or command[2]) != 0
    if not output.lstrip().startswith("{") or not any(f'"{mark}"' in output for mark in _MARKS):
        return None
    result = object_(decoded_or_none(output.encode("utf-8", "surrogatepass")))
    if (
        result.get("isError") is True
        or result.get("is_error") is True
        or result.get("success") is False
    ):
        return True
    if result.get("error") and next(iter(result)) == "error":
        return True
    codes = [whole(each, "exit_code") for each in (result, object_(result, "metadata"))]
    known = [code for code in codes if code is not None]
    return any(known) if known else None
