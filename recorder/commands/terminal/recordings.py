"""The loader of recordings as the commands use it: from the log that `--db` names, when that has caught up."""

from __future__ import annotations

from recorder.archive.opening import open_log
from recorder.commands.terminal.catch_up import current_url
from recorder.commands.terminal.selection import select
from recorder.recordings.loader import Loader
from recorder.store.queries.reader import LogReader


def loader(db: str | None) -> Loader:
    """Return the loader for a command. It opens the log only if a session is requested."""

    async def opened() -> LogReader:
        return await open_log(current_url(db))

    return Loader(opened, select)
