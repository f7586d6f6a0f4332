"""The class of each cache miss, and the path of what changed: one session of two or three requests
for each.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.projections.digests import packed, unpacked
from recorder.projections.rows import AVOIDABLE
from recorder.recordings.cache import CacheTurn, cache_of_recordings
from recorder.recordings.loader import load_session
from recorder.store.queries.reader import LogReader
from recorder.wire.dialects import by_name
from recorder.wire.dialects.prompt import prompt_of
from tests.support.conversations import Conversation, Conversations
from tests.support.superuser import asked
from tests.support.tables import table

TARGETS = {
    "openai-responses": "/v1/responses",
    "openai-chat": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/gemini-2.5-flash:streamGenerateContent",
}
PROVIDERS = {"anthropic": "anthropic", "gemini": "gemini"}
WORDS = "The rules are long. " * 300
MARK = {"cache_control": {"type": "ephemeral"}}


class Sent(NamedTuple):
    """A request, and the tokens of its prompt that the provider counts and has in its cache."""

    body: dict[str, Any]
    input: int = 3000
    cached: int | None = 0
    at_s: float = 0
    fields: Mapping[str, Any] = MappingProxyType({})


def _reply(api: str, sent: Sent, id: str) -> bytes:
    cached = sent.cached
    usage: dict[str, Any]
    if api == "anthropic":
        usage = {"input_tokens": sent.input - (cached or 0), "output_tokens": 5}
        usage |= {} if cached is None else {"cache_read_input_tokens": cached}
        message = {
            "id": id,
            "model": "claude-sonnet-4-5",
            "type": "message",
            "content": [],
            "usage": usage,
        }
        return f"event: message_start\ndata: {json.dumps({'type': 'message_start', 'message': message})}\n\n".encode()
    if api == "gemini":
        counts = {
            "promptTokenCount": sent.input,
            **({"cachedContentTokenCount": cached} if cached else {}),
        }
        return f"data: {json.dumps({'responseId': id, 'modelVersion': 'g', 'usageMetadata': counts})}\r\n\r\n".encode()
    details = {} if cached is None else {"cached_tokens": cached}
    if api == "openai-chat":
        usage = {
            "prompt_tokens": sent.input,
            "completion_tokens": 5,
            "prompt_tokens_details": details,
        }
        chunk = {
            "id": id,
            "model": "gpt",
            "object": "chat.completion.chunk",
            "choices": [],
            "usage": usage,
        }
        return f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
    usage = {"input_tokens": sent.input, "output_tokens": 5, "input_tokens_details": details}
    response = {"id": id, "model": "gpt-5", "output": [], "status": "completed", "usage": usage}
    return f"data: {json.dumps({'type': 'response.completed', 'response': response})}\n\n".encode()


def turns(path: Path, api: str, *sent: Sent) -> list[CacheTurn]:
    """The turns of a session in a log; in memory they are the same."""
    path.mkdir(exist_ok=True)
    session = Conversations(path / "log.db").session("run")
    for number, each in enumerate(sent, 1):
        kind = {
            "provider": PROVIDERS.get(api, "openai"),
            "api": api,
            "target": TARGETS[api],
            **each.fields,
        }
        session.exchange(
            [_reply(api, each, f"resp_{number}")], body=each.body, at_s=each.at_s, **kind
        )
    found = asyncio.run(_turns(session))
    rows = asked(
        session.database, "SELECT cache_class, path FROM p_prompts_v1 ORDER BY exchange_id"
    )
    assert [(each.row.cache_class, each.row.path) for each in found] == rows
    return found


async def _turns(session: Conversation) -> list[CacheTurn]:
    async with await LogReader.open(session.database) as log:
        return await cache_of_recordings(await load_session(log, "run"))


def last(path: Path, api: str, *sent: Sent) -> tuple[Any, ...]:
    turn = turns(path, api, *sent)[-1]
    return turn.row.cache_class, turn.difference.path if turn.difference else turn.row.path


# -- requests of an agent, in each format


def tools(count: int = 4, name: str = "tool") -> list[dict[str, Any]]:
    return [
        {"type": "function", "name": f"{name}_{n}", "description": f"Does {n}. " * 30}
        for n in range(count)
    ]


def said(turns: int) -> list[dict[str, Any]]:
    """So many questions with their answers, and one more question."""
    pairs = [
        (
            {"role": "user", "content": f"{n}? " * 200},
            {"role": "assistant", "content": f"{n}! " * 200},
        )
        for n in range(turns)
    ]
    return [
        *(each for pair in pairs for each in pair),
        {"role": "user", "content": f"{turns}? " * 200},
    ]


def responses(turns: int, **fields: Any) -> dict[str, Any]:
    return {
        "model": "gpt-5",
        "instructions": WORDS,
        "tools": tools(),
        "input": said(turns),
        **fields,
    }


def chat(turns: int, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": WORDS}, *said(turns)]
    return {"model": "gpt-5", "tools": tools(), "messages": messages, **fields}


def claude(turns: int, **fields: Any) -> dict[str, Any]:
    """The mark is on the last message, as agents have it."""
    *before, end = said(turns)
    marked = {"role": "user", "content": [{"type": "text", "text": end["content"], **MARK}]}
    system = [{"type": "text", "text": WORDS}]
    body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "tools": tools(), "system": system}
    return {**body, "messages": [*before, marked], **fields}


def gemini(turns: int, **fields: Any) -> dict[str, Any]:
    contents = [
        {"role": each["role"], "parts": [{"text": each["content"]}]} for each in said(turns)
    ]
    return {"systemInstruction": {"parts": [{"text": WORDS}]}, "contents": contents, **fields}


AGENTS = {"openai-responses": responses, "openai-chat": chat, "anthropic": claude, "gemini": gemini}
DATED: Mapping[str, tuple[dict[str, Any], str]] = {
    "openai-responses": ({"instructions": f"Monday. {WORDS}"}, "instructions"),
    "openai-chat": (
        {"messages": [{"role": "system", "content": f"Monday. {WORDS}"}, *said(2)]},
        "messages[0].content",
    ),
    "anthropic": ({"system": [{"type": "text", "text": f"Monday. {WORDS}"}]}, "system[0].text"),
    "gemini": (
        {"systemInstruction": {"parts": [{"text": f"Monday. {WORDS}"}]}},
        "systemInstruction.parts[0].text",
    ),
}
OTHER_ORDER = [tools()[n] for n in (0, 2, 1, 3)]


@pytest.mark.parametrize("api", AGENTS)
def test_a_request_that_goes_on_is_a_hit(tmp_path: Path, api: str) -> None:
    agent = AGENTS[api]
    fields: dict[str, Any] = (
        {} if api == "gemini" else {"temperature": 0.5, "metadata": {"id": "2"}}
    )
    assert last(tmp_path, api, Sent(agent(1)), Sent(agent(2, **fields), 3600, 2944, 10)) == (
        "hit",
        None,
    )


@pytest.mark.parametrize("api", AGENTS)
def test_a_date_in_the_system_prompt_is_found(tmp_path: Path, api: str) -> None:
    fields, path = DATED[api]
    first, second = Sent(AGENTS[api](1)), Sent(AGENTS[api](2, **fields), 3600, 0, 10)
    turn = turns(tmp_path, api, first, second)[-1]
    assert turn.difference is not None
    assert (turn.row.cache_class, turn.is_avoidable, turn.difference.path) == (
        "prefix_changed",
        True,
        path,
    )
    assert turn.difference.after.startswith("Monday. The rules")
    assert (turn.difference.before, turn.difference.offset) == (WORDS[:40], 0)


def test_an_old_message_that_changed_is_found_with_what_stands_around_it(tmp_path: Path) -> None:
    body = responses(3)
    body["input"][1] = {"role": "assistant", "content": "0! " * 150 + "[cut]" + "0! " * 40}
    turn = turns(
        tmp_path, "openai-responses", Sent(responses(2), 3400), Sent(body, 3900, 1920, 10)
    )[-1]
    assert turn.difference is not None
    found = turn.difference
    assert (turn.row.cache_class, turn.row.path, found.path) == (
        "prefix_changed",
        "input[1]",
        "input[1].content",
    )
    assert (found.before[:40], found.after[:40]) == (("0! " * 150)[-40:],) * 2
    assert found.after[found.offset :].startswith("[cut]0! ")
    assert 200 < (turn.row.missed_tokens or 0) < 1500


def picture(api: str, seed: str) -> dict[str, Any]:
    data = seed * 15_000
    pictures: dict[str, dict[str, Any]] = {
        "anthropic": {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": data},
        },
        "gemini": {"inlineData": {"mimeType": "image/png", "data": data}},
        "openai-chat": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        "openai-responses": {"type": "input_image", "image_url": f"data:image/png;base64,{data}"},
    }
    return pictures[api]


def result(api: str, seed: str) -> dict[str, Any]:
    text = {"text": f"{seed} result " * 6_000}
    return text if api == "gemini" else {"type": "text", **text}


LISTS = {
    "openai-responses": "input",
    "openai-chat": "messages",
    "anthropic": "messages",
    "gemini": "contents",
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("large", "tokens"), [(picture, 5_000), (result, 30_000)], ids=["picture", "result"]
)
@pytest.mark.parametrize("api", AGENTS)
def test_a_large_part_that_changed_is_found(
    tmp_path: Path, api: str, large: Any, tokens: int
) -> None:
    """A picture that is encoded anew, a result that is cut otherwise: most messages are the same,
    and few bytes.
    """

    def body(turns: int, seed: str) -> dict[str, Any]:
        made = AGENTS[api](turns)
        first = next(each for each in made[LISTS[api]] if each["role"] == "user")
        first["parts" if api == "gemini" else "content"] = [large(api, seed)]
        return made

    sent = Sent(body(3, "abcd"), tokens), Sent(body(4, "efgh"), tokens + 400, 1_920, 10)
    cache_class, path = last(tmp_path, api, *sent)
    assert (cache_class, path.split("[")[0]) == ("prefix_changed", LISTS[api])


@pytest.mark.parametrize("api", AGENTS)
def test_one_question_to_several_system_prompts_has_changed_nothing(
    tmp_path: Path, api: str
) -> None:
    fields, _ = DATED[api]
    if api == "openai-chat":
        fields = {"messages": [{"role": "system", "content": f"Monday. {WORDS}"}, *said(1)]}
    found = last(tmp_path, api, Sent(AGENTS[api](1)), Sent(AGENTS[api](1, **fields), 3000, 0, 10))
    assert found[0] not in AVOIDABLE


@pytest.mark.parametrize("written", ["caf\u00e9 \u4f60 \U0001f600 a/b", "tab\t"])
def test_a_character_is_the_same_as_its_escape(written: str) -> None:
    plain = json.dumps({"model": "m", "input": written}, ensure_ascii=False)
    escaped = (
        json.dumps({"model": "m", "input": written}, indent=1)
        .replace("/", "\\/")
        .replace("\\t", "\\u0009")
    )
    format = by_name("openai-responses").prompt
    assert format is not None
    one, other = (prompt_of(format, "/v1/responses", body.encode()) for body in (plain, escaped))
    assert one is not None
    assert one == other


@pytest.mark.parametrize("api", ["openai-responses", "openai-chat"])
def test_a_window_that_slides_is_a_shortened_history(tmp_path: Path, api: str) -> None:
    name = "input" if api == "openai-responses" else "messages"
    body = AGENTS[api](6)
    head = body[name][:1] if name == "messages" else []
    body[name] = head + body[name][len(head) + 4 :]
    found = last(tmp_path, api, Sent(AGENTS[api](5), 6000), Sent(body, 4000, 1920, 10))
    assert found == ("history_shortened", f"{name}[{len(head)}].content")


def test_a_summary_in_the_place_of_the_history_is_a_shortened_one(tmp_path: Path) -> None:
    thread = {"thread_id": "t"}
    body = responses(0, input=[{"role": "user", "content": "What happened so far: much. " * 60}])
    sent = Sent(responses(5), 6000, fields=thread), Sent(body, 2500, 1920, 10, thread)
    assert last(tmp_path, "openai-responses", *sent) == ("history_shortened", "input[0].content")


def test_a_question_that_is_asked_again_in_other_words_changed_nothing(tmp_path: Path) -> None:
    body = responses(3)
    body["input"][-1] = {"role": "user", "content": "In other words? " * 80}
    assert (
        last(tmp_path, "openai-responses", Sent(responses(3), 4000), Sent(body, 4100, 3840, 10))[0]
        == "hit"
    )


def test_a_sub_agent_with_other_tools_changed_nothing(tmp_path: Path) -> None:
    thread = {"thread_id": "t"}
    other = responses(
        0, tools=tools(3, "own"), input=[{"role": "user", "content": "Look into it. " * 50}]
    )
    sent = Sent(responses(2), fields=thread), Sent(other, 2500, 0, 10, {"thread_id": "u"})
    assert last(tmp_path, "openai-responses", *sent) == ("first", None)


def test_of_equal_beginnings_that_of_the_own_thread_counts_and_else_the_latest(
    tmp_path: Path,
) -> None:
    own, another = {"thread_id": "t"}, {"thread_id": "u"}
    asked_again = [
        Sent(responses(1), at_s=0, fields=own),
        Sent(responses(1), at_s=10, fields=another),
    ]
    going_on = [Sent(responses(2), 3600, 2944, 20, fields) for fields in (own, {"thread_id": "v"})]
    for sent, number in zip(going_on, (1, 2), strict=True):
        found = turns(tmp_path / str(number), "openai-responses", *asked_again, sent)
        assert found[-1].previous_number == number


@pytest.mark.parametrize(
    ("api", "fields", "cache_class", "path"),
    [
        ("openai-responses", {"tools": OTHER_ORDER}, "prefix_changed", "tools[1].name"),
        ("anthropic", {"tools": OTHER_ORDER}, "prefix_changed", "tools[1].name"),
        (
            "openai-responses",
            {"text": {"format": {"type": "json_object"}}},
            "other_parameters",
            "text.format",
        ),
        ("openai-responses", {"prompt_cache_key": "other"}, "other_parameters", "prompt_cache_key"),
        ("openai-chat", {"reasoning_effort": "high"}, "other_parameters", "reasoning_effort"),
        ("anthropic", {"tool_choice": {"type": "any"}}, "other_parameters", "tool_choice"),
        (
            "anthropic",
            {"thinking": {"type": "enabled", "budget_tokens": 4000}},
            "other_parameters",
            "thinking",
        ),
        ("openai-responses", {"tool_choice": "none"}, "provider_miss", None),
        ("openai-chat", {"tool_choice": "none"}, "provider_miss", None),
    ],
)
def test_a_field_that_changed_is_named_where_it_is_of_the_prefix(
    tmp_path: Path, api: str, fields: dict[str, Any], cache_class: str, path: str | None
) -> None:
    sent = Sent(AGENTS[api](1)), Sent(AGENTS[api](2, **fields), 3600, 0, 10)
    assert last(tmp_path, api, *sent) == (cache_class, path)


def test_another_model_has_a_cache_of_its_own(tmp_path: Path) -> None:
    sent = Sent(responses(1)), Sent(responses(2, model="gpt-5-mini"), 3600, 0, 10)
    assert last(tmp_path, "openai-responses", *sent) == ("other_model", "model")
    back = *sent, Sent(responses(3), 4000, 2944, 20)
    assert last(tmp_path / "back", "openai-responses", *back) == ("hit", None)


def test_marks_that_lead_to_nothing_are_named(tmp_path: Path) -> None:
    system = [{"type": "text", "text": WORDS, **MARK}]
    moved = claude(2, system=system)
    moved["messages"][-1]["content"][0].pop("cache_control")
    sent = Sent(claude(1)), Sent(moved, 3600, 0, 10)
    assert last(tmp_path, "anthropic", *sent) == (
        "not_marked",
        "messages[2].content[0].cache_control",
    )


def test_a_conversation_without_marks_is_not_cached(tmp_path: Path) -> None:
    bodies = [claude(1), claude(2)]
    for body in bodies:
        body["messages"][-1]["content"][0].pop("cache_control")
    assert last(tmp_path, "anthropic", Sent(bodies[0]), Sent(bodies[1], 3600, 0, 10)) == (
        "not_marked",
        None,
    )


@pytest.mark.parametrize(("ttl", "expected"), [({}, "lapsed"), ({"ttl": "1h"}, "provider_miss")])
def test_a_mark_says_how_long_a_prefix_is_kept(
    tmp_path: Path, ttl: dict[str, str], expected: str
) -> None:
    first, second = claude(1), claude(2)
    for body in (first, second):
        body["messages"][-1]["content"][0]["cache_control"] = {"type": "ephemeral", **ttl}
    assert last(tmp_path, "anthropic", Sent(first), Sent(second, 3600, 0, 400))[0] == expected


@pytest.mark.parametrize(
    ("cached", "at_s", "expected"),
    [(0, 10, "provider_miss"), (0, 301, "lapsed"), (None, 10, "not_reported"), (2816, 10, "hit")],
)
def test_the_same_beginning_is_judged_by_time_and_count(
    tmp_path: Path, cached: int | None, at_s: float, expected: str
) -> None:
    sent = Sent(responses(1)), Sent(responses(2), 3600, cached, at_s)
    assert last(tmp_path, "openai-responses", *sent) == (expected, None)


@pytest.mark.parametrize("tokens", [57, 900])
def test_of_a_prompt_below_the_minimum_nothing_is_missed(tmp_path: Path, tokens: int) -> None:
    sent = Sent(responses(1), tokens), Sent(responses(2), tokens + 100, 0, 10)
    row = turns(tmp_path, "openai-responses", *sent)[-1].row
    assert (row.cache_class, row.path, row.could_tokens, row.missed_tokens) == (
        "below_minimum",
        None,
        tokens,
        0,
    )


def test_requests_at_once_are_both_the_first(tmp_path: Path) -> None:
    found = turns(tmp_path, "openai-responses", Sent(responses(1)), Sent(responses(1), at_s=0.05))
    assert [each.row.cache_class for each in found] == ["first", "first"]


def test_a_chain_is_resolved(tmp_path: Path) -> None:
    def continuing(id: str, **fields: Any) -> dict[str, Any]:
        return responses(0, previous_response_id=id, **fields)

    found = turns(
        *(tmp_path, "openai-responses"),
        Sent(responses(1), 3000),
        Sent(continuing("resp_1"), 3500, 2944, 10),
        Sent(continuing("resp_2", instructions=f"Monday. {WORDS}"), 4000, 0, 20),
        Sent(continuing("resp_9"), 4500, 0, 30),
        Sent(responses(1) | {"input": [*said(1), *said(3)]}, 5000, 2944, 40),
    )
    assert [(each.row.cache_class, each.row.path, each.previous_number) for each in found] == [
        ("first", None, None),
        ("hit", None, 1),
        ("prefix_changed", "instructions", 2),
        ("not_recorded", None, None),
        ("hit", None, 2),
    ]
    assert [each.row.could_tokens for each in found[:3]] == [None, 3000, found[2].row.could_tokens]


# -- what providers document


def test_a_breakpoint_of_openai_is_no_content(tmp_path: Path) -> None:
    def body(turns: int) -> dict[str, Any]:
        items = [
            {**each, "content": [{"type": "input_text", "text": each["content"]}]}
            for each in said(turns)
        ]
        items[-1]["content"][0]["prompt_cache_breakpoint"] = {"mode": "explicit"}
        return responses(turns, model="gpt-5.6", input=items)

    assert last(tmp_path, "openai-responses", Sent(body(1)), Sent(body(2), 3600, 0, 10)) == (
        "provider_miss",
        None,
    )


@pytest.mark.parametrize(
    ("fields", "cached", "after_s", "expected"),
    [
        ({"model": "gpt-5.5"}, 4096, 10, "hit"),
        ({"model": "gpt-5.4"}, 4096, 10, "provider_miss"),
        ({"model": "gpt-5"}, 0, 1200, "lapsed"),
        ({"model": "gpt-5.6"}, 0, 1200, "provider_miss"),
        ({"model": "gpt-35-turbo"}, 0, 1200, "lapsed"),
        ({"model": "gpt-5", "prompt_cache_retention": "24h"}, 0, 1200, "provider_miss"),
        ({"model": "gpt-5", "prompt_cache_retention": "24h"}, 0, 7200, "lapsed"),
    ],
)
def test_life_time_and_ends_of_prefixes_are_those_of_the_model(
    tmp_path: Path, fields: dict[str, Any], cached: int, after_s: float, expected: str
) -> None:
    sent = Sent(responses(1, **fields), 6000), Sent(responses(2, **fields), 6600, cached, after_s)
    assert last(tmp_path, "openai-responses", *sent) == (expected, None)


@table(
    ("model", "tokens"),
    [
        ("claude-opus-5", 512),
        ("claude-fable-5", 512),
        ("us.anthropic.claude-haiku-5-5-v1:0", 512),
        ("claude-sonnet-5", 1024),
        ("claude-opus-4-8", 1024),
        ("claude-sonnet-4-6", 1024),
        ("claude-opus-4-7", 2048),
        ("claude-3-5-haiku-20241022", 2048),
        ("claude-opus-4-6", 4096),
        ("anthropic/claude-haiku-4.5", 4096),
    ],
)
def test_a_minimum_is_that_of_the_model(model: str, tokens: int) -> None:
    policy = by_name("anthropic").cache
    assert policy is not None
    assert policy.minimum(model) == tokens


PLACES = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(-1, 30_000),
        st.integers(-1, 30_000),
        st.sampled_from([0, 0, 300, 3600]),
    )
)


@given(PLACES)
def test_places_are_read_as_they_were_written(places: list[tuple[int, int, int, int]]) -> None:
    assert [*map(tuple, unpacked(packed(places)))] == places


def test_a_place_that_follows_takes_a_byte() -> None:
    places = [(1, at, block, 0) for at in range(100) for block in range(3)]
    assert len(packed(places)) < len(places) + 10


def test_a_number_is_the_same_whether_a_text_beside_it_has_escapes(tmp_path: Path) -> None:
    """Python writes 1e-06, others 1e-6: a request with an escape is written anew, and its numbers
    are not.
    """
    numbers = {**tools(1)[0], "parameters": {"minimum": 1e-06, "maximum": 12345678901234567890123}}
    going_on = [
        *said(1),
        {"role": "assistant", "content": "\x1b[31m"},
        {"role": "user", "content": "1? " * 200},
    ]
    sent = (
        Sent(responses(1, tools=[numbers])),
        Sent(responses(2, tools=[numbers], input=going_on), 3600, 0, 10),
    )
    assert last(tmp_path, "openai-responses", *sent) == ("provider_miss", None)


def marked(turns: int, system: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """A request of `claude` whose system prompt may have a mark, too."""
    body = claude(turns, **fields)
    body["system"] = [
        {"type": "text", "text": WORDS, **({} if system is None else {"cache_control": system})}
    ]
    return body


HOUR = {"type": "ephemeral", "ttl": "1h"}


@pytest.mark.parametrize(("cached", "expected"), [(2300, "lapsed"), (0, "provider_miss")])
def test_each_mark_keeps_what_ends_there_for_its_own_time(
    tmp_path: Path, cached: int, expected: str
) -> None:
    """After ten minutes: what is marked for an hour is there, and what is marked for five minutes
    is not.
    """
    sent = Sent(marked(3, HOUR), 6000), Sent(marked(4, HOUR), 6600, cached, 600)
    assert last(tmp_path, "anthropic", *sent) == (expected, None)
    edited = marked(4, HOUR)
    edited["messages"][0]["content"] = "Another one. " * 60
    was_changed = last(tmp_path / "edited", "anthropic", sent[0], Sent(edited, 6600, cached, 600))[
        0
    ]
    assert was_changed == ("lapsed" if cached else "prefix_changed")


@pytest.mark.parametrize(
    ("system", "cached", "expected"),
    [(None, 0, "not_marked"), ({"type": "ephemeral"}, 2700, "hit")],
)
def test_what_conversations_share_is_cached_up_to_a_mark(
    tmp_path: Path, system: dict[str, str] | None, cached: int, expected: str
) -> None:
    """Each question begins a conversation, whose only message has a mark of its own."""
    bodies = [marked(0, system) for _ in range(2)]
    for number, body in enumerate(bodies):
        body["messages"][0]["content"][0]["text"] = f"Another question {number}. " * 40
    assert last(tmp_path, "anthropic", Sent(bodies[0]), Sent(bodies[1], 3000, cached, 10)) == (
        expected,
        None,
    )


def test_an_answer_behind_the_last_mark_is_not_missed(tmp_path: Path) -> None:
    """A question is asked in other words: the mark before it is that of an earlier request."""
    bodies = [marked(2) for _ in range(2)]
    for number, body in enumerate(bodies):
        body["messages"][-2]["content"] = "A long answer. " * 600
        body["messages"][-1]["content"][0]["text"] = f"In other words {number}? " * 40
    sent = Sent(marked(1)), Sent(bodies[0], 6000, 2990, 10), Sent(bodies[1], 6000, 2990, 20)
    assert [each.row.cache_class for each in turns(tmp_path, "anthropic", *sent)] == [
        "first",
        "hit",
        "hit",
    ]


@pytest.mark.parametrize("api", ["openai-responses", "openai-chat"])
def test_marks_of_a_gateway_to_another_model_are_no_content(tmp_path: Path, api: str) -> None:
    """They are on the last two messages of a person, and move on with them."""

    def body(turns: int) -> dict[str, Any]:
        made = AGENTS[api](turns)
        kind = "text" if api == "openai-chat" else "input_text"
        asked_for = [each for each in made[LISTS[api]] if each["role"] == "user"]
        for each in asked_for:
            each["content"] = [{"type": kind, "text": each["content"]}]
        for each in asked_for[-2:]:
            each["content"][0] |= MARK
        return made

    assert last(tmp_path, api, Sent(body(4), 5000), Sent(body(5), 5600, 0, 10)) == (
        "provider_miss",
        None,
    )


@pytest.mark.parametrize(
    "model", ["claude-sonnet-4-5", "claude-haiku-5-5"], ids=["without marks", "another model"]
)
def test_what_is_gone_from_the_cache_lapsed_whatever_else_there_is(
    tmp_path: Path, model: str
) -> None:
    first, second = claude(1), claude(2, model=model)
    if model == first["model"]:
        for body in (first, second):
            body["messages"][-1]["content"][0].pop("cache_control")
    assert last(tmp_path, "anthropic", Sent(first), Sent(second, 3600, 0, 400)) == ("lapsed", None)


@pytest.mark.parametrize(
    ("cached", "at_s", "expected"),
    [(0, 600, "lapsed"), (0, 10, "prefix_changed"), (1920, 600, "prefix_changed")],
)
def test_where_not_even_the_beginning_came_the_time_counts(
    tmp_path: Path, cached: int, at_s: float, expected: str
) -> None:
    """Ten minutes later a message is another one: what stands before it would have come all the
    same.
    """
    body = chat(6)
    body["messages"][5] = {"role": "user", "content": "Another one. " * 60}
    assert (
        last(tmp_path, "openai-chat", Sent(chat(5), 6000), Sent(body, 6600, cached, at_s))[0]
        == expected
    )


def test_no_more_could_have_come_than_the_request_has(tmp_path: Path) -> None:
    """The provider counts less than before, as it does where it leaves out the reasoning of earlier
    turns.
    """
    turn = turns(
        tmp_path, "openai-responses", Sent(responses(1), 5000), Sent(responses(2), 4000, 3968, 10)
    )[-1]
    assert (turn.row.cache_class, turn.row.could_tokens) == ("hit", 4000)


@pytest.mark.parametrize(
    ("api", "kind"), [("openai-chat", "text"), ("openai-responses", "input_text")]
)
def test_a_message_of_one_text_is_the_same_as_text_and_in_a_list(
    tmp_path: Path, api: str, kind: str
) -> None:
    """Clients put a text into a list where they set a mark, and take it out again."""

    def listed(turns: int, prefix: str = "") -> dict[str, Any]:
        body = AGENTS[api](turns)
        message = next(each for each in body[LISTS[api]] if each["role"] == "user")
        message["content"] = [{"type": kind, "text": prefix + message["content"], **MARK}]
        return body

    sent = Sent(AGENTS[api](3), 5000), Sent(listed(4), 5600, 0, 10)
    assert last(tmp_path, api, *sent) == ("provider_miss", None)
    at = 1 if api == "openai-chat" else 0
    changed = last(tmp_path / "changed", api, *sent, Sent(listed(5, "Another one. "), 6200, 0, 20))
    assert changed == ("prefix_changed", f"{LISTS[api]}[{at}].content[0].text")
