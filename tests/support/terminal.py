"""Text that would take over a terminal, everywhere in a log where text can stand; and a terminal to
look at.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, TextIO

import pytest

from recorder.commands import main
from recorder.ingest.capture import Capture
from recorder.model.events import (
    Exchange,
    ExchangeEnd,
    GapRecord,
    RequestHead,
    ResponseHead,
    Session,
)
from recorder.model.ids import uuid7
from recorder.store.write.writer import Store
from recorder.wire.dialects import by_name
from tests.support.recordings import GOOD
from tests.support.server import run

_CODES = (
    *range(1, 0x20),
    *range(0x7F, 0xA0),
    0x061C,
    0x200E,
    0x200F,
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
)
CONTROLS = frozenset(map(chr, _CODES)) - {"\n", "\t"}
"""What a terminal obeys, or what turns text around. It stands in all the texts below but as our own
line ends.
"""

HOSTILE = "\x1b]52;c;aGk=\x07\x9b2J\x1bP+q\x1b\\" + "".join(sorted(CONTROLS - set("\r"))) + "\x1b(0"
NAME = HOSTILE.replace("\n", "")
FILE_NAME = "\x1b]0;x\x07\x9b2J\u202e\u2066\x08\x7f"  # short: a path has its limits

# attributes, progress bars; HOSTILE has no such sequence
_OURS = re.compile(r"\r?\x1b\[[\d;?]*[A-Za-z]")

START_NS = 1_700_000_000_000_000_000

# what things are: all other texts are those of a model or a person
_KINDS = ("type", "object", "status", "role")
_ENDS: dict[str, Any] = {
    "openai-responses": {
        "type": "response.failed",
        "response": {"status": "failed", "error": {"message": ""}},
    },
    "openai-chat": {
        "choices": [{"index": 1, "delta": {"role": "", "content": ""}}],
        "error": {"message": "", "type": ""},
    },
    "anthropic": {"type": "error", "error": {"type": "", "message": ""}},
    "gemini": {"error": {"message": "", "status": ""}},
}


def hostile(value: Any, name: str = "") -> Any:
    """JSON in which every text is hostile that says no kind, and so are names that a model or a
    server chooses.
    """
    if isinstance(value, dict):
        chosen = {HOSTILE: HOSTILE} if name in ("usage", "args") else {}
        return {key: hostile(each, key) for key, each in value.items()} | chosen
    if name == "arguments" and value:
        return json.dumps({HOSTILE: HOSTILE})
    if isinstance(value, list):
        return [hostile(each, name) for each in value]
    return HOSTILE if isinstance(value, str) and not (value and name in _KINDS) else value


_TOOL = {"type": "function", "name": ""}
SENT = hostile(
    {"model": "", "instructions": "", "input": [{"role": "user", "content": ""}], "tools": [_TOOL]}
)
STREAMS: dict[str, list[Any]] = {
    **{
        api: [hostile(event) for event in (*reply.events, {"type": ""}, _ENDS[api])]
        for api, reply in GOOD.items()
    },
    "other": [HOSTILE],
}


def body(api: str) -> list[bytes]:
    """A stream: its events escaped as JSON is, then as they are, and what no JSON is."""
    events = STREAMS[api]
    escaped = [b"event: x\ndata: " + json.dumps(event).encode() + b"\n\n" for event in events]
    raw = [b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n" for event in events]
    odd = HOSTILE.replace("\n", "").encode()
    return [
        *escaped,
        *raw,
        b"event: " + odd + b"\ndata: " + odd + b"\xff\n\n",
        b": " + odd + b"\n\n",
    ]


def record(path: Path, clock: int = START_NS, *, gap: bool = True) -> None:
    """A session with an exchange of every API, everything in it hostile."""
    with Store(path) as store, store.transaction():
        session_id = uuid7(clock, bytes(10))
        store.add_session(Session(session_id, clock, NAME, NAME, json.dumps({NAME: NAME}), "live"))
        for place, api in enumerate(STREAMS, 1):
            _exchange(store, session_id, clock + place * 10**9, api, gap=gap and place == 2)


def _exchange(store: Store, session_id: str, began_ns: int, api: str, *, gap: bool) -> None:
    exchange_id, headers = uuid7(began_ns, bytes(10)), [(NAME, NAME), ("user-agent", NAME)]
    head = RequestHead(exchange_id, session_id, began_ns, NAME, f"/v1/{NAME}?{NAME}", NAME, headers)
    store.add_exchange(
        Exchange(session_id, exchange_id, began_ns, "r", NAME, api, NAME, f"/v1/{NAME}", NAME)
    )
    capture, sent = Capture(session_id, exchange_id, by_name(api), 0), json.dumps(SENT).encode()
    events = capture.request(head, sent, wire=sent)
    events += capture.response(
        10**6, ResponseHead(200, NAME, [("content-type", "text/event-stream"), (NAME, NAME)])
    )
    for number, chunk in enumerate(body(api)):
        events += capture.chunk((10 + number) * 10**6, chunk)
    if gap:
        events += capture.gap(GapRecord("response", 1, 5, NAME, 0, 0, NAME))
    events += capture.end(5 * 10**8, ExchangeEnd("upstream_reset", NAME))
    store.append(events)
    store.projector.project(session_id, exchange_id)


def on_terminal(columns: int, *arguments: object, said: str = "") -> list[str]:
    """The lines that a command writes to a terminal of that width, without their attributes.

    On stderr it says where there is no room for a column (which begins with `said`), and nothing
    else.
    """
    shown, err = written_on_terminal(columns, *arguments)
    assert re.fullmatch(rf"(No room for {re.escape(said)}.*; --.*\.\n)?", err), err
    return re.sub(r"\x1b\[\d+m", "", shown).splitlines()


def written_on_terminal(columns: int, *arguments: object, term: str = "xterm") -> tuple[str, str]:
    """What a command writes to a terminal of that width on stdout, and what it says on stderr,
    which is not a terminal.
    """
    with _terminal() as (terminal, shown):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with pytest.MonkeyPatch.context() as patched:
            for name in ("COLUMNS", "LINES"):
                patched.delenv(name, raising=False)
            ran = run(Path("/none"), *arguments, stdout=terminal, TERM=term)
    return b"".join(shown).decode(), ran.err


def printed_on_terminal(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> str:
    """What a command writes to a terminal, on stdout and stderr, without what we send it on
    purpose: attributes.
    """
    with _terminal() as (terminal, shown), monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", terminal)
        patched.setattr(sys, "stderr", terminal)
        with pytest.raises(SystemExit):
            main(list(map(str, arguments)))
    return _OURS.sub("", b"".join(shown).decode())


@contextmanager
def _terminal() -> Iterator[tuple[TextIO, list[bytes]]]:
    """A terminal to write to, and what it has shown: all of it at the end of the block."""
    master, slave = pty.openpty()
    attributes = termios.tcgetattr(slave)
    attributes[1] &= ~termios.OPOST  # a line end stays one
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    shown: list[bytes] = []
    reader = Thread(target=_drain, args=(master, shown))
    reader.start()
    with os.fdopen(slave, "w", encoding="utf-8", errors="strict") as terminal:
        yield terminal, shown
    reader.join()
    os.close(master)


def _drain(master: int, shown: list[bytes]) -> None:
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:  # EIO: the other side is closed
            return
        if not data:
            return
        shown.append(data)
