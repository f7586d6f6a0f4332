"""One field of a stream is changed, and the real SDK of its API reads it: where that fails, or
hands on something that its own types say cannot be, `lint` says something too.

What the SDK declares decides what may be missing: that a delta says less than before is not a fault
of a stream. The quick run changes the streams of the built-in upstream and those made by hand, the
slow one recorded streams as well. Seeds stand in the names of the tests. Another name, such as a
type that nobody knows yet, is a fault only if the SDK raises.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import pytest
from anthropic.types import RawMessageStreamEvent
from google.genai.types import GenerateContentResponse
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter, ValidationError

from recorder.wire.framing.sse import Splitter, parse
from tests.support.corpus import CORPUS, corpus_index, needs_corpus
from tests.support.provider.app import App
from tests.support.provider.reply import DemoRequest
from tests.support.recordings import Reply, linted
from tests.support.sdks import Reading, reading
from tests.unit.lint import test_anthropic, test_gemini, test_openai_chat, test_openai_responses

TARGETS = {
    "openai-responses": "/v1/responses",
    "openai-chat": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/gemini-3.5-flash:streamGenerateContent?alt=sse",
}
DECLARED: dict[str, Any] = {
    "openai-responses": ResponseStreamEvent,
    "openai-chat": ChatCompletionChunk,
    "anthropic": RawMessageStreamEvent,
    "gemini": GenerateContentResponse,
}
BY_HAND = {
    "openai-responses": [
        getattr(test_openai_responses, name) for name in ("GOOD", "INCOMPLETE", "FAILURE")
    ],
    "openai-chat": [
        test_openai_chat.GOOD,
        test_openai_chat.GOOD.put(test_openai_chat.TEXT, *test_openai_chat.TWO),
    ],
    "anthropic": [test_anthropic.GOOD],
    "gemini": [test_gemini.GOOD],
}
VENDORS = ("openai", "azure", "chatgpt-backend", "anthropic", "google", "google-vertex")
# bytes of a recorded stream: an SDK that accumulates takes longer than that is worth
SIZE_LIMIT = 60_000
SEEDS = range(3)
"""The quick run has the first of them."""

UNSAID = {
    # what it echoes of the request
    "openai-responses": r"response\.(tools|tool_choice|instructions|text|prompt)\b.*"
    # OpenAI itself leaves it out
    r"|(response|item|item_id).*\.action(\.sources\.\d+\.url)?|item\.action.*"
    r"|response\.usage\.input_tokens_details\.cache_write_tokens",  # new in 2026
    "openai-chat": r"",
    # Anthropic itself left them out
    "anthropic": r"content_block\.signature|.*\.web_fetch_requests",
    "gemini": r"",
}
"""What the SDK declares, and lint does not ask for: `gone` and `null` of it are passed over."""


Path = tuple[str | int, ...]
How = Literal["gone", "null", "another kind", "another name"]
NAMING = ("id", "item_id", "call_id", "name", "type", "object", "role")


class Change(NamedTuple):
    """A change to one field of one event."""

    event: int
    path: Path
    how: How

    def __str__(self) -> str:
        return f"event {self.event}, {'.'.join(map(str, self.path))} {self.how}"


def blocks_of(raw: bytes) -> list[bytes]:
    """Return the blocks of a stream, with their terminators."""
    splitter = Splitter()
    return [piece.raw for piece in (*splitter.feed(raw), *splitter.close())]


def changes(blocks: Sequence[bytes]) -> Iterator[Change]:
    """Yield every change to every field of every event."""
    for number, block in enumerate(blocks):
        payload = payload_of(block)
        for path, value in _fields(payload):
            if isinstance(path[-1], str):
                yield Change(number, path, "gone")
            if value is not None:
                yield Change(number, path, "null")
                yield Change(number, path, "another kind")
            if isinstance(value, str) and path[-1] in NAMING:
                yield Change(number, path, "another name")


def changed(blocks: Sequence[bytes], change: Change) -> bytes:
    """Return the stream with a change made to it."""
    payload = copy.deepcopy(payload_of(blocks[change.event]))
    _change(payload, change)
    data = parse(blocks[change.event]).data
    assert data is not None
    block = blocks[change.event].replace(data, json.dumps(payload).encode())
    return b"".join((*blocks[: change.event], block, *blocks[change.event + 1 :]))


def payload_of(block: bytes) -> Any:
    """Return the JSON of a block whose data stands on one line, else None."""
    data = parse(block).data
    if data is None or data not in block:
        return None
    try:
        return json.loads(data)
    except ValueError:
        return None


def _fields(value: Any, path: Path = ()) -> Iterable[tuple[Path, Any]]:
    children = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, child in children:
        yield (*path, name), child
        yield from _fields(child, (*path, name))


def _change(payload: Any, change: Change) -> None:
    *way, last = change.path
    for step in way:
        payload = payload[step]
    if change.how == "gone":
        del payload[last]
    elif change.how == "another name":
        payload[last] += "x"
    else:
        payload[last] = (
            None if change.how == "null" else (7 if isinstance(payload[last], str) else "x")
        )


class Silent(NamedTuple):
    """A change that the SDK minds, and lint does not."""

    stream: str
    change: str
    came: str  # of it, in the SDK


def _demo(api: str, prompt: str) -> bytes:
    asked = {
        "model": "m",
        "stream": True,
        "input": prompt,
        "max_tokens": 4096,
        "contents": [{"parts": [{"text": prompt}]}],
    }
    body = {**asked, "messages": [{"role": "user", "content": prompt}]}
    reply = App(lambda: 0.0, 1.0).reply(
        DemoRequest("POST", TARGETS[api], (), json.dumps(body).encode())
    )
    return b"".join(step.take() for step in reply.steps)


@cache
def _own(api: str) -> list[tuple[str, bytes]]:
    """The streams that need no corpus, by name."""
    by_hand = [
        (f"by hand {number}", b"".join(reply.blocks())) for number, reply in enumerate(BY_HAND[api])
    ]
    return [
        *by_hand,
        *(
            (f"demo {prompt}", _demo(api, prompt))
            for prompt in ("hello", "weather", "search", "refuse")
        ),
    ]


def _recorded(api: str) -> Iterator[tuple[str, bytes]]:
    for entry in corpus_index():
        is_theirs = (
            entry["provider"] == api
            and entry["provenance"] == "recorded"
            and entry["vendor"] in VENDORS
        )
        if is_theirs and entry["bytes"] <= SIZE_LIMIT:
            yield entry["file"], (CORPUS / entry["file"]).read_bytes()


def _silent(api: str, name: str, raw: bytes, count: int, seed: int) -> Iterator[Silent]:
    """Yield of some changes to a stream those that only the SDK minds.

    One that it cannot read is passed over.
    """
    blocks = blocks_of(raw)
    before, found = reading(api, raw), _found(api, raw)
    if before.error is None:
        whole = list(changes(blocks))
        for change in random.Random(f"{seed} {name}").sample(whole, min(count, len(whole))):
            with_it = changed(blocks, change)
            after = reading(api, with_it)
            if _is_minded(api, blocks, change, before, after) and not _found(api, with_it) - found:
                yield Silent(name, str(change), repr(after.error or "something else"))


def _found(api: str, raw: bytes) -> Counter[str]:
    reply = Reply(body=raw, target=TARGETS[api], asked={"stream": True})
    return Counter({finding.rule: finding.count for finding in linted(reply)})


def _is_minded(
    api: str, blocks: Sequence[bytes], change: Change, before: Reading, after: Reading
) -> bool:
    if after.error is not None:
        return True
    is_unsaid = change.how in ("gone", "null") and re.fullmatch(
        UNSAID[api], ".".join(map(str, change.path))
    )
    if (
        after.said == before.said
        or change.how == "another name"
        or is_unsaid
        or _is_echo(api, change)
    ):
        return False
    block = blocks[change.event]
    changed_block = changed([block], change._replace(event=0))
    return not _refuses(api, payload_of(block)) and _refuses(api, payload_of(changed_block))


def _is_echo(api: str, change: Change) -> bool:
    echoed = ("tools", "tool_choice", "instructions", "text", "prompt")
    return (
        api == "openai-responses"
        and change.path[0] == "response"
        and change.path[1:2] != ()
        and change.path[1] in echoed
    )


def _refuses(api: str, payload: Any) -> bool:
    """Whether a payload is not what the SDK declares."""
    try:
        _adapter(api).validate_python(payload)
    except ValidationError:
        return True
    return False


@cache
def _adapter(api: str) -> TypeAdapter[Any]:
    return TypeAdapter(DECLARED[api])


@pytest.mark.long
@pytest.mark.parametrize("api", TARGETS)
def test_the_streams_are_read_and_have_no_finding(api: str) -> None:
    for name, raw in _own(api):
        assert reading(api, raw).error is None, name
        assert set(_found(api, raw)) <= {"GE005", "CH012"}, name


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS[:1])
@pytest.mark.parametrize("api", TARGETS)
def test_what_an_sdk_minds_lint_minds(api: str, seed: int) -> None:
    assert [silent for name, raw in _own(api) for silent in _silent(api, name, raw, 25, seed)] == []


@pytest.mark.slow
@pytest.mark.parametrize("api", TARGETS)
def test_what_an_sdk_minds_anywhere_lint_minds(api: str) -> None:
    assert [silent for name, raw in _own(api) for silent in _silent(api, name, raw, 200, 0)] == []


@needs_corpus
@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("api", TARGETS)
def test_what_an_sdk_minds_in_recorded_streams_lint_minds(api: str, seed: int) -> None:
    assert [
        silent for name, raw in _recorded(api) for silent in _silent(api, name, raw, 25, seed)
    ] == []


@pytest.mark.long
@pytest.mark.parametrize("api", TARGETS)
def test_a_line_that_lost_its_data_is_found(api: str) -> None:
    for name, raw in _own(api):
        blocks, before = blocks_of(raw), _found(api, raw)
        for number in random.Random(name).sample(range(len(blocks)), min(10, len(blocks))):
            lost = b"".join(
                (*blocks[:number], blocks[number].replace(b"data: ", b"", 1), *blocks[number + 1 :])
            )
            assert _found(api, lost) - before, (name, number)


@pytest.mark.parametrize("api", TARGETS)
def test_a_fault_that_lint_does_not_see_is_told(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.lint.linter.RULES", ())
    assert [silent for name, raw in _own(api)[:1] for silent in _silent(api, name, raw, 25, 0)]
