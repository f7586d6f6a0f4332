"""What `--help`, README and docs/ show is typed, as it stands, in a shell, on a real recording."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from recorder.commands.verbs import VERBS
from recorder.store import migrate
from tests.acceptance.test_help import COMMANDS, blocks
from tests.support import processes
from tests.support.console import Terminal, steps
from tests.support.corpus import DATA, ROOT
from tests.support.pages import PAGES, name_of
from tests.support.pages import blocks as of_page
from tests.support.server import STOPPED_S, environment, run, wait_until
from tools import cli_docs

# What asks an agent, its client, the network, a server or somebody at a terminal, or takes many seconds: the quick
# start, the demo, Codex, `mcp`, collectors, PostgreSQL and attached archives have tests of their own.
ELSEWHERE = re.compile(
    r"recorder (?:mcp|demo|otlp push|probe (?!.*--dry-run)|db purge (?!.*--(?:yes|dry-run)))|curl |-- codex|env codex|"
    r"codex mcp|claude |make |pip |pytest |postgresql://|--gone-after|recorder db (?:at|de)tach ducklake:archive\.db"
)
# What does not end by itself, and what it prints when it has begun.
LASTING = re.compile(r"recorder (?:serve|ui|mock|tail|events .*--follow)\b")
BEGUN = re.compile(r"Listening on|http://127|Following|\"request\"")
LOOKS = re.compile(
    r"recorder (?:lint\b|diff (?!latest tests)|prices list\b)|-q |my-run|--status"
)  # what may find nothing in this recording, or something
# What says nothing when all is well.
SILENT = re.compile(r"^eval|--only timing|^export|cassette (?:check|fmt)|my-run|>|doctor --json \| jq")

# Files of other programs, under the names that pages give them.
THEIRS = {
    "cassetter.yaml": "tests/cassettes/test_chat.yaml",
    "claude-tap.jsonl": "trace.jsonl",
    "mitmproxy.har": "flows.har",
}


def lines(text: str) -> Iterator[str]:
    """The command lines of a block."""
    for line in text.splitlines():
        if re.search(r"\brecorder\b", line) and not ELSEWHERE.search(line):
            yield line.strip()


def shell(page: Path) -> str:
    return "\n".join(of_page(page.read_text(), "sh"))


FROM_HELP = [line for command in COMMANDS.values() for line in lines(blocks(command.help).replace("\b", ""))]
FROM_PAGES = [line for page in PAGES for line in lines(shell(page))]
IN_HELP_ONLY = [line for line in dict.fromkeys(FROM_HELP) if line not in FROM_PAGES]
SHOWN = [*dict.fromkeys(FROM_PAGES), *(pytest.param(line, marks=pytest.mark.slow) for line in IN_HELP_ONLY)]

OWN_PROVIDER = "\n$ recorder demo --serve &\n"  # it answers at the pace of a model, so such a page takes its time
IN_TERMINALS = [
    pytest.param(page, id=name_of(page), marks=[pytest.mark.slow] if OWN_PROVIDER in page.read_text() else [])
    for page in PAGES
    if "\n```console\n" in page.read_text()
]


@pytest.fixture(scope="module")
def recorded(demo_recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recording of the demo, and the files that examples name."""
    folder = tmp_path_factory.mktemp("examples")
    db = Path(shutil.copy(demo_recording, folder / "recorder.db"))
    body = run(db, "export", "latest", "--exchange", "1", "--format", "sse").out
    (folder / "body.sse").write_bytes(body)
    (folder / "session.jsonl").write_bytes(run(db, "export", "latest").out)
    (folder / "run.sse.jsonl").write_bytes(run(db, "export", "latest", "--format", "cassette").out)
    (folder / "tests" / "cassettes").mkdir(parents=True)
    (folder / "tests" / "cassettes" / "test_turn.yaml").write_bytes(run(db, "export", "latest", "--format", "vcr").out)
    shutil.copy(folder / "run.sse.jsonl", folder / "tests" / "cassettes" / "weather.sse.jsonl")
    for name, place in THEIRS.items():
        shutil.copy(DATA / "cassettes" / name, folder / place)
    (folder / "logs").mkdir()
    logged = (DATA / "cassettes" / "litellm.jsonl").read_text().splitlines()
    (folder / "logs" / "one.json").write_text(logged[0])
    assert run(db, "export", str(folder / "analysis"), "--format", "parquet").code == 0
    (folder / "recordings.manifest").write_bytes(run(db, "verify", "--manifest").out)
    (folder / "prices.toml").write_text('[[price]]\nprovider = "openai"\nmodel = "gpt-*"\ninput = 1.1\noutput = 8.8\n')
    (folder / "recorder.toml").write_text('[replay]\nspeed = "max"\n')
    (folder / "report.sql").write_text("select * from usage_by_day")
    payloads = b"".join(re.findall(rb"^data: (.*\n)", body, re.MULTILINE))
    (folder / "chunks.jsonl").write_bytes(payloads)
    (folder / "app.py").write_text("print('nothing is asked')")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "corp-root.pem")
    mine = authority.issue_cert("me@company.example")
    mine.cert_chain_pems[0].write_to_path(folder / "me.pem")
    mine.private_key_pem.write_to_path(folder / "me.key")
    (folder / "fixtures").mkdir()
    (folder / "fixtures" / "one.chunks.txt").write_bytes(payloads)
    for command in ("init -q", "add tests"):
        subprocess.run(["git", *command.split()], cwd=folder, check=True)
    return folder


def variables(place: Path) -> dict[str, str]:
    return {
        **environment(place),
        "PATH": f"{Path(sys.executable).parent}:{environment(place)['PATH']}",
        "RECORDER_DB": str(place / "recorder.db"),
        "RECORDER_REPLAY_SPEED": "max",
        **{f"RECORDER_{verb}_PORT": "0" for verb in ("SERVE", "MOCK", "UI")},
    }


def interrupted(line: str, place: Path) -> int:
    """Start what a line starts, on free ports; interrupt it when it has begun, and return its exit code."""
    words = shlex.split(re.sub(r"(port) \d+", r"\1 0", re.split(r" [>&]", line)[0]), comments=True)
    said = place / "said"
    said.touch()
    process = processes.Process(words[1:], variables(place), place, (str(said), str(said)), leads=True)
    try:
        wait_until(lambda: process.poll() is not None or BEGUN.search(said.read_text()))
        assert BEGUN.search(said.read_text()), said.read_text()
        process.send_signal(signal.SIGINT)
        return process.wait(STOPPED_S)
    finally:
        process.kill()


def typed(line: str, place: Path) -> processes.Ended:
    """A line as a shell runs it; one that needs no shell, as `recorder` runs it."""
    line = line.replace("/tmp/", f"{place}/")
    if re.match(r"recorder (?!run)", line) and not re.search(r"[|><;&$`*]", re.sub(r'"[^"]*"', "", line)):
        return processes.command(shlex.split(line, comments=True)[1:], variables(place), place)
    command = ["bash", "-o", "pipefail", "-c", line]
    done = subprocess.run(command, cwd=place, env=variables(place), capture_output=True, timeout=60)
    return processes.Ended(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("line", SHOWN)
def test_an_example_does_what_it_says(line: str, recorded: Path, tmp_path: Path) -> None:
    for tool in ("jq", "sqlite3"):
        if re.search(rf"\b{tool}\b", line) and shutil.which(tool) is None:
            pytest.skip(f"no {tool} here")
    place = tmp_path / "recorded"
    shutil.copytree(recorded, place)
    if LASTING.match(line):
        assert interrupted(line, place) in (0, 130)
        return
    code, out, err = typed(line, place)
    assert code in ({0, 3, 4} if LOOKS.search(line) else {0}), err.decode()
    assert b"Traceback" not in err
    assert out or err or SILENT.search(line), "it says nothing"


@pytest.mark.parametrize("page", IN_TERMINALS)
def test_what_a_page_shows_in_a_terminal_is_printed(page: Path, recorded: Path, tmp_path: Path) -> None:
    """In a folder with the recording of the demo; in an empty one if the page starts a provider of its own."""
    text, place = page.read_text(), tmp_path / "project"
    if OWN_PROVIDER in text:
        place.mkdir()
    else:
        shutil.copytree(recorded, place)
    with Terminal(place, text) as terminal:
        for step in steps(text):
            terminal.do(step)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_schema_that_a_page_shows_is_the_one_of_today(page: Path) -> None:
    assert set(re.findall(r"\bschema (\d{4})\b", page.read_text())) <= {migrate.HEAD}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_shown_on_a_page(verb: str) -> None:
    """The reference of the command line is made of `--help`, and shows what is there already."""
    pages = [page.read_text() for page in PAGES if page != cli_docs.PAGE]
    assert any(re.search(rf"recorder {verb}\b", page) for page in pages)


def test_the_document_of_show_has_the_keys_that_are_documented(recorded: Path) -> None:
    formats = (ROOT / "docs" / "formats.md").read_text()
    shown = json.loads(run(recorded / "recorder.db", "show", "latest", "--json").out)
    [exchange, *_] = shown["exchanges"]
    items = [item for each in shown["exchanges"] for item in each["items"]]
    keys = {*shown, *shown["session"], *exchange, *exchange["usage"], *(key for item in items for key in item)}
    assert {item["kind"] for item in items} == {"message", "reasoning", "tool_call"}
    assert not {key for key in keys if f'"{key}"' not in formats}


def test_the_numbers_of_the_demo_are_the_same_wherever_they_are_asked(recorded: Path) -> None:
    db = recorded / "recorder.db"
    counted = json.loads(run(db, "usage", "--by", "model", "--json").out)
    asked = json.loads(run(db, "query", "select * from usage_by_model", "--json").out)
    assert sorted(counted, key=lambda row: str(row["model"])) == sorted(asked, key=lambda row: str(row["model"]))
    assert all(row["reasoning_output_tokens"] and row["total_tokens"] for row in counted)


def texts(db: Path, *at: str) -> list[str]:
    shown = json.loads(run(db, "show", "latest", "2", "--json", *at).out)
    return [item.get("text") or "" for each in shown["exchanges"] for item in each["items"]]


def test_half_way_through_an_exchange_its_message_is_half_written(recorded: Path) -> None:
    """Where half-way is hangs on the machine: between three and seven tenths there is such a moment."""
    db = recorded / "recorder.db"
    *before, whole = texts(db)
    moments = [texts(db, "--at", f"{percent}%") for percent in (50, 60, 40, 70, 30)]
    halves = [half for *_, half in moments if half and half != whole]
    assert halves
    assert all(whole.startswith(half) for half in halves)
    assert all(moment[:-1] == before[: len(moment) - 1] for moment in moments)
