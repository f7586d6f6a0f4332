"""Every client of docs/CLIENTS.md is recognised, and no request can make grouping fail."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.model.events import RequestHead
from recorder.wire.grouping.rules import BODY_LIMIT
from recorder.wire.grouping.session import HEADERS, Grouping, group
from recorder.wire.redaction.headers import keeps
from tests.support.tables import table

CODEX = "codex_exec/0.169.0 (Debian 12; x86_64) dumb"
CLAUDE = "claude-cli/2.1.329 (external, cli)"
OPENCODE = "opencode/1.18.33 ai-sdk/provider-utils/3.0.20 runtime/bun/1.3.5"
ID = "0198c0de-0000-7000-8000-000000000001"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def head(target: str = "/v1/responses", method: str = "POST", **headers: str) -> RequestHead:
    pairs = [(name.replace("__", "-"), value) for name, value in headers.items()]
    return RequestHead("exchange", "session", 0, method, target, "openai", pairs)


def found(body: Any = None, **headers: str) -> tuple[str | None, str]:
    raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    grouping = group(head(**headers), raw)
    return grouping.name, grouping.source


# -- the session

BY_HEADER = [
    ({"User__Agent": CODEX, "session__id": ID}, "codex"),
    ({"originator": "codex_vscode", "Session__Id": ID}, "codex"),
    ({"User__Agent": "Codex Desktop/1.0", "session_id": ID}, "codex-until-2026-05"),
    ({"User__Agent": CODEX, "conversation_id": ID}, "codex-conversation"),
    ({"User__Agent": CLAUDE, "X__Claude__Code__Session__Id": ID}, "claude-code"),
    ({"User__Agent": "GitHubCopilotChat/0.41", "x__interaction__id": ID}, "copilot"),
    ({"User__Agent": "copilot/1.0.9", "X__Client__Session__Id": ID}, "copilot-cli"),
    ({"User__Agent": "Kilo-Code/4.1", "X__KILOCODE__TASKID": ID}, "kilo"),
    ({"User__Agent": "mux/0.9", "X__Mux__Workspace__Id": ID}, "mux"),
    ({"X__Coder__Chat__Id": ID}, "coder"),
    (
        {
            "User__Agent": OPENCODE,
            "X__Session__Id": ID,
            "originator": "opencode",
            "session__id": ID,
        },
        "opencode",
    ),
    ({"User__Agent": OPENCODE, "x__session__affinity": ID}, "opencode"),
    ({"User__Agent": OPENCODE, "x__opencode__session": ID}, "opencode"),
    ({"User__Agent": "Kilo-Code/7.7.7", "x__session__id": ID}, "opencode"),
    ({"X__OpenWebUI__Chat__Id": ID}, "open-webui"),
    ({"x__litellm__session__id": ID, "x__litellm__trace__id": "t"}, "litellm"),
    ({"x__litellm__trace__id": ID}, "litellm"),
    ({"Helicone__Session__Id": ID, "Helicone__Session__Path": "/a"}, "helicone"),
    ({"x__portkey__trace__id": ID}, "portkey"),
    ({"langfuse_session_id": ID, "langfuse_trace_id": "t"}, "langfuse"),
    ({"langfuse_trace_id": ID}, "langfuse"),
    ({"X__Cagent__Session__Id": ID}, "docker-agent"),
    ({"x__session__id": ID, "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}, "session-id"),
    ({"x__session__affinity": ID}, "session-id"),
    ({"x__conversation__id": ID}, "session-id"),
]


@table(("headers", "source"), BY_HEADER)
def test_a_client_names_its_session_in_a_header(headers: dict[str, str], source: str) -> None:
    """Redaction keeps its value."""
    assert found(**headers) == (ID, source)
    assert all(keeps(name.replace("__", "-")) for name, value in headers.items() if value == ID)


BY_BODY: list[tuple[object, str]] = [
    (
        {"metadata": {"user_id": json.dumps({"device_id": "d", "session_id": ID})}},
        "claude-code-metadata",
    ),
    ({"metadata": {"user_id": f"user_0a1b_account_{ID[:8]}_session_{ID}"}}, "claude-code-user-id"),
    ({"metadata": {"user_id": f"user_0a1b_account__session_{ID}"}}, "claude-code-user-id"),
    ({"litellm_session_id": ID}, "litellm"),
    ({"metadata": {"litellm_session_id": ID, "session_id": "other"}}, "litellm"),
    ({"metadata": {"session_id": ID}}, "session-id"),
    ({"session_id": ID}, "session-id"),
    ({"conversation": ID}, "conversation"),
    ({"conversation": {"id": ID}}, "conversation"),
    ({"previous_response_id": ID, "prompt_cache_key": "other"}, "previous_response_id"),
    ({"previous_interaction_id": ID}, "previous_response_id"),
    ({"thread": {"type": "continue", "previous_message_id": ID}}, "previous_response_id"),
    ({"prompt_cache_key": ID, "input": [{"role": "user", "content": "hi"}]}, "prompt_cache_key"),
    (
        b' \n{"input": "half an emoji: \\ud83d", "prompt_cache_key": "' + ID.encode() + b'"}',
        "prompt_cache_key",
    ),
]


@table(("body", "source"), BY_BODY)
def test_a_client_names_its_session_in_the_body(body: object, source: str) -> None:
    assert found(body) == (ID, source)


def test_gemini_cli_names_its_session_when_logged_in() -> None:
    body = {"model": "m", "user_prompt_id": "p-1", "request": {"contents": [], "session_id": ID}}
    agent = "GeminiCLI-tui/0.61.0/gemini-3-pro (linux; x64)"
    assert found(body, User__Agent=agent) == (ID, "gemini-cli")
    assert group(head(User__Agent=agent), json.dumps(body).encode()).turn_id == "p-1"
    assert found(body) == (None, "new")


def test_a_sub_agent_of_opencode_is_a_thread_of_the_session_of_its_parent() -> None:
    headers = {
        "User__Agent": OPENCODE,
        "X__Session__Id": "ses_child",
        "x__session__affinity": "ses_child",
    }
    of_parent = group(head(User__Agent=OPENCODE, X__Session__Id="ses_parent"), None)
    of_child = group(head(**headers, x__parent__session__id="ses_parent"), None)
    assert (
        (of_parent.name, of_parent.source)
        == (of_child.name, of_child.source)
        == ("ses_parent", "opencode")
    )
    assert (of_parent.thread_id, of_child.thread_id) == ("ses_parent", "ses_child")


@table("header", ["session_id", "x__parent__session__id"])
def test_a_header_of_codex_or_opencode_means_nothing_from_anybody_else(header: str) -> None:
    assert found(**{header: ID}, User__Agent="curl/8.1") == (None, "new")


def test_a_field_that_the_user_names_wins_over_what_the_client_says() -> None:
    given = RequestHead(
        "e", "s", 0, "POST", "/", "openai", [], session_fields=("run", "metadata.run")
    )
    body = json.dumps({"prompt_cache_key": "k", "metadata": {"run": ID}}).encode()
    assert (group(given, body).name, group(given, body).source) == (ID, "field")
    assert group(given, b'{"prompt_cache_key": "k"}').source == "prompt_cache_key"


@table(
    ("method", "target", "name"),
    [
        ("GET", "/shop/sse", "mcp-openai"),
        ("POST", "/messages/?session_id=REDACTED", "mcp-openai"),
        ("POST", "/shop/sse", None),
    ],
)
def test_the_stream_of_mcp_of_2024_stands_with_what_it_answers(
    method: str, target: str, name: str | None
) -> None:
    assert group(head(target, method), None).name == name
    if method == "GET":
        assert group(head(target, method, Sec__Fetch__Mode="cors"), None).name is None


@table(
    ("method", "target"),
    [("HEAD", "/api/hello"), ("HEAD", "/v1/messages"), ("OPTIONS", "/v1/responses"), ("GET", "/")]
    + [
        ("GET", path)
        for path in ("/v1/models", "/v1/models?client_version=0.169.0", "/models/a/b", "/api/tags")
    ],
)
def test_probes_stand_together_if_they_name_no_session(method: str, target: str) -> None:
    grouping = group(head(target, method), None)
    assert (grouping.name, grouping.source) == ("probes", "probe")
    assert (
        group(head(target, method, X__Claude__Code__Session__Id=ID), None).source == "claude-code"
    )


@table(
    ("method", "target"),
    [
        ("POST", "/v1/models"),
        ("GET", "/v1/stream"),
        ("GET", "/v1/files/f_1"),
        ("DELETE", "/v1/models/m"),
    ]
    + [("POST", f"/v1/responses{more}") for more in ("", "/", "/compact", "/input_tokens")],
)
def test_what_may_stream_or_change_something_is_no_probe_and_asks_for_no_response(
    method: str, target: str
) -> None:
    assert group(head(target, method), None).source == "new"


@pytest.mark.parametrize("field", ["complexity_score", "model_choice"])
def test_the_router_request_of_gemini_cli_is_of_no_conversation(field: str) -> None:
    schema = {"type": "OBJECT", "properties": {field: {"type": "STRING"}}}
    body = json.dumps({"contents": [], "generationConfig": {"responseJsonSchema": schema}}).encode()
    router = head(
        "/v1beta/models/flash-lite:generateContent",
        User__Agent="GeminiCLI-tui/0.61.0/flash-lite (linux)",
    )
    assert group(router, body).source == "probe"
    assert group(router, b'{"contents": []}').source == "new"
    others = head("/v1beta/models/flash-lite:generateContent", User__Agent="google-genai-sdk/3.4.0")
    assert group(others, body).source == "new"


@table("parent", ["", f"00-{'0' * 32}-00f067aa0ba902b7-01", "00-xyz-1-01", TRACE])
def test_a_trace_is_a_session_and_a_broken_one_is_none(parent: str) -> None:
    assert found(traceparent=f"00-{TRACE}-00f067aa0ba902b7-01") == (TRACE, "traceparent")
    assert found(traceparent=parent) == (None, "new")


def test_what_the_user_said_wins_over_what_the_client_says() -> None:
    given = RequestHead(
        "e", "s", 0, "POST", "/", "openai", [("x-claude-code-session-id", ID)], "mine", "path"
    )
    assert (group(given, None).name, group(given, None).source) == ("mine", "path")


def test_the_rules_are_tried_in_order() -> None:
    trace = f"00-{TRACE}-00f067aa0ba902b7-01"
    headers = {
        "X__Claude__Code__Session__Id": "2",
        "traceparent": trace,
        "User__Agent": CODEX,
        "session__id": "1",
    }
    body = {"conversation": "4", "previous_response_id": "5", "prompt_cache_key": "6"}
    order = []
    in_headers = [
        (headers, name) for name in ("session__id", "X__Claude__Code__Session__Id", "traceparent")
    ]
    for evidence, name in [*in_headers, *((body, name) for name in tuple(body))]:
        order.append(found(body, **headers)[1])
        del evidence[name]
    assert order == [
        "codex",
        "claude-code",
        "traceparent",
        "conversation",
        "previous_response_id",
        "prompt_cache_key",
    ]
    assert found(body, **headers) == (None, "new")


@table(
    ("method", "target"),
    [
        ("GET", "/v1/responses/resp_1"),
        ("GET", "/v1/responses/resp_1?stream=true"),
        ("GET", "/v1beta/interactions/resp_1?stream=true&last_event_id=a"),
        ("GET", "/openai/v1/responses/resp_1/input_items?limit=5"),
        ("DELETE", "/responses/resp%5F1"),
        ("POST", "/v1/responses/resp_1/cancel"),
    ],
)
def test_asking_for_a_response_belongs_to_the_session_that_has_it(method: str, target: str) -> None:
    grouping = group(head(target, method), None)
    assert (grouping.name, grouping.source) == ("resp_1", "previous_response_id")


def test_a_name_is_fit_to_be_shown_and_stored() -> None:
    assert found({"prompt_cache_key": " \u202ea\x00b\x1b[31m\u2028c\r\n"})[0] == "ab[31mc"
    assert found({"prompt_cache_key": "x" * 500})[0] == "x" * 200
    assert found({"prompt_cache_key": 42})[0] == "42"
    assert found({"prompt_cache_key": "\x00\x1b \t"}) == (None, "new")
    assert found(X__Coder__Chat__Id="caf\xc3\xa9")[0] == "café"
    assert found(X__Coder__Chat__Id="caf\xe9")[0] == "café"


def test_the_first_of_repeated_headers_counts() -> None:
    given = RequestHead(
        "e", "s", 0, "POST", "/", "o", [("X-Coder-Chat-Id", "a"), ("x-coder-chat-id", "b")]
    )
    assert group(given, None).name == "a"


def test_redaction_keeps_all_that_grouping_looks_at() -> None:
    kept = {name for name in HEADERS if keeps(name)}
    assert kept == HEADERS


# -- thread, turn, attempt


def test_codex_tells_thread_and_turn() -> None:
    metadata = json.dumps({"turn_id": "turn-1", "thread_id": "thread-2", "workspaces": {}})
    grouping = group(
        head(User__Agent=CODEX, thread__id="thread-1", x__codex__turn__metadata=metadata), None
    )
    assert (grouping.thread_id, grouping.turn_id) == ("thread-1", "turn-1")
    assert group(head(x__codex__turn__metadata=metadata), None).thread_id == "thread-2"


def test_codex_tells_the_turn_in_the_body_too() -> None:
    body = {"client_metadata": {"x-codex-turn-metadata": json.dumps({"turn_id": "turn-1"})}}
    assert group(head(), json.dumps(body).encode()).turn_id == "turn-1"


def test_over_websocket_a_request_of_codex_says_more_of_itself_than_the_handshake() -> None:
    """The headers are those of the connection, which a prewarm opened."""
    metadata = json.dumps({"turn_id": "turn-2", "thread_id": "thread-2", "request_kind": "turn"})
    said = {
        "session_id": ID,
        "thread_id": "thread-2",
        "turn_id": "turn-2",
        "x-codex-turn-metadata": metadata,
    }
    body = json.dumps(
        {"type": "response.create", "client_metadata": {**said, "odd": {"not": "a text"}}}
    ).encode()
    handshake = {"User__Agent": CODEX, "session__id": "of-the-connection", "thread__id": "thread-1"}
    grouping = group(head(method="WEBSOCKET", **handshake), body)
    assert (grouping.name, grouping.source) == (ID, "codex")
    assert (grouping.thread_id, grouping.turn_id) == ("thread-2", "turn-2")
    assert group(head(**handshake), body).name == "of-the-connection"


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b'{"client_metadata":7}', b'{"client_metadata":{"session_id":[]}}']
)
def test_over_websocket_odd_metadata_leaves_the_handshake(body: bytes) -> None:
    asked = head(method="WEBSOCKET", User__Agent=CODEX, session__id=ID)
    assert group(asked, body).name == ID


def test_claude_code_tells_its_agent() -> None:
    assert group(head(x__claude__code__agent__id="agent-1"), None).thread_id == "agent-1"


@table(
    ("count", "attempt"),
    [("0", 0), ("2", 2), ("", None), ("-1", None), ("9" * 30, None), ("x", None)],
)
def test_a_retry_is_counted(count: str, attempt: int | None) -> None:
    assert group(head(X__Stainless__Retry__Count=count), None).attempt == attempt


# -- the client

AGENTS = [
    ("OpenAI/Python 3.51.0", "OpenAI/Python", "3.51.0"),
    ("AsyncOpenAI/Python 2.15.0", "AsyncOpenAI/Python", "2.15.0"),
    ("OpenAI/JS 6.1.0", "OpenAI/JS", "6.1.0"),
    ("Anthropic/Python 2.10.0", "Anthropic/Python", "2.10.0"),
    (CLAUDE, "claude-cli", "2.1.329"),
    (CODEX, "codex_exec", "0.169.0"),
    ("Codex Desktop/26.1 (Mac OS 15)", "Codex Desktop", "26.1"),
    ("GeminiCLI-tui/0.61.0/gemini-3-pro (linux; x64)", "GeminiCLI-tui", "0.61.0"),
    ("google-genai-sdk/3.3.0 gl-python/3.11", "google-genai-sdk", "3.3.0"),
    ("google-genai-sdk/1.19.0 gl-node/v22.17.0", "google-genai-sdk", "1.19.0"),
    ("ai-sdk/openai/2.0.1 ai/5.0.1 runtime/node.js/22", "ai-sdk/openai", "2.0.1"),
    ("GitHubCopilotChat/0.41.2", "GitHubCopilotChat", "0.41.2"),
    ("copilot/1.0.9 (linux)", "copilot", "1.0.9"),
    ("Kilo-Code/4.1.0", "Kilo-Code", "4.1.0"),
    ("mux/v0.9.1", "mux", "0.9.1"),
    ("pydantic-ai/2.68.0", "pydantic-ai", "2.68.0"),
    ("HTTPie/3.2.4", "HTTPie", "3.2.4"),
    ("curl/8.1", "curl", "8.1"),
    ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36", "Mozilla", "5.0"),
    ("node", "node", None),
    ("GeminiCLI-tui/unknown/model", "GeminiCLI-tui", None),
    ("", None, None),
    ("()", None, None),
]


@table(("agent", "client", "version"), AGENTS)
def test_the_user_agent_tells_client_and_version(
    agent: str, client: str | None, version: str | None
) -> None:
    grouping = group(head(User__Agent=agent), None)
    assert (grouping.client, grouping.client_version) == (client, version)


# -- resuming

RESUMES = [
    ("GET", "/v1/responses/resp_1?stream=true&starting_after=41", ("resp_1", 41)),
    ("GET", "/v1/responses/resp_1?starting_after=0&stream=true", ("resp_1", 0)),
    ("GET", "/responses/resp_1?stream=true", ("resp_1", None)),
    ("GET", "/v1/responses/resp_1?stream=true&starting_after=-1", ("resp_1", None)),
    ("GET", "/v1/responses/resp_1?stream=true&starting_after=" + "9" * 40, ("resp_1", None)),
    ("GET", "/v1/responses/resp_1?starting_after=3", ("resp_1", None)),
    ("GET", "/v1beta/interactions/i?stream=true&last_event_id=e_4", ("i", 0)),
    ("GET", "/v1beta/interactions/i?stream=true&starting_after=4", ("i", None)),
    ("GET", "/v1/responses/resp_1?stream=false&starting_after=3", ("resp_1", None)),
    ("GET", "/v1/responses/resp_1/input_items?stream=true", (None, None)),
    ("POST", "/v1/responses/resp_1/cancel", ("resp_1", None)),
    ("DELETE", "/v1/responses/resp_1", (None, None)),
    ("POST", "/v1/responses/resp_1?stream=true&starting_after=3", (None, None)),
    ("GET", "/v1/models?stream=true&starting_after=3", (None, None)),
]


@table(("method", "target", "resumed"), RESUMES)
def test_a_retrieved_response_is_named(
    method: str, target: str, resumed: tuple[str | None, int | None]
) -> None:
    grouping = group(head(target, method), None)
    assert (grouping.resumes_response_id, grouping.resumes_after) == resumed


# -- any request

ODD_BODIES = [
    b"",
    b"{",
    b"\xff\xfe",
    b"[1]",
    b"null",
    b"--boundary\r\n",
    b'{"metadata":' * 5000,
    b'{"metadata": "{\\"user_id\\": 1"}',
    b'{"prompt_cache_key": "\\ud800"}',
    b'{"prompt_cache_key": true, "conversation": [], "previous_response_id": {}}',
    b'{"prompt_cache_key": "a\xff"}',
]


@table(
    "body",
    [*ODD_BODIES, {"model": "m", "input": "hi", "conversation": None, "metadata": {"user_id": 7}}],
)
def test_an_odd_body_names_no_session(body: Any) -> None:
    assert found(body) == (None, "new")


@table("levels", [100, 500, 975, 987, 990])
def test_what_a_deep_body_names_does_not_hang_on_the_stack(levels: int) -> None:
    def deeper(frames: int) -> tuple[str | None, str]:
        return deeper(frames - 1) if frames else found(body)

    body = b'{"prompt_cache_key": "k", "deep": ' + b"[" * levels + b"]" * levels + b"}"
    assert (
        found(body)
        == deeper(500)
        == (("k", "prompt_cache_key") if levels == 100 else (None, "new"))
    )


def test_a_huge_body_is_not_searched() -> None:
    key = b'{"prompt_cache_key": "k", "input": "'
    fits = key + b"x" * (BODY_LIMIT - len(key) - 2) + b'"}'
    assert len(fits) == BODY_LIMIT
    assert found(fits) == ("k", "prompt_cache_key")
    assert found(fits + b" ") == (None, "new")


@pytest.mark.timed
def test_a_hostile_value_is_matched_in_no_time() -> None:
    body = {"metadata": {"user_id": "user_" + "_session_a" * 100_000 + "!"}}
    began = time.process_time()
    assert found(body) == (None, "new")
    assert time.process_time() - began < 5


WORDS = st.sampled_from([*sorted(HEADERS), "x-other"])
VALUES = st.one_of(
    st.text(max_size=30),
    st.just(CODEX),
    st.just('{"turn_id": [1]}'),
    st.just('{"turn_id": "\\ud800"}'),
)
MEMBERS = st.sampled_from(
    ["metadata", "user_id", "session_id", "conversation", "id", "prompt_cache_key", "request"]
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=10)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(MEMBERS, inner, max_size=4)
    ),
)


@given(
    st.text(max_size=40),
    st.sampled_from(["GET", "POST", ""]),
    st.lists(st.tuples(WORDS, VALUES), max_size=6),
    st.one_of(
        st.none(), st.binary(max_size=50), JSON.map(lambda value: json.dumps(value).encode())
    ),
)
@settings(max_examples=200)
def test_no_request_is_refused_and_all_that_is_found_can_be_stored(
    target: str, method: str, headers: list[tuple[str, str]], body: bytes | None
) -> None:
    grouping = group(RequestHead("e", "s", 0, method, target, "openai", headers), body)
    assert isinstance(grouping, Grouping)
    assert (grouping.name is None) == (grouping.source == "new")
    for text in (
        grouping.name,
        grouping.thread_id,
        grouping.turn_id,
        grouping.client,
        grouping.client_version,
    ):
        assert text is None or (0 < len(text) <= 200 and text.encode() and "\0" not in text)
