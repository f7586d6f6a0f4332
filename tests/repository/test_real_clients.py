"""The table of `docs/clients.md`, and what `make test-clients` is told of clients. The run itself
needs registries.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.corpus import ROOT
from tools.real_clients import installing, table
from tools.real_clients.agents import claude, codex, gemini, opencode, shells
from tools.real_clients.client import COLUMNS, Said
from tools.real_clients.clients import CLIENTS, read

DOC = table.PATH.read_text()


def test_the_table_has_a_row_for_each_client_at_its_version() -> None:
    found = {name: row[1] for name, row in table.rows(DOC).items()}
    assert found == {client.name: client.version for client in CLIENTS}


def test_each_cell_of_the_table_has_a_verdict() -> None:
    for name, row in table.rows(DOC).items():
        assert len(row) == len(table.HEAD), name
        assert all(re.match(r"yes$|no: .|– .", cell) for cell in row[2:-1]), name
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", row[-1]), name


def test_no_two_clients_have_one_name() -> None:
    assert max(Counter(client.name for client in CLIENTS).values()) == 1


def test_each_client_is_pinned() -> None:
    for client in CLIENTS:
        pins = [
            re.fullmatch(r"[^=]+==[\w.]+|@?[^@]+@[\w.-]+", package) for package in client.packages
        ]
        assert all(pins), client.name
        assert not client.packages or any(
            client.version in package for package in client.packages
        ), client.name
        assert set(client.waived) <= set(COLUMNS), client.name
        assert client.slow or "interrupted" in client.waived, client.name


def test_other_pins_are_installed_in_another_folder() -> None:
    assert installing.folder(("a@1",)) != installing.folder(("a@2",))
    assert installing.folder(("@b/a@1",)).name.startswith("b-a-1-")


def test_rows_of_clients_that_were_not_run_stay() -> None:
    first, second = CLIENTS[:2]
    empty = f"before\n{table.BEGIN}\n{table.END}\nafter\n"
    results = dict.fromkeys(COLUMNS, "yes")
    once = table.written(empty, CLIENTS, {first.name: table.row(first, results, "2026-01-01")})
    twice = table.written(once, CLIENTS, {second.name: table.row(second, results, "2026-01-02")})
    assert [row[-1] for row in table.rows(twice).values()] == ["2026-01-01", "2026-01-02"]
    assert twice.startswith("before\n")
    assert twice.endswith("after\n")
    assert table.written(twice, CLIENTS, {}) == twice


CODEX = """{"type":"thread.started","thread_id":"01a2"}
{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"done"}}
{"type":"turn.completed","usage":{"input_tokens":12,"cached_input_tokens":4,"output_tokens":3}}
"""
CLAUDE = """{"type":"result","result":"done","modelUsage":{"m":{"inputTokens":8,"outputTokens":3,
"cacheReadInputTokens":4,"cacheCreationInputTokens":0}}}""".replace("\n", "")
GEMINI = """YOLO mode
{"response":"done","stats":{"models":{"a":{"tokens":{"prompt":10,"candidates":1,"thoughts":1}},
"b":{"tokens":{"prompt":2,"candidates":1,"thoughts":0}}}}}"""
OPENCODE = """{"type":"text","part":{"type":"text","text":"done"}}
{"type":"step_finish","part":{"type":"step-finish","tokens":{"input":8,"output":2,"reasoning":1,
"cache":{"write":0,"read":4}}}}""".replace(",\n", ",")
LLM = "Token usage: 10 input, 1 output, {}\nToken usage: 1,002 input, 2 output\n"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (codex.read(CODEX, ""), Said("done", 12, 3, "thread_id = '01a2'")),
        (claude.read(CLAUDE, ""), Said("done", 12, 3)),
        (gemini.read(GEMINI, ""), Said("done", 12, 3)),
        (opencode.read(OPENCODE, "")._replace(where="1"), Said("done", 12, 3)),
        (shells.read_llm("done\n", LLM), Said("done", 1_012, 3)),
        (read('done\n{"input_tokens": 12, "output_tokens": 3}\n', ""), Said("done", 12, 3)),
        (read("done\nnull\n", ""), Said("done")),
    ],
)
def test_what_a_client_reports_is_read(said: Said, expected: Said) -> None:
    assert said == expected


def run(*words: str, path: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.real_clients", *words]
    return subprocess.run(
        command, cwd=ROOT, env={"PATH": path}, capture_output=True, text=True, timeout=60
    )


def test_without_a_namespace_nothing_is_installed_or_run(tmp_path: Path) -> None:
    done = run("codex", path=str(tmp_path))  # where there is no unshare, npm or pip
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.startswith("No network namespace can be made here")


def test_a_name_that_no_client_has_is_answered_with_those_there_are(tmp_path: Path) -> None:
    done = run("nobody", path=str(tmp_path))
    assert done.returncode == 2
    assert CLIENTS[0].name in done.stdout


def test_the_cache_is_not_of_the_project() -> None:
    assert ".clients/" in (ROOT / ".gitignore").read_text().splitlines()
