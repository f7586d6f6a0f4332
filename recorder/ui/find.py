"""The events of a session that have a text in their bytes, whatever their format is."""

from __future__ import annotations

import json
from typing import Any

from recorder.errors import UsageError
from recorder.recordings.selection import select_exchanges
from recorder.store.queries.reader import LogReader

FOUND_LIMIT = 20_000  # events of one answer: more than somebody looks through
TEXT_CHARS = 200  # of what is looked for: a longer one is not typed


async def events_with(log: LogReader, session_ref: str, text: str | None) -> dict[str, Any]:
    """Return the positions of the events with a text by the number of their exchange, and whether these are all.

    Case counts only beyond ASCII. A text is found as it is, and as JSON writes it with escapes.
    """
    if not text or len(text) > TEXT_CHARS:
        raise UsageError(f"Give a text of 1 to {TEXT_CHARS} characters to look for.")
    plain = text.encode("utf-8", "replace").lower()
    escaped = json.dumps(text)[1:-1].encode().lower()
    session, numbered = await select_exchanges(log, session_ref, None)
    found: dict[int, list[int]] = {}
    total = 0
    for number, exchange in numbered:
        positions = []
        async for event in log.events(session.session_id, exchange.exchange_id):
            raw = event.raw.lower()
            if plain in raw or escaped in raw:
                positions.append(event.pos)
        if positions:
            found[number] = positions[: FOUND_LIMIT - total]
        total += len(positions)
        if total > FOUND_LIMIT:
            break
    return {"events": found, "is_all": total <= FOUND_LIMIT}
