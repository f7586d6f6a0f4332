"""The one HTML file of a session, as a test reads it: its data, and what its player would put
together of that.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec

from recorder.recordings.selection import select_exchanges
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_document import document
from recorder.store.queries.session_state import cutoff, take_snapshot
from recorder.ui.html_file import Template
from recorder.ui.ops import apply, compare
from recorder.ui.track import TrackCache, segment
from tests.support.server import run

_DATA = re.compile(
    r'<script type="application/[a-z-]+" id="data"( data-coding="deflate")?>(.*?)</script>',
    re.DOTALL,
)


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


def put_together(template: Template, texts: Sequence[str]) -> bytes:
    """The bytes of a template, as the file puts them together."""
    if isinstance(template, dict):
        return base64.b64decode(template["base64"])
    parts = template if isinstance(template, list) else [template]
    return "".join(texts[part] if isinstance(part, int) else part for part in parts).encode()


def raws(data: dict[str, Any], number: int) -> list[bytes]:
    """The bytes of all events of an exchange, put together as the player does."""
    return [
        put_together(raw, data["texts"]) for raw in data["exchanges"][str(number)]["events"]["raw"]
    ]


def document_at(data: dict[str, Any], number: int, pos: int) -> Any:
    """The document of an exchange after an event, as the player computes it at that event's time."""
    t_ns = next(
        each["t"][pos] for each in data["timeline"]["exchanges"] if each["number"] == number
    )
    document: Any = {}
    for at, ops, *when in data["exchanges"][str(number)]["steps"]:
        if at <= pos and (not when or when[0] <= t_ns):
            document = apply(document, deepcopy(ops))
    return document


# -- Tracks of exchanges for tests: their segments, the state that steps make, and what
# `recorder show` has of it


Json = dict[str, Any]


def changed(state: Any, ops: Iterable[Sequence[Any]]) -> Any:
    """A state after operations, as a page applies them: one by one."""
    for verb, path, *value in ops:
        if not path:
            state = value[0]
            continue
        place = state
        for key in path[:-1]:
            place = place[key]
        if verb == "set":
            assert isinstance(place, dict) or path[-1] < len(place)
            place[path[-1]] = value[0]
        elif verb == "add":
            assert isinstance(place[path[-1]], str)
            place[path[-1]] += value[0]
        elif verb == "push":
            place[path[-1]].append(value[0])
        else:
            assert verb == "cut"
            del place[path[-1]]
    return state


def state_at(found: Json, pos: int, t_ns: float) -> Any:
    """The document after an event, of the segment that has it; a page shows it at this time of the
    exchange.
    """
    state, steps = json.loads(json.dumps([found["state"], found["steps"]]))
    for each in steps:
        step_pos, ops, *at = each
        if step_pos < pos or (step_pos == pos and (not at or at[0] <= t_ns)):
            state = changed(state, ops)
    return state


async def tracked(
    log: LogReader, session: str, exchange: str = "1", cache: TrackCache | None = None
) -> list[Json]:
    """All segments of an exchange, as they are sent."""
    cache = cache or TrackCache()
    found: list[Json] = []
    while not found or found[-1]["to"] < found[-1]["last"]:
        at = found[-1]["to"] + 1 if found else 0
        found.append(
            json.loads(msgspec.json.encode(await segment(log, session, exchange, at, cache)))
        )
    return found


async def shown(log: LogReader, session: str, exchange: str = "1", **until: Any) -> Json:
    """The exchange in the JSON of `recorder show SESSION EXCHANGE --json`, at a moment or now."""
    found, chosen = await select_exchanges(log, session, exchange)
    everything = (await select_exchanges(log, found.session_id, None))[1]
    moment = await cutoff(log, everything, chosen, **until)
    encoded = msgspec.json.encode(
        document(await take_snapshot(log, found, everything, chosen, moment))
    )
    [shown] = json.loads(encoded)["exchanges"]
    assert isinstance(shown, dict)
    return shown


async def times(log: LogReader, session: str, exchange: str = "1") -> Mapping[int, int]:
    """The time of each event of an exchange."""
    found, [(_, each)] = await select_exchanges(log, session, exchange)
    return {event.pos: event.t_ns async for event in log.events(found.session_id, each.exchange_id)}


async def require_exact(
    log: LogReader, session: str, exchange: str = "1", positions: Iterable[int] | None = None
) -> list[Json]:
    """Compare the track with what is shown at events, all or some; and now with the state after all
    steps.
    """
    segments, at = await tracked(log, session, exchange), await times(log, session, exchange)
    for pos in at if positions is None else positions:
        [found] = [each for each in segments if each["from"] <= pos <= each["to"]]
        state = state_at(found, pos, at[pos])
        expected = await shown(log, session, exchange, at_event=pos)
        assert state == expected, f"at event {pos} of {max(at)}: {_difference(state, expected)}"
    assert state_at(segments[-1], max(at), float("inf")) == await shown(log, session, exchange)
    return segments


def _difference(state: Any, expected: Any) -> list[Any]:
    ops: list[Any] = []
    compare(state, expected, (), ops)
    return ops
