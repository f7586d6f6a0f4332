"""What rules say of openai-python is what it does: it is given the broken stream, and says what the rule quotes."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from openai import APIError, OpenAI

from recorder.linting import Profile
from tests.linted import Mutation, Reply, broken, the_rule
from tests.test_lint import MUTATIONS as OF_STREAMS
from tests.test_lint_responses import CALL, COMPLETED, GOOD, but, of_response, said
from tests.test_lint_responses import MUTATIONS as OF_RESPONSES

SDK: Profile = "sdk"


def accumulated(reply: Reply, **options: Any) -> str:
    """The text of the final response, as `responses.stream` gives it."""
    body = b"".join(reply.blocks())

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(reply.status, headers=list(reply.headers), content=body)

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as http:
        client = OpenAI(api_key="none", base_url="http://localhost/v1", http_client=http, max_retries=0)
        asked: dict[str, Any] = options or {"model": "m", "input": "x"}
        with client.responses.stream(**asked) as stream:
            return stream.get_final_response().output_text


def mutated(rule: str, says: str) -> Reply:
    [found] = [each for each in (*OF_RESPONSES, *OF_STREAMS) if (each.rule, each.says) == (rule, says)]
    return found.reply


BROKEN = [
    ("RS001", "no created", "Expected to have received `response.created` before "),
    ("RS002", "no terminal event", "Didn't receive a `response.completed` event."),
    ("RS006", "a response without id", "Lifecycle response identity changed."),
    ("RS007", "another response id", "Lifecycle response identity changed."),
    ("RS025", "another id when done", "Completed output item identity changed."),
    ("RS030", "an item never added", "Received a content event for output index "),
    ("RS031", "added twice", "Duplicate response output index "),
    ("RS035", "no content_part events", "list index out of range"),
    ("RS039", "parts from 1", "list index out of range"),
    ("ST006", "no blank line at the end", "Didn't receive a `response.completed` event."),
]


@pytest.mark.parametrize(("rule", "says", "words"), BROKEN, ids=[f"{rule}-{says}" for rule, says, _ in BROKEN])
def test_the_sdk_says_what_the_rule_quotes(rule: str, says: str, words: str) -> None:
    with pytest.raises((RuntimeError, IndexError)) as raised:
        accumulated(mutated(rule, says))
    assert words in str(raised.value)
    assert words.strip() in the_rule(rule).why
    assert type(raised.value).__name__ in the_rule(rule).why or rule == "ST006"


NAMED = [
    ("ST001", "half a character", "UnicodeDecodeError"),
    ("ST002", "an open quote", "JSONDecodeError"),
    ("ST002", "empty data", "JSONDecodeError"),
    ("ST003", "a name without data", "JSONDecodeError"),
    ("RS023", "a message without content", "AttributeError"),
    ("RS060", "an error without message", "APIError"),
]


@pytest.mark.parametrize(("rule", "says", "error"), NAMED, ids=[f"{rule}-{says}" for rule, says, _ in NAMED])
def test_the_sdk_raises_what_the_rule_names(rule: str, says: str, error: str) -> None:
    reply = mutated(rule, says)
    if rule == "RS023":
        reply = but(9, lambda event: event["item"].pop("content"))
    with pytest.raises((ValueError, AttributeError, APIError)) as raised:
        accumulated(reply)
    assert type(raised.value).__name__ == error
    assert error in the_rule(rule).why


def test_the_sdk_minds_a_call_that_gets_another_id_at_last() -> None:
    with pytest.raises(RuntimeError, match="Completed response output identity changed"):
        accumulated(but(COMPLETED, said("response", "output", 2, "id", "fc_2")))
    assert "Completed response output identity changed." in the_rule("RS044").why


def test_the_sdk_minds_an_item_that_is_never_closed_and_not_in_the_end() -> None:
    reply = mutated("RS032", "never done").edited(COMPLETED, of_response(output=[CALL]))
    with pytest.raises(RuntimeError, match="Cannot complete response with unfinished output items"):
        accumulated(reply)
    assert "Cannot complete response with unfinished output items." in the_rule("RS032").why


def test_the_sdk_cannot_resume_without_numbers() -> None:
    resuming = {"response_id": "resp_1", "starting_after": 3}
    with pytest.raises(TypeError):
        accumulated(mutated("RS010", "no event has a number"), **resuming)


def test_without_output_the_sdk_has_no_text() -> None:
    assert accumulated(GOOD) == "Hello world"
    assert accumulated(mutated("RS043", "no output")) == ""


TOLERATED = [each for each in OF_RESPONSES if the_rule(each.rule).profiles == {"openai"}]


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # the SDK's own, at a value of another kind
@pytest.mark.parametrize("mutation", TOLERATED, ids=lambda each: f"{each.rule}-{each.says}")
def test_what_the_profile_allows_the_sdk_reads(mutation: Mutation) -> None:
    assert broken(mutation.reply, SDK) == []
    assert accumulated(mutation.reply) == "Hello world"
