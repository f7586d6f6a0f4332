"""What is wrong with a stream of Gemini: its chunks, its usage, its errors, its end."""

from __future__ import annotations

import re
from collections.abc import Iterable

from recorder.lint.gemini import lines
from recorder.lint.gemini.candidate import Candidate
from recorder.lint.gemini.shapes import SHAPES
from recorder.lint.rule import Hit
from recorder.lint.stream import Stream, Told
from recorder.lint.walk import Fault, heard, is_seen_whole, is_told, is_whole_number, misfit, shown
from recorder.wire.dialects.json_values import Object, array, decoded, object_

_COUNTS = (
    *("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount"),
    *("totalTokenCount", "cachedContentTokenCount"),
)
_SUMMED = _COUNTS[:4]
_SAME = ("modelVersion", "responseId")
_SIGNING = re.compile(r"(?:.*/)?gemini-(?:[3-9]|\d\d)(?!.*image)")
_SNAKE = ("usage_metadata", "model_version", "response_id", "prompt_feedback", "finish_reason", "grounding_metadata")
_SNAKE_IN_PARTS = ("function_call", "thought_signature", "inline_data", "executable_code", "code_execution_result")

_COUNTED = re.compile(r"usageMetadata(\.\w+Count)?")
"""The counts, of which even the text of a number is wrong."""

_RULE_OF = {"args": "GE014", "thoughtSignature": "GE016"}
"""The rules of some fields; all others have one together."""


def faults(stream: Stream) -> Iterable[Fault]:
    """The faults of a stream, in order, then those of its end."""
    chunks = Chunks(is_cut=stream.was_cut_by_us)
    for told in heard(stream):
        yield from lines.faults(told)
        yield from chunks.hear(told)
    yield from chunks.end(is_seen_whole(stream))


class Chunks:
    """Follows the chunks of one stream."""

    def __init__(self, *, is_cut: bool) -> None:
        self._is_cut = is_cut
        self._candidates: dict[int, Candidate] = {}
        self._same: dict[str, object] = {}
        self._usage: tuple[int, Object] | None = None  # the last one that counts tokens, and where
        self._has_usage = self._is_blocked = self._failed = self._has_lf = False
        self._before: Object = {}  # the last chunk

    def hear(self, told: Told) -> Iterable[Fault]:
        if told.data is not None and told.data.strip() == b"[DONE]":
            yield "GE004", Hit(told.pos)
            return
        payload = _bare(told) if told.data is None else told.payload
        if payload is None and not is_told(told):
            return
        if not isinstance(payload, dict):
            yield "GE006", Hit(told.pos, shown(payload))
        elif self._failed:
            yield "GE010", Hit(told.pos)
        elif "error" in payload:
            self._failed = True
            yield from _error(told.pos, payload)
        elif told.data is None:
            yield "GE001", Hit(told.pos, "JSON without data:")
        else:
            yield from self._ending(told)
            yield from self._chunk(told.pos, payload)

    def end(self, is_seen_whole: bool) -> Iterable[Fault]:
        """What is missing, and what the last usage adds up to."""
        if self._usage:
            pos, usage = self._usage
            yield from _sum(pos, usage)
        if self._failed or not is_seen_whole:
            return
        missing = [fault for candidate in self._candidates.values() for fault in candidate.end()]
        if not self._candidates and not self._is_blocked:
            missing = [("GE008", Hit(None, "there is no candidate at all"))]
        yield from missing
        if not self._has_usage and not missing:
            yield "GE009", Hit(None)

    def _ending(self, told: Told) -> Iterable[Fault]:
        """How a chunk ends. LF is told once, where it begins: it is as true of all others."""
        if told.kind == "tail" and not self._is_cut:
            yield "GE022", Hit(told.pos)
        if not self._has_lf and told.raw.endswith(b"\n\n"):
            self._has_lf = True
            yield "GE005", Hit(told.pos)

    def _chunk(self, pos: int, chunk: Object) -> Iterable[Fault]:
        for name in _SAME:
            value = chunk.get(name)
            if value is not None and value != self._same.setdefault(name, value):
                yield "GE019", Hit(pos, f"{name} is {shown(value)}, was {shown(self._same[name])}")
        candidates = chunk.get("candidates")
        for each in SHAPES.misfits(chunk, "generate_content_response"):
            if not _COUNTED.fullmatch(each.path):
                yield _RULE_OF.get(each.path.rpartition(".")[2], "GE011"), Hit(pos, misfit(each))
        if chunk == self._before and any(object_(each).get("finishReason") for each in array(candidates)):
            yield "GE023", Hit(pos)
        self._before = chunk
        self._is_blocked = self._is_blocked or bool(chunk.get("promptFeedback") or chunk.get("prompt_feedback"))
        yield from self._said_by(pos, array(candidates))
        yield from self._note_usage(pos, chunk)
        snake = _in_snake_case(chunk)
        if snake:
            yield "GE018", Hit(pos, snake)

    def _said_by(self, pos: int, candidates: Iterable[object]) -> Iterable[Fault]:
        told: set[int] = set()
        for each in candidates:
            said = object_(each)
            index = said.get("index", 0)
            if not isinstance(each, dict) or not is_whole_number(index):
                if isinstance(index, str) and index.isdigit():
                    yield "GE011", Hit(pos, f"index is {shown(index)}, which must be a number")
                continue
            if index in told:
                yield "GE020", Hit(pos, f"index {index}")
            told.add(index)
            yield from self._candidate(index).hear(pos, said)

    def _candidate(self, index: int) -> Candidate:
        if index not in self._candidates:
            signs = _SIGNING.match(str(self._same.get("modelVersion"))) is not None
            self._candidates[index] = Candidate(index, signs=signs)
        return self._candidates[index]

    def _note_usage(self, pos: int, chunk: Object) -> Iterable[Fault]:
        usage = chunk.get("usageMetadata")
        self._has_usage = self._has_usage or bool(usage or chunk.get("usage_metadata"))
        wrong = usage is not None and _miscounted(usage)
        if wrong:
            yield "GE012", Hit(pos, wrong)
        elif isinstance(usage, dict) and "totalTokenCount" in usage:
            self._usage = (pos, usage)


def _bare(told: Told) -> object:
    """The JSON of a block without `data:`, as the SDK for Python reads it; `None` if it is none."""
    if not told.raw.lstrip().startswith(lines.BARE):
        return None
    try:
        return decoded(told.raw)
    except ValueError:
        return None


def _error(pos: int, payload: Object) -> Iterable[Fault]:
    error = payload["error"]
    if not isinstance(error, dict) or not is_whole_number(error.get("code")) or next(iter(payload)) != "error":
        yield "GE007", Hit(pos, shown(payload))


def _miscounted(usage: object) -> str:
    """What is no count in a usage, if anything is."""
    if not isinstance(usage, dict):
        return f"usageMetadata is {shown(usage)}"
    wrong = (name for name in _COUNTS if usage.get(name) is not None and not is_whole_number(usage[name]))
    return next((f"{name} is {shown(usage[name])}" for name in wrong), "")


def _negative(usage: Object) -> str:
    return next(
        (f"{name} is {usage[name]}" for name in _COUNTS if is_whole_number(usage.get(name)) and usage[name] < 0), ""
    )


def _sum(pos: int, usage: Object) -> Iterable[Fault]:
    total, parts = usage["totalTokenCount"], [usage.get(name) or 0 for name in _SUMMED]
    cached = usage.get("cachedContentTokenCount") or 0
    negative = _negative(usage)
    if negative:
        yield "GE017", Hit(pos, negative)
    elif total is not None and total != sum(parts):
        yield "GE017", Hit(pos, f"{' + '.join(map(str, parts))} is not {total}")
    elif cached > parts[0]:
        yield "GE017", Hit(pos, f"{cached} tokens are cached, of {parts[0]}")


def _in_snake_case(chunk: Object) -> str:
    """A field that is called as in Python, if there is one."""
    for name in _SNAKE:
        if name in chunk:
            return name
    for candidate in array(chunk.get("candidates")):
        for name in _SNAKE:
            if name in object_(candidate):
                return name
        for part in array(object_(object_(candidate).get("content")).get("parts")):
            for name in _SNAKE_IN_PARTS:
                if name in object_(part):
                    return name
    return ""
