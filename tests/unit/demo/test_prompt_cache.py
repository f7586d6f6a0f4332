"""The simulated prompt cache: what is reused of a prompt, how long, and what each wire format reports."""

from __future__ import annotations

from typing import Any

import pytest

from recorder.demo.prompt_cache import (
    HOUR,
    MINIMUM_TOKENS,
    OVERHEAD_TOKENS,
    PromptCache,
    PromptPiece,
    PromptTokens,
    RenderedPrompt,
)
from tests.support.demo import Demo

LONG = "In this project every stream is kept to the last byte, and every time to the microsecond. " * 60
LIFETIME_S = 300.0


class Clock:
    """A clock that goes on when it is moved."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> PromptCache:
    return PromptCache(clock, LIFETIME_S)


def tokens(letter: str, count: int) -> bytes:
    """A piece of so many tokens."""
    return (letter * 4 * count).encode()


def steps(*parts: bytes, **more: Any) -> RenderedPrompt:
    return RenderedPrompt("openai m", [PromptPiece(part) for part in parts], **more)


def marks(*parts: tuple[bytes, int]) -> RenderedPrompt:
    return RenderedPrompt("anthropic m", [PromptPiece(*part) for part in parts], by_marks=True)


# -- by steps


@pytest.mark.parametrize(
    ("common", "cached"), [(1_023, 0), (1_024, 1_024), (1_151, 1_024), (1_152, 1_152), (5_000, 4_992)]
)
def test_a_common_beginning_is_reused_in_steps_from_the_minimum_on(
    cache: PromptCache, common: int, cached: int
) -> None:
    first, second = (steps(tokens("a", common), tokens(letter, 2_000)) for letter in "bc")
    total = OVERHEAD_TOKENS + common + 2_000
    assert cache.count(first) == PromptTokens(total)
    assert cache.count(second) == PromptTokens(total, cached)


def test_it_matters_where_prompts_differ_and_not_how_they_are_cut_into_pieces(cache: PromptCache) -> None:
    cache.count(steps(tokens("a", 2_048)))
    assert cache.count(steps(tokens("a", 1_000), tokens("a", 1_048))).cached == 2_048
    assert cache.count(steps(b"b", tokens("a", 2_048))).cached == 0


def test_another_model_has_another_cache(cache: PromptCache) -> None:
    prompt = steps(tokens("a", 2_048))
    cache.count(prompt)
    assert cache.count(prompt._replace(scope="openai n")).cached == 0


def test_what_is_only_counted_is_not_kept(cache: PromptCache) -> None:
    prompt = steps(tokens("a", 2_048))
    assert cache.count(prompt, is_kept=False) == cache.count(prompt) == PromptTokens(2_064)


@pytest.mark.parametrize("lifetimes", [1, 288])
def test_a_use_renews_a_prompt_and_time_ends_it(cache: PromptCache, clock: Clock, lifetimes: int) -> None:
    prompt = steps(tokens("a", 2_048), lifetimes=lifetimes)
    cache.count(prompt)
    for passed, cached in ((0.9, 2_048), (0.9, 2_048), (1.0, 0), (0.9, 2_048)):
        clock.now_s += passed * LIFETIME_S * lifetimes
        assert cache.count(prompt).cached == cached


def test_the_oldest_prompts_go_when_the_cache_is_full(clock: Clock) -> None:
    cache = PromptCache(clock, limit=2 * 9)  # steps from 1,024 to 2,048
    first, second, third = (steps(tokens(letter, 2_048)) for letter in "abc")
    counts = [cache.count(prompt).cached for prompt in (first, second, first, third, first, second)]
    assert counts == [0, 0, 2_048, 0, 2_048, 0]


# -- by marks


def test_nothing_is_written_without_a_mark(cache: PromptCache) -> None:
    prompt = marks((tokens("a", 4_000), 0))
    assert cache.count(prompt) == cache.count(prompt) == PromptTokens(4_016)


def test_a_mark_is_written_once_and_read_from_then_on(cache: PromptCache) -> None:
    system, first, second = tokens("s", 2_000), tokens("a", 500), tokens("b", 300)
    assert cache.count(marks((system, 1), (first, 1))) == PromptTokens(2_516, 0, 2_500)
    assert cache.count(marks((system, 1), (first, 0), (second, 1))) == PromptTokens(2_816, 2_500, 300)
    assert cache.count(marks((system, 1), (second, 1))) == PromptTokens(2_316, 2_000, 300)
    assert cache.count(marks((system, 0), (second, 0))) == PromptTokens(2_316)


def test_a_mark_below_the_minimum_does_nothing(cache: PromptCache) -> None:
    prompt = marks((tokens("s", MINIMUM_TOKENS - 1), 1), (tokens("a", 500), 0))
    assert cache.count(prompt).written == cache.count(prompt).cached == 0


@pytest.mark.parametrize(("between", "cached"), [(19, 2_000), (20, 0)])
def test_an_earlier_mark_is_found_a_few_pieces_back(cache: PromptCache, between: int, cached: int) -> None:
    system, last = (tokens("s", 2_000), 1), (tokens("z", 10), 1)
    cache.count(marks(system))
    pieces = [(tokens(chr(ord("a") + number), 10), 0) for number in range(between)]
    assert cache.count(marks((system[0], 0), *pieces, last)).cached == cached


def test_a_mark_of_an_hour_outlives_one_of_five_minutes(cache: PromptCache, clock: Clock) -> None:
    prompt = marks((tokens("s", 2_000), HOUR), (tokens("a", 500), 1))
    assert cache.count(prompt) == PromptTokens(2_516, 0, 2_500, 2_000)
    clock.now_s += 11 * LIFETIME_S
    assert cache.count(prompt) == PromptTokens(2_516, 2_000, 500)
    clock.now_s += 11 * LIFETIME_S
    assert cache.count(prompt).cached == 2_000
    clock.now_s += 12 * LIFETIME_S
    assert cache.count(prompt) == PromptTokens(2_516, 0, 2_500, 2_000)


# -- the wire formats

Body = dict[str, Any]
TOOL = {"name": "look", "description": "Look at something."}


def _responses(text: str, **more: Any) -> Body:
    return {"model": "m", "instructions": LONG, "tools": [TOOL], "input": [{"role": "user", "content": text}], **more}


def _of_responses(answer: Any) -> tuple[int, int, int]:
    usage = answer["usage"]
    return usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"], 0


def test_a_request_that_continues_a_response_has_its_conversation() -> None:
    demo = Demo()

    def ask(**more: Any) -> tuple[str, int, int]:
        answer = demo.post("/v1/responses", {"model": "m", **more}).json()
        usage = answer["usage"]
        return answer["id"], usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]

    first_id, first, _ = ask(input=LONG)
    _, second, cached = ask(input="And now?", previous_response_id=first_id)
    assert second > first > MINIMUM_TOKENS
    assert cached >= MINIMUM_TOKENS
    _, unknown, _ = ask(input="And now?", previous_response_id="resp_unknown")
    assert unknown < MINIMUM_TOKENS
    assert ask(input="And now?", previous_response_id=first_id, instructions="Be brief.")[2] == 0


def test_the_lifetime_can_be_set() -> None:
    demo = Demo(cache_lifetime_s=0.0)
    answers = [demo.post("/v1/responses", _responses("Hello.")).json() for _ in range(2)]
    assert [_of_responses(answer)[1] for answer in answers] == [0, 0]
