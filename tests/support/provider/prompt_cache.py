"""The prompt cache of a provider, simulated: which tokens of a prompt need not be computed again,
and why not more.

Rules of this file:

* A prompt is pieces in the provider's order: tools, system, messages. Prompts of two models have
  nothing in common.
* Only a common beginning counts, and only while somebody has used it within its lifetime. Each use
  renews it.
* OpenAI and Gemini reuse the beginning by themselves, in steps. Anthropic reads and writes only at
  marks (`cache_control`), and looks for an earlier mark a few pieces before each.
* The contents of a piece are opaque: the wire formats decide what belongs to a prompt.

Sources: <https://platform.openai.com/docs/guides/prompt-caching>,
<https://docs.claude.com/en/docs/build-with-claude/prompt-caching>,
<https://ai.google.dev/gemini-api/docs/caching>.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

TOKEN_BYTES = 4  # a token of English text; the demo has no tokenizer
MINIMUM_TOKENS = 1_024  # of a beginning that is kept
STEP_TOKENS = 128  # by which OpenAI counts what it has reused
LOOKBACK = 20  # pieces before a mark among which Anthropic looks for an earlier one
LIFETIME_S = 300.0  # five minutes, of all three
# lifetimes: of a mark with `"ttl": "1h"`, and with `"prompt_cache_retention": "24h"`
HOUR, DAY = 12, 288
# of every request: what a provider puts around the prompt, never from the cache
OVERHEAD_TOKENS = 16

PREFIXES_LIMIT = 2**17  # digests: those of 64 prompts of a megabyte, in 20 MB
_DIGEST_BYTES = 16


class PromptPiece(NamedTuple):
    """One piece of a prompt: a tool, a block of the system prompt, a block or an item of the
    conversation.
    """

    data: bytes
    # lifetimes that the beginning up to here is to be kept, if the client has marked its end
    mark: int = 0


class RenderedPrompt(NamedTuple):
    """A prompt in the provider's order. `scope` is the API and the model."""

    scope: str
    pieces: Sequence[PromptPiece]
    by_marks: bool = False  # Anthropic's way
    lifetimes: int = 1  # where there are no marks


class PromptTokens(NamedTuple):
    """The tokens of a prompt; `total` includes the others. `written_1h` is part of `written`."""

    total: int
    cached: int = 0
    written: int = 0
    written_1h: int = 0


class _Prefix(NamedTuple):
    """A beginning of a prompt, by its digest; `lifetimes` is 0 if nobody wants it kept."""

    digest: bytes
    tokens: int
    lifetimes: int


class _Use(NamedTuple):
    """The last use of a beginning."""

    at_s: float
    lifetimes: int


class PromptCache:
    """The beginnings of prompts, until `lifetime_s` after their last use. `clock` is in seconds."""

    def __init__(
        self,
        clock: Callable[[], float],
        lifetime_s: float = LIFETIME_S,
        *,
        limit: int = PREFIXES_LIMIT,
    ) -> None:
        self._clock, self._lifetime_s, self._limit = clock, lifetime_s, limit
        self._uses = OrderedDict[bytes, _Use]()  # by digest; the oldest use is first

    def count(self, prompt: RenderedPrompt, *, is_kept: bool = True) -> PromptTokens:
        """Return the tokens of a prompt, and keep its beginnings; `is_kept` is False for one that
        is only counted.
        """
        total = OVERHEAD_TOKENS + sum(len(piece.data) for piece in prompt.pieces) // TOKEN_BYTES
        if not is_kept:
            return PromptTokens(total)
        return self._by_marks(prompt, total) if prompt.by_marks else self._by_steps(prompt, total)

    def _by_steps(self, prompt: RenderedPrompt, total: int) -> PromptTokens:
        prefixes = [each for each in _steps(prompt) if each.tokens >= MINIMUM_TOKENS]
        cached = max((each.tokens for each in prefixes if self._is_alive(each)), default=0)
        self._use(prefixes)
        return PromptTokens(total, cached)

    def _by_marks(self, prompt: RenderedPrompt, total: int) -> PromptTokens:
        prefixes = list(_ends(prompt))
        marks = [
            n for n, each in enumerate(prefixes) if each.lifetimes and each.tokens >= MINIMUM_TOKENS
        ]
        near = sorted({n for mark in marks for n in range(max(0, mark - LOOKBACK), mark + 1)})
        read = [prefixes[n] for n in near if self._is_alive(prefixes[n])][-1:]
        self._use([*read, *(prefixes[n] for n in marks)])
        cached = done = read[0].tokens if read else 0
        written_1h = 0
        for mark in (prefixes[n] for n in marks if prefixes[n].tokens > cached):
            written_1h += (mark.tokens - done) * (mark.lifetimes == HOUR)
            done = mark.tokens
        return PromptTokens(total, cached, done - cached, written_1h)

    def _is_alive(self, prefix: _Prefix) -> bool:
        use = self._uses.get(prefix.digest)
        return use is not None and self._clock() < use.at_s + use.lifetimes * self._lifetime_s

    def _use(self, prefixes: Iterable[_Prefix]) -> None:
        """Keep beginnings, from now on; of one that is alive the longer lifetime counts."""
        now_s = self._clock()
        for each in prefixes:
            longest = self._uses[each.digest].lifetimes if self._is_alive(each) else 0
            self._uses[each.digest] = _Use(now_s, max(longest, each.lifetimes))
            self._uses.move_to_end(each.digest)
        while len(self._uses) > self._limit:
            self._uses.popitem(last=False)


def _steps(prompt: RenderedPrompt) -> Iterator[_Prefix]:
    """Yield the beginnings of whole steps."""
    data = b"".join(piece.data for piece in prompt.pieces)
    size = STEP_TOKENS * TOKEN_BYTES
    digest = _started(prompt)
    for end in range(size, len(data) + 1, size):
        digest.update(data[end - size : end])
        yield _Prefix(digest.digest(), end // TOKEN_BYTES, prompt.lifetimes)


def _ends(prompt: RenderedPrompt) -> Iterator[_Prefix]:
    """Yield the beginnings of whole pieces."""
    digest, size = _started(prompt), 0
    for piece in prompt.pieces:
        size += len(piece.data)
        digest.update(b"%d:" % len(piece.data) + piece.data)
        yield _Prefix(digest.digest(), size // TOKEN_BYTES, piece.mark)


def _started(prompt: RenderedPrompt) -> blake2b:
    return blake2b(prompt.scope.encode() + b"\n", digest_size=_DIGEST_BYTES)
