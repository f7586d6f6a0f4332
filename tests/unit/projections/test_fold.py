"""All projections of an exchange together: any cut of the bytes, any prefix, any damage."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.model.events import Event, Exchange
from recorder.projections.fold import Folding, Rows
from tests.support.corpus import CORPUS, corpus_index, each_stream
from tests.support.facts import EXCHANGE, PATHS, captured, folded
from tests.unit.lint.test_openai_responses import GOOD

BODY = b"".join(GOOD.blocks()).replace(b"Hello", "H\u00e9llo \U0001f600".encode())


def meaning(rows: Rows) -> dict[str, Any]:
    """What rows say, less what hangs on when things came."""
    timeless = {name: told for name, told in rows.items() if name != "timing"}
    return {
        name: [
            {k: v for k, v in msgspec.structs.asdict(row).items() if not k.endswith("_ns")}
            for row in told
        ]
        for name, told in timeless.items()
    }


WHOLE = folded(*captured(BODY))


def test_a_response_is_its_items_and_its_usage() -> None:
    reasoning, message, call = WHOLE["items"]
    assert (reasoning.kind, reasoning.summary, reasoning.status) == (
        "reasoning",
        '["Think hard"]',
        "completed",
    )
    assert (message.text, message.role, message.item_id) == ("Héllo 😀 world", "assistant", "msg_1")
    assert (call.name, call.call_id, call.arguments_json) == ("roll", "call_1", '{"n":2}')
    [usage] = WHOLE["usage"]
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.reasoning_output_tokens) == (
        30,
        20,
        5,
    )
    assert not usage.partial
    [exchange] = WHOLE["exchanges"]
    assert (exchange.response_id, exchange.response_model, exchange.status) == (
        "resp_1",
        "m",
        "completed",
    )
    assert WHOLE["anomalies"] == []


@given(st.lists(st.integers(1, len(BODY) - 1), max_size=40))
def test_however_the_bytes_come_they_mean_the_same(cuts: list[int]) -> None:
    assert meaning(folded(*captured(BODY, cuts=cuts))) == meaning(WHOLE)


@given(st.integers(0, 40))
def test_a_prefix_says_no_more_and_no_less_than_it_says(count: int) -> None:
    """Texts of a prefix are beginnings of the whole texts, and telling the rest afterwards changes
    nothing.
    """
    exchange, events = captured(BODY)
    for part, whole in zip(folded(exchange, events[:count])["items"], WHOLE["items"], strict=False):
        assert (part.kind, part.item_id, part.began_ns) == (
            whole.kind,
            whole.item_id,
            whole.began_ns,
        )
        for name in ("text", "arguments", "summary_text"):
            assert (getattr(whole, name) or "").startswith(getattr(part, name) or "")
    folding = Folding(exchange)
    for event in [*events[:count], *events[count:]]:
        folding.apply(event)
    assert folding.rows() == WHOLE


@given(st.integers(0, len(BODY.split(b"\n\n")) - 2), st.integers(0, 30))
def test_a_resumed_response_is_the_uncut_one(after: int, overlap: int) -> None:
    """Cut anywhere, with whatever the first part had received beyond what the client asks to go on
    from.
    """
    frames = [frame + b"\n\n" for frame in BODY.split(b"\n\n")[:-1]]
    _, first = captured(b"".join(frames[: after + 1 + overlap]), outcome="client_disconnect")
    resumed = msgspec.structs.replace(
        EXCHANGE, exchange_id="e-2", method="GET", resumes_response_id="resp_1", resumes_after=after
    )
    _, rest = captured(b"".join(frames[after + 1 :]), exchange=resumed)
    folding = Folding(resumed)
    for event in first:
        if event.kind == "frame" and (event.sequence_number or 0) <= after:
            folding.recall(event)
    for event in rest:
        folding.apply(event)
    rows = {
        name: told
        for name, told in meaning(folding.rows()).items()
        if name in ("items", "anomalies")
    }
    for told in rows.values():
        for row in told:
            row["exchange_id"] = EXCHANGE.exchange_id
    assert rows == {name: meaning(WHOLE)[name] for name in rows}


@pytest.mark.parametrize("provider", PATHS)
def test_an_exchange_that_is_done_leaves_nothing_to_the_garbage_collector(provider: str) -> None:
    exchange, events = captured(BODY, provider)
    folded(exchange, events)  # what is made once is not of an exchange
    gc.collect()
    gc.disable()
    try:
        folded(exchange, events)
        assert gc.collect() == 0
    finally:
        gc.enable()


def garbled(events: Sequence[Event], dice: random.Random) -> Iterable[Event]:
    """Events dropped, repeated, reordered, and with other bytes."""
    for event in events:
        fate = dice.random()
        if fate < 0.1:
            continue
        if fate < 0.2:
            yield event
        if fate < 0.3:
            raw = bytearray(event.raw)
            for _ in range(3):
                if raw:
                    raw[dice.randrange(len(raw))] = dice.randrange(256)
            event = msgspec.structs.replace(event, raw=bytes(raw))
        if fate < 0.4:
            event = dice.choice(events)
        yield event


def survives(exchange: Exchange, events: Sequence[Event], seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(3):
        rows = folded(exchange, garbled(events, dice))
        assert len(rows["exchanges"]) == len(rows["usage"]) == len(rows["timing"]) == 1
        for told in rows.values():
            for row in told:
                for value in msgspec.structs.astuple(row):
                    assert isinstance(value, str | int | float | bytes | None), (
                        "what a database stores"
                    )
                    if isinstance(value, str):
                        assert "\0" not in value
                        value.encode()


@given(st.integers(0, 2**32))
def test_no_damage_stops_a_fold(seed: int) -> None:
    survives(*captured(BODY), seed)


@each_stream(corpus_index())
def test_no_damage_to_a_real_stream_stops_a_fold(entry: dict[str, Any]) -> None:
    provider = entry["provider"]
    body = (CORPUS / entry["file"]).read_bytes()[: 512 * 1024]
    survives(*captured(body, provider if provider in PATHS else "other"), seed=len(body))
