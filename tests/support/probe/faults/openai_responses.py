"""What gateways of OpenAI Responses do wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import count

from recorder.demo.reply import Step
from tests.support.probe.gateway import Planted
from tests.support.probe.planting import (
    Json,
    PlantedFault,
    Steps,
    answered,
    any_key,
    as_document,
    as_html,
    as_is,
    both,
    each,
    encoded,
    ended,
    everywhere,
    forgets,
    headed,
    in_stream,
    objects,
    on_error,
    parsed,
    query_without,
    renumbered,
    streamed,
    together,
    typed,
    with_status,
    without_last,
)

_CALL = typed("function_call")
_ARGUMENTS = typed("function_call", "response.function_call_arguments.done")
_ARGUMENTS_DELTA = typed("response.function_call_arguments.delta")


def _responses_arguments(change: Callable[[str], str]) -> Planted:
    whole_text, delta = each("arguments", change, of=_ARGUMENTS), each("delta", change, of=_ARGUMENTS_DELTA)
    return both(everywhere(whole_text), in_stream(delta))


def _responses_delta(event: Json) -> tuple[Json, str] | None:
    return (event, "delta") if event["type"] == "response.output_text.delta" else None


def _without_reasoning(event: Json) -> object:
    """Drop what is reasoning, and move what comes after it to the front."""
    if "reasoning" in str(event.get("type")) or (event.get("item") or {}).get("type") == "reasoning":
        return False
    if "output_index" in event:
        event["output_index"] -= 1
    for found in objects(event):
        if isinstance(found.get("output"), list):
            found["output"] = [item for item in found["output"] if item["type"] != "reasoning"]
        if "reasoning_tokens" in found:
            found["reasoning_tokens"] = 0
    return True


def _one_call(event: Json) -> object:
    """Keep the first call of a function alone."""
    for found in objects(event):
        if isinstance(found.get("output"), list):
            calls = [item for item in found["output"] if item["type"] == "function_call"]
            found["output"] = [item for item in found["output"] if item not in calls[1:]]
    return not (event.get("output_index", 0) > 1)


def _completed(event: Json) -> None:
    """Say that an answer is complete which was cut off."""
    for found in list(objects(event)):
        if found.get("status") == "incomplete":
            found["status"] = "completed"
        if "incomplete_details" in found:
            found["incomplete_details"] = None
        if found.get("type") == "response.incomplete":
            found["type"] = "response.completed"


def _swapped(old: bytes, new: bytes) -> Planted:
    return streamed(as_is(lambda frame: frame.replace(old, new)))


def _item_ids(steps: Steps) -> Steps:
    numbers = count()
    change = each("id", lambda _: f"msg_{next(numbers)}", of=typed("message"))
    for step in steps:
        before, event, after = parsed(step.take())
        if event is not None:
            change(event)
        yield Step(step.at_s, before + json.dumps(event).encode() + after)


FAULTS = [
    PlantedFault(
        "responses-no-end",
        "The last event of a stream is lost.",
        "text",
        "RS002",
        streamed(without_last(1)),
    ),
    PlantedFault(
        "responses-content-type",
        "Streams have the content type `application/json`.",
        "text",
        "HT001",
        answered(headed("content-type", "application/json")),
    ),
    PlantedFault(
        "responses-numbers-repeated",
        "Every event has the sequence number 0.",
        "text",
        "RS012",
        in_stream(each("sequence_number", lambda _: 0)),
    ),
    PlantedFault(
        "responses-no-names",
        "Events have no `event:` line.",
        "text",
        "RS014",
        streamed(as_is(lambda frame: re.sub(rb"^event: .*\n", b"", frame))),
    ),
    PlantedFault(
        "responses-indexes",
        "Every item has the `output_index` 0.",
        "parallel-tools",
        "RS031",
        in_stream(each("output_index", lambda _: 0)),
    ),
    PlantedFault(
        "responses-item-ids",
        "An item has another id in each event.",
        "text",
        "RS025",
        streamed(_item_ids),
    ),
    PlantedFault(
        "responses-no-usage",
        "`usage` is null, streamed or not.",
        "text",
        "PR030",
        everywhere(each("usage", lambda _: None)),
    ),
    PlantedFault(
        "responses-usage-summed",
        "Input and output tokens are counted twice, but the total is not.",
        "text",
        "RS052",
        everywhere(each("input_tokens", lambda tokens: 2 * tokens)),
    ),
    PlantedFault(
        "responses-whole-for-stream",
        "A stream is requested, and a document comes.",
        "text",
        "PR011",
        as_document(lambda events: dict(events[-1]["response"])),
    ),
    PlantedFault(
        "responses-one-delta",
        "The text comes in one delta, at the end.",
        "text",
        "PR021",
        both(streamed(together(_responses_delta)), streamed(renumbered)),
    ),
    PlantedFault(
        "responses-no-reasoning",
        "Reasoning is left out, and not counted.",
        "reasoning",
        "PR120",
        both(everywhere(_without_reasoning), streamed(renumbered)),
    ),
    PlantedFault(
        "responses-arguments-cut",
        "The arguments of tools lack their end, everywhere.",
        "parallel-tools",
        "PR042",
        _responses_arguments(ended),
    ),
    PlantedFault(
        "responses-arguments-encoded",
        "The arguments of tools are JSON in a JSON string.",
        "parallel-tools",
        "PR043",
        _responses_arguments(encoded),
    ),
    PlantedFault(
        "responses-one-call",
        "Of parallel calls only the first one is passed on.",
        "parallel-tools",
        "PR041",
        both(everywhere(_one_call), streamed(renumbered)),
    ),
    PlantedFault(
        "responses-call-ids",
        "All calls have the same `call_id`.",
        "parallel-tools",
        "PR044",
        everywhere(each("call_id", lambda _: "call_0")),
    ),
    PlantedFault(
        "responses-no-choice",
        "`tool_choice` is ignored.",
        "forced-tool",
        "PR050",
        forgets("tool_choice"),
    ),
    PlantedFault(
        "responses-no-schema",
        "The format of the answer is ignored.",
        "structured",
        "PR060",
        forgets("text"),
    ),
    PlantedFault(
        "responses-no-limit",
        "`max_output_tokens` is ignored.",
        "max-tokens",
        "PR070",
        forgets("max_output_tokens"),
    ),
    PlantedFault(
        "responses-cut-completed",
        "An answer that was cut off says that it is complete.",
        "max-tokens",
        "PR015",
        both(everywhere(_completed), _swapped(b"event: response.incomplete", b"event: response.completed")),
    ),
    PlantedFault(
        "responses-any-key",
        "A wrong key is accepted.",
        "wrong-key",
        "PR090",
        any_key,
    ),
    PlantedFault(
        "responses-error-200",
        "An error comes with status 200.",
        "bad-request",
        "PR080",
        on_error(400, change=with_status(200)),
    ),
    PlantedFault(
        "responses-error-500",
        "A bad request is answered with 500.",
        "bad-request",
        "PR081",
        on_error(400, change=with_status(500)),
    ),
    PlantedFault(
        "responses-error-page",
        "Errors are HTML pages.",
        "bad-request",
        "PR082",
        on_error(400, 401, change=as_html),
    ),
    PlantedFault(
        "responses-resume-from-0",
        "A resumed stream begins from its start.",
        "resume",
        "RS011",
        query_without("starting_after"),
    ),
    PlantedFault(
        "responses-resume-numbered",
        "A resumed stream counts from 0 again.",
        "resume",
        "RS011",
        streamed(renumbered),
    ),
]
