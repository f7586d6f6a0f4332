"""What is in a cassette or in a session of a database: its rows, and what they come to."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from recorder.cassettes.reading import Reader
from recorder.cassettes.sse_jsonl import CASSETTE_LIMIT, TOO_LARGE
from recorder.errors import RecorderError
from recorder.model.events import Event, Exchange, Session
from recorder.model.facts import Usage
from recorder.model.text import counted
from recorder.projections.fold import Folding, Rows
from recorder.projections.item import ItemRow
from recorder.proxy.recording import new_id
from recorder.testing.stored import all_whole, apart, whole
from recorder.wire.recording import Recorded

Episode = tuple[Exchange, list[Event]]

SOURCE = "test"  # of a session that a test has recorded
SHOWN = 60  # characters of what was said, where a session is shown


class Contents:
    """A session with its exchanges, each with its events. Texts and counts are those of the projections."""

    def __init__(self, session: Session, episodes: Iterable[Episode] = ()) -> None:
        self.session = session
        self.episodes = list(episodes)

    def __repr__(self) -> str:
        counts = f"{counted(len(self.episodes), 'exchange')}, {counted(len(self.events), 'event')}"
        return f"<session {self.session.name!r}: {counts}, text {shortened(self.text, SHOWN)!r}>"

    def recordings(self) -> list[Recorded]:
        """As they can be answered with. Raises `RecorderError` if bytes are missing in one, or too many."""
        return list(all_whole([whole(number, *episode) for number, episode in enumerate(self.episodes, 1)]))

    @property
    def events(self) -> list[Event]:
        """The rows of the log, exchange by exchange."""
        return [event for _, events in self.episodes for event in events]

    @property
    def text(self) -> str:
        """What the model said, one message to a line."""
        return "\n".join(item.text for item in self.items if item.kind == "message" and item.text)

    @property
    def tool_calls(self) -> list[ItemRow]:
        """What the model called: `name`, `arguments`, `call_id` and the other columns of `items`."""
        return [item for item in self.items if item.kind == "tool_call"]

    @property
    def usage(self) -> Usage:
        """The tokens of all exchanges together; `None` is reported by none."""
        rows = [row for each in self._rows for row in each["usage"]]
        told = {name: [n for row in rows if (n := getattr(row, name)) is not None] for name in Usage.__struct_fields__}
        return Usage(**{name: sum(counts) if counts else None for name, counts in told.items()})

    @property
    def items(self) -> list[ItemRow]:
        """All that the model put out, as in the view `items`."""
        return [item for rows in self._rows for item in rows["items"]]

    @cached_property
    def _rows(self) -> list[Rows]:
        return [_folded(*episode) for episode in self.episodes]


def shortened(text: str, limit: int) -> str:
    """A text, with an ellipsis where it is cut."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _folded(exchange: Exchange, events: list[Event]) -> Rows:
    folding = Folding(exchange)
    folding.tell_all(events)
    return folding.rows()


def nothing(name: str) -> Contents:
    """A session of that name in which nothing was recorded yet."""
    return Contents(Session(new_id(), time.time_ns(), name, SOURCE, "{}", "live"))


def in_cassette(path: Path) -> Contents:
    """Raises `RecorderError` with file and line."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > CASSETTE_LIMIT:
                raise TOO_LARGE
            reader = Reader(file)
            episodes = list(reader.exchanges())
            return Contents(reader.session, episodes)
    except (OSError, RecorderError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise RecorderError(f"The cassette {path} cannot be read: {said}.") from error


def in_database(session: str) -> Contents:
    """A session of the database that `RECORDER_DB` names, else of the user's. Raises `RecorderError`."""
    return apart(lambda: _read(session))


async def _read(name: str) -> Contents:
    from recorder.store.location import chosen_url
    from recorder.store.reader import Log

    async with await Log.open(chosen_url(os.environ.get("RECORDER_DB"))) as log:
        session = await log.session(name)
        exchanges = await log.exchanges(session.session_id)
        episodes = [
            (each, [event async for event in log.events(each.session_id, each.exchange_id)]) for each in exchanges
        ]
        return Contents(session, episodes)
