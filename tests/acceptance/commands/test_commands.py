"""`recorder.commands`: what a user types, what comes out, and the exit code."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.commands import recorder
from recorder.commands.clients.files import FILES
from recorder.commands.clients.presets import ALIASES, CODEX, VARIABLES
from recorder.commands.terminal.output import dollars, seconds
from recorder.commands.verbs import VERBS
from recorder.ingest.capture import Capture
from recorder.journal.format import Mark
from recorder.journal.writer import Journal
from recorder.model.events import Exchange, Outcome, Session
from recorder.model.ids import uuid7
from recorder.model.payloads import ExchangeEnd, GapRecord, RequestHead, ResponseHead
from recorder.model.text import safe_text
from recorder.proxy.routing import Routes
from recorder.store.writer import Store
from recorder.wire.dialects import by_name
from tests.acceptance.test_help import COMMANDS
from tests.conftest import Demo
from tests.support import processes
from tests.support.conversations import Conversations
from tests.support.corpus import ROOT

HOSTILE = "\x1b]52;c;aGk=\x07\x9b31m\u202ereversed\u2066"
FRAMES = [
    b'event: response.created\ndata: {"type":"response.created","sequence_number":0}\n\n',
    b'data: {"type":"response.output_text.delta","sequence_number":1,"delta":"Hello","output_index":0}\n\n',
    b': keep-alive "quoted"\n\n',
    b'data: {"type":"response.output_text.delta","sequence_number":2,"delta":", \xc3\xa9t\xc3\xa9"}\n\n',
    b'data: {"type":"response.completed","sequence_number":3}\n\n',
]


class Ran(NamedTuple):
    """A finished command."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()


def run(*arguments: object, **environment: str) -> Ran:
    """A command as a process of its own, as a user starts it."""
    code, out, err = processes.command(arguments, {"PATH": "/usr/bin:/bin", **environment}, Path("/"))
    return Ran(code, out, err.decode())


class Recorded:
    """A database with sessions made by the capture that makes all of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._clock = 1_700_000_000_000_000_000

    def session(
        self, name: str, *bodies: list[bytes], gap: bool = False, ended: bool = True, outcome: Outcome = "eof"
    ) -> str:
        session_id = self._id()
        with Store(self.path) as store, store.transaction():
            store.add_session(Session(session_id, self._clock, name, "path", "{}", "live"))
            for body in bodies:
                self._exchange(store, session_id, body, gap, outcome if ended else None)
        return session_id

    def _exchange(self, store: Store, session_id: str, body: list[bytes], gap: bool, end: Outcome | None) -> None:
        exchange_id = self._id()
        head = RequestHead(exchange_id, session_id, self._clock, "POST", "/v1/responses", "openai", [])
        api = "openai-responses"
        store.add_exchange(
            Exchange(session_id, exchange_id, self._clock, "r", "openai", api, "POST", "/v1/responses", "curl")
        )
        capture = Capture(session_id, exchange_id, by_name(api), 0)
        events = capture.request(head, b'{"stream":true}', wire=b'{"stream":true}')
        events += capture.response(1_000_000, ResponseHead(200, "OK", [("content-type", "text/event-stream")]))
        for number, chunk in enumerate(body):
            events += capture.chunk((10 + number * 20) * 1_000_000, chunk)
        if gap:
            events += capture.gap(GapRecord("response", 1, 5, "", 0, 0, "the journal is at its bound"))
        if end is not None:
            events += capture.end(500_000_000, ExchangeEnd(end))
        store.append(events)
        if end is not None:
            store.projector.project(session_id, exchange_id)

    def _id(self) -> str:
        self._clock += 1_000_000_000
        return uuid7(self._clock, self._clock.to_bytes(10, "little"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    made = Recorded(tmp_path_factory.mktemp("recorded") / "recorder.db")
    made.session("first", FRAMES)
    made.session("hostile", [b"data: " + HOSTILE.encode() + b"\xff\n\n"])
    made.session("gappy", FRAMES[:2], gap=True)
    made.session("streaming", FRAMES[:2], ended=False)
    made.session("two", FRAMES, FRAMES[:1])
    return made


@pytest.fixture
def on(recorded: Recorded) -> Callable[..., Ran]:
    return lambda verb, *arguments: run(verb, *arguments, "--db", recorded.path)


def test_sessions_are_listed_newest_first(on: Callable[..., Ran]) -> None:
    rows = json.loads(on("sessions", "--json").out)
    assert [row["name"] for row in rows] == ["two", "streaming", "gappy", "hostile", "first"]
    assert (rows[0]["exchanges"], rows[0]["status"], rows[1]["status"], rows[1]["open"]) == (2, "incomplete", "open", 1)
    assert rows[-1]["bytes"] == len(b"".join(FRAMES))
    assert [row["gaps"] for row in rows] == [0, 0, 1, 0, 0]
    assert [json.loads(line)["name"] for line in on("sessions", "--jsonl", "--limit", 2).text.splitlines()] == [
        "two",
        "streaming",
    ]
    table = on("sessions")
    assert (table.code, table.err) == (0, "")
    assert table.text.splitlines()[0].split()[:2] == ["session", "name"]
    assert len(table.text.splitlines()) == 6
    assert [line.split()[1] for line in table.text.splitlines() if ", gaps" in line] == ["gappy"]


def test_a_session_is_found_by_id_prefix_name_and_latest(on: Callable[..., Ran], recorded: Recorded) -> None:
    session_id = json.loads(on("sessions", "--json", "--limit", 1).out)[0]["session_id"]
    outputs = {on("events", ref, "--json").out for ref in (session_id, session_id[:-4], "two", "latest")}
    assert len(outputs) == 1


def test_raw_events_are_the_body(on: Callable[..., Ran]) -> None:
    assert on("events", "first", "--raw").out == b"".join(FRAMES)
    assert on("replay", "first", "--speed", "max").out == b"".join(FRAMES)
    assert on("replay", "two", "--speed", "max").out == b"".join([*FRAMES, FRAMES[0]])


def test_events_have_the_columns_of_the_log(on: Callable[..., Ran]) -> None:
    events = json.loads(on("events", "first", "--json").out)
    assert tuple(events[0]) == EVENT_COLUMNS
    assert [event["pos"] for event in events] == list(range(len(events)))
    assert [event["sequence_number"] for event in events if event["kind"] == "frame"] == [0, 1, 2, 3]
    assert on("events", "first", "--jsonl", "--limit", 2).text.count("\n") == 2
    assert on("events", "first").text.splitlines()[0].split()[:4] == ["exchange", "pos", "t_ms", "type"]


EVENT_COLUMNS = (
    *("session_id", "exchange_id", "pos", "kind", "t_ns", "type", "sequence_number", "item_id", "output_index"),
    *("raw", "data_start", "data_length", "hash"),
)


@pytest.mark.parametrize("format", ["table", "json"])
def test_a_long_session_is_written_as_it_is_read(tmp_path: Path, format: str) -> None:
    """Neither a table nor an array is held in memory: what was read is on stdout before the rest."""
    made = Recorded(tmp_path / "recorder.db")
    made.session("long", [b'data: {"n":%d}\n\n' % number for number in range(3_000)])
    command = [sys.executable, "-m", "recorder", "events", "long", "--db", str(made.path)]
    with subprocess.Popen([*command, *(["--json"] if format == "json" else [])], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = os.read(process.stdout.fileno(), 1_000_000)
        whole = first + process.stdout.read()
    assert len(first) < len(whole)
    rows = json.loads(whole) if format == "json" else whole.decode().splitlines()[1:]
    assert len(rows) == 3_000 + 5
    if format == "table":
        assert [row.rpartition("  ")[2] for row in rows[3:-2]] == [f'{{"n":{number}}}' for number in range(3_000)]


FORMATTED = {name for name, each in COMMANDS.items() if {"json", "jsonl"} <= {option.name for option in each.params}}


@pytest.mark.parametrize("name", sorted(FORMATTED))
def test_two_formats_at_once_are_refused_by_every_command(name: str) -> None:
    """Before anything else is looked at: there is no such database."""
    needed = ["x" for each in COMMANDS[name].params if isinstance(each, click.Argument) and each.required]
    for each in COMMANDS[name].params:
        if isinstance(each, click.Option) and each.required:
            needed += [each.opts[0], each.type.choices[0] if isinstance(each.type, click.Choice) else "3d"]
    ran = run(*name.split(), *needed, "--json", "--jsonl", RECORDER_DB="/none/recorder.db")
    assert (ran.code, ran.out) == (2, b"")
    assert ran.err == "Error: --json and --jsonl are different formats: choose one.\n"


INTERRUPTED = """
import os, signal, sys

class At:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, At())
from recorder.__main__ import main
main()
"""


@pytest.mark.parametrize(
    "name", ["click", "recorder.commands.sessions", "sqlalchemy", "recorder.store.schema", "rich.cells"]
)
def test_an_interrupt_while_the_program_is_loaded_is_quiet(name: str) -> None:
    program = INTERRUPTED.format(name=name)
    done = subprocess.run([sys.executable, "-c", program, "sessions"], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_bytes_that_are_no_text_are_base64_in_json(on: Callable[..., Ran]) -> None:
    [frame] = [event for event in json.loads(on("events", "hostile", "--json").out) if event["kind"] == "frame"]
    assert list(frame["raw"]) == ["base64"]


def test_one_exchange_can_be_chosen(on: Callable[..., Ran]) -> None:
    ids = list(dict.fromkeys(event["exchange_id"] for event in json.loads(on("events", "two", "--json").out)))
    assert on("events", "two", "--exchange", 2, "--raw").out == FRAMES[0]
    assert on("events", "two", "--exchange", ids[0], "--raw").out == b"".join(FRAMES)
    assert on("replay", "two", "--exchange", ids[1][:-6], "--speed", "max").out == FRAMES[0]


def test_replay_speaks_three_formats(on: Callable[..., Ran]) -> None:
    rows = [json.loads(line) for line in on("replay", "first", "--speed", "max", "--format", "jsonl").text.splitlines()]
    assert [row["sequence_number"] for row in rows] == [0, 1, None, 2, 3]
    assert rows[1]["data"]["delta"] == "Hello"
    assert (rows[2]["raw"], "data" in rows[2], "raw" in rows[1]) == (FRAMES[2].decode(), False, False)
    assert on("replay", "first", "--speed", "max", "--format", "text") == (0, "Hello, été\n".encode(), "")


def test_each_text_ends_its_line(recorded: Recorded, tmp_path: Path) -> None:
    made = Recorded(tmp_path / "texts.db")
    made.session("texts", FRAMES, FRAMES[:2], FRAMES[:1])
    ran = run("replay", "texts", "--speed", "max", "--format", "text", "--db", made.path)
    assert ran == (0, "Hello, été\nHello\n".encode(), "Exchange 3: there is no text in it.\n")


CHAT = {"api": "openai-chat", "target": "/v1/chat/completions"}
GEMINI = {"provider": "gemini", "api": "gemini", "target": "/v1beta/models/g:streamGenerateContent"}


def _chat(index: int, text: str, kind: str = "delta") -> dict[str, Any]:
    return {"choices": [{"index": index, kind: {"role": "assistant", "content": text}}]}


def _candidate(index: int, text: str) -> dict[str, Any]:
    return {"candidates": [{"index": index, "content": {"role": "model", "parts": [{"text": text}]}}]}


CHOICES: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "chat": (CHAT, [_chat(0, "Hel"), _chat(1, "Bye"), _chat(0, "lo"), _chat(1, "!")]),
    "gemini": (GEMINI, [_candidate(0, "Hel"), _candidate(1, "Bye"), _candidate(0, "lo"), _candidate(1, "!")]),
    "a document": (
        CHAT,
        [{"choices": _chat(1, "Bye", "message")["choices"] + _chat(0, "Hello", "message")["choices"]}],
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_of_several_choices_the_text_is_that_of_the_first(tmp_path: Path, name: str) -> None:
    fields, said = CHOICES[name]
    bodies = [json.dumps(each).encode() for each in said]
    is_stream = name != "a document"
    frames = [b"data: " + body + b"\n\n" for body in bodies] if is_stream else bodies
    content_type = "text/event-stream" if is_stream else "application/json"
    session = Conversations(tmp_path / "log.db").session("choices")
    session.exchange(frames, body={"model": "m", "messages": []}, content_type=content_type, **fields)
    ran = run("replay", "choices", "--speed", "max", "--format", "text", "--db", session.path)
    assert ran == (0, b"Hello\n", "")


def test_a_replay_says_how_a_stream_broke_off(tmp_path: Path) -> None:
    made = Recorded(tmp_path / "cut.db")
    made.session("cut", FRAMES[:2], outcome="truncated")
    ran = run("replay", "cut", "--speed", "max", "--db", made.path)
    assert ran == (0, b"".join(FRAMES[:2]), "Exchange 1: it broke off (truncated).\n")


def test_nothing_to_replay_is_exit_code_three(tmp_path: Path) -> None:
    made = Recorded(tmp_path / "empty.db")
    made.session("empty", [])
    ran = run("replay", "empty", "--db", made.path)
    assert (ran.code, ran.out) == (3, b"")
    assert "Session empty has no response body" in ran.err


def test_replay_refuses_a_session_with_gaps(on: Callable[..., Ran]) -> None:
    refused = on("replay", "gappy", "--speed", "max")
    assert (refused.code, refused.out) == (1, b"")
    assert "--allow-gaps" in refused.err
    assert on("replay", "gappy", "--speed", "max", "--allow-gaps").out == b"".join(FRAMES[:2])


def test_a_stream_that_is_still_open_plays_as_far_as_it_is(on: Callable[..., Ran]) -> None:
    ran = on("replay", "streaming", "--speed", "max")
    assert (ran.code, ran.out) == (0, b"".join(FRAMES[:2]))
    assert "Exchange 1: it is not finished" in ran.err


def test_a_followed_table_has_a_header_and_columns(on: Callable[..., Ran]) -> None:
    followed = on("events", "first", "--follow", "--limit", 7).text.splitlines()
    assert followed[0].split() == on("events", "first").text.splitlines()[0].split()
    for column in ("type", "text"):
        assert {line[followed[0].index(column) - 1] for line in followed} == {" "}


@pytest.mark.parametrize("arguments", [("events", "hostile"), ("events", "hostile", "--follow", "--limit", 4)])
def test_recorded_text_cannot_take_over_a_terminal(on: Callable[..., Ran], arguments: tuple[str, ...]) -> None:
    shown = on(*arguments).text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    assert "\\x1b" in shown


@given(st.text())
def test_safe_text_has_no_control_characters(text: str) -> None:
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", safe_text(text))
    safe_text(text).encode()


@pytest.mark.parametrize(
    ("ns", "shown"), [(None, ""), (0, "0.000 s"), (1_234_500_000, "1.234 s"), (125_000_000_000, "2 min 5 s")]
)
def test_spans_of_time_are_readable(ns: int | None, shown: str) -> None:
    assert seconds(ns) == shown


@pytest.mark.parametrize(
    ("usd", "shown"),
    [("0", "$0"), ("0.0000012345", "$0.00000123"), ("0.5", "$0.5"), ("0.9999", "$1.00"), ("1234.567", "$1,234.57")],
)
def test_amounts_are_readable(usd: str, shown: str) -> None:
    assert dollars(usd, is_partial=False) == shown
    assert dollars(usd, is_partial=True) == f"≥ {shown}"


WRONG = [
    (["events", "nosuch"], 3, "There is no session 'nosuch'"),
    (["events", "latest", "--exchange", "9"], 3, "has no exchange 9"),
    (["events", "first", "--exchange", "99"], 3, "has no exchange 99: it has only 1."),
    (["events", "latest", "--raw", "--json"], 2, "choose one"),
    (["events", "latest", "--follow", "--json"], 2, "use --jsonl"),
    (["replay", "latest", "--speed", "0"], 2, "give a number over 0, or max"),
    (["replay", "latest", "--speed", "nan"], 2, "give a number over 0, or max"),
    (["replay"], 2, "Missing argument 'SESSION'"),
    (["sessions", "--limit", "0"], 2, "--limit"),
    (["nonsense"], 2, "No such command 'nonsense'."),
    (["sesions"], 2, "Did you mean 'sessions'?"),
    (["env", "openai", "--url", "localhost:8787"], 2, "is not an http or https URL"),
    (["env", "openai", "--url", "http://x/?y"], 2, "is not an http or https URL"),
    (["env", "codex", "--url", 'http://x/"'], 2, "is not an http or https URL"),
    (["serve", "--host", "0.0.0.0"], 2, "is not a loopback address"),
    (["serve", "--host", "::"], 2, "is not a loopback address"),
    (["serve", "--host", "example.com"], 2, "is not a loopback address"),
]


@pytest.mark.parametrize(("arguments", "code", "sentence"), WRONG)
def test_wrong_use_is_answered_with_one_sentence(
    recorded: Recorded, arguments: list[str], code: int, sentence: str
) -> None:
    ran = run(*arguments, RECORDER_DB=str(recorded.path))
    assert (ran.code, ran.out) == (code, b"")
    assert sentence in ran.err
    assert "Traceback" not in ran.err


def test_an_ambiguous_prefix_names_the_candidates(on: Callable[..., Ran]) -> None:
    ids = [row["session_id"] for row in json.loads(on("sessions", "--json").out)]
    ran = on("events", ids[0][:4])
    assert ran.code == 2
    assert any(session_id in ran.err for session_id in ids)


def test_nothing_recorded_is_exit_code_three(tmp_path: Path) -> None:
    missing = run("sessions", "--db", tmp_path / "none.db")
    assert (missing.code, "nothing has been recorded there" in missing.err) == (3, True)
    Store(tmp_path / "empty.db").close()
    empty = run("sessions", "--db", tmp_path / "empty.db")
    assert (empty.code, "Nothing is recorded yet" in empty.err) == (3, True)
    assert run("sessions", "--json", "--db", tmp_path / "empty.db").out == b"[]\n"
    latest = run("show", "latest", "--db", tmp_path / "empty.db")
    assert (latest.code, latest.err.endswith("empty.db: nothing is recorded there.\n")) == (3, True)


def test_a_reader_that_has_seen_enough_is_no_error(recorded: Recorded) -> None:
    command = f"{sys.executable} -m recorder events first --raw --db {recorded.path} | head -c 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True)
    assert done.stderr == b""


def test_recover_makes_no_database(tmp_path: Path) -> None:
    ran = run("db", "recover", "--db", tmp_path / "typo.db")
    assert (ran.code, list(tmp_path.iterdir())) == (3, [])
    assert "There is no database" in ran.err


def test_db_path_upgrade_and_recover(tmp_path: Path) -> None:
    path = tmp_path / "new" / "recorder.db"
    assert run("db", "path", "--db", path).text == f"{path}\n"
    assert not path.exists()
    assert run("db", "upgrade", "--db", path).code == 0
    assert path.exists()
    assert "nothing to recover" in run("db", "recover", "--db", path).err
    journal = Journal(Path(f"{path}.journal"), "killed")
    head = RequestHead(uuid7(1, bytes(10)), uuid7(2, bytes(10)), 3, "POST", "/v1/responses", "openai", [])
    journal.exchange().write(Mark.REQUEST, 1, msgspec.json.encode(head))
    journal.close()
    assert "1 journal recovered" in run("db", "recover", "--db", path).err
    assert json.loads(run("sessions", "--json", "--db", path).out)[0]["status"] == "recorder_crash"


@pytest.mark.parametrize("client", [*VARIABLES, CODEX])
def test_env_is_what_a_shell_can_evaluate(client: str) -> None:
    printed = run("env", client, "--url", "http://127.0.0.1:9000/", "--session", "a b/c")
    assert (printed.code, printed.err) == (0, "")
    assert printed.text.startswith(("export ", "codex() {"))
    assert "http://127.0.0.1:9000/s/a%20b%2Fc" in printed.text
    subprocess.run(["bash", "-ec", printed.text], check=True)


@pytest.mark.parametrize("client", ALIASES)
def test_env_knows_the_names_that_people_type(client: str) -> None:
    assert run("env", client).text == run("env", ALIASES[client]).text


@pytest.mark.parametrize("client", FILES)
def test_env_says_what_belongs_into_the_file_of_a_client(client: str) -> None:
    printed = run("env", client, "--url", "http://127.0.0.1:9000", "--session", "a b")
    assert (printed.code, FILES[client].place in printed.err) == (0, True)
    assert "http://127.0.0.1:9000/s/a%20b/v1" in printed.text
    if FILES[client].place.endswith((".json", ".jsonc")):
        json.loads(printed.text)
    if FILES[client].place.endswith(".toml"):
        tomllib.loads(printed.text)


def test_env_points_what_reads_either_variable_of_openai() -> None:
    """LlamaIndex reads the older one, and asks the provider itself without it."""
    assert "export OPENAI_API_BASE=http://127.0.0.1:8787/v1\n" in run("env", "llamaindex").text
    assert "export OPENAI_BASE_URL=http://127.0.0.1:8787/v1\n" in run("env", "openai").text


@pytest.mark.parametrize(
    ("url", "excepted", "exports"),
    [
        ("http://127.0.0.1:1", None, ["NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1"]),
        ("http://[::1]:1", None, ["NO_PROXY=::1", "no_proxy=::1"]),
        ("http://127.0.0.1:1", "{a}, b c", ["NO_PROXY='{a}, b c,127.0.0.1'", "no_proxy=127.0.0.1"]),
        ("http://127.0.0.1:1", "a, 127.0.0.1", ["no_proxy=127.0.0.1"]),
    ],
)
@pytest.mark.parametrize("proxy", ["HTTP_PROXY", "all_proxy"])
def test_env_leads_past_the_proxy_of_a_company(url: str, excepted: str | None, exports: list[str], proxy: str) -> None:
    given = {proxy: "http://proxy:3128"} | ({} if excepted is None else {"NO_PROXY": excepted})
    printed = run("env", "openai", "--url", url, **given).text
    assert [line.removeprefix("export ") for line in printed.splitlines()[2:]] == exports


@pytest.mark.parametrize("client", ["anthropic", "claude", "vercel", "litellm"])
def test_env_names_the_upstream_that_a_probe_is_for(client: str) -> None:
    """A path that no API has says nothing of where it goes."""
    (base,) = re.findall(r"ANTHROPIC_\w+=(\S+)", run("env", client).text)
    path = base.removeprefix("http://127.0.0.1:8787").removesuffix("/v1")
    assert Routes().route(f"{path}/api/hello", []).upstream.name == "anthropic"


@pytest.mark.parametrize("shell", [shell for shell in ("bash", "zsh", "dash") if shutil.which(shell)])
def test_env_of_codex_works_on_the_line_that_evaluates_it(shell: str, tmp_path: Path) -> None:
    (tmp_path / "codex").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    (tmp_path / "codex").chmod(0o755)
    line = f'eval "$({sys.executable} -m recorder env codex)" && codex exec "a  prompt"'
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "OPENAI_API_KEY": "mine"}
    done = subprocess.run([shell, "-c", line], capture_output=True, text=True, env=environment, check=True)
    given = done.stdout.splitlines()
    assert given[-2:] == ["exec", "a  prompt"]
    assert given[:3:2] == ["-c", "-c"]
    assert tomllib.loads(given[3])["model_providers"]["recorder"] == {
        "name": "recorder",
        "base_url": "http://127.0.0.1:8787/v1",
        "wire_api": "responses",
        "env_key": "OPENAI_API_KEY",
        "supports_websockets": True,
    }


def test_every_verb_is_listed_and_has_an_example() -> None:
    context = click.Context(recorder)
    for verb, summary in VERBS.items():
        command = recorder.get_command(context, verb)
        assert command is not None
        assert summary in " ".join(run("--help").text.split())
        helps = [command.help or ""]
        if isinstance(command, click.Group):
            helps = [sub.help or "" for sub in command.commands.values()]
        assert all("\b" in text and f"recorder {verb}" in text for text in helps), f"{verb} has no example"


def test_an_interrupted_demo_does_not_look_like_an_upstream_fault(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "recorder", "demo", "--db", str(tmp_path / "demo.db")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "POST /v1/responses" in line)  # the second one streams now
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert (process.returncode, "Traceback" in said) == (130, False), said
    [row] = json.loads(run("sessions", "--json", "--db", tmp_path / "demo.db").out)
    assert row["status"] in ("completed", "client_disconnect", "recorder_shutdown")


def test_the_demo_says_lines_that_can_be_pasted(demo: Demo) -> None:
    shown = [line[2:] for line in demo.said.splitlines() if line.startswith(("$ recorder ", "  recorder "))]
    assert len(shown) == 9
    for line in shown:
        program, *arguments = shlex.split(line)
        assert (program, arguments[-2:]) == ("recorder", ["--db", str(demo.path)])
    again = shlex.split(next(line for line in shown if "events" in line))[1:]
    assert run(*again).code == 0


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.timed  # on a busy machine it says at its end that it is late
@pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")
@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_the_address_of_ipv6_has_brackets(host: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "recorder", "serve", "--host", host, "--port", "0", "--db", str(tmp_path / "x.db")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(7)]
        process.terminate()
        assert process.stderr.read() == ""
    assert re.fullmatch(r"Listening on http://\[::1\]:\d+\n", lines[1])
    assert re.search(r"recorder env CLIENT --url 'http://\[::1\]:\d+'", lines[6])


def test_the_launcher_is_the_command() -> None:
    done = subprocess.run([sys.executable, ROOT / "cli.py", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("recorder, version")
