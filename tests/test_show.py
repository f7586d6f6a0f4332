"""`recorder show`: a session as a conversation, at any moment of it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from recorder.commands.conversation import as_written, conversation
from recorder.commands.document import document
from recorder.commands.output import safe_text
from recorder.commands.snapshot import Answered, Snapshot, Taken
from recorder.demo.server import start
from recorder.events import Exchange, Session
from recorder.facts import ItemKind
from recorder.projections.anomalies import AnomalyRow
from recorder.projections.exchanges import ExchangeRow
from recorder.projections.items import ItemRow
from recorder.projections.timing import TimingRow
from recorder.projections.usage import UsageRow
from tests.conversations import (
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
from tests.corpus import CORPUS, corpus_index, needs_corpus
from tests.folds import captured, folded
from tests.projected_rows import row
from tests.serving import Ran, everywhere, run, serving, wait_until
from tests.test_commands import HOSTILE
from tests.test_terminal import on_terminal

CONTROLS = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
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
    hostile = made.session(HOSTILE)
    hostile.exchange(
        response(*thought(HOSTILE), *message(HOSTILE, index=1), *call(HOSTILE, HOSTILE, index=2), model=HOSTILE),
        asking(HOSTILE),
    )
    hostile.exchange([], answering(HOSTILE), at_s=5.0, target=f"/v1/{HOSTILE}")
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
    assert re.fullmatch(r"weather · [0-9a-f-]{13} · completed", header)
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


def test_the_json_is_one_object_of_fixed_keys(show: Callable[..., Ran]) -> None:
    ran = show("weather", "--json")
    assert ran.out.endswith(b"}\n")
    document = json.loads(ran.out)
    assert list(document) == ["session", "exchanges"]
    assert list(document["session"]) == ["session_id", "name", "created_ns", "origin", "source", "title"]
    first, second = document["exchanges"]
    assert list(first) == [
        *("exchange_id", "provider", "api", "request_model", "response_model", "response_id", "status"),
        *("finish_reason", "usage", "timing", "items", "anomalies"),
    ]
    assert first["usage"] == {
        "input_tokens": 1234,
        "cache_read_input_tokens": 1024,
        "output_tokens": 456,
        "reasoning_output_tokens": 192,
        "total_tokens": 1690,
    }
    assert {"head_ns", "ttft_ns", "duration_ns", "events", "gap_p50_ns"} < set(first["timing"])
    assert [list(item) for item in (*first["items"], *second["items"])] == [
        ["kind", "output_index", "item_id", "type", "status", "encrypted", "summary"],
        [
            *("kind", "output_index", "item_id", "type", "status", "name", "call_id", "arguments"),
            *("output", "latency_ns"),
        ],
        ["kind", "output_index", "item_id", "type", "role", "status", "text", "annotations"],
    ]
    assert (first["items"][0]["summary"], first["items"][1]["output"]) == (["Look it up."], "18 °C, clear")
    assert second["items"][0]["annotations"] == CITED


def test_one_exchange_has_its_results_from_later_ones(show: Callable[..., Ran], told: Callable[..., Any]) -> None:
    [only] = told("weather", 1)
    assert only == told("weather")[0]
    assert told("weather", only["exchange_id"]) == [only]
    assert lines(show("weather", 2))[0].count("·") == 1, "the status of one exchange is not that of the session"
    assert lines(show("weather", 2))[1] == "What is the weather in Paris?"


AT = [
    (("--at", "0s"), [""], []),
    (("--at", "250ms"), [""], []),
    (("--at", "0.35s"), ["Look it "], []),
    (("--at", "1.9s"), ["Look it up."], [None]),
    (("--at", "2.2s"), ["Look it up."], ["18 °C, clear"]),
    (("1", "--at", "1.9s"), ["Look it up."], [None]),
    (("1", "--at", "2.5s"), ["Look it up."], ["18 °C, clear"]),
    (("1", "--at", "100%"), ["Look it up."], [None]),
    (("--at", "100%"), ["Look it up."], ["18 °C, clear"]),
    (("--at", "1000w"), ["Look it up."], ["18 °C, clear"]),
    (("1", "--at-event", "5"), ["Look it "], []),
    (("1", "--at-event", "12"), ["Look it up."], [None]),
    (("1", "--at-event", "1000"), ["Look it up."], ["18 °C, clear"]),
]


@pytest.mark.parametrize(("moment", "thoughts", "outputs"), AT)
def test_any_moment_can_be_looked_at(
    told: Callable[..., Any], moment: tuple[str, ...], thoughts: list[str], outputs: list[str | None]
) -> None:
    exchanges = told("weather", *moment)
    shown = ["".join(item["summary"]) for item in items(exchanges, "reasoning")]
    assert (shown or [""], [item.get("output") for item in items(exchanges, "tool_call")]) == (thoughts, outputs)


def test_exchanges_that_had_not_begun_are_not_shown(told: Callable[..., Any]) -> None:
    assert [len(told("weather", "--at", at)) for at in ("1999ms", "2.0s", "60%", "70%")] == [1, 2, 1, 2]


def test_half_of_the_way_a_message_is_half_written(show: Callable[..., Ran]) -> None:
    header, *_, text, streaming, numbers = lines(show("weather", 2, "--at", "50%"))
    assert header.endswith("· at 0.5 s")
    assert (text, streaming) == ("It is 18 °C", "… still streaming")
    assert numbers.startswith("first token 0.40 s · ")


def test_an_open_exchange_is_shown_as_far_as_it_is(show: Callable[..., Ran], told: Callable[..., Any]) -> None:
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


def test_a_session_without_exchanges_is_shown(show: Callable[..., Ran], told: Callable[..., Any]) -> None:
    assert len(lines(show("empty"))) == 1
    assert told("empty", "--at", "50%") == []


def test_a_response_that_was_fetched_again_stands_once(tmp_path: Path) -> None:
    resumed = Conversations(tmp_path / "recorder.db").session("resumed")
    frames = response(*message("It is ", "18 °C"))
    resumed.exchange(frames[:4], QUESTION, outcome="client_disconnect")
    fetched: dict[str, Any] = {"method": "GET", "target": "/v1/responses/resp_1?stream=true&starting_after=3"}
    rest: dict[str, Any] = {"resumes_response_id": "resp_1", "resumes_after": 3}
    resumed.exchange(frames[4:], at_s=1.0, **fetched, **rest)
    shown = lines(run(resumed.path, "show", "resumed"))
    assert shown[3:6] == [
        "1 · POST /v1/responses · gpt-5 · continued by exchange 2",
        "",
        "2 · GET /v1/responses/resp_1 · gpt-5 · completed · 0.5 s",
    ]
    assert shown[6] == "It is 18 °C"
    first, second = json.loads(run(resumed.path, "show", "resumed", "--json").out)["exchanges"]
    assert first["superseded_by"] == second["exchange_id"]
    assert "superseded_by" not in second
    before = lines(run(resumed.path, "show", "resumed", "--at", "0.9s"))
    assert "It is" in before, "at that moment nobody had fetched it again"


async def test_a_stream_is_shown_while_it_runs_and_after(tmp_path: Path) -> None:
    def shown(*, has_ended: bool) -> Any:
        """The exchange, once there is text in it."""
        found: list[Any] = []

        def is_so_far() -> bool:
            ran = run(tmp_path / "recorder.db", "show", "live", "--json")
            found[:] = json.loads(ran.out)["exchanges"] if ran.code == 0 else []
            said = [item for item in items(found, "message") if item.get("text")]
            return bool(said) and ("status" in found[0]) == has_ended

        wait_until(is_so_far)
        return found[0]

    async with await start(pace=3) as upstream:
        with serving(tmp_path / "recorder.db", *everywhere(upstream.base_url)) as serve:
            question = {"model": "gpt-demo", "stream": True, "input": "What is a stream?"}
            async with (
                httpx.AsyncClient(base_url=serve.base) as client,
                client.stream("POST", "/s/live/v1/responses", json=question),
            ):
                during = await asyncio.to_thread(shown, has_ended=False)
            after = await asyncio.to_thread(shown, has_ended=True)
    assert ("status" in during, after["status"]) == (False, "client_disconnect")
    [(text, status)] = [(item["text"], item["status"]) for item in items([during], "message")]
    assert status == "in_progress"
    [whole] = [item["text"] for item in items([after], "message")]
    assert whole.startswith(text)


def test_what_went_wrong_is_said(tmp_path: Path) -> None:
    broken = Conversations(tmp_path / "recorder.db").session("broken")
    refused = [*message("No", ".")[:4], sse("error", code="overloaded", message="Try again\nlater.")]
    broken.exchange(numbered([refused[0], *refused]), QUESTION)
    shown = lines(run(broken.path, "show", "broken"))
    assert any(line.startswith("  ✗ ") and line.endswith("Try again") for line in shown)
    assert "    later." in shown
    assert any(re.fullmatch(r"! item_repeated message 0 \(event \d+\)", line) for line in shown)


def test_a_failed_call_is_marked(tmp_path: Path) -> None:
    failing = Conversations(tmp_path / "recorder.db").session("failing")
    use = {"type": "tool_use", "id": "toolu_1", "name": "roll", "input": {}}
    started = {"type": "message", "id": "msg_1", "role": "assistant", "model": "claude", "content": [], "usage": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "no dice", "is_error": True}
    anthropic: dict[str, Any] = {"provider": "anthropic", "api": "anthropic", "target": "/v1/messages"}
    frames = [
        sse("message_start", message=started),
        sse("content_block_start", index=0, content_block=use),
        sse("content_block_stop", index=0),
        sse("message_stop"),
    ]
    failing.exchange(frames, **anthropic)
    body = {"messages": [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]}
    failing.exchange([], at_s=1.0, body=body, **anthropic)
    shown = lines(run(failing.path, "show", "failing"))
    assert [line for line in shown if "no dice" in line] == ["  ✗ no dice (0.7 s)"]


WRONG = [
    (("weather", "--at", "-1s"), 2, "is no moment of a session"),
    (("weather", "--at", "soon"), 2, "is no moment of a session"),
    (("weather", "--at", "1e9s"), 2, "is no moment of a session"),
    (("weather", "--at-event", "-1"), 2, "not in the range"),
    (("weather", "--at-event", "5"), 2, "here are 2: say which"),
    (("weather", "--at-event", "5", "--at", "1s"), 2, "choose one"),
    (("weather", "9"), 3, "has no exchange 9: it has 1 to 2."),
    (("nosuch",), 3, "There is no session 'nosuch'"),
]


@pytest.mark.parametrize(("arguments", "code", "sentence"), WRONG)
def test_wrong_use_is_answered_with_one_sentence(
    show: Callable[..., Ran], arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    ran = show(*arguments)
    assert (ran.code, ran.out) == (code, b"")
    assert sentence in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("width", [40, 80])
def test_recorded_text_cannot_take_over_a_terminal(recorded: Conversations, width: int) -> None:
    listed = json.loads(run(recorded.path, "sessions", "--json").out)
    [session_id] = [each["session_id"] for each in listed if each["name"] == HOSTILE]
    styled = re.compile(r"\x1b\[[\d;]*m")
    shown = [styled.sub("", line) for line in on_terminal(width, "show", session_id, "--db", recorded.path)]
    assert not re.search(CONTROLS, "\n".join(shown))
    assert all(cell_len(line) <= width for line in shown)
    assert sum("\\x1b]52" in line for line in shown) >= 6
    piped = run(recorded.path, "show", session_id).out.decode()
    assert not re.search(CONTROLS, piped)
    assert piped.count("\\x1b]52") >= 8


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


def test_no_colour_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = list(conversation(_snapshot([]), 80))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;32m" in "".join(as_written(lines, 80))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[\d;]*3[0-7]m", "".join(as_written(lines, 80)))
    assert "\x1b" not in "".join(as_written(lines, None))


EXCHANGE = Exchange("s", "e", 0, "r", "openai", "openai-responses", "POST", "/v1/responses")


def _snapshot(said: list[ItemRow], text: str = "text", output: str = "out") -> Snapshot:
    """One exchange in which every text is the same."""
    taken = Taken(
        number=1,
        exchange=msgspec.structs.replace(EXCHANGE, target=text, method=text),
        told=row(
            ExchangeRow, EXCHANGE, user_text=text, is_turn=True, status="completed", response_model=text, error=text
        ),
        items=said,
        usage=row(UsageRow, EXCHANGE, input_tokens=1),
        timing=row(TimingRow, EXCHANGE, ttft_ns=1),
        anomalies=[row(AnomalyRow, EXCHANGE, kind="malformed", detail=text, count=2)],
        answers={0: Answered(output, None, 1)},
    )
    return Snapshot(Session("s", 0, text, "path", "{}", "live"), text, True, None, [taken])


anything = st.text() | st.text(st.characters(codec="utf-8", categories=("Cc", "Cf", "Zl", "Zp", "Lo")), max_size=200)


@given(anything, anything, st.sampled_from(get_args(ItemKind)), st.sampled_from([None, 20, 80]))
def test_nothing_recorded_controls_a_terminal(text: str, output: str, kind: ItemKind, width: int | None) -> None:
    cited = json.dumps([{"url": text, "web": {"uri": output}, "title": text}])
    fields = {"text": text, "refusal": text, "summary_text": text, "arguments": output, "annotations": cited}
    item = row(ItemRow, EXCHANGE, kind=kind, type=text, name=text, **fields)
    shown = [line.plain for line in conversation(_snapshot([item], text, output), width)]
    assert not re.search(CONTROLS, "".join(shown).replace("\t", " "))
    assert all("\n" not in line for line in shown)
    assert width is None or all(cell_len(line) <= max(width, 40) for line in shown)


@needs_corpus
def test_every_stream_of_the_corpus_can_be_shown() -> None:
    for entry in (entry for entry in corpus_index() if entry["core"]):
        exchange, events = captured((CORPUS / entry["file"]).read_bytes(), _API.get(entry["provider"], "other"))
        rows = folded(exchange, events)
        [told], [usage], [timing] = rows["exchanges"], rows["usage"], rows["timing"]
        taken = Taken(1, exchange, told, rows["items"], usage, timing, rows["anomalies"], {})
        snapshot = Snapshot(Session("s", 0, "s", "path", "{}", "live"), None, True, None, [taken])
        piped, shown = ([line.plain for line in conversation(snapshot, width)] for width in (None, 80))
        assert not re.search(CONTROLS, "".join(piped).replace("\t", " "))
        assert all(cell_len(line.rstrip()) <= 80 for line in shown)
        [written] = json.loads(msgspec.json.encode(document(snapshot)))["exchanges"]
        assert len(written["items"]) == len(rows["items"])
        for item in (item for item in written["items"] if item.get("text")):
            first = safe_text(item["text"]).strip("\n").split("\n")[0].rstrip()
            assert any(line.endswith(first) for line in piped), entry["file"]


_API = {name: name for name in ("anthropic", "gemini", "openai-chat", "openai-responses")}
