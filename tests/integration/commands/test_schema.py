"""`--schema`: a JSON Schema for each `--json`, compared with what commands really write."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from jsonschema import Draft202012Validator

from tests.acceptance.security.test_printed_text import recording
from tests.support.commands import COMMANDS
from tests.support.conversations import FRAMES, Conversations, Recorded, message, response
from tests.support.otlp import receiving
from tests.support.probe.faults import PLANTED
from tests.support.probe.gateway import gateways
from tests.support.server import Ran, run
from tools.landed_schemas import landed, promised, schemas

NONE = Path("/none/recorder.db")
FAULT = "chat-no-done"  # of the demo behind a gateway
VARIANTS = {
    "show-request",
    "show-cache",
    "show-chain",
    "query-list",
    "lint-list",
    "db-archive-list",
}
"""Forms that another option of the same command chooses."""


def with_json() -> set[str]:
    """The names of the commands that write JSON."""
    return {
        name.replace(" ", "-")
        for name, command in COMMANDS.items()
        if {"json", "jsonl"}
        & {each.name for each in command.params if isinstance(each, click.Option)}
    }


def test_every_command_that_writes_json_has_a_schema() -> None:
    assert schemas().keys() == with_json() | VARIANTS


def objects(schema: Any, path: str = "$") -> Iterator[tuple[str, dict[str, Any]]]:
    """The parts of a schema that are schemas of objects with known properties."""
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            yield path, schema
        for name, each in schema.items():
            yield from objects(each, f"{path}/{name}")
    elif isinstance(schema, list):
        for number, each in enumerate(schema):
            yield from objects(each, f"{path}/{number}")


def test_a_schema_describes_every_property_and_allows_others() -> None:
    for name, schema in schemas().items():
        Draft202012Validator.check_schema(schema)
        assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
        assert schema["title"].startswith("recorder " + name.split("-")[0])
        for path, each in objects(schema):
            assert each["additionalProperties"] is True, (name, path)
            assert set(each["required"]) <= each["properties"].keys(), (name, path)
            undescribed = {
                key for key, value in each["properties"].items() if not value.get("description")
            }
            assert not undescribed, (name, path)


def closed(schema: Any) -> Any:
    """The same schema, for which a property that it does not know is wrong."""
    if isinstance(schema, dict):
        found = {name: closed(each) for name, each in schema.items()}
        return (
            {**found, "additionalProperties": False}
            if isinstance(schema.get("properties"), dict)
            else found
        )
    return [closed(each) for each in schema] if isinstance(schema, list) else schema


def problems(name: str, value: Any) -> list[str]:
    """What a schema does not allow in a value, unknown properties included."""
    found = Draft202012Validator(closed(schemas()[name])).iter_errors(value)
    return [f"{each.json_path}: {each.message[:200]}" for each in found]


@pytest.fixture(scope="module")
def db(demo_recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("schemas")
    path = Path(shutil.copy(demo_recording, folder / "recorder.db"))
    made = Recorded(path)
    made.session("faulty", FRAMES, FRAMES[:3])
    made.session("gappy", FRAMES[:2], gap=True)
    made.session("open", FRAMES[:2], ended=False)
    made.session("bytes", [b"data: \xff\xfe\n\n"])
    chained = Conversations(path).session("chained")
    said = message("It is clear in Paris today.")
    chained.exchange(response(*message("Let me see."), *said), provider="app")
    chained.exchange(response(*said), at_s=0.001, provider="model")
    assert (
        run(path, "token", "add", "ann", "--tag", "dev", "--file", folder / "tokens.json").code == 0
    )
    (folder / "prices.toml").write_text(
        '[[price]]\nprovider = "openai"\nmodel = "gpt-*"\ninput = 1.1\noutput = 8.8\n'
    )
    assert run(path, "prices", "update", "--file", folder / "prices.toml").code == 0
    (folder / "run.sse.jsonl").write_bytes(
        run(path, "export", "latest", "--format", "cassette").out
    )
    Recorded(folder / "elsewhere.db").session("elsewhere", FRAMES)
    (folder / "recordings.manifest").write_bytes(
        run(folder / "elsewhere.db", "verify", "--manifest").out
    )
    return path


WRITTEN = """\
sessions
sessions --probes
show latest
show faulty
show gappy
show open
show latest 2 --at 50%
show faulty --request --json
events faulty
events bytes
events gappy
query "select * from exchange_summary"
query "select raw from events"
query --list
lint faulty
lint latest
lint --list
diff faulty:1 faulty:2
diff latest faulty
diff latest latest
diff latest:1 latest:3 --exact
usage
usage --cost
usage --by tool --by outcome
usage --by session --by day --by hour --by week --by month --by client --by effort --by tier --by tools
usage --by owner --by team --by tag
show latest --cache
show run.sse.jsonl --cache
show chained --chain
verify
verify gappy
verify --against recordings.manifest
db archive --older-than 0s --to ducklake:/none/lake.db --dry-run
doctor
prices list
token list --file tokens.json
import run.sse.jsonl
db archive --list
db copy recorder.db other.db
db purge --older-than 0s --dry-run
"""


def name_of(words: list[str]) -> str:
    """The schema of a command line."""
    command = next(
        name
        for name in sorted(COMMANDS, key=len, reverse=True)
        if words[: name.count(" ") + 1] == name.split()
    )
    variants = [f"{command.replace(' ', '-')}-{word.removeprefix('--')}" for word in words]
    return next((name for name in variants if name in VARIANTS), command.replace(" ", "-"))


def written(place: Path, line: str) -> Ran:
    """What a command writes; files are in the folder of the database."""
    words = [
        str(place / word) if re.fullmatch(r"[\w.]+\.[a-z]+", word) else word
        for word in shlex.split(line)
    ]
    return run(place / "recorder.db", *words, "--json")


@pytest.mark.long
def test_what_a_command_writes_is_as_its_schema_says(db: Path) -> None:
    wrong = {}
    for line in WRITTEN.splitlines():
        ran = written(db.parent, line)
        assert ran.out, (line, ran.err)
        if found := problems(name_of(line.split()), json.loads(ran.out)):
            wrong[line] = found
    assert wrong == {}


def test_what_is_pushed_is_as_its_schema_says(demo_db: Path) -> None:
    with receiving() as receiver:
        ran = run(demo_db, "export", "--to", receiver.url, "--json")
    assert problems("export", json.loads(ran.out)) == []


@pytest.mark.long
def test_what_a_probe_finds_is_as_its_schema_says(tmp_path: Path) -> None:
    with gateways({FAULT: PLANTED[FAULT]}) as base:
        words = ("--api", "openai-chat", "--only", "text", "--json")
        ran = run(tmp_path / "recorder.db", "probe", f"{base}/{FAULT}", *words)
    verdicts = json.loads(ran.out)
    assert [row for row in verdicts if row["findings"]], "something is wrong there"
    assert problems("probe", verdicts) == []


def test_a_line_of_tail_is_as_its_schema_says(demo_db: Path) -> None:
    with recording(demo_db):
        ran = run(demo_db, "tail", "--limit", 3, "--jsonl")
    assert [problems("tail", json.loads(line)) for line in ran.out.splitlines()] == [[], [], []]


def test_every_schema_is_tried() -> None:
    tried = {name_of(line.split()) for line in WRITTEN.splitlines()}
    elsewhere = {"torture", "resend", "bisect"}  # tests/acceptance/commands
    assert tried | {"export", "probe", "tail"} | elsewhere == schemas().keys()


def test_a_property_that_a_schema_does_not_know_is_found(db: Path) -> None:
    rows = json.loads(run(db, "sessions", "--json").out)
    assert problems("sessions", rows) == []
    assert problems("sessions", [{**rows[0], "more": 1}])
    assert problems("sessions", [{**rows[0], "turns": "1"}])


def test_schemas_only_grow() -> None:
    """A line that is missing was a promise.

    `python -m tools.landed_schemas` adds those that are new.
    """
    assert set(landed()) - set(promised()) == set()
    assert set(promised()) - set(landed()) == set()


def test_a_command_prints_its_schema_whatever_else_is_missing() -> None:
    for words in (
        "show --request --schema",
        "show --schema",
        "db archive --schema --list",
        "export --schema",
    ):
        ran = run(NONE, *words.split())
        assert (ran.code, ran.err) == (0, "")
        assert json.loads(ran.out) == schemas()[name_of(words.split())]
