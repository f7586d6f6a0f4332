"""Client ids: what a tool of the client returned for the model to hand back. The number of a
process, an agent's id.

A client makes them again in each run, and the recorded model hands back the recorded ones: a client
that gets these looks for an agent that it never had. Both requests name theirs, so the answer can
name the client's.

Rules of this file:

* Only the rules of kind `handles` decide what a client id is, by the client's own words around it.
  Those that a request and the recorded one name are pairs, by their order. There is no memory: the
  content of a request decides its answer.
* In an answer only texts of its JSON change, and of these only the client ids. Everything else is
  unchanged, byte for byte, and split at the same places: in an event, a read, a delta. The
  recording itself is never touched.
* Texts at the same place of events that follow one another are one text: an id may come in several
  deltas.
* Pure; never raises on what was recorded.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from recorder.model.events import Piece, Recording
from recorder.wire.dialects.json_values import decoded
from recorder.wire.framing.sse import ends_block, parse
from recorder.wire.recording import is_stream
from recorder.wire.redaction.unescape import Splice, spliced_pieces

ID_BYTES = range(4, 513)
"""The length of a client id. Fewer characters stand anywhere by chance; the path of a file is the
longest.
"""

ANSWER_BYTES = 8 * 2**20
"""The largest answer that client ids are put into: that takes a second or two. No model writes that
much.
"""

# what JSON writes as it is: ASCII without spaces, quotes, backslashes
_SAFE = re.compile(r"[!#-\[\]-~]+")
_DATA = re.compile(rb"(?:\A|[\r\n])data:[ ]?([^\r\n]*)")
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_CHARACTER = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|.", re.DOTALL)
_NUMBERS = frozenset({"index", "output_index", "content_index", "summary_index"})
"""Fields that say which of several texts an event goes on with."""

Path = tuple[str | int, ...]


def is_client_id(text: str) -> bool:
    """Return whether a text can be found again unchanged, and distinguished from others."""
    return len(text) in ID_BYTES and _SAFE.fullmatch(text) is not None


def finding(ids: Collection[str]) -> re.Pattern[str] | None:
    """Return a pattern that finds ids that no letter or digit continues; in a JSON text within a
    text a newline ends in `n`."""
    return (
        re.compile(rf"(?:(?<![0-9A-Za-z.])|(?<=\\[nrt]))(?:{any_of(ids)})(?![0-9A-Za-z])")
        if ids
        else None
    )


def any_of(names: Iterable[str]) -> str:
    """Return the expression for any of these texts, the longest first."""
    return "|".join(map(re.escape, sorted(names, key=len, reverse=True)))


def pairs(recorded: Mapping[str, int], requested: Mapping[str, int]) -> Mapping[str, str]:
    """Return the recorded ids, and those that the client has in their place.

    None, if one side has more than the other.

    One that both have is there too: another one may be a part of it.
    """
    if len(recorded) != len(requested) or list(recorded) == list(requested):
        return {}
    return dict(zip(recorded, requested, strict=True))


def with_client_ids(recorded: Recording, ids: Mapping[str, str]) -> Recording:
    """Return a recorded exchange whose answer names the ids of the client that gets it."""
    raws = [piece.raw for piece in recorded.pieces]
    body = b"".join(raws)
    pattern = finding(ids)
    if pattern is None or recorded.is_coded or len(body) > ANSWER_BYTES:
        return recorded
    edits = sorted(text_edits(body, pattern, lambda text: ids[text]))
    if not edits:
        return recorded
    changed = zip(recorded.pieces, spliced_pieces(raws, edits, splits=True), strict=True)
    pieces = tuple(piece._replace(raw=raw) for piece, raw in changed)
    return msgspec.structs.replace(recorded, pieces=pieces, reads=_reads(recorded, body, edits))


def renumbered(recorded: Recording, renumber: Callable[[bytes], bytes]) -> Recording:
    """Return a recorded exchange whose payloads have the ids of the request that it answers now.

    Its reads are those of other bytes: each event is sent by itself.
    """
    if recorded.is_coded:
        return recorded
    if not is_stream(recorded):
        pieces = [Piece(recorded.end_ns, renumber(recorded.body))] if recorded.body else []
        return msgspec.structs.replace(recorded, pieces=tuple(pieces), reads=())
    pieces, parts = [], list[bytes]()
    for piece in recorded.pieces:
        parts.append(piece.raw)
        if ends_block(piece.raw):
            pieces.append(piece._replace(raw=_renumbered_block(b"".join(parts), renumber)))
            parts.clear()
    rest = [Piece(recorded.end_ns, b"".join(parts))] if parts else []
    return msgspec.structs.replace(recorded, pieces=(*pieces, *rest), reads=())


def _renumbered_block(block: bytes, renumber: Callable[[bytes], bytes]) -> bytes:
    fields = parse(block)
    if fields.data is None or fields.data_start is None:
        return block
    return (
        block[: fields.data_start]
        + renumber(fields.data)
        + block[fields.data_start + len(fields.data) :]
    )


def _reads(
    recorded: Recording, body: bytes, edits: Sequence[Splice]
) -> tuple[tuple[int, int], ...]:
    """Return the reads of the edited body; none, if they are not those of this body."""
    reads: list[bytes] = []
    start = 0
    for _, size in recorded.reads:
        reads.append(body[start : start + size])
        start += size
    if start != len(body):
        return ()
    changed = zip(recorded.reads, spliced_pieces(reads, edits, splits=True), strict=True)
    return tuple((t_ns, len(raw)) for (t_ns, _), raw in changed)


class _EventText(NamedTuple):
    """A text of an event: where the event's JSON is, and the path to the text in it."""

    json: tuple[int, int]
    path: Path
    text: str


Offsets = Callable[[_EventText], Sequence[int] | None]


def text_edits(
    body: bytes, pattern: re.Pattern[str], instead: Callable[[str], str]
) -> Iterator[Splice]:
    """Yield what puts another text in place of each that a pattern matches in the texts of an
    answer's JSON.
    """
    offsets_of = _finder(body)
    for parts in _texts(body):
        starts = list(accumulate((len(part.text) for part in parts), initial=0))
        for match in pattern.finditer("".join(part.text for part in parts)):
            new = instead(match[0])
            if new != match[0]:
                yield from _in_parts(offsets_of, parts, starts, match.span(), new)


def joined_texts(body: bytes) -> list[str]:
    """Return the texts of an answer's JSON, those that events go on with as one."""
    return ["".join(part.text for part in parts) for parts in _texts(body)]


def _texts(body: bytes) -> Iterable[Sequence[_EventText]]:
    texts: dict[object, list[_EventText]] = {}
    for start, end in _payloads(body):
        try:
            value = decoded(body[start:end])
        except ValueError:
            continue
        for place, path, text in _leaves(value):
            texts.setdefault(place, []).append(_EventText((start, end), path, text))
    return texts.values()


def _payloads(body: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the JSON of each event is, or of the one document."""
    if body.lstrip()[:1] in (b"{", b"["):
        yield 0, len(body)
    else:
        yield from (match.span(1) for match in _DATA.finditer(body))


def _leaves(value: Any) -> Iterator[tuple[object, Path, str]]:
    """Yield each text of an event, with its path and its place, which it shares with those that it
    goes on with.
    """
    type = str(value.get("type")) if isinstance(value, dict) else ""
    waiting: list[tuple[Path, tuple[str, ...], Any]] = [((), (type,), value)]
    while waiting:
        path, numbers, each = waiting.pop()
        if isinstance(each, str):
            yield (path, numbers), path, each
        elif isinstance(each, dict):
            own = tuple(
                f"{len(path)} {name} {each[name]!r}"
                for name in _NUMBERS
                if isinstance(each.get(name), int)
            )
            waiting += (((*path, name), numbers + own, member) for name, member in each.items())
        elif isinstance(each, list):
            waiting += (((*path, number), numbers, member) for number, member in enumerate(each))


def _in_parts(
    offsets_of: Offsets,
    parts: Sequence[_EventText],
    starts: Sequence[int],
    span: tuple[int, int],
    new: str,
) -> Sequence[Splice]:
    """Return the edits that put `new` in place of `span` of a text that came in parts; none, if one
    of them is not found."""
    edits: list[Splice] = []
    number = bisect_right(starts, span[0]) - 1
    while number < len(parts) and starts[number] < span[1]:
        first, last = max(starts[number], span[0]), min(starts[number + 1], span[1])
        if first < last:
            offsets = offsets_of(parts[number])
            if offsets is None:
                return ()
            replacement = new[first - span[0] : None if last == span[1] else last - span[0]]
            edits.append(
                Splice(
                    offsets[first - starts[number]],
                    offsets[last - starts[number]],
                    replacement.encode(),
                )
            )
        number += 1
    return edits


def _finder(body: bytes) -> Offsets:
    """Return a function that finds texts in a body again.

    It looks into each event and each text once.
    """

    @cache
    def strings(json: tuple[int, int]) -> Mapping[Path, tuple[int, int]]:
        return dict(_strings(body[slice(*json)]))

    @cache
    def offsets(text: _EventText) -> Sequence[int] | None:
        """Return where each character of a text begins in the body, and where the last one ends."""
        span = strings(text.json).get(text.path)
        if span is None:
            return None
        start, end = text.json[0] + span[0] + 1, text.json[0] + span[1] - 1
        raw = body[start:end]
        if raw.isascii() and b"\\" not in raw:
            return range(start, end + 1)
        characters = _CHARACTER.findall(raw.decode("utf-8", "replace"))
        offsets = list(
            accumulate((len(each.encode("utf-8", "replace")) for each in characters), initial=start)
        )
        return offsets if len(offsets) == len(text.text) + 1 else None

    return offsets


def _strings(raw: bytes) -> Iterator[tuple[Path, tuple[int, int]]]:
    """Yield the path and the span, with its quotes, of each text of a JSON value."""
    path: list[str | int] = []
    before = b""
    for token in _TOKEN.finditer(raw):
        symbol = token[0]
        if symbol in (b"{", b"["):
            path.append("" if symbol == b"{" else 0)
        elif symbol in (b"}", b"]"):
            path.pop()
        elif symbol == b"," and path and isinstance(path[-1], int):
            path[-1] += 1
        elif symbol[:1] == b'"' and path and isinstance(path[-1], str) and before in (b"{", b","):
            path[-1] = str(decoded(symbol))
        elif symbol[:1] == b'"':
            yield tuple(path), token.span()
        before = symbol
