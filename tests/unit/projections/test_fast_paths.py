"""The fast paths of common deltas through a fold, against the plain one: one event at a time, and
plain JSON.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.model.events import BODY_KINDS, Event, Exchange
from recorder.projections.fact_reader import FactReader
from recorder.projections.fold import Folding, Rows
from recorder.projections.items import NOTHING
from recorder.wire.dialects import by_name
from recorder.wire.dialects.decoder import JsonDecoder
from tests.support.corpus import CORPUS, corpus_index, each_stream
from tests.support.facts import captured
from tests.support.tables import table
from tests.unit.projections.test_fold import garbled

APIS = ("openai-responses", "openai-chat", "anthropic", "gemini", "gemini-interactions")


class PlainReader(FactReader):
    """A reader of every payload as plain JSON."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange)
        decoder = by_name(exchange.api).decoder()
        assert isinstance(decoder, JsonDecoder)
        self._fast_path, self._document = {}, decoder.document
        self._tell = partial(JsonDecoder.general, decoder)


class PlainFolding(Folding):
    """A fold that looks everything up at each event."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange, PlainReader(exchange))

    def apply_all(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.kind in BODY_KINDS:
                self.timing.event(event)
                self.anomalies.event(event)
            for fact in self._reading.others(event):
                self.items.growing = NOTHING
                self._handlers[type(fact)](fact, event)
            self._last = event


def folded(folding: Folding, events: Sequence[Event]) -> Rows:
    folding.apply_all(events)
    return folding.rows()


def stream(payloads: Iterable[Any]) -> bytes:
    return "".join(f"data: {json.dumps(each)}\n\n" for each in payloads).encode()


def same_rows(exchange: Exchange, events: Sequence[Event]) -> bool:
    return folded(Folding(exchange), events) == folded(PlainFolding(exchange), events)


@each_stream(entry for entry in corpus_index() if entry["provider"] in APIS)
def test_rows_of_a_recorded_stream_are_those_of_the_plain_way(entry: dict[str, Any]) -> None:
    body = (CORPUS / entry["file"]).read_bytes()[: 512 * 1024]
    exchange, events = captured(body, entry["provider"])
    assert same_rows(exchange, events)
    assert same_rows(exchange, [*garbled(events, random.Random(len(body)))])


NUMBERS = st.integers(-1, 2) | st.sampled_from([None, 2**63, 1.0, True, "0"])
TEXTS = st.sampled_from(["", "a", "\n", "é\ud83d", "x" * 600, None, 1])
CHUNK = "chat.completion.chunk"


COUNTS = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "otherTokenCount")


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


DELTAS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "openai-responses": st.builds(
        lambda type, fields: {"type": f"response.{type}", **fields},
        st.sampled_from(
            ["output_text.delta", "output_text.done", "reasoning_summary_text.delta", "completed"]
        ),
        objects(
            **dict.fromkeys(
                ("sequence_number", "output_index", "content_index", "summary_index"), NUMBERS
            ),
            delta=TEXTS,
            text=TEXTS,
            item_id=TEXTS,
            logprobs=st.sampled_from([[], [{}], None]),
        ),
    ),
    "openai-chat": objects(
        id=TEXTS,
        model=TEXTS,
        object=st.just(CHUNK),
        choices=st.lists(
            objects(
                index=NUMBERS,
                finish_reason=TEXTS,
                delta=objects(
                    **dict.fromkeys(
                        ("role", "content", "reasoning", "reasoning_content", "refusal"), TEXTS
                    ),
                    tool_calls=st.lists(
                        objects(
                            index=NUMBERS, id=TEXTS, function=objects(arguments=TEXTS, name=TEXTS)
                        )
                    ),
                ),
            ),
            max_size=2,
        ),
    ),
    "anthropic": st.builds(
        lambda type, fields: {"type": type, **fields},
        st.sampled_from(
            [
                "content_block_start",
                "content_block_delta",
                "content_block_delta",
                "content_block_stop",
            ]
        ),
        objects(
            index=NUMBERS,
            content_block=objects(
                type=st.sampled_from(["text", "thinking", "tool_use"]), text=TEXTS, id=TEXTS
            ),
            delta=objects(
                type=st.sampled_from(
                    ["text_delta", "thinking_delta", "input_json_delta", "signature_delta"]
                ),
                **dict.fromkeys(("text", "thinking", "partial_json"), TEXTS),
            ),
        ),
    ),
    "gemini": objects(
        candidates=st.lists(
            objects(
                index=NUMBERS,
                content=objects(parts=st.lists(objects(text=TEXTS, thought=st.booleans()))),
            ),
            max_size=2,
        ),
        responseId=TEXTS,
        modelVersion=TEXTS,
        usageMetadata=objects(
            **dict.fromkeys(COUNTS, NUMBERS),
            promptTokensDetails=st.lists(
                objects(modality=st.sampled_from(["AUDIO", "IMAGE"]), tokenCount=NUMBERS)
            ),
            trafficType=TEXTS,
            serviceTier=TEXTS,
        ),
    ),
    "gemini-interactions": st.builds(
        lambda type, fields: {"event_type": type, **fields},
        st.sampled_from(["step.start", "step.delta", "step.delta", "step.stop"]),
        objects(
            index=NUMBERS,
            step=objects(
                type=st.sampled_from(["model_output", "thought", "function_call"]), id=TEXTS
            ),
            delta=objects(
                type=st.sampled_from(["text", "arguments_delta", "thought_signature"]),
                **dict.fromkeys(("text", "arguments", "signature"), TEXTS),
            ),
            event_id=TEXTS,
            metadata=st.just({"total_usage": {"total_tokens": 1}}),
        ),
    ),
}
"""Events near enough to common ones that some are, and some are not."""


@pytest.mark.long
@pytest.mark.parametrize("api", APIS)
@given(data=st.data())
def test_rows_of_any_deltas_are_those_of_the_plain_way(api: str, data: st.DataObject) -> None:
    assert same_rows(*captured(stream(data.draw(st.lists(DELTAS[api], max_size=12))), api))


@pytest.mark.parametrize("number", [-1, 2**63 - 1, 2**63])
def test_a_place_that_no_column_can_hold_is_read_the_plain_way(number: int) -> None:
    delta = {"type": "response.output_text.delta", "delta": "a"}
    payloads = [
        {**delta, "output_index": number},
        delta,
        {**delta, "output_index": 0, "content_index": number},
    ]
    assert same_rows(*captured(stream(payloads), APIS[0]))


def test_nothing_that_is_read_on_a_fast_path_ends_a_stream() -> None:
    for api in APIS:
        dialect = by_name(api)
        quick = dialect.decoder().fast_paths()
        assert quick
        assert quick.keys().isdisjoint(dialect.terminal)


@table("numbers", [(0, 1, 3, 4), (0, 1, 1, 2), (0, None, 1, None), (None, 0, 1), (2, 1, 0)])
def test_numbers_of_deltas_are_checked_together_as_they_are_one_by_one(
    numbers: Sequence[int | None],
) -> None:
    type = "response.output_text.delta"
    payloads = [{"type": type, "output_index": 0, "delta": str(at)} for at in range(len(numbers))]
    numbered = zip(payloads, numbers, strict=True)
    payloads = [
        each if number is None else {**each, "sequence_number": number} for each, number in numbered
    ]
    assert same_rows(*captured(stream(payloads), APIS[0]))


def test_deltas_after_the_end_are_noted() -> None:
    delta = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "a"},
    }
    payloads = [{"type": "message_stop"}, delta, delta]
    exchange, events = captured(stream(payloads), "anthropic")
    [after] = [
        row
        for row in folded(Folding(exchange), events)["anomalies"]
        if row.kind == "after_terminal"
    ]
    assert after.count == 2
    assert same_rows(exchange, events)


def gemini_chunk(total: int, **usage: Any) -> str:
    part = {"candidates": [{"content": {"parts": [{"text": "a"}], "role": "model"}}]}
    return f"data: {json.dumps({**part, 'usageMetadata': {'totalTokenCount': total, **usage}})}\n\n"


def of_audio(count: int) -> dict[str, Any]:
    return {"promptTokensDetails": [{"modality": "AUDIO", "tokenCount": count}]}


def test_counts_by_modality_are_those_of_the_last_chunk() -> None:
    body = "".join(gemini_chunk(9, **of_audio(count)) for count in (1, 1, 2))
    exchange, events = captured(body.encode(), "gemini")
    [row] = folded(Folding(exchange), events)["usage"]
    assert row.input_audio_tokens == 2
    assert same_rows(exchange, events)


def test_usage_of_common_chunks_is_known_after_each_of_them() -> None:
    exchange, events = captured("".join(map(gemini_chunk, (1, 2, 3))).encode(), "gemini")
    folding, totals = Folding(exchange), []
    for event in events:
        folding.apply(event)
        [row] = folding.rows_of("usage")
        totals.append(row.total_tokens)
    assert [total for total, _ in itertools.groupby(totals)] == [None, 1, 2, 3]
    assert all(same_rows(exchange, events[:count]) for count in range(len(events)))


def test_a_tier_that_changes_is_that_of_the_chunk_which_changed_it() -> None:
    body = gemini_chunk(1) + gemini_chunk(2, serviceTier="FLEX") + gemini_chunk(3) + gemini_chunk(4)
    exchange, events = captured(body.encode(), "gemini")
    [row] = folded(Folding(exchange), events)["parameters"]
    assert row.response_service_tier == "flex"
    assert same_rows(exchange, events)


@pytest.mark.parametrize("count", [-1, 2**32, 2**40, 2**63])
def test_odd_counts_of_a_chunk_are_an_anomaly_each_time(count: int) -> None:
    body = "".join(
        (gemini_chunk(1), *[gemini_chunk(count)] * 2, *[gemini_chunk(1, **of_audio(count))] * 2)
    )
    assert same_rows(*captured(body.encode(), "gemini"))


def test_each_fact_of_a_chunk_is_told_with_it() -> None:
    exchange, events = captured("".join(map(gemini_chunk, (1, 2, 3))).encode(), "gemini")
    quick, plain = FactReader(exchange), PlainReader(exchange)
    assert [list(quick.facts(event)) for event in events] == [
        list(plain.facts(event)) for event in events
    ]
