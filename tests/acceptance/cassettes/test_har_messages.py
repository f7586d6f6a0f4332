"""What a browser saves of a WebSocket connection is read as its messages were."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from recorder.cassettes.har.reader import Har
from tests.support.provider.server import start
from tests.support.websocket import create
from tests.unit.cassettes.test_cassettes import imported, recordings

browser = pytest.importorskip(
    "tests.support.browser", reason="no playwright: pip install '.[browser]'"
)

_ASK = """
([url, request]) => new Promise((resolve, reject) => {
  const socket = new WebSocket(url);
  socket.onopen = () => socket.send(request);
  socket.onerror = () => reject(new Error("refused"));
  socket.onmessage = (event) => {
    if (JSON.parse(event.data).type !== "response.completed") return;
    socket.onclose = () => resolve(event.data);
    socket.close(1000);
  };
})
"""


@pytest.mark.browser
@pytest.mark.skipif(browser.program() is None, reason=browser.MISSING)
@pytest.mark.asyncio
async def test_a_browser_saves_a_turn_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "saved.har"
    async with await start(pace=0) as upstream, browser.launched() as chromium:
        context = await chromium.new_context(record_har_path=path)
        page = await context.new_page()
        # of the same origin: others may not open it
        await page.goto(f"{upstream.base_url}/v1/models")
        url = f"{upstream.base_url.replace('http', 'ws', 1)}/v1/responses"
        completed = await page.evaluate(_ASK, [url, json.dumps(create("hi"))])
        await context.close()
    *_, connection, turn = recordings(imported(Har(io.BytesIO(path.read_bytes()))))
    assert (
        connection.response and connection.response.status,
        connection.end and connection.end.undecoded,
    ) == (
        101,
        None,
    )
    assert json.loads(turn.request_body) == create("hi")
    assert turn.pieces[-1].raw == completed.encode()
    assert turn.end is not None
    assert turn.end.status == "completed"
    times = [piece.t_ns for piece in turn.pieces]
    assert times == sorted(times)
    assert times[0] >= 0
