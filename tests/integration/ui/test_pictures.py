"""Pictures out of the log: by digest, of a few types, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from recorder.ui import pictures
from tests.support.conversations import Conversations, asking, response
from tests.support.pictures import digest, drawn, drawn_by_gemini, png, shown
from tests.support.viewer_api import viewing

ASKED, MADE = png(16), png(16, 200)
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>'


def path(content: bytes, of: str, exchange: int = 1) -> str:
    return f"/api/sessions/s/exchanges/{exchange}/picture?of={of}&sha256={digest(content)}"


async def test_a_picture_of_a_request_and_of_its_response_have_the_bytes_of_the_log(
    database: URL,
) -> None:
    made = Conversations(database).session("s")
    made.exchange(response(*drawn(MADE)), asked=[{"role": "user", "content": [shown(ASKED)]}])
    gemini: dict[str, Any] = {
        "api": "gemini",
        "provider": "gemini",
        "target": "/v1beta/models/g:generateContent",
        "at_s": 1.0,
    }
    made.exchange(
        [drawn_by_gemini(MADE)], body={"contents": []}, content_type="application/json", **gemini
    )
    async with viewing(database) as viewer:
        for content, of, exchange in (
            (ASKED, "model", 1),
            (MADE, "response", 1),
            (MADE, "response", 2),
        ):
            answer = await viewer.get(path(content, of, exchange))
            assert answer.body == content
            assert dict(answer.headers)[b"content-type"] == b"image/png"


async def test_a_request_has_the_pictures_of_those_that_it_continues(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    made.exchange(response(id="resp_1"), asked=[{"role": "user", "content": [shown(ASKED)]}])
    body = {"model": "gpt-5", "previous_response_id": "resp_1", "input": asking("And now?")}
    made.exchange(response(id="resp_2"), body=body, at_s=1.0)
    async with viewing(made.database) as viewer:
        assert (await viewer.get(path(ASKED, "model", 2))).body == ASKED


async def test_only_bytes_that_begin_as_a_picture_are_one(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    parts = [shown(SVG, "image/svg+xml"), shown(b"<b>bold</b>"), shown(ASKED, "text/html")]
    made.exchange(response(), asked=[{"role": "user", "content": parts}])
    async with viewing(made.database) as viewer:
        for content in (SVG, b"<b>bold</b>", MADE):
            await viewer.json(path(content, "model"), b"404")
        answer = await viewer.get(path(ASKED, "model"))
        assert dict(answer.headers)[b"content-type"] == b"image/png"
        await viewer.json(path(ASKED, "request"), b"400")


async def test_a_picture_over_the_limit_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    made.exchange(response(), asked=[{"role": "user", "content": [shown(ASKED)]}])
    monkeypatch.setattr(pictures, "LIMIT_BYTES", len(ASKED) - 1)
    async with viewing(made.database) as viewer:
        await viewer.json(path(ASKED, "model"), b"404")
