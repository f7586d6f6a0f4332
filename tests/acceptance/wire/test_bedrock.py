"""Bedrock through the recorder, asked by the real clients: what is recorded, what it costs, and
what a replay gives.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anthropic
import pytest

from tests.support.bedrock import (
    ACCESS,
    EVENTS,
    MODEL,
    QUESTION,
    REGION,
    SECRET,
    bedrock,
    invoked,
    message_of,
)
from tests.support.server import run, running, serving

Json = dict[str, Any]

ASKING = f"""
import json, os
import botocore.session
client = botocore.session.get_session().create_client("bedrock-runtime", {REGION!r}, endpoint_url=os.environ.get("AWS"))
%s
asked = json.dumps({{"anthropic_version": "bedrock-2023-05-31", **{QUESTION!r}}})
answer = client.invoke_model_with_response_stream(modelId={MODEL!r}, body=asked)
print(json.dumps([json.loads(event["chunk"]["bytes"]) for event in answer["body"]]))
"""
"""A program of a user, with a place for what `recorder env boto3` prints."""

KEYS = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET}


def asking(recorder: str, **variables: str) -> list[Json]:
    """The events that a program gets whose client goes through a recorder."""
    lines = run(Path("/none/recorder.db"), "env", "boto3", "--url", recorder).text
    asked = subprocess.run(
        [sys.executable, "-c", ASKING % lines], env=variables, capture_output=True, check=False
    )
    assert asked.returncode == 0, asked.stderr
    events: list[Json] = json.loads(asked.stdout)
    return events


def shown(db: Path) -> list[Json]:
    answer = run(db, "show", "roll", "--json")
    assert answer.code == 0, answer
    exchanges: list[Json] = json.loads(answer.out)["exchanges"]
    return exchanges


def test_both_clients_get_what_they_got_and_the_log_says_the_same_of_both(tmp_path: Path) -> None:
    db = tmp_path / "log.db"
    with bedrock() as base, serving(db, "--upstream", f"bedrock={base}") as recorder:
        url = f"{recorder.base}/s/roll"
        message = message_of(f"{url}/bedrock")
        assert asking(url, AWS=base, **KEYS) == EVENTS
        recorder.stop()
    assert "signature" not in recorder.said
    for exchange in shown(db):
        thought, text, call = exchange["items"]
        assert message["content"] == [
            {"type": "thinking", "thinking": thought["text"], "signature": "AAAA"},
            {"type": "text", "text": text["text"]},
            {
                "type": "tool_use",
                "id": call["call_id"],
                "name": call["name"],
                "input": json.loads(call["arguments"]),
            },
        ]
        assert (exchange["status"], exchange["api"]) == ("completed", "bedrock-invoke")
    assert run(db, "prices", "update").code == 0
    [used] = json.loads(run(db, "usage", "--cost", "--json").out)
    assert (used["model"], used["exchanges"]) == (MODEL, 2)
    assert float(used["cost_usd"]) == 2 * (3 * 3 + 2 * 0.3 + 9 * 15) / 1e6
    with running(db, "mock", "roll") as mock:
        assert message_of(f"{mock.base}/bedrock") == message
        assert invoked(f"{mock.base}/bedrock") == EVENTS


@pytest.mark.parametrize("at", [0, 2])
def test_the_error_of_a_fault_is_one_to_both_clients(at: int, tmp_path: Path) -> None:
    db = tmp_path / "log.db"
    with bedrock() as base, serving(db, "--upstream", f"bedrock={base}") as recorder:
        message_of(f"{recorder.base}/s/roll/bedrock")
        asking(f"{recorder.base}/s/roll", AWS=base, **KEYS)
        recorder.stop()
    with running(db, "mock", "roll", "--fault", f"error@{at}:429") as mock:
        url = f"{mock.base}/bedrock"
        with pytest.raises(Exception, match=r"throttlingException.*a fault reports 429"):
            invoked(url)
        with pytest.raises(anthropic.APIStatusError, match="a fault reports 429"):
            message_of(url)
    with running(db, "mock", "roll", "--fault", "status:429") as mock:
        with pytest.raises(Exception, match=r"ThrottlingException.*a fault answers with 429"):
            invoked(f"{mock.base}/bedrock")


def test_a_bearer_key_passes_though_botocore_gives_it_to_https_alone(tmp_path: Path) -> None:
    """Its address is that of AWS, which nobody asks here."""
    with (
        bedrock() as base,
        serving(tmp_path / "log.db", "--upstream", f"bedrock={base}") as recorder,
    ):
        assert asking(recorder.base, AWS_BEARER_TOKEN_BEDROCK="none") == EVENTS


def test_what_to_do_is_said_where_aws_refuses_a_signature_for_another_host(tmp_path: Path) -> None:
    with (
        bedrock() as base,
        serving(tmp_path / "log.db", "--upstream", f"bedrock={base}") as recorder,
    ):
        with pytest.raises(Exception, match="InvalidSignatureException"):
            invoked(f"{recorder.base}/bedrock")
        assert "`recorder env boto3`" in recorder.said
