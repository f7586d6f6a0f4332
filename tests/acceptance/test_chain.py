"""A gateway and its model behind one recorder: `recorder show --chain` says what became of the model's stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import HELD, HELD_S, gateway
from tests.support.server import run, serving

PATH = "/v1/chat/completions"
TRACE = {"traceparent": f"00-{'7' * 32}-aaaaaaaaaaaaaaaa-01"}


def ask(base: str, session: str, question: str, headers: dict[str, str]) -> str:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": question}]}
    return httpx.post(f"{base}/s/{session}/gateway{PATH}", json=body, headers=headers, timeout=60).text


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
    assert first["behind"]["last"] - first["behind"]["first"] == HELD - 1, "the pieces that it held are one event"
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
