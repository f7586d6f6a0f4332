"""`recorder show --request`: what the model was sent, put together from what the log has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.conversations import Conversations, call, message, response, thought
from tests.support.server import Ran, run
from tests.support.terminal import on_terminal

CONTROL = "\x1b[2J"
RULES = "Be brief.\nBe right."
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "7"}


def asks(input: Any, previous: str | None = None, **fields: Any) -> dict[str, Any]:
    link = {} if previous is None else {"previous_response_id": previous}
    return {"model": "gpt-5", **link, "input": input, **fields}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "input_text", "text": text}]}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Conversations(tmp_path_factory.mktemp("requests") / "recorder.db")
    dice = made.session("dice")
    first = asks("Roll.", instructions=RULES)
    dice.exchange(response(*thought("Hm."), *call("roll", "{}", index=1), id="resp_1"), body=first)
    dice.exchange(
        response(*message("You rolled 7."), id="resp_2"), body=asks([RESULT], "resp_1"), at_s=2
    )
    dice.exchange(
        response(id="resp_3")[:1],
        body=asks([user(f"Again?{CONTROL}")], "resp_2"),
        at_s=4,
        ended=False,
    )
    made.session("lost").exchange(response(id="resp_4"), body=asks("So?", "resp_x"))
    chat = {
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "Hi"}],
    }
    made.session("whole").exchange([], body=chat, api="openai-chat", target="/v1/chat/completions")
    made.session("text").exchange([], body="no object")
    made.session("half").exchange(
        response(id="resp_5"), body=asks([user("Half \ud83d")], "resp_\ud83d")
    )
    made.session("empty")
    return made.path


@pytest.fixture
def show(path: Path) -> Callable[..., Ran]:
    return lambda *arguments: run(path, "show", *arguments)


def lines(ran: Ran) -> list[str]:
    assert (ran.code, ran.err) == (0, "")
    return ran.out.decode().splitlines()


def test_a_request_is_shown_with_all_that_it_continues_and_whence_it_is(
    show: Callable[..., Ran],
) -> None:
    assert lines(show("dice", 3, "--request"))[1:] == [
        "",
        "3 · POST /v1/responses",
        "model: gpt-5",
        "input of exchange 1:",
        "  user: Roll.",
        "answer of exchange 1:",
        '  reasoning: {"id":"rs_0","summary":[{"type":"summary_text","text":"Hm."}]}',
        '  function_call: {"id":"fc_1","name":"roll","call_id":"call_1","arguments":"{}","status":"completed"}',
        "input of exchange 2:",
        '  function_call_output: {"call_id":"call_1","output":"7"}',
        "answer of exchange 2:",
        "  assistant: You rolled 7.",
        "input:",
        "  user: Again?\\x1b[2J",
    ]


def test_all_requests_of_a_session_are_shown(show: Callable[..., Ran]) -> None:
    shown = lines(show("dice", "--request"))
    assert [line for line in shown if " · POST" in line] == [
        f"{n} · POST /v1/responses" for n in (1, 2, 3)
    ]
    assert shown[2:8] == [
        *(
            "1 · POST /v1/responses",
            "model: gpt-5",
            "instructions: Be brief.",
            "Be right.",
            "input:",
            "  user: Roll.",
        ),
    ]


def test_what_is_missing_is_named_in_one_sentence(show: Callable[..., Ran]) -> None:
    assert lines(show("lost", "--request"))[3:] == [
        *("model: gpt-5", "previous_response_id: resp_x"),
        "! response resp_x was not recorded here: what came before is not shown.",
        *("input:", "  user: So?"),
    ]


def test_a_request_that_is_whole_as_it_was_sent_is_shown_so(show: Callable[..., Ran]) -> None:
    assert lines(show("whole", "--request"))[3:] == [
        "model: m",
        "messages:",
        "  system: s",
        "  user: Hi",
    ]


def test_a_body_that_is_no_object_is_only_measured(show: Callable[..., Ran]) -> None:
    assert lines(show("text", "--request"))[3:] == ["The body is not a JSON object: 11 bytes."]
    assert json.loads(show("text", "--request", "--json").out)["requests"][0]["request"] is None


def test_half_a_character_is_shown_and_stays_in_the_json(show: Callable[..., Ran]) -> None:
    assert lines(show("half", "--request"))[-1] == "  user: Half \\ud83d"
    [half] = json.loads(show("half", "--request", "--json").out)["requests"]
    assert half["request"]["input"] == [user("Half \ud83d")]
    assert half["request"]["previous_response_id"] == "resp_\ud83d"


def test_as_json_it_is_the_request_with_all_its_items(show: Callable[..., Ran]) -> None:
    found = json.loads(
        b"\n".join(line.encode() for line in lines(show("dice", "3", "--request", "--json")))
    )
    [request] = found["requests"]
    assert found["session"]["name"] == "dice"
    assert [(part["source"], part["number"], part["items"]) for part in request["parts"]] == [
        *(("input", 1, 1), ("output", 1, 2), ("input", 2, 1), ("output", 2, 1), ("input", 3, 1)),
    ]
    assert (request["number"], request["depth"], request["is_complete"]) == (3, 2, True)
    assert request["request"].keys() == {"model", "input"}
    assert request["request"]["input"][3] == RESULT
    [lost] = json.loads(show("lost", "--request", "--json").out)["requests"]
    assert (lost["is_complete"], lost["missing_id"]) == (False, "resp_x")
    assert lost["reason"] == "response resp_x was not recorded here"
    assert lost["request"]["previous_response_id"] == "resp_x"


def test_on_a_terminal_it_fits(path: Path) -> None:
    shown = on_terminal(40, "show", "dice", "--request", "--db", path)
    assert max(map(len, shown)) <= 40
    assert "instructions: Be brief. Be right." in shown


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("dice", "9", "--request"), 3, "Session dice has no exchange 9: it has 1 to 3."),
        (("nobody", "--request"), 3, "There is no session 'nobody'"),
        (("empty", "--request"), 3, "Session empty has no request with a body."),
        (("dice", "--request", "--at", "1s"), 2, "A request does not change with time"),
        (("dice", "1", "--request", "--at-event", "1"), 2, "A request does not change with time"),
    ],
)
def test_bad_input_gets_one_sentence(
    show: Callable[..., Ran], arguments: tuple[str, ...], code: int, says: str
) -> None:
    ran = show(*arguments)
    assert (ran.code, ran.out) == (code, b"")
    assert says in ran.err
