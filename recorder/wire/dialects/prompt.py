"""The prompt of a request: its parts in the order in which the provider gives them to the model,
cut into segments.

A provider's prompt cache keeps beginnings of prompts. Two requests share as much as segments are
equal.

Rules of this file:

* A segment is a tool, a block of the system prompt, a message or a block of one. What is not
  content, such as `temperature`, `stream`, ids and cache marks, is in no segment.
* Segments are compared as JSON without the white space between values: a provider parses the JSON
  and renders the values. The order of keys counts, because it is the order in which they are
  rendered. Source: Anthropic's page "Prompt caching", whose advice for misses is to keep the order
  of keys stable.
* A parameter of which the provider says that it invalidates what follows is a segment at its place,
  without a size.
* Bytes are not decoded to values here: a request of 1 MB takes 1 to 2 ms. Only one with escapes is
  written anew, since `\u00e9` is `é`; that takes it some milliseconds.
* A message of one text is the same as text and in a list, as where a mark is set. In the prompt it
  is as it was sent.
* The size of a picture or a file is not that of its base64: it makes few tokens for its bytes
  (`MEDIA_BYTES`).
* Nothing here raises: a body that cannot be read has no prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple

import msgspec

from recorder.wire.dialects.json_values import UNUSUAL

MEDIA_BYTES = 4_000
"""The size that a picture or a file counts for: that of a text of some thousand tokens, which is
what providers count for a picture of usual size."""

_MEDIA_LEAST = 4_096  # bytes of base64: a shorter run may be anything, and weighs little
_may_have_media = (b"base64", b'"data"', b'"file_data"')
_base64 = re.compile(rb"[A-Za-z0-9+/_=\\-]{%d,}" % _MEDIA_LEAST)

WHOLE = -1
"""The index of a segment that is the value of its part, and no element of a list."""

Members = Mapping[str, msgspec.Raw]

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
# `1e-06` is not `1e-6`
_values = msgspec.json.Decoder(float_hook=lambda number: msgspec.Raw(number.encode())).decode
_NOTHING = msgspec.Raw(b"")
_escapes = re.compile(
    rb"(?i)\\(?:ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(?P<half>ud[89a-f][0-9a-f]{2})|.)"
)
_one_text = re.compile(
    rb'\{(?:"type":"message",)?"role":(?P<role>"[^"\\]*"),'
    rb'"content":(?P<list>\[\{"type":"(?:input_)?text","text":)?(?=")'
).match
_is_compact = re.compile(rb'\{"[^"\\]*":\S').match
_ttl = re.compile(rb'"ttl"\s*:\s*"(?P<count>\d{1,3})(?P<unit>[mh])"')
_OF_SYSTEM = (b'"system"', b'"developer"')
_SECONDS = {b"m": 60, b"h": 3600}


class PromptPart(msgspec.Struct, frozen=True):
    """A member of a request that is a part of its prompt."""

    path: str  # names of members with dots between, one within the other
    kind: Literal["content", "parameter", "conversation"] = "content"
    # of a text: what stands before and behind it in the list that it means
    text_as: tuple[bytes, bytes] | None = None
    # the member of an element whose elements are segments, each under the element's `role`
    blocks: str | None = None
    blocks_text_as: tuple[bytes, bytes] | None = None  # the same as `text_as`, of that member
    ignored: frozenset[str] = frozenset()  # members of an element that are not content
    # matched with an element: the model is not shown it
    no_content: re.Pattern[bytes] | None = None


class PromptFormat(msgspec.Struct, frozen=True):
    """The parts of a prompt in the provider's order; the conversation is the last."""

    # searched in the path of a request: it has a prompt, and a model answers
    generates: re.Pattern[str]
    parts: tuple[PromptPart, ...]
    # the members that mark the end of a prefix to be cached, the provider's own first
    marks: tuple[str, ...] = ()
    # parameters that may invalidate a cache: the provider does not say
    suspects: tuple[str, ...] = ()
    retention: str | None = None  # the member that says how long a prefix is kept
    wrappers: tuple[str, ...] = ()  # members that may hold the whole request


class PromptSegment(NamedTuple):
    """A segment: its place, and what is compared."""

    part: int  # index of `PromptFormat.parts`
    element: int  # of the element, or `WHOLE`
    block: int  # of the block in the element, or `WHOLE`
    role: bytes  # of the message that a block is in, as JSON; empty for any other segment
    content: bytes  # JSON
    size_bytes: int  # of the content, see `_weight`; 0 for a parameter
    mark_s: int = 0  # seconds that a mark at its end keeps what ends here; 0 without a mark
    is_text: bool = False  # the request has a text where the content is what that means

    @property
    def compared(self) -> bytes:
        """Return the bytes that are compared.

        A message of one text may have it in a list, as where a mark is set.
        """
        begun = None if self.role else _one_text(self.content)
        if begun is None:
            return self.role + self.content
        closing = b"}]}" if begun["list"] else b"}"
        if not self.content.endswith(b'"' + closing):
            return self.role + self.content
        text = self.content[begun.end() : -len(closing)]
        return b'{"role":%b,"content":%b}' % (begun["role"], text)


class Prompt(NamedTuple):
    """The prompt of one request."""

    segments: list[PromptSegment]
    suspects: Mapping[str, bytes]  # by path
    retention: str | None  # in the provider's word
    root: str  # the member that holds the request, if one does


class CachePolicy(msgspec.Struct, frozen=True):
    """The documented facts of a provider's prompt cache.

    Sources stand beside the values in each dialect's folder.
    """

    # regular expressions of models, and tokens under which nothing is cached
    minimums: tuple[tuple[str, int], ...]
    # By regular expressions of models: without a use, the time after which a prefix may be gone,
    # and after which it is.
    lapses_s: tuple[tuple[str, tuple[int, int]], ...]
    step_tokens: int = 128  # in which cached tokens are counted
    # models, and tokens from the end of one cached prefix to the next
    intervals: tuple[tuple[str, int], ...] = ()
    needs_marks: bool = False  # only prefixes that end at a mark are cached
    reach: int | None = None  # segments before a mark in which a cached prefix is looked for
    omits_zero: bool = False  # a count of no cached tokens is not on the wire
    retentions: Mapping[str, tuple[int, int]] = {}  # `lapses_s` by what a request says

    def minimum(self, model: str | None) -> int:
        """Return the number of tokens under which nothing is cached."""
        return next(tokens for pattern, tokens in self.minimums if re.search(pattern, model or ""))

    def interval(self, model: str | None) -> int:
        """Return the number of tokens that may be missing at the end of a prefix that is cached."""
        found = (tokens for pattern, tokens in self.intervals if re.search(pattern, model or ""))
        return next(found, 2 * self.step_tokens)

    def lapses(self, model: str | None, retention: str | None) -> tuple[int, int]:
        """Return the seconds without use after which a prefix may be gone, and after which it is."""
        times = next(times for pattern, times in self.lapses_s if re.search(pattern, model or ""))
        return self.retentions.get(retention or "", times)


def prompt_of(format: PromptFormat, path: str, body: bytes) -> Prompt | None:
    """Return the prompt of a request; None if it has none, or no JSON object."""
    if not body or not format.generates.search(path):
        return None
    try:
        members = _members_of(body)
        root = next(
            (name for name in format.wrappers if bytes(members.get(name, _NOTHING))[:1] == b"{"), ""
        )
        members = _members(members[root]) if root else members
        segments: list[PromptSegment] = []
        for number in range(len(format.parts)):
            segments += _segments(format, number, members)
        mark_s = max(
            (_mark_s(bytes(members.get(mark, _NOTHING))) for mark in format.marks), default=0
        )
        if segments and mark_s:
            segments[-1] = segments[-1]._replace(mark_s=mark_s)
        suspects = {
            path: value for path in format.suspects if (value := _value(members, path)) is not None
        }
        return Prompt(segments, suspects, _retention(format, members), root)
    except (*UNUSUAL, ValueError):
        return None


def _members_of(body: bytes) -> Members:
    """Return the members of a request, without white space between values if its first one has
    some, and with characters in place of their escapes.

    Half an emoji, which clients cut off, is read as U+FFFD.
    """
    if b"\\u" in body or b"\\/" in body:
        body = _unescaped(body)
    return _members(body if _is_compact(body[:32]) else msgspec.json.format(body, indent=-1))


def _unescaped(body: bytes) -> bytes:
    """Return JSON with as few escapes as can be. Its numbers stay as they are written."""
    try:
        return msgspec.json.encode(_values(body))
    except msgspec.DecodeError:
        whole = _escapes.sub(lambda escape: rb"\ufffd" if escape["half"] else escape[0], body)
        return msgspec.json.encode(_values(whole))


def _weight(content: bytes) -> int:
    """Return the size of content by which its tokens are estimated."""
    if len(content) < _MEDIA_LEAST or not any(sign in content for sign in _may_have_media):
        return len(content)
    media = [len(run) for run in _base64.findall(content)]
    return len(content) - sum(media) + MEDIA_BYTES * len(media)


def system_segments(format: PromptFormat, segments: Sequence[PromptSegment]) -> int:
    """Return the number of segments before the first message that is not of the system."""
    for number, each in enumerate(segments):
        if format.parts[each.part].kind == "conversation" and _role(each) not in _OF_SYSTEM:
            return number
    return len(segments)


def _role(segment: PromptSegment) -> bytes:
    if segment.role or segment.content[:1] != b"{":
        return segment.role
    return bytes(_members(segment.content).get("role", _NOTHING))


def segment_path(format: PromptFormat, part: int, index: int, block: int) -> str:
    """Return the JSON path of a segment in its request, without `Prompt.root`."""
    declared = format.parts[part]
    path = declared.path if index == WHOLE else f"{declared.path}[{index}]"
    if declared.blocks is None or index == WHOLE:
        return path
    return f"{path}.{declared.blocks}" if block == WHOLE else f"{path}.{declared.blocks}[{block}]"


def _segments(format: PromptFormat, number: int, members: Members) -> Iterator[PromptSegment]:
    part = format.parts[number]
    value = _value(members, part.path)
    if value is None:
        return
    if part.kind == "parameter":
        yield PromptSegment(number, WHOLE, WHOLE, b"", value, 0)
        return
    value, is_text = _listed(value, part.text_as)
    if value[:1] != b"[":
        yield _segment(format, value, number)
        return
    for index, element in enumerate(_elements(value)):
        if part.blocks is not None:
            yield from _blocks(format, number, index, element)
            continue
        content = bytes(element)
        if is_text:
            yield _segment(format, content, number)._replace(is_text=True)
        elif part.no_content is None or not part.no_content.match(content):
            content = _without(content, part.ignored) if part.ignored else content
            yield _segment(format, content, number, index)


def _listed(value: bytes, text_as: tuple[bytes, bytes] | None) -> tuple[bytes, bool]:
    """Return a value as the list that it means, and whether it is a text."""
    if text_as is None or value[:1] != b'"':
        return value, False
    return text_as[0] + value + text_as[1], True


def _without(element: bytes, names: frozenset[str]) -> bytes:
    """Return an element without some members."""
    if element[:1] != b"{":
        return element
    members = _members(element)
    if names.isdisjoint(members):
        return element
    return msgspec.json.encode({name: each for name, each in members.items() if name not in names})


def _blocks(
    format: PromptFormat, number: int, index: int, element: msgspec.Raw
) -> list[PromptSegment]:
    """Return the blocks of a message, or the message if it has none."""
    part = format.parts[number]
    try:
        members = _members(element)
    except msgspec.ValidationError:  # no object
        return [_segment(format, bytes(element), number, index)]
    content, is_text = _listed(bytes(members.get(part.blocks or "", _NOTHING)), part.blocks_text_as)
    blocks = _elements(content) if content[:1] == b"[" else []
    if not blocks:
        return [_segment(format, bytes(element), number, index)]
    role = bytes(members.get("role", _NOTHING))
    segments = [
        _segment(format, bytes(each), number, index, block, role)
        for block, each in enumerate(blocks)
    ]
    return [segments[0]._replace(block=WHOLE, is_text=True)] if is_text else segments


def _segment(
    format: PromptFormat,
    content: bytes,
    part: int,
    element: int = WHOLE,
    block: int = WHOLE,
    role: bytes = b"",
) -> PromptSegment:
    mark_s = 0
    for name in format.marks:
        if name.encode() in content:
            content, marks = _unmarked(name, content)
            mark_s = max(map(_mark_s, marks), default=mark_s)
    return PromptSegment(part, element, block, role, content, _weight(content), mark_s)


def _unmarked(name: str, content: bytes) -> tuple[bytes, list[bytes]]:
    """Return content without its marks and one comma of each, and the marks."""
    marks, pieces, end = [], [], 0
    for mark in _marks(name).finditer(content):
        before = content[end : mark.start()].rstrip()
        end = mark.end()
        if before[-1:] == b",":
            before = before[:-1]
        elif (comma := _comma(content, end)) is not None:
            end = comma.end()
        marks.append(mark[0])
        pieces.append(before)
    return b"".join((*pieces, content[end:])), marks


_comma = re.compile(rb"\s*,\s*").match


@cache
def _marks(name: str) -> re.Pattern[bytes]:
    """Return the expression of a mark; it begins with a literal, which is found quickly.

    In a text its quotes would have backslashes.
    """
    return re.compile(rb'"' + name.encode() + rb'"\s*:\s*(?:\{[^{}]*\}|null)')


_MARK_S = 300


def _mark_s(mark: bytes) -> int:
    """Return the seconds that a mark keeps a prefix: five minutes unless it says more."""
    if b"{" not in mark:
        return 0
    lifetime = _ttl.search(mark)
    return int(lifetime["count"]) * _SECONDS[lifetime["unit"]] if lifetime else _MARK_S


def _value(members: Members, path: str) -> bytes | None:
    """Return the value at a path; None if there is none, or `null`."""
    *outer, last = path.split(".")
    for name in outer:
        inner = bytes(members.get(name, _NOTHING))
        if inner[:1] != b"{":
            return None
        members = _members(inner)
    value = bytes(members.get(last, msgspec.Raw(b"null")))
    return None if value == b"null" else value


def _retention(format: PromptFormat, members: Members) -> str | None:
    value = _value(members, format.retention) if format.retention is not None else None
    return (
        value.strip(b'"').decode(errors="replace")
        if value is not None and value[:1] == b'"'
        else None
    )
