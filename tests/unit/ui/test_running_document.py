"""The running document: at every event the document of all events so far, whatever the stream."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest

from recorder.model.events import Event, Exchange
from recorder.model.text import STORABLE_LIMIT
from recorder.projections.fold import Folding
from recorder.store.queries.session_document import exchange_document
from recorder.store.queries.session_state import ExchangeState, answer_of, counter_of
from recorder.ui.running_document import RunningDocument
from recorder.ui.surroundings import Surroundings
from tests.support.conversations import call, message, response, sse, thought
from tests.support.corpus import corpus_files, needs_corpus
from tests.support.facts import PATHS, captured
from tests.support.html_file import changed

FRAMES = response(
    *thought("Look it ", "up."),
    *message("It is ", "18 °C", index=1),
    *call("weather", "{}", index=2),
)


def expected(exchange: Exchange, events: Sequence[Event]) -> Any:
    """The document of events: of a fold of them alone."""
    folding, counter = Folding(exchange), counter_of(exchange)
    folding.apply_all(events)
    if counter is not None:
        for event in events:
            counter.add(event)
    rows = folding.rows()
    [row], [usage], [timing] = rows["exchanges"], rows["usage"], rows["timing"]
    answers = {
        item.item: answer_of(exchange, item, None)
        for item in rows["items"]
        if item.kind == "tool_call"
    }
    state = ExchangeState(
        1,
        exchange,
        row,
        rows["items"],
        usage,
        timing,
        rows["anomalies"],
        {number: answer for number, answer in answers.items() if answer is not None},
        connection=None if counter is None else counter.summary(),
    )
    return decoded(exchange_document(state))


def decoded(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


def require_same(exchange: Exchange, events: Sequence[Event], every: int = 1) -> None:
    """Compare the documents after each of the events, or every so many."""
    running = RunningDocument(1, exchange, (), Surroundings(exchange).view(-1))
    state: Any = {}
    for count, event in enumerate(events, 1):
        state = changed(state, decoded(running.apply(event)))
        if count % every == 0 or count == len(events):
            assert state == expected(exchange, events[:count]), (
                f"at event {event.pos} of {len(events)}"
            )
            assert decoded(running.state()) == state


def recorded(
    frames: Iterable[bytes], api: str = "openai-responses", **given: Any
) -> tuple[Exchange, list[Event]]:
    frames = list(frames)
    ends = [sum(map(len, frames[: count + 1])) for count in range(len(frames))]
    exchange, events = captured(b"".join(frames), api, cuts=ends, **given)
    return exchange, [
        msgspec.structs.replace(each, t_ns=each.t_ns + late_ns(each.pos)) for each in events
    ]


def late_ns(pos: int) -> int:
    """Irregular times, so that the silences between events differ; every seventh is long."""
    return sum(
        (number * 7919 % 101) * 1_000_003 + 2_500_000_000 * (number % 7 == 0)
        for number in range(pos)
    )


def test_a_usual_response() -> None:
    require_same(*recorded(FRAMES))


def frames_of(body: bytes) -> list[bytes]:
    return [frame for frame in re.split(rb"(?<=\n\n)|(?<=\r\n\r\n)", body) if frame]


def mixed(frames: list[bytes], rng: random.Random) -> list[bytes]:
    """Frames with some left out, repeated, and exchanged with the next."""
    made: list[bytes] = []
    for frame in frames:
        roll = rng.random()
        if roll < 0.05:
            continue
        made.append(frame)
        if roll > 0.95:
            made.append(frame)
        elif roll > 0.9 and len(made) > 1:
            made[-2:] = [made[-1], made[-2]]
    return made[: rng.randrange(len(made) + 1)] if rng.random() < 0.5 else made


def deltas(*texts: Any, index: int = 0) -> list[bytes]:
    """A message of these deltas, each a text or a text with its number in the stream."""
    item = {
        "id": "msg_0",
        "type": "message",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }
    where = {"output_index": index, "item_id": "msg_0", "content_index": 0}
    given = [text if isinstance(text, tuple) else (text, None) for text in texts]
    numbers = [{} if number is None else {"sequence_number": number} for _, number in given]
    return [
        sse("response.output_item.added", output_index=index, item=item),
        *(
            f"data: {json.dumps({'type': 'response.output_text.delta', **where, 'delta': text, **number})}\n\n".encode()
            for (text, _), number in zip(given, numbers, strict=True)
        ),
    ]


ODD = {
    "halves of a character": deltas("a", "b", "\ud83d", "\ude00", "c", "\ud83d", "d", "\ude00"),
    "zeros": deltas("a", "b\0", "\0", "c", "\0d"),
    "numbers out of order": deltas(
        ("a", 5), ("b", 6), ("c", 5), ("d", 4), ("e", 7), "f", ("g", 7), ("h", 3)
    ),
    "more than a row has": deltas("a", "b" * (STORABLE_LIMIT - 4), "c", "dddd", "e", ""),
    "empty ones": deltas("", "", "a", "", "b"),
    "two ends": [*FRAMES, FRAMES[-1], FRAMES[-2]],
    "no beginning": FRAMES[6:],
    "a long summary": response(
        *thought("a" * 60_000, "b" * 60_000, "c" * 60_000, "d" * 900_000, "e" * 9, "f")
    ),
    "comments and no JSON": [
        FRAMES[0],
        b": ping\n\n",
        b"data: {\n\n",
        *FRAMES[1:4],
        b"data: [1]\n\n",
        FRAMES[4][:-2],
    ],
}


@pytest.mark.parametrize("name", ODD)
def test_odd_texts(name: str) -> None:
    require_same(*recorded(ODD[name]))


def parts_of_summary(*texts: tuple[int, str]) -> list[bytes]:
    where = {"output_index": 0, "item_id": "rs_0"}
    item = {"id": "rs_0", "type": "reasoning", "summary": []}
    added = [
        sse("response.reasoning_summary_text.delta", **where, summary_index=index, delta=text)
        for index, text in texts
    ]
    return [sse("response.output_item.added", output_index=0, item=item), *added]


def test_parts_of_a_summary_that_grow_by_turns() -> None:
    require_same(
        *recorded(
            parts_of_summary(
                (1, "a"), (1, "b"), (0, "c"), (1, "d"), (0, "e"), (2, "f"), (1, "g"), (2, "h")
            )
        )
    )


def test_calls_without_ids_are_numbered_by_name() -> None:
    def chunk(*names: str) -> bytes:
        parts = [{"functionCall": {"name": name, "args": {"a": 1}}} for name in names]
        return (
            f"data: {json.dumps({'candidates': [{'content': {'parts': parts}}]})}\r\n\r\n".encode()
        )

    require_same(*recorded([chunk("a"), chunk("b", "a"), chunk("a")], "gemini"))


@pytest.mark.parametrize("api", ["openai-responses", "anthropic", "gemini", "openai-chat"])
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_document_that_comes_in_pieces(api: str, is_whole: bool) -> None:
    """Before its end a document is looked at as if it were whole, and further pieces follow all the
    same.
    """
    body = b"".join(
        [
            b'{"id": "r", "object": "response", "error": {"message": "no"}}',
            b" \n" * is_whole,
            b"   ",
        ]
    )
    cuts = range(0, len(body), 7)
    require_same(*captured(body, api, cuts=cuts, content_type="application/json", status=400))


def test_a_request_that_is_not_complete() -> None:
    exchange, events = recorded(
        FRAMES, request=json.dumps({"model": "gpt-5", "input": "hi"}).encode()
    )
    require_same(exchange, [event for event in events if event.kind in ("request", "end")])


@needs_corpus
@pytest.mark.parametrize("path", corpus_files()[::9], ids=lambda path: path.stem)
def test_a_stream_that_was_disturbed(path: Any, seed: int) -> None:
    disturb(path, seed)


@needs_corpus
@pytest.mark.slow
@pytest.mark.parametrize("path", corpus_files(), ids=lambda path: path.stem)
def test_any_stream_that_was_disturbed(path: Any, seed: int) -> None:
    for number in range(10):
        disturb(path, seed + number)


def disturb(path: Any, seed: int) -> None:
    api = path.parent.name if path.parent.name in PATHS else "other"
    rng = random.Random(seed)
    frames = mixed(frames_of(path.read_bytes())[:200], rng)
    require_same(*recorded(frames, api), every=1 + len(frames) // 40)
