"""Whatever JSON a server or a client sends, it is recorded and projected: no format raises."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

import recorder.wire.dialects
from recorder.ingest.capture import Capture
from recorder.model.chain import row_root
from recorder.model.events import Exchange, ExchangeEnd, RequestHead, ResponseHead
from recorder.projections.fold import Folding
from recorder.wire.conclusion import concluded
from recorder.wire.dialects import DIALECTS, Dialect
from tests.support.rows import make_exchange, make_session

STREAMS = 150
HOSTILE: tuple[Any, ...] = ([], {}, [[]], [{}], 1, 0.5, -1, 10**30, True, None, "", "x", "\ud800")
FOLDERS = Path(recorder.wire.dialects.__file__).parent
WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*(?:\.[A-Za-z_0-9]+)*")


def words(dialect: Dialect) -> list[str]:
    """Return all words in the texts of the modules of a format: names of its members, types of its
    events.
    """
    folder = FOLDERS / dialect.name.replace("-", "_")
    sources = folder.glob("*.py") if folder.is_dir() else [FOLDERS / "other.py"]
    texts = " ".join(
        text for source in sources for text in re.findall(r'"([^"]*)"', source.read_text())
    )
    return sorted({*WORD.findall(texts)})


def made(dice: Random, known: list[str], depth: int = 0) -> Any:
    """Return an object of members that the format knows, with values of any kind."""
    found = {"type": dice.choice([dice.choice(known), dice.choice(HOSTILE)])}
    for _ in range(dice.randrange(5)):
        nested = made(dice, known, depth + 1) if depth < 3 else {}
        found[dice.choice(known)] = dice.choice(
            [nested, [nested], dice.choice(known), dice.choice(HOSTILE)]
        )
    return found


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.name)
def test_no_json_makes_a_format_raise(dialect: Dialect) -> None:
    dice, known = Random(7), words(dialect)
    assert len(known) > 10
    for _ in range(STREAMS):
        messages = [json.dumps(made(dice, known)).encode() for _ in range(5)]
        stream = b"".join(b"data: %b\n\n" % message for message in messages[1:])
        read(dialect, messages[0], stream, dice)
        of_client(dialect, messages)


def read(dialect: Dialect, asked: bytes, stream: bytes, dice: Random) -> None:
    target = dialect.target(False, ())
    row: Exchange = make_exchange(make_session(), api=dialect.name, target=target)
    head = RequestHead(
        row.exchange_id, row.session_id, row.started_ns, "POST", target, "openai", []
    )
    capture = Capture(row.session_id, row.exchange_id, dialect, 0, row_root(row))
    events = capture.request(head, asked, wire=asked)
    events += capture.response(1, ResponseHead(200, "OK", [("content-type", "text/event-stream")]))
    events += capture.chunk(2, stream)
    events += capture.end(3, ExchangeEnd(dice.choice(["eof", "client_disconnect"])))
    folding = Folding(row)
    folding.apply_all(events)
    assert folding.rows()["exchanges"]
    assert concluded(row, events) is not None


def of_client(dialect: Dialect, messages: list[bytes]) -> None:
    """What is asked of a format besides: of messages over WebSocket, of sent ones, of ids that are
    given anew.
    """
    decoder = dialect.decoder()
    for message in messages:
        decoder.sent(None, message)
        if dialect.websocket is not None:
            dialect.websocket.ids(message)
    if dialect.websocket is not None and dialect.websocket.live is not None:
        request = dialect.websocket.live.request()
        for message in messages:
            dialect.websocket.live.sound_size(json.loads(message))
            dialect.websocket.live.client_ids(json.loads(message))
            request.sent(message)
            request.heard(message)
        dialect.request_facts("/x", request.body())
    if dialect.program is not None:
        for message in map(json.loads, messages):
            dialect.program.asked(message)
            dialect.program.answered(message)
            dialect.program.compared(message)
            dialect.program.asks(message)
            dialect.program.refusal(message, "why")
    if dialect.renumbering is not None:
        renumbered = dialect.renumbering(messages[0], messages[1])
        assert renumbered is None or renumbered(messages[2])
