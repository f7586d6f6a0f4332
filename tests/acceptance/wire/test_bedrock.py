"""Bedrock through the recorder, asked by the real clients: what is recorded, what it costs, and what a replay gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.bedrock import EVENTS, MODEL, bedrock, invoked, message_of
from tests.support.server import run, running, serving

Json = dict[str, Any]


def shown(db: Path) -> list[Json]:
    answer = run(db, "show", "roll", "--json")
    assert answer.code == 0, answer
    exchanges: list[Json] = json.loads(answer.out)["exchanges"]
    return exchanges


def test_both_clients_get_what_they_got_and_the_log_says_the_same_of_both(tmp_path: Path) -> None:
    db = tmp_path / "log.db"
    with bedrock() as base, serving(db, "--upstream", f"bedrock={base}") as recorder:
        url = f"{recorder.base}/s/roll/bedrock"
        message = message_of(url)
        assert invoked(url) == EVENTS
        recorder.stop()
    for exchange in shown(db):
        thought, text, call = exchange["items"]
        assert message["content"] == [
            {"type": "thinking", "thinking": thought["text"], "signature": "AAAA"},
            {"type": "text", "text": text["text"]},
            {"type": "tool_use", "id": call["call_id"], "name": call["name"], "input": json.loads(call["arguments"])},
        ]
        assert (exchange["status"], exchange["api"]) == ("completed", "bedrock-invoke")
    assert run(db, "prices", "update").code == 0
    [used] = json.loads(run(db, "usage", "--cost", "--json").out)
    assert (used["model"], used["exchanges"]) == (MODEL, 2)
    assert float(used["cost_usd"]) == 2 * (3 * 3 + 2 * 0.3 + 9 * 15) / 1e6
    with running(db, "mock", "roll") as mock:
        assert message_of(f"{mock.base}/bedrock") == message
        assert invoked(f"{mock.base}/bedrock") == EVENTS
