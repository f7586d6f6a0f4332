"""Codex CLI, the real one, through the recorder: a turn with tools, and the same session resumed."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from recorder.demo.server import start
from tests.support.logbook import entries
from tests.support.server import everywhere, serving

CODEX = shutil.which("codex")


@pytest.mark.skipif(CODEX is None, reason="no codex on the PATH: npm install @openai/codex")
async def test_codex_completes_a_turn_and_its_session_groups_its_requests(tmp_path: Path) -> None:
    db = tmp_path / "recorder.db"
    async with await start(pace=0) as demo:
        with serving(db, *everywhere(demo.base_url)) as serve:
            first = await codex(tmp_path, serve.base, "exec --skip-git-repo-check 'what is the weather?'")
            again = await codex(tmp_path, serve.base, "exec resume --last --skip-git-repo-check 'and now search'")
            assert serve.stop() == 0
    assert "Here is what the tools reported" in first
    assert "server-sent events" in again
    found = entries(db)
    assert len(found) == 3, "the call, its results, and the resumed turn"
    assert len({entry.session for entry in found}) == 1
    assert {entry.end["status"] for entry in found} == {"completed"}


@pytest.mark.skipif(CODEX is None, reason="no codex on the PATH: npm install @openai/codex")
async def test_codex_completes_a_recorded_turn_without_its_upstream(tmp_path: Path) -> None:
    ask = "exec --skip-git-repo-check 'what is the weather?'"
    async with await start(pace=0) as demo:
        recorded = await shell(
            tmp_path, f"recorder run --session turn --upstream openai={demo.base_url} -- codex {ask}"
        )
    assert "Recorded session turn" in recorded
    assert "2 exchanges" in recorded
    again = await shell(tmp_path, f"recorder run --replay turn --speed max -- codex {ask}")
    assert "Here is what the tools reported" in again
    assert "Requests: 2, not recorded: 0. Recordings not used: 0." in again
    ready, served = tmp_path / "url", "recorder mock turn --speed max --port 0 --ready-file url & mock=$!"
    waited = f"until [ -s {ready} ]; do sleep 0.1; done"
    served = await shell(
        tmp_path, f'{served}; {waited}; eval "$(recorder env codex --url $(cat url))"; codex {ask}; kill $mock; wait'
    )
    assert "Here is what the tools reported" in served
    assert "Requests: 2, not recorded: 0. Recordings not used: 0." in served


async def codex(home: Path, url: str, arguments: str) -> str:
    """What Codex says, pointed at the recorder as its users do it."""
    return await shell(home, f'eval "$(recorder env codex --url {url})" && codex {arguments}')


async def shell(home: Path, script: str) -> str:
    """What a script of a Codex user says."""
    (home / "codex").mkdir(exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        *("timeout", "60", "bash", "-c", script),
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(home),
            "CODEX_HOME": str(home / "codex"),
            "OPENAI_API_KEY": "sk-none",
            "RECORDER_DB": str(home / "recorder.db"),
        },
        cwd=home,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return said.decode("utf-8", "replace")
