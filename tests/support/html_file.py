"""The one HTML file of a session, as a test reads it: its data, and what its player would put together of that."""

from __future__ import annotations

import base64
import json
import re
import zlib
from copy import deepcopy
from pathlib import Path
from typing import Any

from recorder.ui.event_templates import documents, put_together
from recorder.ui.ops import apply
from tests.support.server import run

_DATA = re.compile(r'<script type="application/[a-z-]+" id="data"( data-coding="deflate")?>(.*?)</script>', re.DOTALL)


def exported(db: Path, session: str, *options: object) -> str:
    """The file of a session."""
    ran = run(db, "export", session, "--format", "html", *options)
    assert ran.code == 0, ran.err
    return ran.out.decode()


def written_data(page: str) -> str:
    """The JSON in a file, inflated if it was deflated."""
    [(coding, written)] = _DATA.findall(page)
    return zlib.decompress(base64.b64decode(written)).decode() if coding else written


def data_of(page: str) -> dict[str, Any]:
    """The data of a file."""
    data: dict[str, Any] = json.loads(written_data(page))
    return data


def raws(data: dict[str, Any], number: int) -> list[bytes]:
    """The bytes of all events of an exchange, put together as the player does."""
    exchange = data["exchanges"][str(number)]
    after = documents(exchange["steps"])
    return [put_together(raw, data["texts"], *next(after)) for raw in exchange["events"]["raw"]]


def document_at(data: dict[str, Any], number: int, pos: int) -> Any:
    """The document of an exchange after an event, as the player computes it at that event's time."""
    t_ns = next(each["t"][pos] for each in data["timeline"]["exchanges"] if each["number"] == number)
    document: Any = {}
    for at, ops, *when in data["exchanges"][str(number)]["steps"]:
        if at <= pos and (not when or when[0] <= t_ns):
            document = apply(document, deepcopy(ops))
    return document
