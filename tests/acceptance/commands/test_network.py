"""Upstreams behind a proxy of HTTP: `recorder run` by an option, `recorder mock` by its settings."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from tests.support.event_loop import beside
from tests.support.forward_proxy import ForwardProxy
from tests.support.provider.server import start
from tests.support.server import PROGRAM, run_parent, running
from tests.unit.cassettes.test_sse_jsonl import VERSION_1

ASK = """
import os, urllib.request
asked = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/responses", b'{"model": "gpt-5.5", "input": "hello"}')
print(urllib.request.urlopen(asked).status)
"""


@asynccontextmanager
async def company(login: str | None = None) -> AsyncIterator[ForwardProxy]:
    """The demo, which only a proxy knows how to reach."""
    async with (
        await start(pace=0) as demo,
        ForwardProxy({"api.corp.test": demo.port}, login=login) as proxy,
    ):
        yield proxy


def test_a_command_is_recorded_by_a_proxy_whose_password_is_kept_nowhere(tmp_path: Path) -> None:
    with beside(lambda: company("me:s3cr3t-password")) as proxy:
        url = proxy.url.replace("//", "//me:s3cr3t-password@")
        options = ["--upstream", "openai=http://api.corp.test"]
        ran = run_parent(
            tmp_path / "x.db",
            "run",
            *options,
            "--",
            sys.executable,
            "-c",
            ASK,
            RECORDER_RUN_UPSTREAM_PROXY=url,
        )
    assert (ran.code, ran.out) == (0, b"200\n"), ran.err
    assert proxy.tunnels == ["api.corp.test:80"]
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"s3cr3t" not in kept + ran.err.encode()


def test_a_mock_forwards_by_a_proxy_of_its_settings(tmp_path: Path) -> None:
    cassette, settings = tmp_path / "one.sse.jsonl", tmp_path / "recorder" / "recorder.toml"
    cassette.write_bytes(VERSION_1)
    settings.parent.mkdir()
    with beside(company) as proxy:
        settings.write_text(
            f'[mock]\nupstream-proxy = "{proxy.url}"\nno-proxy = "x.test"\nupstream = "openai=http://api.corp.test"\n'
        )
        options = ("--otherwise", "forward", "--cassette", str(cassette))
        with running(tmp_path / "x.db", "mock", *options, program=PROGRAM) as mock:
            assert (
                httpx.get(f"{mock.base}/v1/models", trust_env=False, timeout=60).status_code == 200
            )
    assert proxy.tunnels == ["api.corp.test:80"]
