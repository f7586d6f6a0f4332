"""`recorder resend`: what is sent, that nothing is sent twice, and what it may cost."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from sqlalchemy import URL

from tests.acceptance.commands.test_run import demo_upstream
from tests.support.empty_log import empty
from tests.support.event_loop import beside
from tests.support.logbook import Entry, entries
from tests.support.probe.faults import JSON_HEADERS
from tests.support.provider.reply import DemoReply, DemoRequest, whole
from tests.support.provider.server import DemoServer
from tests.support.server import PROGRAM, address, environment, run_parent, wait_until
from tests.support.server import run as command
from tools.landed_schemas import schemas

CACHED_S = 300.0  # as services do
SEEDS, ANSWERS, DRIFT = range(100), 50, 0.1
KEY = "sk-of-a-test-0123456789"
CLIENT = """
import os, sys, urllib.request as web
for words in sys.argv[1:]:
    body = '{"model": "gpt-demo", "input": "%s", "stream": true}' % words
    url = os.environ["OPENAI_BASE_URL"] + "/responses"
    headers = {"Content-Type": "application/json", "Authorization": "Bearer sk-recorded", "X-Unknown": "secret"}
    with web.urlopen(web.Request(url, body.encode(), headers)) as response:
        response.read()
"""


@pytest.fixture(scope="module")
def demo() -> Iterator[DemoServer]:
    with beside(demo_upstream) as server:
        yield server


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, demo: DemoServer) -> Path:
    """A log with the session `parent`, of three exchanges."""
    db = empty(tmp_path_factory.mktemp("parent") / "recorder.db")
    words = ("--session", "parent", "--upstream", f"openai={demo.base_url}", "--")
    assert (
        run_parent(db, "run", *words, sys.executable, "-c", CLIENT, "one", "two", "three").code == 0
    )
    return db


@pytest.fixture
def parent(recorded: Path, tmp_path: Path) -> Path:
    """A copy of that log."""
    return Path(shutil.copy(recorded, tmp_path / "recorder.db"))


def children(db: Path) -> list[Entry]:
    return [each for each in entries(db) if each.session != "parent"]


def test_each_request_is_sent_as_it_was_recorded(parent: Path, demo: DemoServer) -> None:
    before = len(demo.requests)
    options = ("--to", demo.base_url, "--key-env", "MY_KEY", "--session", "child")
    ran = run_parent(parent, "resend", "parent", *options, MY_KEY=KEY)
    assert ran.code == 0, ran.err
    sent = demo.requests[before:]
    recorded = [each for each in entries(parent) if each.session == "parent"]
    assert [each.body for each in sent] == [each.request_body for each in recorded], "byte for byte"
    headers = {name.lower(): value for name, value in sent[0].headers}
    assert headers["authorization"] == f"Bearer {KEY}"
    assert "x-unknown" not in headers, "its value is not in the log"
    assert "resent from parent" in command(parent, "show", "child").text
    assert KEY.encode() not in parent.read_bytes()
    shown = json.loads(command(parent, "show", "child", "--json").out)
    assert shown["session"]["resent_from"]["name"] == "parent"
    assert shown["session"]["resent_from"]["to"] == demo.base_url
    Draft202012Validator(schemas()["show"]).validate(shown)


@pytest.mark.long
def test_the_same_command_sends_nothing_twice(parent: Path, demo: DemoServer) -> None:
    options = ("resend", "parent", "--to", demo.base_url, "--model", "gpt-other")
    counts = []
    for more in ((), (), ("--times", 3)):
        ran = run_parent(parent, *options, *more)
        assert ran.code == 0, ran.err
        counts.append(len(children(parent)))
    assert counts == [3, 3, 9]
    assert {json.loads(each.request_body)["model"] for each in children(parent)} == {"gpt-other"}


@pytest.mark.long
def test_nothing_is_sent_twice_by_two_at_once_or_after_kill_9(parent: Path, database: URL) -> None:
    cassette = parent.with_name("parent.sse.jsonl")
    cassette.write_bytes(command(parent, "export", "parent", "--format", "cassette").out)
    with beside(lambda: demo_upstream(1)) as slow:
        words = ["resend", str(cassette), "--to", slow.base_url, "--db", address(database)]
        variables = environment(parent.parent)
        with subprocess.Popen(
            [*PROGRAM, *words], env=variables, stderr=subprocess.DEVNULL
        ) as process:
            wait_until(lambda: len(slow.requests) == 2)
            second = run_parent(parent, *words)
            process.send_signal(signal.SIGKILL)
        assert second.code == 1
        assert "Another `recorder resend` sends into session " in second.err
        ran = run_parent(parent, *words)
        assert ran.code == 0, ran.err
        assert {*Counter(each.body for each in slow.requests).values()} == {1}
        assert len(slow.requests) == 3
    assert not [*parent.parent.glob("*resend*.lock")]


class DriftingServer(DemoServer):
    """A demo upstream at which one model fails, and the models `gpt-drifting-SEED` call tools in
    one answer of ten.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._random = {f"gpt-drifting-{seed}": Random(seed) for seed in SEEDS}

    def _reply(self, request: DemoRequest) -> DemoReply:
        if b"gpt-drifted" in request.body:
            return whole(b'{"error": {"message": "drifted"}}', JSON_HEADERS, 400)
        model = request.json()["model"]
        if model in self._random and self._random[model].random() < DRIFT:
            request = replace(request, body=request.body.replace(b"refuse", b"weather"))
        return super()._reply(request)


@contextlib.asynccontextmanager
async def drifting() -> AsyncIterator[DemoServer]:
    server = DriftingServer("127.0.0.1", port=0, pace=0, linger_s=0, cache_lifetime_s=CACHED_S)
    await server.listen()
    async with server:
        yield server


@pytest.mark.long
def test_it_is_claimed_that_a_model_differs_only_beyond_the_control(parent: Path) -> None:
    with beside(drifting) as there:
        options = ("resend", "parent", "--to", there.base_url, "--times", 2)
        alone = run_parent(parent, *options, "--model", "gpt-drifted")
        assert alone.code == 0
        assert "shape: 6 of 6 differ" in alone.text
        assert "No claim: there is no other session" in alone.text
        assert "shape: 0 of 6 differ" in run_parent(parent, *options).text
        same = run_parent(parent, *options, "--model", "gpt-same")
        drifted = run_parent(parent, *options, "--model", "gpt-drifted")
        row = json.loads(run_parent(parent, *options, "--model", "gpt-drifted", "--json").out)
        assert len(there.requests) == 18, "the last two looked at what is there"
    assert (same.code, drifted.code) == (0, 4)
    assert "no claim" in same.text
    assert (
        "shape: 6 of 6 differ from the recording, of the control 0 of 6; difference" in drifted.text
    )
    assert "it differs more than it differs from itself" in drifted.text
    Draft202012Validator(schemas()["resend"]).validate(row)
    shape, tools = row["levels"]
    assert (row["requests"], row["is_claim"], shape["is_claim"], tools["is_claim"]) == (
        0,
        True,
        True,
        False,
    )
    assert (shape["differing"], shape["answers"], shape["control"]) == (
        6,
        6,
        {"differing": 0, "answers": 6},
    )
    assert 0 < shape["difference"]["low"] < shape["difference"]["high"] == 1


@pytest.mark.slow
def test_a_drift_of_one_answer_in_ten_is_in_the_interval_of_95_in_100_seeds(tmp_path: Path) -> None:
    db = empty(tmp_path / "recorder.db")
    within: Counter[str] = Counter()
    with beside(drifting) as there:
        words = ("--session", "parent", "--upstream", f"openai={there.base_url}", "--")
        assert run_parent(db, "run", *words, sys.executable, "-c", CLIENT, "refuse").code == 0
        options = ("resend", "parent", "--to", there.base_url, "--times", ANSWERS, "--json")
        assert run_parent(db, *options).code == 0, "the control"
        unchanged = run_parent(db, *options, "--model", "gpt-unchanged")
        assert unchanged.code == 0, unchanged.err
        for seed in SEEDS:
            ran = run_parent(db, *options, "--model", f"gpt-drifting-{seed}")
            for each in json.loads(ran.out)["levels"]:
                assert each["answers"] == ANSWERS
                within[each["level"]] += (
                    each["difference"]["low"] <= DRIFT <= each["difference"]["high"]
                )
    assert min(within["shape"], within["tools"]) >= 95, within


PRICES = '[[price]]\nprovider = "openai"\nmodel = "gpt-*"\ninput = 1000\noutput = 1000\n'


@pytest.mark.long
def test_a_limit_ends_it_before_the_cost_passes_it(parent: Path, demo: DemoServer) -> None:
    prices = parent.parent / "prices.toml"
    prices.write_text(PRICES)
    options = ("resend", "parent", "--to", demo.base_url)
    assert "`recorder prices update`" in command(parent, *options, "--limit", 1).err
    assert command(parent, "prices", "update", "--file", prices).code == 0
    said = command(parent, *options, "--dry-run").text
    whole = float(said.rpartition("$")[2].partition(",")[0])
    ran = run_parent(parent, *options, "--limit", round(whole * 0.5, 4))
    assert ran.code == 1
    assert "higher --limit goes on" in ran.err
    assert 0 < len(children(parent)) < 3
    assert run_parent(parent, *options, "--limit", whole * 3).code == 0
    assert len(children(parent)) == 3


def test_what_cannot_be_sent_is_said_in_one_sentence(parent: Path, demo: DemoServer) -> None:
    gone = run_parent(parent, "resend", "parent", "--to", "http://127.0.0.1:1")
    assert gone.code == 1
    assert "Nothing more is sent" in gone.err
    assert "Set OPENAI_API_KEY" in run_parent(parent, "resend", "parent").err
    assert (
        run_parent(parent, "resend", "parent", "--to", demo.base_url, "--session", "parent").code
        == 2
    )
    assert run_parent(parent, "resend", "nobody").code == 3


BOTH = """
import os, urllib.request as web
for variable, path in (("OPENAI_BASE_URL", "/responses"), ("ANTHROPIC_BASE_URL", "/v1/messages")):
    body = b'{"model": "demo", "input": "hi", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}'
    headers = {"Content-Type": "application/json", "X-Api-Key": "recorded", "Anthropic-Version": "2023-06-01"}
    web.urlopen(web.Request(os.environ[variable] + path, body, headers)).read()
"""


def test_no_key_goes_to_another_company(tmp_path: Path, demo: DemoServer) -> None:
    db = empty(tmp_path / "recorder.db")
    upstreams = [f"--upstream={name}={demo.base_url}" for name in ("openai", "anthropic")]
    ran = run_parent(db, "run", "--session", "both", *upstreams, "--", sys.executable, "-c", BOTH)
    assert ran.code == 0, ran.err
    for option in ("--key-env", "--model"):
        refused = command(db, "resend", "both", option, "x", "--dry-run")
        assert refused.code == 2
        assert f"{option} is for one company" in refused.err
    assert command(db, "resend", "both:2", "--model", "x", "--dry-run").code == 0
