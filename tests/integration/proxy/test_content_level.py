"""`serve --content`: what is kept of bodies at each level, and what clients get of them."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import httpx
import pytest

from tests.support.logbook import Entry, all_ended, entries
from tests.support.provider.server import ENCODING_HEADER, start
from tests.support.server import everywhere, run, serving, wait_until

QUESTION = "Tell me all that you know of the weather in the mountains"
CALLS = (
    ("/v1/responses", {"model": "gpt-demo", "stream": True, "input": QUESTION}),
    ("/v1/responses", {"model": "gpt-demo", "input": QUESTION}),
    (
        "/v1/chat/completions",
        {"model": "m", "stream": True, "messages": [{"role": "user", "content": QUESTION}]},
    ),
    (
        "/v1/messages",
        {
            "model": "m",
            "stream": True,
            "max_tokens": 9,
            "messages": [{"role": "user", "content": QUESTION}],
        },
    ),
    (
        "/v1beta/models/gemini-demo:streamGenerateContent?alt=sse",
        {"contents": [{"parts": [{"text": QUESTION}]}]},
    ),
)
CODINGS = ("identity", "gzip")
LEVELS = ("full", "shape", "none")
RUN = re.compile(rb"(?=\b([A-Za-z]\w*(?: \w+){4}))")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same calls in a log of each level, and what their client got."""
    folder = tmp_path_factory.mktemp("levels")
    return {level: asyncio.run(_record(folder / level / "log.db", level)) for level in LEVELS}


async def _record(db: Path, level: str) -> Path:
    db.parent.mkdir()
    async with await start(pace=0.05) as upstream:
        with serving(db, *everywhere(upstream.base_url), "--content", level) as serve:
            async with httpx.AsyncClient(base_url=f"{serve.base}/s/demo", timeout=30) as client:
                for coding in CODINGS:
                    for path, body in CALLS:
                        answer = await client.post(
                            path, json=body, headers={ENCODING_HEADER: coding}
                        )
                        assert answer.status_code == 200
                        with (db.parent / "got").open("ab") as got:
                            got.write(answer.content)
            await asyncio.to_thread(wait_until, lambda: all_ended(db, len(CODINGS) * len(CALLS)))
    return db


def types(log: list[Entry]) -> list[list[tuple[str, str | None, int]]]:
    """The kinds, types and sizes of the events that are not sums, exchange by exchange."""
    named = ("frame", "body", "request")
    return [
        [(e.kind, e.type, len(e.raw)) for e in each.events if e.kind in named and e.pos]
        for each in log
    ]


def test_no_five_words_of_a_body_are_in_any_file_of_a_log_of_shapes(logs: dict[str, Path]) -> None:
    said = (logs["full"].parent / "got").read_bytes() + QUESTION.encode()
    words = set(RUN.findall(said))
    assert len(words) > 10
    for level in ("shape", "none"):
        files = [
            path for path in logs[level].parent.rglob("*") if path.is_file() and path.name != "got"
        ]
        assert len(files) >= 2
        for path in files:
            kept = path.read_bytes()
            assert not [run for run in words if run in kept], path


def test_clients_get_the_same_whatever_is_kept(logs: dict[str, Path]) -> None:
    got = [set(RUN.findall((path.parent / "got").read_bytes())) for path in logs.values()]
    assert got[0] == got[1] == got[2] != set()


def test_types_and_sizes_of_events_and_tokens_are_those_of_a_full_log(
    logs: dict[str, Path],
) -> None:
    found = {level: types(entries(path)) for level, path in logs.items()}
    assert found["shape"] == found["full"]
    assert found["none"] == found["full"]
    counted = (
        "SELECT input_tokens, output_tokens, total_tokens, usage_raw FROM usage ORDER BY started_ns"
    )
    tokens = [json.loads(run(path, "query", counted, "--json").out) for path in logs.values()]
    assert tokens[0] == tokens[1] == tokens[2]
    levels = "SELECT DISTINCT content FROM exchange_summary"
    for level, path in logs.items():
        kept = json.loads(run(path, "query", levels, "--json").out)
        assert kept == [{"content": None if level == "full" else level}]
        assert run(path, "verify").code == 0
        assert {each.end["status"] for each in entries(path)} == {"completed"}


async def test_a_token_keeps_less_than_the_server(tmp_path: Path) -> None:
    db, file = tmp_path / "log.db", tmp_path / "tokens.json"
    tokens = [
        run(db, "token", "add", level, "--content", level, "--file", file).text.strip()
        for level in ("full", "shape")
    ]
    async with await start(pace=0.05) as upstream:
        with serving(db, *everywhere(upstream.base_url), "--tokens", str(file)) as serve:
            async with httpx.AsyncClient(timeout=30) as client:
                for token in tokens:
                    await client.post(f"{serve.base}/t/{token}/v1/responses", json=CALLS[1][1])
            await asyncio.to_thread(wait_until, lambda: all_ended(db, len(tokens)))
    full, shape = sorted(entries(db), key=lambda each: each.exchange.started_ns)
    assert QUESTION.encode() in full.request_body
    assert QUESTION.encode() not in shape.request_body
    assert len(shape.request_body) == len(full.request_body)
