"""Clients that leave behind the last event of the protocol, as `recorder run` records them: done,
and replayed whole.

The upstream sends no end of its body; the clients do not wait for it. The rule is tested in
`tests/unit/wire/test_conclusion.py`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from tests.support.logbook import entries
from tests.support.server import NOT_ALL, PROGRAM, Ran, environment, everywhere, run
from tests.support.sockets import STREAM_HEAD, Action, ScriptedUpstream, Send, Stall, chunked
from tests.unit.wire.test_conclusion import DONE

TARGETS = {
    "openai-responses": ("OPENAI_BASE_URL", "/responses"),
    "openai-chat": ("OPENAI_BASE_URL", "/chat/completions"),
    "anthropic": ("ANTHROPIC_BASE_URL", "/v1/messages"),
    "gemini": ("GOOGLE_GEMINI_BASE_URL", "/v1beta/models/g:streamGenerateContent?alt=sse"),
}
LAST = {
    "openai-responses": "completed",
    "openai-chat": "[DONE]",
    "anthropic": "message_stop",
    "gemini": "finishReason",
}
STREAMS = {api: b"".join(DONE[case][1]) for api, case in LAST.items()}
ALL = b"".join(STREAMS.values())
CUT = 3  # bytes: the blank line, and the last of an event

# Asks each address it is given, and leaves as soon as so many bytes of the body are there; or reads
# to the end.
CLIENT = """
import http.client, os, sys
from urllib.parse import urlsplit
for variable, path, size in zip(*[iter(sys.argv[1:])] * 3):
    url = urlsplit(os.environ[variable] + path)
    connection = http.client.HTTPConnection(url.hostname, url.port)
    target = url.path + ("?" + url.query if url.query else "")
    connection.request("POST", target, b'{"stream": true}', {"Content-Type": "application/json"})
    response = connection.getresponse()
    sys.stdout.buffer.write(response.read(int(size)) if int(size) else response.read())
    connection.close()
"""


def asking(*, whole: bool, short_by: int = 0) -> list[str]:
    """A command that asks all four APIs, and waits for the end of the body or leaves when it has
    the events.
    """
    words = [sys.executable, "-c", CLIENT]
    for api, (variable, path) in TARGETS.items():
        size = 0 if whole else len(STREAMS[api]) - short_by
        words += [variable, path, str(size)]
    return words


def recorder_run(db: Path, *words: str) -> Ran:
    """`recorder run` as a user has it; what a busy machine left in the journal is brought in."""
    command = [*PROGRAM, "run", "--db", str(db), *words]
    ran = subprocess.run(
        command, env=environment(db.parent), capture_output=True, timeout=120, check=False
    )
    said = ran.stderr.decode()
    if NOT_ALL in said:
        subprocess.run(
            [*PROGRAM, "db", "recover", "--db", str(db)],
            env=environment(db.parent),
            check=True,
            timeout=120,
        )
    return Ran(ran.returncode, ran.stdout, said)


async def recorded(db: Path, cassette: Path, *, cut: int = 0) -> Ran:
    """Record a command that leaves, before an upstream whose streams stall behind what is left of
    them.
    """
    scripts = list[list[Action]]()
    for stream in STREAMS.values():
        scripts.append([Send(STREAM_HEAD + chunked(stream[: len(stream) - cut])), Stall()])
    async with ScriptedUpstream(*scripts) as upstream:
        words = (
            "--cassette",
            str(cassette),
            *everywhere(upstream.base),
            "--",
            *asking(whole=False, short_by=cut),
        )
        return await asyncio.to_thread(recorder_run, db, *words)


def outcomes(db: Path) -> list[str]:
    return [entry.end["outcome"] for entry in entries(db)]


def test_clients_that_leave_behind_the_last_event_are_recorded_again_and_replayed(
    tmp_path: Path,
) -> None:
    db, cassette = tmp_path / "recorder.db", tmp_path / "four.sse.jsonl"
    ran = asyncio.run(recorded(db, cassette))
    assert (ran.code, ran.out) == (0, ALL)
    assert "Written to" in ran.err
    assert "broke off" not in ran.err
    assert outcomes(db) == ["client_done"] * 4
    assert [entry.end["status"] for entry in entries(db)] == ["completed"] * 4
    assert run(db, "verify").code == 0
    assert run(db, "lint", "--cassette", cassette).code == 0
    again = recorder_run(db, "--replay", str(cassette), "--speed", "max", "--", *asking(whole=True))
    assert (again.code, again.out) == (0, ALL)
    assert "broke off" not in again.err
    _assert_an_old_cassette_is_whole_too(db, cassette)


def _assert_an_old_cassette_is_whole_too(db: Path, cassette: Path) -> None:
    """Those that say `client_disconnect` of a whole stream stand in many repositories."""
    written = cassette.read_bytes().replace(b"client_done", b"client_disconnect")
    *three, gemini = written.split(b'"status":"completed"')
    cassette.write_bytes(
        b'"status":"completed"'.join(three) + b'"status":"client_disconnect"' + gemini
    )
    assert run(db, "diff", "latest", cassette).code == 0
    assert run(db, "import", cassette).code == 0
    played = run(db, "replay", "latest", "--speed", "max")
    assert (played.code, played.out, played.err) == (0, ALL, "")


def test_clients_that_leave_before_it_have_broken_off(tmp_path: Path) -> None:
    db, cassette = tmp_path / "recorder.db", tmp_path / "four.sse.jsonl"
    cassette.write_bytes(b"a good one")
    broken = asyncio.run(recorded(db, cassette, cut=CUT))
    assert "stays as it was: 4 of 4 exchanges broke off" in broken.err
    assert cassette.read_bytes() == b"a good one"
    assert outcomes(db) == ["client_disconnect"] * 4
