"""JSON as a literal of Python, as formatters write it. Pure."""

from __future__ import annotations

import json
from typing import Any

LINE_WIDTH = 100  # of a source


def literal(value: Any, indent: str = "") -> str:
    """Return JSON as a literal of Python, as formatters write it."""
    if isinstance(value, str):
        return quoted(value)
    if not isinstance(value, dict | list) or not value:
        return repr(value)
    inner = f"{indent}    "
    if isinstance(value, dict):
        parts = [f"{quoted(name)}: {literal(each, inner)}" for name, each in value.items()]
    else:
        parts = [literal(each, inner) for each in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    flat = f"{opening}{', '.join(parts)}{closing}"
    if "\n" not in flat and len(indent) + len(flat) <= LINE_WIDTH:
        return flat
    return "\n".join([opening, *(f"{inner}{part}," for part in parts), f"{indent}{closing}"])


def is_sendable(value: Any) -> bool:
    """Return whether a client can send a value as JSON: neither `NaN` nor half a character."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        return False
    return True


def quoted(text: str) -> str:
    """Return a text as a literal of Python; in double quotes, where nothing in it has to be
    escaped.
    """
    return f'"{text}"' if text.isprintable() and not {'"', "\\"} & {*text} else repr(text)
