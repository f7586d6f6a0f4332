"""Text that every database takes."""

from __future__ import annotations

from typing import overload

from recorder.projections.projection import STORABLE_LIMIT


@overload
def storable(text: str) -> str: ...
@overload
def storable(text: str | None) -> str | None: ...
def storable(text: str | None) -> str | None:
    """`text` cut to `STORABLE_LIMIT` characters, without what PostgreSQL's text refuses and SQLite's ends at.

    NUL and lone surrogates become U+FFFD. Two halves of a character that came in two deltas become that character.
    """
    if text is None:
        return None
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text[:STORABLE_LIMIT]


def storable_json(text: str | None) -> str | None:
    """JSON whole, or not at all: half of it would be no JSON."""
    return None if text is None or len(text) > STORABLE_LIMIT else storable(text)
