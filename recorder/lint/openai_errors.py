"""HT007: error documents as OpenAI's API has them, for both of its formats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from recorder.lint.rule import Hit, Rule, at_end
from recorder.lint.stream import StreamView
from recorder.wire.dialects import DIALECTS
from recorder.wire.dialects.openai import error_body


def _error_document(stream: StreamView) -> Iterable[Hit]:
    if stream.status >= 400 and not stream.moments.has_events and not stream.has_gap:
        wrong = _wrong_error(stream)
        if wrong:
            yield Hit(None, f"status {stream.status}, {wrong}")


def _wrong_error(stream: StreamView) -> str | None:
    if not stream.body:
        return None if stream.was_cut_by_us or stream.exchange.method == "HEAD" else "no body"
    return wrong_error(stream.document)


def wrong_error(document: Any) -> str | None:
    """What is wrong with an error as OpenAI's API puts it; `None` if nothing is."""
    if not isinstance(document, dict):
        return "the body is not a JSON object"
    error = document.get("error")
    if not isinstance(error, dict):
        return "no object `error`"
    return None if isinstance(error.get("message"), str) and error["message"] else "no text `error.message`"


RULES: tuple[Rule, ...] = (
    Rule(
        "HT007",
        "warning",
        'An error does not have OpenAI\'s format: `{"error": {"message": …}}`.',
        "The SDKs raise an APIStatusError whose `code`, `type` and `param` are None; Codex shows the raw body, and "
        "retries also where that cannot help.",
        "OpenAI API reference, Errors; openai-python 3.52, _exceptions.py",
        frozenset().union(*(dialect.profiles for dialect in DIALECTS if dialect.error_body is error_body)),
        at_end(_error_document),
    ),
)
