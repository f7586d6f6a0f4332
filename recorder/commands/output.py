"""Printing: tables for people, JSON for programs, and nothing that could take over a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

_ESCAPED = {
    **{code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"},
    **{code: f"\\u{code:04x}" for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))},
    **{code: f"\\u{code:04x}" for code in (0x2028, 0x2029, 0xFEFF)},
}

json_options = (
    click.option("--json", "as_json", is_flag=True, help="A JSON array; keys are the SQL column names."),
    click.option("--jsonl", "as_jsonl", is_flag=True, help="One JSON object a line."),
)


def with_json(function: Any) -> Any:
    """The options `--json` and `--jsonl`."""
    for option in reversed(json_options):
        function = option(function)
    return function


def safe_text(text: str) -> str:
    """Recorded text as a terminal may see it: control characters, bidi controls and surrogates made visible."""
    return text.translate(_ESCAPED).encode("utf-8", "backslashreplace").decode()


def echo(text: str = "") -> None:
    """A line for a person, on stderr."""
    click.echo(text, err=True)


def write_json(rows: Iterable[Mapping[str, Any]], *, lines: bool = False) -> None:
    """Rows as JSON on stdout. Bytes that are text stay text; others become `{"base64": …}`."""
    encoded = [msgspec.json.encode({key: _plain(value) for key, value in row.items()}) for row in rows]
    body = b"".join(row + b"\n" for row in encoded) if lines else b"[" + b",\n ".join(encoded) + b"]\n"
    write_bytes(body)


def write_bytes(data: bytes) -> None:
    """Bytes on stdout, at once; made visible if it is a terminal."""
    if sys.stdout.isatty():
        data = safe_text(data.decode("utf-8", "backslashreplace")).encode()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Iterable[str] = ()) -> None:
    """A table on stdout. On a terminal it is cut to its width; in a pipe every cell is whole."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*(Text("" if cell is None else safe_text(str(cell)).replace("\n", " ")) for cell in row))
    width = None if sys.stdout.isatty() else 1000
    Console(file=sys.stdout, width=width, highlight=False).print(table)


def _plain(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": value}


def seconds(ns: int | None) -> str:
    """A span of time as a person reads it."""
    if ns is None:
        return ""
    return f"{ns / 1e9:.3f} s" if ns < 60_000_000_000 else f"{ns // 60_000_000_000} min {ns // 1_000_000_000 % 60} s"
