"""What gateways of OpenAI Responses do wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import count

from tests.support.probe.gateway import Planted
from tests.support.probe.planting import (
    Json,
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
    faults,
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
from tests.support.provider.reply import Step

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


FAULTS = faults(
    """\
responses-no-end | text | RS002 | The last event of a stream is lost.
responses-content-type | text | HT001 | Streams have the content type `application/json`.
responses-numbers-repeated | text | RS012 | Every event has the sequence number 0.
responses-no-names | text | RS014 | Events have no `event:` line.
responses-indexes | parallel-tools | RS031 | Every item has the `output_index` 0.
responses-item-ids | text | RS025 | An item has another id in each event.
responses-no-usage | text | PR030 | `usage` is null, streamed or not.
responses-usage-summed | text | RS052 | Input and output tokens are counted twice, but the total is not.
responses-whole-for-stream | text | PR011 | A stream is requested, and a document comes.
responses-one-delta | text | PR021 | The text comes in one delta, at the end.
responses-no-reasoning | reasoning | PR120 | Reasoning is left out, and not counted.
responses-arguments-cut | parallel-tools | PR042 | The arguments of tools lack their end, everywhere.
responses-arguments-encoded | parallel-tools | PR043 | The arguments of tools are JSON in a JSON string.
responses-one-call | parallel-tools | PR041 | Of parallel calls only the first one is passed on.
responses-call-ids | parallel-tools | PR044 | All calls have the same `call_id`.
responses-no-choice | forced-tool | PR050 | `tool_choice` is ignored.
responses-no-schema | structured | PR060 | The format of the answer is ignored.
responses-no-limit | max-tokens | PR070 | `max_output_tokens` is ignored.
responses-cut-completed | max-tokens | PR015 | An answer that was cut off says that it is complete.
responses-any-key | wrong-key | PR090 | A wrong key is accepted.
responses-error-200 | bad-request | PR080 | An error comes with status 200.
responses-error-500 | bad-request | PR081 | A bad request is answered with 500.
responses-error-page | bad-request | PR082 | Errors are HTML pages.
responses-resume-from-0 | resume | RS011 | A resumed stream begins from its start.
responses-resume-numbered | resume | RS011 | A resumed stream counts from 0 again.
""",
    {
        "responses-no-end": streamed(without_last(1)),
        "responses-content-type": answered(headed("content-type", "application/json")),
        "responses-numbers-repeated": in_stream(each("sequence_number", lambda _: 0)),
        "responses-no-names": streamed(as_is(lambda frame: re.sub(rb"^event: .*\n", b"", frame))),
        "responses-indexes": in_stream(each("output_index", lambda _: 0)),
        "responses-item-ids": streamed(_item_ids),
        "responses-no-usage": everywhere(each("usage", lambda _: None)),
        "responses-usage-summed": everywhere(each("input_tokens", lambda tokens: 2 * tokens)),
        "responses-whole-for-stream": as_document(lambda events: dict(events[-1]["response"])),
        "responses-one-delta": both(streamed(together(_responses_delta)), streamed(renumbered)),
        "responses-no-reasoning": both(everywhere(_without_reasoning), streamed(renumbered)),
        "responses-arguments-cut": _responses_arguments(ended),
        "responses-arguments-encoded": _responses_arguments(encoded),
        "responses-one-call": both(everywhere(_one_call), streamed(renumbered)),
        "responses-call-ids": everywhere(each("call_id", lambda _: "call_0")),
        "responses-no-choice": forgets("tool_choice"),
        "responses-no-schema": forgets("text"),
        "responses-no-limit": forgets("max_output_tokens"),
        "responses-cut-completed": both(
            everywhere(_completed), _swapped(b"event: response.incomplete", b"event: response.completed")
        ),
        "responses-any-key": any_key,
        "responses-error-200": on_error(400, change=with_status(200)),
        "responses-error-500": on_error(400, change=with_status(500)),
        "responses-error-page": on_error(400, 401, change=as_html),
        "responses-resume-from-0": query_without("starting_after"),
        "responses-resume-numbered": streamed(renumbered),
    },
)
