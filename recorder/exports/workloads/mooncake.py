"""A session as a trace of Mooncake: a line a request, with its lengths in tokens, its gap and its
prefix in blocks.

    {"session_id": "run", "timestamp": 0, "input_length": 6955, "output_length": 52, "hash_ids": [0, 1, 2, …]}
    {"session_id": "run", "delay": 2134.5, "input_length": 613, "output_length": 20, "hash_ids": [14, 15]}

Rules of this file:

* Lengths are what the provider reported. Only the input, without which no reader takes a line, is
  estimated where it is missing, and that is said.
* A conversation is a `session_id`. Its first line has a time, the others the gap since the answer
  before: who reads both goes by the time (AIPerf), and then a slow server has no gaps.
* AIPerf puts the turns of a `session_id` together itself: a line has what its turn adds. Readers
  that take each line by itself (Dynamo, `aiperf analyze-trace`) get whole prompts.
* An id is that of a block with all before it: requests share the ids of the blocks that their
  prompts both begin with. One number of bytes a token counts for the whole file; else equal
  beginnings would be cut at other places. What it leaves over or lacks of a reported length is at
  the end, in blocks that no other prompt has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import count
from typing import Any, NamedTuple

from recorder.exports.workloads.turns import (
    AnsweredRequest,
    conversations,
    load_answered,
    weight_of,
)
from recorder.model.events import TRANSCRIPT, Session
from recorder.model.text import counted
from recorder.recordings.selection import Numbered
from recorder.store.queries.reader import LogReader
from recorder.wire.dialects.json_values import as_json
from recorder.wire.dialects.prompt import PromptSegment

BLOCK_TOKENS = 512
"""The tokens of a block in Mooncake's own traces, and the default of AIPerf and of its analysis."""

TOKEN_BYTES = 4.0
"""Bytes a token where no provider reported any length: English text, by the tokenizers of all of
them.
"""

_MS = 1_000_000


class TraceForm(NamedTuple):
    """How prompts are written."""

    block_tokens: int = BLOCK_TOKENS
    whole_prompts: bool = False


BlockKey = tuple[bytes, int]
"""The digest of all up to the end of a block; of a block after the end of a prompt, how many are
before it there.
"""


def block_keys(
    segments: Sequence[PromptSegment], tokens: int, block_tokens: int, token_bytes: float
) -> list[BlockKey]:
    """Return the keys of the blocks of a prompt: as many as its tokens fill, the last one perhaps
    in part.
    """
    wanted = _blocks(tokens, block_tokens)
    *full, whole = _digests(segments, block_tokens * token_bytes)
    keys = [(digest, 0) for digest in full]
    keys += [(whole, at) for at in range(1, wanted - len(full) + 1)]
    return keys[:wanted]


def _blocks(tokens: int, block_tokens: int) -> int:
    return -(-tokens // block_tokens)


def _digests(segments: Sequence[PromptSegment], block_bytes: float) -> Iterator[bytes]:
    """Yield a digest at the end of each full block, of all up to there, and last that of the whole
    prompt.
    """
    digest, at, ends = sha256(), 0, count(1)
    end = next(ends) * block_bytes
    for segment in segments:
        content, weight, begun = segment.compared, weight_of(segment), 0
        while end <= at + weight:
            cut = int(end - at)
            if weight != len(content):  # of a picture a block ends at the same share
                cut = cut * len(content) // weight
            digest.update(content[begun:cut])
            yield digest.digest()
            begun, end = cut, next(ends) * block_bytes
        digest.update(content[begun:])
        at += weight
    yield digest.digest()


class _Turn(NamedTuple):
    """A request as a turn of a conversation."""

    request: AnsweredRequest
    session_id: str
    before: AnsweredRequest | None  # the turn before; None for the first


class MooncakeExport:
    """The lines of a session, and afterwards remarks about them."""

    def __init__(
        self, log: LogReader, session: Session, chosen: Sequence[Numbered], form: TraceForm
    ) -> None:
        self._log, self._session, self._chosen, self._form = log, session, chosen, form
        self._remarks: list[str] = []
        self._estimated, self._without_output = 0, 0
        self._token_bytes = TOKEN_BYTES

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield a line for each request that a model answered.

        Raises `NotFoundError` if there is none.
        """
        known = await load_answered(self._log, self._session, self._chosen)
        sized = known.only("model", _is_sized, "without usage and request")
        self._remarks += known.remarks()
        self._token_bytes = _token_bytes(sized)
        keys: dict[int, list[BlockKey]] = {}  # by the number of the exchange
        ids: dict[BlockKey, int] = {}
        for turn in _turns(sized, self._session.name):
            prompt, number = turn.request.prompt(), turn.request.number
            tokens = self._input_tokens(turn.request)
            segments = () if prompt is None else prompt.segments
            keys[number] = block_keys(segments, tokens, self._form.block_tokens, self._token_bytes)
            since_ns = turn.before.ended_ns if turn.before else sized[0].started_ns
            waited_ms = (turn.request.started_ns - since_ns) / _MS
            line, own = self._line(turn, waited_ms, keys)
            if prompt is not None and own:
                line["hash_ids"] = [ids.setdefault(key, len(ids)) for key in own]
            yield as_json(line).encode() + b"\n"

    def remarks(self) -> Iterator[str]:
        """Yield sentences about what was left out and estimated."""
        yield from self._remarks
        if self._estimated:
            requests = counted(self._estimated, "request")
            yield f"{requests} without usage: input_length is estimated, at {self._token_bytes:.1f} bytes a token."
        if self._without_output:
            yield f"{counted(self._without_output, 'request')} without output_length: none was reported."
        if self._session.source == TRANSCRIPT:
            yield "The session is derived from a transcript: times and gaps are those of its lines."

    def _input_tokens(self, request: AnsweredRequest) -> int:
        """Return the tokens of a prompt: at least one, less is refused by AIPerf."""
        tokens = request.answer.usage.input_tokens
        if tokens is None and request.outline is not None:
            tokens = round(request.outline.size_bytes / self._token_bytes)
        return max(1, tokens or 0)

    def _line(
        self, turn: _Turn, waited_ms: float, keys: Mapping[int, list[BlockKey]]
    ) -> tuple[dict[str, Any], list[BlockKey]]:
        """Return the line, and the keys of the blocks that are in it."""
        usage, own = turn.request.answer.usage, keys[turn.request.number]
        length = self._input_tokens(turn.request)
        self._estimated += usage.input_tokens is None
        if turn.before is not None and not self._form.whole_prompts:
            length = max(
                1, length - self._input_tokens(turn.before) - _repeated_tokens(turn.before)
            )
            before = frozenset(keys[turn.before.number])
            new = [key for key in own if key not in before]
            own = new[-_blocks(length, self._form.block_tokens) :]
        time = "delay" if turn.before else "timestamp"
        line: dict[str, Any] = {
            "session_id": turn.session_id,
            time: waited_ms,
            "input_length": length,
        }
        if usage.output_tokens:
            line["output_length"] = usage.output_tokens
        else:
            self._without_output += 1
        return line, own


def _is_sized(request: AnsweredRequest) -> bool:
    return request.answer.usage.input_tokens is not None or request.outline is not None


def _token_bytes(requests: Sequence[AnsweredRequest]) -> float:
    """Return the bytes of a token, over all prompts that are known and whose length was reported."""
    size_bytes = tokens = 0
    for each in requests:
        is_whole = each.asked is not None and each.asked[1].is_complete
        if each.outline is not None and is_whole and each.answer.usage.input_tokens:
            size_bytes += each.outline.size_bytes
            tokens += each.answer.usage.input_tokens
    return size_bytes / tokens if size_bytes else TOKEN_BYTES


def _repeated_tokens(request: AnsweredRequest) -> int:
    """Return the tokens of an answer that the next prompt repeats: few clients send reasoning
    again.
    """
    usage = request.answer.usage
    return (usage.output_tokens or 0) - (usage.reasoning_output_tokens or 0)


def _turns(requests: Sequence[AnsweredRequest], session_name: str) -> list[_Turn]:
    """Return requests in order, each with its conversation: the name of its thread, numbered from
    the second on.
    """
    names = Counter[str]()
    turns = []
    for conversation in conversations(requests):
        name = conversation[0].exchange.thread_id or session_name
        names[name] += 1
        session_id = name if names[name] == 1 else f"{name}#{names[name]}"
        for before, request in zip((None, *conversation), conversation, strict=False):
            turns.append(_Turn(request, session_id, before))
    return sorted(turns, key=lambda turn: turn.request.number)
