"""A fifth format is a folder and its line in a table, a further company is a row: nothing else is
changed for them.

The package is copied, the folder `acme` of the tests and its line are put into the copy, and a row
for the company that speaks that format and a known one. Everything is done by commands of that
copy, over real sockets.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.corpus import DATA, ROOT
from tests.support.http_server import Handler, listening
from tests.support.server import PROGRAM, Serving, environment, serving

KEY = "acme_" + 30 * "k"


def stream(id: str, *texts: str) -> bytes:
    events: list[dict[str, Any]] = [
        {"type": "start", "chatter": 1, "id": id, "model": "acme-1"},
        *({"type": "text", "text": text} for text in texts),
        {"type": "end", "reason": "said", "usage": {"in": 3, "out": 2}},
    ]
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)


ANSWERS = {
    "one": stream("a-1", "Hel", "lo"),
    "other": stream("a-2", "Hel", "lo"),
    "wrong": b"data: {no JSON}\n\n" + stream("a-3", "Hel", "lo"),
}


COMPLETION = {
    "id": "a-4",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-4o-mini",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello"}}
    ],
    "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 0, "total_tokens": 1_000_000},
}

ROW = """\
    Provider(
        name="acme",
        base_url="{base}",
        formats=("acme-chatter", "openai-chat"),
        telemetry_name="acme.ai",
        price_name="openai",
        paths=re.compile(r"/v1/chatter$"),
        environment={{"ACME_BASE_URL": "{{url}}/acme/v1"}},
        key_variable="ACME_KEY",
        harmless_headers="acme-region",
        key_shapes=(issued("acme-key acme_ [A-Za-z0-9] 30"),),
    ),
"""


class Acme(Handler):
    """The company: what is asked for is the name of an answer."""

    def do_POST(self) -> None:
        question = json.loads(self.given())
        is_chat = self.path == "/v1/chat/completions"
        self.send_response(200)
        self.send_header("content-type", "application/json" if is_chat else "text/event-stream")
        self.send_header("acme-region", "north")
        self.send_header("acme-account", "secret")
        self.end_headers()
        self.wfile.write(json.dumps(COMPLETION).encode() if is_chat else ANSWERS[question["ask"]])


@contextlib.contextmanager
def acme() -> Iterator[str]:
    with listening(Acme) as url:
        yield url


class Program:
    """The copy of the program, a database, and what was recorded into it."""

    def __init__(self, home: Path) -> None:
        self.home, self.db = home, home / "recorder.db"
        self.got: dict[str, bytes] = {}

    def record(self, base: str, ask: str, **more: str) -> bytes:
        response = httpx.post(
            f"{base}/s/{ask}/acme/v1/chatter", json={"ask": ask, "key": KEY, **more}
        )
        return response.content

    def run(self, *arguments: object, code: int = 0) -> str:
        done = subprocess.run(
            [*PROGRAM, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=self.home,
            env={**environment(self.home), "RECORDER_DB": str(self.db)},
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    def rows(self, sql: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.run("query", sql, "--json"))
        return found


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    home = tmp_path_factory.mktemp("fifth")
    shutil.copytree(ROOT / "recorder", home / "recorder")
    (home / "migrations").symlink_to(ROOT / "migrations")
    dialects = home / "recorder/wire/dialects"
    shutil.copytree(DATA / "acme", dialects / "acme")
    table = dialects / "__init__.py"
    line = '    "recorder.wire.dialects.gemini",\n'
    table.write_text(table.read_text().replace(line, line + line.replace("gemini", "acme")))
    companies = home / "recorder/wire/providers.py"
    before, row, after = companies.read_text().rpartition("    *_companies(")
    made = Program(home)
    with acme() as base:
        companies.write_text(before + ROW.format(base=base) + row + after)
        with serving(made.db, "--upstream", "acme", program=PROGRAM) as serve:
            made.got = {ask: made.record(serve.base, ask) for ask in ANSWERS}
            httpx.post(
                f"{serve.base}/s/chat/acme/chat/completions",
                json={"model": "gpt-4o-mini", "messages": []},
            )
    made.run("db", "recover")
    return made


def test_it_is_recorded_under_its_name_and_without_its_secrets(program: Program) -> None:
    assert program.got == ANSWERS
    exchanges = program.rows("select distinct api, provider from exchanges order by api")
    assert [[*each.values()] for each in exchanges] == [
        ["acme-chatter", "acme"],
        ["openai-chat", "acme"],
    ]
    events = program.run("events", "one", "--jsonl")
    assert KEY not in events
    assert "acme-key" in events
    assert '"north"' in program.run(
        "query", "select raw from events where kind = 'response'", "--json"
    ).replace("\\", "")


def test_it_is_projected(program: Program) -> None:
    shown = program.run("show", "one")
    assert "Hello" in shown
    assert "(said)" not in shown, "a usual reason to finish is not worth a word"
    of_models = {each["model"]: each for each in json.loads(program.run("usage", "--json"))}
    usage = of_models["acme-1"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (9, 6)


def test_the_general_rules_and_its_own_judge_it(program: Program) -> None:
    assert json.loads(program.run("lint", "one", "--json")) == []
    findings = json.loads(program.run("lint", "wrong", "--json", code=4))
    assert [(each["profile"], each["rule"]) for each in findings] == [
        ("acme", "ST002"),
        ("acme", "AC001"),
    ]


def test_a_gateway_of_it_is_probed(program: Program) -> None:
    with acme() as base:
        assert "passed" in program.run("probe", base, "--api", "acme-chatter", "--only", "chat")


def test_its_noise_is_no_difference(program: Program) -> None:
    program.run("diff", "one", "other", "--only", "answer,tools,usage,events")
    assert "no JSON" in program.run("diff", "one", "wrong", code=4)


def test_its_payloads_are_imported(program: Program) -> None:
    lines = [line.removeprefix(b"data: ") for line in ANSWERS["one"].splitlines() if line]
    (program.home / "stored.jsonl").write_bytes(b"\n".join(lines))
    program.run("import", "stored.jsonl", "--session", "imported")
    found = program.rows(
        "select e.api, e.target from exchanges e join sessions s using (session_id) where s.name = 'imported'"
    )
    assert found == [{"api": "acme-chatter", "target": "/v1/chatter"}]
    assert b"".join(b"data: %b\n\n" % line for line in lines) == ANSWERS["one"]


def test_it_is_mocked_and_refuses_in_its_own_way(program: Program) -> None:
    command = [*PROGRAM, "mock", "one", "--port", "0", "--speed", "max"]
    env = {**environment(program.home), "RECORDER_DB": str(program.db)}
    with (program.home / "mock.log").open("wb+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=program.home, env=env)
        mock = Serving(process, program.db, output.fileno())
        try:
            mock.listen()
            asked = httpx.post(
                f"{mock.base}/acme/v1/chatter", json={"ask": "one", "key": KEY, "ticket": "another"}
            )
            assert asked.content == ANSWERS["one"]
            missed = httpx.post(
                f"{mock.base}/acme/v1/chatter", json={"ask": "what was never asked"}
            )
            assert [*missed.json()] == ["acme_error"]
        finally:
            mock.close()


def test_its_clients_are_pointed_here(program: Program) -> None:
    assert program.run("env", "acme") == "export ACME_BASE_URL=http://127.0.0.1:8787/acme/v1\n"


def test_a_company_is_named_in_telemetry(program: Program) -> None:
    line = json.loads(program.run("export", "chat", "--format", "otlp-json"))
    (span,) = line["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert {"key": "gen_ai.provider.name", "value": {"stringValue": "acme.ai"}} in span[
        "attributes"
    ]


def test_a_company_has_the_prices_of_its_name_in_the_list(program: Program) -> None:
    program.run("prices", "update")
    costs = program.rows("select provider, model, cost_usd from costs where model = 'gpt-4o-mini'")
    assert costs == [{"provider": "acme", "model": "gpt-4o-mini", "cost_usd": 0.15}]
