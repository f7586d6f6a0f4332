"""Secrets of request bodies are in no file once the request is in the log, and what is in the log
stays as it is.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from recorder.ingest.ingester import Ingester
from recorder.journal.format import Mark
from recorder.journal.writer import Journal
from recorder.store.sql import Statement
from recorder.store.write.writer import Store
from recorder.wire.redaction.bodies import BY_SHAPE, Redactor
from tests.support.event_loop import eventually
from tests.support.logbook import entries
from tests.support.secret_shapes import PIECE, SECRETS, pieces
from tests.support.server import everywhere, run, serving
from tests.support.sockets import ScriptedUpstream, answer
from tests.unit.wire.redaction.test_bodies import HEAD, VALUES, as_json, records, unescaped

MARKER = "this is not a secret"


def _never(_: float) -> bool:
    return False


def _tell(journal: Journal, body: bytes, *, end: bool) -> None:
    tape = journal.exchange()
    for number, (mark, payload) in enumerate(records(HEAD, body)):
        if mark is not Mark.END:
            tape.write(mark, number, payload)
        elif end:
            tape.end(number, payload)


@pytest.mark.parametrize("now", [Redactor(VALUES), BY_SHAPE])
@pytest.mark.parametrize("before", [Redactor(VALUES), BY_SHAPE])
def test_what_was_told_before_stands_whatever_is_a_secret_now(
    tmp_path: Path, before: Redactor, now: Redactor
) -> None:
    journal = Journal(tmp_path / "journal", "r-1")
    with Store(tmp_path / "recorder.db") as store:
        _tell(
            journal, as_json({"prompt_cache_key": VALUES[0], "key": SECRETS["openai"]}), end=False
        )
        Ingester(store, journal.directory, _never, before).drain()
        journal.close()
        told = _logged(store)
        Ingester(store, journal.directory, _never, now).finish()
        after = _logged(store)
    assert after[: len(told)] == told
    assert [kind for kind, _ in after] == ["request", "request", "end"]
    assert (VALUES[0].encode() in told[1][1]) == (before is BY_SHAPE)


def _logged(store: Store) -> list[tuple[str, bytes]]:
    with store.transaction():
        return [
            (kind, raw)
            for kind, raw in store.ask(Statement("SELECT kind, raw FROM events ORDER BY pos"), {})
        ]


@pytest.mark.long
def test_no_file_has_a_secret_of_a_request_once_it_is_in_the_log(tmp_path: Path) -> None:
    db, home = tmp_path / "recorder.db", str(tmp_path)
    settings = tmp_path / "recorder" / "recorder.toml"
    settings.parent.mkdir()
    settings.write_text('[redact]\nenv = ["HOME"]\npatterns = ["employee-[0-9]{6}"]\n')
    told = [SECRETS["anthropic"], SECRETS["rsa key"], home, "employee-123456"]
    bodies = [
        as_json({"input": [MARKER, *told]}),
        zlib.compress(as_json({"input": [MARKER, *told]})),
    ]

    async def send() -> list[bytes]:
        async with ScriptedUpstream(answer(b"{}")) as upstream, httpx.AsyncClient() as client:
            with serving(db, *everywhere(upstream.base)) as serve:
                for body, coding in zip(bodies, ("identity", "deflate"), strict=True):
                    headers = {"content-encoding": coding, "content-type": "application/json"}
                    await client.post(f"{serve.base}/v1/responses", content=body, headers=headers)
                await eventually(
                    lambda: [bool(entry.end) for entry in entries(db)] == [True, True], within_s=30
                )
                serve.stop()
            return upstream.requests

    sent = asyncio.run(send())
    assert all(body in b"".join(sent) for body in bodies), "the upstream gets them as they are"
    files = {
        path.name: path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file() and path != settings
    }
    outputs = [
        run(db, "export", "latest", "--format", each).out
        for each in ("jsonl", "cassette", "har", "vcr")
    ]
    for written in (*files.values(), *outputs):
        text = unescaped(written.decode("utf-8", "replace"))
        assert [
            secret for secret in told for piece in pieces(secret)[::PIECE] if piece in text
        ] == []
    assert MARKER.encode() in files["recorder.db"]
    assert all(out.count(b"<REDACTED anthropic-key, 108 bytes>") == 1 for out in outputs)
    assert run(db, "verify").code == 0


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("mock",), ("db", "recover")])
def test_a_redact_table_that_makes_no_sense_is_said_before_anything_is_recorded(
    tmp_path: Path, command: Sequence[str]
) -> None:
    (tmp_path / "recorder.toml").write_text('[redact]\npattern = ["x"]\n')
    Journal(tmp_path / "recorder.db.journal", "r-1").close()
    ran = run(tmp_path / "recorder.db", *command, cwd=tmp_path)
    assert ran.code == 2
    assert (
        "recorder.toml: [redact] has no setting 'pattern': it has env, patterns, fields." in ran.err
    )
    assert (tmp_path / "recorder.db.journal" / "r-1").exists()
