"""The views of all sessions, as Parquet files in a folder."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from sqlalchemy import URL

from recorder.archive.opening import open_log
from recorder.commands.terminal.options import current_url
from recorder.commands.terminal.output import echo
from recorder.commands.terminal.progress import progress_bar
from recorder.commands.terminal.recordings import located, say_if_stale
from recorder.exports.parquet.export import Selection, export
from recorder.model.text import counted
from recorder.program import load
from recorder.store.queries.session_named import session_named


def write(
    db: str | None,
    folder: Path,
    since: int | None,
    only: str | None,
    with_events: bool,
    anonymous: bool,
) -> None:
    if anonymous:
        with load("recorder.commands.terminal.anonymous_log:anonymous_sessions")(
            db, only, since
        ) as place:
            _write(place.url, place.session or None, folder, since, with_events)
    elif only is None:
        _write(current_url(db), None, folder, since, with_events)
    else:
        with located(db, only) as place:
            _write(place.url, place.session, folder, since, with_events)


def _write(url: URL, only: str | None, folder: Path, since: int | None, with_events: bool) -> None:
    selection = Selection(asyncio.run(_session_id(url, only)), since, with_events)
    with progress_bar("Exporting", len(selection.datasets())) as move:
        done = export(url, folder, selection, time.time_ns(), lambda part: move(advance=part))
    echo(
        f"{counted(done.rows, 'row')} of {counted(done.days, 'day')} in {done.datasets} datasets: {folder}"
    )
    if done.open:
        echo(f"{counted(done.open, 'exchange')} had not ended: export the day again later.")


async def _session_id(url: URL, ref: str | None) -> str | None:
    """Return the id of the session to which an export is limited, before DuckDB opens the log:
    never both at once.
    """
    async with await open_log(url) as log:
        await say_if_stale(log)
        return None if ref is None else (await session_named(log, ref)).session_id
