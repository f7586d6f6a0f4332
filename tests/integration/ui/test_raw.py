"""One exchange as bytes: heads, bodies, and lines to copy, as a shell and Python read them."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import URL

from recorder.errors import NotFoundError, UsageError
from recorder.store.location import database_url
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_named import session_named
from recorder.ui import copies
from recorder.ui.literals import literal
from recorder.ui.raw import exchange_body, model_request, raw_exchange, sliced
from tests.support.conversations import Conversations, answering, asking, message, response
from tests.support.server import run

HOSTILE = 'it\'s "$(touch pwned)" `id` !x \\ \u202eevil\nline\x1b[31m'
HEADERS = [
    ("Authorization", "REDACTED (51 bytes)"),
    ("Content-Type", "application/json"),
    ("Cookie", "REDACTED (9 bytes)"),
]


async def raw(database: URL, ref: str, exchange: object, at: int | None = None) -> dict[str, Any]:
    async with await LogReader.open(database) as log:
        found: dict[str, Any] = msgspec.to_builtins(
            await raw_exchange(log, database, ref, str(exchange), at)
        )
        return found


async def body(
    database: URL,
    ref: str,
    exchange: object,
    which: str | None = None,
    start: int = 0,
    limit: int | None = None,
) -> bytes:
    async with await LogReader.open(database) as log:
        _, chunks = await exchange_body(log, ref, str(exchange), which)
        return b"".join([chunk async for chunk in sliced(chunks, start, limit)])


def words_of(line: str) -> list[str]:
    """The words that a shell makes of a line, without running what it names."""
    script = f"curl() {{ printf '%s\\0' \"$@\"; }}; {line}"
    ran = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        env={"PATH": os.environ["PATH"], "OPENAI_API_KEY": "k"},
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.decode().split("\0")[:-1]


async def test_heads_are_as_they_were_recorded(sqlite_database: URL) -> None:
    frames = response(*message("Hello."))
    session = Conversations(sqlite_database).session("run")
    session.exchange(frames, asked=asking("Hi"), headers=HEADERS)
    found = await raw(sqlite_database, "run", 1)
    assert (found["session"]["name"], found["number"], found["exchanges"]) == ("run", 1, 1)
    assert [tuple(each) for each in found["request"]["headers"]] == HEADERS
    assert (found["response"]["status"], found["end"]["status"]) == (200, "completed")
    assert found["end"]["body_bytes"] == len(b"".join(frames))
    assert (found["file"], found["request"]["file"]) == ("run-1.sse", "run-1-request.json")
    assert await body(sqlite_database, "run", 1) == b"".join(frames)
    assert json.loads(await body(sqlite_database, "run", 1, "request"))["input"] == asking("Hi")


async def test_an_open_exchange_has_no_end(tmp_path: Path) -> None:
    session = Conversations(tmp_path / "log.db").session("run")
    session.exchange(response(*message("Hello."))[:3], ended=False)
    found = await raw(session.database, "run", 1)
    assert (found["end"], found["response"]["status"]) == (None, 200)


@pytest.mark.parametrize(
    ("start", "limit"), [(0, None), (0, 0), (0, 1), (3, 5), (70, 100), (10**6, None), (10, 10**6)]
)
async def test_any_part_of_a_body_can_be_had(tmp_path: Path, start: int, limit: int | None) -> None:
    frames = response(*message("Hello ", "you."))
    session = Conversations(tmp_path / "log.db").session("run")
    session.exchange(frames)
    whole = b"".join(frames)
    stop = None if limit is None else start + limit
    assert await body(session.database, "run", 1, None, start, limit) == whole[start:stop]


async def test_the_request_as_the_model_saw_it_is_that_of_show(sqlite_database: URL) -> None:
    session = Conversations(sqlite_database).session("run")
    session.exchange(response(*message("Hello.")), asked=asking("Hi"))
    follow_up = {"model": "gpt-5", "previous_response_id": "resp_1", "input": answering("7")}
    session.exchange(response(id="resp_2"), body=follow_up, at_s=5)
    [of_command] = json.loads(run(sqlite_database, "show", "run", "2", "--request", "--json").out)[
        "requests"
    ]
    async with await LogReader.open(sqlite_database) as log:
        head = await model_request(log, "run", "2")
    whole = await body(sqlite_database, "run", 2, "model")
    assert json.loads(whole) == of_command.pop("request")
    assert head == {**of_command, "size_bytes": len(whole)}
    assert head["depth"] == 1


async def test_a_request_without_a_body_has_none_that_the_model_saw(tmp_path: Path) -> None:
    session = Conversations(tmp_path / "log.db").session("run")
    session.exchange([], body="no object")
    async with await LogReader.open(session.database) as log:
        assert (await model_request(log, "run", "1"))["size_bytes"] is None
    with pytest.raises(NotFoundError, match="not a JSON object"):
        await body(session.database, "run", 1, "model")
    with pytest.raises(UsageError, match="There is no body 'heads'"):
        await body(session.database, "run", 1, "heads")


async def test_messages_over_websocket_are_what_replay_writes(demo_recording: Path) -> None:
    url = database_url(demo_recording)
    async with await LogReader.open(url) as log:
        every = await log.exchanges((await session_named(log, "latest")).session_id)
    assert "WEBSOCKET" in {each.method for each in every}
    for number in range(1, len(every) + 1):
        played = run(demo_recording, "replay", "latest", "--speed", "max", "--exchange", number)
        found = await body(url, "latest", number)
        assert found == played.out
        assert every[number - 1].method != "WEBSOCKET" or found.startswith(
            b"event: response.created\ndata: {"
        )


# -- copies


async def test_a_curl_line_is_what_was_sent_with_the_key_in_a_variable(tmp_path: Path) -> None:
    session = Conversations(tmp_path / "log.db").session("run")
    session.exchange(
        response(),
        asked=asking("Hi"),
        headers=[*HEADERS, ("Host", "here"), ("Accept-Encoding", "br")],
    )
    copy = (await raw(session.database, "run", 1))["copies"]["curl"]
    assert "\n" not in copy["text"]
    assert '"Authorization: Bearer $OPENAI_API_KEY"' in copy["text"]
    expected = ["-N", "https://api.openai.com/v1/responses", "-H", "Authorization: Bearer k"]
    *words, flag, sent = words_of(copy["text"])
    assert words == [*expected, "-H", "Content-Type: application/json"]
    assert flag == "--data-raw"
    assert json.loads(sent)["input"] == asking("Hi")
    assert copy["note"] == "Left out, because their values were not recorded: Cookie."


@pytest.mark.parametrize(
    ("target", "provider", "api", "expected"),
    [
        (
            "/openai/v1/responses",
            "openai",
            "openai-responses",
            ["https://api.openai.com/v1/responses"],
        ),
        ("/responses", "openai", "openai-responses", ["https://api.openai.com/v1/responses"]),
        (
            "/v1/messages?beta=true",
            "anthropic",
            "anthropic",
            ["https://api.anthropic.com/v1/messages?beta=true"],
        ),
        ("/local/x", "local", "other", ["http://127.0.0.1:8787/local/x"]),
        (
            "/v1beta/models/m:generateContent?key=REDACTED&alt=sse",
            "gemini",
            "gemini",
            [
                "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent?key=&alt=sse"
            ],
        ),
        ("/v1/files/[1]", "openai", "other", ["-g", "https://api.openai.com/v1/files/[1]"]),
        ("/v1/files/'`id`", "openai", "other", ["https://api.openai.com/v1/files/'`id`"]),
    ],
)
async def test_the_address_is_the_providers_own(
    tmp_path: Path, target: str, provider: str, api: str, expected: list[str]
) -> None:
    session = Conversations(tmp_path / "log.db").session("run")
    session.exchange(response(), body={}, target=target, provider=provider, api=api)
    line = (await raw(session.database, "run", 1))["copies"]["curl"]["text"]
    assert words_of(line)[: 1 + len(expected)] == ["-N", *expected]


async def test_hostile_text_stays_text(tmp_path: Path) -> None:
    asked = {"model": "m", "input": HOSTILE, "n": 12345678901234567890123}
    session = Conversations(tmp_path / "log.db").session(f"run {HOSTILE}")
    session.exchange(
        response(*message(HOSTILE)), body=asked, headers=[("x-request-id", HOSTILE), *HEADERS]
    )
    found = await raw(session.database, session.session.session_id, 1)
    line = found["copies"]["curl"]["text"]
    assert line.isprintable()
    words = words_of(line)
    assert json.loads(words[-1]) == asked
    assert f"x-request-id: {HOSTILE}" in words
    assert re.fullmatch(r"[A-Za-z0-9._-]+-1", found["file"].removesuffix(".sse"))
    constants = [
        node.value
        for node in ast.parse(found["copies"]["pytest"]["text"]).body
        if isinstance(node, ast.Assign)
    ]
    assert [ast.literal_eval(each) for each in constants] == [asked]


async def test_a_body_that_fits_in_no_argument_is_sent_from_a_file(tmp_path: Path) -> None:
    session = Conversations(tmp_path / "log.db").session("run")
    session.exchange(response(), body={"input": "x" * copies.INLINE_BYTES})
    found = (await raw(session.database, "run", 1))["copies"]["curl"]
    assert found["text"].endswith(" --data-binary @run-1-request.json")
    assert found["note"] == "Save the request body first, as run-1-request.json."


async def test_commands_of_recorder_say_the_same(tmp_path: Path) -> None:
    session = Conversations(tmp_path / "log.db").session("run")
    frames = response(*message("Hello."))
    session.exchange(frames)
    found = (await raw(session.database, "run", 1, at=5))["copies"]
    for kind in ("replay", "show"):
        line = found[kind]["text"]
        program, *words = shlex.split(line)
        assert program == "recorder"
        ran = await asyncio.to_thread(run, tmp_path / "log.db", *words)
        assert (ran.code, ran.err) == (0, "")
        assert (ran.out == b"".join(frames)) == (kind == "replay")
    assert "--at-event 5" in found["show"]["text"]


_TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=40)


@settings(max_examples=5)
@given(st.lists(_TEXT, min_size=20, max_size=40))
def test_a_quoted_text_is_one_word_on_one_line(texts: list[str]) -> None:
    words = [copies.shell_quoted(text) for text in texts]
    assert not re.search("[\0-\x1f\x7f-\x9f\u2028\u202e\u2066]", "".join(words))
    ran = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {' '.join(words)}"],
        capture_output=True,
        env={"LC_ALL": "C.UTF-8"},
    )
    assert ran.stdout.decode().split("\0")[:-1] == texts


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=30,
)


@given(_JSON)
def test_a_literal_is_its_value(value: Any) -> None:
    assert ast.literal_eval(literal(value)) == value
