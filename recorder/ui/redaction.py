"""Secrets, removed again when a session leaves this machine as a file that people open. Pure.

The log has responses as they came, and there a secret may be in pieces: a model that repeats a key
writes it in ten deltas. So it is looked for in the texts that deltas make together, and taken out
of each delta that brought a part of it: the first has the placeholder, the others have nothing in
its place.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from recorder.model.events import Event
from recorder.wire.redaction.bodies import Redactor, placeholder

PathKey = tuple[str | int, ...]
Step = list[Any]  # [pos, ops] or [pos, ops, t_ns], as `recorder.ui.track` makes them


class _Contribution(NamedTuple):
    """A text that an operation brings: its value, or a text at a path inside of its value."""

    step: int
    op: int
    inner: PathKey
    text: str


def redacted_value(value: Any, redactor: Redactor, counts: Counter[str]) -> Any:
    """Return a value of JSON without a secret in any of its texts."""
    if isinstance(value, str):
        return _without(value, redactor, counts)
    if isinstance(value, list | tuple):
        return [redacted_value(each, redactor, counts) for each in value]
    if isinstance(value, Mapping):
        return {name: redacted_value(each, redactor, counts) for name, each in value.items()}
    return value


def redacted_rows(
    events: Iterable[Event], in_pieces: Collection[int], redactor: Redactor
) -> dict[int, bytes]:
    """Return the bytes of events as they may be shown, by position, where they are not as recorded.

    What is cut anywhere is read as one: of a body that is not an event stream, and of a request,
    the first piece has all that is left. An event that brought a part of a secret is left out
    whole, since its other fields may repeat it.
    """
    changed: dict[int, bytes] = {}
    for run in _runs(events):
        raw = b"".join(event.raw for event in run)
        redacted = redactor.redact(raw).body
        if run[0].pos in in_pieces:
            redacted = placeholder("event", len(raw))
        if redacted != raw:
            changed |= {event.pos: b"" for event in run} | {run[0].pos: redacted}
    return changed


def _runs(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Yield events, those together whose bytes are one text that was cut at any place."""
    run: list[Event] = []
    for event in events:
        is_cut = event.kind in ("body", "part", "tail") or (
            event.kind == "request" and event.type == "body"
        )
        if run and is_cut and run[-1].kind in (event.kind, "part") and run[-1].type == event.type:
            run.append(event)
            continue
        if run:
            yield run
        run = [event]
    if run:
        yield run


def _without(text: str, redactor: Redactor, counts: Counter[str]) -> str:
    pieces: list[str] = []
    end = 0  # of what is in the pieces
    for hit in redactor.secrets(text):
        pieces += [text[end : hit.start], _placeholder(hit.kind, text[hit.start : hit.end])]
        end = hit.end
        counts[hit.kind] += 1
    return "".join([*pieces, text[end:]])


def _placeholder(kind: str, secret: str) -> str:
    return placeholder(kind, len(secret.encode("utf-8", "surrogatepass"))).decode()


class _TextTree:
    """The texts at a path of a document and inside of it: a set closes these without a look at all
    others.
    """

    __slots__ = ("inner", "pieces")

    def __init__(self) -> None:
        self.pieces: list[_Contribution] = []
        self.inner: dict[str | int, _TextTree] = {}

    def at(self, path: PathKey) -> _TextTree:
        """Return what is at a path, made if there is nothing yet."""
        tree = self
        for key in path:
            if key not in tree.inner:
                tree.inner[key] = _TextTree()
            tree = tree.inner[key]
        return tree


class RedactedTrack:
    """The steps of a whole exchange without secrets, the positions whose events brought a piece of
    one, and how many of which kind there were.
    """

    def __init__(self, steps: list[Step], redactor: Redactor) -> None:
        """Redact steps from the first event on, in place."""
        self.steps = steps
        self.pieces = set[int]()
        self.counts: Counter[str] = Counter()
        self._redactor = redactor
        self._open = _TextTree()  # texts that grow, each a list of the pieces that wrote it
        self._lengths = dict[PathKey, int]()  # of arrays, by path
        for number, step in enumerate(steps):
            for op_number, op in enumerate(step[1]):
                self._read(number, op_number, op)
        self._close(self._open)

    def _read(self, step: int, op_number: int, op: list[Any]) -> None:
        name, path = op[0], tuple(op[1])
        if name == "add":
            self._open.at(path).pieces.append(_Contribution(step, op_number, (), op[2]))
            return
        if name == "push":
            index = self._lengths.get(path, 0)
            self._lengths[path] = index + 1
            path = (*path, index)
        else:
            self._close(self._open.at(path))
        if name != "cut":
            for inner, text in self._leaves(path, op[2], ()):
                self._open.at((*path, *inner)).pieces.append(
                    _Contribution(step, op_number, inner, text)
                )

    def _leaves(self, path: PathKey, value: Any, inner: PathKey) -> Iterator[tuple[PathKey, str]]:
        if isinstance(value, str):
            yield inner, value
        elif isinstance(value, list | tuple):
            self._lengths[(*path, *inner)] = len(value)
            for index, each in enumerate(value):
                yield from self._leaves(path, each, (*inner, index))
        elif isinstance(value, Mapping):
            for name, each in value.items():
                yield from self._leaves(path, each, (*inner, name))

    def _close(self, tree: _TextTree) -> None:
        """Take the secrets out of all texts of a tree: nothing is added to them any more."""
        for inner in tree.inner.values():
            self._close(inner)
        if tree.pieces:
            self._redact(tree.pieces)
        tree.pieces, tree.inner = [], {}

    def _redact(self, pieces: list[_Contribution]) -> None:
        """Take the secrets out of a text that is whole."""
        whole = "".join(piece.text for piece in pieces)
        hits = self._redactor.secrets(whole)
        if not hits:
            return
        starts, ends = [hit.start for hit in hits], [hit.end for hit in hits]
        end = 0
        for piece in pieces:
            start, end = end, end + len(piece.text)
            inside = hits[bisect_right(ends, start) : bisect_left(starts, end)]
            if not inside or not piece.text:
                continue
            left = ""  # what stays of the piece
            shown = start  # up to where it is in there
            for hit in inside:
                left += whole[shown : max(hit.start, start)]
                if start <= hit.start:
                    left += _placeholder(hit.kind, whole[hit.start : hit.end])
                    self.counts[hit.kind] += 1
                shown = min(hit.end, end)
            is_part = inside[0].start < start or end < inside[-1].end
            self._write(piece, left + whole[shown:end], is_part=is_part)

    def _write(self, piece: _Contribution, text: str, *, is_part: bool) -> None:
        step = self.steps[piece.step]
        op = step[1][piece.op]
        op[2] = _replaced(op[2], piece.inner, text)
        if is_part and len(step) == 2:
            self.pieces.add(step[0])


def _replaced(value: Any, path: PathKey, text: str) -> Any:
    """Return a copy of a value with a text at a path."""
    if not path:
        return text
    if isinstance(value, Mapping):
        return {**value, path[0]: _replaced(value[path[0]], path[1:], text)}
    at = int(path[0])
    return [*value[:at], _replaced(value[at], path[1:], text), *value[at + 1 :]]
