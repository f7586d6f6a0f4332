"""The lines and tests to copy do what they show: they are run."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from recorder.store.location import database_url
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import session_named
from recorder.ui import copies
from tests.acceptance.commands.test_mock import mocking
from tests.integration.ui.test_raw import HEADERS, HOSTILE, body, raw
from tests.support import node
from tests.support.conversations import Conversations, asking, message, response
from tests.support.corpus import ROOT
from tests.support.projects import LOADED
from tests.support.server import environment, run


async def every_exchange(path: Path, ref: str) -> list[dict[str, Any]]:
    url = database_url(path)
    async with await LogReader.open(url) as log:
        count = len(await log.exchanges((await session_named(log, ref)).session_id))
    return [await raw(url, ref, number) for number in range(1, count + 1)]


def odd_endings(path: Path) -> Path:
    """Exchanges that broke off, that are open, that failed, and requests of other forms and sizes."""
    session = Conversations(path).session("odd")
    frames = response(*message("Hello."))
    session.exchange(frames[:4], asked=asking("1"), outcome="upstream_reset")
    session.exchange(frames[:4], asked=asking("2"), outcome="client_disconnect", at_s=1)
    session.exchange(frames[:4], asked=asking("3"), ended=False, at_s=2)
    session.exchange(
        [b'{"id": 7}'],
        body={"input": "x" * copies.LITERAL_BYTES},
        content_type="application/json",
        at_s=3,
    )
    session.exchange([b"text"], body="no object", content_type="text/plain", at_s=4)
    session.exchange(
        frames, body={"model": "m", "n": [1e300, None, True, HOSTILE]}, headers=HEADERS, at_s=5
    )
    session.exchange(
        frames, asked=asking("7"), target="/local/v1/responses?x=1", provider="local", at_s=6
    )
    session.exchange(frames, asked=asking("8"), target="/responses", at_s=7)
    return path


async def test_each_generated_test_passes_with_the_exported_cassette(
    demo_recording: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    (folder / "cassettes").mkdir(parents=True)
    odd = odd_endings(tmp_path / "odd.db")
    without, written = [], 0
    for path, ref in ((demo_recording, "latest"), (odd, "odd")):
        for found in await every_exchange(path, ref):
            text = found["copies"]["pytest"]["text"]
            if text is None:
                without.append(found["request"]["method"])
                continue
            written += 1
            (folder / f"test_{written}.py").write_text(text)
            [cassette] = re.findall(r'cassette="(.*)"', text)
            session, number = found["session"]["session_id"], found["number"]
            ran = await asyncio.to_thread(
                run, path, "export", session, "--exchange", number, "--format", "cassette"
            )
            (folder / cassette).write_bytes(ran.out)
    assert without == ["GET"]  # the connection over WebSocket, whose turns are tests
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *LOADED, "."]
    env = {**environment(tmp_path), "PYTHONPATH": str(ROOT)}
    tested = await asyncio.to_thread(
        subprocess.run, command, cwd=folder, capture_output=True, text=True, env=env
    )
    assert tested.returncode == 0, tested.stdout
    assert f"{written} passed" in tested.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="There is no curl.")
async def test_each_curl_line_is_answered_as_the_request_that_was_recorded(demo_db: Path) -> None:
    env = environment(demo_db.parent)
    with mocking(demo_db, "latest") as mock:
        for found in await every_exchange(demo_db, "latest"):
            line = found["copies"]["curl"]["text"]
            if line is None:
                continue
            asked = found["request"]
            line = line.replace(asked["base_url"], f"{mock.base}/{asked['upstream']}", 1)
            command = ["bash", "-c", f"{line} -sS --noproxy '*'"]
            answered = await asyncio.to_thread(
                subprocess.run, command, capture_output=True, env=env
            )
            assert (answered.returncode, answered.stderr) == (0, b"")
            assert answered.stdout == await body(database_url(demo_db), "latest", found["number"])


def run_python(
    text: str, env: Mapping[str, str], folder: Path
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-c", text], capture_output=True, env=env, cwd=folder)


def run_node(text: str, env: Mapping[str, str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run a module beside the packages: where they are is not looked up in NODE_PATH."""
    installed = node.installed(SDKS)
    modules = folder / "node_modules"
    if not modules.exists():
        modules.symlink_to(installed["NODE_PATH"])
    program = folder / "program.mjs"
    program.write_text(text)
    return subprocess.run(
        ["node", program],
        capture_output=True,
        env={**env, "PATH": installed["PATH"]},
        cwd=folder,
        timeout=60,
    )


RUNNING = {"python": run_python, "node": run_node}


@pytest.mark.parametrize("language", ["python", pytest.param("node", marks=pytest.mark.slow)])
async def test_each_program_for_an_sdk_sends_the_request_that_was_recorded(
    demo_recording: Path, tmp_path: Path, language: str
) -> None:
    """A mock answers requests that equal a recorded one, and no other.

    The packages for Node come from npm.
    """
    odd = tmp_path / "odd.db"
    session = Conversations(odd).session("odd")
    own = {
        "model": "gpt-5",
        "stream": True,
        "input": asking(HOSTILE),
        "own_member": [None, 1e3, True],
    }
    session.exchange(response(*message("Hello.")), body=own)
    session.exchange(
        response(*message("Hello.")), body={**own, "input": "x" * copies.LITERAL_BYTES}, at_s=9
    )
    interactions = tmp_path / "interactions.db"
    assert (
        run(interactions, "import", DIALECTS / "gemini_interactions" / "demo.sse.jsonl").code == 0
    )
    written = set()
    for path in (odd, demo_recording, interactions):
        with mocking(path, "latest") as mock:
            for found in await every_exchange(path, "latest"):
                text = found["copies"].get(language, {}).get("text")
                is_known = path != odd and found["api"] in written
                # of which SDKs raise an error
                if text is None or is_known or found["response"]["status"] != 200:
                    continue
                asked = found["request"]
                base = asked.get("base_url") or PUBLIC[asked["upstream"]]
                sent = await body(database_url(path), "latest", found["number"], "request")
                (tmp_path / asked["file"]).write_bytes(sent)
                text = text.replace(base, f"{mock.base}/{asked['upstream']}", 1)
                env = {**environment(tmp_path), **dict.fromkeys(KEYS, "key")}
                ran = await asyncio.to_thread(RUNNING[language], text, env, tmp_path)
                assert ran.returncode == 0, ran.stderr.decode()
                written.add(found["api"])
    assert written == {
        "openai-responses",
        "openai-chat",
        "anthropic",
        "gemini",
        "gemini-interactions",
    }


SDKS = ("openai@7.57.0", "@anthropic-ai/sdk@1.14.0", "@google/genai@3.3.0")
PUBLIC = {"openai": "https://api.openai.com", "gemini": "https://generativelanguage.googleapis.com"}
DIALECTS = ROOT / "recorder" / "wire" / "dialects"
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
