"""`recorder show`: a session as a conversation, at any moment of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from recorder.commands import main
from recorder.model.events import Event
from recorder.projections.fold import Folding
from recorder.store.queries import session_state
from tests.support.conversations import (
    Conversations,
    answering,
    asking,
    call,
    message,
    numbered,
    response,
    sse,
    thought,
)
from tests.support.server import Ran, run
from tests.support.terminal import on_terminal

WEATHER = '{"city": "Paris"}'
QUESTION = asking("What is the weather in Paris?")
CITED = [{"type": "url_citation", "url": "https://example.org/weather", "title": "Weather"}]

CALLS = response(*thought("Look it ", "up."), *call("get_weather", WEATHER, index=1), id="resp_1")
ANSWERS = response(*message("It is ", "18 °C\n", "and clear.", annotations=CITED), id="resp_2")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Conversations:
    made = Conversations(tmp_path_factory.mktemp("shown") / "recorder.db")
    weather = made.session("weather")
    weather.exchange(CALLS, QUESTION)
    weather.exchange(ANSWERS, [*QUESTION, *answering("18 °C, clear")], at_s=2.0)
    made.session("streaming").exchange(ANSWERS[:5], QUESTION, ended=False)

    made.session("empty")
    return made


@pytest.fixture
def show(recorded: Conversations) -> Callable[..., Ran]:
    return lambda *arguments: run(recorded.path, "show", *arguments)


@pytest.fixture
def told(show: Callable[..., Ran]) -> Callable[..., Any]:
    """What `--json` says of exchanges."""

    def ask(*arguments: object) -> Any:
        ran = show(*arguments, "--json")
        assert (ran.code, ran.err) == (0, "")
        return json.loads(ran.out)["exchanges"]

    return ask


def items(exchanges: Any, kind: str) -> list[Any]:
    return [item for exchange in exchanges for item in exchange["items"] if item["kind"] == kind]


def lines(ran: Ran) -> list[str]:
    assert (ran.code, ran.err) == (0, "")
    return ran.out.decode().splitlines()


def test_a_session_reads_as_a_conversation(show: Callable[..., Ran]) -> None:
    header, *rest = lines(show("weather"))
    assert re.fullmatch(r"weather · [0-9a-f-]{36} · completed", header)
    assert rest == [
        "What is the weather in Paris?",
        "",
        "1 · POST /v1/responses · gpt-5 · completed · 1.1 s",
        "› What is the weather in Paris?",
        "┊ Look it up.",
        f"⚙ get_weather {WEATHER}",
        "  → 18 °C, clear (1.1 s)",
        "in 1,234 (cached 1,024) · out 456 (reasoning 192) · first token 0.30 s · 1.10 s · 10 events/s",
        "",
        "2 · POST /v1/responses · gpt-5 · completed · 1.0 s",
        "It is 18 °C",
        "and clear.",
        "  ↗ https://example.org/weather",
        "in 1,234 (cached 1,024) · out 456 (reasoning 192) · first token 0.40 s · 1.00 s · 10 events/s",
    ]


def test_the_json_is_one_object(show: Callable[..., Ran]) -> None:
    """Its keys are those of `recorder show --schema`."""
    ran = show("weather", "--json")
    assert ran.out.endswith(b"}\n")
    first, second = json.loads(ran.out)["exchanges"]
    assert first["usage"] == {
        "input_tokens": 1234,
        "cache_read_input_tokens": 1024,
        "output_tokens": 456,
        "reasoning_output_tokens": 192,
        "total_tokens": 1690,
    }
    assert {"head_ns", "ttft_ns", "duration_ns", "events", "gap_p50_ns"} < set(first["timing"])
    assert (first["items"][0]["summary"], first["items"][1]["output"]) == (
        ["Look it up."],
        "18 °C, clear",
    )
    assert second["items"][0]["annotations"] == CITED


def test_one_exchange_has_its_results_from_later_ones(
    show: Callable[..., Ran], told: Callable[..., Any]
) -> None:
    [only] = told("weather", 1)
    assert only == told("weather")[0]
    assert told("weather", only["exchange_id"]) == [only]
    assert lines(show("weather", 2))[0].count("·") == 1, (
        "the status of one exchange is not that of the session"
    )
    assert lines(show("weather", 2))[1] == "What is the weather in Paris?"


AT: dict[tuple[str, ...], tuple[list[str], list[str | None]]] = {  # thoughts and results of tools
    ("--at", "0s"): ([""], []),
    ("--at", "250ms"): ([""], []),
    ("--at", "0.35s"): (["Look it "], []),
    ("--at", "1.9s"): (["Look it up."], [None]),
    ("--at", "2.2s"): (["Look it up."], ["18 °C, clear"]),
    ("1", "--at", "1.9s"): (["Look it up."], [None]),
    ("1", "--at", "2.5s"): (["Look it up."], ["18 °C, clear"]),
    ("1", "--at", "100%"): (["Look it up."], [None]),
    ("--at", "100%"): (["Look it up."], ["18 °C, clear"]),
    ("1", "--at-event", "5"): (["Look it "], []),
    ("1", "--at-event", "12"): (["Look it up."], [None]),
}


def test_any_moment_can_be_looked_at(told: Callable[..., Any]) -> None:
    found = {}
    for moment in AT:
        exchanges = told("weather", *moment)
        thoughts = ["".join(item["summary"]) for item in items(exchanges, "reasoning")]
        found[moment] = (
            thoughts or [""],
            [item.get("output") for item in items(exchanges, "tool_call")],
        )
    assert found == AT


@pytest.mark.parametrize(
    "past", [("--at", "1000w"), ("1", "--at", "3.1s"), ("1", "--at-event", "1000")]
)
def test_past_the_end_is_the_end_and_it_says_so(
    show: Callable[..., Ran], past: tuple[str, ...]
) -> None:
    ran = show("weather", *past, "--json")
    assert ran.err.endswith("this is the end.\n")
    chosen = past[:1] if past[0] == "1" else ()
    now = json.loads(show("weather", *chosen, "--json").out)
    assert json.loads(ran.out) == now


def test_exchanges_that_had_not_begun_are_not_shown(told: Callable[..., Any]) -> None:
    assert [len(told("weather", "--at", at)) for at in ("1999ms", "2.0s", "60%", "70%")] == [
        1,
        2,
        1,
        2,
    ]


def test_half_of_the_way_a_message_is_half_written(show: Callable[..., Ran]) -> None:
    header, *_, text, streaming, numbers = lines(show("weather", 2, "--at", "50%"))
    assert header.endswith("· at 0.5 s")
    assert (text, streaming) == ("It is 18 °C", "… still streaming")
    assert numbers.startswith("first token 0.40 s · ")


def test_an_open_exchange_is_shown_as_far_as_it_is(
    show: Callable[..., Ran], told: Callable[..., Any]
) -> None:
    assert lines(show("streaming"))[3:] == [
        "1 · POST /v1/responses · gpt-5 · open",
        "› What is the weather in Paris?",
        "It is 18 °C",
        "… still streaming",
        "first token 0.40 s · 10 events/s",
    ]
    [exchange] = told("streaming")
    assert "status" not in exchange
    assert exchange["items"][0]["status"] == "in_progress"


def test_a_session_without_exchanges_is_shown(
    show: Callable[..., Ran], told: Callable[..., Any]
) -> None:
    assert len(lines(show("empty"))) == 1
    assert told("empty", "--at", "50%") == []


def test_a_response_that_was_fetched_again_stands_once(tmp_path: Path) -> None:
    resumed = Conversations(tmp_path / "recorder.db").session("resumed")
    frames = response(*message("It is ", "18 °C"))
    resumed.exchange(frames[:4], QUESTION, outcome="client_disconnect")
    fetched: dict[str, Any] = {
        "method": "GET",
        "target": "/v1/responses/resp_1?stream=true&starting_after=3",
    }
    rest: dict[str, Any] = {"resumes_response_id": "resp_1", "resumes_after": 3}
    resumed.exchange(frames[4:], at_s=1.0, **fetched, **rest)
    shown = lines(run(resumed.path, "show", "resumed"))
    assert shown[3:6] == [
        "1 · POST /v1/responses · gpt-5 · see exchange 2, which has all of it",
        "",
        "2 · GET /v1/responses/resp_1 · gpt-5 · completed · 0.5 s",
    ]
    assert shown[6] == "It is 18 °C"
    first, second = json.loads(run(resumed.path, "show", "resumed", "--json").out)["exchanges"]
    assert first["superseded_by"] == second["exchange_id"]
    assert "superseded_by" not in second
    before = lines(run(resumed.path, "show", "resumed", "--at", "0.9s"))
    assert "It is" in before, "at that moment nobody had fetched it again"


GET: dict[str, Any] = {
    "method": "GET",
    "target": "/v1/responses/resp_1?stream=true",
    "resumes_response_id": "resp_1",
}


def test_a_call_that_is_retrieved_later_has_the_result_from_before_that(tmp_path: Path) -> None:
    asked = Conversations(tmp_path / "recorder.db").session("again")
    frames = response(*call("get_weather", WEATHER))
    asked.exchange(frames[:-1], QUESTION, outcome="truncated")
    asked.exchange([], answering("18 °C"), at_s=2.0)
    asked.exchange(frames, at_s=4.0, **GET)
    for chosen in ((), (3,)):
        shown = json.loads(run(asked.path, "show", "again", *chosen, "--json").out)["exchanges"]
        [item] = shown[-1]["items"]
        assert (item["output"], "latency_ns" in item, "superseded_by" in shown[-1]) == (
            "18 °C",
            False,
            False,
        )


def test_several_choices_are_told_apart(tmp_path: Path) -> None:
    chosen = Conversations(tmp_path / "recorder.db").session("chosen")
    chat: dict[str, Any] = {"api": "openai-chat", "target": "/v1/chat/completions"}

    def chunk(index: int, content: str, reason: str | None = None) -> bytes:
        choice = {"index": index, "delta": {"content": content}, "finish_reason": reason}
        return f"data: {json.dumps({'id': 'c', 'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n".encode()

    chosen.exchange(
        [chunk(0, "Heads"), chunk(1, "Tails"), chunk(0, "", "stop"), chunk(1, "", "length")], **chat
    )
    shown = lines(run(chosen.path, "show", "chosen"))
    assert shown[3:6] == ["Heads", "choice 2:", "Tails"]


def test_what_nobody_here_understands_says_where_it_can_be_read(tmp_path: Path) -> None:
    strange = Conversations(tmp_path / "recorder.db").session("strange")
    exchange = strange.exchange(
        [b'data: {"a": 1}\n\n', b"data: two\n\n"], api="other", target="/v1/other"
    )
    short = exchange.session_id[:18]
    line = f"not understood here: 2 events, `recorder events {short} --exchange 1` shows them"
    assert line in lines(run(strange.path, "show", "strange"))


def test_of_several_sessions_of_one_name_it_says_that_it_took_the_newest(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "recorder.db")
    made.session("copy")
    newest = made.session("copy", 60.0).session.session_id
    said = f"2 sessions are named copy: this is the newest, {newest}; `recorder sessions` lists them.\n"
    for command in (("show", "copy"), ("events", "copy")):
        ran = run(made.path, *command)
        assert (ran.code, ran.err) == (0, said)
    for ref in (newest, newest[:18], "latest"):
        assert run(made.path, "show", ref).err == ""


class FaultyFolding(Folding):
    """Cannot read what says poison."""

    def apply(self, event: Event) -> None:
        if b"poison" in event.raw:
            raise RuntimeError("a bug")
        super().apply(event)

    def apply_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self.apply(event)


def test_an_exchange_that_cannot_be_folded_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    poisoned = Conversations(tmp_path / "recorder.db").session("poisoned")
    poisoned.exchange(response(*message("poison")), asking("poison"))
    poisoned.exchange(ANSWERS, QUESTION, at_s=2.0)
    monkeypatch.setattr(session_state, "Folding", FaultyFolding)
    for arguments in ((), ("--json",)):
        with pytest.raises(SystemExit) as ended:
            main(["show", "poisoned", "--db", str(poisoned.path), *arguments])
        out, err = capfdbinary.readouterr()
        assert ended.value.code == 1
        assert err == b"Error: recorder cannot decode 1 of 2 exchanges; the others are shown.\n"
        assert b"RuntimeError: a bug" in out
        assert "It is 18 °C".encode() in out


def test_what_went_wrong_is_said(tmp_path: Path) -> None:
    broken = Conversations(tmp_path / "recorder.db").session("broken")
    refused = [
        *message("No", ".")[:4],
        sse("error", code="overloaded", message="Try again\nlater."),
    ]
    broken.exchange(numbered([refused[0], *refused]), QUESTION)
    shown = lines(run(broken.path, "show", "broken"))
    assert any(line.startswith("  ✗ ") and line.endswith("Try again") for line in shown)
    assert "    later." in shown
    assert any(re.fullmatch(r"! item_repeated message 0 \(event \d+\)", line) for line in shown)


def test_a_failed_call_is_marked(tmp_path: Path) -> None:
    failing = Conversations(tmp_path / "recorder.db").session("failing")
    use = {"type": "tool_use", "id": "toolu_1", "name": "roll", "input": {}}
    started = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "model": "claude",
        "content": [],
        "usage": {},
    }
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": "no dice",
        "is_error": True,
    }
    anthropic: dict[str, Any] = {
        "provider": "anthropic",
        "api": "anthropic",
        "target": "/v1/messages",
    }
    frames = [
        sse("message_start", message=started),
        sse("content_block_start", index=0, content_block=use),
        sse("content_block_stop", index=0),
        sse("message_stop"),
    ]
    failing.exchange(frames, **anthropic)
    body = {
        "messages": [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    }
    failing.exchange([], at_s=1.0, body=body, **anthropic)
    shown = lines(run(failing.path, "show", "failing"))
    assert [line for line in shown if "no dice" in line] == ["  ✗ no dice (0.7 s)"]


WRONG = [
    (("weather", "--at", "-1s"), 2, "is not a moment of a session"),
    (("weather", "--at", "soon"), 2, "is not a moment of a session"),
    (("weather", "--at", "1e9s"), 2, "is not a moment of a session"),
    (("weather", "--at-event", "-1"), 2, "not in the range"),
    (("weather", "--at-event", "5"), 2, "here are 2: say which"),
    (("weather", "--at-event", "5", "--at", "1s"), 2, "choose one"),
    (("weather", "9"), 3, "has no exchange 9: it has 1 to 2."),
    (("nosuch",), 3, "There is no session 'nosuch'"),
]


def test_wrong_use_is_answered_with_one_sentence(show: Callable[..., Ran]) -> None:
    for arguments, code, sentence in WRONG:
        ran = show(*arguments)
        assert (ran.code, ran.out) == (code, b"")
        assert sentence in ran.err
        assert "Traceback" not in ran.err


def test_on_a_terminal_a_call_is_one_line_and_a_message_is_wrapped(tmp_path: Path) -> None:
    long = Conversations(tmp_path / "recorder.db").session("long")
    arguments = json.dumps({"text": "word " * 100})
    long.exchange(response(*call("write", arguments), *message("word " * 100, index=1)), QUESTION)
    long.exchange([], answering("line\n" * 100), at_s=5.0)
    shown = on_terminal(80, "show", "long", "--db", long.path)
    assert all(cell_len(re.sub(r"\x1b\[[\d;]*m", "", line)) <= 80 for line in shown)
    assert sum("write" in line or "line line" in line for line in shown) == 2
    assert sum(line.startswith("word word") for line in shown) == 7
    piped = lines(run(long.path, "show", "long"))
    assert f"⚙ write {arguments}" in piped
    assert piped.count("    line") == 98


@pytest.mark.parametrize(
    ("words", "by_option"),
    [
        (["show"], []),
        (["show", "--request", "--json"], []),
        (["show", "--at", "50%", "--json"], []),
        (["events", "--json"], ["--exchange"]),
        (["replay", "--speed", "max"], ["--exchange"]),
        (["export", "--format", "cassette"], ["--exchange"]),
    ],
)
def test_the_number_of_an_exchange_behind_its_session_selects_it(
    recorded: Conversations, tmp_path: Path, words: list[str], by_option: list[str]
) -> None:
    verb, *options = words
    one = run(recorded.path, verb, "weather", *by_option, "2", *options)
    assert run(recorded.path, verb, "weather:2", *options) == one
    assert one.out != run(recorded.path, verb, "weather", *options).out
    file = tmp_path / "weather.sse.jsonl"
    file.write_bytes(run(recorded.path, "export", "weather", "--format", "cassette").out)
    assert run(recorded.path, verb, f"{file}:2", *options).code == 0
    assert (
        run(recorded.path, verb, "weather:9", *options).err
        == "Error: Session weather has no exchange 9: it has 1 to 2.\n"
    )


def test_a_name_with_a_colon_is_the_session_of_that_name(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "recorder.db")
    made.session("a:1").exchange(ANSWERS, QUESTION)
    assert run(made.path, "show", "a:1").text.startswith("a:1 ")
