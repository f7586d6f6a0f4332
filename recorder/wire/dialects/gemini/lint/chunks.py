"""The faults of a stream of Gemini: its lines, chunks, candidates, usage, errors, and end.

Each line is `data: ` and JSON, or an error as bare JSON: the SDK for Python reads line by line, and
takes what is neither for a piece of JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain

from recorder.lint.faults import is_json, is_whole_number, misfit, shown
from recorder.lint.rule import Faults
from recorder.lint.sse import is_done_mark
from recorder.lint.stream import StreamBlock, StreamView
from recorder.wire.dialects.gemini.lint.shapes import SHAPES
from recorder.wire.dialects.json_values import (
    Object,
    array,
    decoded_or_none,
    member,
    object_,
    objects,
    text,
)
from recorder.wire.framing.sse import BOM

_COUNTS = (
    *("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount"),
    *("totalTokenCount", "cachedContentTokenCount"),
)
_SUMMED = _COUNTS[:4]
_SAME = ("modelVersion", "responseId")
_SIGNING = re.compile(r"(?:.*/)?gemini-(?:[3-9]|\d\d)(?!.*image)")
_SNAKE = (
    "usage_metadata",
    "model_version",
    "response_id",
    "prompt_feedback",
    "finish_reason",
    "grounding_metadata",
)
_SNAKE_IN_PARTS = (
    "function_call",
    "thought_signature",
    "inline_data",
    "executable_code",
    "code_execution_result",
)

_CONTENT_FIELDS = ("text", "functionCall", "executableCode", "inlineData", "fileData")

_BARE = (b"{", b"[")
"""How JSON begins that has no `data:` in front."""

_USUAL_BLOCK = re.compile(rb"data: [^\r\n]*(?:\r\n\r\n|\n\n|\r\r)?")
_LINES = re.compile(rb"[^\r\n]+")

_COUNTED = re.compile(r"usageMetadata(\.\w+Count)?")
"""The counts, of which even the text of a number is wrong."""

_RULE_OF = {"args": "GE014", "thoughtSignature": "GE016"}
"""The rules of some fields; all others have one together."""


class CandidateFaults:
    """Follows one candidate. `signs` says whether its model signs function calls."""

    def __init__(self, index: int, *, signs: bool) -> None:
        self._index = index
        self._signs = signs
        self._pos: int | None = None  # of the last that was said of it
        self._has_call = False
        self._is_calling = False  # a call whose arguments come in pieces is not over
        self.is_finished = False

    def feed(self, pos: int, candidate: Object) -> Faults:
        self._pos = pos
        parts, reason = member(candidate, "content", "parts"), candidate.get("finishReason")
        if self.is_finished and any(map(_has_content, objects(parts))):
            yield "GE021", pos, ""
        for part in array(parts):
            yield from self._part(pos, part)
        self.is_finished = self.is_finished or bool(reason or candidate.get("finish_reason"))

    def end(self) -> Faults:
        if not self.is_finished:
            yield "GE008", self._pos, f"candidate {self._index} has none"

    def _part(self, pos: int, part: object) -> Faults:
        fields = object_(part)
        call = fields.get("functionCall")
        if isinstance(call, dict):
            yield from self._call(
                pos, call, bool(fields.get("thoughtSignature") or fields.get("thought_signature"))
            )

    def _call(self, pos: int, call: Object, is_signed: bool) -> Faults:
        if not text(call, "name") and not self._is_calling:
            yield "GE013", pos, shown(call)
        if self._signs and not self._has_call and not is_signed:
            yield "GE015", pos, shown(call.get("name"))
        self._has_call = True
        self._is_calling = call.get("willContinue") is True


class Chunks:
    """Follows the chunks of one stream."""

    def __init__(self, stream: StreamView) -> None:
        self._stream = stream
        self._candidates: dict[int, CandidateFaults] = {}
        self._same: dict[str, object] = {}
        self._usage: tuple[int, Object] | None = None  # the last one that counts tokens, and where
        self._has_usage = self._is_blocked = self._failed = self._has_lf = False
        self._before: Object = {}  # the last chunk

    def feed(self, frame: StreamBlock) -> Faults:
        yield from _line_faults(frame)
        if is_done_mark(frame):
            yield "GE004", frame.pos, ""
            return
        payload = _bare(frame) if frame.data is None else frame.payload
        if payload is None and not is_json(frame):
            if frame.kind == "tail" and frame.data and self._is_finished:
                yield "GE022", frame.pos, "it is half an event"
            return
        if not isinstance(payload, dict):
            yield "GE006", frame.pos, shown(payload)
        elif self._failed:
            yield "GE010", frame.pos, ""
        elif "error" in payload:
            self._failed = True
            yield from _error(frame.pos, payload)
        elif frame.data is None:
            yield "GE001", frame.pos, "JSON without data:"
        else:
            yield from self._ending(frame)
            yield from self._chunk(frame.pos, payload)

    @property
    def _is_finished(self) -> bool:
        """Return True if a cut would not show: all candidates have their reason, and the cut is not
        ours.
        """
        candidates = self._candidates.values()
        return (
            bool(candidates)
            and all(each.is_finished for each in candidates)
            and not self._stream.was_cut_by_us
        )

    def end(self) -> Faults:
        """Yield what is missing, and faults in the sum of the last usage."""
        if self._usage:
            pos, usage = self._usage
            yield from _sum(pos, usage)
        if self._failed or not self._stream.is_seen_whole:
            return
        missing = list(
            chain.from_iterable(candidate.end() for candidate in self._candidates.values())
        )
        if not self._candidates and not self._is_blocked:
            missing = [("GE008", None, "there is no candidate at all")]
        yield from missing
        if not self._has_usage and not missing:
            yield "GE009", None, ""

    def _ending(self, frame: StreamBlock) -> Faults:
        """Yield the faults of a chunk's ending.

        LF is reported once, where it begins: it is as true of all others.
        """
        if frame.kind == "tail" and not self._stream.was_cut_by_us:
            yield "GE022", frame.pos, ""
        if not self._has_lf and frame.raw.endswith(b"\n\n"):
            self._has_lf = True
            yield "GE005", frame.pos, ""

    def _chunk(self, pos: int, chunk: Object) -> Faults:
        for name in _SAME:
            value = chunk.get(name)
            if value is not None and value != self._same.setdefault(name, value):
                yield "GE019", pos, f"{name} is {shown(value)}, was {shown(self._same[name])}"
        candidates = chunk.get("candidates")
        for each in SHAPES.misfits(chunk, "generate_content_response"):
            if not _COUNTED.fullmatch(each.path):
                yield _RULE_OF.get(each.path.rpartition(".")[2], "GE011"), pos, misfit(each)
        if chunk == self._before and any(
            member(each, "finishReason") for each in array(candidates)
        ):
            yield "GE023", pos, ""
        self._before = chunk
        self._is_blocked = self._is_blocked or bool(
            chunk.get("promptFeedback") or chunk.get("prompt_feedback")
        )
        yield from self._candidate_faults(pos, array(candidates))
        yield from self._note_usage(pos, chunk)
        snake = _in_snake_case(chunk)
        if snake:
            yield "GE018", pos, snake

    def _candidate_faults(self, pos: int, candidates: Iterable[object]) -> Faults:
        seen: set[int] = set()
        for each in candidates:
            candidate = object_(each)
            index = candidate.get("index", 0)
            if not isinstance(each, dict) or not is_whole_number(index):
                if isinstance(index, str) and index.isdigit():
                    yield "GE011", pos, f"index is {shown(index)}, which must be a number"
                continue
            if index in seen:
                yield "GE020", pos, f"index {index}"
            seen.add(index)
            yield from self._candidate(index).feed(pos, candidate)

    def _candidate(self, index: int) -> CandidateFaults:
        if index not in self._candidates:
            signs = _SIGNING.match(str(self._same.get("modelVersion"))) is not None
            self._candidates[index] = CandidateFaults(index, signs=signs)
        return self._candidates[index]

    def _note_usage(self, pos: int, chunk: Object) -> Faults:
        usage = chunk.get("usageMetadata")
        self._has_usage = self._has_usage or bool(usage or chunk.get("usage_metadata"))
        wrong = usage is not None and _miscounted(usage)
        if wrong:
            yield "GE012", pos, wrong
        elif isinstance(usage, dict) and any(name in usage for name in _COUNTS):
            self._usage = (pos, usage)


def _has_content(part: Object) -> bool:
    return any(part.get(name) for name in _CONTENT_FIELDS)


def _line_faults(frame: StreamBlock) -> Faults:
    """Yield the faults of the lines of a block."""
    if _USUAL_BLOCK.fullmatch(frame.raw):
        return
    raw = frame.raw.removeprefix(BOM)
    if raw.lstrip().startswith(_BARE):
        return
    for line in _LINES.findall(raw):
        if not line.startswith(b"data: "):
            yield _line_rule(line), frame.pos, line[:60].decode("utf-8", "replace")


def _line_rule(line: bytes) -> str:
    if line.startswith(b":"):
        return "GE002"
    return "GE003" if line.startswith(b"data:") else "GE001"


def _bare(frame: StreamBlock) -> object:
    """Decode a block without `data:`, as the SDK for Python reads it; return `None` if it is not
    JSON.
    """
    return decoded_or_none(frame.raw) if frame.raw.lstrip().startswith(_BARE) else None


def _error(pos: int, payload: Object) -> Faults:
    error = payload["error"]
    if (
        not isinstance(error, dict)
        or not is_whole_number(error.get("code"))
        or next(iter(payload)) != "error"
    ):
        yield "GE007", pos, shown(payload)


def _miscounted(usage: object) -> str:
    """Return the first wrong count of a usage; empty if there is none."""
    if not isinstance(usage, dict):
        return f"usageMetadata is {shown(usage)}"
    wrong = (
        name for name in _COUNTS if usage.get(name) is not None and not is_whole_number(usage[name])
    )
    return next((f"{name} is {shown(usage[name])}" for name in wrong), "")


def _negative(usage: Object) -> str:
    return next(
        (
            f"{name} is {usage[name]}"
            for name in _COUNTS
            if is_whole_number(usage.get(name)) and usage[name] < 0
        ),
        "",
    )


def _sum(pos: int, usage: Object) -> Faults:
    total, parts = usage.get("totalTokenCount"), [usage.get(name) or 0 for name in _SUMMED]
    cached = usage.get("cachedContentTokenCount") or 0
    negative = _negative(usage)
    if negative:
        yield "GE017", pos, negative
    elif total is None:
        yield "GE017", pos, "totalTokenCount is missing"
    elif total != sum(parts):
        yield "GE017", pos, f"{' + '.join(map(str, parts))} is not {total}"
    elif cached > parts[0]:
        yield "GE017", pos, f"{cached} tokens are cached, of {parts[0]}"


def _in_snake_case(chunk: Object) -> str:
    """Return the name of a field in snake case, if there is one."""
    for name in _SNAKE:
        if name in chunk:
            return name
    for candidate in array(chunk, "candidates"):
        for name in _SNAKE:
            if name in object_(candidate):
                return name
        for part in array(candidate, "content", "parts"):
            for name in _SNAKE_IN_PARTS:
                if name in object_(part):
                    return name
    return ""
