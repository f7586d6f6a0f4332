"""The parameters of requests in a log, and the views on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.conversations import Conversation, Conversations, message, response, thought
from tests.support.empty_log import empty
from tests.support.superuser import asked

THOUGHT = {
    "input_tokens": 10,
    "output_tokens": 100,
    "output_tokens_details": {"reasoning_tokens": 40},
}
SPOKE = {"input_tokens": 10, "output_tokens": 20}


def filled(session: Conversation) -> None:
    """Two requests at an effort, one without, one that is not over; one over another format."""
    body: dict[str, Any] = {
        "model": "gpt-5",
        "instructions": "Be short.",
        "input": [{"role": "user", "content": "Why?"}],
    }
    high = {
        **body,
        "reasoning": {"effort": "high"},
        "tools": [{"type": "web_search"}],
        "temperature": 0.5,
    }
    frames = response(*thought("Hm."), *message("So.", index=1), usage=THOUGHT)
    session.exchange(frames, body=high)
    session.exchange([each.replace(b"resp_1", b"resp_2") for each in frames], body=high, at_s=1)
    session.exchange(response(*message("So."), id="resp_3", usage=SPOKE), body=body, at_s=2)
    session.exchange(frames[:2], body=high, at_s=3, ended=False)
    chat = {
        "model": "gpt-5",
        "messages": [{"role": "user", "content": "a\0\ud800"}],
        "max_tokens": 5,
    }
    path: Any = {"api": "openai-chat", "target": "/v1/chat/completions"}
    session.exchange([b"data: [DONE]\n\n"], body=chat, at_s=4, **path)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = empty(tmp_path_factory.mktemp("parameters") / "log.db")
    filled(Conversations(path).session("run"))
    return path


def test_a_request_has_its_parameters(log: Path) -> None:
    columns = "reasoning_effort, temperature, tools, tool_names, input_messages, system_bytes, new_user_text, model"
    high = ("high", 0.5, 1, '["web_search"]', 1, 9, "Why?", "gpt-5")
    assert asked(log, f"SELECT {columns} FROM requests ORDER BY exchange_id") == [
        *(high, high, (None, None, 0, "[]", 1, 9, "Why?", "gpt-5")),
        (None, None, 0, "[]", 1, 0, "a\ufffd\ufffd", "gpt-5"),
    ]
    digests = asked(
        log, "SELECT count(DISTINCT request_digest), count(DISTINCT system_digest) FROM requests"
    )
    assert digests == [(3, 1)]


def test_reasoning_is_summed_by_effort(log: Path) -> None:
    columns = "exchanges, reported, output_tokens, reasoning_output_tokens, reasoning_share, ttft_avg_ns > 0"
    rows = asked(
        log, f"SELECT reasoning_effort, {columns} FROM reasoning_by_effort WHERE model = 'gpt-5'"
    )
    assert sorted(map(tuple, rows), key=str) == [
        ("high", 2, 2, 200, 80, 0.4, 1),
        (None, 2, 1, 20, None, None, 1),
    ]


def test_one_exchange_is_found_without_a_look_at_the_others(log: Path) -> None:
    plan = asked(
        log,
        "EXPLAIN QUERY PLAN SELECT * FROM requests WHERE session_id = 'x' AND exchange_id = 'y'",
    )
    assert not [row for row in plan if row[3].startswith("SCAN")]
