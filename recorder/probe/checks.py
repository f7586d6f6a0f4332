"""The checks of a probe: functions from an answer to the faults in it, each by the id of a rule in
`rules`. Pure.

A check of what a good answer contains finds nothing in one that is none: `answers` reports that
alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Concatenate, ParamSpec

from recorder.lint.faults import misfit, shown
from recorder.lint.rule import Hit
from recorder.lint.shape import Shapes
from recorder.model.events import WHOLE
from recorder.model.text import counted
from recorder.probe.answer import ProbeAnswer
from recorder.probe.schema import CITY, TOOL, WEATHER, misfits
from recorder.wire.dialects.json_values import decoded, object_, objects, objects_in
from recorder.wire.framing.json_array import begins_array

Fault = tuple[str, str | Hit]
"""The id of a rule, and what breaks it: a text on the answer as a whole, or a hit that is about one
event.
"""

Check = Callable[[ProbeAnswer], Iterable[Fault]]
"""An expectation of a case."""

# characters of a text that comes in more than one delta: a model writes some five a token
TEXT_LEAST = 80
FEW = 3  # events, which may well be written at once
BUFFERED_S = 1.0  # that an answer takes which could have been sent in pieces meanwhile
# of the input tokens, by which two counts of one request may differ: some gateways estimate
INPUT_SHARE = 0.1
INPUT_SLACK = 16  # tokens that they may differ by besides
# tokens over the limit: some providers count the end of a turn, or finish a character
OUTPUT_SLACK = 16
_THOUGHT = re.compile(r"</?(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
SHOWN = 200  # characters of a text in a fault

P = ParamSpec("P")


def _of_good(find: Callable[Concatenate[ProbeAnswer, P], Iterable[Fault]]) -> Callable[P, Check]:
    """Return what makes a check of its settings; it finds nothing in an answer that is not a good
    one.
    """

    def with_settings(*args: P.args, **settings: P.kwargs) -> Check:
        return lambda answer: find(answer, *args, **settings) if answer.is_good else ()

    return with_settings


def answers(answer: ProbeAnswer) -> Iterable[Fault]:
    """Yield what is wrong with the head of an answer to a request that has to be answered."""
    is_document = answer.content_type == "application/json" and isinstance(answer.document, dict)
    # which is a stream if nobody asked for events
    is_event_stream = answer.is_stream and not begins_array(answer.body)
    if answer.status >= 300:
        yield "PR010", f"status {answer.status}{_message(answer)}"
    elif answer.is_streamed and not is_event_stream:
        yield "PR011", f"content-type: {answer.content_type or 'none'}"
    elif not answer.is_streamed and answer.is_stream:
        yield "PR012", f"content-type: {answer.content_type}"
    elif not answer.is_streamed and not is_document:
        beginning = " ".join(answer.body[:80].decode("utf-8", "replace").split())
        yield "PR013", f"content-type: {answer.content_type or 'none'}, body: {beginning}"


def accepted(answer: ProbeAnswer) -> Iterable[Fault]:
    """Yield the refusal of what has to be accepted, whatever the answer is."""
    if answer.status >= 300:
        yield "PR010", f"status {answer.status}{_message(answer)}"


@_of_good
def document(answer: ProbeAnswer, shapes: Shapes, kind: str) -> Iterable[Fault]:
    """Check a plain answer against the shape that the API declares for it."""
    if not answer.is_streamed:
        yield from (("PR014", misfit(each)) for each in shapes.misfits(answer.document, kind))


@_of_good
def ends(answer: ProbeAnswer, *reasons: str) -> Iterable[Fault]:
    """Check that the answer ends for one of these reasons."""
    found = answer.summary.finish_reason
    if found not in reasons:
        yield "PR015", f"{found or 'none'} in place of {' or '.join(reasons)}"


def named(answer: ProbeAnswer) -> Iterable[Fault]:
    """Yield an answer that names no model."""
    if answer.is_good and not answer.summary.response_model:
        yield "PR016", ""


def says(answer: ProbeAnswer) -> Iterable[Fault]:
    """Yield an answer without a text; one of several deltas has to come in several."""
    if not answer.is_good:
        return
    if not answer.text.strip():
        yield "PR020", f"the reason to finish is {answer.summary.finish_reason}"
    elif (tag := _THOUGHT.search(answer.text)) is not None:
        yield "PR122", quoted(answer.text[tag.start() :])
    elif answer.is_streamed and len(answer.text) >= TEXT_LEAST and answer.deltas == 1:
        yield "PR021", f"{len(answer.text):,} characters"


def flows(answer: ProbeAnswer) -> Iterable[Fault]:
    """Yield a stream that took its time and came in one read: it was held back until it was
    complete.
    """
    seconds, frames = answer.recording.end_ns / 1e9, len(answer.frames) if answer.is_good else 0
    end = answer.end
    # of one that was left, more than the beginning is not known
    is_whole = end is not None and end.outcome in WHOLE
    if is_whole and len(answer.recording.reads) == 1 and frames > FEW and seconds >= BUFFERED_S:
        yield "PR022", f"{counted(frames, 'event')} after {seconds:.1f} s"


@_of_good
def counts(
    answer: ProbeAnswer, most_tokens: int, *, has_more_in_total: bool = False
) -> Iterable[Fault]:
    """Check the tokens that are reported, for a request that allows so many.

    `has_more_in_total`: the API counts tokens in the total that are neither input nor output.
    """
    usage = answer.usage
    if usage is None:
        yield "PR030", ""
        return
    given, put_out, total = usage.input_tokens, usage.output_tokens, usage.total_tokens
    parts = (given or 0) + (put_out or 0)
    is_sum = total is None or total == parts or (has_more_in_total and total > parts)
    if not given or not put_out or not is_sum:
        yield "PR031", f"input {given}, output {put_out}, total {total}"
    if put_out is not None and put_out > most_tokens + OUTPUT_SLACK:
        yield "PR032", f"{put_out:,} tokens, of {most_tokens:,} that are allowed"
    if answer.twin is not None and _differs(given, answer.twin):
        other = answer.twin.usage.input_tokens if answer.twin.usage else None
        yield "PR033", f"streamed {other}, plain {given}"


def _differs(given: int | None, twin: ProbeAnswer) -> bool:
    other = twin.usage.input_tokens if twin.is_good and twin.usage else None
    if given is None or other is None:
        return False
    return abs(given - other) > INPUT_SLACK + INPUT_SHARE * max(given, other)


def keeps_usage(answer: ProbeAnswer) -> Iterable[Fault]:
    """Yield a chunk with usage and no choices, which was not requested."""
    for frame in answer.frames if answer.is_good else ():
        payload = object_(frame.payload)
        if payload.get("usage") and not payload.get("choices"):
            yield "PR034", Hit(frame.pos, f"usage: {shown(payload['usage'])}")


@_of_good
def calls(answer: ProbeAnswer, least: int = 1, *, has_ids: bool = True) -> Iterable[Fault]:
    """Check that the tool is called so often, with arguments that fit, each time under an id of its
    own.
    """
    found = answer.calls
    if not found:
        yield "PR040", quoted(answer.text)
    elif len(found) < least:
        yield "PR041", f"{counted(len(found), 'call')} in place of {least}"
    if has_ids:
        yield from _ids(answer)
    for call in found:
        if call.name != TOOL:
            yield "PR045", shown(call.name)
        else:
            yield from _arguments(call.arguments)


def _ids(answer: ProbeAnswer) -> Iterable[Fault]:
    ids = [call.call_id for call in answer.calls]
    if not all(ids):
        yield "PR044", "a call has no id"
    given = [each for each in ids if each]
    if len(set(given)) < len(given):
        yield "PR044", f"{given[0]} comes {given.count(given[0])} times"


def _arguments(text: str | None) -> Iterable[Fault]:
    found = _json(text or "")
    if isinstance(found, str) and isinstance(_json(found), dict):
        yield "PR043", quoted(text or "")
    elif not isinstance(found, dict):
        yield "PR042", quoted(text or "") or "there are none"
    else:
        yield from (("PR042", misfit(each)) for each in misfits(found, WEATHER))


@_of_good
def forces(answer: ProbeAnswer) -> Iterable[Fault]:
    """Check that the answer is a call of the tool."""
    names = [call.name for call in answer.calls]
    if TOOL not in names:
        yield "PR050", f"called: {', '.join(map(str, names)) or 'nothing'}; {quoted(answer.text)}"


@_of_good
def fits(answer: ProbeAnswer) -> Iterable[Fault]:
    """Check that the text of the answer is JSON that describes a city."""
    found = _json(answer.text)
    if found is None:
        yield "PR060", quoted(answer.text) or "there is no text"
    else:
        yield from (("PR061", misfit(each)) for each in misfits(found, CITY))


@_of_good
def limits(answer: ProbeAnswer, most_tokens: int, wanted: str) -> Iterable[Fault]:
    """Check that an answer that is too long for its limit is cut there, and says so."""
    usage, reason = answer.usage, answer.summary.finish_reason
    put_out = usage.output_tokens if usage else None
    words = len(answer.text.split())  # each is a token at least
    if (put_out or 0) > most_tokens + OUTPUT_SLACK or words > most_tokens + OUTPUT_SLACK:
        yield (
            "PR070",
            f"{put_out} tokens reported, {counted(words, 'word')}, of {most_tokens} allowed",
        )
    elif reason != wanted:
        yield "PR015", f"{reason or 'none'} in place of {wanted}"


def refuses(shape_of_error: Callable[[Any], str | None]) -> Check:
    """Return the check that a request that makes no sense is refused, with an error of the API's
    form.
    """

    def check(answer: ProbeAnswer) -> Iterable[Fault]:
        if answer.status < 300:
            yield "PR080", f"status {answer.status}{_message(answer)}"
            return
        if answer.status not in (400, 422):
            yield "PR081", f"status {answer.status}{_message(answer)}"
        yield from _error(answer, shape_of_error)

    return check


def locks(statuses: Sequence[int], shape_of_error: Callable[[Any], str | None]) -> Check:
    """Return the check that a wrong key is refused with one of these statuses."""

    def check(answer: ProbeAnswer) -> Iterable[Fault]:
        if answer.status < 300:
            yield "PR090", f"status {answer.status}"
            return
        if answer.status not in statuses:
            yield "PR091", f"status {answer.status}{_message(answer)}"
        yield from _error(answer, shape_of_error)

    return check


def _error(answer: ProbeAnswer, shape_of_error: Callable[[Any], str | None]) -> Iterable[Fault]:
    wrong = shape_of_error(answer.document)
    if wrong is None and answer.content_type != "application/json":
        wrong = "it is JSON by its body only"
    if wrong is not None:
        yield (
            "PR082",
            f"status {answer.status}, content-type {answer.content_type or 'none'}: {wrong}",
        )


@_of_good
def reasons(answer: ProbeAnswer, is_shown: bool) -> Iterable[Fault]:
    """Check that the answer has reasoning: that it counts some, and shows it where the request asks
    so.
    """
    is_there = any(item.kind == "reasoning" for item in answer.items)
    count = answer.usage.reasoning_output_tokens if answer.usage else None
    if not is_there and not count:
        yield "PR120", ""
    elif not is_there and is_shown:
        yield "PR121", f"{counted(count or 0, 'token')} of reasoning"


def signs(answer: ProbeAnswer) -> Iterable[Fault]:
    """Yield a block of thinking without a signature in a plain answer of Anthropic's API; lint
    looks at streams.
    """
    if not answer.is_good or answer.is_streamed:
        return
    for block in objects(object_(answer.document).get("content")):
        if block.get("type") == "thinking" and not block.get("signature"):
            yield "PR123", ""


@_of_good
def chooses(answer: ProbeAnswer, least: int) -> Iterable[Fault]:
    """Check that there are so many choices, each with a text."""
    found = {
        item.output_index or 0 for item in answer.items if item.kind == "message" and item.text
    }
    if len(found) < least:
        yield "PR110", f"{counted(len(found), 'choice')} in place of {least}"


def resumes(answer: ProbeAnswer) -> Iterable[Fault]:
    """Yield a resumed stream that does not go on where the one before it was left."""
    if not answer.is_good or not answer.before:
        return
    ids = (answer.before[-1].summary.last_response_id, answer.summary.last_response_id)
    if all(ids) and ids[0] != ids[1]:
        yield "PR102", f"{ids[1]} in place of {ids[0]}"
        return
    after = answer.exchange.resumes_after
    numbers = [
        each.sequence_number for each in answer.recording.pieces if each.sequence_number is not None
    ]
    if numbers and after is not None and numbers[0] != after + 1:
        yield "PR100", f"the first number is {numbers[0]}, and {after + 1} is the next one"
        return
    known = f"{_streamed_text(answer.before[-1], after)}{_streamed_text(answer)}"
    final = _final_text(answer)
    if final is not None and known != final:
        yield (
            "PR101",
            f"{counted(len(known), 'character')} streamed, {len(final):,} in the response",
        )


def _streamed_text(answer: ProbeAnswer, upto: int | None = None) -> str:
    """Return the deltas of the text, as far as an event of that number."""
    pieces = []
    for frame in answer.frames:
        payload = object_(frame.payload)
        number = payload.get("sequence_number")
        if frame.type == "response.output_text.delta" and (
            upto is None or not isinstance(number, int) or number <= upto
        ):
            pieces.append(str(payload.get("delta") or ""))
    return "".join(pieces)


def _final_text(answer: ProbeAnswer) -> str | None:
    """Return the text of the response in the event that ends it."""
    for frame in reversed(answer.frames):
        if frame.type == "response.completed" and isinstance(frame.payload.get("response"), dict):
            parts = objects_in(objects(frame.payload["response"].get("output")), "content")
            return "".join(
                str(part.get("text") or "") for part in parts if part.get("type") == "output_text"
            )
    return None


def _json(text: str) -> Any:
    try:
        return decoded(text.encode())
    except ValueError:
        return None


def quoted(text: str, limit: int = SHOWN) -> str:
    """Return a text in one line, with so many characters of it at most."""
    words = " ".join(text.split())
    return words if len(words) <= limit else f"{words[:limit]}…"


def _message(answer: ProbeAnswer) -> str:
    """Return the message of an error, for the text of a fault."""
    message = answer.summary.error or answer.body[:SHOWN].decode("utf-8", "replace")
    return f": {quoted(message)}" if message else ""
