"""A gateway or an app and its model, each behind a recorder: `recorder show --chain` says what
became of the model's stream.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.support import node
from tests.support.agent_program import GIVEN, SPEAKS
from tests.support.corpus import ROOT
from tests.support.gateway import ANSWER, HELD, HELD_S, Model, gateway
from tests.support.http_server import listening
from tests.support.screen import UI_ASKED
from tests.support.screen_app import SCREENS, screen_app
from tests.support.server import COMMAND_S, PROGRAM, environment, run, serving, wait_until

PATH = "/v1/chat/completions"
TRACE = {"traceparent": f"00-{'7' * 32}-aaaaaaaaaaaaaaaa-01"}


def ask(base: str, session: str, question: str, headers: dict[str, str]) -> str:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": question}]}
    return httpx.post(
        f"{base}/s/{session}/gateway{PATH}", json=body, headers=headers, timeout=60
    ).text


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with three sessions: a chain with a trace, one without, and the model asked alone."""
    path = tmp_path_factory.mktemp("chain") / "recorder.db"
    with gateway() as both:
        upstreams = ("--upstream", f"gateway={both.gateway}", "--upstream", f"model={both.model}")
        with serving(path, *upstreams) as serve:
            both.ask_model_at(f"{serve.base}/s/behind/model{PATH}")
            ask(serve.base, "traced", "When?", TRACE)
            ask(serve.base, "plain", "When does the train leave?", {})
            body = {"model": "m", "stream": True, "messages": []}
            httpx.post(f"{serve.base}/s/alone/model{PATH}", json=body)
    return path


def link_of(db: Path, session: str) -> dict[str, Any]:
    ran = run(db, "show", session, "--chain", "--json")
    assert ran.code == 0, ran.err
    [link] = json.loads(ran.out)["links"]
    return dict(link)


@pytest.mark.parametrize(("session", "by"), [("traced", "traceparent"), ("plain", "text")])
def test_words_and_time_that_a_gateway_took_are_found(db: Path, session: str, by: str) -> None:
    link = link_of(db, session)
    assert (link["front"]["session"], link["front"]["provider"]) == (session, "gateway")
    assert [(each["provider"], each["by"]) for each in link["behind"]] == [("model", by)]
    [text] = link["texts"]
    lost = [each["behind_text"] for each in text["passages"] if each["change"] == "lost"]
    assert lost == ["**", "**", ","]
    first = next(each for each in text["passages"] if each["change"] == "same")
    assert first["behind"]["last"] - first["behind"]["first"] == HELD - 1, (
        "the pieces that it held are one event"
    )
    assert first["front"]["first"] == first["front"]["last"]
    assert text["first_delay_ns"] >= HELD_S * 1e9
    assert text["passages"][text["longest_at"]]["delay_ns"] >= text["first_delay_ns"]


def test_the_chain_is_found_from_the_session_behind_too(db: Path) -> None:
    links = json.loads(run(db, "show", "behind", "--chain", "--json").out)["links"]
    assert {each["front"]["session"] for each in links} == {"traced", "plain"}


def test_a_person_sees_where_words_were_lost(db: Path) -> None:
    lines = run(db, "show", "plain", "--chain").text.splitlines()
    assert lines[0].startswith("front   plain 1 · gateway · POST")
    assert lines[1].startswith("behind  behind 2 · model · POST")
    assert lines[1].endswith("joined by text")
    assert any("5 lost, 0 added" in line for line in lines)
    assert any(line.split()[-2:] == ["lost", ","] for line in lines)


def test_a_stream_without_a_front_is_said_to_have_none(db: Path) -> None:
    ran = run(db, "show", "alone", "--chain")
    assert (ran.code, ran.out) == (3, b"")
    assert "Nothing to join" in ran.err


class Machines(NamedTuple):
    """The logs of two recorders: before the app, and between it and its model."""

    front: Path
    behind: Path


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Machines:
    folder = tmp_path_factory.mktemp("machines")
    logs = Machines(folder / "front" / "recorder.db", folder / "behind" / "recorder.db")
    with listening(Model) as model, serving(logs.behind, "--upstream", f"model={model}") as behind:
        with (
            screen_app(lambda format: f"{behind.base}/s/{format}/model{PATH}") as app,
            serving(logs.front, "--upstream", f"app={app}") as front,
        ):
            for format, screen in SCREENS.items():
                httpx.post(f"{front.base}/s/{format}/app/{format}", json=screen.asked)
            for format in SPEAKS:
                tapped(logs.front, format, f"{behind.base}/s/{format}/model{PATH}")
    return logs


def tapped(db: Path, format: str, model: str) -> None:
    """Run an agent whose name is that of a provider, too."""
    words = ("tap", "--session", format, "gemini", "--")
    agent = (sys.executable, "-m", "tests.support.agent_program", format, model)
    variables = {**environment(db.parent), "RECORDER_DB": str(db)}
    given = "".join(f"{json.dumps(line)}\n" for line in GIVEN[format]).encode()
    subprocess.run(
        [*PROGRAM, *words, *agent],
        env=variables,
        cwd=ROOT,
        input=given,
        check=True,
        timeout=COMMAND_S,
        capture_output=True,
    )
    wait_until(lambda: run(db, "show", format).code == 0)


def brought_together(logs: Machines, folder: Path, format: str, apart_s: float) -> Path:
    """A log of both sides of a chain, where the clock in front shows another time by so much."""
    db = folder / "both.db"
    for side, log in logs._asdict().items():
        recorded = run(log, "export", format, "--format", "cassette").text
        if side == "front":
            recorded = _STARTED.sub(lambda match: moved(match[0], apart_s), recorded)
        (folder / f"{side}.sse.jsonl").write_text(recorded)
        assert run(db, "import", str(folder / f"{side}.sse.jsonl")).code == 0
    return db


_STARTED = re.compile(r'(?<="started":")[^"]+')


def moved(time: str, by_s: float) -> str:
    return (datetime.fromisoformat(time) + timedelta(seconds=by_s)).isoformat()


@pytest.mark.parametrize(
    ("format", "apart_s"),
    [*product(SCREENS, (0.0, -3.0, 3.0)), *product(SPEAKS, (3.0,))],
)
def test_what_an_app_shows_is_joined_with_its_model_whatever_its_clock_says(
    machines: Machines, tmp_path: Path, format: str, apart_s: float
) -> None:
    db = brought_together(machines, tmp_path, format, apart_s)
    link = link_of(db, "front")
    assert [(each["provider"], each["by"]) for each in link["behind"]] == [("model", "text")]
    [text] = link["texts"]
    assert (
        text["same_words"]
        == text["behind_words"]
        == text["front_words"]
        == len(re.findall(r"\w+|[^\w\s]", ANSWER))
    )
    assert min(each["delay_ns"] for each in text["passages"]) >= 0
    assert link["asked_ns"] >= 0
    assert abs(link["clock_ns"] / 1e9 + apart_s) < 1
    assert (link["clock_ns"] == 0) == (apart_s == 0)
    said = run(db, "show", "front", "--chain").text
    assert ("the clock in front is" in said) == (apart_s != 0)


@pytest.mark.slow
def test_what_an_app_of_the_ai_sdk_shows_is_joined_with_its_model(tmp_path: Path) -> None:
    """The packages come from npm, so this is slow."""
    db = tmp_path / "recorder.db"
    packages = ("ai@6.0.326", "@ai-sdk/openai-compatible@2.0.92")
    with listening(Model) as model, serving(db, "--upstream", f"model={model}") as behind:
        with (
            node.serving("ui_app.cjs", packages, f"{behind.base}/s/model/model/v1") as app,
            serving(db, "--upstream", f"app={app}") as front,
        ):
            httpx.post(f"{front.base}/s/screen/app/api/chat", json=UI_ASKED, timeout=60)
    link = link_of(db, "screen")
    assert [each["provider"] for each in link["behind"]] == ["model"]
    [text] = link["texts"]
    assert text["same_words"] == text["behind_words"] == text["front_words"]
    assert (link["clock_ns"], text["first_delay_ns"] > 0) == (0, True)
