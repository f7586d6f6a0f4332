"""Detection of a file's format, and of the dialect of its payloads, by its beginning.

Pure. A guess, never an error: whether a file really is what it looks like is checked where it is
read.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from recorder.wire.dialects import DIALECTS
from recorder.wire.dialects.json_values import decoded_or_none
from recorder.wire.framing.sse import BOM, Splitter, parse

Format = Literal[
    "sse",
    "payloads",
    "json",
    "jsonl",
    "cassette",
    "har",
    "vcr",
    "cassetter",
    "litellm",
    "claude-tap",
    "ai-sdk",
    "claude-code",
    "codex",
    "gemini-cli",
    "opencode",
]

# that are looked at: a first event may hold all instructions and tools of an agent
HEAD_BYTES = 2**20
PAYLOADS = 50  # that are looked at: one of the first says what it is, in every format

_OPENINGS: Mapping[Format, re.Pattern[bytes]] = {
    "jsonl": re.compile(rb'\s*\{\s*"recorder_export"\s*:'),
    "cassette": re.compile(rb'\s*\{\s*"recorder_cassette"\s*:'),
    "har": re.compile(rb'\s*\{\s*"log"\s*:\s*\{'),
    "claude-tap": re.compile(
        rb'\s*\{\s*"__claude_tap_compact_trace__"\s*:'
        rb'|\s*\{\s*"timestamp"\s*:\s*"[^"]*"\s*,\s*"request_id"\s*:\s*"[^"]*"\s*,\s*"turn"\s*:'
    ),
    "claude-code": re.compile(
        rb'\s*\{(?=.*?"(?:parentUuid|leafUuid|operation)"\s*:)(?=.*?"sessionId"\s*:)', re.DOTALL
    ),
    "codex": re.compile(rb'\s*\{[^\n]{0,200}?"type"\s*:\s*"session_meta"'),
    "gemini-cli": re.compile(rb'\s*\{\s*"sessionId"\s*:\s*"[^"]*"\s*,\s*"projectHash"\s*:'),
    "opencode": re.compile(rb'\s*\{\s*"id"\s*:\s*"ses_'),
    "ai-sdk": re.compile(rb'\s*\{\s*"runs"\s*:\s*\['),
    "cassetter": re.compile(
        rb"\s*version\s*=\s*1\s*\[\[interactions\]\]"
        rb"|(?:\s|#[^\n]*\n|---[^\n]*\n)*version\s*:.*?^[ -]+body\s*:\s*\n +type\s*:\s*(?:json|text|binary|none)\s*$",
        re.MULTILINE | re.DOTALL,
    ),
    "litellm": re.compile(
        rb'\s*(?:\[\s*)?\{(?=.*?"call_type"\s*:)(?=.*?"startTime"\s*:)(?=.*?"custom_llm_provider"\s*:)',
        re.DOTALL,
    ),
    "vcr": re.compile(
        rb'\s*\{\s*(?:"version"\s*:\s*1\s*,\s*)?"(?:http_)?interactions"\s*:\s*\['
        rb"|(?:\s|#[^\n]*\n|---[^\n]*\n)*(?:(?:version|metadata|recorded_with)\s*:.*?^)?(?:http_)?interactions\s*:",
        re.MULTILINE | re.DOTALL,
    ),
}

_UNREAD: Mapping[str, re.Pattern[bytes]] = {
    # Its status is a text above the code, where that of VCR is a mapping of both.
    "go-vcr": re.compile(
        rb"(?:\s|#[^\n]*\n|---[^\n]*\n)*version\s*:\s*\d+\s+interactions\s*:"
        rb".*?^ +status\s*:\s*[\"']?\d{3}\b[^\n]*\n +code\s*:\s*\d{3}\b",
        re.MULTILINE | re.DOTALL,
    ),
    "nock": re.compile(rb'\s*\[\s*\{\s*"scope"\s*:\s*"https?://'),
    "Betamax for Java": re.compile(rb"(?:---\s*)?!tape\b"),
    "WireMock": re.compile(
        rb'\s*\{\s*"mappings"\s*:\s*\['
        rb'|\s*\{(?:\s*"(?:id|uuid|name)"\s*:\s*"[^"]*"\s*,)*\s*"request"\s*:\s*\{[^{}]*"url(?:Path|Pattern)?\w*"\s*:'
    ),
    "Hoverfly": re.compile(rb'\s*\{\s*"data"\s*:\s*\{\s*"pairs"\s*:'),
}
"""Programs whose recordings look like what is read here, and are not."""

TRANSCRIPTS: frozenset[Format] = frozenset({"claude-code", "codex", "gemini-cli", "opencode"})
"""What agents write down themselves: all that is read of a directory."""

# that of UTF-32-LE begins like UTF-16's
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
_FIELD = re.compile(rb"^(?:(?:event|data|id|retry|error)(?::|\r?$)|:)", re.MULTILINE)


def is_wide(head: bytes) -> bool:
    """Return whether a file that begins like this is UTF-16 or UTF-32, as Windows' `>` writes it."""
    return head.startswith(_WIDE)


def unread_program(head: bytes) -> str | None:
    """Return the name of the program whose recordings begin like this and are not read here, or
    None.
    """
    head = head.removeprefix(BOM)
    return next((program for program, opening in _UNREAD.items() if opening.match(head)), None)


def formats(head: bytes) -> tuple[Format, ...]:
    """Return the formats that a file which begins like this may have, the likeliest first."""
    head = head.removeprefix(BOM)
    if head.startswith(b"SQLite format 3\0"):
        return ("opencode",)
    if b"\0" in head:
        return ()
    for format, opening in _OPENINGS.items():
        if opening.match(head):
            return (format,)
    stream: tuple[Format, ...] = ("sse",) if looks_like_stream(head) else ()
    if not head.lstrip().startswith((b"{", b"[")):
        return stream
    return (*(("payloads", "json") if _is_in_lines(head) else ("json", "payloads")), *stream)


def looks_like_stream(head: bytes) -> bool:
    """Return whether a line of `head` could be one of an event stream."""
    return _FIELD.search(head.removeprefix(BOM)) is not None


def is_payload(line: bytes) -> bool:
    """Return whether a line can be the payload of an event: a JSON object, or the mark that ends a
    stream.
    """
    return line == b"[DONE]" or isinstance(decoded_or_none(line), dict)


def dialect_of(payloads: Iterable[Any]) -> str:
    """Return the dialect of these payloads, by the first of them that shows it."""
    for payload in payloads:
        for each in payload if isinstance(payload, list) else [payload]:
            if isinstance(each, dict):
                for dialect in DIALECTS:
                    if dialect.speaks and dialect.speaks(each):
                        return dialect.name
    return "other"


def payloads_in(format: Format, head: bytes) -> Iterable[Any]:
    """Return the payloads in the beginning of a file."""
    if format == "json":
        return [decoded_or_none(head)]
    if format == "payloads":
        return [decoded_or_none(line) for line in head.splitlines()[:PAYLOADS]]
    splitter = Splitter()
    blocks = [piece.raw.removeprefix(BOM) for piece in (*splitter.feed(head), *splitter.close())]
    return [_payload(block) for block in blocks[:PAYLOADS]]


def _payload(block: bytes) -> Any:
    """Return the payload of a block; if it is cut or no JSON, an object with the type that its
    event line gives.
    """
    fields = parse(block)
    found = decoded_or_none(fields.data or b"")
    return {"type": (fields.event or b"").decode("utf-8", "replace")} if found is None else found


def _is_in_lines(head: bytes) -> bool:
    """Return whether the first line is a payload, and others follow or it is clearly one of a
    stream.
    """
    lines = [line for line in head.split(b"\n") if line.strip()]
    first = decoded_or_none(lines[0])
    if not isinstance(first, dict):
        return False
    return len(lines) > 1 or any(
        dialect.is_event and dialect.is_event(first) for dialect in DIALECTS
    )
