"""`recorder export --format chat`: each conversation of the four APIs as one line that OpenAI takes
for fine-tuning.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam
from pydantic import TypeAdapter

from tests.support.conversations import Conversations, call, message, response, thought
from tests.support.corpus import DATA
from tests.support.server import Ran, run

MESSAGES = TypeAdapter(list[ChatCompletionMessageParam])
TOOLS = TypeAdapter(list[ChatCompletionFunctionToolParam])

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PNG = "data:image/png;base64,iVBORw0KGgo="
FILES = DATA / "cassettes"
SESSIONS = DATA / "cached_sessions"

SYSTEM = {"role": "system", "content": "Be brief."}
QUESTION = {"role": "user", "content": "Is it warm in Bern?"}
ANSWER = {"role": "assistant", "content": "Yes, 18 degrees."}
FUNCTION = {"name": "weather", "description": "Weather", "parameters": SCHEMA}


def calling(id: str, content: str | None = None) -> dict[str, Any]:
    function = {"name": "weather", "arguments": '{"city":"Bern"}'}
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [{"id": id, "type": "function", "function": function}],
    }


def returned(id: str, text: str = "18") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": text}


def check(line: Mapping[str, Any]) -> None:
    """Raise `AssertionError` for a line that OpenAI's fine-tuning of chat models would refuse.

    The rules are those of its guide "Supervised fine-tuning" (the data format, and function calling
    in it): known members and roles, an answer at the end, each call with its result after it,
    arguments that are JSON.
    """
    assert line.keys() <= {"messages", "tools", "parallel_tool_calls"}
    messages = line["messages"]
    assert messages[-1]["role"] == "assistant"
    assert any(each["role"] == "user" for each in messages)
    waiting: list[str] = []
    names = {tool["function"]["name"] for tool in line.get("tools", ())}
    for each in messages:
        assert each["role"] in {"system", "developer", "user", "assistant", "tool"}
        assert each.keys() <= {"role", "content", "tool_calls", "tool_call_id"}
        if each["role"] == "tool":
            waiting.remove(each["tool_call_id"])
            assert isinstance(each["content"], str)
            continue
        assert not waiting, "a call has no result"
        assert each["content"] or each.get("tool_calls"), "a message says nothing"
        for one in each.get("tool_calls", ()):
            assert one["type"] == "function"
            assert one["function"]["name"] in names
            assert isinstance(json.loads(one["function"]["arguments"]), dict)
            waiting.append(one["id"])
    MESSAGES.validate_python(messages)
    TOOLS.validate_python(line.get("tools", []))


def lines(ran: Ran) -> list[dict[str, Any]]:
    assert ran.code == 0, ran.err
    found = [json.loads(line) for line in ran.out.splitlines()]
    for each in found:
        check(each)
    return found


@pytest.fixture
def made(tmp_path: Path) -> Conversations:
    return Conversations(tmp_path / "recorder.db")


# -- the APIs


def document_of(api: str, target: str) -> dict[str, Any]:
    """The fields of an exchange whose answer is not a stream."""
    return {"api": api, "target": target, "content_type": "application/json"}


def add_responses(made: Conversations) -> None:
    tools = [{"type": "function", "strict": True, **FUNCTION}, {"type": "web_search"}]
    session = made.session("s")
    about = {
        "model": "m",
        "instructions": "Be brief.",
        "tools": tools,
        "parallel_tool_calls": False,
    }
    asked = {**about, "input": "Is it warm in Bern?"}
    frames = response(
        *thought("Hm."), *call("weather", '{"city":"Bern"}', index=1, call_id="call_a"), id="resp_1"
    )
    session.exchange(frames, body=asked)
    result = {"type": "function_call_output", "call_id": "call_a", "output": "18"}
    asked = {**about, "previous_response_id": "resp_1", "input": [result]}
    session.exchange(response(*message("Yes, ", "18 degrees."), id="resp_2"), body=asked, at_s=2)


def add_chat(made: Conversations) -> None:
    asked: dict[str, Any] = {"model": "m", "tools": [{"type": "function", "function": FUNCTION}]}
    session, kind = made.session("s"), document_of("openai-chat", "/v1/chat/completions")

    def answer(**given: Any) -> list[bytes]:
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": None, **given},
        }
        return [
            json.dumps(
                {"object": "chat.completion", "id": "c", "model": "m", "choices": [choice]}
            ).encode()
        ]

    begun = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Is it warm in Bern?"},
    ]
    session.exchange(
        answer(tool_calls=calling("call_a")["tool_calls"]),
        body={**asked, "messages": begun},
        **kind,
    )
    # by a schema of the client
    filled = {"name": "weather", "arguments": '{"city": "Bern", "unit": "C"}'}
    repeated = {
        **calling("call_a"),
        "tool_calls": [{"id": "call_a", "type": "function", "function": filled}],
    }
    begun += [repeated, returned("call_a")]
    session.exchange(
        answer(content="Yes, 18 degrees."), body={**asked, "messages": begun}, at_s=2, **kind
    )


def add_anthropic(made: Conversations) -> None:
    tool = {"name": "weather", "description": "Weather", "input_schema": SCHEMA}
    billing = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2"}
    system = [
        billing,
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
    ]
    asked = {
        "model": "m",
        "max_tokens": 9,
        "system": system,
        "tools": [tool, {"type": "web_search_20250305"}],
    }
    session, kind = made.session("s"), document_of("anthropic", "/v1/messages")

    def answer(*content: Any, reason: str) -> list[bytes]:
        about = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "stop_reason": reason,
        }
        return [
            json.dumps(
                {**about, "content": content, "usage": {"input_tokens": 1, "output_tokens": 1}}
            ).encode()
        ]

    question = {"role": "user", "content": [{"type": "text", "text": "Is it warm in Bern?"}]}
    content = [
        {"type": "thinking", "thinking": "Hm.", "signature": "x"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Bern"}},
    ]
    session.exchange(
        answer(*content, reason="tool_use"), body={**asked, "messages": [question]}, **kind
    )
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": [{"type": "text", "text": "18"}],
    }
    went_on = [
        question,
        {"role": "assistant", "content": content},
        {"role": "user", "content": [result]},
    ]
    said = {"type": "text", "text": "Yes, 18 degrees."}
    session.exchange(
        answer(said, reason="end_turn"), body={**asked, "messages": went_on}, at_s=2, **kind
    )


def add_gemini(made: Conversations) -> None:
    upper = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]}
    tools = [{"functionDeclarations": [{**FUNCTION, "parameters": upper}]}, {"googleSearch": {}}]
    asked = {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "tools": tools}
    session, kind = made.session("s"), document_of("gemini", "/v1beta/models/m:generateContent")

    def answer(*parts: Any) -> list[bytes]:
        candidate = {
            "content": {"role": "model", "parts": parts},
            "finishReason": "STOP",
            "index": 0,
        }
        return [
            json.dumps({"candidates": [candidate], "modelVersion": "m", "responseId": "r"}).encode()
        ]

    question = {"role": "user", "parts": [{"text": "Is it warm in Bern?"}]}
    called = {"functionCall": {"name": "weather", "args": {"city": "Bern"}}}
    session.exchange(
        answer({"text": "Hm.", "thought": True}, called),
        body={**asked, "contents": [question]},
        **kind,
    )
    result = {"functionResponse": {"name": "weather", "response": {"degrees": 18}}}
    went_on = [question, {"role": "model", "parts": [called]}, {"role": "user", "parts": [result]}]
    session.exchange(
        answer({"text": "Yes, 18 degrees."}), body={**asked, "contents": went_on}, at_s=2, **kind
    )


@pytest.mark.parametrize(
    ("add", "middle", "lost"),
    [
        (add_responses, [calling("call_a"), returned("call_a")], "tools of the provider (1)"),
        (add_chat, None, ""),
        (
            add_anthropic,
            [calling("toolu_1", "I look."), returned("toolu_1")],
            "tools of the provider (1), reasoning (1)",
        ),
        (
            add_gemini,
            [calling("call_1"), returned("call_1", '{"degrees":18}')],
            "tools of the provider (1)",
        ),
    ],
)
def test_the_last_exchange_has_the_conversation(
    made: Conversations, add: Callable[[Conversations], None], middle: list[Any] | None, lost: str
) -> None:
    add(made)
    ran = run(made.path, "export", "s", "--format", "chat")
    [line] = lines(ran)
    filled = {"name": "weather", "arguments": '{"city": "Bern", "unit": "C"}'}
    call_a = {
        **calling("call_a"),
        "tool_calls": [{"id": "call_a", "type": "function", "function": filled}],
    }
    assert line["messages"] == [SYSTEM, QUESTION, *(middle or [call_a, returned("call_a")]), ANSWER]
    strict = {"strict": True} if add is add_responses else {}
    assert line["tools"] == [{"type": "function", "function": {**FUNCTION, **strict}}]
    assert line.get("parallel_tool_calls") is (False if add is add_responses else None)
    if add is add_responses:
        lost = "tools of the provider (1), reasoning (1)"
    assert ran.err.strip() == (f"Chat messages do not hold: {lost}." if lost else "")


@pytest.mark.parametrize("add", [add_responses, add_chat, add_anthropic, add_gemini])
def test_one_exchange_can_be_had_although_others_continue_it(
    made: Conversations, add: Callable[[Conversations], None]
) -> None:
    add(made)
    [line] = lines(run(made.path, "export", "s", "--format", "chat", "--exchange", 1))
    assert [each["role"] for each in line["messages"]] == ["system", "user", "assistant"]
    assert [one["function"]["name"] for one in line["messages"][-1]["tool_calls"]] == ["weather"]


# -- which exchanges are conversations


def asks(*said: str) -> dict[str, Any]:
    roles = ("user", "assistant")
    return {
        "model": "m",
        "input": [{"role": roles[at % 2], "content": text} for at, text in enumerate(said)],
    }


def test_a_conversation_that_was_forked_has_a_line_for_each_end(made: Conversations) -> None:
    session = made.session("s")
    session.exchange(response(*message("b"), id="resp_1"), body=asks("a"))
    session.exchange(response(*message("other"), id="resp_2"), body=asks("a"), at_s=2)
    session.exchange(response(*message("d"), id="resp_3"), body=asks("a", "b ", "c"), at_s=4)
    ends = [line["messages"] for line in lines(run(made.path, "export", "s", "--format", "chat"))]
    assert [[each["content"] for each in messages] for messages in ends] == [
        ["a", "other"],
        ["a", "b ", "c", "d"],
    ]


def test_exchanges_without_a_whole_answer_are_counted(made: Conversations) -> None:
    session = made.session("s")
    session.exchange(response(*message("b"), id="resp_1"), body=asks("a"))
    session.exchange(
        response(*message("b"), id="resp_2")[:2],
        body=asks("x"),
        at_s=2,
        outcome="client_disconnect",
    )
    session.exchange(response(*thought("Hm."), id="resp_3"), body=asks("y"), at_s=4)
    session.exchange([], body={"query": "z"}, at_s=6, api="other", target="/search")
    ran = run(made.path, "export", "s", "--format", "chat")
    assert len(lines(ran)) == 1
    [remark] = ran.err.strip().splitlines()
    assert remark.startswith("3 exchanges left out: ")
    for reason in (
        "of another API (1)",
        "with status client_disconnect (1)",
        "without words or calls of the model (1)",
    ):
        assert reason in remark


def test_a_conversation_that_begins_elsewhere_says_so(made: Conversations) -> None:
    session = made.session("s")
    session.exchange(
        response(*message("b"), id="resp_1"), body={**asks("a"), "previous_response_id": "resp_0"}
    )
    ran = run(made.path, "export", "s", "--format", "chat")
    assert len(lines(ran)) == 1
    assert (
        "The conversation of exchange 1 is not whole: response resp_0 was not recorded here."
        in ran.err
    )


def test_a_session_without_conversations_is_an_error(made: Conversations) -> None:
    made.session("s").exchange(response(id="resp_1")[:1], body=asks("a"), outcome="upstream_reset")
    ran = run(made.path, "export", "s", "--format", "chat")
    assert (ran.code, ran.out) == (3, b"")
    assert "There is no conversation with an answer in session s. 1 exchange left out:" in ran.err


# -- what has no place


def test_pictures_stay_and_other_media_are_counted(made: Conversations) -> None:
    content = [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": PNG, "detail": "low"},
        {"type": "input_image", "file_id": "file_1"},
        {"type": "input_file", "file_id": "file_2"},
    ]
    made.session("s").exchange(
        response(*message("Nice.")),
        body={"model": "m", "input": [{"role": "user", "content": content}]},
    )
    ran = run(made.path, "export", "s", "--format", "chat")
    [line] = lines(ran)
    assert line["messages"][0]["content"] == [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
    ]
    assert ran.err.strip() == "Chat messages do not hold: images without bytes (1), files (1)."


def test_tools_that_take_text_are_functions_with_one_argument(made: Conversations) -> None:
    items = [
        {"type": "message", "role": "user", "content": "Patch it."},
        {"type": "custom_tool_call", "call_id": "call_p", "name": "patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "call_p", "output": "Done"},
        {"type": "function_call", "call_id": "call_q", "name": "patch", "arguments": "{}"},
        {"type": "message", "role": "user", "content": "Stop. And now?"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    ]
    asked = {
        "model": "m",
        "input": items,
        "tools": [{"type": "custom", "name": "patch", "description": "Edits"}],
    }
    made.session("s").exchange(response(*message("Done.")), body=asked)
    ran = run(made.path, "export", "s", "--format", "chat")
    [line] = lines(ran)
    [one] = line["messages"][1]["tool_calls"]
    assert json.loads(one["function"]["arguments"]) == {"input": "*** Begin"}
    assert [each["role"] for each in line["messages"]] == [
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
    ]
    for lost in (
        "tools that take free text, written as functions (1)",
        "calls with free text, written as an argument (1)",
        "calls without their result (1)",
        "items of tools of the provider (1)",
    ):
        assert lost in ran.err


def test_tools_among_the_items_are_tools(made: Conversations) -> None:
    """Codex puts them there, in namespaces, and repeats them."""
    space = {"type": "namespace", "name": "functions", "tools": [{"type": "function", **FUNCTION}]}
    offered = {"type": "additional_tools", "role": "developer", "tools": [space]}
    items = [offered, {"role": "user", "content": "Hi"}, offered]
    made.session("s").exchange(response(*message("Hello.")), body={"model": "m", "input": items})
    ran = run(made.path, "export", "s", "--format", "chat")
    [line] = lines(ran)
    assert line["tools"] == [{"type": "function", "function": FUNCTION}]
    assert ran.err.strip() == "Chat messages do not hold: namespaces of tools (2)."


def test_half_a_character_is_escaped(made: Conversations) -> None:
    made.session("s").exchange(response(*message("b")), body=asks("half \ud83d"))
    ran = run(made.path, "export", "s", "--format", "chat")
    assert ran.code == 0
    assert json.loads(ran.out)["messages"][0]["content"] == "half \ud83d"


@pytest.mark.parametrize(
    ("client", "roles", "tool"),
    [
        ("claude", "system user system assistant tool", "Bash"),
        ("codex", "developer developer developer developer user user assistant tool", "exec"),
    ],
)
def test_agents_work_is_one_conversation(
    tmp_path: Path, client: str, roles: str, tool: str
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(gzip.decompress((SESSIONS / f"{client}-none.jsonl.gz").read_bytes()))
    assert run(tmp_path / "r.db", "import", path).code == 0
    [line] = lines(run(tmp_path / "r.db", "export", "run", "--format", "chat"))
    went_on = "assistant user assistant user assistant"
    assert " ".join(each["role"] for each in line["messages"]) == f"{roles} {went_on}"
    assert tool in {each["function"]["name"] for each in line["tools"]}


def test_what_a_real_program_did_is_a_conversation(tmp_path: Path) -> None:
    """The AI SDK drops an argument that its schema does not know when it repeats a call."""
    assert run(tmp_path / "r.db", "import", FILES / "generations.json").code == 0
    ran = run(tmp_path / "r.db", "export", "latest", "--format", "chat")
    made = lines(ran)
    assert [[each["role"] for each in line["messages"]] for line in made] == [
        ["user", "assistant", "tool", "tool", "assistant"],
        ["user", "assistant"],
        ["user", "assistant"],
    ]
    assert (
        "2 exchanges left out: without a request (1), with status client_disconnect (1)." in ran.err
    )
