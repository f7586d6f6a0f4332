"""The items of the Responses format state themselves; results come back in the stream and in
requests.
"""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest

from recorder.model.facts import (
    ItemFinished,
    ItemStarted,
    ItemState,
    MalformedPayload,
    RequestFacts,
    ResponseFinished,
    ResponseItems,
    ResponseStarted,
    TextAdded,
    TextFinished,
    ToolResult,
    UnknownType,
)
from recorder.wire.dialects.json_values import NESTING_LIMIT
from recorder.wire.dialects.openai_responses import DIALECT
from recorder.wire.dialects.openai_responses.items import ITEM_TYPES
from tests.support.facts import Json, asked, document, item_event, of, tell
from tests.support.tables import table


def stated(item: Json) -> ItemState:
    """What an item says at its end, the same in its own event and in the response."""
    [finished] = of(ItemFinished, tell(item_event("done", item)))
    [restated] = of(ResponseItems, document({"object": "response", "output": [item]}))
    assert restated.items == (finished.stated,)
    return finished.stated


def arguments(item: Json) -> Any:
    """What a tool is called with, which is JSON."""
    [(field, part, said)] = stated(item).texts
    assert (field, part) == ("arguments", 0)
    return json.loads(said)


# -- items


def test_a_message_states_all_of_itself() -> None:
    text = {
        "type": "output_text",
        "text": "a",
        "annotations": [{"type": "x"}],
        "logprobs": [{"token": "a"}],
    }
    content = [text, {"type": "refusal", "refusal": "b"}, {"type": "from_tomorrow"}]
    said: Json = {"role": "assistant", "status": "completed", "phase": "final_answer"}
    assert stated({"type": "message", "id": "m1", **said, "content": content}) == ItemState(
        *("message", "message", "m1"),
        **said,
        texts=(("text", 0, "a"), ("refusal", 1, "b")),
        annotations=('{"type":"x"}',),
        logprobs='[{"token":"a"}]',
    )


def test_reasoning_states_its_summary_its_text_and_whether_more_is_hidden() -> None:
    summary = [{"type": "summary_text", "text": text} for text in "ab"]
    item = {
        "type": "reasoning",
        "summary": summary,
        "content": [{"type": "reasoning_text", "text": "c"}],
    }
    said = stated({**item, "encrypted_content": "gAAA"})
    assert said.texts == (("summary", 0, "a"), ("summary", 1, "b"), ("reasoning", 0, "c"))
    assert said.kind == "reasoning"
    assert said.encrypted
    assert not stated({**item, "encrypted_content": None}).encrypted


CALLS: list[tuple[Json, str, Any]] = [
    ({"type": "function_call", "name": "f", "arguments": '{"a":1}'}, "f", {"a": 1}),
    ({"type": "custom_tool_call", "name": "sql", "input": '"select"'}, "sql", "select"),
    ({"type": "mcp_call", "name": "look", "arguments": "{}"}, "look", {}),
    ({"type": "multi_agent_call", "action": "spawn_agent", "arguments": "{}"}, "spawn_agent", {}),
    ({"type": "tool_search_call", "arguments": {"paths": ["x"]}}, "tool_search", {"paths": ["x"]}),
    ({"type": "program", "code": "1"}, "program", 1),
    ({"type": "code_interpreter_call", "code": "1"}, "code_interpreter", 1),
    ({"type": "file_search_call", "queries": ["q"]}, "file_search", {"queries": ["q"]}),
    (
        {"type": "web_search_call", "action": {"query": "q", "sources": []}},
        "web_search",
        {"query": "q"},
    ),
    (
        {"type": "image_generation_call", "revised_prompt": "p"},
        "image_generation",
        {"revised_prompt": "p"},
    ),
    (
        {"type": "local_shell_call", "action": {"command": ["ls"]}},
        "local_shell",
        {"command": ["ls"]},
    ),
    ({"type": "shell_call", "action": {"commands": ["ls"]}}, "shell", {"commands": ["ls"]}),
    (
        {"type": "apply_patch_call", "operation": {"type": "delete_file"}},
        "apply_patch",
        {"type": "delete_file"},
    ),
    ({"type": "computer_call", "action": {"type": "wait"}}, "computer", {"type": "wait"}),
    ({"type": "computer_call", "actions": [{"type": "wait"}]}, "computer", [{"type": "wait"}]),
]


@table(("item", "name", "called_with"), CALLS)
def test_a_call_has_a_name_and_what_it_is_called_with(
    item: Json, name: str, called_with: Any
) -> None:
    assert stated(item).kind == "tool_call"
    assert stated(item).name == name
    assert arguments(item) == called_with


IMAGE = {"size_bytes": 3, "sha256": sha256(b"png").hexdigest()}
NO_IMAGE = {"size_bytes": 10, "sha256": sha256(b"no base64!").hexdigest()}
NOTHING: Json = {"results": None, "outputs": [], "status": "completed"}
DATA_URL = f"data:image/png;base64,{b64encode(b'png').decode()}"
OUTPUTS: list[tuple[Json, Any]] = [
    ({"type": "file_search_call", "results": [{"file_id": "f"}]}, [{"file_id": "f"}]),
    ({"type": "web_search_call", "action": {"sources": [{"url": "u"}]}}, [{"url": "u"}]),
    ({"type": "code_interpreter_call", "outputs": [{"logs": "1"}]}, [{"logs": "1"}]),
    (
        {"type": "code_interpreter_call", "outputs": [{"url": DATA_URL}]},
        [{"url": {"mime_type": "image/png", **IMAGE}}],
    ),
    ({"type": "mcp_call", "output": '{"a":1}'}, {"a": 1}),
    ({"type": "image_generation_call", "result": b64encode(b"png").decode()}, {"images": [IMAGE]}),
    ({"type": "image_generation_call", "result": "no base64!"}, {"images": [NO_IMAGE]}),
    *(({"type": type, **NOTHING}, None) for type in ("file_search_call", "web_search_call")),
    *(({"type": type, **NOTHING}, None) for type in ("code_interpreter_call", "mcp_call")),
]


@table(("item", "output"), OUTPUTS)
def test_what_a_tool_of_the_provider_gave_is_its_output(item: Json, output: Any) -> None:
    said = stated(item).output
    assert (None if said is None else json.loads(said)) == output


FAILURES: list[tuple[Json, bool | None]] = [
    ({"type": "mcp_call", "output": None, "error": "it broke"}, True),
    ({"type": "mcp_call", "error": {"message": "no"}}, True),
    ({"type": "web_search_call", "status": "failed"}, True),
    ({"type": "mcp_call", "status": "completed", "output": "fine"}, False),
    ({"type": "function_call", "status": "completed"}, None),
]


@pytest.mark.parametrize(("item", "failed"), FAILURES)
def test_whether_a_tool_of_the_provider_failed(item: Json, failed: bool | None) -> None:
    assert stated(item).failed is failed
    assert stated({"type": "mcp_call", "output": None, "error": "it broke"}).output == "it broke"


def test_an_item_of_unknown_type_is_kept_and_told_once() -> None:
    item = {"type": "dream", "id": "d1"}
    end = {"type": "response.completed", "response": {"output": [item]}}
    facts = tell(item_event("added", item), item_event("done", item), end)
    assert of(UnknownType, facts) == [UnknownType("dream")]
    assert [fact.stated.kind for fact in of(ItemStarted, facts)] == ["other"]
    assert [fact.stated.item_id for fact in of(ItemFinished, facts)] == ["d1"]


def test_an_item_that_begins_says_what_it_has_and_has_nothing_given_back_yet() -> None:
    [fact] = tell(
        item_event("added", {"type": "web_search_call", "action": {"sources": [{"url": "u"}]}})
    )
    assert fact == ItemStarted(0, 0, ItemState("tool_call", "web_search_call", name="web_search"))
    facts = tell(
        item_event(
            "added", {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"}
        )
    )
    begun = ItemState(
        "tool_call", "function_call", name="f", call_id="c", texts=(("arguments", 0, "{}"),)
    )
    assert facts == [ItemStarted(0, 0, begun)]


CALLS_OF_XAI = [
    "web_search_call",
    "x_search_call",
    "code_execution_call",
    "view_image_call",
    "view_x_video_call",
]


@table("type", [*CALLS_OF_XAI, "file_search_call", "code_interpreter_call", "computer_call"])
def test_a_call_of_any_type_may_have_its_arguments_as_a_text(type: str) -> None:
    said = stated({"type": type, "id": "ws_1", "name": "web_search", "arguments": '{"query":"x"}'})
    assert (said.kind, said.name, said.texts) == (
        "tool_call",
        "web_search",
        (("arguments", 0, '{"query":"x"}'),),
    )


def test_an_action_stands_above_arguments() -> None:
    said = stated(
        {"type": "web_search_call", "action": {"type": "search", "query": "y"}, "arguments": "{}"}
    )
    assert said.texts == (("arguments", 0, '{"type":"search","query":"y"}'),)


def test_items_of_no_kind_say_all_that_they_say() -> None:
    listed = stated(
        {
            "type": "mcp_list_tools",
            "id": "mcpl_1",
            "server_label": "docs",
            "tools": [{"name": "find"}],
        }
    )
    assert (listed.kind, listed.output) == (
        "other",
        '{"server_label":"docs","tools":[{"name":"find"}]}',
    )
    failed = stated(
        {"type": "mcp_list_tools", "server_label": "docs", "tools": [], "error": {"code": 1}}
    )
    assert (failed.output, failed.failed) == ('{"code":1}', True)
    request = {
        "type": "mcp_approval_request",
        "name": "find",
        "server_label": "docs",
        "arguments": "{}",
    }
    assert stated(request).texts == (("arguments", 0, "{}"),)
    assert (stated(request).name, stated(request).output) == ("find", '{"server_label":"docs"}')
    answer = {
        "type": "mcp_approval_response",
        "id": "a",
        "approval_request_id": "mcpr_1",
        "approve": False,
    }
    assert stated(answer).output == '{"approval_request_id":"mcpr_1","approve":false}'
    assert stated({"type": "from_tomorrow", "id": "x", "light": 1}).output == '{"light":1}'
    assert stated({"type": "compaction", "id": "x", "encrypted_content": "AAAA"}).output is None


def test_a_content_part_that_nobody_knows_is_told_once() -> None:
    message = {
        "type": "message",
        "content": [{"type": "smell"}, {"type": "output_text", "text": "a"}],
    }
    facts = tell(item_event("added", message), item_event("done", message))
    assert of(UnknownType, facts) == [UnknownType("smell")]


@pytest.mark.parametrize("step", ["added", "done"])
def test_an_item_event_without_its_item_is_malformed(step: str) -> None:
    assert of(
        MalformedPayload,
        tell({"type": f"response.output_item.{step}", "output_index": 0, "item": [1]}),
    )


# -- arguments that are streamed as something else


def patch(diff: str) -> Json:
    return {
        "type": "apply_patch_call",
        "operation": {"type": "create_file", "diff": diff, "path": "a.md"},
    }


def shell(*commands: str) -> Json:
    return {"type": "shell_call", "action": {"timeout_ms": None, "commands": list(commands)}}


def diff_delta(delta: str) -> Json:
    return {
        "type": "response.apply_patch_call_operation_diff.delta",
        "output_index": 0,
        "delta": delta,
    }


def command_delta(index: int, delta: str) -> Json:
    return {
        "type": "response.shell_call_command.delta",
        "output_index": 0,
        "command_index": index,
        "delta": delta,
    }


DRAFTS = [
    (patch(""), [diff_delta("+a\n"), diff_delta('+"b"')], patch('+a\n+"b"')),
    (
        shell(),
        [command_delta(0, "l"), command_delta(0, "s"), command_delta(1, "pwd")],
        shell("ls", "pwd"),
    ),
]


@pytest.mark.parametrize(("empty", "deltas", "full"), DRAFTS)
def test_a_draft_comes_to_what_the_item_states(empty: Json, deltas: list[Json], full: Json) -> None:
    facts = tell(item_event("added", empty), *deltas, item_event("done", full))
    [finished] = of(ItemFinished, facts)
    written = "".join(fact.text for fact in of(TextAdded, facts))
    assert finished.stated.texts == (("arguments", 0, written),)
    assert json.loads(written) == full.get("operation", full.get("action"))


def test_a_draft_that_the_item_contradicts_is_left_as_it_was() -> None:
    facts = tell(item_event("added", patch("")), diff_delta("+a"), item_event("done", patch("+b")))
    assert [fact.text for fact in of(TextAdded, facts)] == [
        '{"type":"create_file","path":"a.md","diff":"+a'
    ]


def test_a_draft_whose_beginning_was_missed_is_left_to_the_item() -> None:
    facts = tell(diff_delta("+a"), item_event("done", patch("+a")))
    assert not of(TextAdded, facts)
    assert of(ItemFinished, facts)[0].stated.texts


# -- results


def test_a_shell_prints_on_two_streams() -> None:
    where = {"output_index": 1, "item_id": "sho", "command_index": 2}
    delta = {
        "type": "response.shell_call_output_content.delta",
        **where,
        "delta": {"stdout": "a", "stderr": "b"},
    }
    done = {
        "type": "response.shell_call_output_content.done",
        **where,
        "output": [{"stdout": "a", "stderr": "b"}],
    }
    added, settled = of(TextAdded, tell(delta, done)), of(TextFinished, tell(delta, done))
    assert [(fact.part, fact.text) for fact in added] == [(4, "a"), (5, "b")]
    assert [(fact.part, fact.text) for fact in settled] == [(4, "a"), (5, "b")]


def test_a_result_within_the_stream_is_returned_once_and_kept_as_an_item() -> None:
    item = {
        "type": "shell_call_output",
        "call_id": "c1",
        "output": [{"outcome": {"type": "exit", "exit_code": 0}}],
    }
    facts = tell(
        item_event("done", item), {"type": "response.completed", "response": {"output": [item]}}
    )
    output = '[{"outcome":{"type":"exit","exit_code":0}}]'
    assert of(ToolResult, facts) == [ToolResult("c1", "shell", output, False)]
    assert [each.kind for fact in of(ResponseItems, facts) for each in fact.items] == ["other"]


def test_a_result_that_only_the_end_has_is_returned_after_its_call() -> None:
    output = [
        {"type": "program", "call_id": "c"},
        {"type": "program_output", "call_id": "c", "result": "7"},
    ]
    facts = tell({"type": "response.completed", "response": {"output": output}})
    assert [type(fact) for fact in facts] == [
        ResponseStarted,
        ResponseItems,
        ToolResult,
        ResponseFinished,
    ]


def exited(code: int, **more: Any) -> list[Json]:
    return [{"stdout": "", "outcome": {"type": "exit", "exit_code": code}, **more}]


FUNCTION, PATCH, SHELL = "function_call_output", "apply_patch_call_output", "shell_call_output"
RESULTS: list[tuple[Json, bool | None]] = [
    ({"type": FUNCTION, "output": "Exit code: 1"}, None),
    ({"type": FUNCTION, "output": "{broken"}, None),
    ({"type": FUNCTION, "output": '{"error": "no such city"}'}, True),
    ({"type": FUNCTION, "output": [{"type": "input_text", "text": '{"isError": true}'}]}, True),
    ({"type": FUNCTION, "output": '{"exit_code": 1}'}, True),
    ({"type": FUNCTION, "output": '{"output": "", "metadata": {"exit_code": 0}}'}, False),
    ({"type": FUNCTION, "output": '{"exit_code": "1"}'}, None),
    ({"type": FUNCTION, "output": "", "status": "incomplete"}, True),
    ({"type": FUNCTION, "output": "", "status": "completed"}, None),
    ({"type": PATCH, "status": "completed"}, False),
    ({"type": PATCH, "status": "failed", "output": "no such file"}, True),
    ({"type": SHELL, "output": [*exited(0), *exited(2)]}, True),
    ({"type": SHELL, "output": exited(0)}, False),
    ({"type": SHELL, "output": [{"outcome": {"type": "timeout"}}]}, True),
    ({"type": SHELL, "output": []}, None),
    ({"type": "computer_call_output", "output": {"type": "computer_screenshot"}}, None),
]


@table(("item", "failed"), RESULTS)
def test_a_result_failed_if_one_of_its_fields_says_so(item: Json, failed: bool | None) -> None:
    [result] = asked(input=[{**item, "call_id": "c1"}]).results
    assert (result.call_id, result.failed) == ("c1", failed)


SHOWN = json.dumps(
    [{"type": "input_image", "image_url": {"mime_type": "image/png", **IMAGE}}],
    separators=(",", ":"),
)
TEXTS: list[tuple[Any, str]] = [
    ("plain", "plain"),
    (None, ""),
    ([{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}], "a\nb"),
    ([{"type": "input_image", "image_url": DATA_URL}], SHOWN),
    (
        [{"type": "input_image", "image_url": "https://x"}],
        '[{"type":"input_image","image_url":"https://x"}]',
    ),
]


@table(("output", "said"), TEXTS)
def test_a_result_is_text_or_json_without_images(output: Any, said: str) -> None:
    [result] = asked(input=[{"type": FUNCTION, "call_id": "c", "output": output}]).results
    assert result.output == said


@table("type", sorted(type for type in ITEM_TYPES if type.endswith("_output")))
def test_every_output_item_is_a_result(type: str) -> None:
    assert [each.call_id for each in asked(input=[{"type": type, "call_id": "c1"}]).results] == [
        "c1"
    ]


def test_a_result_may_nest_as_deep_as_json_is_read() -> None:
    deep: Any = []
    for _ in range(NESTING_LIMIT - 4):
        deep = [deep]
    assert len(asked(input=[{"type": "function_call_output", "output": deep}]).results) == 1


# -- requests


def test_a_request_says_model_stream_and_what_a_person_wrote() -> None:
    said = asked(model="m", stream=True, input="hi")
    assert said == RequestFacts("m", True, "hi", True, items=1, parameters=said.parameters)


def user(*texts: str) -> Json:
    return {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": text} for text in texts],
    }


INPUTS: list[tuple[Any, str | None, bool]] = [
    ([{"role": "user", "content": "a"}], "a", True),
    ([user("a"), {"role": "assistant", "content": "no"}], "a", False),
    ([user("a", "b")], "b", True),
    ([user("a"), {"type": FUNCTION, "output": "7"}], "a", False),
    ([user("a"), user("<environment_context>\n<cwd>/</cwd>\n</environment_context>\n")], "a", True),
    ([user("a", '<note lang="en">x</note>')], "a", True),
    ([user("<b>bold</b> and more")], "<b>bold</b> and more", True),
    ([user("<b>one</b><b>two</b>")], "<b>one</b><b>two</b>", True),
    ([user()], None, True),
    ([], None, False),
    ([7, None, "x"], None, False),
    ({}, None, False),
]


@table(("input", "said", "is_turn"), INPUTS)
def test_the_last_thing_that_a_person_wrote(input: Any, said: str | None, is_turn: bool) -> None:
    request = asked(input=input)
    assert (request.text, request.is_turn) == (said, is_turn)


@pytest.mark.parametrize(
    "body", [b"", b"no json", b"[1]", b'{"input":{"a":[]},"stream":"yes","model":7}']
)
def test_a_request_that_says_nothing_asks_for_nothing(body: bytes) -> None:
    said = DIALECT.request_facts("/v1/responses/resp_1", body)
    assert said == RequestFacts(parameters=said.parameters)
