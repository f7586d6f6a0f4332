"""`recorder show --request`: requests as the model saw them, as text for a person.

Rules of this file:

* Each item stands below the exchange that it is from. What is missing is named where it would stand.
* Whatever was recorded goes through `safe_text`. On a terminal texts are wrapped, and other values are cut to a line.
* Items are shown by what most formats share, `role`, `type` and texts; what else they have is JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.text import Text

from recorder.commands.terminal.conversation import wrapped_lines
from recorder.commands.terminal.table import LEAST_ID, cut
from recorder.model.events import Session
from recorder.model.recording import Recording
from recorder.model.text import counted, safe_text
from recorder.recordings.requests import Shown
from recorder.wire.dialects.json_values import as_json, decoded, text
from recorder.wire.logical_request import LogicalRequest, RequestPart

_INDENT = "  "
_PLAIN = frozenset({"type", "role", "content", "id", "status", "phase"})  # of an item that is shown by its texts alone


def request_lines(session: Session, shown: Shown, width: int | None) -> Iterator[Text]:
    """Yield the lines. `width` is that of the terminal, None in a pipe."""
    session_id = session.session_id if width is None else session.session_id[:LEAST_ID]
    yield Text(f"{_flat(session.name)} · {session_id}", "bold")
    for recording, request in shown:
        yield Text()
        yield from _of_request(recording, request, width)


def _of_request(recording: Recording, request: LogicalRequest, width: int | None) -> Iterator[Text]:
    exchange = recording.exchange
    head = f"{recording.number} · {exchange.method} {exchange.target.partition('?')[0]}"
    yield Text(_flat(head), "bold")
    if not request.fields and not request.parts:
        yield Text(f"The body is not a JSON object: {counted(len(recording.request_body), 'byte')}.", "dim")
    for name, value in request.fields.items():
        if _is_conversation(value):
            yield Text(f"{_flat(name)}:", "dim")
            yield from _of_items(value, width)
        else:
            yield from _field(name, value, width)
    if request.reason is not None:
        yield Text(f"! {safe_text(request.reason)}: what came before is not shown.", "yellow")
    for part in request.parts:
        yield Text(_source(part, recording), "dim")
        yield from _of_items([decoded(bytes(item)) for item in part.items], width)


def _source(part: RequestPart, recording: Recording) -> str:
    if part.source == "output":
        return f"answer of exchange {part.number}:"
    is_own = part.exchange_id == recording.exchange.exchange_id
    return "input:" if is_own else f"input of exchange {part.number}:"


def _is_conversation(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(each, dict) and "role" in each for each in value)


def _field(name: str, value: Any, width: int | None) -> Iterator[Text]:
    """Yield a member of the request: on a terminal in one line."""
    shown = value if isinstance(value, str) else as_json(value)
    if width is None:
        yield from (Text(line) for line in safe_text(f"{name}: {shown}").split("\n"))
    else:
        yield Text(cut(_flat(f"{name}: {shown}"), width))


def _of_items(items: Iterable[Any], width: int | None) -> Iterator[Text]:
    for item in items:
        said = safe_text(_shown(item))
        for number, line in enumerate(wrapped_lines(said, width, 2 * len(_INDENT))):
            yield Text(f"{_INDENT}{'' if number == 0 else _INDENT}{line}".rstrip())


def _shown(item: Any) -> str:
    """Return an item as text: who says it and its words, or its type and what else it has as JSON."""
    if not isinstance(item, dict):
        return as_json(item)
    label = text(item.get("role")) or text(item.get("type")) or "item"
    words = _words(item.get("content"))
    if words is not None and item.keys() <= _PLAIN:
        return f"{label}: {words}"
    rest = {name: each for name, each in item.items() if name not in ("role", "type") or each != label}
    return f"{label}: {as_json(rest)}"


def _words(content: Any) -> str | None:
    """Return the texts of a message; None if it has anything else."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [None]
    texts = [text(part.get("text")) if isinstance(part, Mapping) else None for part in parts]
    return None if None in texts else "\n".join(each for each in texts if each is not None)


def _flat(said: str) -> str:
    return " ".join(safe_text(said).split())
