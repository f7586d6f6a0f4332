"""The rules of Anthropic Messages for the events in chunks of InvokeModel, and the one about chunks:
judged by what AnthropicBedrock makes of the same bytes.
"""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import anthropic
import pytest
from pydantic import TypeAdapter, ValidationError

from tests.support.aws_messages import aws_event, aws_message
from tests.support.bedrock import EVENTS, KIND, MODEL, QUESTION, anthropic_bedrock, chunk
from tests.support.http_server import Handler, listening
from tests.support.planted_fields import Judged, compared
from tests.support.recordings import Json, Mutation, Reply, assert_only, broken
from tests.support.tables import table
from tests.unit.lint import test_anthropic

WORD = test_anthropic.WORD
GOOD = test_anthropic.GOOD._replace(
    encoding=chunk,
    target=f"/model/{MODEL}/invoke-with-response-stream",
    headers=(("content-type", KIND),),
)
TEXT = {"bytes": base64.b64encode(json.dumps(GOOD.events[WORD]).encode()).decode()}


def exception(name: str) -> bytes:
    headers = {":exception-type": name, ":message-type": "exception"}
    return aws_message(headers, b'{"message":"Slow down."}')


def told(message: bytes) -> Reply:
    """The good reply with another message in the place of a text."""
    return GOOD.without(WORD).put(WORD, message)


MUTATIONS = [
    Mutation("BI001", "no chunk", told(aws_event("chunk", GOOD.events[WORD]))),
    Mutation("BI001", "another type", told(aws_event("content_block_delta", TEXT))),
    Mutation("BI001", "no type", told(aws_message({}, json.dumps(TEXT).encode()))),
]
GOODS = {
    "as it should be": GOOD,
    "an exception": GOOD.put(WORD, exception("throttlingException")).without(
        *range(WORD + 1, len(GOOD.events) + 1)
    ),
}


@table(
    ("rule", "reply"),
    [
        ("AN003", told(aws_event("chunk", {"p": "abc"}))),
        ("AN007", GOOD.without("message_stop")),
        ("AN025", told(chunk({"type": "error"})).without(*range(WORD + 1, len(GOOD.events)))),
        ("ST002", told(aws_event("chunk", {"bytes": base64.b64encode(b"Zur").decode()}))),
    ],
)
def test_the_events_in_chunks_are_judged_by_the_rules_of_their_format(
    rule: str, reply: Reply
) -> None:
    assert_only(rule, reply)


# -- any one field wrong, of an event and of the message that it comes in

WRAPPED: list[Json] = [{":event-type": "chunk", "bytes": event, "p": "abc"} for event in EVENTS]


def message(wrapped: Json) -> bytes:
    """Encode a message of AWS: a member without a value is left out."""
    members = {name: value for name, value in wrapped.items() if name != ":event-type"}
    if isinstance(members.get("bytes"), dict):
        event = json.dumps(members["bytes"]).encode()
        members["bytes"] = base64.b64encode(event).decode()
    type = wrapped.get(":event-type")
    headers = {":message-type": "event", **({} if type is None else {":event-type": str(type)})}
    return aws_message(headers, json.dumps(members).encode())


EVENT: TypeAdapter[Any] = TypeAdapter(anthropic.types.RawMessageStreamEvent)


def is_declared(wrapped: Json) -> bool:
    try:
        EVENT.validate_python(wrapped["bytes"])
    except (KeyError, ValidationError):
        return False
    return wrapped.get(":event-type") == "chunk"


@pytest.fixture
def answers() -> Iterator[tuple[str, list[bytes]]]:
    """A server that answers with the last of the bodies."""
    bodies = [b""]

    class Bedrock(Handler):
        def do_POST(self) -> None:
            self.given()
            self.answer(KIND, bodies[-1])

    with listening(Bedrock) as url:
        yield url, bodies


@pytest.mark.long
def test_a_wrong_field_that_stops_the_sdk_is_found_and_one_that_it_takes_is_none(
    answers: tuple[str, list[bytes]],
) -> None:
    url, bodies = answers

    def judged(events: Sequence[Json]) -> Judged:
        bodies[:] = [b"".join(map(message, events))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with client.messages.stream(model=MODEL, **QUESTION) as stream:
                    said = stream.get_final_message().to_dict()
            except Exception as error:
                # whatever it raises: botocore, base64, json and pydantic each have their own
                return Judged(None, error, False)
        return Judged(said, None, all(map(is_declared, events)))

    def found(events: Sequence[Json]) -> list[str]:
        return broken(GOOD._replace(events=tuple(events), encoding=message), "anthropic")

    with anthropic_bedrock(url) as client:
        told = compared(WRAPPED, judged, found)
    assert (told.missed, told.false) == ([], [])
    # of a block that begins, Anthropic leaves it out
    assert [each for each in told.undeclared if "content_block.signature" not in each] == []
    assert told.stopped >= 60
