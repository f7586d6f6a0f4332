"""What gateways do wrong: faults that were seen in gateways, planted in the answers of the demo upstream.

A row names the cases of the probe that must see the fault, and the rules, each of which must be among the findings of
one of these cases. `tests.probe.test_faults` sends the cases to each; `docs/probe.md` has the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

from recorder.demo.reply import DemoReply, DemoRequest, Step, whole
from recorder.probe.cases import WRONG_KEY
from tests.probe.gateway import Ask, Planted
from tests.probe.planting import (
    JSON_HEADERS,
    Json,
    Steps,
    answered,
    as_frames,
    as_html,
    as_is,
    asked,
    both,
    dropped,
    each,
    everywhere,
    forgets,
    headed,
    in_document,
    in_stream,
    is_stream,
    objects,
    on_error,
    parsed,
    query_without,
    removed,
    renumbered,
    streamed,
    together,
    typed,
    with_body,
    with_status,
    without_last,
)

RESPONSES, CHAT, ANTHROPIC, GEMINI = "openai-responses", "openai-chat", "anthropic", "gemini"


class PlantedFault(NamedTuple):
    """One way to break an API."""

    name: str  # also of its gateway: the prefix of the path
    api: str
    says: str  # what the gateway does, one sentence
    cases: tuple[str, ...]  # of the probe, which are sent
    rules: frozenset[str]  # all of them are found
    planted: Planted


FAULTS: list[PlantedFault] = []


def _plant(name: str, api: str, says: str, cases: str, rules: str, planted: Planted) -> None:
    FAULTS.append(PlantedFault(name, api, says, tuple(cases.split()), frozenset(rules.split()), planted))


# -- what gateways of all APIs do


def _any_key(request: DemoRequest, ask: Ask) -> DemoReply:
    """Replace a key that the demo refuses."""
    headers = tuple((name, value.replace(WRONG_KEY, "sk-good")) for name, value in request.headers)
    return ask(replace(request, headers=headers, target=request.target.replace(WRONG_KEY, "sk-good")))


def _ended(text: str) -> str:
    """Less the brace at its end: arguments of the demo are objects without objects in them."""
    return text.removesuffix("}")


def _encoded(text: str) -> str:
    """A piece of JSON as a piece of a JSON string: arguments of the demo are objects without objects in them."""
    inner = json.dumps(text, ensure_ascii=False)[1:-1]
    return '"' * text.startswith("{") + inner + '"' * text.endswith("}")


def _fenced(document: Json, text_of: Callable[[Json], list[tuple[Json, str]]]) -> None:
    """Put texts into a block of Markdown."""
    for holder, name in text_of(document):
        holder[name] = f"```json\n{holder[name]}\n```"


def _as_document(final: Callable[[list[Json]], Json]) -> Planted:
    """A gateway that answers a stream whole."""

    def change(_: DemoRequest, reply: DemoReply) -> DemoReply:
        if not is_stream(reply):
            return reply
        events = [event for step in reply.steps if (event := parsed(step.take())[1]) is not None]
        return whole(json.dumps(final(events)).encode(), JSON_HEADERS)

    return answered(change)


# -- OpenAI Responses

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


_plant(
    "responses-no-end", RESPONSES, "The last event of a stream is lost.",
    "text", "RS002", streamed(without_last(1)),
)  # fmt: skip
_plant(
    "responses-content-type", RESPONSES, "Streams have the content type `application/json`.",
    "text", "HT001", answered(headed("content-type", "application/json")),
)  # fmt: skip
_plant(
    "responses-numbers-repeated", RESPONSES, "Every event has the sequence number 0.",
    "text", "RS012", in_stream(each("sequence_number", lambda _: 0)),
)  # fmt: skip
_plant(
    "responses-no-names", RESPONSES, "Events have no `event:` line.",
    "text", "RS014", streamed(as_is(lambda frame: re.sub(rb"^event: .*\n", b"", frame))),
)  # fmt: skip
_plant(
    "responses-indexes", RESPONSES, "Every item has the `output_index` 0.",
    "parallel-tools", "RS034", in_stream(each("output_index", lambda _: 0)),
)  # fmt: skip
_plant(
    "responses-item-ids", RESPONSES, "An item has another id in each event.",
    "text", "RS025", streamed(_item_ids),
)  # fmt: skip
_plant(
    "responses-no-usage", RESPONSES, "`usage` is null, streamed or not.",
    "text", "PR030", everywhere(each("usage", lambda _: None)),
)  # fmt: skip
_plant(
    "responses-usage-summed", RESPONSES, "Input and output tokens are counted twice, but the total is not.",
    "text", "RS052", everywhere(each("input_tokens", lambda tokens: 2 * tokens)),
)  # fmt: skip
_plant(
    "responses-whole-for-stream", RESPONSES, "A stream is requested, and a document comes.",
    "text", "PR011", _as_document(lambda events: dict(events[-1]["response"])),
)  # fmt: skip
_plant(
    "responses-one-delta", RESPONSES, "The text comes in one delta, at the end.",
    "text", "?", both(streamed(together(_responses_delta)), streamed(renumbered)),
)  # fmt: skip
_plant(
    "responses-no-reasoning", RESPONSES, "Reasoning items are left out.",
    "reasoning", "?", both(everywhere(_without_reasoning), streamed(renumbered)),
)  # fmt: skip
_plant(
    "responses-arguments-cut", RESPONSES, "The arguments of tools lack their end, everywhere.",
    "parallel-tools", "?", _responses_arguments(_ended),
)  # fmt: skip
_plant(
    "responses-arguments-encoded", RESPONSES, "The arguments of tools are JSON in a JSON string.",
    "parallel-tools", "?", _responses_arguments(_encoded),
)  # fmt: skip
_plant(
    "responses-one-call", RESPONSES, "Of parallel calls only the first one is passed on.",
    "parallel-tools", "?", both(everywhere(_one_call), streamed(renumbered)),
)  # fmt: skip
_plant(
    "responses-call-ids", RESPONSES, "All calls have the same `call_id`.",
    "parallel-tools", "?", everywhere(each("call_id", lambda _: "call_0")),
)  # fmt: skip
_plant(
    "responses-no-choice", RESPONSES, "`tool_choice` is ignored.",
    "forced-tool", "?", forgets("tool_choice"),
)  # fmt: skip
_plant(
    "responses-no-schema", RESPONSES, "The format of the answer is ignored.",
    "structured-output", "?", forgets("text"),
)  # fmt: skip
_plant(
    "responses-no-limit", RESPONSES, "`max_output_tokens` is ignored.",
    "cut", "?", forgets("max_output_tokens"),
)  # fmt: skip
_plant(
    "responses-cut-completed", RESPONSES, "An answer that was cut off says that it is complete.",
    "cut", "?", both(everywhere(_completed), _swapped(b"event: response.incomplete", b"event: response.completed")),
)  # fmt: skip
_plant(
    "responses-any-key", RESPONSES, "A wrong key is accepted.",
    "wrong-key", "?", _any_key,
)  # fmt: skip
_plant(
    "responses-error-200", RESPONSES, "An error comes with status 200.",
    "bad-request", "?", on_error(400, change=with_status(200)),
)  # fmt: skip
_plant(
    "responses-error-500", RESPONSES, "A bad request is answered with 500.",
    "bad-request", "?", on_error(400, change=with_status(500)),
)  # fmt: skip
_plant(
    "responses-error-page", RESPONSES, "Errors are HTML pages.",
    "bad-request", "HT007", on_error(400, 401, change=as_html),
)  # fmt: skip
_plant(
    "responses-resume-from-0", RESPONSES, "A resumed stream begins from its start.",
    "resume", "RS011", query_without("starting_after"),
)  # fmt: skip
_plant(
    "responses-resume-numbered", RESPONSES, "A resumed stream counts from 0 again.",
    "resume", "RS011", streamed(renumbered),
)  # fmt: skip

# -- OpenAI Chat Completions


def _is_function(found: Json) -> bool:
    return "arguments" in found


def _chat_delta(event: Json) -> tuple[Json, str] | None:
    choices = event.get("choices") or [{}]
    delta = choices[0].get("delta") or {}
    return (delta, "content") if delta.get("content") else None


def _chat_ids(steps: Steps) -> Steps:
    numbers = count()
    for step in steps:
        yield Step(step.at_s, re.sub(rb'"id":"chatcmpl-\w+"', b'"id":"chatcmpl-%d"' % next(numbers), step.take()))


def _one_choice(event: Json) -> None:
    """Keep the first choice alone."""
    if "choices" in event:
        event["choices"] = [choice for choice in event["choices"] if choice["index"] == 0]


def _thinks_aloud(event: Json) -> None:
    """Put the text of reasoning into the answer, between tags."""
    for found in list(objects(event)):
        if found.get("role") == "assistant" and isinstance(found.get("content"), str):
            found["content"] = f"<think>The user wants it short.</think>{found['content']}"


def _first_call_of(event: Json) -> object:
    """Keep the first tool call alone."""
    for found in objects(event):
        if "tool_calls" in found:
            found["tool_calls"] = [
                call for number, call in enumerate(found["tool_calls"]) if call.get("index", number) == 0
            ]
    return True


def _stopped(reason: str) -> Planted:
    """A gateway with a `finish_reason` of its own for every end."""
    return everywhere(each("finish_reason", lambda was: was and reason))


_CHAT_ERROR = (
    b'data: {"id":"chatcmpl-0","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,'
)
_CHAT_ERROR += b'"delta":{"role":"assistant","content":"Error: 400 Bad Request"},"finish_reason":"stop"}]}\n\n'

_plant(
    "chat-no-done", CHAT, "`data: [DONE]` is missing.",
    "text", "CH001", streamed(as_is(lambda frame: b"" if b"[DONE]" in frame else frame)),
)  # fmt: skip
_plant(
    "chat-no-finish", CHAT, "The chunk with the `finish_reason` is lost.",
    "text", "CH011", in_stream(dropped(lambda event: any(each["finish_reason"] for each in event.get("choices", ())))),
)  # fmt: skip
_plant(
    "chat-content-type", CHAT, "Streams have the content type `text/plain`.",
    "text", "HT001", answered(headed("content-type", "text/plain; charset=utf-8")),
)  # fmt: skip
_plant(
    "chat-usage-not-sent", CHAT, "`stream_options` is ignored: no usage where it was asked for.",
    "text", "CH012", forgets("stream_options"),
)  # fmt: skip
_plant(
    "chat-usage-zero", CHAT, "All counts of tokens are 0.",
    "text", "?", everywhere(lambda event: _zeroed(event)),
)  # fmt: skip
_plant(
    "chat-usage-unasked", CHAT, "Usage is sent where it was not asked for.",
    "usage-not-asked", "?", asked(lambda body: body.update(stream_options={"include_usage": True})),
)  # fmt: skip
_plant(
    "chat-ids", CHAT, "Each chunk has another id.",
    "text", "CH004", streamed(_chat_ids),
)  # fmt: skip
_plant(
    "chat-no-role", CHAT, "No delta has a role.",
    "text", "CH010", in_stream(removed("role")),
)  # fmt: skip
_plant(
    "chat-one-delta", CHAT, "The text comes in one delta, at the end.",
    "text", "?", streamed(together(_chat_delta)),
)  # fmt: skip
_plant(
    "chat-thinks-aloud", CHAT, "Reasoning stands in the answer, between `<think>` and `</think>`.",
    "text", "?", everywhere(_thinks_aloud),
)  # fmt: skip
_plant(
    "chat-arguments-cut", CHAT, "The arguments of tools lack their end.",
    "parallel-tools", "?", everywhere(each("arguments", _ended, of=_is_function)),
)  # fmt: skip
_plant(
    "chat-arguments-encoded", CHAT, "The arguments of tools are JSON in a JSON string.",
    "parallel-tools", "?", everywhere(each("arguments", _encoded, of=_is_function)),
)  # fmt: skip
_plant(
    "chat-arguments-object", CHAT, "The arguments of tools are an object in place of a text.",
    "parallel-tools", "?", in_document(each("arguments", json.loads, of=_is_function)),
)  # fmt: skip
_plant(
    "chat-call-indexes", CHAT, "All tool calls of a stream have the index 0.",
    "parallel-tools", "?", in_stream(each("index", lambda _: 0, of=lambda found: "function" in found)),
)  # fmt: skip
_plant(
    "chat-one-call", CHAT, "Of parallel calls only the first one is passed on.",
    "parallel-tools", "?", everywhere(_first_call_of),
)  # fmt: skip
_plant(
    "chat-calls-stop", CHAT, "The `finish_reason` of tool calls is `stop`.",
    "parallel-tools", "?", _stopped("stop"),
)  # fmt: skip
_plant(
    "chat-cut-stop", CHAT, "The `finish_reason` of an answer that was cut off is `stop`.",
    "cut", "?", _stopped("stop"),
)  # fmt: skip
_plant(
    "chat-no-limit", CHAT, "The limit of tokens is ignored.",
    "cut", "?", both(forgets("max_tokens"), forgets("max_completion_tokens")),
)  # fmt: skip
_plant(
    "chat-n-ignored", CHAT, "`n` is ignored.",
    "choices", "?", forgets("n"),
)  # fmt: skip
_plant(
    "chat-no-choice", CHAT, "`tool_choice` is ignored.",
    "forced-tool", "?", forgets("tool_choice"),
)  # fmt: skip
_plant(
    "chat-no-schema", CHAT, "`response_format` is ignored.",
    "structured-output", "?", forgets("response_format"),
)  # fmt: skip
_plant(
    "chat-any-key", CHAT, "A wrong key is accepted.",
    "wrong-key", "?", _any_key,
)  # fmt: skip
_plant(
    "chat-error-500", CHAT, "A bad request is answered with 500.",
    "bad-request", "?", on_error(400, change=with_status(500)),
)  # fmt: skip
_plant(
    "chat-error-page", CHAT, "Errors are HTML pages.",
    "bad-request", "HT007", on_error(400, 401, change=as_html),
)  # fmt: skip
_plant(
    "chat-error-text", CHAT, "An error is a text in a stream with status 200: `data: Error: …`.",
    "bad-request", "ST002",
    on_error(400, change=as_frames(b"data: Error: 400 Bad Request\n\n", b"data: [DONE]\n\n")),
)  # fmt: skip
_plant(
    "chat-error-answer", CHAT, "An error is the text of an answer.",
    "bad-request", "?", on_error(400, change=as_frames(_CHAT_ERROR, b"data: [DONE]\n\n")),
)  # fmt: skip
_plant(
    "chat-error-detail", CHAT, "Errors have a `detail`, as FastAPI makes them, and no `error`.",
    "bad-request", "HT007", on_error(400, 401, change=with_body({"detail": "Bad Request"})),
)  # fmt: skip

# -- Anthropic Messages


def _anthropic_delta(event: Json) -> tuple[Json, str] | None:
    delta = event.get("delta") or {}
    return (delta, "text") if delta.get("type") == "text_delta" else None


def _reasons(**reasons: str) -> Planted:
    """A gateway with other words for why an answer ends."""
    return everywhere(each("stop_reason", lambda was: reasons.get(str(was), was)))


def _without_thinking(event: Json) -> object:
    if event.get("type") in ("content_block_start", "content_block_delta", "content_block_stop"):
        event["index"] -= 1
    if isinstance(event.get("content"), list):
        event["content"] = [block for block in event["content"] if block["type"] != "thinking"]
    return event.get("index", 0) >= 0


_OPENAI_ERROR = {"error": {"message": "Bad Request", "type": "invalid_request_error", "param": None, "code": "400"}}

_plant(
    "anthropic-no-end", ANTHROPIC, "`message_stop` is missing.",
    "text", "AN007", streamed(without_last(1)),
)  # fmt: skip
_plant(
    "anthropic-no-usage", ANTHROPIC, "`message_delta` has no `usage`.",
    "text", "AN010", in_stream(removed("usage", of=typed("message_delta"))),
)  # fmt: skip
_plant(
    "anthropic-usage-zero", ANTHROPIC, "All counts of tokens are 0.",
    "text", "?", everywhere(lambda event: _zeroed(event)),
)  # fmt: skip
_plant(
    "anthropic-no-names", ANTHROPIC, "Events have no `event:` line.",
    "text", "AN001", streamed(as_is(lambda frame: re.sub(rb"^event: .*\n", b"", frame))),
)  # fmt: skip
_plant(
    "anthropic-indexes", ANTHROPIC, "All blocks have the index 0.",
    "parallel-tools", "AN013", in_stream(each("index", lambda _: 0)),
)  # fmt: skip
_plant(
    "anthropic-one-delta", ANTHROPIC, "The text comes in one delta, at the end.",
    "text", "?", streamed(together(_anthropic_delta)),
)  # fmt: skip
_plant(
    "anthropic-no-signature", ANTHROPIC, "Thinking has no signature.",
    "reasoning", "AN020", in_stream(dropped(lambda event: (event.get("delta") or {}).get("type") == "signature_delta")),
)  # fmt: skip
_plant(
    "anthropic-no-thinking", ANTHROPIC, "Thinking is left out.",
    "reasoning", "?", everywhere(_without_thinking),
)  # fmt: skip
_plant(
    "anthropic-input-cut", ANTHROPIC, "The input of tools lacks its end.",
    "parallel-tools", "AN019", in_stream(each("partial_json", _ended)),
)  # fmt: skip
_plant(
    "anthropic-input-text", ANTHROPIC, "The input of a tool is a text in place of an object.",
    "parallel-tools", "?", in_document(each("input", json.dumps, of=typed("tool_use"))),
)  # fmt: skip
_plant(
    "anthropic-reasons", ANTHROPIC, "The `stop_reason` is one of OpenAI's: `stop`, `length`, `tool_calls`.",
    "text", "AN021", _reasons(end_turn="stop", max_tokens="length", tool_use="tool_calls"),
)  # fmt: skip
_plant(
    "anthropic-calls-end", ANTHROPIC, "The `stop_reason` of tool calls is `end_turn`.",
    "parallel-tools", "?", _reasons(tool_use="end_turn"),
)  # fmt: skip
_plant(
    "anthropic-cut-end", ANTHROPIC, "The `stop_reason` of an answer that was cut off is `end_turn`.",
    "cut", "?", _reasons(max_tokens="end_turn"),
)  # fmt: skip
_plant(
    "anthropic-no-choice", ANTHROPIC, "`tool_choice` is ignored.",
    "forced-tool", "?", forgets("tool_choice"),
)  # fmt: skip
_plant(
    "anthropic-any-key", ANTHROPIC, "A wrong key is accepted.",
    "wrong-key", "?", _any_key,
)  # fmt: skip
_plant(
    "anthropic-error-openai", ANTHROPIC, "Errors have the form of OpenAI's.",
    "bad-request", "?", on_error(400, 401, change=with_body(_OPENAI_ERROR)),
)  # fmt: skip

# -- Gemini


def _gemini_text(event: Json) -> tuple[Json, str] | None:
    """The text of an answer, which does not end here."""
    for candidate in event.get("candidates", ()):
        part = candidate["content"]["parts"][0]
        if part.get("text") and "thought" not in part and "finishReason" not in candidate:
            return part, "text"
    return None


def _as_array(_: DemoRequest, reply: DemoReply) -> DemoReply:
    """A JSON array in the place of server-sent events."""
    if not is_stream(reply):
        return reply
    chunks = [parsed(step.take())[1] for step in reply.steps]
    return whole(json.dumps(chunks).encode(), JSON_HEADERS)


_plant(
    "gemini-no-finish", GEMINI, "No candidate has a `finishReason`.",
    "text", "GE008", everywhere(removed("finishReason")),
)  # fmt: skip
_plant(
    "gemini-no-usage", GEMINI, "`usageMetadata` is missing.",
    "text", "GE009", everywhere(removed("usageMetadata")),
)  # fmt: skip
_plant(
    "gemini-done", GEMINI, "There is a `data: [DONE]`.",
    "text", "GE004", streamed(lambda steps: [*steps, Step(0.0, b"data: [DONE]\r\n\r\n")]),
)  # fmt: skip
_plant(
    "gemini-comments", GEMINI, "A keep-alive is sent as a comment.",
    "text", "GE002", streamed(lambda steps: [Step(0.0, b": keep-alive\r\n\r\n"), *steps]),
)  # fmt: skip
_plant(
    "gemini-array", GEMINI, "A stream of events is requested, and a JSON array comes.",
    "text", "PR011", answered(_as_array),
)  # fmt: skip
_plant(
    "gemini-one-chunk", GEMINI, "The text comes in one chunk, at the end.",
    "text", "?", streamed(together(_gemini_text)),
)  # fmt: skip
_plant(
    "gemini-args-text", GEMINI, "The arguments of a function are a text in place of an object.",
    "parallel-tools", "GE011", everywhere(each("args", json.dumps)),
)  # fmt: skip
_plant(
    "gemini-thoughts-aloud", GEMINI, "Thoughts are not marked, and so a part of the answer.",
    "reasoning", "?", everywhere(removed("thought")),
)  # fmt: skip
_plant(
    "gemini-cut-stop", GEMINI, "The `finishReason` of an answer that was cut off is `STOP`.",
    "cut", "?", everywhere(each("finishReason", lambda _: "STOP")),
)  # fmt: skip
_plant(
    "gemini-no-schema", GEMINI, "The schema of the answer is ignored.",
    "structured-output", "?",
    both(forgets("generationConfig", "responseJsonSchema"), forgets("generationConfig", "responseSchema")),
)  # fmt: skip
_plant(
    "gemini-any-key", GEMINI, "A wrong key is accepted.",
    "wrong-key", "?", _any_key,
)  # fmt: skip
_plant(
    "gemini-error-openai", GEMINI, "Errors have the form of OpenAI's.",
    "bad-request", "?", on_error(400, 401, change=with_body(_OPENAI_ERROR)),
)  # fmt: skip


def _zeroed(event: Json) -> None:
    """Set all counts of tokens to 0."""
    for found in list(objects(event)):
        for name, value in found.items():
            if name.endswith(("tokens", "TokenCount")) and isinstance(value, int):
                found[name] = 0


BY_NAME: Mapping[str, PlantedFault] = {fault.name: fault for fault in FAULTS}
PLANTED: Mapping[str, Any] = {fault.name: fault.planted for fault in FAULTS}
