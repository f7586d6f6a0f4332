"""What gateways do wrong: faults that were seen in gateways, planted in the answers of the demo
upstream.

First the pieces that they are made of. An edit takes an event (or a document) and changes it in
place; it returns False to drop the event. Edits walk through all that an event holds, so that one
edit changes a delta, the item that it belongs to and the final response alike.

Then a table for each API. A row names the cases of the probe that must see the fault, and the rules
that are among the findings of these cases. `tests.integration.probe.test_faults` sends the cases to
each; `make docs` makes a table of them.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

from recorder.probe.cases import WRONG_KEY
from recorder.wire.framing import AWS_EVENT_STREAM, aws_event_stream
from tests.support.probe.gateway import Ask, Planted
from tests.support.provider.play import compact
from tests.support.provider.reply import DemoReply, DemoRequest, Headers, Step, whole

Json = dict[str, Any]
Edit = Callable[[Json], object]
Steps = Iterable[Step]


class PlantedFault(NamedTuple):
    """One way to break an API."""

    name: str  # also of its gateway: the prefix of the path
    says: str  # what the gateway does, one sentence
    cases: str  # of the probe, which must see it
    rules: str  # all of them are found
    planted: Planted


def faults(table: str, planted: Mapping[str, Planted]) -> list[PlantedFault]:
    """Read a table of name, cases, rules and what the gateway does, for faults that are planted
    under their names.
    """
    read = []
    for line in table.splitlines():
        name, cases, rules, says = line.split(" | ")
        read.append(PlantedFault(name, says, cases, rules, planted[name]))
    assert len(read) == len(planted), "a fault is in one of them alone"
    return read


# -- of requests


def asked(change: Edit) -> Planted:
    """A gateway that changes the body of a request on its way."""

    def planted(request: DemoRequest, ask: Ask) -> DemoReply:
        try:
            body = request.json()
        except ValueError:
            return ask(request)
        change(body)
        return ask(replace(request, body=json.dumps(body).encode()))

    return planted


def forgets(*path: str) -> Planted:
    """A gateway that leaves a field of the request out."""

    def forget(body: Json) -> None:
        inner: Any = body
        for name in path[:-1]:
            inner = inner.get(name)
            if not isinstance(inner, dict):
                return
        inner.pop(path[-1], None)

    return asked(forget)


def query_without(name: str) -> Planted:
    """A gateway that leaves a parameter of the query out."""

    def planted(request: DemoRequest, ask: Ask) -> DemoReply:
        path, _, query = request.target.partition("?")
        kept = "&".join(pair for pair in query.split("&") if pair.partition("=")[0] != name)
        return ask(replace(request, target=f"{path}?{kept}"))

    return planted


# -- of answers


def is_stream(reply: DemoReply) -> bool:
    return reply.length is None


def answered(change: Callable[[DemoRequest, DemoReply], DemoReply]) -> Planted:
    """A gateway that changes answers."""
    return lambda request, ask: change(request, ask(request))


def streamed(change: Callable[[Steps], Steps]) -> Planted:
    """A gateway that changes streams, as a whole."""
    return answered(
        lambda _, reply: replace(reply, steps=change(reply.steps)) if is_stream(reply) else reply
    )


def in_stream(edit: Edit) -> Planted:
    """A gateway that edits events."""
    return streamed(lambda steps: _edited(steps, edit))


def in_document(edit: Edit) -> Planted:
    """A gateway that edits documents that are not errors."""

    def change(_: DemoRequest, reply: DemoReply) -> DemoReply:
        if is_stream(reply) or reply.status != 200:
            return reply
        document = json.loads(_content(reply))
        edit(document)
        return whole(compact(document).encode(), reply.headers)

    return answered(change)


def everywhere(edit: Edit) -> Planted:
    """A gateway that edits events and documents alike."""
    return both(in_stream(edit), in_document(edit))


def both(first: Planted, second: Planted) -> Planted:
    """A gateway that does two things wrong, the first one nearer to the demo."""
    return lambda request, ask: second(request, lambda changed: first(changed, ask))


def on_error(*statuses: int, change: Callable[[DemoRequest, DemoReply], DemoReply]) -> Planted:
    """A gateway that changes refusals of these statuses."""
    return answered(
        lambda request, reply: change(request, reply) if reply.status in statuses else reply
    )


def _content(reply: DemoReply) -> bytes:
    return b"".join(step.take() for step in reply.steps)


def _edited(steps: Steps, edit: Edit) -> Iterator[Step]:
    for step in steps:
        frame = step.take()
        before, event, after = parsed(frame)
        if event is None:
            yield Step(step.at_s, frame)
        elif edit(event) is not False:
            yield Step(step.at_s, before + compact(event).encode() + after)


def parsed(frame: bytes) -> tuple[bytes, Json | None, bytes]:
    """What stands before the data of an event, the data, what stands behind; no data if it is not a
    JSON object.
    """
    before, mark, rest = frame.partition(b"data: ")
    data = rest.rstrip(b"\r\n")
    try:
        event = json.loads(data)
    except ValueError:
        return frame, None, b""
    return before + mark, event if isinstance(event, dict) else None, rest[len(data) :]


# -- what an edit does


def objects(value: Any) -> Iterator[Json]:
    """All objects in a value, the outer before the inner."""
    if isinstance(value, dict):
        yield value
    for inner in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from objects(inner)


def each(
    name: str, change: Callable[[Any], Any], *, of: Callable[[Json], bool] = lambda _: True
) -> Edit:
    """An edit of all fields of that name, of the objects that `of` says."""

    def edit(event: Json) -> None:
        for found in list(objects(event)):
            if name in found and of(found):
                found[name] = change(found[name])

    return edit


def removed(name: str, *, of: Callable[[Json], bool] = lambda _: True) -> Edit:
    """An edit that removes all fields of that name."""

    def edit(event: Json) -> None:
        for found in list(objects(event)):
            if name in found and of(found):
                del found[name]

    return edit


def dropped(when: Callable[[Json], bool]) -> Edit:
    """An edit that drops events."""
    return lambda event: not when(event)


def typed(*types: str) -> Callable[[Json], bool]:
    """Whether an object is of one of these types."""
    return lambda found: found.get("type") in types


# -- streams as a whole


def without_last(count: int) -> Callable[[Steps], Steps]:
    """Less the last events."""
    return lambda steps: list(steps)[:-count]


def renumbered(steps: Steps) -> Iterator[Step]:
    """With sequence numbers that are right again."""
    numbers = iter(range(10**6))
    return _edited(steps, each("sequence_number", lambda _: next(numbers)))


def together(text_of: Callable[[Json], tuple[Json, str] | None]) -> Callable[[Steps], Steps]:
    """With neighbouring deltas of one kind in one event: the object in an event that has the text,
    and its name.
    """

    def change(steps: Steps) -> Iterator[Step]:
        held: tuple[bytes, Json, bytes, Json, str] | None = None
        for step in steps:
            frame = step.take()
            before, event, after = parsed(frame)
            found = text_of(event) if event is not None else None
            if event is not None and found is not None and held is not None and held[4] == found[1]:
                held[3][held[4]] += found[0][found[1]]
                continue
            if held is not None:
                yield Step(step.at_s, held[0] + compact(held[1]).encode() + held[2])
            held = None if event is None or found is None else (before, event, after, *found)
            if held is None:
                yield Step(step.at_s, frame)
        if held is not None:
            yield Step(0.0, held[0] + compact(held[1]).encode() + held[2])

    return change


def as_is(change: Callable[[bytes], bytes]) -> Callable[[Steps], Steps]:
    """With other bytes for each event."""
    return lambda steps: [Step(step.at_s, change(step.take())) for step in steps]


# -- errors, and heads


def headed(name: str, value: str) -> Callable[[DemoRequest, DemoReply], DemoReply]:
    """Streams with another header."""

    def change(_: DemoRequest, reply: DemoReply) -> DemoReply:
        if not is_stream(reply):
            return reply
        return replace(
            reply, headers=(*(each for each in reply.headers if each[0] != name), (name, value))
        )

    return change


HTML = b"<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>"
HTML_HEADERS: Headers = (("content-type", "text/html"), ("server", "nginx"))
JSON_HEADERS: Headers = (("content-type", "application/json"),)
STREAM_HEADERS: Headers = (("content-type", "text/event-stream"),)
OPENAI_ERROR = {
    "error": {
        "message": "Bad Request",
        "type": "invalid_request_error",
        "param": None,
        "code": "400",
    }
}


def as_html(_: DemoRequest, reply: DemoReply) -> DemoReply:
    """An error as a page of a proxy."""
    return whole(HTML, HTML_HEADERS, reply.status)


def with_status(status: int) -> Callable[[DemoRequest, DemoReply], DemoReply]:
    """An error under another status."""
    return lambda _, reply: replace(reply, status=status)


def with_body(value: object) -> Callable[[DemoRequest, DemoReply], DemoReply]:
    """An error with another body, of JSON."""
    return lambda _, reply: whole(json.dumps(value).encode(), JSON_HEADERS, reply.status)


def as_frames(*frames: bytes) -> Callable[[DemoRequest, DemoReply], DemoReply]:
    """An error in a stream, under 200, where a stream was asked for."""

    def change(request: DemoRequest, reply: DemoReply) -> DemoReply:
        if "stream" not in request.target and not json.loads(request.body or b"{}").get("stream"):
            return reply
        return DemoReply(200, STREAM_HEADERS, [Step(0.0, frame) for frame in frames])

    return change


# -- what gateways of all APIs do


def any_key(request: DemoRequest, ask: Ask) -> DemoReply:
    """Replace a key that the demo refuses."""
    headers = tuple((name, value.replace(WRONG_KEY, "sk-good")) for name, value in request.headers)
    return ask(
        replace(request, headers=headers, target=request.target.replace(WRONG_KEY, "sk-good"))
    )


def ended(text: str) -> str:
    """Less the brace at its end: arguments of the demo are objects without objects in them."""
    return text.removesuffix("}")


def encoded(text: str) -> str:
    """A piece of JSON as a piece of a JSON string: arguments of the demo are objects without
    objects in them.
    """
    inner = json.dumps(text, ensure_ascii=False)[1:-1]
    return '"' * text.startswith("{") + inner + '"' * text.endswith("}")


def as_document(final: Callable[[list[Json]], Json]) -> Planted:
    """A gateway that answers a stream whole."""

    def change(_: DemoRequest, reply: DemoReply) -> DemoReply:
        if not is_stream(reply):
            return reply
        events = [event for step in reply.steps if (event := parsed(step.take())[1]) is not None]
        return whole(json.dumps(final(events)).encode(), JSON_HEADERS)

    return answered(change)


def zeroed(event: Json) -> None:
    """Set all counts of tokens to 0."""
    for found in list(objects(event)):
        for name, value in found.items():
            if name.endswith(("tokens", "TokenCount")) and isinstance(value, int):
                found[name] = 0


# -- of OpenAI Responses

_ARGUMENTS = typed("function_call", "response.function_call_arguments.done")
_ARGUMENTS_DELTA = typed("response.function_call_arguments.delta")


def _responses_arguments(change: Callable[[str], str]) -> Planted:
    whole_text, delta = (
        each("arguments", change, of=_ARGUMENTS),
        each("delta", change, of=_ARGUMENTS_DELTA),
    )
    return both(everywhere(whole_text), in_stream(delta))


def _responses_delta(event: Json) -> tuple[Json, str] | None:
    return (event, "delta") if event["type"] == "response.output_text.delta" else None


def _without_reasoning(event: Json) -> object:
    """Drop what is reasoning, and move what comes after it to the front."""
    if (
        "reasoning" in str(event.get("type"))
        or (event.get("item") or {}).get("type") == "reasoning"
    ):
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


_RESPONSES = faults(
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
            everywhere(_completed),
            _swapped(b"event: response.incomplete", b"event: response.completed"),
        ),
        "responses-any-key": any_key,
        "responses-error-200": on_error(400, change=with_status(200)),
        "responses-error-500": on_error(400, change=with_status(500)),
        "responses-error-page": on_error(400, 401, change=as_html),
        "responses-resume-from-0": query_without("starting_after"),
        "responses-resume-numbered": streamed(renumbered),
    },
)

# -- of OpenAI Chat Completions


def _is_function(found: Json) -> bool:
    return "arguments" in found


def _chat_delta(event: Json) -> tuple[Json, str] | None:
    choices = event.get("choices") or [{}]
    delta = choices[0].get("delta") or {}
    return (delta, "content") if delta.get("content") else None


def _chat_ids(steps: Steps) -> Steps:
    numbers = count()
    for step in steps:
        yield Step(
            step.at_s,
            re.sub(rb'"id":"chatcmpl-\w+"', b'"id":"chatcmpl-%d"' % next(numbers), step.take()),
        )


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
                call
                for number, call in enumerate(found["tool_calls"])
                if call.get("index", number) == 0
            ]
    return True


def _stopped(reason: str) -> Planted:
    """A gateway with a `finish_reason` of its own for every end."""
    return everywhere(each("finish_reason", lambda was: was and reason))


_CHAT_ERROR = (
    b'data: {"id":"chatcmpl-0","object":"chat.completion.chunk",'
    b'"created":1,"model":"m","choices":[{"index":0,'
)
_CHAT_ERROR += (
    b'"delta":{"role":"assistant","content":"Error: 400 Bad Request"},"finish_reason":"stop"}]}\n\n'
)


_CHAT = faults(
    """\
chat-no-done | text | CH001 | `data: [DONE]` is missing.
chat-no-finish | text | CH011 | The chunk with the `finish_reason` is lost.
chat-content-type | text | HT001 | Streams have the content type `text/plain`.
chat-usage-not-sent | text | CH012 | `stream_options` is ignored: no usage where it was asked for.
chat-usage-zero | text | PR031 | All counts of tokens are 0.
chat-usage-unasked | no-usage | PR034 | Usage is sent where it was not asked for.
chat-ids | text | CH004 | Each chunk has another id.
chat-no-role | text | CH010 | No delta has a role.
chat-one-delta | text | PR021 | The text comes in one delta, at the end.
chat-thinks-aloud | text | PR122 | Reasoning stands in the answer, between `<think>` and `</think>`.
chat-list-delta | text | PR150 | Deltas have a list whose elements have no `index`: the `thinking_blocks` of LiteLLM.
chat-arguments-cut | parallel-tools | PR042 | The arguments of tools lack their end.
chat-arguments-encoded | parallel-tools | PR043 | The arguments of tools are JSON in a JSON string.
chat-arguments-object | parallel-tools | PR014 | The arguments of tools are an object in place of a text.
chat-call-indexes | parallel-tools | CH020 | All tool calls of a stream have the index 0.
chat-one-call | parallel-tools | PR041 | Of parallel calls only the first one is passed on.
chat-calls-stop | parallel-tools | PR015 | The `finish_reason` of tool calls is `stop`.
chat-cut-stop | max-tokens | PR015 | The `finish_reason` of an answer that was cut off is `stop`.
chat-no-limit | max-tokens | PR070 | The limit of tokens is ignored.
chat-n-ignored | choices | PR110 | `n` is ignored.
chat-no-choice | forced-tool | PR050 | `tool_choice` is ignored.
chat-no-schema | structured | PR060 | `response_format` is ignored.
chat-any-key | wrong-key | PR090 | A wrong key is accepted.
chat-error-500 | bad-request | PR081 | A bad request is answered with 500.
chat-error-page | bad-request | PR082 | Errors are HTML pages.
chat-error-text | bad-request | PR080 | An error is a text in a stream with status 200: `data: Error: …`.
chat-error-answer | bad-request | PR080 | An error is the text of an answer.
chat-error-detail | bad-request | PR082 | Errors have a `detail`, as FastAPI makes them, and no `error`.
""",
    {
        "chat-no-done": streamed(as_is(lambda frame: b"" if b"[DONE]" in frame else frame)),
        "chat-no-finish": in_stream(
            dropped(lambda event: any(each["finish_reason"] for each in event.get("choices", ())))
        ),
        "chat-content-type": answered(headed("content-type", "text/plain; charset=utf-8")),
        "chat-usage-not-sent": forgets("stream_options"),
        "chat-usage-zero": everywhere(zeroed),
        "chat-usage-unasked": asked(
            lambda body: body.update(stream_options={"include_usage": True})
        ),
        "chat-ids": streamed(_chat_ids),
        "chat-no-role": in_stream(removed("role")),
        "chat-one-delta": streamed(together(_chat_delta)),
        "chat-thinks-aloud": everywhere(_thinks_aloud),
        "chat-list-delta": in_stream(
            each(
                "delta",
                lambda delta: {
                    **delta,
                    "thinking_blocks": [{"type": "thinking", "thinking": "Hm."}],
                },
            )
        ),
        "chat-arguments-cut": everywhere(each("arguments", ended, of=_is_function)),
        "chat-arguments-encoded": everywhere(each("arguments", encoded, of=_is_function)),
        "chat-arguments-object": in_document(each("arguments", json.loads, of=_is_function)),
        "chat-call-indexes": in_stream(
            each("index", lambda _: 0, of=lambda found: "function" in found)
        ),
        "chat-one-call": everywhere(_first_call_of),
        "chat-calls-stop": _stopped("stop"),
        "chat-cut-stop": _stopped("stop"),
        "chat-no-limit": both(forgets("max_tokens"), forgets("max_completion_tokens")),
        "chat-n-ignored": forgets("n"),
        "chat-no-choice": forgets("tool_choice"),
        "chat-no-schema": forgets("response_format"),
        "chat-any-key": any_key,
        "chat-error-500": on_error(400, change=with_status(500)),
        "chat-error-page": on_error(400, 401, change=as_html),
        "chat-error-text": on_error(
            400, change=as_frames(b"data: Error: 400 Bad Request\n\n", b"data: [DONE]\n\n")
        ),
        "chat-error-answer": on_error(400, change=as_frames(_CHAT_ERROR, b"data: [DONE]\n\n")),
        "chat-error-detail": on_error(400, 401, change=with_body({"detail": "Bad Request"})),
    },
)

# -- of Anthropic Messages


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


_ANTHROPIC = faults(
    """\
anthropic-no-end | text | AN007 | `message_stop` is missing.
anthropic-no-usage | text | AN010 | `message_delta` has no `usage`.
anthropic-usage-zero | text | PR031 | All counts of tokens are 0.
anthropic-no-names | text | AN001 | Events have no `event:` line.
anthropic-indexes | parallel-tools | AN013 | All blocks have the index 0.
anthropic-one-delta | text | PR021 | The text comes in one delta, at the end.
anthropic-no-signature | reasoning | AN020 | Thinking has no signature.
anthropic-no-thinking | reasoning | PR121 | Thinking is left out.
anthropic-input-cut | parallel-tools | AN019 | The input of tools lacks its end.
anthropic-input-text | parallel-tools | PR014 | The input of a tool is a text in place of an object.
anthropic-reasons | text | AN021 | The `stop_reason` is one of OpenAI's: `stop`, `length`, `tool_calls`.
anthropic-calls-end | parallel-tools | PR015 | The `stop_reason` of tool calls is `end_turn`.
anthropic-cut-end | max-tokens | PR015 | The `stop_reason` of an answer that was cut off is `end_turn`.
anthropic-no-choice | forced-tool | PR050 | `tool_choice` is ignored.
anthropic-any-key | wrong-key | PR090 | A wrong key is accepted.
anthropic-error-openai | bad-request | PR082 | Errors have the form of OpenAI's.
""",
    {
        "anthropic-no-end": streamed(without_last(1)),
        "anthropic-no-usage": in_stream(removed("usage", of=typed("message_delta"))),
        "anthropic-usage-zero": everywhere(zeroed),
        "anthropic-no-names": streamed(as_is(lambda frame: re.sub(rb"^event: .*\n", b"", frame))),
        "anthropic-indexes": in_stream(each("index", lambda _: 0)),
        "anthropic-one-delta": streamed(together(_anthropic_delta)),
        "anthropic-no-signature": in_stream(
            dropped(lambda event: (event.get("delta") or {}).get("type") == "signature_delta")
        ),
        "anthropic-no-thinking": everywhere(_without_thinking),
        "anthropic-input-cut": in_stream(each("partial_json", ended)),
        "anthropic-input-text": in_document(each("input", json.dumps, of=typed("tool_use"))),
        "anthropic-reasons": _reasons(end_turn="stop", max_tokens="length", tool_use="tool_calls"),
        "anthropic-calls-end": _reasons(tool_use="end_turn"),
        "anthropic-cut-end": _reasons(max_tokens="end_turn"),
        "anthropic-no-choice": forgets("tool_choice"),
        "anthropic-any-key": any_key,
        "anthropic-error-openai": on_error(400, 401, change=with_body(OPENAI_ERROR)),
    },
)

# -- of Gemini


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


_GEMINI = faults(
    """\
gemini-no-finish | text | GE008 | No candidate has a `finishReason`.
gemini-no-usage | text | GE009 | `usageMetadata` is missing.
gemini-done | text | GE004 | There is a `data: [DONE]`.
gemini-comments | text | GE002 | A keep-alive is sent as a comment.
gemini-array | text | PR011 | A stream of events is requested, and a JSON array comes.
gemini-one-chunk | text | PR021 | The text comes in one chunk, at the end.
gemini-args-text | parallel-tools | GE014 | The arguments of a function are a text in place of an object.
gemini-thoughts-aloud | reasoning | PR121 | Thoughts are not marked, and so a part of the answer.
gemini-cut-stop | max-tokens | PR015 | The `finishReason` of an answer that was cut off is `STOP`.
gemini-no-schema | structured | PR060 | The schema of the answer is ignored.
gemini-any-key | wrong-key | PR090 | A wrong key is accepted.
gemini-error-openai | bad-request | PR082 | Errors have the form of OpenAI's.
""",
    {
        "gemini-no-finish": everywhere(removed("finishReason")),
        "gemini-no-usage": everywhere(removed("usageMetadata")),
        "gemini-done": streamed(lambda steps: [*steps, Step(0.0, b"data: [DONE]\r\n\r\n")]),
        "gemini-comments": streamed(lambda steps: [Step(0.0, b": keep-alive\r\n\r\n"), *steps]),
        "gemini-array": answered(_as_array),
        "gemini-one-chunk": streamed(together(_gemini_text)),
        "gemini-args-text": everywhere(each("args", json.dumps)),
        "gemini-thoughts-aloud": everywhere(removed("thought")),
        "gemini-cut-stop": everywhere(each("finishReason", lambda _: "STOP")),
        "gemini-no-schema": both(
            forgets("generationConfig", "responseJsonSchema"),
            forgets("generationConfig", "responseSchema"),
        ),
        "gemini-any-key": any_key,
        "gemini-error-openai": on_error(400, 401, change=with_body(OPENAI_ERROR)),
    },
)

# -- of Ollama

_OLLAMA = faults(
    """\
ollama-no-end | text | OL004 | The last line of a stream is lost.
ollama-no-limit | max-tokens | PR070 | `num_predict` is ignored.
ollama-no-schema | structured | PR060 | `format` is ignored.
ollama-arguments-text | parallel-tools | PR014 PR150 | The arguments of tools are a text in place of an object.
ollama-whole-for-stream | text | PR011 | A stream is requested, and a document comes.
ollama-any-key | wrong-key | PR090 | A wrong key is accepted.
ollama-error-openai | bad-request | PR082 | Errors have the form of OpenAI's.
""",
    {
        "ollama-no-end": streamed(without_last(1)),
        "ollama-no-limit": forgets("options", "num_predict"),
        "ollama-no-schema": forgets("format"),
        "ollama-arguments-text": in_document(each("arguments", json.dumps)),
        "ollama-whole-for-stream": asked(lambda body: body.update(stream=False)),
        "ollama-any-key": any_key,
        "ollama-error-openai": on_error(400, 401, change=with_body(OPENAI_ERROR)),
    },
)

# -- of Bedrock's Converse


def in_messages(edit: Edit) -> Planted:
    """A gateway that edits the payloads of a binary stream."""

    def edited(message: bytes) -> bytes:
        fields = AWS_EVENT_STREAM.fields(message)
        event = json.loads(fields.data or b"{}")
        edit(event)
        return AWS_EVENT_STREAM.with_data(message, fields, compact(event).encode())

    return streamed(as_is(edited))


_CONVERSE = faults(
    """\
converse-no-counts | text | BR006 PR030 | The last event of a stream, `metadata`, is lost.
converse-checksum | text | ST011 PR150 | The messages have a wrong checksum.
converse-delta | text | BR002 PR150 | Deltas have a second member.
converse-input-text | parallel-tools | PR014 | The input of a tool is a text in place of an object.
converse-no-choice | forced-tool | PR050 | `toolChoice` is ignored.
converse-no-limit | max-tokens | PR070 | `maxTokens` is ignored.
converse-any-key | wrong-key | PR090 | A wrong key is accepted.
converse-error-openai | bad-request | PR082 | Errors have the form of OpenAI's.
""",
    {
        "converse-no-counts": streamed(without_last(1)),
        "converse-checksum": streamed(as_is(lambda message: message[:-4] + b"none")),
        "converse-delta": in_messages(each("delta", lambda delta: {**delta, "index": 0})),
        "converse-input-text": in_document(
            each("input", json.dumps, of=lambda found: "toolUseId" in found)
        ),
        "converse-no-choice": forgets("toolConfig", "toolChoice"),
        "converse-no-limit": forgets("inferenceConfig", "maxTokens"),
        "converse-any-key": any_key,
        "converse-error-openai": on_error(400, 401, change=with_body(OPENAI_ERROR)),
    },
)

# -- of Bedrock's InvokeModel


def _unwrapped(message: bytes) -> bytes:
    """An event as it is, in no chunk."""
    event = json.loads(AWS_EVENT_STREAM.fields(message).data or b"{}")
    return aws_event_stream.event("chunk", b64decode(event["bytes"]))


_INVOKE = faults(
    """\
invoke-no-stop | text | AN007 | The last event of a stream is lost.
invoke-no-chunk | text | BI001 PR150 | Events come in no chunk.
invoke-text | text | AN003 PR150 | Events are texts in place of base64.
invoke-no-choice | forced-tool | PR050 | `tool_choice` is ignored.
invoke-no-limit | max-tokens | PR070 | `max_tokens` is ignored.
invoke-any-key | wrong-key | PR090 | A wrong key is accepted.
invoke-error-openai | bad-request | PR082 | Errors have the form of OpenAI's.
""",
    {
        "invoke-no-stop": streamed(without_last(1)),
        "invoke-no-chunk": streamed(as_is(_unwrapped)),
        "invoke-text": in_messages(each("bytes", lambda encoded: b64decode(encoded).decode())),
        "invoke-no-choice": forgets("tool_choice"),
        "invoke-no-limit": forgets("max_tokens"),
        "invoke-any-key": any_key,
        "invoke-error-openai": on_error(400, 401, change=with_body(OPENAI_ERROR)),
    },
)

FAULTS: Mapping[str, Sequence[PlantedFault]] = {
    "openai-responses": _RESPONSES,
    "openai-chat": _CHAT,
    "anthropic": _ANTHROPIC,
    "gemini": _GEMINI,
    "ollama": _OLLAMA,
    "bedrock-converse": _CONVERSE,
    "bedrock-invoke": _INVOKE,
}
"""By the API that they break."""

PLANTED: Mapping[str, Planted] = {
    fault.name: fault.planted for rows in FAULTS.values() for fault in rows
}
