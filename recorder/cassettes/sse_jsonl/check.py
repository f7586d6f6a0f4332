"""Findings of `recorder lint --cassette`: sentences for people, each with its line.

Never raises for the file's content.

A cassette that can be read may still be wrong: it breaks off, its sums are not those of its lines,
or it holds what looks like a secret. Requests are redacted when they are recorded, and headers
again when a cassette is read; a response is kept as it came, and so is what somebody has written
into the file: only this check looks into those, for all that a recording would have redacted.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from recorder.cassettes.sse_jsonl.lines import LINE_LIMIT, value
from recorder.cassettes.sse_jsonl.reader import CassetteReader
from recorder.cassettes.sse_jsonl.steps import Sums, clean_headers
from recorder.errors import RecorderError
from recorder.model.events import BODY_KINDS, EndRecord, Event, Exchange
from recorder.wire.redaction.bodies import BY_SHAPE

FINDINGS_LIMIT = 100  # of one cassette: who sees a hundred looks at the file

_BASE64 = re.compile(rb'"base64"\s*:\s*"([A-Za-z0-9+/=]*)"')

Finding = tuple[int, str]


def findings(file: BinaryIO) -> list[str]:
    """Return the faults of a cassette, in order of its lines; at most `FINDINGS_LIMIT`."""
    found = [*_in_rows(file), *_in_lines(file)]
    return [
        f"line {line}: {message}"
        for line, message in sorted(found, key=lambda each: each[0])[:FINDINGS_LIMIT]
    ]


def _in_rows(file: BinaryIO) -> Iterator[Finding]:
    """Yield the first breach of the format, and what the format allows but no recorder writes."""
    reader = CassetteReader(file)
    course = _Course()
    try:
        for row in reader.rows():
            yield from ((reader.line, message) for message in course.follow(row))
    except RecorderError as error:
        yield reader.line, str(error).partition(": ")[2] or str(error)
        return
    yield from ((max(1, reader.line - 1), message) for message in course.close())


class _Course:
    """The order of the events of an exchange."""

    def __init__(self) -> None:
        self._begun = 0
        self._has_response = self._has_end = True
        self._sums = Sums()

    def follow(self, row: Exchange | Event) -> Iterator[str]:
        """Yield the faults of the next row."""
        if isinstance(row, Exchange):
            yield from self._unended()
            self._begun += 1
            self._has_response = self._has_end = False
            self._sums = Sums()
            return
        if row.kind in BODY_KINDS and not self._has_response:
            yield "a response body begins without a response before it"
            self._has_response = True
        if row.kind == "end":
            yield from self._wrong_sums(row.raw)
        self._has_response = self._has_response or row.kind == "response"
        self._has_end = self._has_end or row.kind == "end"
        self._sums.add(row)

    def close(self) -> Iterator[str]:
        """Yield what is missing at the end of the file."""
        if not self._begun:
            yield "there is no exchange in it"
        yield from self._unended()

    def _unended(self) -> Iterator[str]:
        if not self._has_end:
            yield "the exchange before it has no end" if self._begun else "it has no end"

    def _wrong_sums(self, raw: bytes) -> Iterator[str]:
        stated, counted = (
            msgspec.structs.asdict(msgspec.json.decode(raw, type=EndRecord)),
            self._sums.usual_end(),
        )
        wrong = [
            name
            for name in ("body_bytes", "body_sha256", "http_status")
            if stated[name] != counted[name]
        ]
        if wrong:
            yield f"the end says another {wrong[0]} than the lines before it come to: take it out of the line"


# -- what should not be there


def _in_lines(file: BinaryIO) -> Iterator[Finding]:
    file.seek(0)
    for number, written in enumerate(iter(lambda: file.readline(LINE_LIMIT), b""), 1):
        headers = [] if written.startswith(b"[") else _unredacted(written)
        for kind in _kinds(written):
            if kind != "header" or not headers:  # those of the exchange are named below
                yield number, f"it holds what looks like a secret ({kind})"
        for name in headers:
            yield number, f"the header {name} is not redacted"


def _kinds(written: bytes) -> list[str]:
    """Return the kinds of secrets that a line seems to hold, in plain text or in base64."""
    kinds: set[str] = set()
    for text in (written, *map(_decoded, _BASE64.findall(written))):
        kinds.update(BY_SHAPE.redact(text).counts)
    return sorted(kinds)


def _decoded(given: bytes) -> bytes:
    try:
        return b64decode(given)
    except binascii.Error:
        return b""


def _unredacted(written: bytes) -> list[str]:
    """Return names of headers whose values a recorder would have redacted."""
    try:
        line = value(written)
    except ValueError:
        return []
    if not isinstance(line, dict):
        return []
    names: list[str] = []
    for kind in ("request", "response"):
        given = _headers(line.get(kind))
        names += [
            name
            for (name, sent), (_, clean) in zip(given, clean_headers(given), strict=True)
            if sent != clean
        ]
    return names


def _headers(head: Any) -> list[tuple[str, str]]:
    try:
        return msgspec.convert(head["headers"], list[tuple[str, str]])
    except (TypeError, KeyError, msgspec.ValidationError):
        return []
