"""Files of other programs in the log: what the commands say of them is what the files say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from recorder.cassettes.har.writer import har_lines
from tests.support.corpus import DATA
from tests.support.logbook import entries
from tests.support.server import run
from tests.unit.cassettes import test_ai_sdk, test_litellm, test_vcr
from tests.unit.cassettes.test_har_messages import a_connection, recorded

FILES = DATA / "cassettes"


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "good", "bad", "refusal"),
    [
        (
            "cassetter.yaml",
            b"status: 429",
            b"status: 4290",
            "interaction 4 is none of a cassetter cassette",
        ),
        ("claude-tap.jsonl", b"}", b"", "line 2 is not a call that claude-tap recorded"),
        ("litellm.jsonl", b"}", b"", "line 10 is not a payload of LiteLLM"),
    ],
)
def test_nothing_of_a_bad_file_is_imported(
    tmp_path: Path, name: str, good: bytes, bad: bytes, refusal: str
) -> None:
    """What is wrong stands in the last record."""
    content = (FILES / name).read_bytes()
    before, _, after = content.rpartition(good)
    (tmp_path / name).write_bytes(before + bad + after)
    ran = run(tmp_path / "recorder.db", "import", tmp_path / name)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert refusal in ran.err
    assert json.loads(run(tmp_path / "recorder.db", "sessions", "--json").out) == []


def test_all_files_of_programs_that_wrote_them_are_whole_in_the_log(tmp_path: Path) -> None:
    db = tmp_path / "recorder.db"
    names = (
        "cassetter-websocket.yaml",
        "claude-tap.jsonl",
        "claude-tap-bundle.json",
        "litellm.jsonl",
    )
    assert run(db, "import", *(FILES / name for name in names)).code == 0
    assert run(db, "verify").code == 0


def test_a_cassette_comes_in_and_goes_out(tmp_path: Path) -> None:
    db, path = tmp_path / "recorder.db", tmp_path / "turn.yaml"
    path.write_bytes(test_vcr.WRITTEN)
    ran = run(db, "import", path)
    assert (ran.code, ran.out) == (0, b"")
    assert re.fullmatch(r"1 file imported: session turn \([0-9a-f-]{36}\), 4 events\.\n", ran.err)
    exported = run(db, "export", "turn", "--format", "vcr")
    assert (exported.code, exported.err) == (0, "")
    read = test_vcr.read(exported.out)
    assert test_vcr.bodies(read) == [entry.body for entry in entries(db)] == test_vcr.BODIES
    uris = [each["request"]["uri"] for each in yaml.safe_load(exported.out)["interactions"]]
    assert uris[0] == "http://127.0.0.1:8765/v1/responses"
    [entry, *_] = json.loads(run(db, "export", "turn", "--format", "har").out)["log"]["entries"]
    assert entry["request"]["url"] == uris[0]


def test_what_has_no_response_cannot_be_exported(tmp_path: Path) -> None:
    db, path = tmp_path / "recorder.db", tmp_path / "down.har"
    asked = {"method": "POST", "url": "https://api.openai.com/v1/responses"}
    failed = {
        "startedDateTime": "2026-09-21T14:13:20Z",
        "request": asked,
        "response": {"status": 0},
    }
    path.write_text(json.dumps({"log": {"entries": [failed]}}))
    assert run(db, "import", path).code == 0
    ran = run(db, "export", "down", "--format", "vcr")
    assert (ran.code, ran.out) == (3, b"")
    assert "Exchange 1 has no response" in ran.err


def test_a_log_has_the_turns_of_a_file_with_their_usage(tmp_path: Path) -> None:
    db, path = tmp_path / "recorder.db", tmp_path / "saved.har"
    path.write_bytes(b"".join(har_lines(recorded(a_connection().steps))))
    assert run(db, "import", path).code == 0
    _, *turns = json.loads(run(db, "show", "saved", "--json").out)["exchanges"]
    assert [each["usage"]["total_tokens"] for each in turns] == [9, 8]
    assert [each["items"][0]["text"] for each in turns] == ["Hello", "Yes"]
    assert run(db, "verify").code == 0
    again = run(db, "export", "saved", "--format", "har")
    assert again.err.startswith(
        "Exchange 1 loses the shapes of 15 frames: HAR has only the messages"
    )
    [before], [after] = (
        json.loads(each)["log"]["entries"] for each in (path.read_bytes(), again.out)
    )
    assert after["_webSocketMessages"] == before["_webSocketMessages"]


def test_usage_and_cost_of_each_call_are_those_of_the_log(tmp_path: Path) -> None:
    db = tmp_path / "recorder.db"
    assert run(db, "import", test_litellm.PATH).code == 0
    asked = "SELECT input_tokens, output_tokens, reported_cost_usd FROM usage ORDER BY started_ns"
    found = [tuple(row.values()) for row in json.loads(run(db, "query", asked, "--json").out)]
    logged = [
        payload
        for line in test_litellm.LINES
        if (payload := json.loads(line))["status"] == "success"
    ]
    logged.sort(key=lambda payload: payload["startTime"])
    assert [row for row in found if row[0] is not None] == [
        (each["prompt_tokens"], each["completion_tokens"], repr(each["response_cost"]))
        for each in logged
    ]
    assert b"HT002" not in run(db, "lint", "latest").out


def test_tokens_are_those_that_the_provider_said(tmp_path: Path) -> None:
    db = tmp_path / "recorder.db"
    assert run(db, "import", test_ai_sdk.FILE).code == 0
    shown = json.loads(run(db, "show", "generations", "--json").out)["exchanges"]
    for each, step in zip(shown[:4], test_ai_sdk.STEPS, strict=False):
        assert each["usage"]["output_tokens"] == json.loads(step["usage"])["outputTokens"]["total"]
    calls = [item for item in shown[0]["items"] if item["kind"] == "tool_call"]
    assert [call["output"] for call in calls] == ["18 degrees in Paris", "18 degrees in Zürich"]
