"""What people may spend at a recorder that they share: what is said when a budget is spent, and
what is refused.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import openai
import pytest

from tests.support.empty_log import empty
from tests.support.event_loop import on_uvloop
from tests.support.rows import put_prices
from tests.support.server import everywhere, run, serving
from tests.support.sockets import RawClient, RawResponse, ScriptedUpstream, answer
from tests.support.superuser import asked

NOTED = "SELECT detail FROM anomalies WHERE kind = 'budget_spent'"
ASKED = b'{"model":"gpt-5","messages":[{"role":"user","content":"hi"}]}'
USAGE = {"prompt_tokens": 1000, "completion_tokens": 1, "total_tokens": 1001}
ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-5",
    "choices": [],
    "usage": USAGE,
}
BUDGETS = """[budget]
default = 0.5
refuse = {refuse}
[budget.owner]
bob = 1000.0
"""


async def ask(port: int, token: str, path: str = "/v1/chat/completions") -> RawResponse:
    head = (
        f"POST /t/{token}{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(ASKED)}\r\n\r\n"
    )
    async with await RawClient.connect(port) as client:
        await client.send(head.encode() + ASKED)
        return await client.response()


async def once_noted(port: int, token: str) -> RawResponse:
    """Ask until an answer says that the budget is spent."""
    async with asyncio.timeout(60):
        while (answered := await ask(port, token)).header(b"x-recorder-budget") is None:
            assert answered.status == b"200 OK"
            await asyncio.sleep(0.2)
    return answered


@pytest.mark.parametrize("refuse", ["false", "true"])
@on_uvloop
async def test_a_budget_that_is_spent_is_said_and_refused_if_that_is_asked(
    tmp_path: Path, refuse: str
) -> None:
    db, tokens = empty(tmp_path / "log.db"), tmp_path / "tokens.json"
    put_prices(db, input="1000", output="0")  # a request is a dollar
    ann, bob = (
        run(tokens, "token", "add", name, "--file", tokens).text.strip() for name in ("ann", "bob")
    )
    (tmp_path / "recorder").mkdir()
    (tmp_path / "recorder" / "recorder.toml").write_text(BUDGETS.format(refuse=refuse))
    document = answer(json.dumps(ANSWER).encode(), b"Content-Type: application/json")
    async with ScriptedUpstream(document) as upstream:
        with serving(db, "--tokens", str(tokens), *everywhere(upstream.base)) as serve:
            noted = await once_noted(serve.port, ann)
            note = noted.header(b"x-recorder-budget") or b""
            assert re.fullmatch(
                rb'owner;spent_usd=\d+\.000;budget_usd=0\.500;month="\d{4}-\d\d"', note
            )
            assert serve.said.count("The owner ann has spent ") == 1
            assert (await ask(serve.port, bob)).header(b"x-recorder-budget") is None
            month = note[-8:-1].decode()
            for _ in range(300):
                if told := await asyncio.to_thread(asked, db, NOTED):
                    break
                await asyncio.sleep(0.2)
            assert told == [(f"owner ann in {month}",)]
            assert (
                f"Nothing is left of the budget of owner ann in {month}." in run(db, "doctor").text
            )
            if refuse == "false":
                assert noted.status == b"200 OK"
                return
            received = len(upstream.requests)
            client = openai.AsyncOpenAI(api_key="k", base_url=f"{serve.base}/t/{ann}/v1")
            with pytest.raises(openai.RateLimitError, match="The owner ann has spent") as refused:
                await client.chat.completions.create(
                    model="gpt-5", messages=[{"role": "user", "content": "hi"}]
                )
            assert refused.value.code == "budget_exceeded"
            of_anthropic = await ask(serve.port, ann, "/v1/messages")
            assert (of_anthropic.status, json.loads(of_anthropic.body)["type"]) == (
                b"429 Too Many Requests",
                "error",
            )
            assert len(upstream.requests) == received
            await client.close()
