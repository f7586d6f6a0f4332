"""What a gateway can do wrong, in general: the pieces that the faults of `tests.support.probe.faults` are made of.

An edit takes an event (or a document) and changes it in place; it returns False to drop the event. Edits walk through
all that an event holds, so that one edit changes a delta, the item that it belongs to and the final response alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from recorder.probe.cases import WRONG_KEY
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
    """Read a table of name, cases, rules and what the gateway does, for faults that are planted under their names."""
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
    return answered(lambda _, reply: replace(reply, steps=change(reply.steps)) if is_stream(reply) else reply)


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
    return answered(lambda request, reply: change(request, reply) if reply.status in statuses else reply)


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
    """What stands before the data of an event, the data, what stands behind; no data if it is not a JSON object."""
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
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(inner)


def each(name: str, change: Callable[[Any], Any], *, of: Callable[[Json], bool] = lambda _: True) -> Edit:
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
    """With neighbouring deltas of one kind in one event: the object in an event that has the text, and its name."""

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
        return replace(reply, headers=(*(each for each in reply.headers if each[0] != name), (name, value)))

    return change


HTML = b"<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>"
HTML_HEADERS: Headers = (("content-type", "text/html"), ("server", "nginx"))
JSON_HEADERS: Headers = (("content-type", "application/json"),)
STREAM_HEADERS: Headers = (("content-type", "text/event-stream"),)
OPENAI_ERROR = {"error": {"message": "Bad Request", "type": "invalid_request_error", "param": None, "code": "400"}}


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
    return ask(replace(request, headers=headers, target=request.target.replace(WRONG_KEY, "sk-good")))


def ended(text: str) -> str:
    """Less the brace at its end: arguments of the demo are objects without objects in them."""
    return text.removesuffix("}")


def encoded(text: str) -> str:
    """A piece of JSON as a piece of a JSON string: arguments of the demo are objects without objects in them."""
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
