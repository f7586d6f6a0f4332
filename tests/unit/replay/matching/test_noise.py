"""What is taken out of a request as noise, and what is not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from recorder.replay.matching.noise import DEFAULT_RULES, Rules, rules_from
from recorder.replay.matching.rules import DEFAULT
from tests.support.tables import table


def quiet(body: Any, rules: Rules = DEFAULT_RULES, others: dict[str, int] | None = None) -> Any:
    return rules.quiet(copy.deepcopy(body), others)[0]


def says(text: str) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": [{"type": "input_text", "text": text}]}]}


AGENTS = "01a20550-36d9-7951-b01a-a59f4c60b60a", "01a20550-59f6-7491-b3cf-ad21b33fcf0c"
OUTPUTS = "/tmp/claude-0/-a/5a28/tasks/b4.output", "/tmp/claude-0/-b/c5ed/tasks/bp.output"


def listed(tree: str) -> str:
    """What the Gemini CLI tells of the directory that it works in."""
    head = "<session_context>\n- **Directory Structure:**\n\nShowing up to 200 items (files + folders).\n\n"
    return f"{head}{tree}\n\n</session_context>"


def test_a_field_that_is_noise_leaves_no_trace_and_what_stands_beside_it_stays() -> None:
    metadata = {"user_id": '{"device_id":"d","session_id":"s"}'}
    fields = {
        "prompt_cache_key": "0199",
        "safety_identifier": "u-1",
        "client_metadata": {"session_id": "0199"},
    }
    for name, value in {**fields, "metadata": metadata}.items():
        assert quiet({"model": "m", name: value}) == {"model": "m"}
    assert quiet({"metadata": {**metadata, "topic": "t"}}) == {"metadata": {"topic": "t"}}


def of_ag_ui(*ids: str) -> dict[str, Any]:
    thread, run, message, call = ids
    called = {
        "id": message,
        "role": "assistant",
        "toolCalls": [{"id": call, "function": {"name": "look"}}],
    }
    told = {"id": f"{message}-2", "role": "tool", "toolCallId": call, "content": "ok"}
    return {"threadId": thread, "runId": run, "messages": [called, told], "state": {}, "tools": []}


def of_ai_sdk(*ids: str) -> dict[str, Any]:
    chat, message, part, call = ids
    parts = [
        {"type": "text", "text": "hi"},
        {"type": "tool-look", "toolCallId": call, "output": "ok"},
    ]
    messages = [
        {"id": message, "role": "user", "parts": parts},
        {"id": part, "role": "assistant", "parts": []},
    ]
    return {"id": chat, "messages": messages, "trigger": "submit-message"}


@pytest.mark.parametrize("of", [of_ag_ui, of_ai_sdk])
def test_what_an_app_calls_its_threads_runs_and_messages_is_noise(
    of: Callable[..., dict[str, Any]],
) -> None:
    assert quiet(of("t-1", "r-1", "m-1", "c-1")) == quiet(of("t-2", "r-2", "m-2", "c-2"))
    assert quiet(of("t-1", "r-1", "m-1", "c-1")) != quiet(of("t-2", "r-2", "m-2", "m-2"))


@table("body", [{"threadId": "1"}, {"runId": "1", "messages": []}, {"id": "1", "messages": []}])
def test_the_same_names_elsewhere_are_not(body: dict[str, Any]) -> None:
    assert quiet(body) == body


@table(
    ("one", "other"),
    [
        (
            "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=fa690;",
            "x-anthropic-billing-header: cc_version=2.1.38.ab1; cc_entrypoint=sdk-cli;",
        ),
        (
            "# currentDate\nToday's date is 2026-08-20.\n",
            "# currentDate\nToday's date is 2026-11-02.\n",
        ),
        ("Today's date: 2026-08-20", "Today's date: 2025-01-01"),
        (
            "Today's date is Saturday, May 23, 2026 (formatted)",
            "Today's date is Samstag, 7. März 2026 (formatted)",
        ),
        (
            "Chunk ID: 32268a\nWall time: 0.0334 seconds\nProcess exited with code 0\nOutput:\nhello\n",
            "Chunk ID: 066743\nWall time: 12 seconds\nProcess exited with code 0\nOutput:\nhello\n",
        ),
        (
            "Script completed\nWall time 0.1 seconds\nOutput:\n",
            "Script completed\nWall time 2.0 seconds\nOutput:\n",
        ),
        ('{"agent_id":"a","nickname":"Bohr"}', '{"agent_id":"a","nickname":"Epicurus"}'),
        (
            "<usage><duration_ms>214</duration_ms></usage>",
            "<usage><duration_ms>34100</duration_ms></usage>",
        ),
        (
            "Output: hello\nProcess Group PGID: 15958\n",
            "Output: hello\nProcess Group PGID: 29103\n",
        ),
        ("Output: \nBackground PIDs: 7, 15959\n", "Output: \nBackground PIDs: 16001\n"),
        (
            listed("/srv/app/\n└───f.txt\n"),
            listed("/srv/app/\n├───a.jsonl\n├───src/\n│   └───x.py\n└───f.txt\n"),
        ),
        (
            "gitStatus\n\nStatus:\n(clean)\n\nRecent commits:\n15ff83b first\n\nClaude",
            "gitStatus\n\nStatus:\n M x.py\n?? a.sse.jsonl\n\nRecent commits:\n0a1b2c3 second\n15ff83b first\n\nClaude",
        ),
        (listed("/srv/app/\n"), listed("/srv/app/\n└───a.sse.jsonl\n")),
        (
            "<current_date>2026-02-26</current_date><timezone>UTC</timezone>",
            "<current_date>2026-02-27</current_date><timezone>Europe/Vienna</timezone>",
        ),
    ],
)
def test_what_a_client_tells_of_its_surroundings_is_noise(one: str, other: str) -> None:
    assert quiet(says(one)) == quiet(says(other))


TWO = "<cwd>/srv/one</cwd><root>/srv/two</root> "


@table(
    ("one", "other"),
    [
        ("Wall time: 3 minutes", "Wall time: 4 minutes"),
        ("my nickname is Bohr", "my nickname is Epicurus"),
        (listed("/srv/app/\n") + "Delete it.", listed("/srv/app/\n") + "Keep it."),
        ("a Chunk ID: none", "a Chunk ID: some"),
        ("What happened on 2024-01-01?", "What happened on 2024-01-02?"),
        ("Today's date is 2026-08-20. Sum it up.", "Today's date is 2026-08-20. Sum it all up."),
        ("read /tmp/a/one.txt", "read /tmp/b/one.txt"),
        (
            "pyd_ai_0123456789abcdef0123456789abcdef is what?",
            "pyd_ai_fedcba9876543210fedcba9876543210 is what?",
        ),
        ("agentId: undefined,", "agentId: identifier,"),  # in a program that an agent reads
        (TWO + "read /srv/one/x", TWO + "read /srv/two/x"),
    ],
)
def test_what_a_person_says_is_no_noise(one: str, other: str) -> None:
    assert quiet(says(one)) != quiet(says(other))


@table(
    "context",
    [
        "<environment_context>\n  <cwd>{}</cwd>\n</environment_context>",
        "<env>\nWorking directory: {}\nIs directory a git repo: Yes",
        " - Primary working directory: {}\n",
        "I'm currently working in the directory: {}\n",
        "# AGENTS.md instructions for {}\n\n<INSTRUCTIONS>",
        "- **Workspace Directories:**\n  - {}\n",
        "<workspace_roots><root>{}</root></workspace_roots>",
        "The project's temporary directory is: {}\n",
        "### Skill roots\n- `r0` = `{}`\n### Available skills",
        "You have a persistent file-based memory at `{}/`. This directory already exists",
        "- **Global Personal Memory** (`{}`): Cross-project preferences",
    ],
)
def test_a_directory_that_is_told_is_noise_wherever_it_stands(context: str) -> None:
    def body(directory: str) -> dict[str, Any]:
        call = {
            "type": "function_call",
            "arguments": json.dumps({"cmd": f"cat {directory}/src/x.py"}),
        }
        return {"input": [*says(context.format(directory))["input"], call]}

    assert quiet(body("/home/me/project")) == quiet(body("/tmp/pytest-7/project"))
    assert quiet(body("/home/me/project")) != quiet(body("/home/me/project"), Rules(()))


def test_a_directory_is_found_as_a_whole_only() -> None:
    texts = ["/srv/app/x", "/srv/apple", "/usr/srv/app", "in /srv/app."]
    body = {"input": [*says("<cwd>/srv/app</cwd>")["input"], *texts]}
    assert quiet(body)["input"][1:] == [
        "<directory 0>/x",
        "/srv/apple",
        "/usr/srv/app",
        "in <directory 0>.",
    ]


def test_a_directory_within_another_is_found_first() -> None:
    def told(one: str, other: str) -> dict[str, Any]:
        return says(f"<cwd>{one}</cwd><root>{other}</root> read {other}/x")

    assert quiet(told("/srv/one", "/srv/one/inner")) == quiet(told("/srv/one", "/tmp/other"))


@pytest.mark.parametrize("directory", ["/", ".", "..", "C:\\"])
def test_what_could_stand_anywhere_is_taken_for_no_directory(directory: str) -> None:
    assert DEFAULT_RULES.quiet(says(f"<cwd>{directory}</cwd>"))[1] == {}


def of_responses(calls: Sequence[str], results: Sequence[str]) -> dict[str, Any]:
    called = [{"type": "function_call", "call_id": id, "name": "look"} for id in calls]
    return {
        "input": [
            *called,
            *({"type": "function_call_output", "call_id": id, "output": "ok"} for id in results),
        ]
    }


def of_chat(calls: Sequence[str], results: Sequence[str]) -> dict[str, Any]:
    called = [{"id": id, "function": {"name": "look"}} for id in calls]
    told = [{"role": "tool", "tool_call_id": id, "content": "ok"} for id in results]
    return {"messages": [{"role": "assistant", "tool_calls": called}, *told]}


def of_messages(calls: Sequence[str], results: Sequence[str]) -> dict[str, Any]:
    called = [{"type": "tool_use", "id": id, "name": "look"} for id in calls]
    told = [{"type": "tool_result", "tool_use_id": id, "content": "ok"} for id in results]
    return {
        "messages": [{"role": "assistant", "content": called}, {"role": "user", "content": told}]
    }


def of_gemini(calls: Sequence[str], results: Sequence[str]) -> dict[str, Any]:
    called = [{"functionCall": {"id": id, "name": "look"}} for id in calls]
    told = [{"functionResponse": {"id": id, "name": "look"}} for id in results]
    return {"contents": [{"role": "model", "parts": called}, {"role": "user", "parts": told}]}


def of_gemini_cli(calls: Sequence[str], results: Sequence[str]) -> dict[str, Any]:
    return {"request": of_gemini(calls, results)}


def of_gemini_count(calls: Sequence[str], results: Sequence[str]) -> dict[str, Any]:
    return {"generateContentRequest": of_gemini(calls, results)}


def of_converse(calls: Sequence[str], results: Sequence[str]) -> dict[str, Any]:
    called = [{"toolUse": {"toolUseId": id, "name": "look"}} for id in calls]
    told = [{"toolResult": {"toolUseId": id, "content": []}} for id in results]
    return {
        "messages": [{"role": "assistant", "content": called}, {"role": "user", "content": told}]
    }


@pytest.mark.parametrize(
    "of",
    [of_responses, of_chat, of_messages, of_gemini, of_gemini_cli, of_gemini_count, of_converse],
)
@pytest.mark.parametrize(
    "ids", [("UEQrLuTCV0U39k73", "i3fGT0aYvc2KpQ8h"), ("3f2a90c11", "b07d5e4aa"), ("1", "2")]
)
def test_an_id_that_joins_a_call_and_its_result_is_compared_by_what_it_joins(
    of: Callable[[Sequence[str], Sequence[str]], dict[str, Any]], ids: tuple[str, str]
) -> None:
    recorded = of(("call_a", "call_b"), ("call_a", "call_b"))
    assert quiet(of(ids, ids)) == quiet(recorded)
    assert quiet(of(ids, ids[::-1])) != quiet(recorded)
    assert quiet(of(ids, (ids[0], ids[0]))) != quiet(recorded)
    assert quiet(of(ids, ids), Rules(())) != quiet(recorded, Rules(()))


def test_ids_made_by_a_client_are_told_apart_but_not_by_their_letters() -> None:
    rules = rules_from({"ids": ["job-[0-9a-f]{2}"]})

    def jobs(*ids: str) -> dict[str, Any]:
        return {"jobs": [{"of": id} for id in ids]}

    assert quiet(jobs("job-1a", "job-2b", "job-1a"), rules) == quiet(
        jobs("job-3c", "job-1a", "job-3c"), rules
    )
    assert quiet(jobs("job-1a", "job-2b", "job-1a"), rules) != quiet(
        jobs("job-1a", "job-2b", "job-2b"), rules
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("msg_01a1fa6b-d756-7b62-8a31-927d4b4338d8", "msg_01a1fa6b-e1ef-7a81-9cb0-08c89f3e9ffd"),
        ("msg_926861b6-82ca-5cfe-950f-f97ec02a2fab", "msg_1597d75a-be7f-503d-b8db-6ef144a842eb"),
        ("amsg_01a20550-7c19-7f71-889d-3c73619d2154", "amsg_01a20550-e04a-76d3-81a9-5a7d28156376"),
    ],
)
def test_ids_that_codex_makes_are_noise(one: str, other: str) -> None:
    assert quiet({"input": [{"id": one}]}) == quiet({"input": [{"id": other}]})
    assert quiet({"input": [{"id": one}, {"id": one}]}) != quiet(
        {"input": [{"id": one}, {"id": other}]}
    )


@table(
    ("told", "one", "other"),
    [
        ('{{"agent_id":"{}"}}', *AGENTS),
        ('<subagent_notification>\n{{"agent_path":"{}"}}', *AGENTS),
        ("Process running with session ID {}\nOutput:\n", "86068", "1667"),
        (
            "agentId: {} (internal ID - do not mention to user.",
            "a0facf202446e758e",
            "a72b73ec22c17af52",
        ),
        ("<task-id>{}</task-id>", "a0facf202446e758e", "b4oeg3vmf"),
        ("Command running in background with ID: {}.", "b4oeg3vmf", "bpvn0vo5b"),
        ("Output is being written to: {}. You", *OUTPUTS),
        ("output_file: {}\nDo", *OUTPUTS),
        ("<output-file>{}</output-file>", *OUTPUTS),
        (
            '<task id="{}" state="completed">',
            "ses_dfaa9e1d2ffejfT2CZnXaaS8X5",
            "ses_dfaa9cf74ffevdErD7gTGfzZ4B",
        ),
    ],
)
def test_what_a_tool_returned_to_be_handed_back_is_noise_wherever_it_stands(
    told: str, one: str, other: str
) -> None:
    def body(id: str) -> dict[str, Any]:
        call = {"type": "function_call", "arguments": json.dumps({"target": id})}
        return {"input": [*says(told.format(id))["input"], call, {"output": f"of {id}: done"}]}

    assert quiet(body(one)) == quiet(body(other))
    assert one not in json.dumps(quiet(body(one)))
    assert list(DEFAULT_RULES.quiet(body(one)).client_ids) == [one]
    assert quiet(body(one)) != quiet({**body(one), "input": body(one)["input"][:2]})


@pytest.mark.timed
# thirty times what it takes; a rule that reads on to the end at each word takes a minute
@pytest.mark.timeout(30)
@pytest.mark.parametrize("words", ["", "\na", "\nStatus:\na"])
def test_no_text_is_slow_to_look_through(words: str) -> None:
    for rule in DEFAULT:
        if rule.hint:
            quiet(says((words or rule.hint) * (2**19 // len(words or rule.hint)) + rule.hint))
            quiet(says((rule.hint + words) * (2**19 // len(rule.hint + words))))


@pytest.mark.timeout(30)
def test_a_line_of_a_listing_that_does_not_end_is_read_once() -> None:
    quiet(says("**Directory Structure:**\n\n/srv\n\n/srv\n" + "│" * 2**19))


# an expression is made of them: one of 60 MiB takes minutes, and gigabytes
@pytest.mark.timeout(30)
def test_what_is_longer_than_any_path_is_no_directory() -> None:
    texts = [says(f"<cwd>/{number}{'/a' * 2**18}</cwd>") for number in range(40)]
    assert DEFAULT_RULES.quiet({"input": [text["input"] for text in texts]}).directories == {}


def test_rules_of_the_user_see_the_text_as_it_was_sent() -> None:
    """Also where other rules, or earlier ones of the user, find something within what they match."""
    texts = ["a5[0-9a-f]+", "<output-file>[^<]*</output-file>", "see /srv/app/[a-z]+"]
    rules = rules_from({"texts": texts, "directories": ["in: (.+)"]})

    def told(id: str, file: str) -> dict[str, Any]:
        return says(
            f"<output-file>/tmp/{id}.output</output-file> of {id}, see /srv/app/{file} in: /srv/app"
        )

    assert quiet(told("a5eb00", "one"), rules) == quiet(told("a5cc11", "two"), rules)
    assert quiet(told("a5eb00", "one"), rules) == says("<own> of <own>, <own> in: <directory 0>")


@table(
    ("one", "other"),
    [
        ({"previous_response_id": "resp_1"}, {"previous_response_id": "resp_2"}),
        (
            {"input": [{"type": "item_reference", "id": "msg_1"}]},
            {"input": [{"type": "item_reference", "id": "msg_2"}]},
        ),
    ],
)
def test_an_id_that_leads_out_of_a_request_is_no_noise(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert quiet(one) != quiet(other)


def test_headers_of_a_run_are_noise_and_others_are_kept_sorted() -> None:
    given = [
        *(
            ("X-Stainless-Arch", "x64"),
            ("x-codex-turn-metadata", "{}"),
            ("session_id", "1"),
            ("Session-Id", "1"),
        ),
        *(("traceparent", "00-1"), ("Authorization", "REDACTED (9 bytes)")),
        *(("OpenAI-Beta", "b"), ("Anthropic-Version", "2023-06-01")),
    ]
    assert DEFAULT_RULES.headers(given) == [
        ("anthropic-version", "2023-06-01"),
        ("openai-beta", "b"),
    ]


def test_every_rule_has_a_name_of_its_own() -> None:
    assert len({rule.name for rule in DEFAULT}) == len(DEFAULT)


def test_a_table_adds_rules_and_takes_some_away() -> None:
    rules = rules_from(
        {
            "fields": ["metadata.run", "input.*.id"],
            "references": ["steps.*.id"],
            "texts": ["Build [0-9]+"],
            "ids": ["job-[0-9]+"],
            "headers": ["X-Tenant-*"],
            "parameters": ["trace"],
            "without": ["user-id"],
        }
    )
    body = {
        "metadata": {"run": 7, "user_id": "u"},
        "input": [{"id": "a", "text": "Build 12 failed"}, "job-12"],
        "steps": [{"id": "x"}, {"id": "y"}, {"id": "x"}],
    }
    assert quiet(body, rules) == {
        "metadata": {"user_id": "u"},
        "input": [{"text": "<own> failed"}, "<id 0>"],
        "steps": [{"id": f"<reference {number}>"} for number in (0, 1, 0)],
    }
    assert rules.headers([("x-tenant-id", "1"), ("accept", "a")]) == [("accept", "a")]
    assert rules.is_parameter("trace")
    assert rules.until == "noise"


@table(
    ("table", "sentence"),
    [
        ({"field": ["x"]}, "has no setting 'field'"),
        ({"fields": "user"}, "fields must be a list of texts"),
        ({"fields": [""]}, "fields must be a list of texts"),
        ({"fields": ["a..b"]}, "fields: 'a..b' is not a path"),
        ({"references": [".id"]}, "references: '.id' is not a path"),
        ({"texts": ["("]}, r"texts: '\(' is not a regular expression"),
        ({"texts": [".*"]}, "matches nothing at all"),
        (
            {"directories": ["cwd=.+"]},
            r"directories: .* needs one group \( \) around the directory",
        ),
        ({"handles": ["job .+"]}, r"handles: .* needs one group \( \) around the handle"),
        ({"without": ["nothing"]}, "there is no rule 'nothing'; the rules are "),
        ({"until": "guess"}, "until must be one of exact, noise, stamps, position, not 'guess'"),
        ({"until": 1}, "until must be one of"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_with_a_sentence(
    table: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence) as refused:
        rules_from(table)
    assert str(refused.value).startswith("[match] ")
