"""A recorded run of a program: which of its lines answer which line of a client."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from recorder.model.events import (
    STDIO,
    SWITCHED,
    CloseRecord,
    EndRecord,
    Piece,
    Recording,
    RequestRecord,
    ResponseHead,
    SentMessage,
)
from recorder.replay.matching import Miss
from recorder.replay.matching.noise import DEFAULT_RULES
from recorder.replay.stdio import ProgramRun
from tests.support.facts import EXCHANGE, MS
from tests.support.programs import spoken


def line(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}, separators=(",", ":")).encode() + b"\n"


def call(id: Any, name: str, token: Any = None) -> bytes:
    return line(
        id=id, method="tools/call", params={"name": name, "_meta": {"progressToken": token}}
    )


def progress(token: Any) -> bytes:
    return line(method="notifications/progress", params={"progressToken": token, "progress": 1})


LOG = line(method="notifications/message", params={"data": "x"})
SAMPLING = line(id=1, method="sampling/createMessage", params={})


def played(*spoken: tuple[str, bytes], api: str = "mcp", by: Any = "client") -> ProgramRun:
    """A run in which each line comes a millisecond after the one before; `>` is one of the client."""
    sent, pieces = list[SentMessage](), list[Piece]()
    for number, (side, raw) in enumerate(spoken, 1):
        if side == ">":
            sent.append(SentMessage(number * MS, raw))
        else:
            pieces.append(Piece(number * MS, raw))
    exchange = msgspec.structs.replace(
        EXCHANGE, api=api, method=STDIO, target="/shop", provider="shop"
    )
    request = RequestRecord(STDIO, "/shop", "shop", [], 0, "", 0, complete=True)
    counts: dict[str, Any] = {
        "wire_bytes": 0,
        "body_bytes": 0,
        "events": 0,
        "frames": 0,
        "gap_chunks": 0,
    }
    end = EndRecord(
        *("completed", "eof", None, 101),
        **{**counts, "gap_bytes": 0, "coding": None, "undecoded": None, "lossless": True},
        wire_sha256="",
        body_sha256="",
        close=CloseRecord(by),
    )
    head = ResponseHead(SWITCHED, "", [])
    run = Recording(exchange, request, b"{}", head, 0, tuple(pieces), (), end, 0, sent=tuple(sent))
    return ProgramRun([run], DEFAULT_RULES)


def answered(run: ProgramRun, asked: bytes) -> Sequence[tuple[int, bytes]]:
    found = run.answer(asked)
    assert not isinstance(found, Miss), found.message
    return [(piece.t_ns // MS, piece.raw) for piece in found]


def test_each_request_gets_its_response_and_progress_with_the_ids_of_who_asks() -> None:
    run = played(
        *(
            (">", call(1, "a", "t")),
            (">", call(2, "b")),
            ("<", progress("t")),
            ("<", line(id=2, result={})),
        ),
        ("<", line(id=1, result={"id": 1})),
    )
    assert answered(run, call("y", "b")) == [(2, line(id="y", result={}))]
    assert answered(run, call("x", "a", 7)) == [
        (2, progress(7)),
        (4, line(id="x", result={"id": 1})),
    ]


def test_what_waited_for_an_answer_of_the_client_follows_it() -> None:
    run = played(
        *(
            ("<", LOG),
            (">", call(1, "a")),
            ("<", SAMPLING),
            (">", line(id=1, result={"text": "old"})),
            ("<", LOG),
        ),
        ("<", line(id=1, result={})),
    )
    assert [piece.raw for piece in run.opening] == [LOG]
    assert answered(run, call(5, "a")) == [(1, SAMPLING)]
    assert answered(run, line(id=1, result={"text": "new"})) == [
        (1, LOG),
        (2, line(id=5, result={})),
    ]


@pytest.mark.parametrize(
    ("name", "api", "renamed"),
    [
        (
            "acp",
            "acp",
            {b'"id":0,"method"': b'"id":"a",  "method"', b'"id":2,"method"': b'"id":"b","method"'},
        ),
        ("stream-json", "stream-json", {b'"req_1_': b'"req_9_'}),
        ("stream-json-partial", "stream-json", {b'"req_1_': b'"req_9_'}),
    ],
)
def test_a_client_with_other_ids_gets_all_lines_in_their_order(
    name: str, api: str, renamed: dict[bytes, bytes]
) -> None:
    lines = spoken(name)
    run = played(*((">" if line.is_of_client else "<", line.raw) for line in lines), api=api)
    given = [piece.raw for piece in run.opening]
    for line in lines:
        if line.is_of_client:
            asked = line.raw
            for old, new in renamed.items():
                asked = asked.replace(old, new)
            given += [raw for _, raw in answered(run, asked)]
    expected = [line.raw for line in lines if not line.is_of_client]
    assert len(given) == len(expected)
    different = [(new, old) for new, old in zip(given, expected, strict=True) if new != old]
    assert different == [
        (new, old) for new, old in different if json.loads(new) | OWN == json.loads(old) | OWN
    ]
    assert len(different) == len(renamed)


OWN: dict[str, Any] = {"id": None, "response": None}
"""What has the ids of the client."""


def test_lines_that_are_no_json_rpc_are_answered_when_they_are_the_same() -> None:
    run = played((">", b'{"type":"user","n":1}\n'), ("<", b"one\r\n"), api="other", by="server")
    over = [run.is_over]
    assert answered(run, b'{"n": 1, "type": "user"}\n') == [(1, b"one\r\n")]
    assert [*over, run.is_over] == [False, True]
    assert isinstance(run.answer(b'{"type":"user","n":2}\n'), Miss)
