"""The files of deploy/, as far as no engine is needed: its commands are run here, its parts as
processes.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.support.provider.server import start
from tests.support.server import wait_until
from tools import parts

STREAMS = 4
BODY = json.dumps({"model": "gpt-demo", "input": "hi", "stream": True}).encode()


def asked(url: str, trust: ssl.SSLContext, body: bytes | None = None, **headers: str) -> bytes:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = Request(url, data=body, headers={"content-type": "application/json", **named})
    with urlopen(request, context=trust, timeout=60) as answer:
        return bytes(answer.read())


@pytest.mark.slow
async def test_streams_through_both_edges_are_seen_in_the_viewer_over_tls(tmp_path: Path) -> None:
    async with await start(pace=0) as upstream:
        try:
            await asyncio.to_thread(_streams_are_seen, tmp_path, upstream.base_url)
        except parts.MissingError as error:
            pytest.skip(str(error))


def _streams_are_seen(folder: Path, upstream: str) -> None:
    with parts.started(folder, {"RECORDER_SERVE_UPSTREAM": f"openai={upstream}"}) as running:
        trust = ssl.create_default_context(cafile=str(running.authority))
        for _ in range(STREAMS):
            assert b"response.completed" in asked(
                f"{running.edges}/s/deployed/v1/responses", trust, BODY
            )
        viewer, token = running.viewer.split("/?token=")
        sql = "SELECT recorder_id FROM exchanges"

        def recorders() -> list[Any]:
            shown = {"X_Recorder_Token": token, "Origin": viewer}
            answer = asked(f"{viewer}/api/query", trust, json.dumps({"sql": sql}).encode(), **shown)
            return list(json.loads(answer)["rows"])

        wait_until(lambda: len(recorders()) == STREAMS)
        assert len({recorder for (recorder,) in recorders()}) == 2
