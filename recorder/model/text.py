"""Text that every database takes, text that a terminal may see, and text that is compared. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, AnyStr, overload

UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # PostgreSQL's text has neither
# characters of a text in a projection: far above any answer, and a row stays a row
STORABLE_LIMIT = 2**20

_ESCAPED = {
    **{
        code: f"\\x{code:02x}"
        for code in (*range(0x20), *range(0x7F, 0xA0))
        if chr(code) not in "\n\t"
    },
    **{
        code: f"\\u{code:04x}"
        for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    },
    **{code: f"\\u{code:04x}" for code in (0x2028, 0x2029, 0xFEFF)},
}


@overload
def storable(text: str) -> str: ...
@overload
def storable(text: str | None) -> str | None: ...
def storable(text: str | None) -> str | None:
    """Return `text` cut to `STORABLE_LIMIT` characters, without what PostgreSQL refuses and what
    ends text in SQLite.

    NUL and lone surrogates become U+FFFD. Two halves of a character that came in two deltas become
    that character.
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
    """Return JSON whole, or None if it is too long: half of it would be no JSON."""
    return None if text is None or len(text) > STORABLE_LIMIT else storable(text)


def shared_length(one: AnyStr, other: AnyStr) -> int:
    """Return the length of the beginning that both share, by halving: comparing slices is cheap, a
    loop is not.
    """
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def safe_text(text: str) -> str:
    """Return recorded text as a terminal may see it: control characters, bidi controls and
    surrogates made visible.
    """
    return text.translate(_ESCAPED).encode("utf-8", "backslashreplace").decode()


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 event`, `2,000 events`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def limited(lines: Sequence[str], limit: int, others: str = "more") -> list[str]:
    """Return so many lines, and one that counts the others."""
    return [
        *lines[:limit],
        *([f"  and {len(lines) - limit} {others}"] if len(lines) > limit else []),
    ]


def enumerated(names: Sequence[str], limit: int) -> str:
    """Return so many names in a sentence, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return f"{', '.join(names[:limit])}{more}"


def span_text(span_ns: int) -> str:
    """Return a duration for a person: `42 s`, `5 min`, `3 h`, `12 d`."""
    for unit, size_ns, least in (
        ("s", 10**9, 120),
        ("min", 60 * 10**9, 120),
        ("h", 3600 * 10**9, 48),
    ):
        if span_ns < least * size_ns:
            return f"{max(0, span_ns) // size_ns} {unit}"
    return f"{span_ns // (86_400 * 10**9):,} d"


def json_value(value: Any) -> Any:
    """Return a value of a row as JSON has it: bytes are text, or `{"base64": …}` if they are not
    UTF-8.
    """
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": value}


def rows(table: str) -> Iterator[str]:
    """Yield the rows of a table that is written as text: its lines. Comments begin with `#`.

    A line that begins with a space continues the one before.
    """
    for line in table.strip().replace("\n ", " ").splitlines():
        if line and not line.startswith("#"):
            yield line
