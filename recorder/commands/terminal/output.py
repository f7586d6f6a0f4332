"""Printing: lines for people, JSON for programs, and nothing that could take over a terminal.

All that goes to stdout goes through here, so that a stdout that takes nothing is one sentence and
never a traceback.
"""

from __future__ import annotations

import csv
import io
import logging
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

import click
import msgspec

from recorder.errors import RecorderError
from recorder.model.text import json_value, safe_text

FOUND = 4  # exit code: a difference or a finding
HELD_BYTES = 64 * 1024  # of a JSON array before it is written: no more memory, and few calls


def is_plain() -> bool:
    """Return whether stdout gets no attributes such as bold: it is not a terminal, or a dumb one."""
    return not sys.stdout.isatty() or is_dumb()


def terminal_width() -> int | None:
    """Return the width of the terminal that stdout is; None for a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def is_dumb() -> bool:
    """Return whether the terminal supports no attributes."""
    return os.environ.get("TERM") == "dumb"


def echo(text: str = "") -> None:
    """Print a line for a person on stderr."""
    click.echo(text, err=True)


class _Visible(logging.Formatter):
    """A log formatter for messages that may contain recorded text."""

    def format(self, record: logging.LogRecord) -> str:
        return safe_text(super().format(record))


def log_to_stderr(level: int = logging.WARNING) -> None:
    """Send what the log says from `level` on to the user."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Visible("recorder: %(message)s"))
    logging.basicConfig(handlers=[handler], level=level)


class JsonRows:
    """A writer of rows as JSON on stdout.

    Bytes that are text stay text; others become `{"base64": …}`.
    """

    def __init__(self, format: str = "json") -> None:
        self._lines = format == "jsonl"
        self._held = bytearray() if self._lines else bytearray(b"[")
        self._is_first = True

    def write(self, row: Mapping[str, Any]) -> None:
        """Write a line at once, or a part of an array when there is enough of it."""
        encoded = msgspec.json.encode({key: json_value(value) for key, value in row.items()})
        if self._lines:
            self._held += encoded + b"\n"
        else:
            self._held += encoded if self._is_first else b",\n " + encoded
            self._is_first = False
        if self._lines or len(self._held) > HELD_BYTES:
            self._flush()

    def close(self) -> None:
        """Write the end of an array."""
        if not self._lines:
            self._held += b"]\n"
        self._flush()

    def _flush(self) -> None:
        write_bytes(bytes(self._held))
        self._held.clear()


def write_json(rows: Iterable[Mapping[str, Any]], format: str = "json") -> None:
    """Write all rows on stdout, as `json` or as `jsonl`."""
    out = JsonRows(format)
    for row in rows:
        out.write(row)
    out.close()


def write_document(value: Any) -> None:
    """Write one JSON value on stdout."""
    write_bytes(msgspec.json.encode(value) + b"\n")


def write_csv(rows: Iterable[Sequence[Any]]) -> None:
    """Write rows as CSV on stdout. NULL is empty, bytes are as in `write_json`."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [csv_cell(value) for value in row] for row in rows
    )
    write_bytes(text.getvalue().encode("utf-8", "backslashreplace"))


def write_bytes(data: bytes) -> None:
    """Write bytes on stdout at once, made visible if it is a terminal."""
    if sys.stdout.isatty():
        data = safe_text(data.decode("utf-8", "backslashreplace")).encode()
    _write(data)


def write_line(text: str = "") -> None:
    """Write a line on stdout at once. Recorded text in it must have been through `safe_text`."""
    _write(f"{text}\n".encode("utf-8", "backslashreplace"))


def stdout_refusal() -> RecorderError | None:
    """Return the error if stdout cannot be written, tested with an empty line; call it after a
    failure.
    """
    try:
        write_line()
    except RecorderError as refusal:
        return refusal
    return None


def open_closed_stdout() -> None:
    """Replace a closed stdout (`>&-`) by one that refuses writes.

    Otherwise the next file that is opened gets its number.
    """
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")


def _write(data: bytes) -> None:
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # `| head` has seen enough
        _discard_rest()
        raise click.exceptions.Exit(0) from None
    except OSError as error:
        _discard_rest()
        raise RecorderError(f"stdout cannot be written: {error.strerror}.") from error


def _discard_rest() -> None:
    """Discard unwritten output, so that nothing writes it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def csv_cell(value: Any) -> Any:
    """Return a value as CSV has it: bytes that are not text are the JSON of `write_json`."""
    plain = json_value(value)
    return msgspec.json.encode(plain).decode() if isinstance(plain, dict) else plain


def dollars(usd: str, *, is_partial: bool) -> str:
    """Return an amount for a person, with cents, or smaller ones with three digits; `≥` says that
    there may be more.
    """
    amount = Decimal(usd)
    short = f"{amount:,.2f}" if amount >= 1 else f"{Context(prec=3).plus(amount):f}"
    return f"≥ ${short}" if is_partial else f"${short}"


def seconds(ns: int | None) -> str:
    """Return a duration for a person."""
    if ns is None:
        return ""
    return (
        f"{ns / 1e9:.3f} s"
        if ns < 60_000_000_000
        else f"{ns // 60_000_000_000} min {ns // 1_000_000_000 % 60} s"
    )
