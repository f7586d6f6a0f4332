"""`recorder export --format otlp-json`, read by the official protobuf definitions."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from recorder.exports.otlp import source
from recorder.projections.rows import PROJECTIONS
from tests.support.conversations import (
    MS,
    Conversations,
    S,
    answering,
    asking,
    call,
    message,
    response,
    thought,
)
from tests.support.corpus import CORPUS, corpus_files, needs_corpus
from tests.support.otlp import attributes_of, exported, metrics_request, spans, spans_in
from tests.support.rows import START_NS
from tests.support.server import run
from tests.support.superuser import connected, execute
from tests.support.viewer import hang, poison

CLIENT, INTERNAL = 3, 1
ERROR = 2
SECRET = "the-word-that-nobody-may-read"

MEMBERS = {  # that the schemas of the convention require of a part
    "text": {"content"},
    "reasoning": {"content"},
    "tool_call": {"name"},
    "tool_call_response": {"response"},
}


@pytest.fixture
def talk(tmp_path: Path) -> Conversations:
    return filled(tmp_path / "talk.db")


def filled(database: Path | URL) -> Conversations:
    """Two calls whose results come in two requests, and a last word."""
    log = Conversations(database)
    session = log.session("talk")
    session.exchange(
        response(*call("first", '{"a":1}', 0, "call_1"), *call("second", "{}", 1, "call_2")),
        asking("Go"),
    )
    asked = [*asking("Go"), *answering("one", "call_1")]
    session.exchange(response(*message("Wait."), id="resp_2"), asked, at_s=5)
    asked += answering("two", "call_2")
    session.exchange(response(*message("It is ", "done."), id="resp_3"), asked, at_s=9)
    return log


# -- spans


def test_a_session_is_one_trace_whose_id_is_the_sessions(talk: Conversations) -> None:
    [listed] = json.loads(run(talk.database, "sessions", "--json").out)
    assert {span.trace_id.hex() for span in spans(talk.database)} == {
        listed["session_id"].replace("-", "")
    }


def test_an_exchange_is_a_line_with_an_inference_span(talk: Conversations) -> None:
    lines = exported(talk.database)
    assert len(lines) == 3
    first = [spans_in([line])[0] for line in lines]
    assert [(span.name, span.kind, span.parent_span_id) for span in first] == [
        ("chat gpt-5", CLIENT, b"")
    ] * 3
    assert [span.start_time_unix_nano for span in first] == [
        START_NS,
        START_NS + 5 * S,
        START_NS + 9 * S,
    ]
    assert first[0].end_time_unix_nano == START_NS + 1100 * MS
    assert {span.status.code for span in first} == {0}


def test_the_attributes_of_an_inference(talk: Conversations) -> None:
    found = attributes_of(spans(talk.database)[0])
    session = found["recorder.session.id"]
    assert {name: value for name, value in found.items() if not name.startswith("recorder.")} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.response.model": "gpt-5",
        "gen_ai.conversation.id": session,
        "gen_ai.request.stream": True,
        "gen_ai.response.id": "resp_1",
        "gen_ai.response.finish_reasons": ["completed"],
        "gen_ai.response.time_to_first_chunk": 0.1,
        "gen_ai.usage.input_tokens": 1234,
        "gen_ai.usage.output_tokens": 456,
        "gen_ai.usage.cache_read.input_tokens": 1024,
        "gen_ai.usage.reasoning.output_tokens": 192,
        "http.response.status_code": 200,
        "server.address": "api.openai.com",
        "server.port": 443,
    }
    assert (
        found["recorder.time_to_first_token"],
        found["recorder.gap.longest"],
        found["recorder.stalls"],
    ) == (
        *(0.3, 0.1),
        0,
    )
    assert (found["recorder.status"], found["recorder.outcome"], found["recorder.purpose"]) == (
        *("completed", "eof"),
        "turn",
    )


def test_parameters_of_the_request_are_attributes(tmp_path: Path) -> None:
    log = Conversations(tmp_path / "log.db")
    body = {
        "model": "gpt-5",
        "stream": True,
        "input": "Go",
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 100,
        "text": {"format": {"type": "json_schema", "name": "x", "schema": {}}},
        "reasoning": {"effort": "high"},
    }
    log.session("talk").exchange(
        response(*message("Yes.")), body=body, thread_id="thread", attempt=1
    )
    found = attributes_of(spans(log.path)[0])
    assert found["gen_ai.request.temperature"] == 0.5
    assert found["gen_ai.request.top_p"] == 0.9
    assert found["gen_ai.request.max_tokens"] == 100
    assert found["gen_ai.output.type"] == "json"
    assert found["gen_ai.conversation.id"] == found["recorder.thread.id"] == "thread"
    assert (found["recorder.request.reasoning_effort"], found["recorder.attempt"]) == ("high", 1)


def test_a_tool_span_takes_the_clients_own_time(talk: Conversations) -> None:
    every = spans(talk.database)
    tools = [span for span in every if span.kind == INTERNAL]
    assert [span.name for span in tools] == ["execute_tool first", "execute_tool second"]
    assert {span.parent_span_id for span in tools} == {every[0].span_id}
    # The first call is complete with the fifth frame, the second one with the ninth.
    assert [span.start_time_unix_nano - START_NS for span in tools] == [500 * MS, 900 * MS]
    assert [span.end_time_unix_nano - START_NS for span in tools] == [5 * S, 9 * S]
    found = attributes_of(tools[0])
    assert (found["gen_ai.tool.call.id"], found["gen_ai.tool.type"]) == ("call_1", "function")
    rows = json.loads(
        run(talk.database, "query", "SELECT latency_ns FROM tool_calls ORDER BY item", "--json").out
    )
    assert [row["latency_ns"] for row in rows] == [
        span.end_time_unix_nano - span.start_time_unix_nano for span in tools
    ]


def test_a_tool_span_comes_with_the_exchange_that_brings_the_result_and_is_linked(
    talk: Conversations,
) -> None:
    by_line = [spans_in([line]) for line in exported(talk.database)]
    assert [[span.name for span in each] for each in by_line] == [
        ["chat gpt-5"],
        ["chat gpt-5", "execute_tool first"],
        ["chat gpt-5", "execute_tool second"],
    ]
    for each in by_line[1:]:
        assert [link.span_id for link in each[0].links] == [each[1].span_id]
        assert attributes_of(each[0].links[0]) == {"recorder.link": "answers"}


def test_a_result_in_another_thread_is_not_the_time_of_a_tool(tmp_path: Path) -> None:
    log = Conversations(tmp_path / "log.db")
    session = log.session("talk")
    session.exchange(response(*call("first", "{}")), asking("Go"), thread_id="main")
    asked = [*asking("Go"), *answering("aborted")]
    session.exchange(response(*message("No."), id="resp_2"), asked, at_s=5, thread_id="agent")
    assert [span.name for span in spans(log.path)] == ["chat gpt-5"] * 2
    session.exchange(
        response(*message("Yes."), id="resp_3"),
        [*asking("Go"), *answering("1")],
        at_s=9,
        thread_id="main",
    )
    assert [span.name for span in spans(log.path)][-1] == "execute_tool first"


def test_an_exchange_is_linked_to_the_one_that_it_continues_and_to_the_attempt_it_repeats(
    tmp_path: Path,
) -> None:
    log = Conversations(tmp_path / "log.db")
    session = log.session("talk")
    session.exchange(response(*message("Yes.")), asking("Go"))
    body = {"model": "gpt-5", "stream": True, "input": "On", "previous_response_id": "resp_1"}
    session.exchange([b"{}"], body=body, at_s=5, http_status=500, content_type="application/json")
    session.exchange(response(*message("Well."), id="resp_2"), body=body, at_s=7)
    first, failed, last = spans(log.path)
    assert [(link.span_id, attributes_of(link)["recorder.link"]) for link in last.links] == [
        (first.span_id, "continues"),
        (failed.span_id, "retries"),
    ]
    assert attributes_of(last)["recorder.retry.attempt_number"] == 2
    assert attributes_of(last)["recorder.retry.waited"] == 1.8
    assert (failed.status.code, attributes_of(failed)["error.type"]) == (ERROR, "500")


def test_an_error_of_the_provider_is_its_code_and_never_its_text(tmp_path: Path) -> None:
    log = Conversations(tmp_path / "log.db")
    body = json.dumps(
        {"error": {"message": SECRET, "type": "invalid_request_error", "code": "too_long"}}
    ).encode()
    log.session("talk").exchange(
        [body], asking("Go"), http_status=400, content_type="application/json"
    )
    [span] = spans(log.path)
    assert attributes_of(span)["error.type"] == "too_long"
    assert attributes_of(span)["http.response.status_code"] == 400
    assert (span.status.code, span.status.message) == (ERROR, "")
    [span] = spans(log.path, "--content")
    assert span.status.message == SECRET


def test_an_exchange_that_broke_off_says_how(tmp_path: Path) -> None:
    log = Conversations(tmp_path / "log.db")
    log.session("talk").exchange(
        response(*message("Yes."))[:-1], asking("Go"), outcome="upstream_reset"
    )
    [span] = spans(log.path)
    assert span.status.code == ERROR
    assert attributes_of(span)["error.type"] == "upstream_reset"


def test_a_request_for_no_generation_is_a_span_of_http(tmp_path: Path) -> None:
    log = Conversations(tmp_path / "log.db")
    log.session("talk").exchange(
        [b'{"data":[]}'],
        body={"x": 1},
        method="GET",
        target="/v1/models?key=1",
        content_type="application/json",
    )
    [span] = spans(log.path)
    found = attributes_of(span)
    assert (span.name, span.kind, found["http.request.method"], found["url.path"]) == (
        *("GET", CLIENT),
        *("GET", "/v1/models"),
    )
    assert not [name for name in found if name.startswith("gen_ai.")]
    assert not [each for each in exported(log.path, "--metrics") if b"gen_ai" in each]


def test_an_exchange_that_has_not_ended_is_left_out_and_counted(talk: Conversations) -> None:
    before = exported(talk.database)
    [listed] = json.loads(run(talk.database, "sessions", "--json").out)
    session = talk.session("other", at_s=60)
    session.exchange(response(*message("Yes.")), asking("Go"))
    session.exchange(response(*message("Yes."))[:4], asking("Go"), at_s=5, ended=False)
    ran = run(talk.database, "export", "other", "--format", "otlp-json")
    assert (ran.code, len(ran.out.splitlines())) == (0, 1)
    assert ran.err == "1 exchange did not end yet: left out.\n"
    ran = run(talk.database, "export", "other", "--format", "otlp-json", "--exchange", "2")
    assert (ran.code, ran.out) == (3, b"")
    assert "No exchange" in ran.err
    assert exported(talk.database, session=listed["session_id"]) == before


def test_one_exchange_is_written_as_among_all(talk: Conversations) -> None:
    assert exported(talk.database, "--exchange", 2) == exported(talk.database)[1:2]


def test_an_exchange_without_projections_is_a_span_all_the_same(talk: Conversations) -> None:
    with connected(talk.database) as connection:
        for each in PROJECTIONS:
            execute(connection, f"DELETE FROM {each.table}")
    found = spans(talk.database)
    assert (found[0].name, found[0].end_time_unix_nano - found[0].start_time_unix_nano) == (
        "POST",
        1100 * MS,
    )
    assert attributes_of(found[0])["recorder.status"] == "completed"


# -- conventions


def test_a_convention_writes_no_name_that_it_does_not_have(talk: Conversations) -> None:
    newest, older = exported(talk.database), exported(talk.database, "--convention", "1.37.0")
    assert all(b"schemas/1.41.0" in line for line in newest)
    assert all(b"schemas/1.37.0" in line for line in older)
    missing = set(attributes_of(spans_in(newest)[0])) - set(attributes_of(spans_in(older)[0]))
    assert missing == {
        "gen_ai.request.stream",
        "gen_ai.response.time_to_first_chunk",
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.reasoning.output_tokens",
    }
    assert b"time_to_first_chunk" in exported(talk.database, "--metrics")[0]
    assert (
        b"time_to_first_chunk"
        not in exported(talk.database, "--metrics", "--convention", "1.37.0")[0]
    )


def test_an_unknown_convention_names_those_that_there_are(talk: Conversations) -> None:
    ran = run(talk.database, "export", "latest", "--format", "otlp-json", "--convention", "2.0.0")
    assert (ran.code, ran.out) == (2, b"")
    assert "1.41.0, 1.37.0" in ran.err


def test_options_of_otlp_are_refused_with_other_formats(talk: Conversations) -> None:
    for option in (["--content"], ["--metrics"], ["--convention", "1.41.0"]):
        ran = run(talk.database, "export", "latest", *option)
        assert (ran.code, ran.out) == (2, b"")
        assert f"{option[0]} is not for --format jsonl" in ran.err


# -- content


def secretive(tmp_path: Path) -> Path:
    """A log whose every text is the secret one."""
    log = Conversations(tmp_path / "log.db")
    session = log.session("talk")
    body: dict[str, Any] = {
        "model": "gpt-5",
        "stream": True,
        "instructions": SECRET,
        "input": asking(SECRET),
    }
    body["tools"] = [{"type": "function", "name": "look", "description": SECRET, "parameters": {}}]
    arguments = json.dumps({"word": SECRET})
    session.exchange(
        response(*thought(SECRET), *call("look", arguments, 1), *message(SECRET, index=2)),
        body=body,
    )
    again = {**body, "input": [*asking(SECRET), *answering(SECRET)]}
    session.exchange(response(*message(SECRET), id="resp_2"), body=again, at_s=5)
    failed = json.dumps({"error": {"message": SECRET}}).encode()
    session.exchange([failed], body=body, at_s=9, http_status=400, content_type="application/json")
    return log.path


def test_no_text_is_written_unless_it_is_asked_for(tmp_path: Path) -> None:
    path = secretive(tmp_path)
    for options in ((), ("--metrics",), ("--convention", "1.37.0")):
        assert SECRET.encode() not in b"".join(exported(path, *options)), options


def test_content_is_messages_by_the_schema_of_the_convention(tmp_path: Path) -> None:
    first, second, tool, _ = spans(secretive(tmp_path), "--content")
    found = attributes_of(first)
    assert json.loads(found["gen_ai.system_instructions"]) == [{"type": "text", "content": SECRET}]
    assert json.loads(found["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": SECRET}]}
    ]
    assert json.loads(found["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": SECRET},
                {
                    "type": "tool_call",
                    "id": "call_1",
                    "name": "look",
                    "arguments": {"word": SECRET},
                },
                {"type": "text", "content": SECRET},
            ],
            "finish_reason": "completed",
        }
    ]
    assert json.loads(attributes_of(second)["gen_ai.input.messages"])[1] == {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": "call_1", "response": SECRET}],
    }
    assert attributes_of(tool)["gen_ai.tool.call.arguments"] == json.dumps({"word": SECRET})
    assert attributes_of(tool)["gen_ai.tool.call.result"] == SECRET


def test_content_has_what_a_conversation_had_before(tmp_path: Path) -> None:
    log = Conversations(tmp_path / "log.db")
    session = log.session("talk")
    session.exchange(response(*message("Yes.")), asking("Go"))
    body = {"model": "gpt-5", "stream": True, "input": "On", "previous_response_id": "resp_1"}
    session.exchange(response(*message("Well."), id="resp_2"), body=body, at_s=5)
    messages = json.loads(attributes_of(spans(log.path, "--content")[1])["gen_ai.input.messages"])
    assert [(each["role"], each["parts"][0]["content"]) for each in messages] == [
        ("user", "Go"),
        ("assistant", "Yes."),
        ("user", "On"),
    ]


def require_messages(found: dict[str, Any]) -> Counter[str]:
    """The types of parts in the messages of a span, each with the members that its schema requires."""
    types = Counter[str]()
    for name in ("gen_ai.input.messages", "gen_ai.output.messages"):
        for each in json.loads(found.get(name, "[]")):
            assert isinstance(each["role"], str)
            assert name != "gen_ai.output.messages" or isinstance(each["finish_reason"], str)
            for part in each["parts"]:
                assert part.keys() >= MEMBERS.get(part["type"], set()), part
                assert all(
                    isinstance(part[member], str)
                    for member in ("content", "name")
                    if member in part
                ), part
                types[part["type"]] += 1
    return types


# -- whole recordings


def test_the_demo_validates_in_every_form(demo_recording: Path) -> None:
    every = spans(demo_recording, "--content")
    assert len({span.span_id for span in every}) == len(every)
    found = [attributes_of(span) for span in every]
    names = Counter(
        (each.get("gen_ai.operation.name"), each.get("gen_ai.provider.name")) for each in found
    )
    assert {
        ("chat", "openai"),
        ("chat", "anthropic"),
        ("generate_content", "gcp.gemini"),
    } <= names.keys()
    assert ("execute_tool", None) in names
    assert sum((require_messages(each) for each in found), Counter[str]()).keys() >= {
        "text",
        "tool_call",
        "reasoning",
    }
    metrics_request(exported(demo_recording, "--metrics")[0])


def test_a_turn_over_websocket_is_an_inference_and_its_connection_one_of_http(
    demo_recording: Path,
) -> None:
    found = [(span, attributes_of(span)) for span in spans(demo_recording)]
    [connection] = [
        each
        for span, each in found
        if span.name == "GET" and each["http.response.status_code"] == 101
    ]
    turns = [
        each
        for _, each in found
        if each.get("gen_ai.request.stream") and "http.response.status_code" not in each
    ]
    assert connection["http.request.method"] == "GET"
    assert turns
    assert all(each["gen_ai.response.time_to_first_chunk"] > 0 for each in turns)


@pytest.mark.long
def test_it_is_the_same_whenever_it_is_exported(demo_recording: Path, talk: Conversations) -> None:
    for path in (demo_recording, talk.database):
        for options in ([], ["--content"], ["--metrics"]):
            assert exported(path, *options) == exported(path, *options)


def test_a_line_goes_out_for_each_exchange_before_the_next_is_read(
    database: URL, talk: Conversations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of exchanges is read in order of their ids, however many pages there are; on a server
    too.
    """
    before = exported(talk.database)
    filled(database)
    monkeypatch.setattr(source, "PAGE", 1)
    assert exported(database) == before


@pytest.mark.long
def test_hostile_texts_are_written(tmp_path: Path) -> None:
    poison(tmp_path / "log.db")
    for row in json.loads(run(tmp_path / "log.db", "sessions", "--json").out):
        for span in spans(tmp_path / "log.db", "--content", session=row["session_id"]):
            require_messages(attributes_of(span))


def validate(path: Path, names: list[str]) -> None:
    hang(path, names)
    sessions = json.loads(run(path, "sessions", "--json", "--limit", 5000).out)
    assert len(sessions) >= len(names) // 2
    for each in sessions:
        bare, whole = (
            spans(path, session=each["session_id"]),
            spans(path, "--content", session=each["session_id"]),
        )
        assert [span.span_id for span in bare] == [span.span_id for span in whole]
        assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in whole)
        for span in whole:
            require_messages(attributes_of(span))
        for line in exported(path, "--metrics", session=each["session_id"]):
            metrics_request(line)


@pytest.mark.long
@needs_corpus
# One part is quick, with streams of each API; all of them take a minute.
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(1, 16))]
)
def test_the_corpus_validates(part: int, tmp_path: Path) -> None:
    names = [str(path.relative_to(CORPUS)) for path in corpus_files(core=part == 0)]
    validate(tmp_path / "log.db", names[part::16])
