"""What rules say of openai-python is what it does with a broken stream, where it is not that it
raises at once.
"""

from __future__ import annotations

from typing import Any

import pytest

from recorder.lint.rule import Profile
from tests.support.recordings import Mutation, Reply, broken, the_rule
from tests.support.sdks import BASE, answering, openai_client
from tests.support.tables import table
from tests.unit.lint.test_lint import MUTATIONS as OF_STREAMS
from tests.unit.lint.test_openai_responses import COMPLETED, GOOD, but, less
from tests.unit.lint.test_openai_responses import MUTATIONS as OF_RESPONSES

SDK: Profile = "sdk"


def accumulated(reply: Reply, **options: Any) -> str:
    """The text of the final response, as `responses.stream` gives it."""
    text: str = final(reply, **options).output_text
    return text


def final(reply: Reply, **options: Any) -> Any:
    """The final response, as `responses.stream` gives it."""
    http = answering(b"".join(reply.blocks()), reply.status)
    asked: dict[str, Any] = options or {"model": "m", "input": "x"}
    with (
        openai_client(BASE, http_client=http) as client,
        client.responses.stream(**asked) as stream,
    ):
        return stream.get_final_response()


def mutated(rule: str, says: str) -> Reply:
    [found] = [
        each for each in (*OF_RESPONSES, *OF_STREAMS) if (each.rule, each.says) == (rule, says)
    ]
    return found.reply


@pytest.mark.long
def test_the_sdk_minds_a_message_without_content() -> None:
    with pytest.raises(AttributeError):
        accumulated(but(9, lambda event: event["item"].pop("content")))
    assert "AttributeError on a message without `content`" in the_rule("RS023").why


def test_a_program_that_reads_details_of_usage_fails_where_there_are_none() -> None:
    usage = final(but(COMPLETED, less("response", "usage", "input_tokens_details"))).usage
    with pytest.raises(
        AttributeError, match="'NoneType' object has no attribute 'cached_tokens'"
    ) as raised:
        _ = usage.input_tokens_details.cached_tokens
    assert f"“{raised.value}”" in the_rule("RS055").why


def test_the_sdk_cannot_resume_without_numbers() -> None:
    resuming = {"response_id": "resp_1", "starting_after": 3}
    with pytest.raises(TypeError):
        accumulated(mutated("RS010", "no event has a number"), **resuming)


def test_without_output_the_sdk_has_no_text() -> None:
    assert accumulated(GOOD) == "Hello world"
    assert accumulated(mutated("RS043", "no output")) == ""


TOLERATED = [each for each in OF_RESPONSES if the_rule(each.rule).profiles == {"openai"}]


# the SDK's own, at a value of another kind
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@table("mutation", TOLERATED)
def test_what_the_profile_allows_the_sdk_reads(mutation: Mutation) -> None:
    assert broken(mutation.reply, SDK) == []
    assert accumulated(mutation.reply) == "Hello world"
