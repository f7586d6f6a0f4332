"""What requests of real clients are for, of which agent they are, and which of their words are a
person's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from recorder.model.events import Header
from recorder.model.facts import RequestFacts, RequestPurpose
from recorder.wire.dialects import by_name
from recorder.wire.grouping.purpose import placed
from recorder.wire.grouping.rules import Claims
from tests.support.tables import table

REMINDER = "<system-reminder>\n# Environment\nYou are in /work.\n</system-reminder>"
CONTEXT = "<session_context>\nThis is the Gemini CLI.\n</session_context>"
MAIN, SUB = "01a2055b-0000-7000-8000-000000000001", "01a2055b-0000-7000-8000-000000000002"
FORKED = [
    ("thread-id", SUB),
    ("x-codex-parent-thread-id", MAIN),
    ("x-openai-subagent", "collab_spawn"),
]


def texts(*given: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": each} for each in given]


def user(*given: str) -> dict[str, Any]:
    return {"role": "user", "content": texts(*given)}


def system(text: str) -> dict[str, str]:
    return {"role": "system", "content": text}


def asked(api: str, body: Any, path: str = "/v1/x") -> RequestFacts:
    return by_name(api).request_facts(path, json.dumps(body).encode())


def place(
    api: str, body: Any, headers: Sequence[Header] = (), method: str = "POST", path: str = "/v1/x"
) -> RequestPurpose:
    return placed(api, method, path, Claims(headers), asked(api, body, path))


def agent_message(kind: str, *parts: dict[str, str]) -> dict[str, Any]:
    # An agent of Codex has a path of its own, below the one that it calls /root: it is none of a
    # machine.
    said = f"Message Type: {kind}\nTask name: /root/finder\nSender: /root\nPayload:\n"
    return {"type": "agent_message", "content": [{"type": "input_text", "text": said}, *parts]}


NOTICE = "<subagent_notification>\n{}\n</subagent_notification>"
ARTICLE = "<article>\nWhat is new\n</article>"
SEALED = {"type": "encrypted_content", "encrypted_content": "gAAAAABo"}
CLEAR = {"type": "encrypted_content", "encrypted_content": "find the bug"}
ENVIRONMENT = {"role": "system", "content": texts("# Environment")}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]}
HI = {"role": "assistant", "content": "hi"}
CALLED = {"type": "function_call_output", "call_id": "c", "output": "done"}

SAID: list[tuple[str, Any, str | None, bool]] = [
    ("anthropic", {"messages": [user(REMINDER, "Fix it"), ENVIRONMENT]}, "Fix it", True),
    ("anthropic", {"messages": [user(f"{REMINDER}\nFix it")]}, "Fix it", True),
    ("anthropic", {"messages": [user("Fix it"), HI, RESULT, ENVIRONMENT]}, "Fix it", False),
    ("anthropic", {"messages": [user("Fix it"), HI, user(REMINDER)]}, "Fix it", False),
    ("gemini", {"contents": [{"role": "user", "parts": texts(CONTEXT, "Fix it")}]}, "Fix it", True),
    (
        "gemini",
        {"contents": [{"role": "user", "parts": texts(CONTEXT)}, {"parts": texts("Fix")}]},
        "Fix",
        True,
    ),
    ("openai-responses", {"input": [user("Look"), CALLED, user(NOTICE)]}, "Look", False),
    ("openai-responses", {"input": [user("Look"), HI, user(ARTICLE)]}, ARTICLE, True),
    ("openai-responses", {"input": [user("Look"), HI, user("Now"), user(ARTICLE)]}, "Now", True),
    ("openai-chat", {"messages": [user("Look"), HI, user(ARTICLE)]}, ARTICLE, True),
    ("anthropic", {"messages": [user("Look"), HI, user(ARTICLE)]}, ARTICLE, True),
    ("openai-responses", {"input": [agent_message("NEW_TASK", CLEAR)]}, "find the bug", True),
    (
        "openai-responses",
        {"input": [agent_message("NEW_TASK", SEALED)]},
        "Task name: /root/finder",
        True,
    ),
    (
        "openai-responses",
        {"input": [user("Look"), CALLED, agent_message("FINAL_ANSWER")]},
        "Look",
        False,
    ),
    (
        "openai-chat",
        {"messages": [user("Rename it\n\n# *SEARCH/REPLACE block* Rules:\n\nEvery"), ENVIRONMENT]},
        "Rename it",
        True,
    ),
]


@table(("api", "body", "text", "is_turn"), SAID)
def test_the_prompt_is_what_a_person_says(
    api: str, body: Any, text: str | None, is_turn: bool
) -> None:
    found = asked(api, body)
    assert (found.text, found.is_turn) == (text, is_turn)


def test_elements_that_never_end_are_searched_once_by_name() -> None:
    text = "<system-reminder>" * 100_000
    assert asked("openai-chat", {"messages": [user(text)]}).text == text


def metadata(**fields: str) -> list[Header]:
    return [("x-codex-turn-metadata", json.dumps(fields))]


TITLE = "<session>\nWhat is new?\n</session>\n\nWrite the title in English."
ROUTER = {"parts": texts("\nYou are a specialized Task Routing AI. Your sole function is to …")}
QWEN_SUBAGENT = "You are a general-purpose subagent working for a parent agent."
GENERATOR = "You are a title generator. You output ONLY a thread title."

PURPOSES: list[tuple[str, Any, list[Header], str]] = [
    ("anthropic", {"messages": [user("Fix it")]}, [], "turn"),
    ("anthropic", {"messages": [user(TITLE)]}, [], "title"),
    (
        "anthropic",
        {"messages": [user("x")], "system": texts("billing", "You are naming a coding session")},
        [],
        "title",
    ),
    ("anthropic", {"messages": [user("x")]}, [("X-Claude-Code-Agent-Id", "a1")], "subagent"),
    (
        "anthropic",
        {"messages": [user("x")]},
        [("x-claude-code-request-class", "compaction")],
        "compaction",
    ),
    (
        "anthropic",
        {"messages": [user("x")]},
        [("x-claude-code-request-class", "auxiliary")],
        "helper",
    ),
    ("gemini", {"contents": [{"parts": texts("x")}], "systemInstruction": ROUTER}, [], "router"),
    (
        "openai-responses",
        {"input": [{"role": "developer", "content": GENERATOR}, user("x")]},
        [],
        "title",
    ),
    (
        "openai-chat",
        {"messages": [{"role": "system", "content": GENERATOR}, user("x")]},
        [],
        "title",
    ),
    ("openai-responses", {"input": "x"}, metadata(request_kind="turn"), "turn"),
    ("openai-responses", {"input": []}, metadata(request_kind="prewarm"), "prewarm"),
    ("openai-responses", {"input": []}, metadata(request_kind="memory"), "memory"),
    (
        "openai-responses",
        {"input": []},
        [*FORKED, *metadata(request_kind="compaction")],
        "compaction",
    ),
    ("openai-responses", {"input": "x"}, FORKED, "subagent"),
    (
        "openai-chat",
        {"messages": [user("### Task:\nGenerate a concise, 3-5 word title with an emoji …")]},
        [],
        "title",
    ),
    (
        "openai-chat",
        {"messages": [user("### Task:\nGenerate 1-3 broad tags categorizing …")]},
        [],
        "helper",
    ),
    (
        "openai-chat",
        {"messages": [user("### Task:\nSuggest 3-5 relevant follow-up questions or …")]},
        [],
        "helper",
    ),
    (
        "openai-chat",
        {"messages": [user("### Task:\nBe funny.\n<chat_history>\n</chat_history>")]},
        [],
        "helper",
    ),
    ("openai-chat", {"messages": [user("### Task:\nWrite a parser.")]}, [], "turn"),
    (
        "anthropic",
        {"messages": [user("Your task: Create a 2-4 word title for this conversation.\n…")]},
        [],
        "title",
    ),
    (
        "openai-chat",
        {"messages": [system("Generate concise conversation titles."), user("x")]},
        [],
        "title",
    ),
    ("openai-responses", {"input": "Please say 'hello, world'"}, [], "helper"),
    ("openai-responses", {"input": "Please say 'hello, world' in C"}, [], "turn"),
    (
        "openai-chat",
        {"messages": [system(f"{QWEN_SUBAGENT} Complete only …"), user("x")]},
        [],
        "subagent",
    ),
]


@table(("api", "body", "headers", "purpose"), PURPOSES)
def test_a_request_says_what_it_is_for(
    api: str, body: Any, headers: list[Header], purpose: str
) -> None:
    assert place(api, body, headers).purpose == purpose


@pytest.mark.parametrize(
    "prompt",
    [
        "You are a title generator for time tracking entries. Output ONLY a brief title.",
        "You are an expert code-editing assistant. Answer in French.",
    ],
)
def test_a_program_of_a_person_s_own_has_turns(prompt: str) -> None:
    assert (
        place(
            "openai-chat", {"messages": [{"role": "system", "content": prompt}, user("x")]}
        ).purpose
        == "turn"
    )
    edit = "You are an expert code-editing assistant. Your task is to analyze a failed edit attempt and provide …"
    assert (
        place("openai-chat", {"messages": [{"role": "system", "content": edit}, user("x")]}).purpose
        == "helper"
    )
    text_only = "CRITICAL: Respond with TEXT ONLY. No markdown."
    assert place("openai-chat", {"messages": [user(text_only)]}).purpose == "turn"


@pytest.mark.parametrize(
    ("api", "method", "path"),
    [
        ("other", "HEAD", "/api/hello"),
        ("other", "GET", "/v1/models"),
        ("anthropic", "POST", "/v1/messages/count_tokens"),
        ("gemini", "POST", "/v1beta/models/gemini-3:countTokens"),
    ],
)
def test_what_generates_nothing_is_a_probe(api: str, method: str, path: str) -> None:
    assert place(api, {}, method=method, path=path).purpose == "probe"


def test_of_an_api_that_is_not_understood_nobody_knows() -> None:
    assert place("other", {}).purpose is None


def test_a_request_names_the_thread_that_began_its_own() -> None:
    assert place("openai-responses", {}, FORKED).parent_thread_id == MAIN
    assert (
        place("anthropic", {}, [("x-claude-code-parent-agent-id", "a1")]).parent_thread_id == "a1"
    )
    assert place("openai-responses", {}).parent_thread_id is None
