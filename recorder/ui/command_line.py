"""Command lines of `recorder` that give what a page of the viewer shows, as a person pastes them into a shell."""

from __future__ import annotations

import re
import shlex

from sqlalchemy import URL

from recorder.ui.sql import database_words

_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Characters that break a line, or that a terminal acts on or hides: a pasted line must be the line that was seen."""


def recorder_line(url: URL, *words: str) -> str:
    """Return a command line of recorder; it names the database unless that is the default one. Never a password."""
    return " ".join(["recorder", *map(shell_quoted, (*words, *database_words(url)))])


def shell_quoted(text: str) -> str:
    """Return a text as one word of a shell, on one line; without NUL, which no argument can have.

    Control and bidi characters are escapes of `$'…'` (bash, zsh, ksh, POSIX 2024).
    """
    if not _ODD.search(text):
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{_ODD.sub(_escape, escaped)}'"


def _escape(match: re.Match[str]) -> str:
    return "".join(f"\\{byte:03o}" for byte in match[0].encode())
