"""The rules of Interactions: each is broken by one change to a good reply, and nothing else is; and
what google-genai does with a reply in which any one field is wrong.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from google.genai import interactions
from pydantic import TypeAdapter, ValidationError

from tests.support.planted_fields import Judged, compared
from tests.support.recordings import Json, Mutation, Reply, broken
from tests.support.sdks import BASE, INTERACTION, answering, gemini_client, interaction_of

CREATED, STATUS, THOUGHT, SUMMARY = range(4)
SEARCH, RESULT, TEXT, CALL, COMPLETED = 6, 9, 12, 17, 21
END = COMPLETED + 1
DONE = b"event: done\ndata: [DONE]\n\n"
ID = "v1_a"
USAGE = {
    "total_tokens": 61,
    "total_input_tokens": 30,
    "total_cached_tokens": 8,
    "total_output_tokens": 10,
    "total_thought_tokens": 16,
    "total_tool_use_tokens": 5,
    "input_tokens_by_modality": [{"modality": "text", "tokens": 30}],
}


def step(index: int, begun: Json, *deltas: Json) -> list[Json]:
    return [
        {"index": index, "step": begun, "event_type": "step.start"},
        *({"index": index, "delta": delta, "event_type": "step.delta"} for delta in deltas),
        {"index": index, "event_type": "step.stop"},
    ]


def interaction(status: str, **more: Any) -> Json:
    return {
        "interaction": {
            "id": ID,
            "status": status,
            "object": "interaction",
            "model": "gemini-3.5-flash",
            **more,
        }
    }


def said(text: str) -> Json:
    return {"type": "text", "text": text}


def encoded(event: Json) -> bytes:
    return f"event: {event.get('event_type')}\ndata: {json.dumps(event)}\n\n".encode()


EVENTS: tuple[Json, ...] = (
    {**interaction("in_progress"), "event_type": "interaction.created"},
    {"interaction_id": ID, "status": "in_progress", "event_type": "interaction.status_update"},
    *step(
        0,
        {"type": "thought"},
        {"type": "thought_summary", "content": said("Hm.")},
        {"type": "thought_signature", "signature": "AAAA"},
    ),
    *step(
        1,
        {"type": "google_search_call", "id": "s1", "arguments": {}},
        {"type": "google_search_call", "arguments": {"queries": ["x"]}},
    ),
    *step(
        2,
        {"type": "google_search_result", "call_id": "s1", "result": []},
        {
            "type": "google_search_result",
            "result": [{"search_suggestions": "y"}],
            "is_error": False,
        },
    ),
    *step(
        3,
        {"type": "model_output"},
        said("Hel"),
        said("lo"),
        {
            "type": "text_annotation_delta",
            "annotations": [{"type": "url_citation", "url": "https://a.b"}],
        },
    ),
    *step(
        4,
        {"type": "function_call", "id": "c1", "name": "roll", "arguments": {}},
        {"type": "arguments_delta", "arguments": '{"sides":'},
        {"type": "arguments_delta", "arguments": "6}"},
    ),
    {
        **interaction("requires_action", usage=USAGE, service_tier="standard"),
        "event_type": "interaction.completed",
    },
)
GOOD = Reply(
    events=(*EVENTS, DONE),
    encoding=encoded,
    target="/v1beta/interactions",
    asked={"model": "gemini-3.5-flash", "input": "roll", "stream": True},
    headers=(("content-type", "text/event-stream"),),
)
ERROR = {"error": {"code": "service_unavailable", "message": "Later."}, "event_type": "error"}


def with_usage(**counts: Any) -> Reply:
    return GOOD.edited(
        COMPLETED, lambda event: event["interaction"].update(usage={**USAGE, **counts})
    )


def in_delta(at: int, **fields: Any) -> Reply:
    return GOOD.edited(at, lambda event: event["delta"].update(fields))


MUTATIONS = [
    Mutation("GI001", "no type", GOOD.edited(STATUS, lambda event: event.pop("event_type"))),
    Mutation("GI001", "an array", GOOD.put(STATUS, b"data: []\n\n")),
    Mutation(
        "GI001",
        "a type that is an array",
        GOOD.edited(STATUS, lambda event: event.update(event_type=[])),
    ),
    Mutation("GI002", "no id", GOOD.edited(CREATED, lambda event: event["interaction"].pop("id"))),
    Mutation(
        "GI002",
        "a summary without content",
        GOOD.edited(SUMMARY, lambda event: event["delta"].pop("content")),
    ),
    Mutation("GI002", "no delta", GOOD.edited(SUMMARY, lambda event: event.pop("delta"))),
    Mutation("GI002", "a number as a text", in_delta(TEXT + 1, text=5)),
    Mutation("GI002", "no name", GOOD.edited(CALL, lambda event: event["step"].pop("name"))),
    Mutation(
        "GI003",
        "an event of the old API",
        GOOD.put(STATUS, {"event_type": "content.start", "index": 0}),
    ),
    Mutation("GI003", "a delta of another API", in_delta(TEXT + 1, type="text_delta")),
    Mutation("GI004", "a delta of no step", GOOD.put(COMPLETED, {**EVENTS[TEXT + 1], "index": 9})),
    Mutation("GI004", "a delta after its step", GOOD.put(COMPLETED, EVENTS[TEXT + 1])),
    Mutation("GI005", "an index twice", GOOD.put(COMPLETED, *step(3, {"type": "model_output"}))),
    Mutation("GI006", "no end", GOOD.without(COMPLETED)),
    Mutation("GI006", "cut off", GOOD.without(COMPLETED, END)._replace(outcome="truncated")),
    Mutation(
        "GI007",
        "in progress",
        GOOD.edited(COMPLETED, lambda event: event["interaction"].update(status="idle")),
    ),
    Mutation(
        "GI008", "no usage", GOOD.edited(COMPLETED, lambda event: event["interaction"].pop("usage"))
    ),
    Mutation("GI009", "no stop", GOOD.without(COMPLETED - 1)),
    Mutation(
        "GI010",
        "another id",
        GOOD.edited(STATUS, lambda event: event.update(interaction_id="v1_b")),
    ),
    Mutation(
        "GI011",
        "a call unknown",
        GOOD.edited(RESULT, lambda event: event["step"].update(call_id="s2")),
    ),
    Mutation("GI012", "an event after the mark", GOOD.put(END + 1, EVENTS[STATUS])),
    Mutation("GI013", "a text in a thought", GOOD.put(SUMMARY, {**EVENTS[TEXT + 1], "index": 0})),
    Mutation("GI014", "half of the arguments", GOOD.without(CALL + 2)),
    Mutation(
        "GI014",
        "arguments that are an array",
        GOOD.without(CALL + 1).edited(
            CALL + 1, lambda event: event["delta"].update(arguments="[]")
        ),
    ),
    Mutation("GI015", "a wrong total", with_usage(total_tokens=62)),
    Mutation("GI015", "more cached than sent", with_usage(total_cached_tokens=31)),
    Mutation("GI015", "fewer than none", with_usage(total_output_tokens=-10, total_tokens=41)),
]

GOODS = {
    "as it should be": GOOD,
    "no end mark, which no client needs": GOOD.without(END),
    "an error in the stream": GOOD.without(*range(CALL, END)).put(CALL, ERROR),
    "left by the client": GOOD.without(*range(CALL, END + 1))._replace(outcome="client_disconnect"),
    "a comment": GOOD.put(TEXT, b": keep-alive\n\n"),
    "a result of a function of the request before": GOOD.put(
        STATUS, *step(9, {"type": "function_result", "call_id": "before", "result": "six"})
    ),
    "counts that are left out": GOOD.edited(
        COMPLETED,
        lambda event: event["interaction"].update(
            usage={"total_tokens": 61, "total_input_tokens": 30}
        ),
    ),
}


# -- any one field wrong, and what google-genai does with it


_ADAPTER: TypeAdapter[Any] = TypeAdapter(interactions.InteractionSSEEvent)


def judged(events: Sequence[Json]) -> Judged:
    body = b"".join(map(encoded, events)) + DONE
    client = gemini_client(BASE, "v1beta", httpx_client=answering(body))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read = interaction_of(client.interactions.create(**INTERACTION, input="x", stream=True))
        except Exception as error:
            return Judged(None, error, False)
    return Judged(read, None, all(map(_is_declared, events)))


def _is_declared(event: Json) -> bool:
    try:
        found = _ADAPTER.validate_python(event)
    except (ValidationError, TypeError):
        return False
    return "UNKNOWN" not in repr(found)


@pytest.mark.long
def test_a_wrong_field_that_stops_the_sdk_is_found_and_one_that_it_takes_is_none() -> None:
    told = compared(EVENTS, judged, lambda events: broken(GOOD._replace(events=(*events, DONE))))
    assert (told.missed, told.false) == ([], [])
    assert told.stopped >= 60


def test_a_resumed_stream_begins_in_the_middle_of_a_step() -> None:
    target = "/v1beta/interactions/v1_a?stream=true&last_event_id=e12"
    assert broken(GOOD._replace(events=GOOD.events[TEXT + 1 :], target=target, method="GET")) == []
