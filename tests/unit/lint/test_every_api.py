"""What holds for the rules of every API: each is broken by one change to a good reply, and nothing
else is.
"""

from __future__ import annotations

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.lint.linter import PROFILES, RULES, lint
from recorder.wire.dialects.declared import DECLARED
from recorder.wire.recording import recording_of
from tests.support.planted_fields import paths, set_at
from tests.support.recordings import (
    Json,
    Mutation,
    Reply,
    assert_clean,
    assert_only,
    broken,
    crlf,
    named,
    recorded,
    unnamed,
)
from tests.support.tables import table
from tests.unit.lint import (
    test_a2a,
    test_acp,
    test_ag_ui,
    test_anthropic,
    test_anthropic_sessions,
    test_bedrock_converse,
    test_bedrock_invoke,
    test_gemini,
    test_gemini_interactions,
    test_gemini_live,
    test_lint,
    test_mcp,
    test_ollama,
    test_openai_agents,
    test_openai_chat,
    test_openai_realtime,
    test_openai_responses,
    test_stream_json,
    test_ui_messages,
)

MUTATIONS: list[Mutation] = [
    *test_lint.MUTATIONS,
    *test_openai_responses.MUTATIONS,
    *test_openai_chat.MUTATIONS,
    *test_anthropic.MUTATIONS,
    *test_anthropic_sessions.MUTATIONS,
    *test_gemini.MUTATIONS,
    *test_gemini_interactions.MUTATIONS,
    *test_ollama.MUTATIONS,
    *test_mcp.MUTATIONS,
    *test_acp.MUTATIONS,
    *test_stream_json.MUTATIONS,
    *test_a2a.MUTATIONS,
    *test_bedrock_converse.MUTATIONS,
    *test_bedrock_invoke.MUTATIONS,
    *test_openai_agents.MUTATIONS,
    *test_ui_messages.MUTATIONS,
    *test_ag_ui.MUTATIONS,
]


def error_of_anthropic() -> Reply:
    body = msgspec.json.encode(test_anthropic.ERROR)
    return test_anthropic.GOOD._replace(status=529, body=body).headed(
        "content-type", "application/json"
    )


CLEAN: list[tuple[str, Reply]] = [
    *test_openai_responses.GOODS.items(),
    *test_openai_chat.GOODS.items(),
    *test_anthropic.GOODS.items(),
    *test_anthropic_sessions.GOODS.items(),
    *test_gemini.GOODS.items(),
    *test_gemini_interactions.GOODS.items(),
    *test_ollama.GOODS.items(),
    *test_mcp.GOODS.items(),
    *test_acp.GOODS.items(),
    *test_stream_json.GOODS.items(),
    *test_a2a.GOODS.items(),
    *test_bedrock_converse.GOODS.items(),
    *test_bedrock_invoke.GOODS.items(),
    *test_openai_agents.GOODS.items(),
    *test_ui_messages.GOODS.items(),
    *test_ag_ui.GOODS.items(),
    ("an error in place of a stream", test_gemini.GOOD._replace(status=503, body=test_gemini.BARE)),
    ("an error in place of a stream", error_of_anthropic()),
]
GOOD: dict[str, Reply] = {
    "openai-responses": test_openai_responses.GOOD,
    "openai-chat": test_openai_chat.GOOD,
    "anthropic": test_anthropic.GOOD,
    "anthropic-sessions": test_anthropic_sessions.GOOD,
    "gemini": test_gemini.GOOD,
    "gemini-interactions": test_gemini_interactions.GOOD,
    "ollama": test_ollama.GOOD,
    "mcp": test_mcp.CALL,
    "acp": test_acp.GOOD,
    "stream-json": test_stream_json.GOOD,
    "a2a": test_a2a.OLD,
    "bedrock-converse": test_bedrock_converse.GOOD,
    "bedrock-invoke": test_bedrock_invoke.GOOD,
    "openai-agents": test_openai_agents.GOOD,
    "ui-messages": test_ui_messages.GOOD,
    "ag-ui": test_ag_ui.GOOD,
}


@pytest.mark.long
@table("mutation", MUTATIONS)
def test_a_fault_is_named_by_its_rule_alone(mutation: Mutation) -> None:
    assert_only(mutation.rule, mutation.reply)


def test_every_rule_has_a_mutation() -> None:
    # which are no replies
    of_live_turns = (*test_gemini_live.MUTATIONS, *test_openai_realtime.MUTATIONS)
    broken_ones = {mutation.rule for mutation in MUTATIONS} | {rule for rule, _, _ in of_live_turns}
    # A declaration is judged in tests/integration/commands/test_declared_dialect.py, beside the
    # file that it stands in.
    of_formats = {rule.id for rule in RULES if DECLARED not in rule.profiles}
    assert broken_ones == of_formats, "a rule has a stream that breaks it in `MUTATIONS`"


@table(("says", "reply"), CLEAN)
def test_what_is_right_breaks_no_rule(says: str, reply: Reply) -> None:
    assert_clean(reply)


MESSAGES, GEMINI, CHAT = test_anthropic, test_gemini, test_openai_chat


@table(
    ("reply", "rules"),
    [
        (MESSAGES.GOOD.put(MESSAGES.WORD, b"event: content_block_delta\ndata: {\n\n"), ["ST002"]),
        (GEMINI.GOOD.put(GEMINI.TEXT, b"data: {\r\n\r\n"), ["ST002"]),
        (
            GEMINI.told(GEMINI.THOUGHT, b"\xef\xbb\xbf" + crlf(GEMINI.chunk({"text": "x"}))),
            ["ST004"],
        ),
        (MESSAGES.told(MESSAGES.STOP, named({"type": "message_stop"})[:-1]), ["ST006"]),
        (CHAT.told(CHAT.USAGE, unnamed(CHAT.usage())[:-1]).without(CHAT.END), ["ST006", "CH001"]),
        (CHAT.told(CHAT.END, b"data: [DONE]"), []),  # the SDKs lose nothing with it
        (
            CHAT.GOOD.without(*range(CHAT.ARGUMENTS, CHAT.END + 1))._replace(
                outcome="upstream_reset"
            ),
            ["CH011"],
        ),
    ],
)
def test_what_breaks_a_rule_of_all_streams_breaks_none_of_an_api(
    reply: Reply, rules: list[str]
) -> None:
    assert broken(reply) == rules


@table("reply", GOOD.values())
def test_what_the_recorder_lost_is_no_fault(reply: Reply) -> None:
    exchange, events = recorded(reply)
    frames = [number for number, event in enumerate(events) if event.kind == "frame"]
    for number in frames:
        gap = msgspec.structs.replace(events[number], kind="gap", raw=b'{"of": "response"}')
        assert lint(recording_of(exchange, [*events[:number], gap, *events[number + 1 :]])) == []


ANY_VALUE = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
)


@pytest.mark.long
@pytest.mark.parametrize("api", GOOD)
@given(data=st.data())
def test_no_value_anywhere_makes_a_rule_raise(api: str, data: st.DataObject) -> None:
    reply = GOOD[api]
    numbers = [number for number, event in enumerate(reply.events) if isinstance(event, dict)]
    number = data.draw(st.sampled_from(numbers))
    path = data.draw(st.sampled_from(list(paths(reply.events[number]))))
    names = [key for key in path if isinstance(key, str)]
    objects = st.dictionaries(st.sampled_from([*names, "error", "x"]), ANY_VALUE, max_size=3)
    value = data.draw(ANY_VALUE | objects | st.lists(ANY_VALUE | objects, max_size=2))
    exchange, events = recorded(reply.edited(number, lambda event: set_at(event, path, value)))
    for profile in PROFILES:
        lint(recording_of(exchange, events), profile)


@pytest.mark.slow
@pytest.mark.timed
@table(
    ("reply", "at", "delta"),
    [
        (test_openai_chat.GOOD, test_openai_chat.TEXT, test_openai_chat.chunk({"content": "x"})),
        (test_anthropic.GOOD, test_anthropic.WORD, test_anthropic.delta(1, "text_delta", text="x")),
        (test_gemini.GOOD, test_gemini.TEXT, test_gemini.chunk({"text": "x"})),
    ],
)
def test_a_long_stream_is_judged_in_seconds(reply: Reply, at: int, delta: Json) -> None:
    exchange, events = recorded(reply.put(at, *[delta] * 100_000))
    began = time.process_time()
    assert lint(recording_of(exchange, events)) == []
    assert time.process_time() - began < 10
