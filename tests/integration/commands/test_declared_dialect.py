"""The stream of one's own application, declared in `recorder.toml`: from the proxy to what is shown
and judged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from recorder.wire.dialects import declare
from tests.support.http_server import Handler, listening
from tests.support.server import Ran, run, serving

DECLARATION = """
[dialect.analysis]
routes = ["POST /api/stream/analyze", "GET /api/stream/analyze/*/*/{session}"]
type = ["event", "type"]        # the event line, and `type` of the payload
session = "sessionId"
model = "modelKey"
call = "toolCallId"
ignored = ["stream.init", "stream.status"]

[dialect.analysis.text]
"stream.chunk text" = "delta"
[dialect.analysis.reasoning]
"stream.chunk reasoning" = "delta"
[dialect.analysis.tool]
"stream.tool" = "name"
[dialect.analysis.arguments]
"stream.tool" = "input"
[dialect.analysis.result]
"stream.tool_result" = "output"
[dialect.analysis.usage]
"stream.complete" = "responseSummary.tokenUsage"
[dialect.analysis.tokens]
input = "input"
output = "output"
reasoning = "reasoning"
[dialect.analysis.error]
"stream.error" = "message"
[dialect.analysis.end]
"stream.complete" = "status"
"""

EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("stream.init", {"sessionId": "s-1", "taskId": "puzzle", "modelKey": "gpt-5-mini"}),
    ("stream.status", {"state": "in_progress"}),
    ("stream.chunk", {"type": "reasoning", "delta": "Rows "}),
    ("stream.chunk", {"type": "reasoning", "delta": "repeat."}),
    ("stream.tool", {"toolCallId": "c-1", "name": "grid", "input": {"rows": 3}}),
    ("stream.tool_result", {"toolCallId": "c-1", "output": "3 rows"}),
    ("stream.chunk", {"type": "text", "delta": "It is a "}),
    ("stream.chunk", {"type": "text", "delta": "square."}),
    (
        "stream.complete",
        {
            "status": "success",
            "responseSummary": {"tokenUsage": {"input": 9, "output": 7, "reasoning": 4}},
        },
    ),
]
STREAM = b"".join(
    f"event: {name}\ndata: {json.dumps(payload)}\n\n".encode() for name, payload in EVENTS
)
REFUSED = b'event: stream.error\ndata: {"code": "STREAM_FAILED", "message": "too many puzzles"}\n\n'


class App(Handler):
    """The server of the application: a POST that keeps the question, and a GET that answers it."""

    def do_POST(self) -> None:
        self.given()
        self.answer("application/json", b'{"sessionId": "s-1", "expiresInSeconds": 60}')

    def do_GET(self) -> None:
        self.answer("text/event-stream", REFUSED if "refused" in self.path else STREAM)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the declaration, and a log into which the application was recorded there."""
    folder = tmp_path_factory.mktemp("declared")
    (folder / "recorder").mkdir()
    settings(folder).write_text(DECLARATION)
    try:
        with listening(App) as url:
            app = f"app={url}"
            with serving(
                folder / "log.db", "--upstream", app, variables={"XDG_CONFIG_HOME": str(folder)}
            ) as serve:
                base = f"{serve.base}/app/api/stream/analyze"
                httpx.post(base, json={"taskId": "puzzle"})
                assert httpx.get(f"{base}/puzzle/gpt-5-mini/s-1").content == STREAM
                httpx.get(f"{base}/puzzle/refused/s-2")
        yield folder
    finally:
        declare({})


def test_a_stream_is_imported_as_of_a_declared_dialect(home: Path, tmp_path: Path) -> None:
    (tmp_path / "a.sse").write_bytes(STREAM)
    assert (
        at(
            home,
            "import",
            str(tmp_path / "a.sse"),
            "--dialect",
            "analysis",
            "--session",
            "imported",
        ).code
        == 0
    )
    assert b"It is a square." in at(home, "show", "imported").out
    assert (
        "'latin' is not one of"
        in at(home, "import", str(tmp_path / "a.sse"), "--dialect", "latin").err
    )


def settings(home: Path) -> Path:
    return home / "recorder" / "recorder.toml"


def at(home: Path, *arguments: str) -> Ran:
    return run(home / "log.db", *arguments, XDG_CONFIG_HOME=str(home))


def rows(home: Path, sql: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(at(home, "query", sql, "--json").out)
    return found


def test_its_messages_reasoning_calls_and_tokens_are_shown(home: Path) -> None:
    [session] = rows(home, "select distinct session_id from exchanges where target like '%s-1'")
    shown = json.loads(at(home, "show", session["session_id"], "--json").out)
    assert [each["api"] for each in shown["exchanges"]] == ["analysis", "analysis"], (
        "the POST and its stream"
    )
    answer = shown["exchanges"][-1]
    reasoning, call, message = answer["items"]
    assert (reasoning["kind"], reasoning["text"]) == ("reasoning", "Rows repeat.")
    assert (call["name"], call["arguments"], call["output"]) == ("grid", '{"rows":3}', "3 rows")
    assert message["text"] == "It is a square."
    assert (answer["status"], answer["finish_reason"], answer["response_model"]) == (
        "completed",
        "success",
        "gpt-5-mini",
    )
    usage = answer["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["reasoning_output_tokens"]) == (
        9,
        7,
        4,
    )
    assert answer.get("anomalies", []) == []


def test_its_error_is_one(home: Path) -> None:
    [row] = rows(home, "select status, error from exchange_summary where target like '%s-2'")
    assert row == {"status": "failed", "error": "too many puzzles"}


def test_what_is_projected_again_is_the_same(home: Path) -> None:
    before = rows(home, "select text from messages union all select arguments from tool_calls")
    assert at(home, "db", "rebuild").code == 0
    assert (
        rows(home, "select text from messages union all select arguments from tool_calls") == before
    )


def test_lint_names_what_a_declaration_leaves_out_and_seeks_in_vain(home: Path) -> None:
    [session] = rows(home, "select distinct session_id from exchanges where target like '%s-1'")
    assert json.loads(at(home, "lint", session["session_id"], "--json").out) == []
    worse = DECLARATION.replace('"stream.status"', '"stream.other"').replace(
        '"responseSummary.', '"summary.'
    )
    settings(home).write_text(worse)
    try:
        found = json.loads(at(home, "lint", session["session_id"], "--json").out)
    finally:
        settings(home).write_text(DECLARATION)
    said = [(each["rule"], each["places"][0]["said"]) for each in found]
    assert said == [
        ("DE001", '"stream.status"'),
        ("DE002", 'usage of "stream.complete" at summary.tokenUsage'),
    ]


def test_without_its_declaration_a_stream_is_read_as_any_other(home: Path) -> None:
    settings(home).rename(home / "kept.toml")
    declare({})  # commands run in this process here
    try:
        ran = at(home, "lint", "latest")
        assert "recorded as analysis, which no [dialect.analysis] declares here any more" in ran.err
        assert at(home, "show", "latest").code == 0
    finally:
        (home / "kept.toml").rename(settings(home))
