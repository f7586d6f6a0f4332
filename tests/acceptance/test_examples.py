"""What `--help`, README and docs/ show is typed, as it stands, in a shell, on a real recording."""

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
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import trustme

from recorder.commands.verbs import VERBS
from recorder.store.schema import HEAD
from tests.support.commands import COMMANDS, blocks
from tests.support.console import PAGES, Terminal, name_of, steps
from tests.support.console import blocks as of_page
from tests.support.corpus import DATA, ROOT
from tests.support.server import PROGRAM, STOPPED_S, environment, run, wait_until

# What asks an agent, its client, the network, a server or somebody at a terminal, or takes many
# seconds: the quick start, the demo, Codex, `mcp`, `tap`, transcripts, collectors, PostgreSQL and
# attached archives have tests of their own.
ELSEWHERE = re.compile(
    r"recorder (?:mcp|demo|tap|import ~|export --to|(?:probe|resend|bisect) (?!.*--dry-run)|"
    r"db purge (?!.*--(?:yes|dry-run)))|curl |-- codex|env codex|codex mcp|claude |make |pip "
    r"|pytest |postgresql://|--gone-after|"
    r"recorder db archive --(?:at|de)tach ducklake:archive\.db"
)
# What does not end by itself, and what it prints when it has begun.
LASTING = re.compile(r"recorder (?:serve|ui|mock|tail|events .*--follow)\b")
BEGUN = re.compile(r"Listening on|http://127|Following|\"request\"")
LOOKS = re.compile(
    r"recorder (?:lint\b|diff (?!latest tests)|prices list\b|torture\b)|-q |my-run|--status|--chain"
)  # what may find nothing in this recording, or something
# What says nothing when all is well.
SILENT = re.compile(
    r"^eval|--only timing|^export|lint --cassette|export --rewrite|my-run|>|doctor --json \| jq"
)

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


FROM_HELP = [
    line for command in COMMANDS.values() for line in lines(blocks(command.help).replace("\b", ""))
]
FROM_PAGES = [line for page in PAGES for line in lines(shell(page))]
IN_HELP_ONLY = [line for line in dict.fromkeys(FROM_HELP) if line not in FROM_PAGES]
needs_tools = pytest.mark.skipif(
    not (shutil.which("jq") and shutil.which("sqlite3")), reason="no jq or no sqlite3"
)

# it answers at the pace of a model, so such a page takes its time
OWN_PROVIDER = "\n$ recorder demo --serve &\n"
IN_TERMINALS = [
    pytest.param(
        page, id=name_of(page), marks=[pytest.mark.slow] if OWN_PROVIDER in page.read_text() else []
    )
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
    (folder / "tests" / "cassettes" / "test_turn.yaml").write_bytes(
        run(db, "export", "latest", "--format", "vcr").out
    )
    shutil.copy(folder / "run.sse.jsonl", folder / "tests" / "cassettes" / "weather.sse.jsonl")
    for name, place in THEIRS.items():
        shutil.copy(DATA / "cassettes" / name, folder / place)
    (folder / "logs").mkdir()
    logged = (DATA / "cassettes" / "litellm.jsonl").read_text().splitlines()
    (folder / "logs" / "one.json").write_text(logged[0])
    assert run(db, "export", str(folder / "analysis"), "--format", "parquet").code == 0
    (folder / "recordings.manifest").write_bytes(run(db, "verify", "--manifest").out)
    (folder / "prices.toml").write_text(
        '[[price]]\nprovider = "openai"\nmodel = "gpt-*"\ninput = 1.1\noutput = 8.8\n'
    )
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
    """Of a user who has set the database of a folder."""
    return {
        **environment(place),
        "PATH": f"{Path(sys.executable).parent}:{environment(place)['PATH']}",
        "RECORDER_DB": str(place / "recorder.db"),
        "RECORDER_REPLAY_SPEED": "max",
        **{f"RECORDER_{verb}_PORT": "0" for verb in ("SERVE", "MOCK", "UI")},
    }


# What a line has of a shell and needs none: where its output goes, what is set for it, and that it
# is evaluated.
_REDIRECTED = re.compile(r" > [\w.-]+(?= *(?:#|$))")
_SET = re.compile(r"(?:RECORDER_\w+=\S+ )+(?=recorder )")
_EVALUATED = re.compile(r'eval "\$\(recorder ([^)]+)\)"')


Printed = tuple[int, str, str]
"""An exit code, and what came on stdout and stderr."""


def typed(line: str, place: Path, taken: int) -> Printed:
    """What a line does: in this process if it needs no shell."""
    plain = _REDIRECTED.sub("", line)
    words = shlex.split(_SET.sub("", plain).rstrip("& "), comments=True)[1:]
    if LASTING.match(_SET.sub("", line)):
        if words[0] in ("tail", "events"):
            return interrupted(words, place)
        before = _SET.match(line)
        return understood(words, place, taken, before[0].split() if before else ())
    if evaluated := _EVALUATED.match(line):
        code, out, err = in_process(shlex.split(evaluated[1]), place)
        return code or subprocess.run(["bash", "-c", out]).returncode, out, err
    if re.match(r"recorder (?!run)", plain) and not re.search(
        r"[|><;&$`*]", re.sub(r'"[^"]*"', "", plain)
    ):
        return in_process(words, place)
    command = ["bash", "-o", "pipefail", "-c", line]
    done = subprocess.run(
        command, cwd=place, env=variables(place), capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


def in_process(words: Sequence[str], place: Path, assigned: Sequence[str] = ()) -> Printed:
    with pytest.MonkeyPatch.context() as patched:
        for name, _, value in (each.partition("=") for each in assigned):
            patched.setenv(name, value)
        ran = run(place / "recorder.db", *words, cwd=place)
    return ran.code, ran.out.decode(), ran.err


def understood(words: Sequence[str], place: Path, taken: int, assigned: Sequence[str]) -> Printed:
    """Give a server a port that is taken: it says so when it has understood all of its options."""
    code, out, err = in_process([*words, "--port", str(taken)], place, assigned)
    is_well = code == 1 and re.search(rf"Port {taken} on \S+ is taken", err)
    return 0 if is_well else code or 1, out, err


def interrupted(words: Sequence[str], place: Path) -> Printed:
    """Start what follows a log, and interrupt it when it has begun."""
    said = place / "said"
    with said.open("w") as output:
        process = subprocess.Popen(
            [*PROGRAM, *words], env=variables(place), cwd=place, stdout=output, stderr=output
        )
    try:
        wait_until(lambda: process.poll() is not None or BEGUN.search(said.read_text()))
        process.send_signal(signal.SIGINT)
        code = process.wait(STOPPED_S)
    finally:
        process.kill()
    has_begun = BEGUN.search(said.read_text())
    return 0 if has_begun and code in (0, 130) else code or 1, said.read_text(), ""


def offences(examples: Sequence[str], recorded: Path, folder: Path) -> list[str]:
    """The lines that fail, or that say nothing, each in a new copy of the folder with recordings."""
    found = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for number, line in enumerate(examples):
            place = folder / str(number)
            shutil.copytree(recorded, place)
            code, out, err = typed(
                line.replace("/tmp/", f"{place}/"), place, listener.getsockname()[1]
            )
            is_well = code in ({0, 3, 4} if LOOKS.search(line) else {0}) and "Traceback" not in err
            if not is_well or not (out or err or SILENT.search(line)):
                found.append(f"{line}: {code}\n{out[-1000:]}{err[-1000:]}")
            shutil.rmtree(place)
    return found


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of this process that the commands of examples have too."""
    monkeypatch.setenv("RECORDER_REPLAY_SPEED", "max")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for verb in ("SERVE", "MOCK", "UI"):
        monkeypatch.setenv(f"RECORDER_{verb}_PORT", "0")


@needs_tools
@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(
    "page", [pytest.param(page, id=name_of(page)) for page in PAGES if [*lines(shell(page))]]
)
def test_the_examples_of_a_page_do_what_they_say(
    page: Path, recorded: Path, tmp_path: Path
) -> None:
    assert offences([*dict.fromkeys(lines(shell(page)))], recorded, tmp_path) == []


@needs_tools
@pytest.mark.slow
@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("part", range(4))
def test_the_examples_of_help_do_what_they_say(part: int, recorded: Path, tmp_path: Path) -> None:
    assert offences(IN_HELP_ONLY[part::4], recorded, tmp_path) == []


@pytest.mark.parametrize("page", IN_TERMINALS)
def test_what_a_page_shows_in_a_terminal_is_printed(
    page: Path, recorded: Path, tmp_path: Path
) -> None:
    """In a folder with the recording of the demo; in an empty one if the page starts a provider of
    its own.
    """
    text, place = page.read_text(), tmp_path / "project"
    if OWN_PROVIDER in text:
        place.mkdir()
    else:
        shutil.copytree(recorded, place)
    with Terminal(place, text) as terminal:
        for step in steps(text):
            terminal.do(step)


def test_the_schema_that_a_page_shows_is_the_one_of_today() -> None:
    shown = {
        name_of(page): set(re.findall(r"\bschema (\d{4})\b", page.read_text())) for page in PAGES
    }
    assert {name: found for name, found in shown.items() if found - {HEAD}} == {}


def test_every_verb_is_shown_on_a_page() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    assert [verb for verb in VERBS if not re.search(rf"recorder {verb}\b", text)] == []


def test_the_document_of_show_has_the_keys_that_are_documented(recorded: Path) -> None:
    formats = (ROOT / "docs" / "formats.md").read_text()
    shown = json.loads(run(recorded / "recorder.db", "show", "latest", "--json").out)
    [exchange, *_] = shown["exchanges"]
    items = [item for each in shown["exchanges"] for item in each["items"]]
    keys = {
        *shown,
        *shown["session"],
        *exchange,
        *exchange["usage"],
        *(key for item in items for key in item),
    }
    assert {item["kind"] for item in items} == {"message", "reasoning", "tool_call"}
    assert not {key for key in keys if f'"{key}"' not in formats}
