"""`recorder export`: a session as text, and back."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path

import httpx
import msgspec
import pytest

from recorder.model.events import Event, Exchange
from tests.support.logbook import Entry, all_ended, entries
from tests.support.provider.server import ENCODING_HEADER, start
from tests.support.server import everywhere, run, serving, wait_until

CALLS: tuple[tuple[str, dict[str, object]], ...] = (
    ("/v1/responses", {"model": "gpt-demo", "stream": True, "input": "Hi"}),
    ("/v1/responses", {"model": "gpt-demo", "input": "Hi"}),
    (
        "/v1/chat/completions",
        {"model": "gpt-demo", "stream": True, "messages": [{"role": "user", "content": "Hi"}]},
    ),
    (
        "/v1/messages",
        {
            "model": "m",
            "stream": True,
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "Hi"}],
        },
    ),
    (
        "/v1beta/models/gemini-demo:streamGenerateContent?alt=sse",
        {"contents": [{"parts": [{"text": "Hi"}]}]},
    ),
)
CODINGS = ("identity", "gzip", "br", "zstd")


@pytest.fixture(scope="module")
def demo_session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one session, `demo`: every API in every coding, and a client that leaves."""
    db = tmp_path_factory.mktemp("export") / "recorder.db"
    asyncio.run(_record(db))
    return db


@pytest.fixture
def recorded(demo_session: Path, tmp_path: Path) -> Path:
    """The same, for one test."""
    return Path(shutil.copy(demo_session, tmp_path / "recorder.db"))


async def _record(db: Path) -> None:
    async with await start(pace=0.05) as upstream:
        with serving(db, *everywhere(upstream.base_url)) as serve:
            async with httpx.AsyncClient(base_url=f"{serve.base}/s/demo", timeout=30) as client:
                for coding in CODINGS:
                    for path, body in CALLS:
                        await client.post(path, json=body, headers={ENCODING_HEADER: coding})
                await _leave(client)
            await asyncio.to_thread(
                wait_until, lambda: all_ended(db, len(CODINGS) * len(CALLS) + 1)
            )


async def _leave(client: httpx.AsyncClient) -> None:
    long = {
        "model": "demo-load",
        "stream": True,
        "input": "Hi",
        "metadata": {"events": "100000", "rate": "1000"},
    }
    async with client.stream("POST", "/v1/responses", json=long) as response:
        await anext(response.aiter_raw())


def described(entry: Entry) -> tuple[tuple[object, ...], list[tuple[object, ...]]]:
    """An exchange and its events without their ids and what hangs on them."""
    return msgspec.structs.astuple(entry.exchange)[2:], [
        msgspec.structs.astuple(event)[2:-1] for event in entry.events
    ]


@pytest.mark.long
def test_a_session_of_any_kind_is_the_same_in_another_database(
    recorded: Path, tmp_path: Path
) -> None:
    exported = tmp_path / "run.jsonl"
    exported.write_bytes(run(recorded, "export", "demo").out)
    other = tmp_path / "other.db"
    assert run(other, "import", exported).code == 0
    before, after = entries(recorded), entries(other)
    assert [described(entry) for entry in after] == [described(entry) for entry in before]
    assert {entry.end["coding"] for entry in before} >= {None, "gzip", "br", "zstd"}
    assert {entry.end["status"] for entry in before} == {"completed", "client_disconnect"}
    assert {entry.session for entry in after} == {"run"}


def test_an_import_beside_the_original_leaves_it_alone(recorded: Path, tmp_path: Path) -> None:
    exported = tmp_path / "demo.jsonl"
    exported.write_bytes(run(recorded, "export", "demo").out)
    before = entries(recorded)
    assert run(recorded, "import", exported).code == 0
    both = entries(recorded)
    assert len(both) == 2 * len(before)
    assert [entry for entry in both if entry in before] == before


def test_the_lines_are_the_rows_of_the_log(recorded: Path) -> None:
    opening, *lines, closing = [
        json.loads(line)
        for line in run(recorded, "export", "demo", "--exchange", "1").out.splitlines()
    ]
    assert (opening["recorder_export"], opening["session"]["name"]) == (1, "demo")
    [first, *_] = entries(recorded)
    assert list(lines[0]) == ["exchange"]
    assert msgspec.convert(lines[0]["exchange"], Exchange) == first.exchange
    assert [list(line) for line in lines[1:]] == [list(Event.__struct_fields__)] * len(first.events)
    assert [line["raw"] for line in lines[1:]] == [event.raw.decode() for event in first.events]
    assert lines[1]["hash"] == first.events[0].hash.hex()
    assert closing == {"exported": {"exchanges": 1, "events": len(first.events)}}


def test_sse_is_what_replay_plays(recorded: Path) -> None:
    exported = run(recorded, "export", "demo", "--format", "sse", "--exchange", "3")
    assert exported == run(recorded, "replay", "demo", "--speed", "max", "--exchange", "3")
    assert exported.out == entries(recorded)[2].body


def test_what_is_not_there_and_what_cannot_be_asked(tmp_path: Path) -> None:
    db = tmp_path / "recorder.db"
    (tmp_path / "a.sse").write_bytes(b"data: 1\n\n")
    assert run(db, "export", "latest").code == 3
    run(db, "import", tmp_path / "a.sse")
    assert run(db, "export", "b").code == 3
    assert run(db, "export", "a", "--exchange", "2").code == 3
    assert run(db, "export", "a", "--format", "yaml").code == 2


_RUN = re.compile(r"(?=\b(\w+(?: \w+){4}))")
IN_OUT = (
    "jsonl",
    "cassette",
    "payloads",
    "har",
    "vcr",
    "html",
    "perfetto",
    "otlp-json",
    "chat",
    "sse",
    "mooncake",
    "atif",
)


@pytest.mark.long
def test_no_five_words_and_no_id_are_in_an_anonymous_export_of_any_format(demo_db: Path) -> None:
    plain = run(demo_db, "export", "latest").out.decode()
    secrets = set(_RUN.findall(plain)) | {
        each.exchange.exchange_id[-12:] for each in entries(demo_db)
    }
    assert len(secrets) > 30
    for format in IN_OUT:
        exported = run(demo_db, "export", "latest", "--anonymous", "--format", format)
        assert exported.code == 0
        assert not [each for each in secrets if each.encode() in exported.out], format


@pytest.mark.long
def test_an_anonymous_export_is_whole_and_has_the_counts_of_its_session(
    recorded: Path, tmp_path: Path
) -> None:
    exported = tmp_path / "run.jsonl"
    exported.write_bytes(run(recorded, "export", "demo", "--anonymous").out)
    other = tmp_path / "other.db"
    assert run(other, "import", exported).code == 0
    assert run(other, "verify").code == 0
    usage = "SELECT u.*, e.status, e.ttft_ns, e.duration_ns, e.anomalies FROM usage u JOIN exchange_summary e"
    counted = f"{usage} USING (exchange_id) ORDER BY u.started_ns, u.exchange_id"
    before, after = (
        json.loads(run(db, "query", counted, "--json").out) for db in (recorded, other)
    )
    named = {"session_id", "exchange_id", "session_name"}
    left = [
        [{name: each for name, each in row.items() if name not in named} for row in rows]
        for rows in (before, after)
    ]
    assert left[0] == left[1]
